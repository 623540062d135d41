"""A watch cache follows its store again whatever has ended its watch, and says meanwhile that it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc
import pytest

from aggserver.storage import etcd_watch
from aggserver.storage.cacher import Cacher
from aggserver.storage.etcd import EtcdStorage
from aggserver.storage.etcd_client import OutOfRange
from aggserver.storage.etcd_wire import WatchAnswer, watch_answer
from aggserver.storage.interface import Compacted, KeyValue, Page, Sink, StorageError, Subscription, Unavailable
from aggserver.storage.memory import MemoryStorage
from tests.fakes.clock import until
from tests.fakes.definitions import definition, version
from tests.fakes.server import LocalServer
from tests.storage.caching import PREFIX, Thing, World, at, make
from tests.storage.fake_etcd import FakeEtcd, content, header, number, put
from tests.waiting import HANG_SECONDS

BEHIND = "does not follow the store"


class Failing(MemoryStorage):
    """A store whose next calls raise `faults`, in order. watched: how many watches were not among them."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[BaseException] = []
        self.lists = self.watched = 0
        self._subscription: Subscription | None = None
        self._sink: Sink | None = None

    def _fail(self) -> None:
        if self.faults:
            raise self.faults.pop(0)

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0, counted: bool = True) -> Page:
        self.lists += 1
        self._fail()
        return await super().list(prefix, revision=revision, start=start, limit=limit, counted=counted)

    async def watch(self, prefix: str, after: int, sink: Sink) -> Subscription:
        await asyncio.sleep(0)
        self._fail()
        self._sink = sink
        self._subscription = await super().watch(prefix, after, sink)
        self.watched += 1
        return self._subscription

    def lose(self, error: StorageError) -> None:
        """End the watch."""
        assert self._subscription is not None
        assert self._sink is not None
        self._subscription.close()
        self._sink.lost(error)


class Behind(World):
    """A world that notes, before each pause, what readiness would say."""

    def __init__(self, store: MemoryStorage | EtcdStorage) -> None:
        super().__init__(store)
        self.troubles: dict[str, str] = {}
        self.seen: list[str] = []
        self.following(make)

    def following(self, make: Callable[[KeyValue], Thing]) -> None:
        self.cacher = Cacher(self.store, PREFIX, make=make, at=at, clock=self.clock, sleep=self.sleep, behind=self.troubles)

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self.seen.append(self.troubles.get(PREFIX, ""))


@pytest.fixture
async def failing() -> AsyncIterator[tuple[Failing, Behind]]:
    store = Failing()
    await store.start()
    world = Behind(store)
    yield store, world
    world.cacher.close()
    await store.close()


FAULTS = {
    "a defect": KeyError("metadata"),
    "an error that was not translated": OutOfRange("etcdserver: mvcc: required revision has been compacted"),
    "an error of the system": OSError(24, "Too many open files"),
    "out of memory": MemoryError(),
    "a call that was cancelled": asyncio.CancelledError(),
    "one that a store has": Unavailable("no connection"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_whatever_fails_is_tried_again(
    fault: BaseException, failing: tuple[Failing, Behind], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    store, world = failing
    await world.cacher.ready()
    store.faults = [fault] * 3
    store.lose(Unavailable("connection reset"))
    await world.put("a", "1")
    await until(lambda: store.watched == 2)
    assert [thing.value for thing in world.cacher.list(PREFIX).items] == ["1"]
    assert world.slept == [0.1, 0.2, 0.4, 0.8]
    assert world.seen[0] == "", "one loss is no trouble yet"
    why = str(fault) if isinstance(fault, Unavailable) else repr(fault)
    assert all(why in seen for seen in world.seen[1:])
    assert world.troubles == {}
    told = [record.levelname for record in caplog.records if record.name == "aggserver.storage.cacher"]
    assert told == ["WARNING", "INFO"], "once for each change of its state"
    assert ("Traceback" in caplog.text) == (not isinstance(fault, Unavailable))


async def test_a_list_that_fails_is_tried_again_after_a_pause(failing: tuple[Failing, Behind]) -> None:
    store, world = failing
    await world.cacher.ready()
    store.faults = [Compacted(1, 2)] * 3
    store.lose(Compacted(1, 2))
    await world.put("a", "1")
    await until(lambda: store.watched == 2)
    assert store.lists == 5
    assert world.slept == [0.1, 0.2, 0.4], "only the first at once"


async def test_what_is_lost_at_once_again_and_again_is_asked_for_less_and_less_often(failing: tuple[Failing, Behind]) -> None:
    store, world = failing
    await world.cacher.ready()
    for times in range(1, 4):
        store.lose(Unavailable("ended"))
        await until(lambda times=times: store.watched == 1 + times)
    assert world.slept == [0.1, 0.2, 0.4]
    world.clock.now += 60
    store.lose(Unavailable("ended"))
    await until(lambda: store.watched == 5)
    assert world.slept[3:] == [0.1]


async def test_an_event_that_can_never_be_made_is_told_once(
    failing: tuple[Failing, Behind], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    _, world = failing
    broken = True

    def make_never(item: KeyValue) -> Thing:
        if item.value == b"bad" and broken:
            raise RecursionError("too deep")
        return make(item)

    world.following(make_never)
    await world.cacher.ready()
    await world.put("a", "bad")
    await world.put("b", "1")
    await until(lambda: len(world.slept) >= 10)
    assert world.cacher.revision == 1, "nothing is left out"
    assert "RecursionError('too deep')" in world.troubles[PREFIX]
    assert caplog.text.count(BEHIND) == caplog.text.count("Traceback") == 1
    assert world.slept[5:10] == [3.2, 5.0, 5.0, 5.0, 5.0]
    broken = False
    await until(lambda: not world.troubles)
    assert world.cacher.revision == 3
    assert "follows the store again, at revision 3" in caplog.text


async def test_closing_ends_the_attempts(failing: tuple[Failing, Behind]) -> None:
    store, world = failing
    await world.cacher.ready()
    store.faults = [KeyError()] * 10_000
    store.lose(Unavailable("connection reset"))
    await until(lambda: world.troubles)
    world.cacher.close()
    assert world.troubles == {}
    left = len(store.faults)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(store.faults) == left


# --- etcd ---

ENDS = {
    **{code.name: code for code in grpc.StatusCode if code is not grpc.StatusCode.OK},
    "no message": b"\xff\xff\xff",
    "a key that is no UTF-8": content(11, content(2, content(2, content(1, b"/registry/\xff") + number(3, 10)))),
    "an event without a key": header(10) + content(11, content(2, number(3, 10))),
    "an event without a revision": header(10) + content(11, content(2, content(1, b"/registry/g.io/foos/a"))),
    "another watch's end": header(9) + number(4, 1),
}


@pytest.fixture
async def etcd() -> AsyncIterator[tuple[FakeEtcd, Behind]]:
    member = FakeEtcd()
    await member.start()
    store = EtcdStorage([member.url])
    await store.start()
    world = Behind(store)
    yield member, world
    world.cacher.close()
    await store.close()
    await member.stop()


NEXT = header(10) + put(f"{PREFIX}a", 10)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_however_etcd_ends_a_watch_it_is_followed_again(
    end: bytes | grpc.StatusCode, etcd: tuple[FakeEtcd, Behind]
) -> None:
    member, world = etcd
    member.scripts = [[end], [NEXT]]
    await world.cacher.ready()
    await world.cacher.wait_for(10, HANG_SECONDS)
    assert [thing.name for thing in world.cacher.list(PREFIX).items] == ["a"]
    assert world.troubles == {}


async def test_a_stream_that_is_cancelled_is_followed_again(etcd: tuple[FakeEtcd, Behind]) -> None:
    member, world = etcd
    member.scripts = [[], [NEXT]]
    await world.cacher.ready()
    for stream in list(world.store._client._members[0].streams):  # type: ignore[attr-defined]
        stream.cancel()
    await world.cacher.wait_for(10, HANG_SECONDS)


async def test_whatever_fails_in_a_subscription_is_told_to_its_sink(
    etcd: tuple[FakeEtcd, Behind], monkeypatch: pytest.MonkeyPatch
) -> None:
    member, world = etcd
    member.script = [NEXT]
    faults: list[BaseException] = [KeyError("no such field"), asyncio.CancelledError()]

    def answer(data: bytes, skip: int) -> WatchAnswer:
        if data == NEXT and faults:
            raise faults.pop()
        return watch_answer(data, skip)

    monkeypatch.setattr(etcd_watch, "watch_answer", answer)
    await world.cacher.ready()
    await world.cacher.wait_for(10, HANG_SECONDS)
    assert faults == []


# --- readiness ---


async def test_readiness_knows_while_a_cache_does_not_follow(failing: tuple[Failing, Behind]) -> None:
    store, _ = failing
    server = LocalServer(store)
    await server.start()
    server.serve(definition("things", "Thing", version("v1", {"spec": {"type": "object"}})))
    client = server.client()
    assert (await client.get("/apis/stable.example.com/v1/things")).status == 200
    assert (await client.get("/readyz")).status == 200
    store.faults = [KeyError("no such field")] * 1000
    store.lose(Unavailable("connection reset"))

    async def answers(status: int) -> bool:
        return (await client.get("/readyz")).status == status

    await until(lambda: answers(500))
    assert "[-]watch-caches failed: reason withheld" in (await client.get("/readyz")).body.decode()
    assert "KeyError('no such field')" in (await client.get("/readyz/watch-caches")).body.decode()
    assert (await client.get("/livez")).status == 200
    store.faults.clear()
    await until(lambda: answers(200))
    await server.stop()
