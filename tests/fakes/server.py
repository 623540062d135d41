"""LocalServer: a server in memory, which runs the real Engine with a fake clock, storage, timers and authentication.

Each Client says which user it is. Tests serve definitions directly with `serve`; tests of the controllers start them with `run`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from aggserver.admission.chain import Chain, Mutating, Validating
from aggserver.admission.namespace_lifecycle import NamespaceLifecycle
from aggserver.apiextensions.controller import DefinitionController
from aggserver.apiextensions.definition import parse
from aggserver.apiextensions.kind import definition_kind
from aggserver.apiextensions.strategy import DefinitionStrategy
from aggserver.apiextensions.v1beta1 import StoredDefinitions
from aggserver.app.engine import Engine
from aggserver.authentication.delegating import Authenticator, Outcome
from aggserver.authentication.user import ANONYMOUS, PRIVILEGED_GROUP, UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.delegating import Decision
from aggserver.authorization.standalone import ResolvedRules as UserRules
from aggserver.authorization.standalone import StandaloneAuthorizer
from aggserver.controllers.garbage.collector import GarbageCollector
from aggserver.controllers.namespaces.controller import NamespaceController
from aggserver.endpoints.auditing import Auditor
from aggserver.endpoints.lane import Lane
from aggserver.endpoints.request import AnyResponse, Request
from aggserver.endpoints.served import Served
from aggserver.kinds import namespaces
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.options import Options
from aggserver.registry.environment import Environment
from aggserver.registry.rest import Context, WriteOptions, WriteRequest
from aggserver.standalone import resources
from aggserver.storage.memory import MemoryStorage
from tests.fakes.asgi import Client
from tests.fakes.clock import FakeClock, settled
from tests.fakes.lane import Compared, Uncounted

ADMIN = UserInfo("admin", groups=(PRIVILEGED_GROUP, "system:authenticated"))
ALICE = UserInfo("alice", groups=("system:authenticated",))

# 2026-01-02T03:04:05Z
NOW = 1767323045.0


class Timers:
    """Timers that fire when a test says so."""

    def __init__(self) -> None:
        self.pending: list[Timer] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self, seconds, callback)
        self.pending.append(timer)
        return timer

    @property
    def seconds(self) -> list[float]:
        return [timer.seconds for timer in self.pending]

    def fire(self, seconds: float) -> None:
        """Fire all pending timers that were set to this many seconds; there must be one."""
        due = [timer for timer in self.pending if timer.seconds == seconds]
        assert due, self.seconds
        for timer in due:
            timer.cancel()
            timer.callback()


class Timer:
    def __init__(self, timers: Timers, seconds: float, callback: Callable[[], None]) -> None:
        self._timers = timers
        self.seconds = seconds
        self.callback = callback

    def cancel(self) -> None:
        if self in self._timers.pending:
            self._timers.pending.remove(self)


class ByPeer:
    """Authenticates by the peer that the client sets in place of a certificate: a user, None for anonymous, a str to reject."""

    async def authenticate(
        self, headers: list[tuple[bytes, bytes]], peer: Any, now: float, *, knew_all_cas: bool = True, for_anyone: bool = False
    ) -> Outcome:
        if isinstance(peer, str):
            raise errors.unauthorized()
        return Outcome(peer or ANONYMOUS, headers)


class ResolvedRules:
    """Allows everything to administrators, and what is in `allowed` to others: (user, verb, resource or path)."""

    def __init__(self) -> None:
        self.allowed: set[tuple[str, str, str]] = set()
        self.asked: list[Attributes] = []
        self._base = StandaloneAuthorizer()

    async def authorize(self, attributes: Attributes) -> Decision:
        self.asked.append(attributes)
        if (attributes.user.name, attributes.verb, attributes.resource or attributes.path) in self.allowed:
            return Decision(True)
        return Decision((await self._base.authorize(attributes)).allowed, "")

    async def rules_for(self, user: UserInfo, namespace: str) -> UserRules:
        return await self._base.rules_for(user, namespace)


class LocalServer:
    """app: the ASGI application, whose answers the lane's are compared with. lane: the lane itself, which counts.
    handler: the handler behind the filters, which a test may replace.

    fair: whether requests wait in the queues of flow control, instead of being rejected above the limits.

    storage: another server's, to start on its objects. without: the name of a filter to leave out of the chain.
    mutating_plugins, validating_plugins: of admission, beside NamespaceLifecycle.
    """

    def __init__(
        self,
        storage: MemoryStorage | None = None,
        *,
        timeout: float = 60.0,
        reading: int = 0,
        mutating: int = 0,
        fair: bool = False,
        without: str = "",
        mutating_plugins: Sequence[Mutating] = (),
        validating_plugins: Sequence[Validating] = (),
        auditor: Auditor | None = None,
    ) -> None:
        uids = itertools.count(1)
        self.storage = storage or MemoryStorage()
        self.clock = FakeClock(NOW)
        self.timers = Timers()
        self.rules = ResolvedRules()
        self.environment = Environment(
            storage=self.storage,
            clock=self.clock,
            monotonic=self.clock,
            new_uid=lambda: f"uid-{next(uids)}",
            random=lambda below: 0,
        )
        self.namespaces = self.environment.own_store(namespaces.NamespaceStrategy())
        self.crds = self.environment.own_store(DefinitionStrategy(), StoredDefinitions())
        lifecycle = NamespaceLifecycle(namespaces.StoredNamespaces(self.namespaces))
        self.engine = Engine(
            self.environment,
            lambda installer, observer: Chain([lifecycle, *mutating_plugins], validating_plugins),
            spread=lambda: 0.0,
            call_later=self.timers.call_later,
            new_audit_id=lambda: "audit-1",
        )
        installer = self.engine.installer
        self.controller = DefinitionController(
            self.crds, self.engine.definitions, self.clock, self.timers.call_later, is_built_in=installer.built_in
        )
        self.namespace_controller = NamespaceController(
            self.namespaces, installer, self.storage, self.clock, self.timers.call_later, grace=0.0
        )
        self.garbage_collector = GarbageCollector(installer, self.storage, self.clock, self.timers.call_later)
        self._install()
        self.handler = self.engine.handler
        self.engine.handler = self._handle
        options = Options(
            command="dev",
            request_timeout_seconds=timeout,
            enable_priority_and_fairness=fair,
            max_requests_inflight=reading,
            max_mutating_requests_inflight=mutating,
        )
        chain = self.engine.chain(cast(Authenticator, ByPeer()), self.rules, options, auditor=auditor)
        self.filters = tuple(chain)
        chain.pop(without, None)
        uncounted = Lane(self._handle, chain, Uncounted(), lambda: "audit-1", self.engine.is_stored)
        self.app = Compared(self.engine.application(chain), uncounted)
        self.lane = self.engine.lane(chain, options, auditor)
        self._tasks: list[asyncio.Task[None]] = []

    def _install(self) -> None:
        admission = self.engine.admission
        own: list[tuple[str, list[Served]]] = [
            ("namespaces", [resources.namespace_kind(self.namespaces, admission)]),
            ("customresourcedefinitions", [definition_kind(self.crds, admission)]),
            ("reviews", list(resources.review_kinds(self.rules, self.rules, admission, self.clock))),
        ]
        self.engine.installer.install(own)

    async def _handle(self, request: Request) -> AnyResponse:
        return await self.handler(request)

    @property
    def events(self) -> int:
        """The number of events that were sent to watches, from the metrics."""
        samples = (sample for metric in self.engine.metrics.registry.collect() for sample in metric.samples)
        return int(sum(sample.value for sample in samples if sample.name == "apiserver_watch_events_total"))

    def client(self, user: UserInfo | None = ADMIN) -> Client:
        return Client(self.app, user)

    async def start(self) -> None:
        await self.storage.start()
        await namespaces.ensure(self.namespaces, "default")

    def run(self) -> None:
        """Start the controllers."""
        for run in (self.controller.run, self.namespace_controller.run, self.garbage_collector.run):
            self._tasks.append(asyncio.create_task(run()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.end_watches()
        await self.storage.close()

    def end_watches(self) -> None:
        """End all watches, as a server does when it stops."""
        self.engine.end_watches()
        for store in (self.crds, self.namespaces):
            store.end_watches()

    def serve(self, crd: Mapping[str, Any], *, terminating: bool = False) -> None:
        """Serve a definition directly, without the API and the controller."""
        self.engine.definitions.set(parse(crd), terminating=terminating)

    async def namespace(self, name: str) -> None:
        obj: JSONObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.namespaces.create(WriteRequest(Context(ADMIN), WriteOptions()), obj)


async def gone(client: Client, path: str) -> None:
    """Wait until there is nothing at `path`, which takes the controllers some iterations of the event loop."""
    for _ in range(100):
        if (await client.get(path)).status == 404:
            return
        await settled()
    raise AssertionError(f"{path} is still there")
