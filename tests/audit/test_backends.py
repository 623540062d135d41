"""Backends: batches, what is held and what is lost, and what a webhook that fails or hangs costs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from aggserver.audit import backends, webhook
from aggserver.audit.backends import MAX_PENDING_BYTES, Batching, Buffer, LostEvents, all_of, blocking, truncating
from aggserver.audit.events import Event
from aggserver.audit.policy import METADATA
from aggserver.cluster import ClusterError, Unreachable
from tests.fakes.clock import FakeClock, settled

BATCHING = Batching(buffer_size=10, max_events=3, max_wait_seconds=0.0)


class Counts:
    def __init__(self) -> None:
        self.lost_events: dict[str, int] = {}

    def level(self, level: str) -> None: ...

    def event(self) -> None: ...

    def rejected(self) -> None: ...

    def lost(self, plugin: str, count: int) -> None:
        self.lost_events[plugin] = self.lost_events.get(plugin, 0) + count


class Place:
    """Where events arrive. hold: while it is not set, nothing does."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.error: Exception | None = None
        self.begun = 0

    async def deliver(self, batch: Sequence[Event]) -> None:
        self.begun += 1
        await self.hold.wait()
        if self.error is not None:
            raise self.error
        self.batches.append([event.members.decode() for event in batch])


def event(name: str = "a") -> Event:
    return Event(METADATA, name.encode())


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def losses(counts: Counts) -> LostEvents:
    return LostEvents(counts, FakeClock())


def buffer(
    place: Place, losses: LostEvents, batching: Batching = BATCHING, clock: FakeClock | None = None, sending: int = 1
) -> Buffer:
    clock = clock or FakeClock()
    return Buffer(place.deliver, "webhook", batching, losses, clock=clock, sleep=clock.sleep, sending=sending)


async def running(made: Buffer, names: str) -> None:
    """Put events for names, deliver them, end."""
    for name in names:
        assert made(event(name)) is True
    task = asyncio.create_task(made.run())
    await settled()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await made.close()


async def test_batches_keep_the_order(losses: LostEvents, counts: Counts) -> None:
    place = Place()
    await running(buffer(place, losses), "abcdefgh")
    assert ["".join(batch) for batch in place.batches] == ["abc", "def", "gh"]
    assert counts.lost_events == {}


async def test_batches_are_split_by_their_size(losses: LostEvents) -> None:
    place = Place()
    made = buffer(place, losses, replace(BATCHING, max_bytes=4))
    for name in ("aaa", "b", "c", "dddddd", "e"):
        made(event(name))
    await made.close()
    assert place.batches == [["aaa", "b"], ["c"], ["dddddd"], ["e"]]


async def test_a_batch_that_is_not_full_waits(losses: LostEvents) -> None:
    place, clock = Place(), FakeClock()
    await running(buffer(place, losses, replace(BATCHING, max_wait_seconds=30.0), clock), "ab")
    assert clock.slept == [30.0]
    assert place.batches == [["a", "b"]]


async def test_a_full_batch_does_not_wait(losses: LostEvents) -> None:
    place, clock = Place(), FakeClock()
    await running(buffer(place, losses, replace(BATCHING, max_wait_seconds=30.0), clock), "abc")
    assert (clock.slept, place.batches) == ([], [["a", "b", "c"]])


async def test_the_rate_of_batches(losses: LostEvents) -> None:
    place, clock = Place(), FakeClock()
    await running(buffer(place, losses, Batching(10, 1, 0.0, rate=2.0, burst=2), clock), "abcd")
    assert len(place.batches) == 4
    assert sum(clock.slept) == pytest.approx(1.0)


async def test_a_backend_that_hangs_costs_no_more_than_the_buffer(losses: LostEvents, counts: Counts) -> None:
    place = Place()
    place.hold.clear()
    made = buffer(place, losses, sending=2)
    task = asyncio.create_task(made.run())
    for number in range(100):
        assert made(event(str(number))) is True
        await asyncio.sleep(0)
    await settled()
    # Two batches, of the one event that there was, are on their way, and ten events wait.
    assert (place.begun, counts.lost_events) == (2, {"buffered": 88})
    place.hold.set()
    await settled()
    task.cancel()
    await made.close()
    delivered = sum(map(len, place.batches))
    assert delivered + counts.lost_events["buffered"] == 100


async def test_bytes_are_bounded_as_well(losses: LostEvents, counts: Counts) -> None:
    place = Place()
    made = buffer(place, losses)
    big = Event(METADATA, b"x" * (MAX_PENDING_BYTES // 2))
    for _ in range(3):
        assert made(big) is True
    assert counts.lost_events == {"buffered": 1}
    await made.close()
    assert len(place.batches[0]) == 2
    assert made(big) is True  # after the end
    assert counts.lost_events == {"buffered": 2}


async def test_what_is_sent_counts_until_it_has_arrived(losses: LostEvents, counts: Counts) -> None:
    place = Place()
    place.hold.clear()
    made = buffer(place, losses)
    task = asyncio.create_task(made.run())
    big = Event(METADATA, b"x" * (MAX_PENDING_BYTES // 2 + 1))
    made(big)
    await settled()
    made(big)
    assert counts.lost_events == {"buffered": 1}
    place.hold.set()
    await settled()
    made(big)
    assert counts.lost_events == {"buffered": 1}
    task.cancel()
    await made.close()


async def test_what_does_not_arrive_is_counted(losses: LostEvents, counts: Counts) -> None:
    place = Place()
    place.error = OSError("no")
    await running(buffer(place, losses), "abcd")
    assert counts.lost_events == {"webhook": 4}


async def test_the_end_does_not_wait_for_ever(losses: LostEvents, counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "END_SECONDS", 0.0)
    place = Place()
    place.hold.clear()
    made = buffer(place, losses)
    for name in "abcd":
        made(event(name))
    await made.close()
    assert sum(counts.lost_events.values()) == 4


async def test_a_file_that_can_not_be_written(losses: LostEvents, counts: Counts) -> None:
    def write(_: Event) -> None:
        raise OSError("full")

    assert blocking(write, "log", losses, strict=False)(event()) is True
    assert blocking(write, "log", losses, strict=True)(event()) is False
    assert counts.lost_events == {"log": 2}


async def test_all_backends_get_each_event() -> None:
    seen: list[str] = []

    def sink(name: str, result: bool) -> Callable[[Event], bool]:
        def take(_: Event) -> bool:
            seen.append(name)
            return result

        return take

    async def later(result: bool) -> bool:
        seen.append("later")
        return result

    assert all_of([sink("a", False), sink("b", True)])(event()) is False
    waiting = all_of([sink("a", True), lambda _: later(True)])(event())
    assert isinstance(waiting, Awaitable)
    assert await waiting is True
    waiting = all_of([sink("a", False), lambda _: later(True)])(event())
    assert isinstance(waiting, Awaitable)
    assert await waiting is False
    assert seen == ["a", "b", "a", "later", "a", "later"]


async def test_truncating(losses: LostEvents, counts: Counts) -> None:
    taken: list[Event] = []

    def take(given: Event) -> bool:
        taken.append(given)
        return True

    sink = truncating(take, 200, losses)
    assert sink(event("x" * 10)) is True
    assert sink(event("x" * 200)) is True
    assert ([len(each.members) for each in taken], counts.lost_events) == ([10], {"truncate": 1})


async def test_the_log_tells_of_losses_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    clock, counts = FakeClock(), Counts()
    losses = LostEvents(counts, clock)
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            losses.lost("log", "full")
        clock.advance(60.0)
        losses.lost("log", "full", 2)
    assert [record.message for record in caplog.records] == [
        "error in audit plugin 'log' affecting 1 audit events: full",
        "error in audit plugin 'log' affecting 6 audit events: full",
    ]
    assert counts.lost_events == {"log": 7}


# --- the webhook ---


class Remote:
    """A webhook that answers with these errors in order, then without."""

    def __init__(self, *answers: Exception) -> None:
        self.answers = list(answers)
        self.bodies: list[bytes] = []

    async def post(self, body: bytes, seconds: float) -> None:
        self.bodies.append(body)
        if self.answers:
            raise self.answers.pop(0)


DOWN = (Unreachable("down"), ClusterError(400, "BadRequest", "no"), ClusterError(500, "", "no"), Unreachable("down"))


async def test_a_webhook_is_asked_again_after_any_error() -> None:
    remote, clock = Remote(*DOWN), FakeClock()
    await webhook.sending(remote, 10.0, sleep=clock.sleep, random=lambda: 0.0)([event()])
    assert clock.slept == [10.0, 15.0, 22.5, 33.75]
    assert len(set(remote.bodies)) == 1


async def test_a_webhook_is_asked_five_times(losses: LostEvents, counts: Counts) -> None:
    for strict in (False, True):
        remote, clock = Remote(*DOWN, Unreachable("last")), FakeClock()
        deliver = webhook.sending(remote, 10.0, sleep=clock.sleep, random=lambda: 0.5)
        waiting = webhook.waiting(deliver, losses, strict=strict)(event())
        assert isinstance(waiting, Awaitable)
        assert await waiting is not strict
        assert len(remote.bodies) == 5
        assert clock.slept[0] == pytest.approx(11.0)
    assert counts.lost_events == {"webhook": 2}
