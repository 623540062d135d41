"""The server over real sockets, for the length of a test, with an application whose paths are behaviours."""

from __future__ import annotations

import asyncio
import time

import pytest

from aggserver.certificates.issuing import issue_serving, new_ca
from aggserver.server.serving import Server, bind, loop_factory
from aggserver.server.tls import TLSConfig
from tests.server.clients import HTTP2Client, tls_context
from tests.waiting import HANG_SECONDS

__all__ = ["CA", "CLIENT_CA", "GET", "LOOPS", "NOW", "PROXY_CA", "App", "Running", "eventually"]

NOW = time.time()
CA = new_ca("serving-ca", NOW)
CLIENT_CA = new_ca("client-ca", NOW)
PROXY_CA = new_ca("front-proxy-ca", NOW)
PAIR = issue_serving(CA, ["localhost"], ["127.0.0.1"], NOW)
GET = b"GET %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": loop_factory() or pytest.param(None, marks=pytest.mark.skip)}


class App:
    """An application whose paths are behaviours; `asked` counts requests, `ended` says how they ended."""

    def __init__(self):
        self.peers = []
        self.knew_all = []
        self.asked = 0
        self.ended = []
        self.stopping = asyncio.Event()
        self.release = asyncio.Event()
        self.started = asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.asked += 1
        behaviour = getattr(self, scope["path"].strip("/") or "ok")
        await behaviour(scope, receive, send)

    async def answer(self, send, body=b"ok", status=200):
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def ok(self, scope, receive, send):
        self.peers.append(scope["state"]["peer_certificate"])
        self.knew_all.append(scope["state"]["knew_all_cas"])
        await self.answer(send, scope["http_version"].encode())

    async def echo(self, scope, receive, send):
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        await self.answer(send, b"%d" % len(body))

    async def refuse(self, scope, receive, send):
        """Answers without a look at the body."""
        await self.answer(send, b"too large", 413)

    async def stall(self, scope, receive, send):
        """Leaves the body alone until released."""
        self.started.set()
        await self.release.wait()
        await self.echo(scope, receive, send)

    async def slow(self, scope, receive, send):
        self.started.set()
        await self.release.wait()
        await self.answer(send, b"slow")

    async def large(self, scope, receive, send):
        await self.answer(send, b"x" * 3_000_000)

    async def endless(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})

    async def last(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"last"})

    async def watch(self, scope, receive, send):
        """Streams one event, then ends at shutdown or when the client goes away."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"event\n", "more_body": True})
        self.started.set()
        gone, stop = asyncio.ensure_future(self.disconnected(receive)), asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait((gone, stop), return_when=asyncio.FIRST_COMPLETED)
        self.ended.append("client" if gone.done() else "shutdown")
        for task in (gone, stop):
            task.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def disconnected(self, receive):
        while (await receive())["type"] != "http.disconnect":
            pass
        assert (await receive())["type"] == "http.disconnect", "it stays that way"

    async def half(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("on purpose")


class Running:
    """A server for the length of an `async with`."""

    def __init__(self, tls=True, app=None, **options):
        self.app = app or App()
        self.tls = TLSConfig() if tls else None
        if self.tls:
            self.tls.update(cert_pem=PAIR.cert_pem, key_pem=PAIR.key_pem, client_ca_pem=CLIENT_CA.cert_pem + PROXY_CA.cert_pem)
        self.order = []
        self.server = Server(
            self.app, [bind("127.0.0.1", 0)], self.tls, on_stopping=self.on_stopping, on_shutdown=self.on_shutdown, **options
        )
        self.port = self.server.port
        self.clients = []

    def on_stopping(self):
        self.order.append("stopping")

    def on_shutdown(self):
        self.order.append("shutdown")
        if isinstance(self.app, App):
            self.app.stopping.set()

    async def __aenter__(self):
        self.task = asyncio.ensure_future(self.server.run())
        await self.server.listening.wait()
        return self

    async def __aexit__(self, *_):
        if isinstance(self.app, App):
            self.app.release.set()
        self.server.request_stop()
        for client in self.clients:
            await client.close()
        await asyncio.wait_for(self.task, HANG_SECONDS)

    async def stopped(self):
        await asyncio.wait_for(self.task, HANG_SECONDS)

    async def http2(self, receive_buffer=0, **options):
        client = await HTTP2Client.connect(self.port, tls_context(CA.cert_pem, **options), receive_buffer)
        self.clients.append(client)
        return client


async def eventually(condition):
    """Let real I/O happen until the condition holds."""
    async with asyncio.timeout(HANG_SECONDS):
        while not condition():  # noqa: ASYNC110  what is waited for is in another process' hands, as it were: the kernel's
            await asyncio.sleep(0)
