from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from aggserver.certificates.issuing import issue_client, issue_serving
from aggserver.webhook import client
from aggserver.webhook.client import MAX_CONNECTIONS_PER_WEBHOOK, WebhookError
from aggserver.webhook.config import ClientConfig, ServiceReference
from aggserver.webhook.identities import WebhookIdentity
from tests.controlplane.processes import free_ports
from tests.fakes.bad_webhooks import HANGS
from tests.fakes.clock import FakeClock
from tests.fakes.webhook import CA, STRANGER, FixedServices, calling, webhook_server


async def fine(_: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"fine": True})


async def test_a_call_by_url() -> None:
    async with webhook_server(fine) as server, calling() as webhooks:
        assert await webhooks.call(server.config("/a/../convert/"), b'{"a":1}', timeout=30) == b'{"fine": true}'
        assert server.seen == [("POST", "/convert?timeout=30s")]
        assert server.bodies == [b'{"a":1}']
        assert server.headers[0]["Content-Type"] == "application/json"
        assert server.headers[0]["User-Agent"] == "aggserver/test"


async def test_a_call_by_service() -> None:
    """The address is the resolver's; certificate and Host are those of the service."""
    async with webhook_server(fine, names=["hook.system.svc"], ips=[]) as server:
        config = ClientConfig(service=ServiceReference("system", "hook", "/convert", 8443), ca_bundle=CA.cert_pem)
        async with calling(FixedServices(hook=("127.0.0.1", server.port))) as webhooks:
            assert await webhooks.call(config, b"{}", timeout=10) == b'{"fine": true}'
        assert server.seen == [("POST", "/convert?timeout=10s")]
        assert server.headers[0]["Host"] == "hook.system.svc:8443"


@pytest.mark.parametrize(
    ("trusted", "names", "reason"),
    [
        pytest.param(STRANGER.cert_pem, ["hook.system.svc"], "certificate signed by unknown authority", id="another CA"),
        pytest.param(b"", ["hook.system.svc"], "certificate signed by unknown authority", id="the system's CAs"),
        pytest.param(b" \n", ["hook.system.svc"], "certificate signed by unknown authority", id="white space"),
        pytest.param(CA.cert_pem, ["other.system.svc"], "certificate is not valid for hook.system.svc", id="another name"),
    ],
)
async def test_certificates(trusted: bytes, names: list[str], reason: str) -> None:
    async with webhook_server(fine, names=names, ips=[]) as server:
        config = ClientConfig(service=ServiceReference("system", "hook"), ca_bundle=trusted)
        async with calling(FixedServices(hook=("127.0.0.1", server.port))) as webhooks:
            with pytest.raises(WebhookError) as caught:
                await webhooks.call(config, b"{}", timeout=10)
    url = 'Post "https://hook.system.svc:443/?timeout=10s"'
    assert str(caught.value) == f"{url}: tls: failed to verify certificate: x509: {reason}"


async def test_nobody_listens() -> None:
    (port,) = free_ports(1)
    async with calling() as webhooks:
        with pytest.raises(WebhookError) as caught:
            await webhooks.call(ClientConfig(f"https://127.0.0.1:{port}/"), b"{}", timeout=30)
    where = f"127.0.0.1:{port}"
    assert str(caught.value) == f'Post "https://{where}/?timeout=30s": dial tcp {where}: connect: connection refused'


# --- what this server proves to be


async def test_a_token_and_a_password() -> None:
    async with webhook_server(fine) as server, calling() as webhooks:
        for authorization in ("", "Bearer abc", "Basic dTpw"):
            await webhooks.call(server.config(), b"{}", timeout=10, identity=WebhookIdentity(authorization))
        assert [headers.get("Authorization") for headers in server.headers] == [None, "Bearer abc", "Basic dTpw"]


async def test_a_token_that_is_replaced(tmp_path: Path) -> None:
    identity = WebhookIdentity(token_file=tmp_path / "token")
    async with webhook_server(fine) as server, calling() as webhooks:
        for token in ("one", "two"):
            (tmp_path / "token").write_text(f"{token}\n")
            await webhooks.call(server.config(), b"{}", timeout=10, identity=identity)
        assert [headers["Authorization"] for headers in server.headers] == ["Bearer one", "Bearer two"]
        (tmp_path / "token").unlink()
        with pytest.raises(WebhookError, match=r"the token for the webhook can't be read: .*No such file"):
            await webhooks.call(server.config(), b"{}", timeout=10, identity=identity)


async def test_a_client_certificate() -> None:
    pair = issue_client(STRANGER, "aggserver", (), time.time())
    async with webhook_server(fine, clients=STRANGER) as server, calling() as webhooks:
        config = server.config()
        with pytest.raises(WebhookError):
            await webhooks.call(config, b"{}", timeout=10)
        shown = WebhookIdentity(certificate=pair.cert_pem, key=pair.key_pem)
        assert await webhooks.call(config, b"{}", timeout=10, identity=shown) == b'{"fine": true}'
        with pytest.raises(WebhookError, match="the client certificate for the webhook can't be used"):
            await webhooks.call(config, b"{}", timeout=10, identity=WebhookIdentity(certificate=b"x", key=b"y"))


async def test_nothing_is_proved_to_another_webhook() -> None:
    async with webhook_server(fine) as other:

        async def redirect(_: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": other.config("/there").url})

        async with webhook_server(redirect) as server, calling() as webhooks:
            await webhooks.call(server.config(), b"{}", timeout=10, identity=WebhookIdentity("Bearer abc"))
            assert server.headers[0]["Authorization"] == "Bearer abc"
            assert "Authorization" not in other.headers[0]


# --- connections, redirects and time


async def test_connections_are_kept_open() -> None:
    peers = set()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.json_response({})

    async with webhook_server(answer) as server, calling() as webhooks:
        for _ in range(3):
            await webhooks.call(server.config(), b"{}", timeout=30)
    assert len(peers) == 1


async def test_a_connection_that_was_closed_meanwhile_is_replaced() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        if request.transport in seen:
            request.transport.close()  # without an answer, as a server does that ends idle connections
        seen.append(request.transport)
        return web.json_response({"calls": len(seen)})

    seen: list[object] = []
    async with webhook_server(answer) as server, calling() as webhooks:
        assert await webhooks.call(server.config(), b"{}", timeout=30) == b'{"calls": 1}'
        assert await webhooks.call(server.config(), b"{}", timeout=30) == b'{"calls": 3}'
    assert len(set(seen)) == 2


async def test_a_webhook_that_hangs_takes_only_its_own_connections() -> None:
    gate, full, arrived = asyncio.Event(), asyncio.Event(), []

    async def hang(request: web.BaseRequest) -> web.StreamResponse:
        arrived.append(request)
        if len(arrived) == MAX_CONNECTIONS_PER_WEBHOOK:
            full.set()
        await gate.wait()
        return web.json_response({})

    async with webhook_server(hang) as hanging, webhook_server(fine) as server, calling() as webhooks:
        calls = [asyncio.create_task(webhooks.call(hanging.config(), b"{}", timeout=30)) for _ in range(100)]
        await full.wait()
        assert await webhooks.call(server.config(), b"{}", timeout=30) == b'{"fine": true}'
        assert len(arrived) == MAX_CONNECTIONS_PER_WEBHOOK
        gate.set()
        assert await asyncio.gather(*calls) == [b"{}"] * 100


async def test_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, read = asyncio.Event(), client._read

    async def noted_read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
        reading.set()
        return await read(response, max_bytes)

    async def half(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{")
        await HANGS(request)
        return response

    async with webhook_server(HANGS) as server, calling() as webhooks:
        with pytest.raises(WebhookError) as caught:
            await webhooks.call(server.config(), b"{}", timeout=0.05)
        url = f"https://127.0.0.1:{server.port}/convert?timeout=50ms"
        assert str(caught.value) == f'Post "{url}": context deadline exceeded'
        server.answer = half
        monkeypatch.setattr(client, "_read", noted_read)
        waiting = asyncio.create_task(webhooks.call(server.config(), b"{}", timeout=30))
        await reading.wait()
        now = asyncio.get_running_loop().time
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now() + 30)
        with pytest.raises(WebhookError) as caught:
            await waiting
        original = "net/http: request canceled (Client.Timeout or context cancellation while reading body)"
        assert str(caught.value) == f"unexpected error when reading response body. Please retry. Original error: {original}"


async def test_a_response_is_read_up_to_a_limit() -> None:
    async def large(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"x" * 1000)

    async with webhook_server(large) as server, calling() as webhooks:
        assert len(await webhooks.call(server.config(), b"{}", timeout=30, max_bytes=1000)) == 1000
        with pytest.raises(WebhookError, match=r"^the response is larger than 999 bytes$"):
            await webhooks.call(server.config(), b"{}", timeout=30, max_bytes=999)


@pytest.mark.parametrize(
    ("code", "method", "body"),
    [(301, "GET", b""), (302, "GET", b""), (303, "GET", b""), (307, "POST", b"{}"), (308, "POST", b"{}")],
)
async def test_redirects(code: int, method: str, body: bytes) -> None:
    async def redirect(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/convert":
            return web.Response(status=code, headers={"Location": "/there?a=b"})
        return web.json_response({"fine": True})

    async with webhook_server(redirect) as server, calling() as webhooks:
        assert await webhooks.call(server.config(), b"{}", timeout=30) == b'{"fine": true}'
        assert server.seen == [("POST", "/convert?timeout=30s"), (method, "/there?a=b")]
        assert server.bodies == [b"{}", body]


async def test_redirects_to_plain_http_are_not_followed() -> None:
    async def redirect(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "http://127.0.0.1:1/x"})

    async with webhook_server(redirect) as server, calling() as webhooks:
        with pytest.raises(WebhookError, match=r'^Post "http://127.0.0.1:1/x": redirects are followed only to https$'):
            await webhooks.call(server.config(), b"{}", timeout=30)


@pytest.mark.parametrize(("code", "headers", "calls"), [(429, {"Retry-After": "2"}, 11), (503, {"Retry-After": "soon"}, 1)])
async def test_a_webhook_that_says_when_is_asked_again(code: int, headers: dict[str, str], calls: int) -> None:
    async def later(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=code, headers=headers)

    clock = FakeClock()
    async with webhook_server(later) as server, calling(clock=clock) as webhooks:
        with pytest.raises(WebhookError):
            await webhooks.call(server.config(), b"{}", timeout=30)
        assert len(server.seen) == calls
        assert clock.slept == [2.0] * (calls - 1)


async def test_a_server_without_tls() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, calling() as webhooks:
        with pytest.raises(WebhookError, match=r": http: server gave HTTP response to HTTPS client$"):
            await webhooks.call(ClientConfig(f"https://127.0.0.1:{port}"), b"{}", timeout=30)


@pytest.mark.parametrize(
    ("bundle", "why"),
    [
        (b"x", "unable to load root certificates: unable to parse bytes as PEM block"),
        (STRANGER.cert_pem, "tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        (STRANGER.cert_pem + CA.cert_pem, ""),
        (b"# \xc3\xa9\n" + CA.cert_pem, ""),
    ],
    ids=["no certificate", "another", "two", "a comment"],
)
async def test_bundles(bundle: bytes, why: str) -> None:
    async with webhook_server(fine) as server, calling() as webhooks:
        if why:
            with pytest.raises(WebhookError, match=f"{re.escape(why)}$"):
                await webhooks.call(server.config(ca=bundle), b"{}", timeout=30)
        else:
            assert await webhooks.call(server.config(ca=bundle), b"{}", timeout=30) == b'{"fine": true}'


async def test_a_server_certificate_may_be_trusted_itself() -> None:
    pair = issue_serving(STRANGER, ["a.test"], ["127.0.0.1"], time.time())
    async with webhook_server(fine, pair=pair) as server, calling() as webhooks:
        assert await webhooks.call(server.config(ca=pair.cert_pem), b"{}", timeout=30) == b'{"fine": true}'
