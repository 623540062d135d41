"""A RoleController over a storage in memory, for tests."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import Any

from aggserver.admission.chain import Chain
from aggserver.controllers.roles import GROUP, RoleController
from aggserver.informers.informer import CONTROLLER
from aggserver.kinds.served import Kinds
from aggserver.meta.errors import StatusError
from aggserver.registry.environment import Environment
from aggserver.registry.rest import Context, DeleteOptions, WriteOptions
from aggserver.registry.store import Store
from aggserver.storage.memory import MemoryStorage
from tests.fakes.clock import FakeClock
from tests.fakes.server import Timers

__all__ = ["World", "binding", "role"]

_RESOURCES = {kind: f"{kind.lower()}s" for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")}


class World:
    """A server's stores, with a controller of its own for each `start`."""

    def __init__(self) -> None:
        uids = itertools.count(1)
        self.storage = MemoryStorage()
        clock = FakeClock()
        self.environment = Environment(
            storage=self.storage, clock=clock, monotonic=clock, new_uid=lambda: f"uid-{next(uids)}", random=lambda below: 0
        )
        self.kinds = Kinds(self.environment, Chain())
        self.timers = Timers()
        self.controller = RoleController(self.kinds.store, self.timers.call_later)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.storage.start()
        self.run()

    def run(self, *, aggregates: bool = True) -> None:
        self.controller = RoleController(self.kinds.store, self.timers.call_later, aggregates=aggregates)
        self._task = asyncio.create_task(self.controller.run())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def close(self) -> None:
        await self.stop()
        self.kinds.end_watches()
        await self.storage.close()

    def store(self, kind: str) -> Store:
        return self.kinds.store(GROUP, _RESOURCES[kind])

    async def get(self, kind: str, name: str, namespace: str = "") -> Any:
        """None if there is no such object."""
        try:
            return (await self.store(kind).get(Context(CONTROLLER, namespace), name)).decoded()
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def create(self, obj: dict[str, Any]) -> None:
        made = {"apiVersion": f"{GROUP}/v1", **obj}
        await self.store(obj["kind"]).create(Context(CONTROLLER, obj["metadata"].get("namespace", "")), made, WriteOptions())

    async def change(self, kind: str, name: str, namespace: str = "", **members: Any) -> None:
        async def changed(obj: dict[str, Any]) -> dict[str, Any]:
            metadata = {**obj["metadata"], **members.get("metadata", {})}
            return {**obj, **members, "metadata": metadata}

        await self.store(kind).update(Context(CONTROLLER, namespace), name, changed, WriteOptions())

    async def delete(self, kind: str, name: str, namespace: str = "") -> None:
        await self.store(kind).delete(Context(CONTROLLER, namespace), name, DeleteOptions())


def role(name: str, *rules: dict[str, Any], namespace: str = "", **metadata: Any) -> dict[str, Any]:
    kind = "Role" if namespace else "ClusterRole"
    where = {"namespace": namespace} if namespace else {}
    return {"kind": kind, "metadata": {"name": name, **where, **metadata}, "rules": list(rules)}


def binding(name: str, kind: str, of: str, user: str, namespace: str = "") -> dict[str, Any]:
    return {
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": of},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }
