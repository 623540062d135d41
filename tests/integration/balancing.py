"""Addresses in front of servers, on loopback: `Balancer` is one for several of them, `Behind` one by which changes are told late.

The balancer leads whole connections, each to the next server that takes it. Unlike a Service of a cluster it does not know who is
ready, so that clients meet servers that have just begun.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Self

__all__ = ["Balancer", "Behind"]


class Balancer:
    """port: on loopback, where clients come. ports: of the servers, of which any may be gone at any time."""

    def __init__(self, port: int, ports: Sequence[int]) -> None:
        self._port = port
        self._ports = list(ports)
        self._turn = 0
        # What leads a connection, and to which port.
        self._leading: dict[asyncio.Task[None], int] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._lead, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for port in list(self._ports):
            await self.leave(port)

    async def leave(self, port: int) -> None:
        """Lead nobody to a server any more, and break off what is open."""
        self._ports.remove(port)
        ended = [task for task, to in self._leading.items() if to == port]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    def join(self, port: int) -> None:
        self._ports.append(port)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda ended: self._leading.pop(ended, None))
        self._turn += 1
        turn = self._turn % max(len(self._ports), 1)
        try:
            for port in [*self._ports[turn:], *self._ports[:turn]]:
                with contextlib.suppress(OSError):
                    self._leading[task] = port
                    there = await asyncio.open_connection("127.0.0.1", port)
                    break
            else:
                return
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(_pass_on(reader, there[1]))
                    tasks.create_task(_pass_on(there[0], writer))
            finally:
                there[1].close()
        except asyncio.CancelledError:
            pass  # which StreamReaderProtocol would take for a failure
        finally:
            writer.close()


class Behind:
    """An address before etcd, by which a kube-apiserver hears late of changes, and is answered at once otherwise.

    port: on loopback, where it comes. to: the port of etcd, without TLS. `seconds`: by which it is behind, from now on.
    Source: RFC 9113 section 4.1, and gRPC over HTTP/2: only a stream of requests, such as a watch, leaves the client's side open.
    """

    def __init__(self, port: int, to: int) -> None:
        self.seconds = 0.0
        self._port = port
        self._to = to

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._lead, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        watches: set[int] = set()
        await asyncio.gather(_pass_requests(reader, there[1], watches), self._pass_answers(there[0], writer, watches))

    async def _pass_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watches: set[int]) -> None:
        loop, late = asyncio.get_running_loop(), deque[tuple[float, bytes]]()

        def pass_due() -> None:
            """In their order, also where `seconds` has become less. Calls itself as long as there are some."""
            while late and late[0][0] <= loop.time():
                writer.write(late.popleft()[1])
            if late:
                loop.call_at(late[0][0], pass_due)

        async for frame in _frames(reader):
            if frame.kind == _DATA and frame.stream in watches:
                late.append((loop.time() + self.seconds, frame.content))
                if len(late) == 1:
                    pass_due()
            else:
                writer.write(frame.content)
        writer.close()


_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _END_STREAM = 0, 1


class _Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    content: bytes


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[_Frame]:
    """Until the connection ends."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readexactly(9)
            content = head + await reader.readexactly(int.from_bytes(head[:3], "big"))
            yield _Frame(head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF, content)


async def _pass_requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watches: set[int]) -> None:
    """watches: gets the number of each stream that the client leaves open."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        writer.write(await reader.readexactly(len(_PREFACE)))
        async for frame in _frames(reader):
            if frame.kind == _DATA and not frame.flags & _END_STREAM:
                watches.add(frame.stream)
            writer.write(frame.content)
    writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
