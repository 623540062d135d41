from __future__ import annotations

from typing import Any

import pytest

from aggserver.registry.store import Store
from tests.registry.world import World, after, change, context, create, delete, refused, replace, selection, watching


@pytest.fixture
async def three(store: Store) -> Store:
    """a, b, c at the revisions 2 to 4; a is changed at 5, c is deleted at 6."""
    for name in "abc":
        await create(store, name)
    await change(store, "a", lambda obj: obj["spec"].update(replicas=2))
    await delete(store, "c")
    return store


STATE = [("ADDED", "a", 5), ("ADDED", "b", 3)]
END = ("BOOKMARK", "end", 6)
SINCE_4 = [("MODIFIED", "a", 5), ("DELETED", "c", 6)]

BEGINNINGS: dict[str, tuple[dict[str, Any], list[tuple[str, str, int]]]] = {
    "unset": ({}, STATE),
    "unset, with bookmarks": ({"allow_bookmarks": True}, STATE),
    "0": ({"resource_version": "0"}, STATE),
    "0, with bookmarks": ({"resource_version": "0", "allow_bookmarks": True}, STATE),
    "after 4": ({"resource_version": "4"}, SINCE_4),
    "after the newest": ({"resource_version": "6"}, []),
    "asked for the state": ({"send_initial_events": True, "allow_bookmarks": True}, [*STATE, END]),
    "asked for the state without bookmarks": ({"send_initial_events": True}, STATE),
    "the state, not older than 4": (
        {"send_initial_events": True, "allow_bookmarks": True, "resource_version": "4"},
        [*STATE, END],
    ),
    "the state, at 0": ({"send_initial_events": True, "allow_bookmarks": True, "resource_version": "0"}, [*STATE, END]),
    "not the state": ({"send_initial_events": False}, []),
    "not the state, at 0": ({"send_initial_events": False, "resource_version": "0"}, []),
    "not the state, after 4": ({"send_initial_events": False, "resource_version": "4"}, SINCE_4),
    "one name": ({"fields": "metadata.name=a"}, [("ADDED", "a", 5)]),
    "one name, after 4": ({"fields": "metadata.name=c", "resource_version": "4"}, [("DELETED", "c", 6)]),
    "a name that can't be": ({"fields": "metadata.name=a/b"}, []),
}


@pytest.mark.parametrize("case", BEGINNINGS)
async def test_beginnings(three: Store, case: str) -> None:
    options, told = BEGINNINGS[case]
    seen = await watching(three, **options)
    assert await seen.next(len(told)) == told
    await create(three, "d")
    if "fields" not in options:
        assert await seen.next(1) == [("ADDED", "d", 7)]
    assert await seen.nothing_more()


async def test_a_deleted_object_has_the_revision_of_its_end(three: Store) -> None:
    seen = await watching(three, resource_version="5")
    await seen.next(1)
    assert seen.objects[0].decoded()["metadata"]["resourceVersion"] == "6"


async def test_one_namespace(three: Store) -> None:
    seen = await watching(three, resource_version="6")
    everywhere = await watching(three, namespace="", resource_version="6")
    await create(three, "x", namespace="other")
    await create(three, "y")
    assert await seen.next(1) == [("ADDED", "y", 8)]
    assert await everywhere.next(2) == [("ADDED", "x", 7), ("ADDED", "y", 8)]


SELECTORS = {"labels": {"labels": "color=red"}, "fields": {"fields": "spec.color=red"}}


@pytest.mark.parametrize("case", SELECTORS)
async def test_transitions(store: Store, case: str) -> None:
    await create(store)
    seen = await watching(store, resource_version="2", **SELECTORS[case])
    for number, color in enumerate(("red", "red", "blue", "blue", "red")):
        obj = (await store.get(context(), "a")).decoded()
        obj["metadata"]["labels"] = {"color": color}
        obj["spec"] = {"color": color, "replicas": number}
        await replace(store, obj)
    await delete(store)
    told = [("ADDED", "a", 3), ("MODIFIED", "a", 4), ("DELETED", "a", 5), ("ADDED", "a", 7), ("DELETED", "a", 8)]
    assert await seen.next(5) == told
    left = seen.objects[2].decoded()
    # An object that stops matching is DELETED as it was before, at the revision of the change.
    assert (left["spec"]["color"], left["metadata"]["resourceVersion"]) == ("red", "5")
    assert await seen.nothing_more()


async def test_bookmarks(three: Store) -> None:
    seen = await watching(three, resource_version="6", allow_bookmarks=True)
    await create(three, "x", namespace="other")
    seen.watch.bookmark()
    assert await seen.next(1) == [("BOOKMARK", "", 7)]


async def test_too_old(world: World, three: Store) -> None:
    await world.storage.compact(5)
    fresh = world.restarted()
    error = await refused(fresh.watch(context(), selection(resource_version="3")))
    assert (error.code, error.reason, error.message) == (410, "Expired", "too old resource version: 3 (5)")


async def test_of_the_future(three: Store) -> None:
    error = await refused(after(4, three.watch(context(), selection(resource_version="99"))))
    assert (error.code, error.message) == (504, "Timeout: Too large resource version: 99, current: 6")


async def test_malformed(three: Store) -> None:
    error = await refused(three.watch(context(), selection(resource_version="-1")))
    assert (error.code, error.message) == (
        500,
        'resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax',
    )


async def test_ended_by_the_server(three: Store) -> None:
    seen = await watching(three, resource_version="6")
    three.end_watches()
    with pytest.raises(StopAsyncIteration):
        await seen.next(1)


async def test_lost_in_the_middle(world: World, store: Store) -> None:
    """An error of the watch cache in the middle of a watch becomes a StatusError too."""
    await create(store)
    for number in range(600):
        await change(store, "a", lambda obj, number=number: obj["spec"].update(replicas=number))
    watch = aiter(await world.restarted().watch(context(), selection(resource_version="2")))
    assert (await anext(watch))[0].revision == 3
    await world.storage.close()
    error = await refused(anext(watch))
    assert (error.code, error.message) == (500, "Internal error occurred: the store is not open")


async def test_closed_twice(three: Store) -> None:
    watch = await three.watch(context(), selection())
    watch.close()
    watch.close()
    assert [batch async for batch in watch] == []
