"""A mirror as the storage of a watch cache: what changes while the cache is loaded, and what it does once bodies are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aggserver.registry import stored
from aggserver.registry.stored import StoredObject
from aggserver.resources.mirror import Mirror, Reading
from aggserver.resources.revisions import REPLICAS, Revisions
from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import Compacted, FutureRevision, Unavailable
from tests.fakes.clock import FakeClock, settled

PREFIX = "/example.com/rows/"


def _mirror() -> Mirror:
    return Mirror(Revisions(FakeClock(), 5), PREFIX)


def _cacher(mirror: Mirror) -> Cacher[StoredObject]:
    return Cacher(mirror, PREFIX, make=stored.make, at=stored.at)


def _row(name: str, value: int = 0) -> bytes:
    return stored.encode({"metadata": {"name": name}, "value": value}, "example.com/v1", "Row")


def _value(cacher: Cacher[StoredObject], name: str) -> int | None:
    obj = cacher.get(PREFIX + name)
    value: int | None = None if obj is None else obj.decoded()["value"]
    return value


async def test_changes_between_the_list_and_the_watch() -> None:
    """A cache is loaded in steps, between which a feed may change any number of objects, also several times."""
    mirror = _mirror()
    for index in range(1200):
        mirror.put(f"{PREFIX}{index:04}", _row(f"{index:04}"))
    cacher = _cacher(mirror)
    loading = asyncio.ensure_future(cacher.ready())
    await asyncio.sleep(0)
    for index in range(5):
        mirror.put(f"{PREFIX}0000", _row("0000", index))
        mirror.remove(f"{PREFIX}{index + 1:04}")
        mirror.put(f"{PREFIX}new-{index}", _row(f"new-{index}", index))
        await asyncio.sleep(0)
    await loading
    assert len(cacher.list(PREFIX).items) == 1200
    assert _value(cacher, "0000") == 4
    assert _value(cacher, "0003") is None
    assert _value(cacher, "new-4") == 4
    mirror.put(f"{PREFIX}0000", _row("0000", 9))
    assert _value(cacher, "0000") == 9


async def test_bodies_that_are_gone_are_wanted_again() -> None:
    mirror = _mirror()
    wanted = []
    mirror.wanted = lambda: wanted.append(1)
    rows = {f"{PREFIX}{name}": _row(name) for name in "abc"}
    for key, value in rows.items():
        mirror.put(key, value)
    first = _cacher(mirror)
    await first.ready()
    second = _cacher(mirror)
    with pytest.raises(Unavailable):
        await second.ready()
    assert wanted
    with mirror.reading() as reading:
        for key, value in rows.items():
            mirror.found(reading, key, value)
        await mirror.replace(reading, set(rows))
    await second.ready()
    assert len(second.list(PREFIX).items) == 3
    mirror.put(f"{PREFIX}a", _row("a", 1))
    assert _value(first, "a") == _value(second, "a") == 1


async def test_what_can_not_be_read_again_keeps_its_last_state() -> None:
    """Also in a cache that is loaded anew."""
    mirror = _mirror()
    first = _cacher(mirror)
    await first.ready()
    for name in "ab":
        mirror.put(f"{PREFIX}{name}", _row(name, 1))
    second = _cacher(mirror)
    with pytest.raises(Unavailable):
        await second.ready()
    began_before = Reading(None)
    await mirror.replace(began_before, {f"{PREFIX}a", f"{PREFIX}b"})  # which has not filled in what is wanted
    with pytest.raises(Unavailable):
        await second.ready()
    with mirror.reading() as reading:
        mirror.found(reading, f"{PREFIX}a", _row("a", 1))
        await mirror.replace(reading, {f"{PREFIX}a", f"{PREFIX}b"})
    await second.ready()
    assert (_value(second, "a"), _value(second, "b")) == (1, 1)
    mirror.remove(f"{PREFIX}b")
    assert (_value(first, "b"), _value(second, "b")) == (None, None)


async def test_keys_are_in_memory_once() -> None:
    mirror = _mirror()
    cacher = _cacher(mirror)
    await cacher.ready()
    with mirror.reading() as reading:
        keys = [mirror.found(reading, "".join((PREFIX, "a")), _row("a", value)) for value in (0, 0, 1)]
    held = cacher.get(f"{PREFIX}a")
    assert held is not None
    assert all(key is held.key for key in keys)


REFUSED: dict[str, tuple[Callable[[int], int], type[Exception]]] = {
    "older": (lambda newest: newest - REPLICAS, Compacted),
    "newer": (lambda newest: newest + REPLICAS, FutureRevision),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_only_the_newest_state_is_there(name: str) -> None:
    revision, error = REFUSED[name]
    mirror = _mirror()
    mirror.put(f"{PREFIX}a", _row("a"))
    newest = await mirror.revision()
    with pytest.raises(error):
        await mirror.list(PREFIX, revision=revision(newest))
    with pytest.raises(error):
        await mirror.watch(PREFIX, revision(newest), _cacher(mirror))


async def test_what_has_not_changed_has_its_revision_still() -> None:
    mirror = _mirror()
    cacher = _cacher(mirror)
    await cacher.ready()
    mirror.put(f"{PREFIX}a", _row("a"))
    before = await mirror.revision()
    mirror.put(f"{PREFIX}a", _row("a"))
    with mirror.reading() as reading:
        mirror.found(reading, f"{PREFIX}a", _row("a"))
        await mirror.replace(reading, {f"{PREFIX}a"})
    await settled()
    assert await mirror.revision() == before
    assert len(mirror) == 1
    assert await mirror.count(PREFIX) == 1


async def test_of_two_readings_the_later_one_knows_of_the_first() -> None:
    """What a `get` has read before a poll may be older than what the poll has found: it is read again."""
    mirror = _mirror()
    for name in "ab":
        mirror.put(PREFIX + name, _row(name))
    with mirror.reading() as of_get, mirror.reading() as of_poll:
        mirror.found(of_poll, f"{PREFIX}a", _row("a"))  # no change
        mirror.found(of_poll, f"{PREFIX}c", _row("c"))
        await mirror.replace(of_poll, {f"{PREFIX}a", f"{PREFIX}c"})
        assert of_get.touched == {f"{PREFIX}b", f"{PREFIX}c"}
        assert of_poll.touched == set()
