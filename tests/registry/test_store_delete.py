from __future__ import annotations

from typing import Any

import pytest

from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import DeleteOptions
from aggserver.registry.store import Store
from tests.registry.world import (
    GROUP,
    NOW_TEXT,
    Validating,
    World,
    change,
    context,
    create,
    crontab,
    delete,
    refused,
    selection,
    watching,
)

# Upstream's error names the kind here, but the plural for updates.
CONFLICT = f'Operation cannot be fulfilled on CronTab.{GROUP} "a": '


async def test_at_once(world: World, store: Store) -> None:
    await create(store)
    seen = await watching(store, resource_version="2")
    result = await delete(store)
    assert result.gone
    assert result.object.decoded()["metadata"]["resourceVersion"] == "3"
    assert await seen.next(1) == [("DELETED", "a", 3)]
    assert (await refused(delete(store))).message == f'crontabs.{GROUP} "a" not found'


PRECONDITIONS: dict[str, tuple[dict[str, Any], str]] = {
    "uid": (
        {"uid": "other"},
        "the UID in the precondition (other) does not match the UID in record (uid-1). "
        "The object might have been deleted and then recreated",
    ),
    "resourceVersion": (
        {"resource_version": "1"},
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (2). "
        "The object might have been modified",
    ),
    "an empty resourceVersion": (
        {"resource_version": ""},
        "the ResourceVersion in the precondition () does not match the ResourceVersion in record (2). "
        "The object might have been modified",
    ),
    "both": (
        {"uid": "other", "resource_version": "1"},
        "the UID in the precondition (other) does not match the UID in record (uid-1). "
        "The object might have been deleted and then recreated",
    ),
}


@pytest.mark.parametrize("case", PRECONDITIONS)
async def test_preconditions(store: Store, case: str) -> None:
    options, why = PRECONDITIONS[case]
    await create(store)
    error = await refused(delete(store, **options))
    assert (error.code, error.message, error.kind) == (409, CONFLICT + why, "CronTab")
    await store.get(context(), "a")


async def test_preconditions_that_hold(store: Store) -> None:
    await create(store)
    assert (await delete(store, uid="uid-1", resource_version="2")).gone


# options, finalizers before -> finalizers after; None: it was removed.
POLICIES: dict[str, tuple[dict[str, Any], list[str], list[str] | None]] = {
    "none": ({}, [], None),
    "background": ({"propagation": "Background"}, [], None),
    "foreground": ({"propagation": "Foreground"}, [], ["foregroundDeletion"]),
    "orphan": ({"propagation": "Orphan"}, [], ["orphan"]),
    "orphanDependents": ({"orphan_dependents": True}, [], ["orphan"]),
    "no orphanDependents": ({"orphan_dependents": False}, [], None),
    "others stay first": ({"propagation": "Foreground"}, ["x/y"], ["x/y", "foregroundDeletion"]),
    "one that is there stays": ({}, ["orphan", "x/y"], ["orphan", "x/y"]),
    "a policy replaces it": ({"propagation": "Foreground"}, ["orphan", "x/y"], ["x/y", "foregroundDeletion"]),
    "a policy removes it": ({"propagation": "Background"}, ["foregroundDeletion", "x/y"], ["x/y"]),
    "a policy removes the last": ({"propagation": "Background"}, ["orphan"], None),
    "no orphanDependents removes both": ({"orphan_dependents": False}, ["foregroundDeletion"], None),
    "finalizers alone": ({}, ["x/y"], ["x/y"]),
}


@pytest.mark.parametrize("dry_run", [False, True], ids=["for good", "dry run"])
@pytest.mark.parametrize("case", POLICIES)
async def test_finalizers(world: World, store: Store, case: str, dry_run: bool) -> None:
    options, before, after = POLICIES[case]
    await create(store, metadata={"finalizers": before} if before else {})
    result = await delete(store, dry_run=dry_run, **options)
    assert result.gone is (after is None)
    if after is not None:
        found = result.object.decoded()["metadata"]
        assert found["finalizers"] == after
        assert (found["deletionTimestamp"], found["deletionGracePeriodSeconds"], found["generation"]) == (NOW_TEXT, 0, 2)
    if dry_run:
        assert await world.storage.revision() == 2
    elif after is None:
        assert (await refused(store.get(context(), "a"))).code == 404
    else:
        assert (await store.get(context(), "a")).decoded() == result.object.decoded()


async def test_a_pending_deletion_is_one_modification(world: World, store: Store) -> None:
    await create(store, metadata={"finalizers": ["x/y"]})
    seen = await watching(store, resource_version="2")
    await delete(store)
    assert await seen.next(1) == [("MODIFIED", "a", 3)]
    world.clock.advance(60)
    again = await delete(store)
    assert not again.gone
    assert again.object.decoded()["metadata"]["deletionTimestamp"] == NOW_TEXT
    assert again.object.decoded()["metadata"]["resourceVersion"] == "3"
    assert await seen.nothing_more()


async def test_a_second_delete_may_change_the_policy(store: Store) -> None:
    await create(store, metadata={"finalizers": ["x/y"]})
    await delete(store)
    result = await delete(store, propagation="Foreground")
    found = result.object.decoded()["metadata"]
    assert (found["finalizers"], found["generation"]) == (["x/y", "foregroundDeletion"], 2)
    assert (await refused(delete(store, uid="other"))).code == 409


async def test_an_object_without_generation_gets_none(store: Store, world: World) -> None:
    raw = codec.encode_json(crontab(namespace="default", finalizers=["x/y"]))
    await world.storage.create(f"/{GROUP}/crontabs/default/a", raw)
    assert "generation" not in (await delete(store)).object.decoded()["metadata"]


async def test_admission_sees_what_goes(store: Store) -> None:
    before = await create(store)
    seen: list[Any] = []

    async def admit(obj: JSONObject | None, old: JSONObject | None) -> None:
        seen.append((obj, old))
        raise errors.forbidden(GROUP, "crontabs", "a", "no")

    assert (await refused(store.delete(context(), "a", DeleteOptions(), Validating(admit)))).code == 403
    assert seen == [(None, before)]
    await store.get(context(), "a")


async def test_a_lost_race_is_run_again(store: Store) -> None:
    await create(store)
    versions: list[str] = []

    async def admit(obj: JSONObject | None, old: JSONObject | None) -> None:
        assert old is not None
        versions.append(old["metadata"]["resourceVersion"])
        if len(versions) == 1:
            await change(store, "a", lambda obj: obj["metadata"].update(finalizers=["x/y"]))

    assert not (await store.delete(context(), "a", DeleteOptions(), Validating(admit))).gone
    assert versions == ["2", "3"]


# --- collections ---


async def names(store: Store, namespace: str = "default") -> list[str]:
    found = await store.list(context(namespace), selection())
    return [obj.decoded()["metadata"]["name"] for obj in found.items]


async def test_collection_by_selector(store: Store) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"x": "1"})):
        await create(store, name, metadata={"labels": labels})
    await create(store, "a", namespace="other", metadata={"labels": {"x": "1"}})
    found = await store.delete_collection(context(), DeleteOptions(), selection("x=1"))
    assert [obj.decoded()["metadata"]["name"] for obj in found.items] == ["a", "c"]
    assert await names(store) == ["b"]
    assert await names(store, "other") == ["a"]


async def test_collection_over_all_namespaces(store: Store) -> None:
    for namespace in ("one", "two"):
        await create(store, "a", namespace=namespace)
    await store.delete_collection(context(""), DeleteOptions(), selection())
    assert await names(store, "") == []


async def test_collection_of_many(store: Store) -> None:
    for number in range(150):
        await create(store, f"a-{number}", metadata={"finalizers": ["x/y"]} if number == 70 else {})
    found = await store.delete_collection(context(), DeleteOptions(), selection())
    assert len(found.items) == 150
    assert await names(store) == ["a-70"]


async def test_collection_with_a_limit(store: Store) -> None:
    for name in "abc":
        await create(store, name)
    found = await store.delete_collection(context(), DeleteOptions(), selection(limit=2))
    assert (len(found.items), bool(found.continue_token)) == (2, True)
    assert await names(store) == ["c"]


async def test_collection_in_a_dry_run(world: World, store: Store) -> None:
    await create(store)
    found = await store.delete_collection(context(), DeleteOptions(dry_run=True), selection())
    assert len(found.items) == 1
    assert await names(store) == ["a"]


async def test_collection_of_a_cluster_scoped_resource(world: World) -> None:
    store = world.store(namespaced=False)
    await create(store, "a", namespace="")
    await store.delete_collection(context(""), DeleteOptions(), selection())
    assert await names(store, "") == []


async def test_collection_passes_by_what_has_gone(store: Store) -> None:
    for name in "ab":
        await create(store, name)

    async def admit(obj: JSONObject | None, old: JSONObject | None) -> None:
        assert old is not None
        if old["metadata"]["name"] == "a" and "a" in await names(store):
            await delete(store, "a")

    await store.delete_collection(context(), DeleteOptions(), selection(), Validating(admit))
    assert await names(store) == []


async def test_collection_refused_is_one_refusal(store: Store) -> None:
    for name in "abc":
        await create(store, name)

    async def admit(obj: JSONObject | None, old: JSONObject | None) -> None:
        raise errors.forbidden(GROUP, "crontabs", "a", "no")

    error = await refused(store.delete_collection(context(), DeleteOptions(), selection(), Validating(admit)))
    assert (error.code, error.reason) == (403, "Forbidden")
