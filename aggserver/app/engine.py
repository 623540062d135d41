"""Engine: the part of a server that is the same in every mode.

It has the resources in one storage, and the chain of filters before them. A mode decides who is trusted, where definitions come
from, and which namespaces exist.
"""

from __future__ import annotations

import errno
import os
import random
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType

import aggserver
from aggserver.admission.chain import Chain
from aggserver.admission.observer import AdmissionObserver
from aggserver.apiextensions.definitions import Definitions
from aggserver.apiextensions.migration import Ledger, Migrator
from aggserver.app.errors import StartError
from aggserver.app.logs import set_verbosity
from aggserver.authentication.delegating import Authenticator
from aggserver.authorization.delegating import Authorizer
from aggserver.conversion.webhook import Caller, WebhookCall
from aggserver.debugging.pages import Pages
from aggserver.endpoints import filters, serving_filters
from aggserver.endpoints.auditing import Auditor
from aggserver.endpoints.discovery import Discovery
from aggserver.endpoints.dispatch import Dispatcher
from aggserver.endpoints.flow_control.flow_control import FlowControl
from aggserver.endpoints.handlers.watch import CallLater, Watching, call_later
from aggserver.endpoints.installer import Installer
from aggserver.endpoints.lane import Lane
from aggserver.endpoints.openapi import OpenAPI
from aggserver.endpoints.request import ASGIApp, Filter, Handler
from aggserver.endpoints.served import ResourceScope
from aggserver.kinds.flow_control import flow_schemas, priority_levels
from aggserver.monitoring import routes
from aggserver.monitoring.admission import AdmissionMetrics
from aggserver.monitoring.flow_control import FlowControlMetrics
from aggserver.monitoring.health import HealthChecks
from aggserver.monitoring.metrics import Metrics, RequestObserver
from aggserver.monitoring.process import process_metrics
from aggserver.monitoring.stores import StoreMetrics
from aggserver.options import Options, shown
from aggserver.registry.environment import Environment
from aggserver.schema.rules import UPSTREAM, RuleOptions
from aggserver.server.requests import AtOnce, never
from aggserver.server.serving import bind
from aggserver.storage.interface import Storage
from aggserver.tracing.tracer import Tracer
from aggserver.webhook.config import ServiceResolver
from aggserver.webhook.lazy import LazyWebhooks
from aggserver.webhook.services import MappedServices

__all__ = ["Engine", "listen", "listen_at", "new_environment", "new_uids", "open_webhooks"]


def listen(options: Options) -> socket.socket:
    """A socket bound to --bind-address and --secure-port. Raises StartError."""
    return listen_at(options.bind_address, options.secure_port, "--secure-port", shared=options.permit_port_sharing)


def listen_at(host: str, port: int, flag: str, *, shared: bool = False) -> socket.socket:
    """A socket bound to an address. flag: by which the port is chosen. shared: as of `bind`. Raises StartError."""
    try:
        return bind(host, port, shared=shared)
    except OSError as error:
        hint = {
            errno.EADDRINUSE: f"port {port} is in use: {flag} 0 takes a free port, {flag} PORT another",
            errno.EACCES: f"port {port} may not be used: {flag} PORT takes one above 1023, {flag} 0 a free one",
            errno.EADDRNOTAVAIL: f"{host} is no address of this machine: --bind-address IP takes another",
        }.get(error.errno or 0)
        raise StartError(f"can't listen on {host}: {hint or error.strerror}") from None


@asynccontextmanager
async def open_webhooks(options: Options, cluster_services: ServiceResolver | None = None) -> AsyncIterator[LazyWebhooks]:
    """The client for webhooks. cluster_services: finds the services that the options don't name, if there is a cluster."""
    services = MappedServices(dict(options.resolve_services), cluster_services)
    webhooks = LazyWebhooks(services, f"aggserver/{aggserver.__version__}")
    try:
        yield webhooks
    finally:
        await webhooks.close()


def new_environment(storage: Storage, options: Options, webhooks: Caller) -> Environment:
    """The environment of a running server: the real clocks, and the system's randomness."""
    return Environment(
        storage=storage,
        clock=time.time,
        monotonic=time.monotonic,
        new_uid=new_uids(),
        random=secrets.randbelow,
        max_object_bytes=options.max_object_bytes,
        webhooks=webhooks,
    )


def new_uids() -> Callable[[], str]:
    """A source of UUIDs that gets randomness from the system for many at once.

    Each system call releases the GIL, and the storage's writer thread may take it and keep it for a while.
    """

    def make() -> Iterator[str]:
        while True:
            block = os.urandom(16 * 256)
            for start in range(0, len(block), 16):
                # As uuid.UUID with version 4, which takes three times as long: RFC 9562, 5.4.
                text, variant = block[start : start + 16].hex(), "89ab"[block[start + 8] >> 4 & 3]
                yield f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"

    return make().__next__


class Engine:
    """The resources and handlers of one server. `handler` is what comes after the filters.

    admission: makes the chain that every write goes through. rule_options: for the validation rules of definitions.
    spread: returns a number from [0, 1), to spread the ends of watches. call_later: timers of watches. new_audit_id: for requests
    without one. The defaults of these three are for a running server; tests give others.
    """

    def __init__(
        self,
        environment: Environment,
        admission: Callable[[Installer, AdmissionObserver], Chain],
        rule_options: RuleOptions = UPSTREAM,
        *,
        spread: Callable[[], float] = random.random,  # not `secrets`: it only spreads load
        call_later: CallLater = call_later,
        new_audit_id: Callable[[], str] | None = None,
    ) -> None:
        self._environment = environment
        self._clock = environment.clock
        self._new_audit_id = new_audit_id or new_uids()
        self.installer = Installer()
        self.checks = HealthChecks()
        # Not liveness checks, because a restart would repair nothing.
        self.checks.add("storage", environment.storage.trouble, livez=False)
        self.checks.add("stored-objects", environment.unreadable, livez=False)
        self.checks.add("watch-caches", environment.not_followed, livez=False)
        self.metrics = Metrics()
        process_metrics(self.metrics.registry, routes.version_info(aggserver.__version__), aggserver.__version__)
        StoreMetrics(self.metrics.registry, environment)
        self.installer.on_change(lambda: self.metrics.forget(self._served))
        self.admission = admission(self.installer, AdmissionMetrics(self.metrics.registry))
        observed = replace(environment, observe_conversion=self._observe_conversion)
        self.definitions = Definitions(observed, self.admission, self.installer, rule_options)
        self._ends: list[Callable[[], None]] = []
        self._watching = Watching(spread, self._observe_watch, call_later)
        self._observer = RequestObserver(self.metrics, self._served)
        self.pages = Pages(environment, self._paths, aggserver.__version__, _emulated(), set_verbosity)
        self.tracer: Tracer | None = None  # set before the application is made
        self.flow_control: FlowControl | None = None  # made with the chain of filters
        self.handler: Handler = self._dispatcher()

    def asgi(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        options: Options,
        before_authorization: Mapping[str, Filter] = MappingProxyType({}),
        before_authentication: Mapping[str, Filter] = MappingProxyType({}),
    ) -> ASGIApp:
        """The server as one ASGI application. before_...: the mode's own filters by name."""
        return self.application(self.chain(authenticator, authorizer, options, before_authorization, before_authentication))

    def chain(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        options: Options,
        before_authorization: Mapping[str, Filter] = MappingProxyType({}),
        before_authentication: Mapping[str, Filter] = MappingProxyType({}),
        auditor: Auditor | None = None,
    ) -> dict[str, Filter]:
        """The filters by name, in the order in which a request meets them. Parameters: as of `asgi`.

        auditor: None without an audit policy.
        """
        total = options.max_requests_inflight + options.max_mutating_requests_inflight
        if options.enable_priority_and_fairness and total:
            of = self._environment
            begin = flow_schemas(), priority_levels()
            self.flow_control = FlowControl(total, *begin, of.random, of.extent, of.monotonic)
            FlowControlMetrics(self.flow_control, self.metrics.registry)
        chained = filters.chain(
            authenticator,
            authorizer,
            self._clock,
            self._observer,
            timeout_seconds=options.request_timeout_seconds,
            max_reading=options.max_requests_inflight,
            max_mutating=options.max_mutating_requests_inflight,
            flow_control=self.flow_control,
            before_authentication={**serving_filters.cross_origin(options.cors_allowed_origins), **before_authentication},
            before_authorization=before_authorization,
            auditor=auditor,
        )
        dumps = self.flow_control.dumps() if self.flow_control is not None else {}
        seconds = options.request_timeout_seconds
        pages = self.pages.filter(shown(options), dumps, profiling=options.profiling, timeout_seconds=seconds)
        return {
            **serving_filters.outermost(options.hsts_directives, options.goaway_chance, random.random),
            **chained,
            "debugging": pages,
        }

    def application(self, chain: Mapping[str, Filter]) -> ASGIApp:
        """The ASGI application of `handler` with these filters before it."""
        return filters.application(self.handler, chain, self._observer, self._new_audit_id, self.tracer)

    def lane(self, chain: Mapping[str, Filter], options: Options, auditor: Auditor | None = None) -> AtOnce:
        """What answers plain reads at once in place of `application`, with the same filters.

        Nothing does on etcd, which other servers may write to: every read has to wait for its revision. Nor does
        anything if requests are traced.
        """
        if options.storage == "etcd" or self.tracer is not None:
            return never
        return Lane(self.handler, chain, self._observer, self._new_audit_id, self.is_stored, auditor)

    def _dispatcher(self) -> Dispatcher:
        version = aggserver.__version__
        return Dispatcher(
            self.installer,
            Discovery(self.installer),
            OpenAPI(self.installer, version, self._clock),
            routes.application(self.checks, self.metrics, self._paths, version),
            self._watching,
            lambda info: self.metrics.deprecated(info.group, info.version, info.resource, info.subresource),
        )

    def migrator(self, ledger: Ledger) -> Migrator:
        """The Migrator, which rewrites the objects of definitions whose storage version has changed."""
        environment = self._environment
        return Migrator(
            self.definitions, environment.storage, ledger, clock=environment.monotonic, observe=self.metrics.migration
        )

    def end_watches(self) -> None:
        """Ends all watches of clients, and refuses new ones. Other requests in progress are not affected."""
        self._watching.stop()
        self.definitions.end_watches()
        for end in self._ends:
            end()

    def on_end_watches(self, end: Callable[[], None]) -> None:
        """Add what ends the watches of resources that are not of a definition."""
        self._ends.append(end)

    def _served(self, group: str, version: str, resource: str) -> bool:
        return self.installer.find(group, version, resource) is not None

    def is_stored(self, group: str, version: str, resource: str) -> bool:
        """Whether the objects of a resource are in this server's storage."""
        served = self.installer.find(group, version, resource)
        return served is not None and served.in_storage

    def _observe_watch(self, scope: ResourceScope, count: int, size: int) -> None:
        self.metrics.watch(scope.info.group, scope.info.version, scope.info.resource).sent(count, size)

    def _observe_conversion(self, call: WebhookCall) -> None:
        self.metrics.conversion(call.definition, call.from_version, call.to_version, call.seconds, call.failure)

    def _paths(self) -> list[str]:
        paths = ["/apis", "/flagz", "/openapi/v2", "/openapi/v3", "/statusz"]
        for group in self.installer.groups():
            if group.name:
                paths += [f"/apis/{group.name}", *(f"/apis/{version.group_version}" for version in group.versions)]
            else:
                paths += ["/api", *(f"/api/{version.version}" for version in group.versions)]
        return paths


def _emulated() -> str:
    """The minor version of Kubernetes whose behaviour is served."""
    return routes.KUBERNETES_VERSION.rpartition(".")[0]
