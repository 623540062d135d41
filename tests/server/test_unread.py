"""Clients that read nothing of what they are sent: what waits for them, and that their end is noticed."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import weakref

import pytest

from aggserver.server.connection import UNSENT
from tests.server.clients import tls_context
from tests.server.running import CA, Running, eventually

PIECE = 32 * 1024


async def flood(app, scope, receive, send):
    """As a watch with more to tell than the client ever takes; ends when the client is gone."""

    async def pump():
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": bytes(PIECE), "more_body": True})
            app.sent += PIECE
            await asyncio.sleep(0)

    app.sent = 0
    pumping = asyncio.ensure_future(pump())
    await app.disconnected(receive)
    app.ended.append("client")
    pumping.cancel()
    await asyncio.gather(pumping, return_exceptions=True)


async def stalled(running):
    """Waits until the client has been sent all that it takes."""
    before = -1
    while before != running.app.sent or not before:
        before = running.app.sent
        for _ in range(200):
            await asyncio.sleep(0)


async def unread(running, protocol):
    """A connection with a request whose answer nobody reads."""
    running.app.flood = lambda *asgi: flood(running.app, *asgi)
    running.app.sent = 0
    if protocol == "h2":
        client = await running.http2()
        client.h2.update_settings({4: 2**31 - 1})  # INITIAL_WINDOW_SIZE
        client.h2.increment_flow_control_window(2**31 - 1 - 65535)
        client.request("/flood")
        writer = client.writer
    else:
        context = tls_context(CA.cert_pem, alpn=("http/1.1",))
        _, writer = await asyncio.open_connection("127.0.0.1", running.port, ssl=context, server_hostname="localhost")
        writer.write(b"GET /flood HTTP/1.1\r\nhost: localhost\r\n\r\n")
    writer.transport.pause_reading()
    await stalled(running)
    return writer


def reset(writer):
    """Ends the connection as a process does that is killed with bytes unread."""
    found = socket.socket(fileno=socket.dup(writer.get_extra_info("socket").fileno()))
    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    found.close()
    writer.transport.abort()


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
async def test_little_waits_for_them(protocol):
    async with Running() as running:
        writer = await unread(running, protocol)
        (connection,) = running.server._connections.values()
        waiting = connection._transport.get_write_buffer_size
        await eventually(waiting)
        assert waiting() < UNSENT + 2 * PIECE
        reset(writer)
        await eventually(lambda: running.app.ended)


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
async def test_their_reset_is_noticed_and_nothing_of_them_is_kept(protocol):
    async with Running() as running:
        writer = await unread(running, protocol)
        (connection,) = running.server._connections.values()
        kept = weakref.ref(connection)
        del connection
        gc.collect()
        gc.disable()  # what is free only when the collector comes by is not free
        try:
            reset(writer)
            await eventually(lambda: running.app.ended == ["client"])
            await eventually(lambda: kept() is None)
        finally:
            gc.enable()
