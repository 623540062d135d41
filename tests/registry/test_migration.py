"""Rewriting stored objects in the storage version, which is v1 here."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from aggserver.conversion.converter import ConversionError, NoneConverter
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.migration import Rewriter, Rewritten
from aggserver.storage.interface import KeyValue, Precondition, StorageError, TooLarge, Unavailable
from tests.registry.world import GROUP, Seen, World, context, create, selection

PREFIX = f"/{GROUP}/crontabs/default/"


def old(name: str, **spec: Any) -> JSONObject:
    """An object as it is stored in v2."""
    metadata = {
        "labels": {"app": "x"},
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "generation": 3,
        "creationTimestamp": "2020-01-02T03:04:05Z",
        "managedFields": [{"manager": "m", "operation": "Update", "apiVersion": f"{GROUP}/v2", "time": "2021-01-02T03:04:05Z"}],
    }
    return {"apiVersion": f"{GROUP}/v2", "kind": "CronTab", "metadata": metadata, "spec": {"replicas": 1, **spec}}


def encoded(obj: Any) -> bytes:
    return json.dumps(obj, separators=(",", ":")).encode()


async def plant(world: World, *names: str, **spec: Any) -> list[KeyValue]:
    for name in names:
        await world.storage.create(PREFIX + name, encoded(old(name, **spec)))
    return list((await world.storage.list(PREFIX)).items)


def rewriter(world: World) -> Rewriter:
    return Rewriter(world._resource(True), "CronTab")


class Refusing(NoneConverter):
    """Refuses objects with certain names. told: whether the error says which object it is."""

    def __init__(self, *names: str, told: bool = True, answered: bool = True) -> None:
        super().__init__()
        self._names = names
        self._told = told
        self._answered = answered
        self.batches: list[int] = []

    async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
        self.batches.append(len(objects))
        for index, obj in enumerate(objects):
            if obj["metadata"]["name"] in self._names:
                why = f"not {obj['metadata']['name']}"
                raise ConversionError(why, index if self._told else None, answered=self._answered)
        return await super().convert(objects, api_version)


async def test_only_the_version_changes(world: World) -> None:
    items = await plant(world, "a", paused=True, anything=[1])
    watch = Seen(await world.store().watch(context(), selection(resource_version=str(items[0].revision))))
    assert await rewriter(world).rewrite(items) == Rewritten(done=1)
    after = await world.stored("a")
    assert after == {**old("a", anything=[1]), "apiVersion": f"{GROUP}/v1"}  # v1 has no `paused`
    assert await watch.next(1) == [("MODIFIED", "a", items[0].revision + 1)]
    (again,) = (await world.storage.list(PREFIX)).items
    assert rewriter(world).is_current(again)
    assert again.create_revision == items[0].create_revision


@pytest.mark.parametrize(
    ("value", "is_current"),
    [
        pytest.param(encoded(old("a")), False, id="another version"),
        pytest.param(encoded({**old("a"), "apiVersion": f"{GROUP}/v1"}), True, id="the storage version"),
        pytest.param(encoded({**old("a"), "apiVersion": f"{GROUP}/v10"}), False, id="a version that begins the same"),
        pytest.param(
            encoded(dict(sorted({**old("a"), "apiVersion": f"{GROUP}/v1", "a": 1}.items()))), True, id="a member before it"
        ),
        pytest.param(b'{"a":1', False, id="unreadable"),
        pytest.param(b"[1]", False, id="no object"),
    ],
)
def test_is_current(world: World, value: bytes, is_current: bool) -> None:
    assert rewriter(world).is_current(KeyValue(PREFIX + "a", value, 2, 2)) is is_current


def test_what_is_damaged_is_not_current(world: World) -> None:
    value = encoded({**old("a"), "apiVersion": f"{GROUP}/v1"})
    assert not rewriter(world).is_current(KeyValue(PREFIX + "a", value, 2, 2, "checksum"))


@pytest.mark.parametrize(
    ("converter", "failed", "batches"),
    [
        pytest.param(Refusing("b"), {"b": "not b"}, [4, 3], id="says which"),
        pytest.param(Refusing("a", "d"), {"a": "not a", "d": "not d"}, [4, 3, 2], id="says which, one after the other"),
        pytest.param(Refusing("c", told=False), {"c": "not c"}, [4, 1, 1, 1, 1], id="refuses the batch"),
        pytest.param(Refusing("a", answered=False), dict.fromkeys("abcd", "not a"), [4], id="can't be reached"),
    ],
)
async def test_one_that_fails_keeps_no_other_from_it(
    world: World, converter: Refusing, failed: dict[str, str], batches: list[int]
) -> None:
    world.converter = converter  # type: ignore[assignment]
    result = await rewriter(world).rewrite(await plant(world, "a", "b", "c", "d"))
    assert result == Rewritten(done=4 - len(failed), failed={PREFIX + name: why for name, why in failed.items()})
    assert converter.batches == batches
    for name in "abcd":
        assert (await world.stored(name))["apiVersion"] == f"{GROUP}/{'v2' if name in failed else 'v1'}"


async def test_a_converter_that_refuses_everything_is_not_asked_for_each_object(world: World) -> None:
    names = [f"n{number:02}" for number in range(30)]
    world.converter = converter = Refusing(*names, told=False)  # type: ignore[assignment]
    result = await rewriter(world).rewrite(await plant(world, *names))
    assert (result.done, len(result.failed)) == (0, 30)
    assert len(converter.batches) == 6


async def test_an_unreadable_object_is_named(world: World) -> None:
    await world.storage.create(PREFIX + "bad", b'{"apiVersion":"x/v2","kind":"CronTab","metadata":{"name":')
    result = await rewriter(world).rewrite(await plant(world, "good"))
    assert (result.done, list(result.failed)) == (1, [PREFIX + "bad"])
    assert result.failed[PREFIX + "bad"].startswith("it can't be read: ")


async def _update_v1(world: World, item: KeyValue) -> None:
    await world.storage.update(item.key, encoded({**old("a", color="new"), "apiVersion": f"{GROUP}/v1"}), item.revision)


async def _update_v2(world: World, item: KeyValue) -> None:
    await world.storage.update(item.key, encoded(old("a", anything="new")), item.revision)


async def _delete(world: World, item: KeyValue) -> None:
    await world.storage.delete(item.key, item.revision)


@pytest.mark.parametrize(
    ("meanwhile", "result", "spec"),
    [
        pytest.param(
            _update_v1, Rewritten(done=1, overtaken=1), {"replicas": 1, "color": "new"}, id="written in the storage version"
        ),
        pytest.param(_update_v2, Rewritten(done=1), {"replicas": 1, "anything": "new"}, id="written in the old version"),
        pytest.param(_delete, Rewritten(done=1), None, id="deleted"),
    ],
)
async def test_what_others_write_meanwhile_is_kept(
    world: World, meanwhile: Callable[[World, KeyValue], Awaitable[None]], result: Rewritten, spec: Any
) -> None:
    items = await plant(world, "a")
    await meanwhile(world, items[0])
    assert await rewriter(world).rewrite(items) == result
    if spec is None:
        assert await world.storage.get(PREFIX + "a") is None
    else:
        stored = await world.stored("a")
        assert (stored["apiVersion"], stored["spec"]) == (f"{GROUP}/v1", spec)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(TooLarge("etcd: request is too large"), False), (Unavailable("disk full"), True)],
    ids=["too large", "full"],
)
async def test_errors_of_the_store(world: World, monkeypatch: pytest.MonkeyPatch, error: StorageError, raised: bool) -> None:
    items = await plant(world, "a")

    async def update(key: str, value: bytes, expected: int, guard: Precondition | None = None) -> int:
        raise error

    monkeypatch.setattr(world.storage, "update", update)
    if raised:
        with pytest.raises(Unavailable):
            await rewriter(world).rewrite(items)
    else:
        assert (await rewriter(world).rewrite(items)).failed == {PREFIX + "a": str(error)}


async def test_a_status_error_of_a_converter_counts_as_one_that_answered(world: World) -> None:
    class Broken(NoneConverter):
        async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
            raise StatusError(500, "", "broken")

    world.converter = Broken()  # type: ignore[assignment]
    result = await rewriter(world).rewrite(await plant(world, "a", "b"))
    assert result.failed == {PREFIX + "a": "broken", PREFIX + "b": "broken"}


async def test_a_new_object_is_current(world: World) -> None:
    await create(world.store())
    (item,) = (await world.storage.list(PREFIX)).items
    assert rewriter(world).is_current(item)


async def test_what_the_conversion_makes_too_large_is_named(world: World) -> None:
    class Growing(NoneConverter):
        async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
            made = await super().convert(objects, api_version)
            for obj in made:
                obj["spec"]["anything"] = "x" * 2000
            return made

    world.converter = Growing()  # type: ignore[assignment]
    world.environment = replace(world.environment, max_object_bytes=1000)
    result = await rewriter(world).rewrite(await plant(world, "a"))
    assert (result.done, list(result.failed)) == (0, [PREFIX + "a"])
    assert (await world.stored("a"))["apiVersion"] == f"{GROUP}/v2"
