from __future__ import annotations

import pytest
from aiohttp import web

from aggserver.webhook.client import WebhookError
from aggserver.webhook.config import ClientConfig, ServiceReference
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
