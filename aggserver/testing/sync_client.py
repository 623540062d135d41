"""SyncClient: `AppClient` for tests that are plain functions. The server runs on an event loop in a thread of its own meanwhile.

The methods are those of `client.py`, which has their documentation.
"""

from __future__ import annotations

import asyncio
import builtins  # inside of a client, `list` is its method
import contextlib
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from aggserver.meta.json_types import JSONObject
from aggserver.testing.client import AppClient, AppEvent, Of, PatchKind, RawAnswer

if TYPE_CHECKING:
    from aggserver.resources.app import App
    from aggserver.resources.handle import Handle

__all__ = ["AppClients", "SyncClient"]

T = TypeVar("T")
S = TypeVar("S")

_GIVEN: Any = object()


class AppClients:
    """Serves Apps until the end of the block, and makes clients of them: the value of the fixture `aggserver_app`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aggserver of a test", daemon=True)
        self._stack = contextlib.ExitStack()

    def __call__(
        self,
        app: App[S],
        *,
        user: str = "admin",
        groups: Sequence[str] = (),
        state: S = _GIVEN,
        rules: Sequence[Mapping[str, Any]] | None = None,
    ) -> SyncClient:
        """A client of a new server of this App. Parameters: as of `App.client`."""
        if state is _GIVEN:
            made = app.client(user=user, groups=groups, rules=rules)
        else:
            made = app.client(user=user, groups=groups, rules=rules, state=state)
        return SyncClient(self._stack.enter_context(self.entered(made)), self)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    @contextlib.contextmanager
    def entered(self, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
        value = self.run(_enter(manager))
        try:
            yield value
        finally:
            self.run(_exit(manager))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._stack.close()
        finally:
            self.run(self._loop.shutdown_asyncgens())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _enter(manager: AbstractAsyncContextManager[T]) -> T:
    return await manager.__aenter__()


async def _exit(manager: AbstractAsyncContextManager[Any]) -> None:
    await manager.__aexit__(None, None, None)


class SyncClient:
    """One user of a server, as `AppClient`, whose methods wait for their results."""

    def __init__(self, client: AppClient, server: AppClients) -> None:
        self._client = client
        self._server = server

    @property
    def warnings(self) -> builtins.list[str]:
        return self._client.warnings

    def as_user(self, name: str, groups: Sequence[str] = (), *, rules: Sequence[Mapping[str, Any]] | None = None) -> SyncClient:
        return SyncClient(self._client.as_user(name, groups, rules=rules), self._server)

    def create(self, obj: T, resource: Handle[Any, T] | None = None, *, dry_run: bool = False) -> T:
        return self._server.run(self._client.create(obj, resource, dry_run=dry_run))

    def get(self, resource: Of[T], name: str, namespace: str = "default") -> T:
        return self._server.run(self._client.get(resource, name, namespace))

    def list(
        self, resource: Of[T], namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> builtins.list[T]:
        return self._server.run(self._client.list(resource, namespace, labels=labels, fields=fields, limit=limit))

    def update(self, obj: T, resource: Handle[Any, T] | None = None, *, subresource: str = "", dry_run: bool = False) -> T:
        return self._server.run(self._client.update(obj, resource, subresource=subresource, dry_run=dry_run))

    def patch(
        self,
        resource: Of[T],
        name: str,
        changes: Any,
        namespace: str = "default",
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> T:
        done = self._client.patch(
            resource,
            name,
            changes,
            namespace,
            kind=kind,
            subresource=subresource,
            manager=manager,
            force=force,
            dry_run=dry_run,
        )
        return self._server.run(done)

    def delete(self, resource: Of[Any], name: str, namespace: str = "default", *, dry_run: bool = False) -> None:
        self._server.run(self._client.delete(resource, name, namespace, dry_run=dry_run))

    @contextlib.contextmanager
    def watch(
        self, resource: Of[T], namespace: str = "", *, labels: str = "", fields: str = "", seconds: float = 30.0
    ) -> Iterator[Iterator[AppEvent[T]]]:
        watching = self._client.watch(resource, namespace, labels=labels, fields=fields, seconds=seconds)
        with self._server.entered(watching) as events:
            yield self._each(events)

    def get_raw(self, path: str) -> JSONObject:
        return self._server.run(self._client.get_raw(path))

    def post(self, path: str, body: Any) -> JSONObject:
        return self._server.run(self._client.post(path, body))

    def put(self, path: str, body: Any) -> JSONObject:
        return self._server.run(self._client.put(path, body))

    def patch_raw(self, path: str, body: Any, *, kind: PatchKind = "merge") -> JSONObject:
        return self._server.run(self._client.patch_raw(path, body, kind=kind))

    def delete_raw(self, path: str, body: Any = None) -> JSONObject:
        return self._server.run(self._client.delete_raw(path, body))

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> RawAnswer:
        return self._server.run(self._client.request(method, path, body, headers))

    @contextlib.contextmanager
    def stream(self, path: str, headers: Mapping[str, str] | None = None, *, seconds: float = 30.0) -> Iterator[Iterator[bytes]]:
        with self._server.entered(self._client.stream(path, headers, seconds=seconds)) as pieces:
            yield self._each(pieces)

    def _each(self, items: AsyncIterator[T]) -> Iterator[T]:
        while True:
            try:
                yield self._server.run(_next(items))
            except StopAsyncIteration:
                return


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
