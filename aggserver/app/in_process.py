"""Apps in this process, without a socket, a cluster and files: for tests of an App, and to look at what it serves.

A request passes the same filters, admission, hooks and stores as in `aggserver dev`; objects are kept in memory. What differs:
the user of a request is who the caller says, and may do everything unless rules were given. No controllers run, and there are no
built-in kinds but namespaces and reviews; each namespace is made when the first request needs it.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from aggserver.admission.chain import Chain
from aggserver.admission.namespace_lifecycle import NamespaceLifecycle
from aggserver.app.engine import Engine, new_uids
from aggserver.app.python_apps import LoadedApps, serve_apps
from aggserver.app.tasks import Task, supervise
from aggserver.authentication.delegating import AuthenticationConfig, Authenticator
from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.delegating import ALLOWED, Decision
from aggserver.authorization.escalation import EVERYTHING
from aggserver.authorization.rbac import PolicyRule
from aggserver.authorization.standalone import ResolvedRules
from aggserver.endpoints.installer import Installer
from aggserver.endpoints.request import AnyResponse, ASGIApp, Handler, Request
from aggserver.kinds import namespaces
from aggserver.options import Options
from aggserver.registry.environment import Environment
from aggserver.resources.app import App
from aggserver.standalone import resources
from aggserver.storage.memory import MemoryStorage

__all__ = ["UNCHANGED", "InProcess", "Rights", "installed", "serving"]

# As the state of an App whose own lifespan is entered.
UNCHANGED: Any = object()
# Verbs of requests that may make an object, whose namespace must exist.
_MAKING = frozenset({"create", "update", "patch"})


class Rights:
    """What users may do: everything, or what the rules say that they were given by name. An Authorizer.

    Paths that are no resources, such as discovery, are open to everybody: in a cluster every user may read them.
    """

    def __init__(self) -> None:
        self._rules: dict[str, Sequence[PolicyRule]] = {}

    def give(self, user: str, rules: Sequence[Mapping[str, Any]] | None) -> None:
        """rules: as in a ClusterRole; None is everything."""
        self._rules.pop(user, None)
        if rules is not None:
            self._rules[user] = [PolicyRule.of(rule) for rule in rules]

    async def authorize(self, attributes: Attributes) -> Decision:
        rules = self._rules.get(attributes.user.name)
        if rules is None or not attributes.on_resource or any(rule.allows(attributes) for rule in rules):
            return ALLOWED
        return Decision(False)

    async def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules:
        return ResolvedRules([*self._rules.get(user.name, EVERYTHING)])


class InProcess:
    """A server of Apps. `asgi` answers requests; the user is in the scope's state, under `user`.

    Raises StartError and DeclarationError for Apps that can't be served.
    """

    def __init__(self, apps: LoadedApps) -> None:
        self._storage = MemoryStorage()
        environment = Environment(
            storage=self._storage,
            clock=time.time,
            monotonic=time.monotonic,
            new_uid=new_uids(),
            random=secrets.randbelow,
        )
        self._namespaces = environment.own_store(namespaces.NamespaceStrategy(), read_fields=namespaces.read_fields)
        self._there = {""}
        self.rights = Rights()
        lifecycle = NamespaceLifecycle(namespaces.StoredNamespaces(self._namespaces))
        engine = self._engine = Engine(environment, lambda installer, observer: Chain([lifecycle]))
        self.installer.install(
            [
                ("namespaces", [resources.namespace_kind(self._namespaces, engine.admission)]),
                ("reviews", resources.review_kinds(self.rights, self.rights, engine.admission, time.time)),
            ]
        )
        self.tasks: list[Task] = serve_apps(apps, engine, environment)
        chain = engine.chain(
            Authenticator(AuthenticationConfig()),
            self.rights,
            # No limits of requests at the same time: whoever tests many at once wants to see them answered.
            Options(command="dev", max_requests_inflight=0, max_mutating_requests_inflight=0),
        )
        chain["authentication"] = _as_said
        self.asgi: ASGIApp = engine.application({**chain, "namespaces": self._with_namespace})

    @property
    def installer(self) -> Installer:
        return self._engine.installer

    async def start(self) -> None:
        await self._storage.start()

    async def stop(self) -> None:
        self._engine.end_watches()
        self._namespaces.end_watches()
        await self._storage.close()

    def _with_namespace(self, next_handler: Handler) -> Handler:
        """A filter that makes the namespace of a write, once: a test that deletes it wants it deleted."""

        async def handler(request: Request) -> AnyResponse:
            info = request.info
            if info.verb in _MAKING and info.resource != "namespaces" and info.namespace not in self._there:
                self._there.add(info.namespace)
                await namespaces.ensure(self._namespaces, info.namespace)
            return await next_handler(request)

        return handler


def _as_said(next_handler: Handler) -> Handler:
    """The filter of authentication: the user is who the caller says."""

    async def handler(request: Request) -> AnyResponse:
        request.user = request.scope["state"]["user"]
        return await next_handler(request)

    return handler


def installed(apps: LoadedApps) -> Installer:
    """What the Apps serve, without starting anything. Raises StartError and DeclarationError for what can't be served."""
    return InProcess(apps).installer


@asynccontextmanager
async def serving(app: App[Any], state: Any = UNCHANGED) -> AsyncGenerator[InProcess, None]:
    """A running server of one App. state: in place of what its lifespan yields. Raises what the lifespan raises."""
    lifespan = _Lifespan(app.lifespan if state is UNCHANGED else lambda: _yielding(state))
    # The App itself stays as it is: another test may serve it at the same time, with another state.
    served = copy.copy(app)
    served.lifespan = lifespan.enter
    server = InProcess([("test", served)])
    await server.start()
    try:
        async with supervise(*server.tasks):
            await lifespan.entered()
            yield server
    finally:
        await server.stop()
    if lifespan.failure is not None:
        raise lifespan.failure


@asynccontextmanager
async def _yielding(state: Any) -> AsyncGenerator[Any, None]:
    yield state


class _Lifespan:
    """An App's lifespan in the server's own task, whose failure the test sees instead of a restart.

    In that task it begins and ends, since a fixture may begin and end in different ones, which task groups don't allow.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._make = make
        self._entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failure: Exception | None = None

    async def entered(self) -> None:
        """Wait until it was entered. Raises its error."""
        await self._entered

    @asynccontextmanager
    async def enter(self) -> AsyncGenerator[Any, None]:
        try:
            async with self._make() as state:
                if not self._entered.done():
                    self._entered.set_result(None)
                yield state
        except Exception as error:
            if self._entered.done():
                self.failure = error
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise asyncio.CancelledError from None  # the end of the lifespan has failed, and must not go on for that
            else:
                self._entered.set_exception(error)
            raise
