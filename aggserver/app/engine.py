"""Engine: the part of a server that is the same in every mode.

Resources over one storage on the one side, the chain of filters in front of them on the other. Who is trusted, where definitions
come from and which namespaces there are is the modes' affair.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import secrets
import shlex
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aggserver
from aggserver.admission.chain import Chain
from aggserver.admission.namespace_lifecycle import NamespaceLifecycle, Namespaces
from aggserver.apiextensions.definitions import Definitions
from aggserver.authentication.delegating import Authenticator
from aggserver.authorization.delegating import Authorizer
from aggserver.endpoints import filters
from aggserver.endpoints.discovery import Discovery
from aggserver.endpoints.dispatch import Dispatcher
from aggserver.endpoints.handlers.watch import Watching
from aggserver.endpoints.installer import Installer, ResourceScope
from aggserver.endpoints.openapi import OpenAPI
from aggserver.endpoints.request import ASGIApp, Filter
from aggserver.meta.backoff import Backoff
from aggserver.options import Options
from aggserver.registry.environment import Environment
from aggserver.schema.rules import UPSTREAM, RuleOptions
from aggserver.server.health import HealthChecks, edges
from aggserver.server.memory import give_back_regularly, glibc
from aggserver.server.metrics import Metrics, RequestObserver
from aggserver.server.serving import bind
from aggserver.storage.compactor import compact_regularly
from aggserver.storage.interface import Storage, Unavailable
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_file import FILE_NAME

__all__ = [
    "IN_MEMORY",
    "Engine",
    "StartError",
    "Task",
    "compaction",
    "data_folder",
    "give_back_memory",
    "listen",
    "new_environment",
    "open_storage",
    "supervise",
]

log = logging.getLogger("aggserver")

# A name for the log, and a function that makes the coroutine anew.
Task = tuple[str, Callable[[], Coroutine[Any, Any, None]]]

IN_MEMORY = ":memory:"


class StartError(Exception):
    """The server can't be had as the options want it. The text says why, and which option helps."""


def data_folder(data: str) -> Path:
    """The folder of --data, made for its owner alone if it isn't there. Raises StartError."""
    folder = Path(data)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            # Most often it is made in a project's folder, and has keys in it.
            (folder / ".gitignore").write_text("*\n")
    except OSError as error:
        why = "it is no folder" if isinstance(error, FileExistsError) else error.strerror
        at = "" if str(error.filename) in (data, "None") else f" ({error.filename})"
        raise StartError(f"--data {shlex.quote(data)}: the folder can't be made or used: {why}{at}") from None
    return folder


def listen(options: Options) -> socket.socket:
    """The socket of --bind-address and --secure-port. Raises StartError."""
    host, port = options.bind_address, options.secure_port
    try:
        return bind(host, port)
    except OSError as error:
        hint = {
            errno.EADDRINUSE: f"port {port} is in use: --secure-port 0 takes a free port, --secure-port PORT another",
            errno.EACCES: f"port {port} may not be used: --secure-port PORT takes one above 1023, --secure-port 0 a free one",
            errno.EADDRNOTAVAIL: f"{host} is no address of this machine: --bind-address IP takes another",
        }.get(error.errno or 0)
        raise StartError(f"can't listen on {host}: {hint or error.strerror}") from None


async def open_storage(options: Options) -> Storage:
    """etcd, or the storage of the data folder, made if it isn't there, or one that forgets. Raises Unavailable."""
    storage: Storage
    if options.storage == "etcd":
        storage = _etcd(options)
    elif options.data == IN_MEMORY:
        storage = MemoryStorage()
    else:
        storage = SQLiteStorage(data_folder(options.data) / FILE_NAME, options.sqlite_synchronous)
    await storage.start()
    return storage


def _etcd(options: Options) -> Storage:
    try:
        # Only who asks for it has its library, and waits for it.
        from aggserver.storage.etcd import EtcdStorage
    except ModuleNotFoundError as error:
        raise Unavailable(f"--storage etcd needs {error.name}: pip install 'aggserver[etcd]'") from error
    return EtcdStorage(
        options.etcd_servers,
        options.etcd_prefix,
        ca_file=options.etcd_cafile,
        cert_file=options.etcd_certfile,
        key_file=options.etcd_keyfile,
    )


def compaction(storage: Storage, options: Options) -> list[Task]:
    """The task that keeps the storage from growing by every write, unless that is left to others."""
    if options.storage != "etcd":
        return [("compaction", lambda: compact_regularly(storage, options.sqlite_compaction_interval_seconds))]
    interval = options.etcd_compaction_interval_seconds
    # How much history others need in an etcd that they share is nothing that the number of writes can say.
    return [("compaction", lambda: compact_regularly(storage, interval, bounded=False))] if interval else []


def give_back_memory() -> Task:
    """The task that gives freed memory back to the system."""
    return ("giving memory back", lambda: give_back_regularly(glibc()))


def new_environment(storage: Storage, options: Options) -> Environment:
    """With the real clocks and the system's randomness."""
    return Environment(
        storage=storage,
        clock=time.time,
        monotonic=time.monotonic,
        new_uid=_random_uuids(),
        random=secrets.randbelow,
        max_object_bytes=options.max_object_bytes,
    )


def _random_uuids() -> Callable[[], str]:
    """A source of UUIDs that asks the system for randomness once for many.

    A system call gives up the interpreter's lock, and the storage's writer, once it has it, keeps it for a while.
    """

    def make() -> Iterator[str]:
        while True:
            block = os.urandom(16 * 256)
            for start in range(0, len(block), 16):
                yield str(uuid.UUID(bytes=block[start : start + 16], version=4))

    return make().__next__


class Engine:
    """namespaces: who knows which namespaces there are, for admission. rule_options: of definitions."""

    def __init__(self, environment: Environment, namespaces: Namespaces, rule_options: RuleOptions = UPSTREAM) -> None:
        self.installer = Installer()
        self.checks = HealthChecks()
        # A restart would mend nothing: liveness is no matter of it.
        self.checks.add("storage", environment.storage.trouble, livez=False)
        self.checks.add("stored-objects", environment.unreadable, livez=False)
        self.metrics = Metrics()
        self.admission = Chain([NamespaceLifecycle(namespaces)])
        self.definitions = Definitions(environment, self.admission, self.installer, rule_options)
        # What is random here spreads load, and is no secret.
        self._watching = Watching(random.random, self._observe_watch)

    def asgi(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        options: Options,
        before_authorization: Mapping[str, Filter] = MappingProxyType({}),
    ) -> ASGIApp:
        """The whole server as one ASGI application. before_authorization: filters that this mode alone has, by name."""
        observer = RequestObserver(self.metrics, self._served)
        chain = filters.chain(
            authenticator,
            authorizer,
            time.time,
            observer,
            timeout_seconds=options.request_timeout_seconds,
            max_reading=options.max_requests_inflight,
            max_mutating=options.max_mutating_requests_inflight,
            before_authorization=before_authorization,
        )
        return filters.application(self._dispatcher(), chain, observer, _random_uuids())

    def _dispatcher(self) -> Dispatcher:
        version = aggserver.__version__
        return Dispatcher(
            self.installer,
            Discovery(self.installer),
            OpenAPI(self.installer, version, time.time),
            edges(self.checks, self.metrics, self._paths, version),
            self._watching,
        )

    def end_watches(self) -> None:
        """At the stop: every watch of a client ends, and no other begins. Requests under way are served to their end."""
        self._watching.stop()
        self.definitions.end_watches()

    def _served(self, group: str, version: str, resource: str) -> bool:
        return self.installer.find(group, version, resource) is not None

    def _observe_watch(self, scope: ResourceScope, count: int, size: int) -> None:
        self.metrics.watch(scope.group, scope.version, scope.resource).sent(count, size)

    def _paths(self) -> list[str]:
        paths = ["/apis", "/openapi/v2", "/openapi/v3"]
        for group in self.installer.groups():
            if group.name:
                paths += [f"/apis/{group.name}", *(f"/apis/{version.group_version}" for version in group.versions)]
            else:
                paths += ["/api", *(f"/api/{version.version}" for version in group.versions)]
        return paths


class supervise:  # noqa: N801 - reads as a statement: `async with supervise(...)`
    """Background tasks for as long as the block runs.

    One that fails is logged and started again after a pause; none stops another.
    """

    def __init__(self, *tasks: Task) -> None:
        self._tasks = tasks
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        for name, make in self._tasks:
            self._running.append(asyncio.create_task(_kept_up(name, make)))

    def cancel(self) -> None:
        """Stops them all; the end of the block waits for it."""
        for task in self._running:
            task.cancel()

    async def __aexit__(self, *_: object) -> None:
        self.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


# Before a failed background task starts again.
_RESTART = Backoff(initial=1.0, longest=60.0)


async def _kept_up(name: str, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
    for pause in _RESTART.pauses():
        try:
            await make()
        except Exception:
            log.exception("%s failed; starting it again in %g s", name, pause)
            await asyncio.sleep(pause)
        else:
            return
