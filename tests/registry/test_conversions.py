"""A converter that has to be asked: how often it is, what does without it, and what happens when it fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from aggserver.conversion.converter import ConversionError
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.conversions import ConversionCache, Conversions, Converted, ConvertedVersion
from aggserver.registry.rest import DeleteOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject, converted, encode
from tests.registry.world import (
    DRY,
    GROUP,
    WRITE,
    AskedConverter,
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

V1, V2 = f"{GROUP}/v1", f"{GROUP}/v2"
METADATA_ONLY = replace(context(), metadata_only=True)
OF_METADATA = WRITE._replace(of_metadata=True)


@pytest.fixture
def converter() -> AskedConverter:
    return AskedConverter()


@pytest.fixture
async def world(converter: AskedConverter) -> AsyncIterator[World]:
    world = World(converter)
    await world.storage.start()
    yield world
    await world.storage.close()


def names(objects: Sequence[Any]) -> list[str]:
    return [obj.decoded()["metadata"]["name"] for obj in objects]


async def others_run() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


# How often it is asked


async def test_once_for_each_write(converter: AskedConverter, store: Store, v2: Store) -> None:
    for name in ("a", "b", "c"):
        await create(store, name)
    assert converter.calls == []
    for _ in range(3):
        assert len((await v2.list(context(), selection())).items) == 3
        assert (await v2.get(context(), "b")).decoded()["apiVersion"] == V2
    seen = await watching(v2, send_initial_events=True)
    await seen.next(3)
    assert converter.calls == [(3, V2)]
    await change(store, "b", lambda obj: obj["spec"].update(replicas=2))
    assert await seen.next(1) == [("MODIFIED", "b", 5)]
    assert (await v2.get(context(), "b")).decoded()["spec"] == {"replicas": 2}
    assert converter.calls == [(3, V2), (1, V2)]


async def test_a_deletion_shows_what_is_known(converter: AskedConverter, store: Store, v2: Store) -> None:
    await create(store)
    await v2.get(context(), "a")
    seen = await watching(v2, resource_version="2")
    converter.calls.clear()
    await delete(store)
    assert await seen.next(1) == [("DELETED", "a", 3)]
    assert (seen.objects[0].decoded()["apiVersion"], seen.objects[0].revision) == (V2, 3)
    assert seen.objects[0].decoded()["metadata"]["resourceVersion"] == "3"
    assert converter.calls == []


async def test_a_write_in_another_version_asks_both_ways(converter: AskedConverter, v2: Store) -> None:
    """To the stored version, and back, as the response and all later reads show it."""
    await create(v2)
    assert converter.calls == [(1, V1), (1, V2)]
    await v2.get(context(), "a")
    await change(v2, "a", lambda obj: obj["spec"].update(replicas=2))
    assert converter.calls == [(1, V1), (1, V2)] * 2
    assert (await v2.get(context(), "a")).decoded()["spec"] == {"replicas": 2}
    converter.calls.clear()
    await change(v2, "a", lambda obj: None)
    assert converter.calls == [(1, V1)], "nothing has changed, unless the stored version loses something"


async def test_a_dry_run_is_not_remembered(v2: Store) -> None:
    await create(v2)
    tried = await change(v2, "a", lambda obj: obj["spec"].update(replicas=2), DRY)
    assert tried.decoded()["spec"] == {"replicas": 2}
    assert (await v2.get(context(), "a")).decoded()["spec"] == {"replicas": 1}
    tried = await v2.create(WriteRequest(context(), DRY), crontab("b", "v2"))
    assert "resourceVersion" not in tried.decoded()["metadata"]


async def test_requests_share_a_question(converter: AskedConverter, store: Store, v2: Store) -> None:
    await create(store)
    converter.gate = asyncio.Event()
    waiting = [asyncio.ensure_future(v2.get(context(), "a")) for _ in range(5)]
    waiting.append(asyncio.ensure_future(v2.list(context(), selection())))
    for _ in range(10):
        await asyncio.sleep(0)
    waiting[0].cancel()
    converter.gate.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert converter.calls == [(1, V2)]
    assert found[1] is found[2]


async def test_what_nobody_waits_for_is_not_asked(converter: AskedConverter, store: Store, v2: Store) -> None:
    for number in range(18):
        await create(store, f"a{number}")
    converter.gate = asyncio.Event()
    waiting = [asyncio.ensure_future(v2.get(context(), f"a{number}")) for number in range(18)]
    await others_run()
    assert len(converter.calls) == 16, "at the same time"
    waiting[17].cancel()
    await asyncio.sleep(0)
    converter.gate.set()
    await asyncio.gather(*waiting[:17])
    assert len(converter.calls) == 17
    assert (await v2.get(context(), "a17")).decoded()["apiVersion"] == V2


async def test_a_get_does_not_wait_behind_lists(converter: AskedConverter, store: Store, v2: Store) -> None:
    for namespace in map(str, range(5)):
        await create(store, "a", namespace)
        await create(store, "b", namespace)
    await create(store)
    converter.gate = asyncio.Event()
    lists = [asyncio.ensure_future(v2.list(context(namespace), selection())) for namespace in map(str, range(5))]
    await others_run()
    get = asyncio.ensure_future(v2.get(context(), "a"))
    await others_run()
    assert converter.calls == [(2, V2)] * 4 + [(1, V2)]
    converter.gate.set()
    await asyncio.gather(get, *lists)


async def test_asked_again_while_the_rest_of_its_batch_is_converted() -> None:
    """Nobody waits for `a` when its list's batch is sent without it. Then somebody asks for it anew."""
    converter = AskedConverter()
    converter.gate = asyncio.Event()
    conversions = Conversions(converter, lambda key: True)

    def ask(*names: str) -> asyncio.Future[list[StoredObject]]:
        return asyncio.ensure_future(conversions.views(TO_V2, [stored(name, 1) for name in names]))

    busy = [ask(f"{number}a", f"{number}b") for number in range(4)]
    listed = ask("a", "b")
    await others_run()
    shared = ask("b")
    await asyncio.sleep(0)
    listed.cancel()
    gate, converter.gate = converter.gate, asyncio.Event()
    gate.set()
    await asyncio.gather(*busy)
    await others_run()
    assert converter.calls[4:] == [(1, V2)], "b"
    again = ask("a")
    await others_run()
    gate, converter.gate = converter.gate, None
    gate.set()
    assert names(await shared) == ["b"]
    assert names(await again) == ["a"]


async def test_lists_ask_in_batches(converter: AskedConverter, store: Store, v2: Store) -> None:
    for number in range(1100):
        await create(store, f"a-{number:04}")
    found = await v2.list(context(), selection())
    assert sorted(converter.calls) == [(100, V2), *[(125, V2)] * 8]
    assert names(found.items) == [f"a-{number:04}" for number in range(1100)]


# What fails


async def test_the_error_names_the_object(converter: AskedConverter, store: Store, v2: Store) -> None:
    for number in range(100):
        await create(store, f"a-{number:02}")
    converter.failing = {"a-37"}
    error = await refused(v2.list(context(), selection()))
    assert (error.code, error.reason, error.name) == (500, "", "a-37")
    assert error.message == "conversion webhook failed: no (converting default/a-37)"
    converter.calls.clear()
    assert (await v2.get(context(), "a-99")).decoded()["apiVersion"] == V2
    assert converter.calls == [], "the others were converted"
    error = await refused(v2.get(context(), "a-37"))
    assert error.message == "conversion webhook failed: no (converting default/a-37)"
    assert len((await store.list(context(), selection())).items) == 100


async def test_many_that_fail_are_not_all_looked_for(converter: AskedConverter, store: Store, v2: Store) -> None:
    for number in range(120):
        await create(store, f"a-{number:03}")
    converter.failing = {f"a-{number:03}" for number in range(120)}
    await refused(v2.list(context(), selection()))
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(converter.calls) <= 32


async def test_one_that_is_down_is_asked_once(converter: AskedConverter, store: Store, v2: Store) -> None:
    for name in ("a", "b", "c"):
        await create(store, name)
    converter.down = ConversionError("conversion webhook failed: refused", answered=False)
    error = await refused(v2.list(context(), selection()))
    assert error.message == "conversion webhook failed: refused (converting default/a and 2 more)"
    assert converter.calls == [(3, V2)]


async def test_who_waited_while_a_call_got_no_answer_is_not_asked_for(converter: AskedConverter, store: Store, v2: Store) -> None:
    """A webhook that hangs for 30 s would hang as long again for those who wait for their turn."""
    for number in range(40):
        await create(store, f"a{number}")
    converter.gate = asyncio.Event()
    waiting = [asyncio.ensure_future(refused(v2.get(context(), f"a{number}"))) for number in range(40)]
    await others_run()
    converter.down = ConversionError("conversion webhook failed: deadline", answered=False)
    converter.gate.set()
    found = [error.message for error in await asyncio.gather(*waiting)]
    assert found == [f"conversion webhook failed: deadline (converting default/a{number})" for number in range(40)]
    assert len(converter.calls) == 16
    converter.down = None
    assert (await v2.get(context(), "a39")).decoded()["apiVersion"] == V2


@pytest.mark.parametrize("target", [V1, V2])
async def test_a_write_that_fails_stores_nothing(
    target: str, world: World, converter: AskedConverter, store: Store, v2: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = converter.convert

    async def refuse(objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
        if api_version == target:
            raise ConversionError("no")
        return await ask(objects, api_version)

    monkeypatch.setattr(converter, "convert", refuse)
    assert (await refused(create(v2))).message == "no (converting default/a)"
    assert await world.storage.revision() == 1
    await create(store)
    await refused(change(v2, "a", lambda obj: obj["spec"].update(replicas=2)))
    assert await world.storage.revision() == 2


async def test_a_watch_ends_with_the_error(converter: AskedConverter, store: Store, v2: Store) -> None:
    await create(store)
    seen, own = await watching(v2, resource_version="2"), await watching(store, resource_version="2")
    converter.failing = {"a"}
    await change(store, "a", lambda obj: obj["spec"].update(replicas=2))
    with pytest.raises(StatusError, match="converting default/a"):
        await seen.next(1)
    assert await own.next(1) == [("MODIFIED", "a", 3)]


# What does without it


@pytest.fixture
async def broken(converter: AskedConverter, store: Store) -> None:
    """The converter is down, after two objects were written."""
    await create(store, "a", metadata={"finalizers": ["x/y"], "labels": {"color": "red"}})
    await create(store, "b")
    converter.down = ConversionError("down", answered=False)


@pytest.mark.usefixtures("broken")
async def test_metadata_is_read_without_it(converter: AskedConverter, store: Store, v2: Store) -> None:
    assert (await v2.get(METADATA_ONLY, "a")).decoded()["metadata"]["name"] == "a"
    assert names((await v2.list(METADATA_ONLY, selection())).items) == ["a", "b"]
    assert names((await v2.list(METADATA_ONLY, selection("color=red"))).items) == ["a"]
    stream = await v2.watch(METADATA_ONLY, selection("color=red", send_initial_events=True))
    assert names([event.object for event in await anext(aiter(stream))]) == ["a"]
    assert converter.calls == []


async def test_metadata_is_that_of_the_conformed_objects(world: World, store: Store) -> None:
    """Also where the objects of a list are stored in two versions."""
    await create(store, "a", metadata={"annotations": {"x": "y"}})
    raw = b'{"apiVersion":"%s","kind":"CronTab","metadata":{"name":"b","namespace":"default","annotations":{"x":"y"}}}'
    await world.storage.create(f"/{GROUP}/crontabs/default/b", raw.replace(b"%s", V2.encode()))
    world.restarted()

    def conform_stored(obj: JSONObject) -> None:
        del obj["metadata"]["annotations"]

    world._storages[True] = replace(world.store()._resource, conform_stored=conform_stored)
    found = (await world.store("v2").list(METADATA_ONLY, selection())).items
    assert [(each.decoded()["apiVersion"], "annotations" in each.decoded()["metadata"]) for each in found] == [
        (V1, False),
        (V2, False),
    ]


@pytest.mark.usefixtures("broken")
async def test_deleted_without_it(converter: AskedConverter, store: Store, v2: Store) -> None:
    assert not (await delete(v2, "a")).gone
    assert (await delete(v2, "b")).gone
    await change(v2, "a", lambda obj: obj["metadata"].pop("finalizers"), OF_METADATA)
    assert (await store.list(context(), selection())).items == []
    await create(store, "c")
    assert names((await v2.delete_collection(context(), DeleteOptions(), selection())).items) == ["c"]
    # Only the response of the patch asks, since it shows the whole object.
    assert converter.calls == [(1, V2)]


@pytest.mark.usefixtures("broken")
async def test_metadata_is_changed_without_it(world: World, converter: AskedConverter, v2: Store) -> None:
    async def labelled(obj: JSONObject) -> JSONObject:
        obj["metadata"]["labels"] = {"color": "blue"}
        return obj

    written = await v2.update(WriteRequest(METADATA_ONLY, OF_METADATA), "a", labelled)
    assert (written.object.decoded()["metadata"]["labels"], written.object.decoded()["apiVersion"]) == ({"color": "blue"}, V1)
    assert (await world.stored("a"))["metadata"]["labels"] == {"color": "blue"}
    assert converter.calls == []
    dry = WriteOptions(dry_run=True, of_metadata=True)
    assert (await v2.update(WriteRequest(METADATA_ONLY, dry), "b", labelled)).object.decoded()["metadata"]["labels"] == {
        "color": "blue"
    }
    assert "labels" not in (await world.stored("b"))["metadata"]


async def test_finalizers_and_the_mark_of_a_deletion_need_no_new_question(
    converter: AskedConverter, store: Store, v2: Store
) -> None:
    await create(store, metadata={"finalizers": ["x/y"], "labels": {"color": "red"}})
    before = (await v2.get(context(), "a")).decoded()
    seen = await watching(v2, resource_version="2")
    converter.down = ConversionError("down", answered=False)
    converter.calls.clear()
    marked = (await delete(v2)).object.decoded()
    assert "deletionTimestamp" in marked["metadata"]
    assert await seen.next(1) == [("MODIFIED", "a", 3)]
    assert (await v2.get(context(), "a")).decoded() == marked == seen.objects[0].decoded()
    changed = {"deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"}
    assert {**marked, "metadata": {}} == {**before, "metadata": {}}
    assert {name for name in marked["metadata"] if marked["metadata"][name] != before["metadata"].get(name)} == changed
    gone = await change(v2, "a", lambda obj: obj["metadata"].pop("finalizers"), OF_METADATA)
    assert gone.decoded()["apiVersion"] == V2
    assert await seen.next(1) == [("DELETED", "a", 4)]
    assert converter.calls == []


async def test_what_conversion_made_of_labels_stays(converter: AskedConverter, store: Store, v2: Store) -> None:
    """Where only other metadata has changed, and nobody is asked: the stored object has none of them."""
    converter.labels = {"made": "yes"}
    await create(store, metadata={"finalizers": ["x/y"]})
    assert (await v2.get(context(), "a")).decoded()["metadata"]["labels"] == {"made": "yes"}
    converter.calls.clear()
    marked = (await delete(v2)).object.decoded()
    assert "deletionTimestamp" in marked["metadata"]
    assert marked["metadata"]["labels"] == {"made": "yes"}
    assert converter.calls == []


async def test_labels_are_a_new_question(converter: AskedConverter, store: Store, v2: Store) -> None:
    await create(store)
    await v2.get(context(), "a")
    await change(store, "a", lambda obj: obj["metadata"].update(labels={"color": "red"}), OF_METADATA)
    assert (await v2.get(context(), "a")).decoded()["metadata"]["labels"] == {"color": "red"}
    assert converter.calls == [(1, V2), (1, V2)]


async def test_admission_sees_the_requested_version(converter: AskedConverter, store: Store, v2: Store) -> None:
    """Rules that look at the objects are a reason to convert them, also for a deletion."""
    seen: list[Any] = []

    async def admit(obj: JSONObject | None, old: JSONObject | None) -> None:
        seen.append([each and each["apiVersion"] for each in (obj, old)])

    async def labelled(obj: JSONObject) -> JSONObject:
        obj["metadata"]["labels"] = {"color": "red"}
        return obj

    await create(store, metadata={"finalizers": ["x/y"]})
    await v2.update(WriteRequest(METADATA_ONLY, OF_METADATA, Validating(admit)), "a", labelled)
    marked = await v2.delete(context(), "a", DeleteOptions(), Validating(admit))
    assert seen == [[V2, V2], [None, V2]]
    assert marked.object.decoded()["apiVersion"] == V2
    converter.down = ConversionError("down", answered=False)
    await create(store, "b")
    assert (await refused(v2.delete(context(), "b", DeleteOptions(), Validating(admit)))).message == "down (converting default/b)"


async def test_an_object_of_an_older_storage_version_stays_in_it(world: World, store: Store, converter: AskedConverter) -> None:
    raw = b'{"apiVersion":"%s","kind":"CronTab","metadata":{"name":"b","namespace":"default","finalizers":["x/y"]}}'
    await world.storage.create(f"/{GROUP}/crontabs/default/b", raw.replace(b"%s", V2.encode()))
    converter.down = ConversionError("down", answered=False)
    assert not (await delete(store, "b")).gone
    assert (await world.stored("b"))["apiVersion"] == V2
    await refused(store.get(context(), "b"))


# Selectors


async def test_selected_by_labels_of_the_requested_version(converter: AskedConverter, store: Store, v2: Store) -> None:
    converter.labels = {"made": "yes"}
    for number in range(5):
        await create(store, f"a{number}")
    assert names((await v2.list(context(), selection("made=yes"))).items) == ["a0", "a1", "a2", "a3", "a4"]
    assert (await store.list(context(), selection("made=yes"))).items == []
    page = await v2.list(context(), selection("made=yes", limit=2))
    assert names(page.items) == ["a0", "a1"]
    page = await v2.list(context(), selection("made=yes", limit=2, continue_token=page.continue_token))
    assert names(page.items) == ["a2", "a3"]
    page = await v2.list(context(), selection("made=yes", limit=2, continue_token=page.continue_token))
    assert (names(page.items), page.continue_token) == (["a4"], "")


async def test_watched_by_labels_of_the_requested_version(converter: AskedConverter, store: Store, v2: Store) -> None:
    converter.labels = {"made": "yes"}
    await create(store)
    seen = await watching(v2, labels="made=yes", resource_version="2")
    other = await watching(v2, labels="stored=yes", resource_version="2")
    await create(store, "b", metadata={"labels": {"stored": "yes"}})
    assert await other.nothing_more()
    assert await seen.next(1) == [("ADDED", "b", 3)]
    assert seen.objects[0].decoded()["apiVersion"] == V2
    await change(store, "a", lambda obj: obj["spec"].update(replicas=2))
    assert await seen.next(1) == [("MODIFIED", "a", 4)], "what it was before matched as well"


async def test_deleted_by_labels_of_the_requested_version(converter: AskedConverter, store: Store, v2: Store) -> None:
    converter.labels = {"made": "yes"}
    await create(store, "a", metadata={"labels": {"stored": "yes"}})
    assert (await v2.delete_collection(context(), DeleteOptions(), selection("stored=yes"))).items == []
    assert names((await v2.delete_collection(context(), DeleteOptions(), selection("made=yes"))).items) == ["a"]
    assert (await store.list(context(), selection())).items == []


async def test_watched_by_a_selector(store: Store, v2: Store) -> None:
    await create(store, "a", spec={"replicas": 1, "color": "red"})
    await create(store, "b", spec={"color": "blue"})
    seen = await watching(store, fields="spec.color=red", resource_version="0")
    assert await seen.next(1) == [("ADDED", "a", 2)]
    later = await watching(store, fields="spec.color=red", resource_version="3")

    def paint(color: str) -> Any:
        return lambda obj: obj["spec"].update(color=color)

    await change(store, "a", lambda obj: obj["spec"].update(replicas=2))
    await change(store, "b", paint("red"))
    await change(store, "a", paint("blue"))
    await change(store, "a", paint("green"))
    await delete(store, "b")
    await delete(store, "a")
    expected = [("MODIFIED", "a", 4), ("ADDED", "b", 5), ("DELETED", "a", 6), ("DELETED", "b", 8)]
    for one in (seen, later):
        assert await one.next(4) == expected
        assert one.objects[-2].decoded()["spec"]["color"] == "red", "its last content that matched"
        assert one.objects[-2].decoded()["metadata"]["resourceVersion"] == "6"
        assert await one.nothing_more()


# The memory


def stored(name: str, revision: int, size: int = 0) -> StoredObject:
    raw = encode({"metadata": {"name": name}, "spec": "x" * size}, V1, "CronTab")
    return StoredObject(f"/{GROUP}/crontabs/{name}", raw, revision)


def finished(obj: StoredObject, tree: JSONObject) -> bytes:
    return encode(tree, V2, "CronTab")


def accept(obj: StoredObject, encoded: bytes, source: bytes) -> StoredObject:
    return converted(obj, encoded, "v2")


TO_V2 = ConvertedVersion("v2", V2, StoredObject.decoded, finished, accept)


def test_the_memory_is_bounded() -> None:
    asked = Conversions(AskedConverter(), lambda key: True)
    memory = ConversionCache(max_bytes=10_000)

    def revision(form: str, name: str) -> int | None:
        known = memory.get(asked, form, f"/{GROUP}/crontabs/{name}")
        return None if known is None else known.view.revision

    for number in range(100):
        memory.put(asked, "v2", Converted(stored(f"a{number}", 1, 1000)))
        assert revision("v2", "a0") == 1, "it is used all the time"
    assert memory.bytes <= 10_000
    assert (revision("v2", "a99"), revision("v2", "a1")) == (1, None)
    memory.put(asked, "v2", Converted(stored("big", 1, 20_000)))
    assert memory.bytes == 0
    memory.put(asked, "v2", Converted(stored("a", 2)))
    memory.put(asked, "v2", Converted(stored("a", 1)))
    assert (revision("v2", "a"), revision("v3", "a")) == (2, None)
    again = Converted(stored("a", 2))
    memory.put(asked, "v2", again)
    assert memory.get(asked, "v2", again.view.key) is again
    memory.forget(asked)
    assert (memory.bytes, revision("v2", "a")) == (0, None)
    memory.put(asked, "v2", Converted(stored("a", 3)))
    assert memory.bytes == 0, "it was asked for before the definition changed"


def test_deleted_objects_are_forgotten() -> None:
    there = {f"/{GROUP}/crontabs/a{number}" for number in range(10)}
    asked = Conversions(AskedConverter(), there.__contains__)
    memory = ConversionCache()
    for number in range(100):
        memory.put(asked, "v2", Converted(stored(f"a{number}", 1, 1_000_000)))
        assert memory.bytes < 21_000_000
    assert all(memory.get(asked, "v2", key) for key in there)


async def test_an_object_that_can_not_be_accepted_fails_alone() -> None:
    def refusing(obj: StoredObject, tree: JSONObject) -> bytes:
        if tree["metadata"]["name"] == "b":
            raise StatusError(500, "", "bad")
        return finished(obj, tree)

    target = ConvertedVersion("v2", V2, StoredObject.decoded, refusing, accept)
    conversions = Conversions(AskedConverter(), lambda key: True)
    with pytest.raises(StatusError, match="bad"):
        await conversions.views(target, [stored(name, 1) for name in "abc"])
    (view,) = await conversions.views(target, [stored("c", 1)])
    assert view.decoded()["apiVersion"] == V2


@pytest.mark.parametrize(
    ("spec", "large"),
    [
        ({"text": "x" * 1_000_000}, False),
        ({"list": [{}] * 9_900}, False),
        ({"list": [{}] * 10_100}, True),
        ({"lists": [[1] * 100 for _ in range(110)]}, True),
        ({"map": {str(number): number for number in range(10_100)}}, True),
    ],
)
async def test_what_has_many_values_is_finished_in_a_thread(spec: JSONObject, large: bool) -> None:
    class Maker(AskedConverter):
        async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
            return [{**obj, "apiVersion": api_version, "spec": spec} for obj in objects]

    threads: list[int] = []

    def told(obj: StoredObject, tree: JSONObject) -> bytes:
        threads.append(threading.get_ident())
        return finished(obj, tree)

    conversions = Conversions(Maker(), lambda key: True)
    (view,) = await conversions.views(ConvertedVersion("v2", V2, StoredObject.decoded, told, accept), [stored("a", 1)])
    assert view.decoded()["spec"] == spec
    assert [thread != threading.get_ident() for thread in threads] == [large]
