"""The way the server stops."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from aggserver.server import serving
from tests.server.clients import close, http1, tls_context
from tests.server.running import CA, GET, LOOPS, Running, eventually
from tests.waiting import HANG_SECONDS


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_a_stop_does_not_wait_for_idle_clients(factory, monkeypatch):
    """One that never looks at its connection does not say the end of TLS; all that it was sent arrives nevertheless."""
    monkeypatch.setattr(serving, "TLS_CLOSE_SECONDS", HANG_SECONDS * 100)

    async def main():
        async with Running() as running:
            context = tls_context(CA.cert_pem, alpn=["http/1.1"])

            def ask():
                plain = socket.create_connection(("127.0.0.1", running.port), HANG_SECONDS)
                client = context.wrap_socket(plain, server_hostname="localhost")
                client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                return client

            # Not by asyncio, which would look.
            client = await asyncio.to_thread(ask)
            await eventually(lambda: running.app.asked)
            (connection,) = running.server._connections.values()
            await eventually(lambda: connection._idle_since is not None)
            running.server.request_stop()
            await running.stopped()
            with client:
                assert (await asyncio.to_thread(client.recv, 65536)).endswith(b"\r\n\r\n1.1")
                assert await asyncio.to_thread(client.recv, 65536) == b"", "TLS ended in order"

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_a_stop_loses_nothing(factory, caplog):
    """Watches end properly, requests in flight finish, idle connections close, new ones are refused."""

    async def main():
        async with Running(grace=HANG_SECONDS) as running:
            client, idle = await running.http2(), await running.http2()
            assert (await idle.get())["status"] == 200
            watch, slow = client.request("/watch"), client.request("/slow")
            await client.until(lambda: client.received[watch]["body"])
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", running.port, ssl=tls_context(CA.cert_pem, alpn=["http/1.1"]), server_hostname="localhost"
            )
            writer.write(b"GET /watch HTTP/1.1\r\nhost: a\r\n\r\n")
            await reader.readuntil(b"event\n")
            running.server.request_stop()
            got = await client.response(watch)
            assert (got["body"], got["ended"]) == (b"event\n", "end")
            assert (await asyncio.wait_for(reader.read(), HANG_SECONDS)).endswith(b"0\r\n\r\n"), "the chunked body ends properly"
            await client.until(lambda: client.goaway is not None)
            assert client.goaway == (0, slow)
            await idle.until(lambda: idle.closed)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", running.port)
            running.app.release.set()
            got = await client.response(slow)
            assert (got["body"], got["ended"]) == (b"slow", "end")
            await close(writer)
            await running.stopped()
            assert running.order == ["stopping", "shutdown"]

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_readiness_fails_before_anything_is_refused():
    async with Running(shutdown_delay=HANG_SECONDS) as running:
        client = await running.http2()
        running.server.request_stop()
        await eventually(lambda: running.order)
        assert running.order == ["stopping"]
        assert (await client.get())["status"] == 200
        assert b"200" in await http1(running.port, GET % b"/", tls_context(CA.cert_pem, alpn=["http/1.1"]))
        running.server.request_stop()  # the second time: don't wait
        await running.stopped()
        assert running.order == ["stopping", "shutdown"]


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_what_does_not_finish_is_dropped(factory, caplog):
    async def main():
        async with Running(grace=0.01) as running:
            client = await running.http2()
            client.request("/slow")
            await eventually(running.app.started.is_set)
            running.server.request_stop()
            await running.stopped()
        assert "dropping 1 connections that did not finish" in caplog.text

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


async def test_a_second_stop_gives_up_waiting():
    async with Running(grace=HANG_SECONDS * 100) as running:
        client = await running.http2()
        client.request("/slow")
        await eventually(running.app.started.is_set)
        running.server.request_stop()
        running.server.request_stop()
        await running.stopped()
