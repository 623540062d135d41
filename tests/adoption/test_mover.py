from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggserver.adoption.copy.copying import AHEAD
from aggserver.adoption.families import ASKED
from aggserver.adoption.give_back.to_etcd import RAISED_AT_ONCE, objects_prefix
from aggserver.adoption.moves import ENDED_SECONDS, LATE_SECONDS, NEAR, Pace
from aggserver.adoption.records.record import LATE_WRITE, GiveBack, Moving, Phase, Record, Refused
from aggserver.meta import codec
from tests.adoption.world import CRONTABS, GROUP, SHIRTS, World
from tests.fakes.clock import FakeClock, settled, until
from tests.fakes.damage import flip


async def check(world: World, *, adopted: bool) -> None:
    """Every acknowledged write is where clients are led, and nothing else is; the host and this server are as they should be."""
    assert [bool(led) for led in world.led] == [adopted] * 2
    objects = await world.objects(world.own if adopted else world.host)
    assert objects == world.acknowledged
    records = world.journal.records
    if adopted:
        assert {name: record.phase for name, record in records.items()} == {CRONTABS: Phase.ADOPTED}
        assert world.served == world.holding == set(world.crds)
        assert world.guards == [frozenset(world.crds)] * 2
    else:
        assert records == {}
        assert await world.objects(world.own) == {}
        assert (world.served, world.holding, world.guards) == (set(), set(), [frozenset()] * 2)
    assert (world.frozen, world.hidden) == (set(), set())


async def moved(world: World) -> World:
    await world.start()
    world.select(selected=True)
    await world.settle()
    return world


async def test_a_family_moves_and_goes_back_while_clients_write() -> None:
    world = await moved(World())
    await check(world, adopted=True)
    phases = [phase for phase, _ in world.seen]
    assert phases == [Phase.COPYING, Phase.GUARDING, Phase.SWITCHING, Phase.ADOPTED]
    assert world.refused, "some clients had to wait"
    assert await world.own.revision() >= (await world.host.list("/stable.example.com/")).revision
    world.seen.clear()
    world.select(selected=False)
    await world.settle()
    await check(world, adopted=False)
    assert [phase for phase, _ in world.seen] == [Phase.GIVING_BACK, Phase.SWITCHING_BACK, Phase.WAITING]
    assert await world.host.revision() >= await world.own.revision() - 20
    await world.stop()


async def test_a_release_shows_its_progress_as_a_copy_does() -> None:
    world = await moved(World(writes=0))
    assert {phase for phase, _ in world.moving} == {Phase.COPYING}
    await world.own.create(f"{objects_prefix(CRONTABS)}default/new", b"{}")
    there = await world.own.count(objects_prefix(CRONTABS))
    world.moving.clear()
    world.select(selected=False)
    await world.settle()
    assert {phase for phase, _ in world.moving} == {Phase.GIVING_BACK}
    last = world.moving[-1][1]
    assert (last.objects, last.size, last.remaining, last.seconds_left) == (there, len(b"{}"), 0, 0.0)
    await world.stop()


def test_the_seconds_left_are_those_of_the_present_pass() -> None:
    """A release through the API passes over all objects several times."""
    clock, seen = FakeClock(), list[Moving]()
    pace = Pace(seen.append, clock)
    pace(0, 100, 0)
    for seconds, done in ((10.0, 20), (40.0, 100), (1.0, 50), (1.0, 75)):
        clock.advance(seconds)
        pace(done, 100, 7)
    assert [each.seconds_left for each in seen] == [None, 40.0, 0.0, 1.0, pytest.approx(2 / 3)]
    assert [each.remaining for each in seen] == [100, 80, 0, 50, 25]


# About as many as a move and a release have.
POINTS = st.integers(1, 180)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    disturbances=st.dictionaries(POINTS, st.sampled_from(["kill", "fail"]), max_size=4),
    flips=st.dictionaries(POINTS, st.booleans(), max_size=2),
    end=st.booleans(),
)
async def test_no_acknowledged_write_is_lost(seed: int, disturbances: dict[int, str], flips: dict[int, bool], end: bool) -> None:
    world = World(seed, disturbances)
    world.flips = flips
    await moved(world)
    world.select(selected=False)
    await world.settle()
    world.flips = {}
    world.select(selected=end)
    await world.settle()
    await check(world, adopted=end)
    await world.stop()


@pytest.mark.parametrize("kind", ["kill", pytest.param("fail", marks=pytest.mark.long)])
async def test_each_moment_of_a_move_may_be_the_last(kind: str) -> None:
    """At every point of a move and a release, one after the other."""
    number, reached = 0, True
    while reached:
        number += 1
        world = await moved(World(seed=number, disturbances={number: kind}, writes=1))
        await check(world, adopted=True)
        world.select(selected=False)
        await world.settle()
        await check(world, adopted=False)
        if kind == "fail":
            assert world.seen[-1] == (Phase.WAITING, ""), "what has failed on the way back is over"
        reached = len(world.points) >= number
        await world.stop()
    assert number > 60


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    fills=st.lists(st.tuples(st.sampled_from(["own", "host"]), POINTS, st.integers(1, 60)), max_size=3),
    disturbances=st.dictionaries(POINTS, st.sampled_from(["kill", "fail"]), max_size=2),
)
async def test_no_acknowledged_write_is_lost_while_stores_are_full(
    seed: int, fills: list[tuple[str, int, int]], disturbances: dict[int, str]
) -> None:
    world = World(seed, disturbances)
    world.fills = fills
    await moved(world)
    await check(world, adopted=True)
    world.select(selected=False)
    await world.settle()
    await check(world, adopted=False)
    await world.stop()


@pytest.mark.parametrize("store", ["own", pytest.param("host", marks=pytest.mark.long)])
async def test_each_moment_of_a_move_may_find_a_store_full(store: str) -> None:
    """And clients of the other store go on writing, except in the steps in which they wait for the move anyway."""
    number, reached = 0, True
    while reached:
        number += 3
        world = World(seed=number, writes=1)
        world.fills = [(store, number, 40)]
        await moved(world)
        await check(world, adopted=True)
        world.select(selected=False)
        await world.settle()
        await check(world, adopted=False)
        assert world.seen[-1] == (Phase.WAITING, ""), "what has failed on the way back is over"
        reached = len(world.points) >= number
        await world.stop()
    assert number > 60


async def test_a_host_that_is_far_behind_is_raised_before_clients_wait() -> None:
    world = await moved(World())
    await world.own.advance(await world.host.revision() + 3 * RAISED_AT_ONCE)
    advance, phases = world.advance_host, set()

    async def advancing(revision: int) -> None:
        if revision - await world.host.revision() > NEAR:
            phases.add(world.journal.records[CRONTABS].phase)
            assert world.frozen == set()
        await advance(revision)

    world.advance_host = advancing  # type: ignore[method-assign]
    world.select(selected=False)
    await world.settle()
    await check(world, adopted=False)
    assert phases == {Phase.ADOPTED}
    (told,) = (text for text in world.told if "the cluster's etcd has to advance first" in text)
    assert "revisions, about 1 minutes; clients go on meanwhile" in told
    assert await world.host.revision() >= 3 * RAISED_AT_ONCE
    await world.stop()


async def test_a_release_that_is_not_wanted_any_more_ends_while_the_host_is_raised() -> None:
    world = await moved(World())
    await world.own.advance(await world.host.revision() + 3 * RAISED_AT_ONCE)
    advance, count = world.advance_host, 0

    async def advancing(revision: int) -> None:
        nonlocal count
        await advance(revision)
        count += 1
        world.select(selected=True)

    world.advance_host = advancing  # type: ignore[method-assign]
    world.select(selected=False)
    await until(lambda: count)
    await world.settle()
    assert count == 1
    await check(world, adopted=True)
    await world.stop()


async def stuck(world: World) -> None:
    """Until the same failure has come again and again."""
    count = len(world.told)
    await until(lambda: len(world.told) > count + 3)


async def test_a_volume_that_fills_up_while_copying_lets_clients_write_at_the_host() -> None:
    world = World(writes=0)
    await world.start()
    reached = asyncio.Event()
    guard = world.guard

    async def guarding(definitions: Collection[str]) -> None:
        await guard(definitions)
        if definitions:
            world.full.add("own")
            reached.set()

    world.guard = guarding  # type: ignore[method-assign]
    world.select(selected=True)
    await reached.wait()
    await until(lambda: world.guards == [frozenset()] * 2)
    await stuck(world)
    assert world.journal.records[CRONTABS].phase is Phase.GUARDING, "there was no room for another record"
    assert world.guards == [frozenset()] * 2
    assert world.seen[-1][1] == (
        "can't write to the store: database or disk is full; "
        "it can't go back yet: can't write to the store: database or disk is full"
    )
    await world.stop()
    # Nor is the guard on after a restart.
    world.guards = [frozenset(world.crds)] * 2
    world.run()
    await until(lambda: world.guards == [frozenset()] * 2)
    world.guard = guard  # type: ignore[method-assign]
    world.full.clear()
    await world.settle()
    await check(world, adopted=True)
    await world.stop()


async def test_a_host_that_is_full_stops_a_release_while_reads_go_on() -> None:
    """Nothing was written since the move, so only the APIServices would have to change."""
    world = await moved(World(writes=0))
    await world.own.advance(await world.host.revision() + 1000)
    world.full.add("host")
    world.select(selected=False)
    await until(lambda: world.told)
    await stuck(world)
    await until(lambda: world.seen[-1][0] is Phase.ADOPTED)
    assert world.hidden == set()
    assert [bool(led) for led in world.led] == [True, True]
    assert world.seen[-1][1] == "the revision can't be raised: 500 InternalError: etcdserver: mvcc: database space exceeded"
    world.full.clear()
    await world.settle()
    await check(world, adopted=False)
    await world.stop()


async def test_what_the_host_refuses_is_tried_again_when_it_is_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    world = await moved(World(writes=0))
    await world._write()
    allowed, attempts = False, 0
    give_back = world.give_back

    def refusing(record: Record, definition: str) -> GiveBack:
        nonlocal attempts
        attempts += 1
        if not allowed:
            raise Refused("x is refused")
        return give_back(record, definition)

    world.give_back = refusing  # type: ignore[method-assign]
    world.select(selected=False)
    await until(lambda: world.told)
    for _ in range(20):
        await settled()
    assert (attempts, world.told) == (1, ["x is refused"])
    assert f"not tried again before this command: `aggserver adopt release {CRONTABS} --through-api`: x is refused" in caplog.text
    assert "trying again" not in caplog.text
    assert world.journal.records[CRONTABS].phase is Phase.ADOPTED
    # Meanwhile it is looked after: somebody has led clients away for a moment.
    before = len(world.points)
    world.mover.led_away((GROUP, "v1"))
    await world.settle()
    assert "to us seen" in world.points[before:]
    assert (attempts, world.journal.records[CRONTABS].reason) == (1, "x is refused")
    allowed = True
    for crd in world.crds.values():
        crd["metadata"]["annotations"] = {ASKED: "2026-01-01T00:00:00Z"}
    world.mover.want(world.wanted())
    await world.settle()
    await check(world, adopted=False)
    await world.stop()


async def test_a_definition_that_is_created_later_joins() -> None:
    world = World()
    late = world.crds.pop(SHIRTS)
    await moved(world)
    await check(world, adopted=True)
    world.crds[SHIRTS] = late
    await world.store_definition(SHIRTS)
    world.select(selected=True)
    await world.settle()
    await check(world, adopted=True)
    world.select(selected=False)
    await world.settle()
    await check(world, adopted=False)
    await world.stop()


async def test_a_family_that_is_not_wholly_selected_waits_and_says_why() -> None:
    world = World()
    await world.start()
    world.crds[CRONTABS]["metadata"]["labels"] = {"storage": "aggserver"}
    world.mover.want(world.wanted())
    await world.settle()
    assert world.journal.records == {}
    assert SHIRTS in world.mover.waiting[CRONTABS].reason
    await world.stop()


async def test_objects_that_are_no_copies_are_not_overwritten() -> None:
    world = World()
    await world.start()
    await world.own.create("/stable.example.com/shirts/default/mine", b"{}")
    world.select(selected=True)
    await until(lambda: world.told)
    assert "1 objects of shirts.stable.example.com already" in world.mover.waiting[CRONTABS].reason
    assert world.journal.records == {}
    await world.stop()


async def test_a_deleted_definition_is_emptied_before_it_is_let_go() -> None:
    world = await moved(World())
    world.crds[SHIRTS]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.mover.want(world.wanted())
    await world.settle()
    world.mover.want(world.wanted())
    await world.settle()
    assert await world.own.count("/stable.example.com/shirts/") == 0
    assert world.holding == {CRONTABS}
    assert world.journal.records[CRONTABS].definitions == [CRONTABS]
    assert world.guards == [frozenset({CRONTABS})] * 2
    world.crds[CRONTABS]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.mover.want(world.wanted())
    await world.settle()
    assert (world.journal.records, world.crds, world.led) == ({}, {}, [set(), set()])
    assert await world.objects(world.own) == {}
    assert world.guards == [frozenset()] * 2
    await world.stop()


async def test_a_version_that_is_added_or_removed_is_switched() -> None:
    world = await moved(World())
    versions = world.crds[CRONTABS]["spec"]["versions"]
    versions.append({"name": "v2", "served": True, "storage": False})
    world.mover.want(world.wanted())
    await world.settle()
    assert world.led == [{("stable.example.com", "v1"), ("stable.example.com", "v2")}] * 2
    versions[1]["served"] = False
    world.mover.want(world.wanted())
    await world.settle()
    assert world.led == [{("stable.example.com", "v1")}] * 2
    await check(world, adopted=True)
    await world.stop()


async def test_leftovers_are_removed_once_when_asked_and_a_release_still_gives_everything_back() -> None:
    world = await moved(World())
    assert await world.objects(world.host)
    for crd in world.crds.values():
        crd["metadata"]["annotations"] = {"aggserver.io/cleanup": "2026-01-01T00:00:00Z"}
    world.mover.want(world.wanted())
    await world.settle()
    assert await world.objects(world.host) == {}
    assert [text for text in world.told if "were removed" in text]
    world.select(selected=False)
    await world.settle()
    await check(world, adopted=False)
    await world.stop()


async def cleaned(world: World) -> None:
    for crd in world.crds.values():
        crd["metadata"]["annotations"] = {"aggserver.io/cleanup": "2026-01-01T00:00:00Z"}
    world.mover.want(world.wanted())
    await world.settle()


@pytest.mark.parametrize("kind", ["kill", pytest.param("fail", marks=pytest.mark.long)])
async def test_a_cleanup_goes_on_after_an_interruption_at_any_moment(kind: str) -> None:
    number, reached = 0, True
    while reached:
        number += 1
        world = await moved(World(seed=number, writes=1))
        first = len(world.points)
        world.disturbances = {first + number: kind}
        await cleaned(world)
        assert await world.objects(world.host) == {}
        assert not any(crd.get("leftovers") for crd in world.crds.values())
        await check(world, adopted=True)
        reached = len(world.points) >= first + number
        await world.stop()
    assert number > 10


async def test_a_release_in_the_middle_of_a_cleanup_gives_everything_back() -> None:
    number, reached = 0, True
    while reached:
        number += 1
        world = await moved(World(seed=number, writes=1))
        first = len(world.points)
        world.flips = {first + number: False}
        await cleaned(world)
        world.select(selected=False)
        await world.settle()
        assert not any(crd.get("leftovers") for crd in world.crds.values())
        await check(world, adopted=False)
        reached = len(world.points) >= first + number and number < 40
        await world.stop()
    assert number > 10


async def test_a_cleanup_that_is_refused_is_told_and_waits_for_another_request() -> None:
    world = await moved(World(writes=0))
    # The next process does not follow the host any more.
    await world.stop()
    key = "/stable.example.com/shirts/default/behind-our-back"
    world.run()
    await world.settle()
    revision = await world.host.create(key, b"{}\n")
    await cleaned(world)
    assert any("nothing is removed" in text for text in world.told)
    told = len(world.told)
    assert await world.objects(world.host)
    await world.host.delete(key, revision)
    await world.settle()
    assert len(world.told) == told
    for crd in world.crds.values():
        crd["metadata"]["annotations"] = {"aggserver.io/cleanup": "2026-01-01T00:00:01Z"}
    world.mover.want(world.wanted())
    await world.settle()
    assert await world.objects(world.host) == {}
    await check(world, adopted=True)
    await world.stop()


async def test_a_version_that_a_cleanup_has_left_is_closed() -> None:
    world = await moved(World(writes=0))
    world.crds[CRONTABS]["leftovers"] = True
    world.mover.want(world.wanted())
    await world.settle()
    assert not world.crds[CRONTABS]["leftovers"]
    await world.stop()


async def test_in_a_shared_store_only_the_address_changes() -> None:
    world = World(writes=0)
    world.own = world.host
    await moved(world)
    before = await world.objects(world.host)
    assert before
    assert world.journal.records[CRONTABS].shared
    assert [bool(led) for led in world.led] == [True, True]
    assert (
        not any(what.startswith(("guard 0", "freeze", "mark")) for what in world.points[1:]) or world.guards == [frozenset()] * 2
    )
    world.select(selected=False)
    await world.settle()
    assert await world.objects(world.host) == before
    assert (world.journal.records, world.led, world.holding) == ({}, [set(), set()], set())
    await world.stop()


def following_late_writes(world: World) -> asyncio.Event:
    """Late writes of the host are followed until the event is set."""
    arrived = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds == LATE_SECONDS:
            await arrived.wait()
        await asyncio.sleep(0)

    world.sleep = sleep
    return arrived


async def test_a_late_write_of_the_host_becomes_part_of_the_record() -> None:
    world = World(writes=0)
    arrived = following_late_writes(world)
    await moved(world)
    key = "/stable.example.com/crontabs/default/late"
    late = {"apiVersion": "stable.example.com/v1", "kind": "K", "metadata": {"name": key}}
    revision = await world.host.create(key, codec.encode_json(late) + b"\n")
    await settled()
    assert (await world.objects(world.own))[key] == late
    arrived.set()
    await world.settle()
    await until(lambda: world.journal.records[CRONTABS].copied[CRONTABS].host_revision >= revision)
    world.acknowledged[key] = late
    world.select(selected=False)
    await world.settle()
    await check(world, adopted=False)
    assert LATE_WRITE not in world.reasons
    await world.stop()


async def test_late_writes_are_followed_for_the_whole_time_after_each_move() -> None:
    world = World(writes=0)
    timers: list[asyncio.Event] = []

    async def sleep(seconds: float) -> None:
        if seconds == LATE_SECONDS:
            timers.append(asyncio.Event())
            await timers[-1].wait()
        await asyncio.sleep(0)

    world.sleep = sleep
    await moved(world)
    world.select(selected=False)
    await world.settle()
    world.select(selected=True)
    await world.settle()
    assert len(timers) == 2
    timers[0].set()
    await settled()
    key = "/stable.example.com/crontabs/default/late"
    late = {"apiVersion": "stable.example.com/v1", "kind": "K", "metadata": {"name": key}}
    revision = await world.host.create(key, codec.encode_json(late) + b"\n")
    await settled()
    assert (await world.objects(world.own))[key] == late
    timers[1].set()
    await until(lambda: world.journal.records[CRONTABS].copied[CRONTABS].host_revision >= revision)
    await world.stop()


async def test_nothing_moves_and_the_guard_stays_while_a_record_is_damaged() -> None:
    world = await moved(World(writes=0))
    await world.stop()
    guards = list(world.guards)
    flip(world.own, f"/aggserver/adoptions/{CRONTABS}")
    world.points.clear()
    world.run()
    began = world.clock.now
    await until(lambda: world.clock.now > began + 100)
    world.select(selected=True)
    await settled()
    assert (world.points, world.guards) == ([], guards)
    await world.stop()


async def test_a_late_write_that_can_not_be_copied_is_told() -> None:
    world = World(writes=0)
    following_late_writes(world)
    await moved(world)
    key = next(iter(world.acknowledged))
    (ours, theirs) = (await world.own.get(key), await world.host.get(key))
    assert ours is not None
    assert theirs is not None
    await world.own.update(key, b'{"written":"here"}', ours.revision)
    await world.host.update(key, codec.encode_json({**codec.decode_stored(theirs.value), "n": -1}) + b"\n", theirs.revision)
    await until(lambda: LATE_WRITE in world.reasons)
    assert f"a write of {key} at the host's revision" in world.told[world.reasons.index(LATE_WRITE)]
    await world.stop()


@pytest.mark.parametrize(("more", "marks"), [(0, 4), (AHEAD // 2, 4), (AHEAD * 2, 6)])
async def test_clients_of_watches_that_were_open_at_the_host_list_anew(more: int, marks: int) -> None:
    """more: how far the host goes on before its watches have ended. marks: two for each of the two definitions at least."""
    world = World(writes=0)
    ended = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds == ENDED_SECONDS:
            await world.host.advance(await world.host.revision() + more)
            ended.set()
        elif seconds == LATE_SECONDS:
            await asyncio.Future()
        await asyncio.sleep(0)

    world.sleep = sleep
    await moved(world)
    await ended.wait()
    await settled()
    assert world.points.count("mark") == marks
    await check(world, adopted=True)
    assert await world.own.revision() >= await world.host.revision()
    await world.stop()
