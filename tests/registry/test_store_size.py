"""Limits of an object's size: when it is written, and when the defaults of a changed definition make it larger."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry import views
from aggserver.registry.rest import DeleteOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.storage.interface import TooLarge
from tests.registry.world import (
    DRY,
    GROUP,
    WRITE,
    World,
    change,
    context,
    create,
    crontab,
    delete,
    refused,
    replace,
    selection,
    watching,
)

LIMIT = 2000
KEY = f"/{GROUP}/crontabs/default/a"


@pytest.fixture
def small(world: World) -> Store:
    world.environment = dataclasses.replace(world.environment, max_object_bytes=LIMIT)
    return world.store()


def filled(obj: JSONObject, size: int) -> JSONObject:
    obj["spec"] = {"anything": "x" * size}
    return obj


async def adopted(world: World, size: int, **metadata: Any) -> None:
    """Store an object as another server would, without a limit."""
    obj = filled(crontab(uid="u", creationTimestamp="2026-01-01T00:00:00Z", generation=1, **metadata), size)
    obj["metadata"].setdefault("namespace", "default")
    await world.storage.create(KEY, codec.encode_json(obj))


def too_large(error: errors.StatusError) -> bool:
    told = (error.code, error.reason, error.message)
    return told == (413, "RequestEntityTooLarge", f"Request entity too large: limit is {LIMIT}")


Write = Callable[[World, Store], Awaitable[Any]]

# Writes that would make an object too large.
GROWING: dict[str, Write] = {
    "create": lambda world, store: store.create(WriteRequest(context(), WRITE), filled(crontab("b"), LIMIT)),
    "create, dry run": lambda world, store: store.create(WriteRequest(context(), DRY), filled(crontab("b"), LIMIT)),
    "create in another version": lambda world, store: world.store("v2").create(
        WriteRequest(context(), WRITE), filled(crontab("b", "v2"), LIMIT)
    ),
    "update": lambda world, store: change(store, "a", lambda obj: filled(obj, LIMIT)),
    "update, dry run": lambda world, store: change(store, "a", lambda obj: filled(obj, LIMIT), DRY),
    "status": lambda world, store: change(world.status(store), "a", lambda obj: obj.update(status={"x": "x" * LIMIT})),
    "labels": lambda world, store: change(store, "a", lambda obj: obj["metadata"].update(annotations={"x": "x" * LIMIT})),
}


@pytest.mark.parametrize("write", GROWING.values(), ids=GROWING)
async def test_too_large(world: World, small: Store, write: Write) -> None:
    before = await create(small)
    revision = await world.storage.revision()
    assert too_large(await refused(write(world, small)))
    assert await world.storage.revision() == revision
    assert (await small.get(context(), "a")).decoded() == before


async def test_the_limit_itself(world: World, small: Store) -> None:
    size = len(codec.encode_json(await world.stored((await create(small))["metadata"]["name"])))
    obj = (await change(small, "a", lambda obj: filled(obj, 0))).decoded()
    size = len(codec.encode_json(await world.stored("a")))
    await change(small, "a", lambda obj: filled(obj, LIMIT - size))
    assert len(codec.encode_json(await world.stored("a"))) == LIMIT
    assert too_large(await refused(change(small, "a", lambda obj: filled(obj, LIMIT - size + 1))))
    assert obj["metadata"]["name"] == "a"


async def test_what_is_larger_already_is_read_and_may_shrink(world: World, small: Store) -> None:
    await adopted(world, 3 * LIMIT)
    assert len((await small.get(context(), "a")).decoded()["spec"]["anything"]) == 3 * LIMIT
    assert len((await small.list(context(), selection())).items) == 1
    assert too_large(await refused(change(small, "a", lambda obj: filled(obj, 3 * LIMIT + 1))))
    await change(small, "a", lambda obj: filled(obj, 3 * LIMIT - 1))
    await change(small, "a", lambda obj: filled(obj, LIMIT + 1))
    await change(small, "a", lambda obj: filled(obj, 1))
    assert too_large(await refused(change(small, "a", lambda obj: filled(obj, LIMIT))))


async def test_what_is_larger_already_may_be_deleted(world: World, small: Store) -> None:
    """Even with a finalizer, so that deletionTimestamp makes it larger still."""
    await adopted(world, 3 * LIMIT, finalizers=["example.com/hold"])
    assert not (await delete(small)).gone
    assert "deletionTimestamp" in (await world.stored("a"))["metadata"]
    await change(small, "a", lambda obj: obj["metadata"].update(finalizers=[]))
    assert await world.storage.get(KEY) is None


async def test_what_the_server_adds_is_not_refused(small: Store) -> None:
    await create(small)
    options = WriteOptions(field_manager="aggserver", bounded=False)
    await change(small, "a", lambda obj: filled(obj, LIMIT), options)


async def test_what_the_store_finds_too_large(world: World, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(*_: Any) -> int:
        raise TooLarge("etcdserver: request is too large")

    await create(store)
    monkeypatch.setattr(world.storage, "create", refuses)
    monkeypatch.setattr(world.storage, "update", refuses)
    for write in (create(store, "b"), change(store, "a", lambda obj: filled(obj, 10))):
        error = await refused(write)
        assert (error.code, error.reason) == (413, "RequestEntityTooLarge")
        assert error.message == "Request entity too large: etcdserver: request is too large"


# --- a definition whose defaults make it larger ---


class Growing:
    """Acts as a definition whose defaults add `size` bytes to each stored object, or too many."""

    def __init__(self, world: World, size: int) -> None:
        self.calls = 0
        self._size = size
        store = world.store()
        world._storages[True] = dataclasses.replace(store._resource, conform_stored=self)
        self.store = world.store()

    def __call__(self, obj: JSONObject) -> None:
        self.calls += 1
        obj["spec"]["added"] = "x" * self._size
        if self._size > LIMIT:
            raise errors.ObjectTooLarge(LIMIT)


async def test_with_its_defaults_it_can_not_be_shown(world: World, small: Store) -> None:
    await adopted(world, 1)
    store = Growing(world, 2 * LIMIT).store
    seen = await watching(store, send_initial_events=True)
    for reading in (store.get(context(), "a"), store.list(context(), selection()), seen.next(1)):
        error = await refused(reading)
        assert (error.code, error.reason) == (500, "InternalError")
        assert f"{KEY} can't be read: the defaults of its definition add more than {LIMIT} bytes to it" in error.message


async def test_what_can_not_be_shown_can_be_changed_and_deleted(world: World, small: Store) -> None:
    await adopted(world, 1)
    store = Growing(world, 2 * LIMIT).store
    await change(store, "a", lambda obj: filled(obj, 2))
    stored = await world.stored("a")
    assert stored["spec"] == {"anything": "xx"}
    await replace(store, {**stored, "metadata": {**stored["metadata"], "resourceVersion": str(await world.storage.revision())}})
    # The result of the update, which has no defaults, is not cached as a view that has them.
    assert (await refused(store.get(context(), "a"))).code == 500
    await store.delete_collection(context(), DeleteOptions(), selection())
    assert await world.storage.get(KEY) is None


async def test_what_is_remembered_is_bounded(world: World, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        await create(store, name)
    world.restarted()
    growing = Growing(world, 1000)
    monkeypatch.setattr(views, "_MAX_GROWTH", 2500)
    for name in ("a", "b", "c"):
        await growing.store.get(context(), name)
    assert growing.calls == 3
    for name in ("a", "b", "c"):
        assert len((await growing.store.get(context(), name)).decoded()["spec"]["added"]) == 1000
    assert growing.calls == 4  # the third was not cached


@pytest.mark.parametrize(("missing", "looked_into_again"), [(0, []), (1, ["b"])])
async def test_what_shrinks_makes_no_room(
    world: World, store: Store, monkeypatch: pytest.MonkeyPatch, missing: int, looked_into_again: list[str]
) -> None:
    """Two objects that grow are remembered after five that shrink or stay as they are, up to the last byte."""
    shrinking = [f"s{number}" for number in range(5)]
    for name in (*shrinking, "a", "b"):
        await create(store, name)
    world.restarted()
    looked_into: list[str] = []

    def conform_stored(obj: JSONObject) -> None:
        name = obj["metadata"]["name"]
        looked_into.append(name)
        if name in ("a", "b"):
            obj["spec"]["added"] = "x"
        elif name != "s0":
            obj["spec"] = {}

    world._storages[True] = dataclasses.replace(world.store()._resource, conform_stored=conform_stored)
    store = world.store()
    monkeypatch.setattr(views, "_MAX_GROWTH", 2 * len(',"added":"x"') - missing)
    for name in (*shrinking, "a", "b"):
        await store.get(context(), name)
    looked_into.clear()
    for name in (*shrinking, "a", "b"):
        await store.get(context(), name)
    assert looked_into == looked_into_again


async def test_a_list_that_grows_too_much_is_refused_but_its_pages_are_not(
    world: World, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        await create(store, name)
    world.restarted()
    growing = Growing(world, 1000)
    monkeypatch.setattr(views, "_MAX_GROWTH", 2500)
    error = await refused(growing.store.list(context(), selection()))
    assert (error.code, error.reason) == (500, "InternalError")
    assert "crontabs can't be listed: the defaults of their definition add more than 2500 bytes to them" in error.message
    page = await growing.store.list(context(), selection(limit=2))
    assert [obj.key[-1] for obj in page.items if isinstance(obj, StoredObject)] == ["a", "b"]
