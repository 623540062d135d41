"""WebhookServer: a webhook over TLS on loopback, which answers as a test says."""

from __future__ import annotations

import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from aggserver.certificates.issuing import KeyPair, issue_serving, new_ca
from aggserver.webhook.client import ServiceResolver, Webhooks
from aggserver.webhook.config import ClientConfig, ServiceReference
from tests.fakes.bad_webhooks import Answer

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
    answer: Answer, *, names: Sequence[str] = (), ips: Sequence[str] = ("127.0.0.1",), ca: KeyPair = CA
) -> AsyncIterator[WebhookServer]:
    """names, ips: those of its certificate, which `ca` signed."""
    server = WebhookServer(0, answer)
    runner = web.ServerRunner(web.Server(server.handle, access_log=None), shutdown_timeout=0)
    await runner.setup()
    context = server_context(issue_serving(ca, names, ips, time.time()))
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def calling(services: ServiceResolver | None = None) -> AsyncIterator[Webhooks]:
    webhooks = Webhooks(services or FixedServices(), "aggserver/test")
    try:
        yield webhooks
    finally:
        await webhooks.close()
