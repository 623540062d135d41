"""World: a host with two kube-apiservers and one etcd, this server's store, and clients that write at every moment.

The stores, the source, what gives back, the journal and the decision about families are the real ones. `point` is called before
and after each effect of the mover: there clients write, the mover may be killed, and effects may fail.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aggserver.adoption.copy.copying import drop
from aggserver.adoption.copy.source import StorageSource
from aggserver.adoption.families import FINALIZER, Family, families, is_served
from aggserver.adoption.give_back.to_etcd import GiveBackToStore, Leftovers, objects_prefix
from aggserver.adoption.mover import Mover
from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import NOTE, GiveBack, Moving, Phase, Record, Source
from aggserver.adoption.steps import Remains, is_frozen, is_hidden
from aggserver.cluster.pacing import Sleep
from aggserver.errors import AggserverError
from aggserver.meta import codec
from aggserver.meta.selectors import LabelSelector
from aggserver.storage.interface import Storage, Unavailable
from aggserver.storage.memory import MemoryStorage
from tests.fakes.clock import FakeClock, settled
from tests.waiting import HANG_SECONDS

CRONTABS = "crontabs.stable.example.com"
SHIRTS = "shirts.stable.example.com"
GROUP = "stable.example.com"
APISERVERS = (0, 1)
LABEL = {"storage": "aggserver"}


class FailedError(AggserverError):
    """An effect that did not take place, or whose answer was lost."""


class World:
    """disturbances: by the number of a point, "kill" or "fail". full: which of the stores take no writes now, "host" or "own".

    fills: at which point a store becomes full, and for how many points.
    """

    def __init__(self, seed: int = 0, disturbances: Mapping[int, str] | None = None, writes: int = 2) -> None:
        self.random = random.Random(seed)
        self.disturbances = dict(disturbances or {})
        self.writes = writes
        self.host = MemoryStorage()
        self.own = MemoryStorage()
        self.crds = {name: _crd(name) for name in (CRONTABS, SHIRTS)}
        self.holding: set[str] = set()
        self.guards: list[frozenset[str]] = [frozenset() for _ in APISERVERS]
        self.led: list[set[tuple[str, str]]] = [set() for _ in APISERVERS]
        self.frozen: set[str] = set()
        self.hidden: set[str] = set()
        self.served: set[str] = set()
        self.acknowledged: dict[str, dict[str, Any]] = {}
        self.revisions: dict[str, int] = {}  # what clients were answered with
        self.refused = 0
        self.points: list[str] = []
        self.dead = asyncio.Event()
        self.told: list[str] = []
        self.reasons: list[str] = []
        self.seen: list[tuple[Phase, str]] = []
        self.moving: list[tuple[Phase, Moving]] = []
        self.flips: dict[int, bool] = {}
        self.full: set[str] = set()
        self.fills: list[tuple[str, int, int]] = []
        # What somebody else does at every point, and the effects that the host refuses until they are taken out.
        self.meanwhile: Callable[[str], None] = lambda _: None
        self.refusing: set[str] = set()
        self._emptied: set[str] = set()
        self._created = 0
        # Held by a client from its check until its write is acknowledged. No write is under way when the guard is seen, and
        # `Definitions.freeze` waits for those that are.
        self._writing = asyncio.Lock()
        self.clock = FakeClock()
        self.sleep: Sleep = self.clock.sleep
        self._tasks: list[asyncio.Task[Any]] = []
        self.journal = Journal(_Watched(self.own, self))
        self.mover = self._mover()

    async def start(self, objects: int = 3) -> None:
        for store in (self.host, self.own):
            await store.start()
        for name in self.crds:
            await self.store_definition(name)
        for _ in range(objects):
            await self._write()
        self.run()

    async def store_definition(self, name: str) -> None:
        await self.host.create(f"/apiextensions.k8s.io/customresourcedefinitions/{name}", codec.encode_json(self.crds[name]))

    # --- the process ---

    def _mover(self) -> Mover:
        return Mover(
            _Watched(self.own, self),
            self.journal,
            self,
            self._observe,
            self._tell,
            clock=self.clock,
            now=self.clock,
            sleep=self.sleep,
        )

    def run(self) -> None:
        """Begin a process over the same stores, as the application does."""
        self.dead = asyncio.Event()
        self.frozen, self.hidden, self.served = set(), set(), set()
        self.journal = Journal(_Watched(self.own, self), self._follow_records)
        self.mover = self._mover()
        self._tasks = [asyncio.create_task(self.journal.run()), asyncio.create_task(self._run_mover())]

    async def _run_mover(self) -> None:
        await self.journal.ready()
        # Before the first request, what must not be written is frozen.
        for record in self.journal.records.values():
            self.frozen |= set(record.uids) if is_frozen(record) else set()
            self.hidden |= set(record.uids) if is_hidden(record) else set()
        self._follow_records()
        await self.mover.run()

    async def stop(self) -> None:
        # A process that is killed does nothing more, so one that misses its cancellation is cancelled again.
        while not all(task.done() for task in self._tasks):
            for task in self._tasks:
                task.cancel()
            await settled()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in results:
            if isinstance(each, Exception):
                raise each

    async def settle(self) -> None:
        """Run until nothing is left to do; after each death, in a new process."""
        async with asyncio.timeout(HANG_SECONDS):
            quiet = 0
            while quiet < 30:
                await asyncio.sleep(0)
                if self.dead.is_set():
                    await self.stop()
                    self.run()
                for task in self._tasks:
                    if task.done():
                        task.result()
                idle = self.journal.is_ready() and self.mover.idle()
                quiet = quiet + 1 if idle else 0

    def _follow_records(self) -> None:
        records = self.journal.records.values()
        self.served = {name for record in records if is_served(record) for name in record.uids}
        self.mover.want(self.wanted())

    def _tell(self, _: str, text: str, reason: str = NOTE, /) -> None:
        self.told.append(text)
        self.reasons.append(reason)

    def _observe(self, record: Record, moving: Moving | None) -> None:
        if moving is None:
            self.seen.append((record.phase, record.reason))
        else:
            self.moving.append((record.phase, moving))

    def changed(self) -> None:
        """Somebody has changed definitions."""
        self.mover.want(self.wanted())

    def select(self, *, selected: bool) -> None:
        for crd in self.crds.values():
            crd["metadata"]["labels"] = dict(LABEL) if selected else {}
        self.mover.want(self.wanted())

    def wanted(self) -> list[Family]:
        crds = []
        for name, crd in self.crds.items():
            finalizers = [FINALIZER] if name in self.holding else []
            crds.append({**crd, "metadata": {**crd["metadata"], "finalizers": finalizers}})
        records, ours = self.journal.records.values(), set[tuple[str, str]]().union(*self.led)
        return families(crds, LabelSelector.parse("storage=aggserver"), records, {}, {}, ours)

    # --- at every moment ---

    async def point(self, what: str, *, fails: bool = True) -> None:
        self.points.append(what)
        number = len(self.points)
        for store, start, length in self.fills:
            if number == start:
                self.full.add(store)
            if number == start + length:
                self.full.discard(store)
        for _ in range(self.random.randrange(self.writes + 1)):
            # A client's write goes on when the process that was awaiting here is killed.
            await asyncio.shield(asyncio.create_task(self._write()))
        if number in self.flips:
            self.select(selected=self.flips[number])
        self.meanwhile(what)
        await asyncio.shield(asyncio.create_task(self._empty_host()))
        if what in self.refusing:
            raise FailedError(f"{what} is refused by a policy")
        kind = self.disturbances.get(number)
        if kind == "kill":
            self.dead.set()
            await asyncio.Future()
        if kind == "fail" and fails:
            raise FailedError(f"{what} failed")

    async def _empty_host(self) -> None:
        """The host deletes its objects of a definition that is being deleted, once."""
        async with self._writing:
            for name, crd in list(self.crds.items()):
                if "deletionTimestamp" in crd["metadata"] and name not in self._emptied:
                    self._emptied.add(name)
                    await drop(self.host, objects_prefix(name))

    async def _write(self) -> None:
        """A client writes a random object through a random kube-apiserver; what is acknowledged is remembered."""
        async with self._writing:
            if self.crds:
                await self._write_one()

    async def _write_one(self) -> None:
        name = self.random.choice(list(self.crds))
        apiserver = self.random.choice(APISERVERS)
        here = (GROUP, "v1") in self.led[apiserver]
        if "deletionTimestamp" in self.crds[name]["metadata"]:
            return
        if here and (name not in self.served or name in self.frozen):
            self.refused += 1
            return
        if not here and name in self.guards[apiserver]:
            self.refused += 1
            return
        if ("own" if here else "host") in self.full:
            self.refused += 1
            return
        store = self.own if here else self.host
        key = f"{objects_prefix(name)}default/o-{self.random.randrange(6)}"
        current = await store.get(key)
        self._created += 1
        if current is None:
            obj = {"apiVersion": f"{GROUP}/v1", "kind": "K", "metadata": {"name": key, "uid": f"u-{self._created}"}, "n": 0}
            self.revisions[key] = await store.create(key, _value(obj, here=here))
            self.acknowledged[key] = obj
        elif self.random.random() < 0.3:
            await store.delete(key, current.revision)
            del self.acknowledged[key]
        else:
            obj = {**codec.decode_stored(current.value), "n": self._created}
            self.revisions[key] = await store.update(key, _value(obj, here=here), current.revision)
            self.acknowledged[key] = obj

    async def objects(self, store: Storage) -> dict[str, dict[str, Any]]:
        """By key. None has a smaller revision than clients know."""
        items = (await store.list(f"/{GROUP}/")).items
        older = {item.key: item.revision for item in items if item.revision < self.revisions.get(item.key, 0)}
        assert not older, f"{older} were {self.revisions}"
        return {item.key: codec.decode_stored(item.value) for item in items}

    # --- steps.Steps ---

    async def families(self, groups: Collection[str]) -> Sequence[Family]:
        assert set(groups) == {GROUP}
        await self.point("families")
        return self.wanted()

    def _written(self, what: str) -> None:
        """A write of the host's API that its etcd must have room for."""
        if "host" in self.full:
            raise FailedError(f"{what}: 500 InternalError: etcdserver: mvcc: database space exceeded")

    async def add_finalizer(self, definition: str) -> None:
        await self.point("hold")
        if definition not in self.holding:
            self._written("the finalizer can't be put on")
        self.holding.add(definition)
        await self.point("held")

    async def has(self, definition: str, uid: str) -> bool:
        metadata = self.crds[definition]["metadata"] if definition in self.crds else {}
        return metadata.get("uid") == uid and "deletionTimestamp" not in metadata

    async def remove_finalizer(self, definition: str, uid: str) -> None:
        await self.point("let go")
        if definition in self.crds and self.crds[definition]["metadata"]["uid"] == uid:
            if definition in self.holding:
                self._written("the finalizer can't be taken off")
            self.holding.discard(definition)
            if "deletionTimestamp" in self.crds[definition]["metadata"]:
                del self.crds[definition]
        await self.point("let gone")

    def source(self, definition: str) -> Source:
        return StorageSource(self.host, objects_prefix(definition))

    async def guard(self, definitions: Collection[str]) -> None:
        await self.point("guard")
        if definitions and any(each != definitions for each in self.guards):
            self._written("the guard can't be written")
        for apiserver in APISERVERS:
            await self.point(f"guard {apiserver}")
            async with self._writing:
                self.guards[apiserver] = frozenset(definitions)
        await self.point("guard seen")

    async def host_revision(self) -> int:
        return await self.host.revision()

    async def advance_host(self, revision: int) -> None:
        await self.point("advance host")
        if await self.host.revision() < revision:
            self._written("the revision can't be raised")
        await self.host.advance(revision)

    async def check_host(self) -> None:
        await self.point("check host")
        self._written("the Lease can't be renewed")

    async def freeze(self, definition: str, *, reads: bool = False) -> None:
        await self.point("freeze")
        async with self._writing:
            self.frozen.add(definition)
        if reads:
            self.hidden.add(definition)

    def thaw(self, definition: str) -> None:
        self.frozen.discard(definition)
        self.hidden.discard(definition)

    async def mark(self, definition: str) -> None:
        await self.point("mark")

    async def serve(self, record: Record) -> None:
        await self.point("serve")
        assert self.served >= set(record.uids)

    async def withdraw(self, definitions: Iterable[str]) -> None:
        await self.point("withdraw")
        self.served -= set(definitions)

    async def try_to_us(self, group_versions: Sequence[tuple[str, str]]) -> None:
        await self.point("try to us")

    async def to_us(self, group_versions: Sequence[tuple[str, str]]) -> bool:
        taken = not all(each in led for led in self.led for each in group_versions)
        for apiserver in APISERVERS:
            for each in group_versions:
                await self.point(f"to us {apiserver}")
                if each not in self.led[apiserver]:
                    self._written("APIService can't be changed")
                self.led[apiserver].add(each)
        await self.point("to us seen")
        return taken

    async def to_host(self, group_versions: Sequence[tuple[str, str]]) -> None:
        for apiserver in APISERVERS:
            for each in group_versions:
                await self.point(f"to host {apiserver}")
                self.led[apiserver].discard(each)
        await self.point("to host seen")

    async def remove(self, group_versions: Sequence[tuple[str, str]]) -> None:
        await self.to_host(group_versions)

    async def end_watches(self, definition: str) -> None:
        """Without a point: the mover does not wait for it."""

    def give_back(self, record: Record, definition: str) -> GiveBack:
        return GiveBackToStore(self.own, _MayBeFull(self.host, self), definition, record.uids[definition])

    @asynccontextmanager
    async def leftovers(self, record: Record, definition: str) -> AsyncIterator[Remains]:
        try:
            await self.point("open leftovers")
            self._open(definition, opened=True)
            yield Leftovers(_Watched(self.host, self), definition, record.uids[definition])
        finally:
            # A process that is killed does nothing more.
            if not self.dead.is_set():
                await self.close_leftovers(definition)

    async def close_leftovers(self, definition: str) -> None:
        await self.point("close leftovers")
        self._open(definition, opened=False)

    def _open(self, definition: str, *, opened: bool) -> None:
        """As `kept` tells of a definition that has the version."""
        if definition in self.crds:
            self.crds[definition]["leftovers"] = opened
        self.mover.want(self.wanted())

    async def empty(self, definition: str) -> str:
        await self.point("empty")
        async with self._writing:
            pass  # a terminating definition takes no more writes
        for item in (await self.own.list(objects_prefix(definition))).items:
            await self.own.delete(item.key, item.revision)
            self.acknowledged.pop(item.key, None)
        # What a release has begun to give back.
        await drop(self.host, objects_prefix(definition))
        return ""


class _MayBeFull:
    """The host's etcd as a release sees it. A full etcd deletes."""

    def __init__(self, store: MemoryStorage, world: World) -> None:
        self._store = store
        self._world = world

    def __getattr__(self, name: str) -> Any:
        if name in ("create", "update") and "host" in self._world.full:
            raise Unavailable("etcdserver: mvcc: database space exceeded")
        return getattr(self._store, name)


class _Watched:
    """A store as the mover sees it: its writes are points, too."""

    def __init__(self, store: MemoryStorage, world: World) -> None:
        self._store = store
        self._world = world

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("create", "update", "delete", "advance"):
            return found

        async def write(*arguments: Any) -> Any:
            await self._world.point(name)
            if "own" in self._world.full:
                raise Unavailable("can't write to the store: database or disk is full")
            result = await found(*arguments)
            # An error here would be a lost answer, which stores report as Unavailable; the journal's tests have that.
            await self._world.point(f"{name} done", fails=False)
            return result

        return write


def _value(obj: Mapping[str, Any], *, here: bool) -> bytes:
    """As kube-apiserver stores it, or as this server does."""
    return codec.encode_json(dict(obj)) + (b"" if here else b"\n")


def _crd(name: str) -> dict[str, Any]:
    plural, _, group = name.partition(".")
    conditions = [{"type": each, "status": "True"} for each in ("Established", "NamesAccepted")]
    versions = [{"name": "v1", "served": True, "storage": True}]
    return {
        "metadata": {"name": name, "uid": f"uid-{plural}", "labels": {}},
        "spec": {"group": group, "names": {"plural": plural}, "scope": "Namespaced", "versions": versions},
        "status": {"conditions": conditions},
    }
