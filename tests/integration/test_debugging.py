"""What is there to debug a server: the same answers as kube-apiserver's, and a profile that Go's tools read."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster
from tests.controlplane.toolchain import go_command, go_environment
from tests.integration.raw import Client
from tests.integration.server import Standalone

_GO_MOD = Path(__file__).parents[1] / "controlplane" / "go.mod"
_V1BETA1, _V1ALPHA1 = "g=config.k8s.io;v=v1beta1", "g=config.k8s.io;v=v1alpha1"


@pytest.fixture(scope="module")
def clients(control_plane: Cluster, standalone: Standalone) -> Iterator[tuple[Client, Client]]:
    """Administrators of both."""
    with Client(control_plane.kubeconfig) as upstream, Client(standalone.kubeconfig) as ours:
        yield upstream, ours


def ask(
    client: Client, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    with client.dial() as connection:
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        text = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}Content-Length: {len(body)}\r\n\r\n"
        connection.sendall(text.encode() + body)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


ACCEPTED = {
    "nothing": "",
    "anything": "*/*",
    "text": "text/plain",
    "json": "application/json",
    "protobuf": "application/vnd.kubernetes.protobuf",
    "a browser": "text/html,application/xhtml+xml,*/*;q=0.8",
    "object": f"application/json;as=KIND;{_V1BETA1}",
    "object as yaml": f"application/yaml;as=KIND;{_V1BETA1}",
    "old object": f"application/json;as=KIND;{_V1ALPHA1}",
    "object of no version": "application/json;as=KIND;g=config.k8s.io;v=v1",
    "object as text": f"text/plain;as=KIND;{_V1BETA1}",
    "text before an object": f"text/plain, application/json;as=KIND;{_V1BETA1}",
    "an object before text": f"application/json;as=KIND;{_V1BETA1}, text/plain",
}


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize(("page", "kind"), [("/statusz", "Statusz"), ("/flagz", "Flagz")])
def test_forms(clients: tuple[Client, Client], page: str, kind: str, name: str) -> None:
    headers = {"Accept": ACCEPTED[name].replace("KIND", kind)} if ACCEPTED[name] else {}
    upstream, ours = (_shape(*ask(client, "GET", page, headers)) for client in clients)
    assert ours == upstream


def _shape(status: int, headers: Mapping[str, str], body: bytes) -> tuple[object, ...]:
    about = status, headers["content-type"], headers.get("warning")
    if headers["content-type"].startswith("application/json"):
        found = json.loads(body)
        if found["kind"] == "Status":
            return *about, found
        # `name` is that of the component.
        return *about, found["apiVersion"], found["kind"], {key: type(value) for key, value in found.items()}
    return *about, [line for line in body.splitlines() if line.startswith(b"Warning: ")]


VERBOSITY = {
    "number": ("PUT", b"0"),
    "word": ("PUT", b"x"),
    "negative": ("PUT", b"-1"),
    "large": ("PUT", b"4294967296"),
    "get": ("GET", b""),
}


@pytest.mark.parametrize(("method", "body"), VERBOSITY.values(), ids=VERBOSITY)
def test_verbosity(clients: tuple[Client, Client], method: str, body: bytes) -> None:
    upstream, ours = (ask(client, method, "/debug/flags/v", {}, body) for client in clients)
    assert (ours[0], ours[2]) == (upstream[0], upstream[2])


def test_the_log_at_run_time(clients: tuple[Client, Client], standalone: Standalone) -> None:
    _, ours = clients
    ask(ours, "GET", "/version?timeout=31s", {})
    ask(ours, "PUT", "/debug/flags/v", {}, b"3")
    ask(ours, "GET", "/version?timeout=32s", {})
    ask(ours, "PUT", "/debug/flags/v", {}, b"0")
    ask(ours, "GET", "/version?timeout=33s", {})
    logged = [line for line in standalone.output.splitlines() if "/version?timeout=3" in line]
    assert [line.partition("timeout=")[2][:3] for line in logged] == ["32s"]


def test_profile(clients: tuple[Client, Client], tmp_path: Path) -> None:
    _, ours = clients
    status, headers, body = ask(ours, "GET", "/debug/pprof/profile?seconds=1", {})
    assert (status, headers["content-type"]) == (200, "application/octet-stream")
    file = tmp_path / "profile"
    file.write_bytes(body)
    raw = _pprof("-raw", str(file))
    assert "samples/count cpu/nanoseconds[dflt] wall/nanoseconds" in raw
    assert "thread:[MainThread]" in raw
    assert "cli.main" in raw
    top = _pprof("-sample_index=wall", "-top", str(file))
    assert "Type: wall" in top
    assert "Duration: 1" in top


def _pprof(*arguments: str) -> str:
    command = [go_command(_GO_MOD, print), "tool", "pprof", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=go_environment(os.environ), cwd="/", check=True).stdout
