from __future__ import annotations

import time
from pathlib import Path

import pytest
from aiohttp import web

from aggserver.certificates.issuing import issue_client
from aggserver.webhook.client import WebhookError
from aggserver.webhook.config import ClientConfig, ServiceReference
from aggserver.webhook.identities import Identity
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


async def test_nobody_listens(unused_tcp_port: int) -> None:
    async with calling() as webhooks:
        with pytest.raises(WebhookError) as caught:
            await webhooks.call(ClientConfig(f"https://127.0.0.1:{unused_tcp_port}/"), b"{}", timeout=30)
    where = f"127.0.0.1:{unused_tcp_port}"
    assert str(caught.value) == f'Post "https://{where}/?timeout=30s": dial tcp {where}: connect: connection refused'


# --- what this server proves to be


async def test_a_token_and_a_password() -> None:
    async with webhook_server(fine) as server, calling() as webhooks:
        for authorization in ("", "Bearer abc", "Basic dTpw"):
            await webhooks.call(server.config(), b"{}", timeout=10, identity=Identity(authorization))
        assert [headers.get("Authorization") for headers in server.headers] == [None, "Bearer abc", "Basic dTpw"]


async def test_a_token_that_is_replaced(tmp_path: Path) -> None:
    identity = Identity(token_file=tmp_path / "token")
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
        shown = Identity(certificate=pair.cert_pem, key=pair.key_pem)
        assert await webhooks.call(config, b"{}", timeout=10, identity=shown) == b'{"fine": true}'
        with pytest.raises(WebhookError, match="the client certificate for the webhook can't be used"):
            await webhooks.call(config, b"{}", timeout=10, identity=Identity(certificate=b"x", key=b"y"))


async def test_nothing_is_proved_to_another_webhook() -> None:
    async with webhook_server(fine) as other:

        async def redirect(_: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": other.config("/there").url})

        async with webhook_server(redirect) as server, calling() as webhooks:
            await webhooks.call(server.config(), b"{}", timeout=10, identity=Identity("Bearer abc"))
            assert server.headers[0]["Authorization"] == "Bearer abc"
            assert "Authorization" not in other.headers[0]
