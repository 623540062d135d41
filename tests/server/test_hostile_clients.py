"""Clients that flood the server, take nothing, or have no business there, over real sockets; others must notice nothing of it."""

from __future__ import annotations

import asyncio
import socket

import pytest
from hpack import Encoder
from hyperframe.frame import HeadersFrame, PingFrame, SettingsFrame, WindowUpdateFrame

from tests.server.clients import tls_context
from tests.server.frames import HEAD, PREFACE
from tests.server.running import CA, LOOPS, Running, eventually

ASK_FOR_LARGE = {
    "http/1.1": b"GET /endless HTTP/1.1\r\nhost: a\r\n\r\n",
    "h2": PREFACE
    + SettingsFrame(0, settings={4: 2**31 - 1}).serialize()
    + WindowUpdateFrame(0, 2**30).serialize()
    + HeadersFrame(1, Encoder().encode([*HEAD[:-1], (b":path", b"/endless")]), flags=["END_HEADERS", "END_STREAM"]).serialize(),
}

FLOODS = {"SETTINGS": SettingsFrame(0).serialize(), "PING": PingFrame(0, b"12345678").serialize()}


@pytest.mark.parametrize("frame", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_a_flood_is_told_to_calm_down(factory, frame):
    """Floods without end end; the requests of others go on meanwhile."""

    async def main():
        async with Running() as running:
            other = await running.http2()
            floods = [await running.http2() for _ in range(4)]
            for client in floods:
                client.writer.write(frame * 100_000)
            assert (await other.get())["status"] == 200
            for client in floods:
                await client.until(lambda client=client: client.goaway)
                assert client.goaway == (11, 0)  # ENHANCE_YOUR_CALM
            assert (await other.get())["status"] == 200

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


async def test_goodbye_with_an_answer(monkeypatch):
    """`connection: close` is a GOAWAY behind the answer; what is under way is finished, and then the connection ends."""
    monkeypatch.setattr("aggserver.server.connection.LINGER_SECONDS", 0.0)
    async with Running() as running:
        client = await running.http2()
        slow = client.request("/slow")
        await eventually(running.app.started.is_set)
        last = client.request("/last")
        got = await client.response(last)
        assert (got["status"], got["body"], got["headers"].get("connection")) == (200, b"last", None)
        await client.until(lambda: client.goaway)
        assert client.goaway == (0, last)
        late = client.request("/ok")
        await client.until(lambda: client.received[late]["ended"])
        assert client.received[late]["ended"] == "reset 7", "REFUSED_STREAM: it may be retried elsewhere"
        running.app.release.set()
        assert (await client.response(slow))["body"] == b"slow"
        await client.until(lambda: client.closed)


async def test_goodbye_to_a_client_that_did_not_wait(monkeypatch):
    """A reset before the answer does not keep the connection."""
    monkeypatch.setattr("aggserver.server.connection.LINGER_SECONDS", 0.0)
    async with Running() as running:
        client = await running.http2()
        client.h2.reset_stream(client.request("/last"))
        client.flush()
        await client.until(lambda: client.goaway)
        await client.until(lambda: client.closed)


async def test_a_stream_that_nobody_reads_is_reset(monkeypatch):
    """Its window stays closed for STALL_SECONDS. Others of the connection, and watches with nothing to send, stay."""
    monkeypatch.setattr("aggserver.server.http2.connection.STALL_SECONDS", 0.0)
    async with Running() as running:
        client = await running.http2()
        watch = client.request("/watch")
        await client.until(lambda: client.received[watch]["body"])
        client.acknowledge = False
        client.h2.increment_flow_control_window(10_000_000)
        unread = client.request("/large")
        await client.until(lambda: client.received[unread]["ended"])
        assert client.received[unread]["ended"] == "reset 8"  # CANCEL
        assert len(client.received[unread]["body"]) == 65_535
        assert client.received[watch]["ended"] is None
        assert (await client.get())["status"] == 200


@pytest.mark.parametrize("alpn", ["h2", "http/1.1"])
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_a_connection_that_nobody_reads_is_ended(factory, alpn, monkeypatch):
    """By the kernel, which alone knows what its buffer has room for; the application hears of it as of any lost client."""
    monkeypatch.setattr("aggserver.server.serving.TCP_STALL_MILLISECONDS", 1)

    async def main():
        async with Running() as running:
            client = socket.create_connection(("127.0.0.1", running.port))
            context = tls_context(CA.cert_pem, alpn=[alpn])
            with await asyncio.to_thread(context.wrap_socket, client, server_hostname="localhost") as stuck:
                stuck.sendall(ASK_FOR_LARGE[alpn])
                await eventually(lambda: running.app.asked == 1)
                await eventually(lambda: not running.server._connections)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
