"""The etcd store against a fake etcd in this process, for behaviour that a real etcd shows only rarely."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import pytest

from aggserver.storage import etcd, etcd_client
from aggserver.storage import etcd_wire as wire
from aggserver.storage.etcd import EtcdStorage
from aggserver.storage.interface import (
    Compacted,
    Conflict,
    Event,
    KeyExists,
    NotFound,
    Precondition,
    PreconditionFailed,
    StorageError,
    Unavailable,
)
from aggserver.storage.keys import prefix_end
from tests.storage.fake_etcd import FRAGMENT, FakeEtcd, content, header, number, progress, put
from tests.storage.suite import PODS, A, Recorder
from tests.waiting import HANG_SECONDS


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0 if seconds == etcd_client.PAUSE else 3600)


@pytest.fixture
async def members() -> AsyncIterator[list[FakeEtcd]]:
    made = [FakeEtcd(), FakeEtcd()]
    for member in made:
        await member.start()
    yield made
    for member in made:
        await member.stop()


@pytest.fixture
async def store(members: list[FakeEtcd]) -> AsyncIterator[EtcdStorage]:
    store = EtcdStorage([member.url for member in members], sleep=no_pause)
    await store.start()
    yield store
    await store.close()


class Lost(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.over = asyncio.Event()

    def lost(self, error: StorageError) -> None:
        super().lost(error)
        self.over.set()


async def test_a_revision_in_fragments_is_delivered_whole(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    rest = asyncio.Event()
    members[0].script = [header(11) + put(A, 10), header(11) + put(A, 11) + FRAGMENT, rest, header(11) + put(A + "b", 11)]
    batches: list[list[int]] = []

    class Batches(Lost):
        def events(self, batch: Sequence[Event], revision: int) -> None:
            batches.append([event.revision for event in batch])
            assert not batch or revision == batch[-1].revision
            if len(batches) == 1:
                rest.set()
            else:
                self.over.set()

    sink = Batches()
    subscription = await store.watch(PODS, 9, sink)
    async with asyncio.timeout(HANG_SECONDS):
        await sink.over.wait()
    assert batches == [[10], [11, 11]]
    subscription.close()


async def test_the_header_of_events_is_no_progress(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    """While a watch catches up, etcd's responses have a revision up to which it hasn't sent all events."""
    members[0].revision = 20
    present = asyncio.Event()
    members[0].script = [header(20) + put(A, 10), present, header(20) + put(A, 12), progress(20)]
    sink = Lost()
    watching = asyncio.create_task(store.watch(PODS, 9, sink))
    async with asyncio.timeout(HANG_SECONDS):
        await sink.reached(10)
        assert (sink.revision, watching.done()) == (10, False)
        present.set()
        subscription = await watching
    assert ([event.revision for event in sink.seen], sink.revision) == ([10, 12], 20)
    subscription.close()


async def test_a_watch_that_compaction_has_overtaken_is_lost(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    members[0].script = [header(20) + number(4, 1) + number(5, 15)]
    sink = Lost()
    await store.watch(PODS, 9, sink)
    async with asyncio.timeout(HANG_SECONDS):
        await sink.over.wait()
    assert isinstance(sink.error, Compacted)
    assert (sink.error.revision, sink.error.oldest) == (9, 15)


async def test_a_watch_that_etcd_ends_is_lost_with_the_reason(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    members[0].script = [number(4, 1) + content(6, b"no such permission")]
    sink = Lost()
    await store.watch(PODS, 9, sink)
    async with asyncio.timeout(HANG_SECONDS):
        await sink.over.wait()
    assert isinstance(sink.error, Unavailable)
    assert "no such permission" in str(sink.error)


async def test_a_sink_that_fails_loses_its_subscription(
    store: EtcdStorage, members: list[FakeEtcd], caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Lost):
        def events(self, batch: Sequence[Event], revision: int) -> None:
            raise RuntimeError("on an event")

    members[0].script = [header(10) + put(A, 10)]
    sink = Failing()
    await store.watch(PODS, 9, sink)
    async with asyncio.timeout(HANG_SECONDS):
        await sink.over.wait()
    assert isinstance(sink.error, Unavailable)
    assert "on an event" in caplog.text


async def test_progress_is_asked_for_until_it_is_answered(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    """etcd does not answer progress requests while a watch is behind."""
    answered = asyncio.Event()
    members[0].script = [answered, progress(10)]
    sink = Lost()
    subscription = await store.watch(PODS, 9, sink)
    members[0].revision = 10
    assert await store.revision() == 10
    subscription.progress()
    assert sink.revision == 0
    answered.set()
    async with asyncio.timeout(HANG_SECONDS):
        await sink.reached(10)
    subscription.close()


async def unavailable(request: bytes, context: Any) -> bytes:
    await context.abort(grpc.StatusCode.UNAVAILABLE, "etcdserver: request timed out")
    return b""


async def test_a_write_that_may_have_happened_is_not_made_again(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    members[0].txn = unavailable
    with pytest.raises(Unavailable, match="request timed out"):
        await store.create(A, b"")
    assert [member.asked("Txn") for member in members] == [1, 0]
    # The client switches members: the next write goes to the other one.
    assert await store.create(A, b"") == 10
    assert [member.asked("Txn") for member in members] == [1, 1]


async def test_a_write_that_was_not_sent_goes_to_another_member(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    await members[0].stop()
    async with asyncio.timeout(HANG_SECONDS):
        while members[1].asked("Txn") == 0:
            # Until gRPC notices, the connection seems to work, and the write may have been sent.
            try:
                await store.create(A, b"")
            except Unavailable:
                continue
    assert members[0].asked("Txn") == 0


# The revision of the key that etcd has found (0: none), the expected one, whether the write has a guard, and the error.
REFUSED: dict[str, tuple[int, int, bool, type[StorageError]]] = {
    "it is there": (7, 0, False, KeyExists),
    "it is not there": (0, 5, False, NotFound),
    "it has changed": (7, 5, False, Conflict),
    "it has changed, and there is a guard": (7, 5, True, Conflict),
    "the guard": (5, 5, True, PreconditionFailed),
    "the guard of a new key": (0, 0, True, PreconditionFailed),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_write_that_etcd_refuses(store: EtcdStorage, members: list[FakeEtcd], case: str) -> None:
    found, expected, guarded, error = REFUSED[case]

    async def refuse(request: bytes, context: Any) -> bytes:
        item = content(2, content(1, f"/registry{A}".encode()) + number(3, found)) if found else b""
        return header(9) + content(3, content(1, item))

    members[0].txn = refuse
    guard = Precondition(PODS, 3) if guarded else None
    with pytest.raises(error):
        await (store.update(A, b"", expected, guard) if expected else store.create(A, b"", guard))


async def test_a_compaction_of_nothing_is_not_asked_for(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    await store.compact(0)
    assert members[0].asked("Compact") == 0
    await store.compact(5)
    assert members[0].requests[-1] == ("/etcdserverpb.KV/Compact", wire.compaction_request(5))


async def test_a_read_is_made_again_on_another_member(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    members[0].range = unavailable
    before = [member.asked("Range") for member in members]
    assert await store.get(A) is None
    assert [member.asked("Range") - asked for member, asked in zip(members, before, strict=True)] == [1, 1]


async def test_a_refused_read_is_not_made_again(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    async def refused(request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")
        return b""

    members[0].range = refused
    before = members[0].asked("Range")
    with pytest.raises(Unavailable, match="invalid auth token"):
        await store.get(A)
    assert (members[0].asked("Range") - before, members[1].asked("Range")) == (1, 0)


async def test_the_pages_of_a_list_are_of_one_revision(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    """That of the first page, though writes go on."""
    first, second = (content(2, content(1, f"/registry{A}{name}".encode()) + number(3, 3)) for name in "12")
    answers = [header(9) + first + number(3, 1) + number(4, 2), header(12) + second + number(4, 1)]

    async def paged(request: bytes, context: Any) -> bytes:
        return answers.pop(0)

    members[0].range = paged
    page = await store.list(PODS)
    assert ([item.key for item in page.items], page.revision, page.more) == ([f"{A}1", f"{A}2"], 9, False)
    after = f"/registry{A}1\0".encode(), f"/registry{prefix_end(PODS)}".encode()
    assert members[0].requests[-1][1] == wire.range_request(*after, limit=etcd.PAGE, revision=9)


async def test_a_member_that_hangs_is_left_with_its_watches(
    store: EtcdStorage, members: list[FakeEtcd], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Lost()
    await store.watch(PODS, 9, sink)

    async def hang(request: bytes, context: Any) -> bytes:
        # The member that answers has all the time it needs.
        monkeypatch.setattr("aggserver.storage.etcd.READ", HANG_SECONDS)
        await asyncio.Event().wait()
        return b""

    members[0].range = hang
    monkeypatch.setattr("aggserver.storage.etcd.READ", 0.5)
    async with asyncio.timeout(HANG_SECONDS):
        assert await store.revision() == 9
        await sink.over.wait()
    assert isinstance(sink.error, Unavailable)


async def test_concurrent_questions_for_the_revision_share_queries(store: EtcdStorage, members: list[FakeEtcd]) -> None:
    """But no call joins a running query, which may have been answered before."""
    asked, going = asyncio.Event(), asyncio.Event()

    async def slow(request: bytes, context: Any) -> bytes:
        revision = members[0].revision
        asked.set()
        await going.wait()
        return header(revision)

    members[0].range = slow
    before = members[0].asked("Range")
    first = asyncio.create_task(store.revision())
    async with asyncio.timeout(HANG_SECONDS):
        await asked.wait()
        members[0].revision = 10  # a write that is acknowledged now
        others = [asyncio.create_task(store.revision()) for _ in range(32)]
        given_up = asyncio.create_task(store.revision())
        await asyncio.sleep(0)
        given_up.cancel()
        going.set()
        assert await first == 9
        assert await asyncio.gather(*others) == [10] * 32
    assert members[0].asked("Range") - before == 2


@pytest.mark.parametrize(
    ("version", "refused"),
    [("3.4.30", True), ("3.4.31", False), ("3.5.12", True), ("3.5.13", False), ("3.6.0", False), ("not a number", False)],
)
def test_versions_whose_progress_is_not_to_be_trusted(version: str, refused: bool) -> None:
    if refused:
        with pytest.raises(Unavailable, match="or newer is required"):
            etcd.check_version(version)
    else:
        etcd.check_version(version)


@pytest.mark.parametrize("url", ["localhost:2379", "ftp://localhost", "https://", "http://localhost:2379/path"])
async def test_what_is_no_url(url: str) -> None:
    with pytest.raises(Unavailable, match="the form https://host:2379"):
        await EtcdStorage([url]).start()
