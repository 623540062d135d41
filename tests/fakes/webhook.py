"""WebhookServer: a webhook over TLS on loopback, which answers as a test says."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from aggserver.certificates.issuing import KeyPair, issue_serving, new_ca
from aggserver.webhook.client import Webhooks
from aggserver.webhook.config import ClientConfig, ServiceReference, ServiceResolver
from tests.fakes.bad_webhooks import Answer
from tests.fakes.clock import FakeClock
from tests.waiting import HANG_SECONDS

# OpenSSL checks validity by the system's clock, so these certificates must be valid now.
CA = new_ca("webhooks", time.time())
STRANGER = new_ca("stranger", time.time())


class WebhookServer:
    """`answer` makes the response. `seen` has (method, path and query) of each request, `bodies` what was sent."""

    def __init__(self, port: int, answer: Answer) -> None:
        self.port = port
        self.answer = answer
        self.seen: list[tuple[str, str]] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []

    def config(self, path: str = "/convert", ca: bytes = CA.cert_pem) -> ClientConfig:
        return ClientConfig(url=f"https://127.0.0.1:{self.port}{path}", ca_bundle=ca)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append((request.method, request.raw_path))
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.read())
        return await self.answer(request)


class FixedServices:
    """Resolves services to addresses by `namespace/name`."""

    def __init__(self, **addresses: tuple[str, int]) -> None:
        self.addresses = addresses

    async def resolve(self, service: ServiceReference) -> tuple[str, int]:
        return self.addresses[service.name]


def server_context(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pair.pem")
        path.write_bytes(pair.key_pem + pair.cert_pem)
        context.load_cert_chain(path)
    return context


@asynccontextmanager
async def webhook_server(
    answer: Answer,
    *,
    names: Sequence[str] = (),
    ips: Sequence[str] = ("127.0.0.1",),
    pair: KeyPair | None = None,
    clients: KeyPair | None = None,
) -> AsyncIterator[WebhookServer]:
    """names, ips: those of its certificate, which CA signed, unless `pair` is its certificate. clients: the CA of the client
    certificates that it requires.
    """
    server = WebhookServer(0, answer)
    handler = web.Server(server.handle, access_log=None, handler_cancellation=True)
    runner = web.ServerRunner(handler, shutdown_timeout=1)
    await runner.setup()
    context = server_context(pair or issue_serving(CA, names, ips, time.time()))
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.cert_pem.decode())
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        # A client that keeps its connection has no part in the end of TLS.
        for connection in handler.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await runner.cleanup()


@asynccontextmanager
async def calling(services: ServiceResolver | None = None, clock: FakeClock | None = None) -> AsyncIterator[Webhooks]:
    sleep = clock.sleep if clock is not None else asyncio.sleep
    webhooks = Webhooks(services or FixedServices(), "aggserver/test", environment={}, sleep=sleep)
    try:
        yield webhooks
    finally:
        await webhooks.close()


class RunningWebhook:
    """A webhook in a thread of its own, for tests that have no event loop. `answer` may be replaced at any time."""

    def __init__(self, answer: Answer, **certificate: Any) -> None:
        self.answer = answer
        self._certificate = certificate
        self._stop: asyncio.Event | None = None

    def __enter__(self) -> Self:
        started: Future[WebhookServer] = Future()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(started),), daemon=True)
        self._thread.start()
        self.server = started.result(HANG_SECONDS)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_SECONDS)

    async def _serve(self, started: Future[WebhookServer]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with webhook_server(self._answer, **self._certificate) as server:
            started.set_result(server)
            await self._stop.wait()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self.answer(request)
