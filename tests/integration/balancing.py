"""Addresses in front of servers, on loopback: `Balancer` is one for several of them, and `Lagging` one whose answers come late.

The balancer leads whole connections, each to the next server that takes it. Unlike a Service of a cluster it does not know who is
ready, so that clients meet servers that have just begun.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Self

__all__ = ["Balancer", "Lagging"]


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


class Lagging:
    """port: on loopback, where clients come. to: the port of the server. `seconds`: by which its answers come late, from now on.

    What was sent comes in its order, also where `seconds` became less.
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
        await asyncio.gather(_pass_on(reader, there[1]), self._pass_on_late(there[0], writer))

    async def _pass_on_late(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop, due = asyncio.get_running_loop(), 0.0
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                due = max(due, loop.time() + self.seconds)
                loop.call_at(due, writer.write, data)
        loop.call_at(max(due, loop.time()), writer.close)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
