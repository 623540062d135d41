"""The flags about browsers: the same headers as kube-apiserver's with the same flags."""

from __future__ import annotations

import http.client
import os
from collections.abc import Iterator, Mapping

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.integration.raw import Client
from tests.integration.server import Standalone, running

_FLAGS = (
    r"--cors-allowed-origins=//example\.com(:|$),^https://[a-z]+\.example\.org$",
    "--strict-transport-security-directives=max-age=31536000,includeSubDomains",
)
_COMPARED = ("access-control-", "strict-transport-security", "content-length", "cache-control", "vary")


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tuple[Client, Client], ...]]:
    """An administrator and a stranger, of kube-apiserver and of aggserver."""
    folder = tmp_path_factory.mktemp("browsers")
    with (
        ControlPlane(obtain(os.environ, print), apiserver_arguments=_FLAGS) as plane,
        running(server := Standalone(folder / "data", *_FLAGS)),
    ):
        yield tuple((Client(file), Client(file, certificate=False)) for file in (plane.kubeconfig, server.kubeconfig))


def _ask(client: Client, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
    with client.dial() as connection:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n".encode())
        response = http.client.HTTPResponse(connection, method=method)
        response.begin()
        found = {name.lower(): value for name, value in response.getheaders() if name.lower().startswith(_COMPARED)}
        return response.status, found, response.read()


CASES = {
    "no origin": ("GET", "/api/v1/namespaces/default", {}),
    "allowed": ("GET", "/api/v1/namespaces/default", {"Origin": "https://example.com"}),
    "a port": ("GET", "/api/v1/namespaces/default", {"Origin": "http://example.com:8080"}),
    "a subdomain": ("GET", "/healthz", {"Origin": "https://a.example.org"}),
    "not allowed": ("GET", "/api/v1/namespaces/default", {"Origin": "https://example.com.test"}),
    "preflight": ("OPTIONS", "/api/v1/namespaces/default", {"Origin": "https://example.com"}),
    "preflight of an odd path": ("OPTIONS", "/nonsense", {"Origin": "https://example.com"}),
    "preflight, not allowed": ("OPTIONS", "/api/v1/namespaces/default", {"Origin": "https://other.test"}),
    "not found": ("GET", "/api/v1/namespaces/none", {"Origin": "https://example.com"}),
    "wrong timeout": ("GET", "/api/v1/namespaces/default?timeout=x", {"Origin": "https://example.com"}),
}


@pytest.mark.parametrize("who", [0, 1], ids=["administrator", "stranger"])
@pytest.mark.parametrize("name", CASES)
def test_the_same(clients: tuple[tuple[Client, Client], ...], name: str, who: int) -> None:
    upstream, ours = (_ask(side[who], *CASES[name]) for side in clients)
    for answer in (upstream, ours):
        if answer[2]:
            # Bodies name users and objects of their server.
            answer[1].pop("content-length", None)
    assert (ours[0], ours[1], bool(ours[2])) == (upstream[0], upstream[1], bool(upstream[2]))
