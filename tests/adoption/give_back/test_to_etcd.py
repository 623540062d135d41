"""What is written to the cluster's etcd, by tables, and whole releases between two stores in memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aggserver.adoption.give_back import to_etcd as giving_back
from aggserver.adoption.give_back.to_etcd import Fault, GiveBackToStore, HostWrite, Leftovers, difference, fault, objects_prefix
from aggserver.adoption.records.record import CantGiveBack, Copied, Given, digest, none_left
from aggserver.storage.interface import KeyValue, TooLarge, Unavailable
from aggserver.storage.memory import MemoryStorage

DEFINITION = "crontabs.stable.example.com"
PREFIX = "/stable.example.com/crontabs/"
CRD = f"/apiextensions.k8s.io/customresourcedefinitions/{DEFINITION}"
UID = "uid-of-the-definition"
KEY = PREFIX + "ns/a"
# The host had revision 100 when the objects moved, and we 50.
COPIED = Copied(host_revision=100, count=1, digest="", own_revision=50)


def ours(value: bytes = b'{"a":1}', revision: int = 40) -> KeyValue:
    return KeyValue(KEY, value, revision, revision)


def theirs(value: bytes = b'{"a":1}\n', revision: int = 90) -> KeyValue:
    return KeyValue(KEY, value, revision, revision)


DIFFERENCES: dict[str, tuple[KeyValue | None, KeyValue | None, HostWrite | None]] = {
    "neither changed": (ours(), theirs(), None),
    "neither changed, and their bytes differ": (ours(b'{"b":1}'), theirs(), None),
    "changed here": (ours(b'{"a":2}', 60), theirs(), HostWrite(KEY, b'{"a":2}', 90)),
    "written here without a change": (ours(revision=60), theirs(), HostWrite(KEY, b'{"a":1}', 90)),
    "given back already": (ours(b'{"a":2}', 60), theirs(b'{"a":2}', 120), None),
    "given back, and changed again": (ours(b'{"a":3}', 61), theirs(b'{"a":2}', 120), HostWrite(KEY, b'{"a":3}', 120)),
    "created here": (ours(revision=60), None, HostWrite(KEY, b'{"a":1}', 0)),
    "deleted here": (None, theirs(), HostWrite(KEY, None, 90)),
    "with the newline of a kube-apiserver": (ours(b'{"a":2}\n', 60), None, HostWrite(KEY, b'{"a":2}', 0)),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_difference(name: str) -> None:
    mine, other, expected = DIFFERENCES[name]
    assert difference(mine, other, COPIED) == expected


def test_after_a_cleanup_every_object_here_is_a_difference() -> None:
    assert difference(ours(), None, none_left(100)) == HostWrite(KEY, b'{"a":1}', 0)


MARKED = b'{"metadata":{"annotations":{"aggserver.io/leftover":"90"}}}\n'

FAULTS: dict[str, tuple[KeyValue | None, KeyValue | None, str]] = {
    "neither changed": (ours(), theirs(), ""),
    "changed here": (ours(b'{"a":2}', 60), theirs(), ""),
    "created here": (ours(revision=60), None, ""),
    "deleted here": (None, theirs(), ""),
    "missing there": (ours(), None, "is missing"),
    "given back": (ours(b'{"a":2}', 60), theirs(b'{"a":2}', 120), ""),
    "given back, and changed again": (ours(b'{"a":3}', 61), theirs(b'{"a":2}', 120), ""),
    "given back, and deleted here": (None, theirs(b'{"a":2}', 120), ""),
    "given back without a change here": (ours(), theirs(b'{"a":1}', 120), "although it has not changed here"),
    "written by kube-apiserver": (ours(b'{"a":2}', 60), theirs(revision=120), "was written by kube-apiserver at revision 120"),
    "the same bytes, by kube-apiserver": (ours(b'{"a":1}', 60), theirs(revision=120), "was written by kube-apiserver"),
    "created by kube-apiserver": (None, theirs(revision=120), "was written by kube-apiserver"),
    "in another encoding": (ours(b'{"a":2}', 60), theirs(b"\xd9\xd9\xf7\xa0", 120), "was written by kube-apiserver"),
    "changed by a cleanup": (ours(), theirs(MARKED, 120), ""),
    "with the word of a cleanup elsewhere": (ours(), theirs(MARKED.replace(b"annotations", b"labels"), 120), "was written by"),
    "encrypted": (ours(), theirs(b"k8s:enc:aescbc:v1:key1:x"), "is encrypted"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str) -> None:
    mine, other, why = FAULTS[name]
    found = fault(mine, other, COPIED)
    assert (found is not None) == bool(why)
    assert found is None or (found.key == KEY and why in found.why)


def test_where_a_definitions_objects_are() -> None:
    assert objects_prefix(DEFINITION) == PREFIX


# --- whole releases ---


def encoded(name: str, **spec: Any) -> bytes:
    return json.dumps(
        {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": spec}
    ).encode()


class Moved:
    """Two stores after a move of `count` objects, in which they have different revisions and other objects."""

    def __init__(self, own: MemoryStorage, host: MemoryStorage) -> None:
        self.own = own
        self.host = host
        self.copied = COPIED
        self.told: list[tuple[int, int, int]] = []

    async def fill(self, count: int) -> Moved:
        await self.host.create(CRD, json.dumps({"metadata": {"uid": UID}}).encode() + b"\n")
        await self.host.create("/stable.example.com/crontabsets/ns/a", b"{}\n")
        pairs = []
        for number in range(count):
            name = f"a{number:05}"
            pairs.append((self.key(name), await self.host.create(self.key(name), encoded(name, n=number) + b"\n")))
            await self.own.create(self.key(name), encoded(name, n=number))
        await self.own.create("/stable.example.com/crontabsets/ns/b", b"{}")
        self.copied = Copied(await self.host.revision(), count, digest(pairs), await self.own.revision())
        return self

    @staticmethod
    def key(name: str) -> str:
        return f"{PREFIX}ns/{name}"

    def give_back(self) -> GiveBackToStore:
        return GiveBackToStore(self.own, self.host, DEFINITION, UID)

    def progress(self, done: int, total: int, size: int) -> None:
        self.told.append((done, total, size))

    async def put(self, name: str, value: bytes | None) -> None:
        """Write here, as a client."""
        await put(self.own, self.key(name), value)

    async def release(self) -> tuple[Given, Given]:
        give_back = self.give_back()
        await give_back.check(self.copied)
        return await give_back.first(self.copied, self.progress), await give_back.rest(self.copied, self.progress)

    async def same(self) -> bool:
        mine, other = [await store.list(PREFIX) for store in (self.own, self.host)]
        return [(item.key, json.loads(item.value)) for item in mine.items] == [
            (item.key, json.loads(item.value)) for item in other.items
        ]


async def put(store: MemoryStorage, key: str, value: bytes | None) -> None:
    found = await store.get(key)
    if value is None:
        assert found is not None
        await store.delete(key, found.revision)
    elif found is None:
        await store.create(key, value)
    else:
        await store.update(key, value, found.revision)


@pytest.fixture
async def moved() -> AsyncIterator[Moved]:
    own, host = MemoryStorage(), MemoryStorage()
    await own.start()
    await host.start()
    yield await Moved(own, host).fill(3)
    await own.close()
    await host.close()


async def test_nothing_written_is_nothing_to_do(moved: Moved) -> None:
    assert await moved.give_back().unchanged(moved.copied)
    before = await moved.host.revision()
    assert await moved.release() == (Given(), Given())
    assert await moved.host.revision() == before


async def test_in_the_freeze_no_second_look_at_all_objects_is_needed(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    give_back = moved.give_back()
    assert await give_back.unchanged(moved.copied)

    async def listed(*given: Any, **named: Any) -> Any:
        raise Unavailable("no list was to be needed")

    for store in (moved.own, moved.host):
        monkeypatch.setattr(store, "list", listed)
    assert await give_back.unchanged(moved.copied)
    await change(moved)
    assert not await give_back.unchanged(moved.copied)
    rest = await give_back.rest(moved.copied, moved.progress)
    assert (rest.written, rest.deleted) == (1, 0)
    monkeypatch.undo()
    assert await moved.same()


async def change(moved: Moved) -> None:
    await moved.put("a00001", encoded("a00001", n=77))


async def create(moved: Moved) -> None:
    await moved.put("b", encoded("b"))


async def delete(moved: Moved) -> None:
    await moved.put("a00002", None)


async def create_anew(moved: Moved) -> None:
    await moved.put("a00002", None)
    await moved.put("a00002", encoded("a00002", uid="other"))


CHANGES: dict[str, tuple[Callable[[Moved], Awaitable[None]], tuple[int, int]]] = {
    "an update": (change, (1, 0)),
    "a creation": (create, (1, 0)),
    "a deletion": (delete, (0, 1)),
    "a deletion and a creation of the name": (create_anew, (1, 0)),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_what_was_written_here_goes_back(name: str, moved: Moved) -> None:
    make, expected = CHANGES[name]
    await make(moved)
    assert not await moved.give_back().unchanged(moved.copied)
    first, rest = await moved.release()
    assert ((first.written, first.deleted), (rest.written, rest.deleted)) == (expected, (0, 0))
    assert await moved.same()


@pytest.mark.parametrize("name", CHANGES)
async def test_without_history_a_write_here_is_still_found(name: str, moved: Moved) -> None:
    make, _ = CHANGES[name]
    assert await moved.give_back().unchanged(moved.copied)
    await make(moved)
    await moved.own.compact(await moved.own.revision())
    assert not await moved.give_back().unchanged(moved.copied)


@pytest.mark.parametrize("name", CHANGES)
async def test_a_write_after_the_first_pass_is_left_to_the_second(name: str, moved: Moved) -> None:
    make, expected = CHANGES[name]
    give_back = moved.give_back()
    assert await give_back.first(moved.copied, moved.progress) == Given()
    await make(moved)
    rest = await give_back.rest(moved.copied, moved.progress)
    assert (rest.written, rest.deleted) == expected
    assert await moved.same()


async def test_exactly_our_bytes_go_back(moved: Moved) -> None:
    await change(moved)
    given, _ = await moved.release()
    found = await moved.host.get(moved.key("a00001"))
    assert found is not None
    assert found.value == encoded("a00001", n=77)
    assert given.size == len(found.value)


@pytest.mark.parametrize("name", CHANGES)
async def test_no_revision_goes_back(name: str, moved: Moved) -> None:
    await moved.own.advance(700)
    await CHANGES[name][0](moved)
    own = {item.key: item.revision for item in (await moved.own.list(PREFIX)).items}
    await moved.release()
    host = {item.key: item.revision for item in (await moved.host.list(PREFIX)).items}
    assert all(host[key] > revision for key, revision in own.items() if revision > 700)
    assert await moved.host.revision() > 700, "deletions, too"


async def test_what_is_written_while_it_goes_back_follows(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client writes at every page, to objects that the pass has seen and to others."""
    monkeypatch.setattr(giving_back, "PAGE", 2)
    for number in range(20):
        await moved.put(f"c{number:02}", encoded("c", n=number))
    give_back = moved.give_back()
    steps = 0

    original = moved.own.list

    async def listed(*given: Any, **named: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps <= 8:
            await moved.put(f"c{steps:02}", encoded("c", again=steps))
            await moved.put(f"c{19 - steps:02}", None)
            await moved.put(f"a{steps:03}", encoded("a", n=steps))
        return await original(*given, **named)

    monkeypatch.setattr(moved.own, "list", listed)
    await give_back.first(moved.copied, moved.progress)
    assert await moved.same()
    assert await give_back.rest(moved.copied, moved.progress) == Given()


async def test_history_that_is_gone_is_compared_anew(moved: Moved) -> None:
    give_back = moved.give_back()
    await give_back.first(moved.copied, moved.progress)
    await create(moved)
    await delete(moved)
    await moved.own.compact(await moved.own.revision())
    rest = await give_back.rest(moved.copied, moved.progress)
    assert (rest.written, rest.deleted) == (1, 1)
    assert await moved.same()


async def test_an_interrupted_release_goes_on(moved: Moved) -> None:
    """By another instance, and with other writes meanwhile."""
    await change(moved)
    await create(moved)
    await delete(moved)
    await moved.give_back().first(moved.copied, moved.progress)
    await moved.put("b", None)
    await moved.put("a00001", encoded("a00001", n=78))
    assert not await moved.give_back().unchanged(moved.copied)
    give_back = moved.give_back()
    await give_back.check(moved.copied)
    rest = await give_back.rest(moved.copied, moved.progress)
    assert (rest.written, rest.deleted) == (1, 1)
    assert await moved.same()


async def test_progress(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving_back, "PAGE", 2)
    await change(moved)
    await moved.release()
    size = len(encoded("a00001", n=77))
    assert moved.told == [(2, 3, 0), (3, 3, size)]


async def test_an_answer_that_is_lost_does_no_harm(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write happened, and the pass fails; the next one finds it."""
    await create(moved)
    written = moved.host.create

    async def lost(key: str, value: bytes, guard: Any = None) -> int:
        await written(key, value, guard)
        raise Unavailable("no answer")

    monkeypatch.setattr(moved.host, "create", lost)
    give_back = moved.give_back()
    with pytest.raises(Unavailable):
        await give_back.first(moved.copied, moved.progress)
    monkeypatch.setattr(moved.host, "create", written)
    await give_back.check(moved.copied)
    await give_back.rest(moved.copied, moved.progress)
    assert await moved.same()


async def test_objects_that_are_too_large_are_named_and_the_others_go_back(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    await moved.put("b", encoded("b"))
    await moved.put("c", encoded("c"))
    written = moved.host.create

    async def refuses(key: str, value: bytes, guard: Any = None) -> int:
        if key.endswith("/b"):
            raise TooLarge("etcdserver: request is too large")
        return await written(key, value, guard)

    monkeypatch.setattr(moved.host, "create", refuses)
    with pytest.raises(CantGiveBack, match="ns/b has 97 bytes, too many for that etcd: etcdserver: request is too large"):
        await moved.give_back().first(moved.copied, moved.progress)
    assert await moved.host.get(moved.key("c")) is not None


async def behind_our_back(moved: Moved) -> None:
    await put(moved.host, moved.key("a00000"), encoded("a00000", n=5) + b"\n")


async def removed_behind_our_back(moved: Moved) -> None:
    await put(moved.host, moved.key("a00000"), None)


async def created_behind_our_back(moved: Moved) -> None:
    await put(moved.host, moved.key("z"), encoded("z") + b"\n")


async def encrypted(moved: Moved) -> None:
    await put(moved.host, moved.key("a00000"), b"k8s:enc:secretbox:v1:key1:...")


async def another_cluster(moved: Moved) -> None:
    await put(moved.host, CRD, json.dumps({"metadata": {"uid": "other"}}).encode())


async def no_cluster(moved: Moved) -> None:
    await put(moved.host, CRD, None)


async def encrypted_definitions(moved: Moved) -> None:
    await put(moved.host, CRD, b"k8s:enc:kms:v2:...")


async def unreadable_definitions(moved: Moved) -> None:
    await put(moved.host, CRD, b"k8s\0...")


REFUSED: dict[str, tuple[Callable[[Moved], Awaitable[None]], str]] = {
    "changed": (behind_our_back, "ns/a00000 was written by kube-apiserver at revision 7, after the move"),
    "removed": (removed_behind_our_back, "ns/a00000 is missing"),
    "created": (created_behind_our_back, "ns/z was written by kube-apiserver"),
    "encrypted": (encrypted, "ns/a00000 is encrypted"),
    "another cluster's etcd": (another_cluster, "has the uid other, and the cluster's crontabs.stable.example.com has"),
    "another prefix": (no_cluster, "is not there: --host-etcd-servers and --host-etcd-prefix must be the cluster's own"),
    "a cluster that encrypts its definitions": (encrypted_definitions, "is encrypted: where custom resources are"),
    "definitions in protobuf": (unreadable_definitions, "it is not stored as JSON"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused(name: str, moved: Moved) -> None:
    make, why = REFUSED[name]
    await make(moved)
    before = await moved.host.revision()
    with pytest.raises(CantGiveBack, match=why):
        await moved.give_back().check(moved.copied)
    with pytest.raises(CantGiveBack):
        await Leftovers(moved.host, DEFINITION, UID).check_removable(moved.copied)
    assert await moved.host.revision() == before


async def test_an_error_names_only_some_objects(moved: Moved) -> None:
    for number in range(9):
        await put(moved.host, moved.key(f"z{number}"), b"{}\n")
    with pytest.raises(CantGiveBack, match=r"z4 was written by kube-apiserver[^;]*; and more$"):
        await moved.give_back().check(moved.copied)


async def test_a_write_of_kube_apiserver_in_the_middle_is_not_overwritten(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    await change(moved)
    written = moved.host.update

    async def late(key: str, value: bytes, expected: int, guard: Any = None) -> int:
        monkeypatch.setattr(moved.host, "update", written)
        await behind_our_back_of("a00001", moved)
        return await written(key, value, expected, guard)

    monkeypatch.setattr(moved.host, "update", late)
    with pytest.raises(CantGiveBack, match="was written by kube-apiserver"):
        await moved.give_back().first(moved.copied, moved.progress)


async def behind_our_back_of(name: str, moved: Moved) -> None:
    await put(moved.host, moved.key(name), encoded(name, n=5) + b"\n")


async def test_stores_that_do_not_become_the_same_are_told(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else writes to the cluster's etcd in a way that no comparison finds."""
    counted = moved.host.count

    async def more(prefix: str) -> int:
        return await counted(prefix) + 1

    monkeypatch.setattr(moved.host, "count", more)
    with pytest.raises(CantGiveBack, match="the cluster's etcd has 4 objects, and 3 are here"):
        await moved.give_back().rest(moved.copied, moved.progress)


# --- cleanup ---


async def test_cleanup(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving_back, "PAGE", 2)
    await change(moved)  # here: no matter
    leftovers = Leftovers(moved.host, DEFINITION, UID)
    moved.copied = await leftovers.check_removable(moved.copied)
    assert moved.copied.is_being_removed
    assert await leftovers.remove(moved.copied, moved.progress) == 3
    assert await moved.host.count(PREFIX) == 0
    assert await moved.host.count("/stable.example.com/crontabsets/") == 1
    assert [(done, total) for done, total, _ in moved.told] == [(2, 3), (3, 3)]


async def test_after_a_cleanup_everything_goes_back(moved: Moved) -> None:
    leftovers = Leftovers(moved.host, DEFINITION, UID)
    moved.copied = await leftovers.check_removable(moved.copied)
    await leftovers.remove(moved.copied, moved.progress)
    assert not await moved.give_back().unchanged(moved.copied)
    first, _ = await moved.release()
    assert (first.written, first.deleted) == (3, 0)
    assert await moved.same()


async def test_an_interrupted_cleanup_goes_on_or_back(moved: Moved) -> None:
    leftovers = Leftovers(moved.host, DEFINITION, UID)
    moved.copied = await leftovers.check_removable(moved.copied)
    await put(moved.host, moved.key("a00001"), None)
    assert await leftovers.check_removable(moved.copied) == moved.copied
    await moved.release()
    assert await moved.same()


async def test_cleanup_stops_at_what_was_written_after_the_move(moved: Moved) -> None:
    leftovers = Leftovers(moved.host, DEFINITION, UID)
    moved.copied = await leftovers.check_removable(moved.copied)
    await created_behind_our_back(moved)
    with pytest.raises(CantGiveBack, match="ns/z was written by kube-apiserver"):
        await leftovers.remove(moved.copied, moved.progress)
    assert await moved.host.get(moved.key("z")) is not None


def test_faults_are_named_by_key() -> None:
    assert Fault(KEY, "is missing") == fault(ours(), None, COPIED)
