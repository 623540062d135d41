"""Which connections of HTTP/2 end with an answer: kube-apiserver is asked the same, and the aggregator's is never one of them."""

from __future__ import annotations

import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.integration.aggregation import API_SERVICE, Aggregation
from tests.integration.raw import Client
from tests.integration.server import Standalone
from tests.server.clients import HTTP2Client

# name: (whether the client has its certificate, path, headers)
ENDING = {
    "nobody": (False, "/healthz", []),
    "nobody, who is refused": (False, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", []),
    "nobody, for what is not there": (False, "/nothing", []),
}
STAYING = {
    "an administrator": (True, "/healthz", []),
    "an administrator, for what is not there": (True, "/nothing", []),
    "an administrator as nobody": (True, "/healthz", [("impersonate-user", "system:anonymous")]),
}


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path, *, certificate: bool) -> AsyncIterator[HTTP2Client]:
    with Client(kubeconfig, certificate=certificate) as plain:
        plain.context.set_alpn_protocols(["h2"])
        client = await HTTP2Client.connect(plain.address[1], plain.context, name=plain.address[0])
        yield client
        await client.close()


@pytest.fixture(params=["kube-apiserver", "aggserver"])
def kubeconfig(request: pytest.FixtureRequest, own_control_plane: ControlPlane, standalone: Standalone) -> Path:
    return own_control_plane.kubeconfig if request.param == "kube-apiserver" else standalone.kubeconfig


@pytest.mark.parametrize(("certificate", "path", "headers"), ENDING.values(), ids=ENDING)
async def test_the_connection_ends(kubeconfig: Path, certificate: bool, path: str, headers: list[tuple[str, str]]) -> None:
    async with connected(kubeconfig, certificate=certificate) as client:
        stream = client.request(path, headers=headers)
        got = await client.response(stream)
        assert (got["ended"], got["headers"].get("connection")) == ("end", None)
        await client.until(lambda: client.goaway)
        assert client.goaway == (0, stream)
        await client.until(lambda: client.closed)


async def test_the_connection_ends_with_a_refused_token(own_control_plane: ControlPlane, aggregation: Aggregation) -> None:
    """Only a server that can have tokens looked at refuses one: `aggserver dev` is none."""
    wrong = [("authorization", "Bearer nobody's")]
    async with connected(own_control_plane.kubeconfig, certificate=False) as upstream, behind(aggregation) as ours:
        for client in (upstream, ours):
            stream = client.request("/apis", headers=wrong)
            assert (await client.response(stream))["status"] == 401
            await client.until(lambda client=client: client.goaway)
            assert client.goaway == (0, stream)
            await client.until(lambda client=client: client.closed)


@pytest.mark.parametrize(("certificate", "path", "headers"), STAYING.values(), ids=STAYING)
async def test_the_connection_stays(kubeconfig: Path, certificate: bool, path: str, headers: list[tuple[str, str]]) -> None:
    async with connected(kubeconfig, certificate=certificate) as client:
        for _ in range(2):
            got = await client.response(client.request(path, headers=headers))
            assert got["ended"] == "end"
        assert client.goaway is None


async def test_the_aggregators_connection_stays(own_control_plane: ControlPlane, aggregation: Aggregation) -> None:
    """It is everybody's, whoever's request comes by it."""
    async with behind(aggregation, own_control_plane) as client:
        nobody = [("x-remote-user", "system:anonymous"), ("x-remote-group", "system:unauthenticated")]
        for headers in (nobody, [("x-remote-user", "wanda")], nobody):
            assert (await client.response(client.request("/apis", headers=headers)))["ended"] == "end"
        assert client.goaway is None


@contextlib.asynccontextmanager
async def behind(aggregation: Aggregation, proxy: ControlPlane | None = None) -> AsyncIterator[HTTP2Client]:
    """A connection to the server behind the aggregator, past it, with the aggregator's certificate if `proxy` is given."""
    service = aggregation.api_services()[API_SERVICE]["spec"]
    context = ssl.create_default_context(cadata=base64.b64decode(service["caBundle"]).decode())
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if proxy is not None:
        context.load_cert_chain(proxy.front_proxy.certificate, proxy.front_proxy.key)
    client = await HTTP2Client.connect(aggregation.port, context)
    yield client
    await client.close()
