from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggserver.adoption.record import Phase
from tests.adoption.world import CRONTABS, SHIRTS, World
from tests.fakes.clock import until


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


# About as many as a move and a release have.
POINTS = st.integers(1, 180)


@settings(max_examples=60)
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


@pytest.mark.parametrize("kind", ["kill", "fail"])
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
        reached = len(world.points) >= number
        await world.stop()
    assert number > 60


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
