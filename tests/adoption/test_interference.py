"""What others do to a definition in the middle of its move, while it is adopted, and while it goes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aggserver.adoption.give_back.to_etcd import objects_prefix
from aggserver.adoption.records.record import Phase
from aggserver.meta import codec
from tests.adoption.test_mover import check, moved
from tests.adoption.world import CRONTABS, GROUP, SHIRTS, World
from tests.fakes.clock import until

TIME = "2026-01-01T00:00:00Z"
V1 = (GROUP, "v1")


def deleted(world: World, *names: str) -> None:
    for name in names or tuple(world.crds):
        world.crds[name]["metadata"]["deletionTimestamp"] = TIME
    world.changed()


async def gone(world: World) -> None:
    """Nothing is left of the definitions, neither here nor there."""
    assert (world.crds, world.journal.records, world.led) == ({}, {}, [set(), set()])
    assert (world.served, world.holding, world.guards) == (set(), set(), [frozenset()] * 2)
    assert await world.objects(world.own) == await world.objects(world.host) == {}
    await world.stop()


def once(world: World, phase: Phase, do: Callable[[], None]) -> None:
    """Do it at the first point at which a record has the phase, but for its being written."""

    def look(what: str) -> None:
        if not what.startswith(("create", "update")) and any(record.phase is phase for record in world.journal.records.values()):
            world.meanwhile = lambda _: None
            do()

    world.meanwhile = look


@pytest.mark.parametrize("phase", [Phase.COPYING, Phase.GUARDING, Phase.SWITCHING, Phase.GIVING_BACK, Phase.SWITCHING_BACK])
async def test_a_definition_that_is_deleted_goes_from_every_phase(phase: Phase) -> None:
    world = World()
    once(world, phase, lambda: deleted(world))
    await moved(world)
    world.select(selected=False)
    await world.settle()
    world.changed()
    await world.settle()
    await gone(world)


async def test_a_definition_that_is_deleted_and_released_at_once_is_emptied() -> None:
    world = await moved(World())
    for crd in world.crds.values():
        crd["metadata"]["labels"] = {}
    deleted(world)
    await world.settle()
    assert Phase.GIVING_BACK not in [phase for phase, _ in world.seen], "the host would keep what is given back"
    await gone(world)


async def test_what_is_left_of_a_family_goes_back_after_the_deletion() -> None:
    world = await moved(World())
    for crd in world.crds.values():
        crd["metadata"]["labels"] = {}
    deleted(world, SHIRTS)
    await world.settle()
    world.changed()
    await world.settle()
    assert set(world.crds) == {CRONTABS}
    await check(world, adopted=False)
    await world.stop()


@pytest.mark.parametrize("kind", ["kill", "fail"])
async def test_each_moment_of_a_deletion_may_be_the_last(kind: str) -> None:
    number, reached = 0, True
    while reached:
        number += 1
        world = await moved(World(seed=number, writes=0))
        begun = len(world.points)
        world.disturbances = {begun + number: kind}
        deleted(world)
        await world.settle()
        reached = len(world.points) >= begun + number
        await gone(world)
    assert number > 20


@pytest.mark.parametrize("phase", [Phase.COPYING, Phase.GUARDING, Phase.SWITCHING])
async def test_a_changed_spec_begins_the_move_anew(phase: Phase) -> None:
    world = World()

    def change() -> None:
        world.crds[CRONTABS]["metadata"]["generation"] = 2
        world.changed()

    once(world, phase, change)
    await moved(world)
    await check(world, adopted=True)
    assert [phase for phase, _ in world.seen].count(Phase.COPYING) == 2
    assert any("the spec of a definition has changed" in text for text in world.told)
    await world.stop()


@pytest.mark.parametrize("phase", [Phase.COPYING, Phase.GUARDING, Phase.SWITCHING])
async def test_a_definition_that_is_created_anew_is_copied_anew(phase: Phase) -> None:
    world = World(writes=0)

    def recreate() -> None:
        world.crds[CRONTABS]["metadata"]["uid"] = "uid-2"
        world.changed()

    once(world, phase, recreate)
    await moved(world)
    await check(world, adopted=True)
    assert world.journal.records[CRONTABS].uids[CRONTABS] == "uid-2"
    await world.stop()


# --- while it is adopted ---


async def test_our_finalizer_is_put_on_again() -> None:
    world = await moved(World())
    world.holding.discard(CRONTABS)
    world.changed()
    await world.settle()
    await check(world, adopted=True)
    await world.stop()


async def test_a_refusal_is_tried_again_less_and_less_often() -> None:
    """Also when what the family needs meanwhile succeeds."""
    world = await moved(World(writes=0))
    world.holding.discard(CRONTABS)
    world.refusing = {"hold"}
    begun, at = len(world.told), world.clock.now
    world.changed()
    await until(lambda: len(world.told) >= begun + 7)
    assert 2 + 4 + 8 + 16 + 32 + 64 <= world.clock.now - at <= 200
    assert world.journal.records[CRONTABS].reason == "hold is refused by a policy"
    assert not world.frozen
    world.refusing = set()
    await world.settle()
    await check(world, adopted=True)
    assert world.journal.records[CRONTABS].reason == ""
    await world.stop()


async def test_clients_list_anew_when_the_host_has_served_for_a_moment() -> None:
    world = await moved(World(writes=0))
    begun = len(world.points)
    world.mover.led_away(V1)
    await world.settle()
    assert world.points[begun:].count("mark") == 2
    begun = len(world.points)
    world.mover.led_away(("other.example.com", "v1"))
    await world.settle()
    assert "mark" not in world.points[begun:]
    await check(world, adopted=True)
    await world.stop()


async def given_back_elsewhere() -> World:
    """Adopted, and given back from a backup while no server ran. Clients have written at the host since."""
    world = await moved(World(writes=0))
    await world.stop()
    world.led, world.guards = [set(), set()], [frozenset(), frozenset()]
    world.holding.clear()
    key = next(iter(world.acknowledged))
    found = await world.host.get(key)
    assert found is not None
    world.acknowledged[key] = {**codec.decode_stored(found.value), "n": "newer"}
    await world.host.update(key, codec.encode_json(world.acknowledged[key]) + b"\n", found.revision)
    world.run()
    await world.settle()
    return world


async def test_what_was_given_back_elsewhere_is_not_served() -> None:
    world = await given_back_elsewhere()
    record = world.journal.records[CRONTABS]
    assert record.phase is Phase.WAITING
    assert "went back to the cluster without this server" in record.reason
    assert world.seen[-1] == (Phase.WAITING, record.reason)
    assert (world.led, world.guards, world.served, world.holding) == ([set(), set()], [frozenset()] * 2, set(), set())
    assert await world.objects(world.host) == world.acknowledged
    assert await world.objects(world.own) != {}, "nothing is deleted unasked"
    # A restart changes nothing, nor does the label.
    await world.stop()
    world.run()
    world.select(selected=False)
    await world.settle()
    world.select(selected=True)
    await world.settle()
    assert world.journal.records[CRONTABS] == record
    # A person decides for what the cluster has.
    for crd in world.crds.values():
        crd["metadata"]["annotations"] = {"aggserver.io/adoption": "discard"}
    world.changed()
    await world.settle()
    await check(world, adopted=False)
    for crd in world.crds.values():
        del crd["metadata"]["annotations"]
    world.changed()
    await world.settle()
    await check(world, adopted=True)
    await world.stop()


async def test_a_person_may_decide_for_what_is_here() -> None:
    world = await given_back_elsewhere()
    here = await world.objects(world.own)
    world.holding |= set(world.crds)
    world.changed()
    await world.settle()
    assert world.journal.records[CRONTABS].phase is Phase.ADOPTED
    assert await world.objects(world.own) == here
    assert world.led == [{V1}, {V1}]
    await world.stop()


async def test_a_definition_that_was_forced_away_and_created_anew_is_discarded_when_asked() -> None:
    world = await moved(World(writes=0))
    world.holding.discard(CRONTABS)
    world.crds[CRONTABS]["metadata"]["uid"] = "uid-2"
    world.changed()
    await world.settle()
    assert world.journal.records[CRONTABS].uids[CRONTABS] == "uid-crontabs"
    world.crds[CRONTABS]["metadata"]["annotations"] = {"aggserver.io/adoption": "discard"}
    world.changed()
    await world.settle()
    assert world.journal.records[CRONTABS].definitions == [SHIRTS]
    assert await world.own.count(f"/{GROUP}/crontabs/") == 0
    assert await world.own.count(f"/{GROUP}/shirts/") > 0
    del world.crds[CRONTABS]["metadata"]["annotations"]
    world.changed()
    await world.settle()
    assert world.journal.records[CRONTABS].uids[CRONTABS] == "uid-2", "it joins, without the objects of the other"
    await world.stop()


async def test_a_definition_that_is_gone_and_has_nothing_here_is_forgotten() -> None:
    world = await moved(World(writes=0))
    await world.stop()
    (kept, *others) = sorted(
        world.crds, key=lambda name: not any(key.startswith(objects_prefix(name)) for key in world.acknowledged)
    )
    for item in (await world.own.list(objects_prefix(others[0]))).items:
        await world.own.delete(item.key, item.revision)
    for name, definitions in ((others[0], [kept]), (kept, [kept])):
        del world.crds[name]
        world.run()
        await world.settle()
        # The objects that are left are a matter for a person.
        assert world.journal.records[CRONTABS].definitions == definitions
        await world.stop()
