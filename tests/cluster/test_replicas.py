"""Which kube-apiservers a cluster has, and that each gets a client of its own."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aggserver.certificates.issuing import KeyPair, issue_serving, new_ca
from aggserver.cluster import ClusterError, Unreachable
from aggserver.cluster.replicas import SLICES, Replicas, connect_each, endpoints
from tests.fakes.cluster import FakeCluster, status


def sliced(*addresses: str, port: int = 6443, ready: bool | None = True, name: str = "https") -> dict[str, Any]:
    conditions = {} if ready is None else {"ready": ready}
    return {
        "metadata": {"name": f"s-{'-'.join(addresses)}", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "ports": [{"name": name, "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": conditions} for address in addresses],
    }


@pytest.mark.parametrize(
    ("slices", "urls"),
    [
        ([], []),
        ([sliced("10.0.0.2", "10.0.0.1")], ["https://10.0.0.1:6443", "https://10.0.0.2:6443"]),
        ([sliced("10.0.0.1", port=443), sliced("10.0.0.2")], ["https://10.0.0.1:443", "https://10.0.0.2:6443"]),
        ([sliced("10.0.0.1"), sliced("10.0.0.1")], ["https://10.0.0.1:6443"]),
        ([sliced("fd00::1")], ["https://[fd00::1]:6443"]),
        ([sliced("10.0.0.1", ready=False), sliced("10.0.0.2", ready=None)], ["https://10.0.0.2:6443"]),
        ([sliced("10.0.0.1", name="metrics")], []),
        ([{"metadata": {}, "ports": None, "endpoints": None}], []),
    ],
    ids=["none", "one slice", "two slices", "twice", "IPv6", "not ready", "another port", "empty"],
)
def test_endpoints(slices: list[dict[str, Any]], urls: list[str]) -> None:
    assert endpoints(slices) == urls


class Client(FakeCluster):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.closed = False

    @property
    def server(self) -> str:
        return self.url

    async def close(self) -> None:
        self.closed = True


class Connections:
    def __init__(self) -> None:
        self.made: list[Client] = []

    async def connect(self, url: str) -> Client:
        self.made.append(Client(url))
        return self.made[-1]

    @property
    def open(self) -> list[str]:
        return [client.url for client in self.made if not client.closed]


def servers(clusters: Any) -> list[str]:
    return [cluster.server for cluster in clusters]


async def test_changes_are_followed_and_clients_are_kept() -> None:
    host, connections = FakeCluster(), Connections()
    replicas = Replicas(host, connections.connect)
    await host.put(SLICES, sliced("10.0.0.1", "10.0.0.2"))
    other = sliced("10.9.9.9")
    other["metadata"]["labels"] = {"kubernetes.io/service-name": "other"}
    await host.put(SLICES, other)
    first = await replicas.clusters()
    assert servers(first) == ["https://10.0.0.1:6443", "https://10.0.0.2:6443"]
    assert list(await replicas.clusters()) == list(first)
    host.objects[SLICES].clear()
    await host.put(SLICES, sliced("10.0.0.2", "10.0.0.3"))
    second = await replicas.clusters()
    assert second[0] is first[1]
    assert servers(second) == connections.open == ["https://10.0.0.2:6443", "https://10.0.0.3:6443"]
    await replicas.close()
    assert connections.open == []


async def test_a_cluster_that_publishes_none() -> None:
    host, connections = FakeCluster(), Connections()
    assert list(await Replicas(host, connections.connect).clusters()) == [host]
    assert connections.made == []


async def test_urls_that_are_given() -> None:
    host, connections = FakeCluster(), Connections()
    found = await Replicas(host, connections.connect, ["https://b:1/", "https://a:1"]).clusters()
    assert servers(found) == ["https://b:1", "https://a:1"]
    assert host.calls == []


async def test_a_missing_right_is_named() -> None:
    host = FakeCluster()
    host.fail("GET", SLICES, status(403, "Forbidden", "no"))
    with pytest.raises(ClusterError, match=r"no; grant this server's service account .* or give --kube-apiservers") as raised:
        await Replicas(host, Connections().connect).clusters()
    assert raised.value.code == 403


@asynccontextmanager
async def https(folder: Path, name: str, ca: KeyPair) -> AsyncIterator[str]:
    """The URL of a server whose certificate is for `name`; it answers each request with the token that it got."""
    pair = issue_serving(ca, [name], [], time.time())
    (folder / "tls.crt").write_bytes(pair.cert_pem)
    (folder / "tls.key").write_bytes(pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"token": request.headers["Authorization"]})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_each_is_verified_for_the_name_that_they_share(tmp_path: Path) -> None:
    ca = new_ca("test", time.time())  # OpenSSL checks validity by the system's clock
    (tmp_path / "ca.crt").write_bytes(ca.cert_pem)
    config = {
        "clusters": [{"name": "a", "cluster": {"server": "https://api.test:6443", "certificate-authority": "ca.crt"}}],
        "users": [{"name": "a", "user": {"token": "secret"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    async with https(tmp_path, "api.test", ca) as good, https(tmp_path, "other.test", ca) as wrong:
        replicas = connect_each(FakeCluster(), str(kubeconfig), [good, wrong], "test")
        try:
            first, second = await replicas.clusters()
            assert await first.request("GET", "/x") == {"token": "Bearer secret"}
            with pytest.raises(Unreachable, match=r"its certificate is not trusted: .* not valid for 'api.test'"):
                await second.request("GET", "/x")
        finally:
            await replicas.close()
