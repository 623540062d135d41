"""Adoption (`--adopt`): puts the parts together that move definitions of the host cluster to this server, and back.

Every server follows the host's definitions and the journal, and serves what the journal says is adopted (`adopted.py`). The
server that holds the Lease moves families by the steps of `adoption_steps.py`, keeps the APIServices, and writes the status.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import aggserver
from aggserver.adoption.families import Family, GroupVersion
from aggserver.adoption.host import Host
from aggserver.adoption.mover import Mover
from aggserver.adoption.records.fence import RecordFence
from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import LEASE, Moving, Phase, Record
from aggserver.adoption.status import Status
from aggserver.adoption.switch.api_services import OurService
from aggserver.adoption.switch.guard import Guard
from aggserver.adoption.switch.switching import Switcher
from aggserver.apiextensions.definition import Definition
from aggserver.apiextensions.registration import Service
from aggserver.app.adopted import Adopted
from aggserver.app.adoption_steps import GUARD, Parts, Steps
from aggserver.app.engine import Engine
from aggserver.cluster import Cluster
from aggserver.cluster.lease import Lease, new_identity
from aggserver.cluster.replicas import connect_each
from aggserver.errors import AggserverError
from aggserver.meta.selectors import LabelSelector
from aggserver.monitoring.adoption import AdoptionMetrics
from aggserver.options import Options
from aggserver.storage.interface import Storage, StorageError

__all__ = ["Adoption"]

log = logging.getLogger("aggserver.adoption")

# Seconds between checks whether the objects of a definition that is being deleted are gone, and between attempts after a failure.
_LOOK_SECONDS, _RETRY_SECONDS = 0.5, 2.0


class Adoption:
    """Serves adopted definitions, and moves families while this server holds the Lease. `run` is the task.

    service: the Service in front of this server. ca_bundle: the PEM of the CA that signed its certificate. host_etcd: the
    cluster's own etcd, started, if it can be reached. installation: see `installation.installation_id`. want: see `Adopted`.
    has_own: whether a definition that is not adopted is served.
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
        self._definitions = engine.definitions
        self._storage = storage
        self._service = service
        self._installation = installation
        self._ca_bundle = ca_bundle
        self._changed = asyncio.Event()
        self._journal = Journal(storage, self._changed.set)
        if options.storage == "etcd":  # other stores have one server only
            engine.definitions.fence_writes(lambda name: RecordFence(self._journal, name, has_own))
        target = OurService(service, installation, b"")
        selector = LabelSelector.parse(options.adopt or "")
        self._host = Host(cluster, selector, target, lambda: self._journal.records.values(), self._changed.set)
        self._adopted = Adopted(
            self._journal, self._host, engine, installation, want, lambda: self._term is not None, self._changed.set
        )
        agent = f"aggserver/{aggserver.__version__}"
        self._replicas = connect_each(cluster, str(options.kubeconfig or ""), options.kube_apiservers, agent)
        self._lease = Lease(cluster, service.namespace, LEASE, new_identity())
        self._parts = Parts(
            cluster=cluster,
            host=self._host,
            host_etcd=host_etcd,
            replicas=self._replicas,
            lease=self._lease,
            storage=storage,
            definitions=engine.definitions,
            adopted=self._adopted,
            installation=installation,
            max_object_bytes=options.max_object_bytes,
        )
        self._metrics = AdoptionMetrics(engine.metrics.registry)
        self._term: _Term | None = None  # while this server holds the Lease
        self._problems: dict[str, str] = {}  # by APIService, and GUARD
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
        """For readiness."""
        return self._adopted.healthy()

    def unreadable(self) -> str | None:
        """Why some adopted definitions may not be served; None if all are."""
        damaged = self._journal.unreadable()
        return None if damaged is None else str(damaged)

    async def run(self) -> None:
        """Follow the journal and the host, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._journal.run())
                await self._adopted.restore()
                tasks.create_task(self._host.run())
                tasks.create_task(self._follow())
                tasks.create_task(self._lease.run(self._move))
        finally:
            self._adopted.close()
            await self._replicas.close()

    async def _follow(self) -> None:
        """Serve each change of the journal and of the host's definitions, and pass what is wanted to the mover."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._adopted.serve()
            except StorageError as error:
                log.warning("a change of adopted definitions can't be served yet: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._changed.set()
                continue
            if self._term is not None and not self._host.trouble():
                families = self._host.families()
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
        switcher = Switcher(self._cluster, self._service, self._installation, self._on_problem, self._on_led_away)
        steps = Steps(self._parts, guard, switcher, self._on_problem)
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
                resource = self._definitions.get(definition)
                if resource is not None:
                    self._definitions.set(resource.definition, terminating=True)
                if await self._definitions.delete_objects(definition):
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

    def _on_problem(self, api_service: str, problem: str) -> None:
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
    steps: Steps
    mover: Mover
