"""Fairness, with a fake clock: who runs, who waits, who is rejected, counted over simulated time."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Sequence

import pytest

from aggserver.endpoints.flow_control.levels import Level, Seats, Ticket
from aggserver.endpoints.flow_control.limits import LevelLimits, Queuing
from aggserver.endpoints.flow_control.shuffle_sharding import deal, flow_hash

QUEUES = Queuing(64, 4, 50)


class World:
    """Levels on one clock. Each request takes the seconds it is given once it runs."""

    def __init__(self, total: int = 10) -> None:
        self.seats = Seats(lambda below: 0)
        self.seats.total = total
        self.now = 0.0
        self.done: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self._ends: list[tuple[float, int, Ticket, str]] = []
        self._order = itertools.count()

    def level(self, limits: tuple[int, int, int, int], queuing: Queuing = QUEUES, *, exempt: bool = False) -> Level:
        level = Level("level", self.seats, exempt=exempt)
        level.configure("", LevelLimits(*limits), queuing)
        return level

    def send(self, level: Level, flow: str, seconds: float = 1.0, seats: int = 1) -> Ticket | None:
        hand = deal(flow_hash("schema", flow), level.queuing.queues, level.queuing.hand) if level.queuing.queues else ()
        ticket = level.arrive("schema", flow, hand, seats, self.now)
        if ticket is None:
            self.rejected[flow] += 1
            return None

        def run(ticket: Ticket = ticket) -> None:
            heapq.heappush(self._ends, (self.now + seconds, next(self._order), ticket, flow))

        ticket.run = run
        if not ticket.waits:
            run()
        return ticket

    def step(self) -> str:
        """To the end of the next request. Returns its flow."""
        self.now, _, ticket, flow = heapq.heappop(self._ends)
        ticket.level.finish(ticket, self.now)
        self.done[flow] += 1
        return flow

    def rest(self) -> None:
        while self._ends:
            self.step()


def closed_loop(world: World, level: Level, clients: Sequence[tuple[str, int, float, int]], steps: int) -> None:
    """Each (flow, requests at once, seconds, seats) sends the next request when one of its own has ended."""
    of = {flow: (seconds, seats) for flow, _, seconds, seats in clients}
    for flow, at_once, seconds, seats in clients:
        for _ in range(at_once):
            world.send(level, flow, seconds, seats)
    for _ in range(steps):
        flow = world.step()
        world.send(level, flow, *of[flow])


def test_a_flow_with_many_requests_gets_no_more_than_one_with_few() -> None:
    world = World(4)
    level = world.level((4, 4, 4, 4))
    closed_loop(world, level, [("many", 200, 1.0, 1), ("few", 4, 1.0, 1)], 400)
    assert abs(world.done["many"] - world.done["few"]) <= 60  # the many began alone, in several queues of their hand
    assert world.done["few"] >= 100


def test_long_requests_are_charged_what_they_take() -> None:
    world = World(4)
    level = world.level((4, 4, 4, 4), Queuing(64, 1, 500))
    closed_loop(world, level, [("long", 100, 10.0, 1), ("short", 100, 1.0, 1)], 1000)
    used = world.done["long"] * 10.0, world.done["short"] * 1.0
    assert used[0] == pytest.approx(used[1], rel=0.15)


def test_wide_requests_are_charged_their_seats() -> None:
    world = World(8)
    level = world.level((8, 8, 8, 8), Queuing(64, 1, 500))
    closed_loop(world, level, [("wide", 50, 1.0, 4), ("narrow", 50, 1.0, 1)], 1000)
    assert world.done["wide"] * 4 == pytest.approx(world.done["narrow"], rel=0.3)


def test_a_narrow_request_of_an_idle_flow_does_not_wait_for_lists() -> None:
    world = World(10)
    level = world.level((10, 10, 10, 5))
    for _ in range(50):
        world.send(level, "lister", 1.0, 5)
    assert (level.running, level.in_use, level.waiting) == (2, 10, 48)
    assert not level.has_room
    assert level.passes_at_once(deal(flow_hash("schema", "reader"), 64, 4))
    assert not level.passes_at_once(deal(flow_hash("schema", "lister"), 64, 4))
    first = world.send(level, "reader")
    assert first is not None
    assert not first.waits
    # At most as many requests run as there are seats.
    tickets = [world.send(level, f"reader-{number}") for number in range(20)]
    running = [ticket for ticket in tickets if ticket is not None and not ticket.waits]
    assert level.running == 10
    assert len(running) == 7


def test_a_list_is_not_overtaken_for_ever() -> None:
    world = World(4)
    level = world.level((4, 4, 4, 4))
    for _ in range(4):
        world.send(level, "narrow")
    wide = world.send(level, "wide", 1.0, 4)
    assert wide is not None
    assert wide.waits
    for _ in range(12):
        if not wide.waits:
            break
        world.send(level, "narrow")
        world.step()
    assert not wide.waits


def test_full_queues_reject() -> None:
    world = World(1)
    level = world.level((1, 1, 1, 1), Queuing(8, 2, 3))
    for _ in range(20):
        world.send(level, "many")
    assert level.waiting == 6
    assert world.rejected == {"many": 13}
    assert level.counts["schema"].rejected == {"queue-full": 13}
    world.rest()
    assert world.done == {"many": 7}
    assert level.is_idle


def test_a_flow_that_fills_its_hand_leaves_others_theirs() -> None:
    world = World(1)
    level = world.level((1, 1, 1, 1), Queuing(64, 4, 5))
    for _ in range(100):
        world.send(level, "many")
    for number in range(30):
        world.send(level, f"other-{number}")
    assert world.rejected["many"] == 79
    assert set(world.rejected) == {"many"}


def test_without_queues() -> None:
    world = World(3)
    level = world.level((3, 3, 3, 3), Queuing(0, 0, 0))
    for _ in range(5):
        world.send(level, "one")
    assert world.rejected == {"one": 2}
    assert level.counts["schema"].rejected == {"concurrency-limit": 2}
    world.step()
    assert world.send(level, "one") is not None


def test_exempt() -> None:
    world = World(1)
    level = world.level((0, 0, 1, 1), Queuing(0, 0, 0), exempt=True)
    for _ in range(50):
        world.send(level, "admin")
    assert level.running == 50
    assert level.has_room
    assert world.seats.reserved == 0


def test_a_level_without_seats_serves_one_after_the_other() -> None:
    world = World(0)
    level = world.level((0, 0, 0, 1))
    for _ in range(3):
        world.send(level, "one")
    assert (level.running, level.waiting) == (1, 2)
    world.rest()
    assert world.done == {"one": 3}


def test_seats_are_lent_and_what_is_not_lent_stays_free() -> None:
    world = World(10)
    borrower = world.level((4, 4, 14, 4))
    lender = world.level((6, 2, 16, 6), Queuing(64, 1, 50))
    for _ in range(20):
        world.send(borrower, "borrower")
    assert borrower.running == 8
    # The lender has what it does not lend at once, one more since its queue is empty, and the rest as soon as it is given back.
    for _ in range(6):
        world.send(lender, "lender", 100.0)
    assert (lender.running, lender.waiting) == (3, 3)
    for _ in range(8):
        world.step()
    assert lender.running == 6
    assert borrower.running == 4


def test_lists_do_not_borrow() -> None:
    world = World(10)
    borrower = world.level((4, 4, 14, 4))
    world.level((6, 0, 16, 6))
    for _ in range(5):
        world.send(borrower, "lister", 1.0, 2)
    assert (borrower.running, borrower.in_use) == (2, 4)


def test_who_gives_up_is_no_longer_in_the_way() -> None:
    world = World(1)
    level = world.level((1, 1, 1, 1), Queuing(1, 1, 10))
    world.send(level, "one")
    wide = world.send(level, "two")
    last = world.send(level, "three")
    assert wide is not None
    assert last is not None
    level.abandon(wide, world.now, "time-out")
    assert level.counts["schema"].rejected == {"time-out": 1}
    world.step()
    assert not last.waits
    world.rest()
    assert world.done == {"one": 1, "three": 1}
    counts = level.counts["schema"]
    assert (counts.waiting, counts.waiting_seats, counts.running, counts.running_seats) == (0, 0, 0, 0)


def test_a_level_that_ends_serves_those_it_has() -> None:
    world = World(2)
    level = world.level((2, 2, 2, 2))
    for _ in range(5):
        world.send(level, "one")
    level.end()
    world.rest()
    assert world.done == {"one": 5}
    assert level.is_idle
    assert world.seats.reserved == 0


def test_the_heap_does_not_grow_without_end() -> None:
    world = World(2)
    level = world.level((2, 2, 2, 2))
    closed_loop(world, level, [("a", 20, 1.0, 1), ("b", 20, 1.0, 1)], 5000)
    assert len(level._heap) < 200
