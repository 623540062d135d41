"""Adoption (`--adopt`): puts the parts together that move definitions of the host cluster to this server, and back.

Every server follows the host's definitions and the journal, and serves what the journal says is adopted, after a restart also
while the host can't be reached. The server that holds the Lease moves families, keeps the APIServices, and writes the status.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, replace

import aggserver
from aggserver.adoption.copy.copying import drop
from aggserver.adoption.copy.source import APISource, Bounded, StorageSource, reading_version
from aggserver.adoption.families import Family, GroupVersion, is_served
from aggserver.adoption.give_back.through_api import GiveBackThroughAPI
from aggserver.adoption.give_back.to_etcd import GiveBackToStore, Leftovers, objects_prefix
from aggserver.adoption.host import Host
from aggserver.adoption.leftovers.through_api import APILeftovers, close
from aggserver.adoption.mover import Mover
from aggserver.adoption.records.fence import RecordFence
from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import (
    LEASE,
    CantCopy,
    CantGiveBack,
    Copied,
    GiveBack,
    Given,
    Moving,
    Phase,
    Progress,
    Record,
    Source,
)
from aggserver.adoption.status import Status
from aggserver.adoption.steps import Remains, is_frozen, is_hidden
from aggserver.adoption.switch.api_services import OurService
from aggserver.adoption.switch.guard import Guard
from aggserver.adoption.switch.switching import Switcher, end_watches, proxied
from aggserver.apiextensions.definition import Definition
from aggserver.apiextensions.registration import Service
from aggserver.app.engine import Engine
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.lease import Lease
from aggserver.cluster.replicas import connect_each
from aggserver.errors import AggserverError
from aggserver.meta.selectors import LabelSelector
from aggserver.monitoring.adoption import AdoptionMetrics
from aggserver.options import Options
from aggserver.storage.interface import Conflict, KeyExists, NotFound, Storage, StorageError
from aggserver.storage.records import INSTALLATION, DamagedRecord, is_sound

__all__ = ["Adoption", "installation_id"]

log = logging.getLogger("aggserver.adoption")

# The key of the guard's problems in `_problems`; the other keys are names of APIServices.
GUARD = "guard"

# The id is kept twice: all that was adopted belongs to it, and a lost id can't be recovered.
_INSTALLATION = (f"{INSTALLATION}id", f"{INSTALLATION}copy")
_NAMESPACES = "/api/v1/namespaces"
# Seconds between checks whether the objects of a definition that is being deleted are gone, and between attempts after a failure.
_LOOK_SECONDS, _RETRY_SECONDS = 0.5, 2.0
# Seconds between checks whether somebody has changed the guard.
_GUARD_SECONDS = 10.0


async def installation_id(storage: Storage) -> str:
    """The id of this installation, the same for all servers of a store: a UUID, made once and kept in the store.

    A damaged copy is replaced by the other one. Raises StorageError, and DamagedRecord if both copies are damaged.
    """
    made = str(uuid.uuid4()).encode()
    while True:
        found = {key: await storage.get(key) for key in _INSTALLATION}
        sound = [item.value for item in found.values() if item is not None and not item.fault and is_sound(item.key, item.value)]
        damaged = [item for item in found.values() if item is not None and (item.fault or not is_sound(item.key, item.value))]
        if damaged and not sound:
            raise DamagedRecord(damaged[0].key, damaged[0].revision, damaged[0].fault or "it is no UUID")
        value = sound[0] if sound else made
        with suppress(KeyExists, Conflict, NotFound):  # another server was faster
            for item in damaged:
                await storage.update(item.key, value, item.revision)
            # The first key decides which server's id holds, so the copy is created after it.
            for key in (key for key, item in found.items() if item is None):
                await storage.create(key, value)
            return value.decode()


class Adoption:
    """Serves adopted definitions, and moves families while this server holds the Lease. `run` is the task.

    host, replicas, installation, lease, max_object_bytes: for the steps of a move.
    service: the Service in front of this server. ca_bundle: the PEM of the CA that signed its certificate. host_etcd: the
    cluster's own etcd, started, if it can be reached. installation: see `installation_id`. want: called with all adopted
    definitions by name, returns when they are served beside others. has_own: whether a definition that is not adopted is served.
    """

    def __init__(
        self,
        options: Options,
        cluster: Cluster,
        engine: Engine,
        storage: Storage,
        service: Service,
        ca_bundle: Callable[[], bytes],
        host_etcd: Storage | None,
        installation: str,
        want: Callable[[Mapping[str, Definition]], Awaitable[None]],
        has_own: Callable[[str], bool],
    ) -> None:
        self._cluster = cluster
        self._engine = engine
        self._storage = storage
        self._service = service
        self._host_etcd = host_etcd
        self.installation = installation
        self.max_object_bytes = options.max_object_bytes
        self._want = want
        self._ca_bundle = ca_bundle
        self._journal = Journal(storage, self._on_change)
        if options.storage == "etcd":  # other stores have one server only
            engine.definitions.fence_writes(lambda name: RecordFence(self._journal, name, has_own))
        target = OurService(service, installation, b"")
        selector = LabelSelector.parse(options.adopt or "")
        self.host = Host(cluster, selector, target, lambda: self._journal.records.values(), self._on_change)
        agent = f"aggserver/{aggserver.__version__}"
        self.replicas = connect_each(cluster, str(options.kubeconfig or ""), options.kube_apiservers, agent)
        self._metrics = AdoptionMetrics(engine.metrics.registry)
        # The host name, which is the pod's, is for people. A restarted container has the same one, so a UUID is added.
        self.lease = Lease(cluster, service.namespace, LEASE, f"{socket.gethostname()}_{uuid.uuid4()}")
        self._changed = asyncio.Event()
        self._serving = asyncio.Lock()
        self._is_served = False
        # By name, the uids of definitions that are not served any more, although a record still has them.
        self._withdrawn: dict[str, str] = {}
        self._marked: set[GroupVersion] = set()
        # The resourceVersion of each definition as the journal keeps it, so that other changes do not read it again.
        self._kept: dict[str, str] = {}
        self._keeping: asyncio.TimerHandle | None = None
        self._unkept = ""
        self._term: _Term | None = None  # while this server holds the Lease
        self._problems: dict[str, str] = {}
        self._guarded_at: dict[str, float] = {}
        self._logged: dict[str, tuple[Phase, str]] = {}  # by family, the phase and reason that were logged last
        # By uid of a definition that is being deleted in the host: the task that deletes its objects here.
        self._emptying: dict[str, asyncio.Task[None]] = {}

    def trust(self) -> None:
        """Use a new CA of the serving certificate in APIServices and the guard."""
        if self._term is not None and (bundle := self._ca_bundle()):
            self._term.switcher.trust(bundle)
            self._term.steps.renew_guard()

    def healthy(self) -> str | None:
        """For readiness: adopted definitions must be served before clients are led here."""
        return self._journal.trouble() if self._is_served else "the records of adopted definitions have not been read yet"

    def unreadable(self) -> str | None:
        """Why some adopted definitions may not be served; None if all are."""
        damaged = self._journal.unreadable()
        return None if damaged is None else str(damaged)

    async def run(self) -> None:
        """Follow the journal and the host, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._journal.run())
                await self._restore()
                tasks.create_task(self.host.run())
                tasks.create_task(self._follow())
                tasks.create_task(self.lease.run(self._move))
        finally:
            if self._keeping is not None:
                self._keeping.cancel()
            await self.replicas.close()

    # --- what is served ---

    async def serve(self) -> None:
        """Serve what the journal says, and only that. Raises StorageError."""
        async with self._serving:
            records = list(self._journal.records.values())
            held = {name: uid for record in records for name, uid in record.uids.items()}
            self._withdrawn = {name: uid for name, uid in self._withdrawn.items() if held.get(name) == uid}
            wanted: dict[str, Definition] = {}
            group_versions: set[GroupVersion] = set()
            for record in filter(is_served, records):
                for name, uid in record.uids.items():
                    definition = self.host.definition(name, uid)
                    if definition is not None and self._withdrawn.get(name) != uid:
                        wanted[name] = definition
                        group_versions |= {(definition.group, each.name) for each in definition.versions if each.served}
            if self._term is None:
                await self._freeze(records)
            self._engine.installer.mark_adopted(self._marked - group_versions, "")
            self._engine.installer.mark_adopted(group_versions, self.installation)
            self._marked = group_versions
            await self._want(wanted)
            self._is_served = True
            await self._keep(wanted)

    async def _keep(self, wanted: Iterable[str]) -> None:
        """Keep the definitions in the store, for a restart without the host. If the store is full, this is tried again later."""
        if self._keeping is not None:
            self._keeping.cancel()
        try:
            for name in wanted:
                crd = self.host.crd(name)
                if crd is None or not self.host.is_current(name):
                    continue
                state = crd["metadata"].get("resourceVersion", "")
                if self._kept.get(name) != state:
                    await self._journal.keep_definition(crd)
                    self._kept[name] = state
        except StorageError as error:
            if str(error) != self._unkept:
                log.warning("a definition can't be kept yet: %s", error)
            self._unkept = str(error)
            self._keeping = asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._changed.set)
        else:
            self._unkept = ""

    async def withdraw(self, definitions: Iterable[str]) -> None:
        """Stop serving these definitions, although the record still has them. Raises StorageError."""
        uids = {name: uid for record in self._journal.records.values() for name, uid in record.uids.items()}
        names = list(definitions)
        self._withdrawn |= {name: uids[name] for name in names if name in uids}
        await self.serve()
        for name in names:
            self._kept.pop(name, None)
            await self._journal.forget_definition(name)

    async def _freeze(self, records: Iterable[Record]) -> None:
        """Refuse writes and reads as the records say, in a server that does not move: the one that moves does so by its steps."""
        for record in records:
            for name in record.uids:
                if is_frozen(record):
                    await self._engine.definitions.freeze(name, reads=is_hidden(record))
                else:
                    self._engine.definitions.thaw(name)

    async def _restore(self) -> None:
        while True:
            try:
                await self._journal.ready()
                await self.host.restore(await self._journal.definitions())
                await self.serve()
            except StorageError as error:
                log.warning("adopted definitions can't be read yet: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def _on_change(self) -> None:
        self._changed.set()

    async def _follow(self) -> None:
        """Serve each change of the journal and of the host's definitions, and pass what is wanted to the mover."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.serve()
            except StorageError as error:
                log.warning("a change of adopted definitions can't be served yet: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._changed.set()
                continue
            if self._term is not None and not self.host.trouble():
                families = self.host.families()
                self._term.mover.want([self._with_objects(family) for family in families])
                self._term.status.wanted({family.name for family in families})
                self._set_problems(families, self._term.status)

    # --- the server that moves ---

    async def _move(self) -> None:
        """Move families while this server holds the Lease, with new objects, since those of an earlier term are out of date."""
        await self._read_records()
        status = Status(self._cluster, self._service.namespace, self._metrics)
        status.restore(self._journal.records.values())
        guard = Guard(self._cluster, self._service, self._ca_bundle)
        switcher = Switcher(self._cluster, self._service, self.installation, self.on_problem, self._on_led_away)
        steps = _Actions(self, self._cluster, self._engine, self._storage, self._host_etcd, guard, switcher)
        mover = Mover(self._storage, self._journal, steps, self._observe, status.report)
        self._term = _Term(switcher, status, steps, mover)
        self.trust()
        self._changed.set()
        try:
            async with asyncio.TaskGroup() as tasks:
                for run in (status.run, switcher.run, steps.run, mover.run):
                    tasks.create_task(run())
        finally:
            self._term = None
            for task in self._emptying.values():
                task.cancel()
            self._emptying.clear()
            self._changed.set()

    async def _read_records(self) -> None:
        """Read the records, since the watch may not have delivered the last writes of the server that moved before.

        The guard is set by the records.
        """
        while True:
            try:
                await self._journal.read()
            except StorageError as error:
                log.warning("the records of adoptions can't be read yet: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def _with_objects(self, family: Family) -> Family:
        """The family with only those `deleted` definitions whose objects here are gone. Begins to delete those of the others.

        That may take as long as the objects have finalizers, and must not keep the mover from other families.
        """
        record = self._journal.get(family.name)
        if record is None or record.phase is not Phase.ADOPTED:
            return family
        for name in family.deleted:
            uid = record.uids.get(name)
            if uid is not None and uid not in self._emptying:
                self._emptying[uid] = asyncio.create_task(self._empty(name))
        emptied = {uid for uid, task in self._emptying.items() if task.done()}
        return replace(family, deleted=[name for name in family.deleted if record.uids.get(name) in emptied])

    async def _empty(self, definition: str) -> None:
        """Delete all objects of a definition, until none is left. Meanwhile clients may read and delete them, but create none."""
        while True:
            try:
                resource = self._engine.definitions.get(definition)
                if resource is not None:
                    self._engine.definitions.set(resource.definition, terminating=True)
                if await self._engine.definitions.delete_objects(definition):
                    break
            except AggserverError as error:
                log.warning("the objects of %s, which is being deleted, can't be deleted yet: %s", definition, error)
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:  # else the task would be done, and the objects would count as deleted
                log.exception("the objects of %s, which is being deleted, can't be deleted yet", definition)
                await asyncio.sleep(_RETRY_SECONDS)
            await asyncio.sleep(_LOOK_SECONDS)
        self._changed.set()

    def _observe(self, record: Record, moving: Moving | None) -> None:
        if self._term is not None:
            self._term.status.observe(record, moving)
        if moving is not None:
            return
        state = record.phase, record.reason
        if record.phase is Phase.GUARDING:
            self._guarded_at[record.family] = time.monotonic()
        elif record.phase is Phase.ADOPTED and record.family in self._guarded_at:
            frozen = time.monotonic() - self._guarded_at.pop(record.family)
            copied = record.copied.values()
            count, size = sum(each.count for each in copied), sum(each.size for each in copied)
            self._metrics.froze(frozen)
            self._metrics.copied(count, size)
            log.info("adopted %s: %d objects, %d bytes; writes were refused for %.2f s", record.family, count, size, frozen)
            self._logged[record.family] = state
        elif record.phase is not Phase.SWITCHING:
            self._guarded_at.pop(record.family, None)
        if record.phase not in (Phase.GUARDING, Phase.SWITCHING) and self._logged.get(record.family) != state:
            self._logged[record.family] = state
            log.info("%s: %s%s", record.family, record.phase.value, f": {record.reason}" if record.reason else "")

    def on_problem(self, api_service: str, problem: str) -> None:
        if problem:
            log.warning("%s", problem)
            self._problems[api_service] = problem
        else:
            self._problems.pop(api_service, None)
        self._changed.set()

    def _on_led_away(self, group_version: GroupVersion) -> None:
        if self._term is not None:
            log.warning(
                "APIService %s.%s was the host's for a moment; clients of its objects list anew", *reversed(group_version)
            )
            self._term.mover.led_away(group_version)

    def _set_problems(self, families: Iterable[Family], status: Status) -> None:
        for family in families:
            services = [f"{version}.{group}" for group, version in family.group_versions]
            troubles = [self._problems[name] for name in ("", GUARD, *services) if name in self._problems]
            status.problems(family.name, [*family.obstacles, *troubles])


@dataclass(frozen=True, slots=True)
class _Term:
    switcher: Switcher
    status: Status
    steps: _Actions
    mover: Mover


class _Actions:
    """`steps.Actions` with the real parts."""

    def __init__(
        self,
        adoption: Adoption,
        cluster: Cluster,
        engine: Engine,
        storage: Storage,
        host_etcd: Storage | None,
        guard: Guard,
        switcher: Switcher,
    ) -> None:
        self._adoption = adoption
        self._cluster = cluster
        self._definitions = engine.definitions
        self._installation = adoption.installation
        self._replicas = adoption.replicas
        self._storage = storage
        self._host_etcd = host_etcd
        self._host = adoption.host
        self._guard = guard
        self._switcher = switcher
        self._most_bytes = adoption.max_object_bytes
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
                self._adoption.on_problem(GUARD, problem)

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
        await self._adoption.lease.confirm()

    async def freeze(self, definition: str, *, reads: bool = False) -> None:
        await self._definitions.freeze(definition, reads=reads)

    def thaw(self, definition: str) -> None:
        self._definitions.thaw(definition)

    async def mark(self, definition: str) -> None:
        await self._definitions.expire_before(definition)

    async def serve(self, record: Record) -> None:
        await self._adoption.serve()
        missing = [name for name in record.definitions if self._definitions.get(name) is None]
        if missing:
            raise AggserverError(f"{', '.join(missing)} can't be served: the host does not have the definition that was recorded")

    async def withdraw(self, definitions: Iterable[str]) -> None:
        await self._adoption.withdraw(definitions)

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
        raise CantGiveBack(
            "objects were written here since the adoption. With --host-etcd-servers they go back as they are; "
            "`aggserver adopt release --through-api` sends them through the API, where those created here get a new uid"
        )

    async def first(self, copied: Copied, progress: Progress) -> Given:
        return await self.rest(copied, progress)

    async def rest(self, copied: Copied, progress: Progress) -> Given:
        await self.check(copied)
        return Given()
