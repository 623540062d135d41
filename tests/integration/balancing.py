"""What a Service is to its clients: one address in front of several servers.

It leads whole connections, each to the next server that takes it. Unlike that of a cluster it does not know who is ready, so that
clients meet servers that have just begun.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

__all__ = ["balancing"]


@contextlib.asynccontextmanager
async def balancing(port: int, ports: Sequence[int]) -> AsyncIterator[None]:
    """port: on loopback, where clients come. ports: of the servers, of which any may be gone at any time."""
    turn = 0
    leading: set[asyncio.Task[None]] = set()

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal turn
        task = asyncio.current_task()
        assert task is not None
        leading.add(task)
        task.add_done_callback(leading.discard)
        turn += 1
        try:
            for number in range(len(ports)):
                with contextlib.suppress(OSError):
                    there = await asyncio.open_connection("127.0.0.1", ports[(turn + number) % len(ports)])
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
            pass  # at the end, which StreamReaderProtocol would take for a failure
        finally:
            writer.close()

    server = await asyncio.start_server(lead, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()
        for task in list(leading):
            task.cancel()
        await asyncio.gather(*leading, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
