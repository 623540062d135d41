"""The steps of a move (`adoption/steps.py`) with the real parts: the host's API and etcd, our store, and what is served here.

No step decides anything: which one comes next, and what its failure leads to, is decided in `aggserver/adoption/`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass

from aggserver.adoption.copy.copying import drop
from aggserver.adoption.copy.source import APISource, Bounded, StorageSource, reading_version
from aggserver.adoption.families import Family, GroupVersion
from aggserver.adoption.give_back.through_api import GiveBackThroughAPI
from aggserver.adoption.give_back.to_etcd import GiveBackToStore, Leftovers, objects_prefix
from aggserver.adoption.host import Host
from aggserver.adoption.leftovers.through_api import APILeftovers, close
from aggserver.adoption.records.record import CantCopy, CantGiveBack, Copied, GiveBack, Given, Progress, Record, Refused, Source
from aggserver.adoption.steps import Remains
from aggserver.adoption.switch.guard import Guard
from aggserver.adoption.switch.switching import Switcher, end_watches, proxied
from aggserver.apiextensions.definition import Definition
from aggserver.apiextensions.definitions import Definitions
from aggserver.app.adopted import Adopted
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.lease import Lease
from aggserver.cluster.replicas import Replicas
from aggserver.errors import AggserverError
from aggserver.storage.interface import Storage

__all__ = ["GUARD", "Parts", "Steps"]

log = logging.getLogger("aggserver.adoption")

# By this name a problem of the guard is reported; other problems have the names of APIServices.
GUARD = "guard"

_NAMESPACES = "/api/v1/namespaces"
# Seconds between checks whether somebody has changed the guard.
_GUARD_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What the steps work on, the same for as long as the server runs. storage: ours. host_etcd: see `adoption.Adoption`."""

    cluster: Cluster
    host: Host
    host_etcd: Storage | None
    replicas: Replicas
    lease: Lease
    storage: Storage
    definitions: Definitions
    adopted: Adopted
    installation: str
    max_object_bytes: int


class Steps:
    """`steps.Actions` with the real parts, for as long as this server holds the Lease.

    on_problem: called with GUARD and what is wrong with the guard, '' if nothing. `run` is the task that keeps the guard.
    """

    def __init__(self, parts: Parts, guard: Guard, switcher: Switcher, on_problem: Callable[[str, str], None]) -> None:
        self._cluster = parts.cluster
        self._definitions = parts.definitions
        self._installation = parts.installation
        self._replicas = parts.replicas
        self._storage = parts.storage
        self._host_etcd = parts.host_etcd
        self._host = parts.host
        self._lease = parts.lease
        self._adopted = parts.adopted
        self._most_bytes = parts.max_object_bytes
        self._guard = guard
        self._switcher = switcher
        self._on_problem = on_problem
        self._guarded: frozenset[tuple[str, str]] | None = None
        self._renewed = asyncio.Event()
        self._new_uids: dict[str, dict[str, str]] = {}

    async def run(self) -> None:
        """Keep the guard as it should be, until cancelled: its CA is renewed, and somebody may change or delete it."""
        problem = ""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GUARD_SECONDS):
                    await self._renewed.wait()
            self._renewed.clear()
            now = ""
            try:
                if self._guarded:
                    await self._guard.set(self._guarded)
            except (ClusterError, Unreachable) as error:
                now = f"the guard is not as it should be, and can't be changed: {error}"
            if now != problem:
                problem = now
                self._on_problem(GUARD, problem)

    def renew_guard(self) -> None:
        self._renewed.set()

    async def families(self, groups: Collection[str]) -> Sequence[Family]:
        return await self._host.ask(groups)

    async def add_finalizer(self, definition: str) -> None:
        await self._host.add_finalizer(definition)

    async def has(self, definition: str, uid: str) -> bool:
        return await self._host.has(definition, uid)

    async def remove_finalizer(self, definition: str, uid: str) -> None:
        await self._host.remove_finalizer(definition, uid)

    def source(self, definition: str) -> Source:
        return Bounded(self._unbounded(definition), self._most_bytes)

    def _unbounded(self, definition: str) -> Source:
        if self._host_etcd is not None:
            return StorageSource(self._host_etcd, objects_prefix(definition))
        found = self._found(definition)
        version = reading_version(found, self._host.taken(found.group)) if found is not None else None
        if found is None or version is None:
            raise CantCopy(f"{definition}: the host serves no version to read its objects in")
        return APISource(self._cluster, found, version.name)

    async def guard(self, definitions: Collection[str]) -> None:
        resources = frozenset((group, plural) for plural, _, group in (name.partition(".") for name in definitions))
        self._guarded = resources
        await self._guard.set(resources)
        await self._guard.seen(await self._replicas.clusters())

    async def host_revision(self) -> int:
        if self._host_etcd is not None:
            return await self._host_etcd.revision()
        # A list without a resourceVersion is at the newest revision.
        answer = await self._cluster.request("GET", _NAMESPACES, query={"limit": "1"})
        return int(answer["metadata"]["resourceVersion"])

    async def advance_host(self, revision: int) -> None:
        if self._host_etcd is not None:
            await self._host_etcd.advance(revision)

    async def check_host(self) -> None:
        await self._lease.confirm()

    async def freeze(self, definition: str, *, reads: bool = False) -> None:
        await self._definitions.freeze(definition, reads=reads)

    def thaw(self, definition: str) -> None:
        self._definitions.thaw(definition)

    async def mark(self, definition: str) -> None:
        await self._definitions.expire_before(definition)

    async def serve(self, record: Record) -> None:
        await self._adopted.serve()
        missing = [name for name in record.definitions if self._definitions.get(name) is None]
        if missing:
            raise AggserverError(f"{', '.join(missing)} can't be served: the host does not have the definition that was recorded")

    async def withdraw(self, definitions: Iterable[str]) -> None:
        await self._adopted.withdraw(definitions)

    async def try_to_us(self, group_versions: Sequence[GroupVersion]) -> None:
        await self._switcher.try_to_us(group_versions)

    async def to_us(self, group_versions: Sequence[GroupVersion]) -> bool:
        taken = await self._switcher.to_us(group_versions)
        await proxied(await self._replicas.clusters(), group_versions, self._installation)
        return taken

    async def to_host(self, group_versions: Sequence[GroupVersion]) -> None:
        given = await self._switcher.to_host(group_versions)
        # A group-version without a definition is served by nobody, so waiting for it would time out.
        served = [each for each in given if self._host.serves(each)]
        await proxied(await self._replicas.clusters(), served, "")

    async def remove(self, group_versions: Sequence[GroupVersion]) -> None:
        await self._switcher.remove(group_versions)

    async def end_watches(self, definition: str) -> None:
        await end_watches(self._cluster, definition)

    def give_back(self, record: Record, definition: str) -> GiveBack:
        if self._host_etcd is not None:
            return GiveBackToStore(self._storage, self._host_etcd, definition, record.uids[definition])
        manifest = self._host.crd(definition)
        if manifest is None:
            raise CantGiveBack(f"{definition} is not in the host any more")
        uids = self._new_uids.setdefault(record.family, {})
        back = GiveBackThroughAPI(self._storage, self._cluster, manifest, uids)
        return back if record.through_api else _Unwritten(back)

    def leftovers(self, record: Record, definition: str) -> AbstractAsyncContextManager[Remains]:
        uid = record.uids[definition]
        if self._host_etcd is not None:
            return nullcontext(Leftovers(self._host_etcd, definition, uid))
        return APILeftovers(self._cluster, self._replicas.clusters, definition, uid).opened()

    async def close_leftovers(self, definition: str) -> None:
        crd = self._host.crd(definition)
        if crd is not None:
            await close(self._cluster, definition, crd["metadata"]["uid"])

    async def empty(self, definition: str) -> str:
        if not await self._definitions.delete_objects(definition):
            raise AggserverError(f"{definition} is being deleted, and still has objects")
        if self._host_etcd is not None:
            # The host deletes the leftovers, but would wait for their finalizers, which nobody can take off there.
            await drop(self._host_etcd, objects_prefix(definition))
            return ""
        crd = self._host.crd(definition)
        if crd is None:
            return ""
        try:
            await APILeftovers(self._cluster, self._replicas.clusters, definition, crd["metadata"]["uid"]).release_finalizers()
        except CantGiveBack as error:
            log.warning("the deletion of %s waits for finalizers of what the move left: %s", definition, error)
            return str(error)
        return ""

    def _found(self, definition: str) -> Definition | None:
        crd = self._host.crd(definition)
        return self._host.definition(definition, crd["metadata"]["uid"]) if crd is not None else None


class _Unwritten:
    """A `record.GiveBack` without etcd, for a release that must not give objects new uids. Fails if anything was written here."""

    through_api = True

    def __init__(self, back: GiveBackThroughAPI) -> None:
        self._back = back

    async def unchanged(self, copied: Copied) -> bool:
        return await self._back.unchanged(copied)

    async def check(self, copied: Copied) -> None:
        raise Refused(
            "objects were written here since the adoption. With --host-etcd-servers they go back as they are; "
            "`aggserver adopt release --through-api` sends them through the API, where those created here get a new uid"
        )

    async def first(self, copied: Copied, progress: Progress) -> Given:
        return await self.rest(copied, progress)

    async def rest(self, copied: Copied, progress: Progress) -> Given:
        await self.check(copied)
        return Given()
