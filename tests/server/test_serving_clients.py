"""The server over real sockets: clients that misbehave, go away, or do not read."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hyperframe.frame import DataFrame, PingFrame

from aggserver.server.connection import EngineConfig
from tests.server.clients import close, tls_context
from tests.server.running import CA, Running, eventually
from tests.waiting import HANG_SECONDS

PLAIN = {":method": "GET", ":authority": "a", ":scheme": "https", ":path": "/"}


STRANGE_HEADS = {
    "no path": list((PLAIN | {":path": ""}).items()),
    "a space in the method": list((PLAIN | {":method": "GE T"}).items()),
    "upper case in a name": [*PLAIN.items(), ("Accept", "a")],
    "a line break in a value": [*PLAIN.items(), ("accept", "a\r\nx-remote-user: root")],
    "te that asks for more than trailers": [*PLAIN.items(), ("te", "trailers, deflate;q=0.5")],
    "a header of the connection": [*PLAIN.items(), ("transfer-encoding", "chunked")],
    "an unknown pseudo header": [*PLAIN.items(), (":user", "root")],
    "a pseudo header twice": [*PLAIN.items(), (":path", "/other")],
    "a pseudo header behind others": [("accept", "a"), *PLAIN.items()],
    "path that is not ASCII": [(":method", "GET"), (":authority", "a"), (":scheme", "https"), (":path", "/\u00e4")],
    "plain CONNECT": [(":method", "CONNECT"), (":authority", "a:1")],
    "websocket": [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":authority", "a"),
        (":scheme", "https"),
        (":path", "/watch"),
        ("sec-websocket-version", "13"),
    ],
}


@pytest.mark.parametrize("head", STRANGE_HEADS.values(), ids=STRANGE_HEADS)
async def test_a_strange_request_ends_alone(head, caplog):
    async with Running() as running:
        client = await running.http2()
        watch = client.request("/watch")
        stream = client.h2.get_next_available_stream_id()
        client.received[stream] = {"ended": None}
        client.h2.send_headers(stream, head)
        client.flush()
        await client.response(stream)
        assert client.received[stream]["ended"] == "reset 1"
        assert (await client.get())["status"] == 200
        assert client.received[watch]["ended"] is None
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


BROKEN_AFTER_HANDSHAKE = {
    "not HTTP/2": (["h2"], b"\x00" * 100),
    "not HTTP/1.1": (["http/1.1"], b"\x01\x02\x03\r\n\r\n"),
    "half a head": (["http/1.1"], b"GET / HT"),
    "endless head": (["http/1.1"], b"GET / HTTP/1.1\r\na: " + b"x" * 200_000),
}


@pytest.mark.parametrize(("alpn", "sent"), BROKEN_AFTER_HANDSHAKE.values(), ids=BROKEN_AFTER_HANDSHAKE)
async def test_broken_clients_are_silent(alpn, sent, caplog):
    async with Running() as running:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", running.port, ssl=tls_context(CA.cert_pem, alpn=alpn), server_hostname="localhost"
        )
        writer.write(sent)
        await writer.drain()
        writer.transport.abort()
        client = await running.http2()
        assert (await client.get())["status"] == 200
        await close(writer)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_the_application_learns_of_a_reset():
    async with Running() as running:
        client = await running.http2()
        watch = client.request("/watch")
        await client.until(lambda: client.received[watch]["body"])
        client.h2.reset_stream(watch)
        client.flush()
        assert (await client.get())["status"] == 200
        await eventually(lambda: running.app.ended)
        assert running.app.ended == ["client"]


async def test_the_application_learns_of_a_lost_connection():
    async with Running() as running:
        client = await running.http2()
        watch = client.request("/watch")
        await client.until(lambda: client.received[watch]["body"])
        client.writer.transport.abort()
        await eventually(lambda: running.app.ended)
        assert running.app.ended == ["client"]


@pytest.mark.parametrize("upgrade", [None, "h2c", "TLS/1.3", "websocket"])
async def test_a_lost_connection_of_http1(upgrade):
    """An upgrade that is ignored is no reason to stop listening. Without `connection: upgrade` that of a websocket is none."""
    wish = f"connection: {'x' if upgrade == 'websocket' else 'upgrade'}\r\nupgrade: {upgrade}\r\n" if upgrade else ""
    async with Running(tls=False) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(f"GET /watch HTTP/1.1\r\nhost: a\r\n{wish}\r\n".encode())
        await asyncio.wait_for(reader.readuntil(b"event\n"), HANG_SECONDS)
        writer.transport.abort()
        await eventually(lambda: running.app.ended)
        assert running.app.ended == ["client"]


async def test_what_follows_the_last_request_holds_nothing():
    """A client that is answered with `connection: close` has sent another request already: nobody waits for that one's turn."""
    async with Running(tls=False) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        last = b"GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        writer.write(last + b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await running.app.started.wait()
        running.app.release.set()
        answer = await asyncio.wait_for(reader.read(), HANG_SECONDS)
        assert answer.count(b"HTTP/1.1 200 OK") == 1
        await eventually(lambda: not running.server._connections)
        assert running.app.asked == 1
        await close(writer)


async def test_idle_connections_are_closed():
    config = EngineConfig()
    config.keep_alive_timeout = 0  # type: ignore[assignment]
    async with Running(config=config) as running:
        client = await running.http2()
        with pytest.raises(AssertionError, match="the server closed the connection"):
            await client.until(lambda: False)


async def test_flood_of_resets(monkeypatch):
    monkeypatch.setattr("aggserver.server.http2.connection.REQUESTS_PER_STREAM", 0.05)
    async with Running() as running:
        client = await running.http2()
        for _ in range(100):
            client.h2.reset_stream(client.request("/slow"))
        client.flush()
        await client.until(lambda: client.goaway)
        assert client.goaway[0] == 11  # ENHANCE_YOUR_CALM
        assert running.app.asked <= 60


async def test_a_client_that_asks_and_does_not_read(monkeypatch):
    """The server stops reading: what it can't send is bounded. The data pays for the PINGs, which are answered one by one."""
    monkeypatch.setattr("aggserver.server.connection.MAX_UNREAD", 256 * 1024)
    async with Running() as running:
        client = await running.http2(receive_buffer=16 * 1024)
        refused = client.request("/refuse", method="POST", end=False)
        assert (await client.response(refused))["status"] == 413
        late = (DataFrame(refused, b"x" * 128).serialize() + PingFrame(0, b"12345678").serialize()) * 1000
        (connection,) = running.server._connections.values()
        unsent = connection._transport.get_write_buffer_size
        for _ in range(2000):
            client.writer.write(late)
            await asyncio.sleep(0)
            if client.writer.transport.get_write_buffer_size() > 1_000_000:
                break
        assert client.writer.transport.get_write_buffer_size() > 1_000_000, "the server reads on"
        assert unsent() < 600_000
        client.writer.transport.abort()
