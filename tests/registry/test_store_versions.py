"""A resource that is stored as v1 and also served as v2, by a converter that computes, and by one that has to be asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.conversion.converter import NoneConverter
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import DeleteOptions, Sharing, WriteRequest
from aggserver.registry.store import Store
from tests.registry.world import (
    DRY,
    GROUP,
    WRITE,
    AskedConverter,
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

V1, V2 = f"{GROUP}/v1", f"{GROUP}/v2"


@pytest.fixture(params=[NoneConverter, AskedConverter])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    world = World(request.param())
    await world.storage.start()
    yield world
    await world.storage.close()


async def test_read_in_another_version(store: Store, v2: Store) -> None:
    first = await create(store, spec={"replicas": 1, "color": "red"})
    obj = (await v2.get(context(), "a")).decoded()
    # Only apiVersion is converted; fields that v2 doesn't know are pruned.
    assert obj == {**first, "apiVersion": V2, "spec": {"replicas": 1}}
    assert (await store.get(context(), "a")).decoded() == first


async def test_created_in_another_version(world: World, store: Store, v2: Store) -> None:
    obj = crontab(version="v2")
    obj["spec"] = {"replicas": 1, "paused": True}
    written = (await v2.create(WriteRequest(context(), WRITE), obj)).decoded()
    # The response is the stored object in v2: it has no `paused`, since v1, the stored version, doesn't know it.
    assert (written["apiVersion"], written["spec"]) == (V2, {"replicas": 1})
    assert ((await world.stored("a"))["apiVersion"], (await world.stored("a"))["spec"]) == (V1, {"replicas": 1})
    assert (await store.get(context(), "a")).decoded()["apiVersion"] == V1


async def test_dry_run_in_another_version(world: World, v2: Store) -> None:
    obj = crontab(version="v2")
    assert (await v2.create(WriteRequest(context(), DRY), obj)).decoded()["apiVersion"] == V2
    assert await world.storage.revision() == 1


async def test_another_version_in_the_body(v2: Store) -> None:
    error = await refused(v2.create(WriteRequest(context(), WRITE), crontab(version="v1")))
    assert error.message == f'CronTab.{GROUP} "a" is invalid: apiVersion: Invalid value: "{V1}": must be {V2}'


async def test_updated_in_another_version(world: World, store: Store, v2: Store) -> None:
    await create(store, spec={"replicas": 1, "color": "red"})
    written = (await change(v2, "a", lambda obj: obj["spec"].update(replicas=2))).decoded()
    assert (written["apiVersion"], written["spec"], written["metadata"]["generation"]) == (V2, {"replicas": 2}, 2)
    stored = await world.stored("a")
    assert (stored["apiVersion"], stored["spec"]) == (V1, {"replicas": 2})


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_only_an_object_of_its_own_version_is_shared_with_a_write(world: World, version: str) -> None:
    """A converted one may lack defaults of the version, which would be added to the current object too."""
    await create(world.store(), spec={"replicas": 1})

    async def transform(current: JSONObject) -> JSONObject:
        current["spec"]["replicas"] = 2
        return dict(current)

    await world.store(version).update(WriteRequest(context(), WRITE), "a", Sharing(transform))
    # What is changed in place is a change only if the current object is another one.
    assert (await world.stored("a"))["metadata"]["generation"] == (1 if version == "v1" else 2)


async def test_no_change_in_another_version_is_no_write(store: Store, v2: Store) -> None:
    await create(store)
    assert (await replace(v2, (await v2.get(context(), "a")).decoded()))["metadata"]["resourceVersion"] == "2"


async def test_no_change_in_a_version_that_knows_less_is_one(store: Store, v2: Store) -> None:
    await create(store, spec={"replicas": 1, "color": "red"})
    written = await replace(v2, (await v2.get(context(), "a")).decoded())
    assert (written["metadata"]["resourceVersion"], written["metadata"]["generation"]) == ("3", 1)
    assert (await store.get(context(), "a")).decoded()["spec"] == {"replicas": 1}


async def test_status_in_another_version(world: World, store: Store, v2: Store) -> None:
    await create(store)
    written = await change(world.status(v2), "a", lambda obj: obj.update(status={"ready": True}))
    assert written.decoded()["apiVersion"] == V2
    assert (await store.get(context(), "a")).decoded()["status"] == {"ready": True}


async def test_deleted_in_another_version(world: World, store: Store, v2: Store) -> None:
    await create(store, metadata={"finalizers": ["x/y"]})
    # A converter that has to be asked is not: the response has the object as it is stored.
    shown = V1 if world.converter.at_once is None else V2
    assert (await delete(v2)).object.decoded()["apiVersion"] == shown
    assert (await store.get(context(), "a")).decoded()["apiVersion"] == V1
    await change(v2, "a", lambda obj: obj["metadata"].pop("finalizers"))
    assert (await refused(store.get(context(), "a"))).code == 404
    await create(store, "b")
    gone = await delete(v2, "b")
    assert (gone.gone, gone.object.decoded()["apiVersion"], gone.object.revision) == (True, shown, 6)


async def test_listed_in_another_version(store: Store, v2: Store) -> None:
    for number in range(250):
        await create(store, f"a-{number:03}")
    found = await v2.list(context(), selection())
    assert [obj.revision for obj in found.items] == list(range(2, 252))
    assert {obj.decoded()["apiVersion"] for obj in found.items} == {V2}
    page = await v2.list(context(), selection(limit=2))
    assert len((await v2.list(context(), selection(limit=2, continue_token=page.continue_token))).items) == 2


async def test_collection_in_another_version(world: World, store: Store, v2: Store) -> None:
    await create(store)
    found = await v2.delete_collection(context(), DeleteOptions(), selection())
    assert found.items[0].decoded()["apiVersion"] == (V1 if world.converter.at_once is None else V2)
    assert (await store.list(context(), selection())).items == []


async def test_selected_by_a_field_of_the_requested_version(store: Store, v2: Store) -> None:
    await create(store, "a", spec={"color": "red"})
    await create(store, "b", spec={"color": "blue"})
    for one, names in ((store, ["a"]), (v2, [])):  # v2 does not know colors
        found = await one.list(context(), selection(fields="spec.color=red"))
        assert [obj.decoded()["metadata"]["name"] for obj in found.items] == names


async def test_stored_in_two_versions(world: World, store: Store, v2: Store) -> None:
    """Objects are stored in two versions after a change of the storage version."""
    await create(store, "a")
    raw = b'{"apiVersion":"%s","kind":"CronTab","metadata":{"name":"b","namespace":"default"},"spec":{"paused":true}}'
    await world.storage.create(f"/{GROUP}/crontabs/default/b", raw.replace(b"%s", V2.encode()))
    for one in (store, v2):
        version = one.strategy.info.api_version
        found = await one.list(context(), selection())
        assert [(obj.decoded()["metadata"]["name"], obj.decoded()["apiVersion"]) for obj in found.items] == [
            ("a", version),
            ("b", version),
        ]
    # A write migrates the object to the storage version.
    await change(v2, "b", lambda obj: obj["spec"].update(replicas=3))
    assert (await world.stored("b"))["apiVersion"] == V1


async def test_watched_in_both_versions(store: Store, v2: Store) -> None:
    await create(store)
    seen = [await watching(one, resource_version="2") for one in (store, v2, v2, v2)]
    await change(store, "a", lambda obj: obj["spec"].update(color="red"))
    await delete(store)
    told: list[Any] = [await one.next(2) for one in seen]
    assert told == [[("MODIFIED", "a", 3), ("DELETED", "a", 4)]] * 4
    versions = [[obj.decoded()["apiVersion"] for obj in one.objects] for one in seen]
    assert versions == [[V1, V1], [V2, V2], [V2, V2], [V2, V2]]
    assert seen[1].objects[0].decoded()["spec"] == {"replicas": 1}
    # Each event was converted once for all watchers of a version, which share the result.
    assert seen[1].objects[0] is seen[2].objects[0]


async def test_the_state_in_another_version(store: Store, v2: Store) -> None:
    await create(store)
    seen = await watching(v2, send_initial_events=True, allow_bookmarks=True)
    assert await seen.next(2) == [("ADDED", "a", 2), ("BOOKMARK", "end", 2)]
    assert seen.objects[0].decoded()["apiVersion"] == V2


async def test_own_store(world: World) -> None:
    """One of the server's own kinds: a single version, nothing pruned."""
    store = world.environment.own_store(world.strategy(has_status=False))
    await create(store, spec={"unknown": 1})
    assert (await store.get(context(), "a")).decoded()["spec"] == {"unknown": 1}
    assert len((await store.list(context(), selection(fields="metadata.name=a"))).items) == 1
