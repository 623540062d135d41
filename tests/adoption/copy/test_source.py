from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from aggserver.adoption.copy.source import CAUGHT_UP, APISource, Bounded, StorageSource, reading_version
from aggserver.adoption.records.record import CantCopy, HostChange, Mark, Source, SourcePage
from aggserver.cluster import ClusterError, Unreachable
from aggserver.storage.memory import MemoryStorage
from tests.adoption.hosts import PATH, PREFIX, crontab, decoded, definition
from tests.fakes.clock import FakeClock, settled
from tests.fakes.cluster import FakeCluster, status


def api_source(cluster: FakeCluster) -> APISource:
    clock = FakeClock()
    return APISource(cluster, definition(), "v1", clock=clock, sleep=clock.sleep, random=lambda: 0.0, nonce=lambda: "n-1")


class Follower:
    """What a source's changes have delivered, and how they ended."""

    def __init__(self, source: Source, after: int) -> None:
        self.changes: list[HostChange] = []
        self.ended: Any = "no"
        self._task = asyncio.create_task(self._run(source, after))

    async def _run(self, source: Source, after: int) -> None:
        try:
            async for change in source.changes(after):
                self.changes.append(change)
            self.ended = None
        except (ClusterError, CantCopy) as error:
            self.ended = error

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


async def pages_of(source: Source) -> list[SourcePage]:
    return [page async for page in source.pages()]


@pytest.mark.parametrize(
    ("versions", "taken", "read"),
    [
        pytest.param((("v1", True, False), ("v2", True, True)), (), "v2", id="the storage version"),
        pytest.param((("v1beta1", True, False), ("v1", True, False), ("v2", False, True)), (), "v1", id="else the preferred one"),
        pytest.param((("v1", True, True), ("v2", True, False)), ("v1",), "v2", id="not one that leads here already"),
        pytest.param((("v1", True, True),), ("v1",), None, id="none is left"),
    ],
)
def test_the_version_to_read(versions: tuple[tuple[str, bool, bool], ...], taken: tuple[str, ...], read: str | None) -> None:
    found = reading_version(definition(*versions), taken)
    assert (found.name if found else None) == read


async def test_the_api_is_read_by_pages_as_objects_are_stored_here() -> None:
    cluster = FakeCluster()
    for number in range(60):
        await cluster.put(PATH, crontab(f"c-{number:02}", {"number": number}, labels={"a": "b"}, generation=7, uid=f"u-{number}"))
    pages = await pages_of(api_source(cluster))
    assert [(len(page.items), page.first) for page in pages] == [(50, True), (10, False)]
    key, value, revision = pages[0].items[3]
    assert key == PREFIX + "c-03"
    assert revision == 104
    assert value.startswith(b'{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"labels":')
    assert decoded(value) == crontab("c-03", {"number": 3}, labels={"a": "b"}, generation=7, uid="u-3")


async def test_a_list_that_expires_begins_anew() -> None:
    cluster = FakeCluster()
    for number in range(60):
        await cluster.put(PATH, crontab(f"c-{number:02}"))
    seen = []
    async for page in api_source(cluster).pages():
        seen.append((len(page.items), page.first))
        if len(seen) == 1:
            cluster.fail("GET", PATH, status(410, "Expired"))
    assert seen == [(50, True), (60, True)]


async def test_writes_of_the_host_follow_across_ended_watches_and_failures() -> None:
    cluster = FakeCluster()
    follower = Follower(api_source(cluster), 100)
    await cluster.put(PATH, crontab("a"))
    await settled()
    cluster.fail("WATCH", PATH, Unreachable("away"), times=2)
    await cluster.end_watches()
    await cluster.put(PATH, crontab("b"))
    await cluster.remove(PATH, "a")
    await settled()
    assert [(change.key, change.value is None, change.revision) for change in follower.changes] == [
        (PREFIX + "a", False, 101),
        (PREFIX + "b", False, 102),
        (PREFIX + "a", True, 103),
    ]
    await follower.stop()


async def test_a_revision_that_has_expired_is_an_error() -> None:
    cluster = FakeCluster()
    cluster.compact()
    follower = Follower(api_source(cluster), 50)
    await settled()
    assert follower.ended.code == 410


async def test_after_leaving_a_watch_is_not_opened_again() -> None:
    cluster = FakeCluster()
    source = api_source(cluster)
    follower = Follower(source, 100)
    await settled()
    source.leave()
    await cluster.put(PATH, crontab("late"))
    await settled()
    assert [change.key for change in follower.changes] == [PREFIX + "late"], "the open watch goes on"
    await cluster.end_watches()
    await settled()
    assert (follower.ended, cluster.watches) == (None, 1)


async def test_a_mark_is_an_annotation_that_no_copy_has() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, crontab("a", annotations={"mine": "stays"}))
    source = api_source(cluster)
    follower = Follower(source, 101)
    mark = await source.mark({})
    await settled()
    assert mark == Mark(103, seen=False)
    assert cluster.bodies[-2:] == [
        {"metadata": {"annotations": {CAUGHT_UP: "n-1"}}},
        {"metadata": {"annotations": {CAUGHT_UP: None}}},
    ]
    assert [change.revision for change in follower.changes] == [102, 103]
    assert [decoded(change.value)["metadata"]["annotations"] for change in follower.changes] == [{"mine": "stays"}] * 2
    await follower.stop()


async def test_a_mark_takes_another_object_when_the_first_is_gone() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, crontab("a"))
    cluster.fail("PATCH", f"{PATH}/a", status(404, "NotFound"))
    assert await api_source(cluster).mark({}) == Mark(103, seen=False)


async def test_where_the_mark_is_refused_all_versions_are_compared() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, crontab("a"))
    await cluster.put(PATH, crontab("b"))
    cluster.fail("PATCH", f"{PATH}/a", status(403, "Forbidden", 'admission webhook "no.example.com" denied the request'))
    seen = {PREFIX + "a": 101}
    marking = asyncio.create_task(api_source(cluster).mark(seen))
    await settled()
    assert not marking.done()
    seen[PREFIX + "b"] = 102
    assert await marking == Mark(102, seen=True)


async def test_without_objects_the_deletions_must_have_been_seen() -> None:
    cluster = FakeCluster()
    seen = {PREFIX + "a": 101}
    marking = asyncio.create_task(api_source(cluster).mark(seen))
    await settled()
    assert not marking.done()
    seen.clear()
    assert await marking == Mark(100, seen=True)


async def test_namespaced_objects_have_the_namespace_in_the_key_and_in_the_path() -> None:
    cluster = FakeCluster()
    item = crontab("a", namespace="default", resourceVersion="101")
    cluster.on("GET", PATH, lambda _: {"metadata": {"resourceVersion": "105"}, "items": [item]})
    path = "/apis/stable.example.com/v1/namespaces/default/crontabs/a"
    cluster.on("PATCH", path, lambda _: crontab("a", namespace="default", resourceVersion="107"))
    source = APISource(cluster, definition(scope="Namespaced"), "v1")
    pages = await pages_of(source)
    assert [key for key, _, _ in pages[0].items] == [PREFIX + "default/a"]
    assert await source.mark({}) == Mark(107, seen=False)


class DamagedCluster(FakeCluster):
    """kube-apiserver fails to list an object whose value in etcd is damaged, and does not name it."""

    def _get(self, path: str, query: Mapping[str, str]) -> Any:
        page = super()._get(path, query)
        if any(item["metadata"]["name"] == "c-33" for item in page.get("items", ())):
            raise status(500, "", "unexpected end of JSON input")
        return page


@pytest.mark.parametrize("before", [33, 0])
async def test_an_object_that_the_host_cannot_read_is_found(before: int) -> None:
    cluster = DamagedCluster()
    for number in range(33 - before, 60):
        await cluster.put(PATH, crontab(f"c-{number:02}"))
    where = f"after {PREFIX}c-32" if before else f"first of {PREFIX}"
    with pytest.raises(CantCopy, match=f"the host can't read the object that comes {where}: 500: unexpected end of JSON input"):
        await pages_of(api_source(cluster))


# --- the cluster's etcd ---


async def host_storage(**values: bytes) -> MemoryStorage:
    host = MemoryStorage()
    await host.start()
    for name, value in values.items():
        await host.create(PREFIX + name, value)
    return host


OBJECT = b'{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"a"},"spec":{}}\n'


async def test_etcd_is_read_by_pages_and_followed() -> None:
    host = await host_storage(**{f"c-{number:02}": OBJECT for number in range(60)})
    source = StorageSource(host, PREFIX)
    pages = await pages_of(source)
    assert [(len(page.items), page.remaining, page.first) for page in pages] == [(50, 10, True), (10, 0, False)]
    assert pages[0].items[0] == (PREFIX + "c-00", OBJECT.rstrip(), 2)
    follower = Follower(source, pages[-1].revision)
    await host.create(PREFIX + "d", OBJECT)
    await host.create("/other/things/x", b"{}")
    await settled()
    mark = await source.mark({})
    await settled()
    assert mark == Mark(63, seen=False)
    assert (PREFIX + "d", 62) in [(change.key, change.revision) for change in follower.changes]
    assert follower.changes[-1] == HostChange("", None, 63), "writes elsewhere show that nothing is on its way"
    await follower.stop()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param(b"k8s:enc:aescbc:v1:key1:...", "encrypted at rest", id="encrypted"),
        pytest.param(b"k8s\0\n\f", "not a custom resource", id="protobuf"),
        pytest.param(b"[]", "not a custom resource", id="no object"),
    ],
)
async def test_what_cant_be_read_is_refused(value: bytes, says: str) -> None:
    host = await host_storage(a=value)
    with pytest.raises(CantCopy, match=says):
        await pages_of(StorageSource(host, PREFIX))


async def test_a_source_that_falls_far_behind_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggserver.adoption.copy.source.MOST_WAITING", 3)
    host = await host_storage(a=OBJECT, b=OBJECT, c=OBJECT, d=OBJECT)
    follower = Follower(StorageSource(host, PREFIX), 1)
    await settled()
    assert "faster than they are copied" in str(follower.ended)


async def test_objects_that_are_too_large_are_named() -> None:
    large = OBJECT.replace(b'"spec":{}', b'"spec":{"note":"' + b"x" * 100 + b'"}')
    host = await host_storage(a=OBJECT, **{f"large-{number}": large for number in range(6)})
    source = Bounded(StorageSource(host, PREFIX), 150)
    with pytest.raises(CantCopy) as error:
        await pages_of(source)
    named = "; ".join(f"{PREFIX}large-{number} has 198 bytes" for number in range(5))
    assert str(error.value) == f"{named}; and more: --max-object-bytes is 150"

    source = Bounded(StorageSource(await host_storage(a=OBJECT), PREFIX), 150)
    assert len((await pages_of(source))[0].items) == 1


@pytest.mark.parametrize("is_left", [False, True], ids=["before the switch", "late"])
async def test_an_object_that_grows_too_large_ends_the_move_but_no_late_write(*, is_left: bool) -> None:
    host = await host_storage(a=OBJECT)
    source = Bounded(StorageSource(host, PREFIX), 150)
    follower = Follower(source, 2)
    await settled()
    if is_left:
        source.leave()
    await host.create(PREFIX + "b", OBJECT.replace(b'"spec":{}', b'"spec":{"note":"' + b"x" * 100 + b'"}'))
    await settled()
    if is_left:
        assert PREFIX + "b" in [change.key for change in follower.changes]
    else:
        assert str(follower.ended) == f"{PREFIX}b has 198 bytes: --max-object-bytes is 150"
    await follower.stop()
