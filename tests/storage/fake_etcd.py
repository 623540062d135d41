"""A member of etcd in this process, which answers as a test says, and the bytes of its messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio

__all__ = ["CREATED", "FRAGMENT", "FakeEtcd", "content", "header", "number", "progress", "put"]


def number(field: int, value: int) -> bytes:
    return bytes((field << 3, value))


def content(field: int, data: bytes) -> bytes:
    return bytes((field << 3 | 2, len(data))) + data


def header(revision: int) -> bytes:
    return content(1, number(3, revision))


def put(key: str, revision: int) -> bytes:
    item = content(1, f"/registry{key}".encode()) + number(2, revision) + number(3, revision) + content(5, b"v")
    return content(11, content(2, item))


def progress(revision: int) -> bytes:
    return header(revision)


CREATED = header(9) + number(3, 1)
FRAGMENT = number(7, 1)

Calls = Callable[[bytes, Any], Awaitable[bytes]]
Script = Sequence[bytes | asyncio.Event | grpc.StatusCode]


class FakeEtcd:
    """A member: `range` and `txn` answer calls; `script` is what a watch gets after its creation, then it stays silent.

    An entry of the script may be an event to wait for, or a status of gRPC with which the stream ends. scripts: those of the
    first watches, if they have others. `requests` are all received requests, by method.
    """

    def __init__(self) -> None:
        self.revision = 9
        self.script: Script = ()
        self.scripts: list[Script] = []
        self.requests: list[tuple[str, bytes]] = []
        self.range: Calls = self._range
        self.txn: Calls = self._txn
        self.ended = False  # the watch ends after its script, instead of staying silent
        self._server = grpc.aio.server()
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.add_generic_rpc_handlers((self,))

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    def asked(self, method: str) -> int:
        return sum(name.endswith(method) for name, _ in self.requests)

    def service(self, details: Any) -> Any:
        handlers = {"Range": self.range, "Txn": self.txn, "Status": self._status, "Compact": self._range}
        name = details.method.rpartition("/")[2]
        if name == "Watch":
            return grpc.stream_stream_rpc_method_handler(self._watch)

        async def handle(request: bytes, context: Any) -> bytes:
            self.requests.append((details.method, request))
            return await handlers[name](request, context)

        return grpc.unary_unary_rpc_method_handler(handle)

    async def _status(self, request: bytes, context: Any) -> bytes:
        return content(1, number(2, 1)) + content(2, b"3.6.8")

    async def _range(self, request: bytes, context: Any) -> bytes:
        return header(self.revision)

    async def _txn(self, request: bytes, context: Any) -> bytes:
        self.revision += 1
        return header(self.revision) + number(2, 1)

    async def _watch(self, requests: AsyncIterator[bytes], context: Any) -> None:
        self.requests.append(("Watch", await anext(requests)))
        await context.write(CREATED)
        for step in self.scripts.pop(0) if self.scripts else self.script:
            if isinstance(step, asyncio.Event):
                await step.wait()
            elif isinstance(step, grpc.StatusCode):
                await context.abort(step, "told by the test")
            else:
                await context.write(step)
        if not self.ended:
            async for request in requests:
                self.requests.append(("Progress", request))
