"""HTTP/1.1 byte by byte: odd heads, reason phrases, and what is answered in plain text, by kube-apiserver and by aggserver."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.heads import DIFFERENT, HEADS
from tests.integration.raw import Client
from tests.integration.server import Standalone


@pytest.fixture(scope="module")
def clients(control_plane: Cluster, standalone: Standalone) -> Iterator[tuple[Client, Client]]:
    """Administrators of both."""
    with Client(control_plane.kubeconfig) as upstream, Client(standalone.kubeconfig) as ours:
        yield upstream, ours


def ask(client: Client, head: bytes) -> bytes:
    """All that comes back, until the server ends the connection."""
    with client.dial() as connection:
        connection.sendall(head)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer


def seen(answer: bytes) -> tuple[list[bytes], bytes]:
    """The status lines, and the body where it is no document of the API."""
    lines = []
    while answer.startswith(b"HTTP/1.1 1"):
        interim, _, answer = answer.partition(b"\r\n\r\n")
        lines.append(interim.split(b"\r\n")[0])
    head, _, body = answer.partition(b"\r\n\r\n")
    lines.append(head.split(b"\r\n")[0])
    return lines, b"" if _is_json(body) else body


def _is_json(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        # In chunks it is none; a refusal of the server itself never is.
        return b"\r\n{" in body


@pytest.mark.parametrize("name", HEADS)
def test_the_same(clients: tuple[Client, Client], name: str) -> None:
    upstream, ours = (seen(ask(client, HEADS[name])) for client in clients)
    if name in DIFFERENT:
        wanted, why = DIFFERENT[name]
        assert (ours[0], ours != upstream) == ([wanted], True), why
    else:
        assert ours == upstream


def test_a_refusal_is_plain_text(clients: tuple[Client, Client]) -> None:
    for client in clients:
        head = ask(client, HEADS["HTTP/9.9"]).partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
        assert b"content-type: text/plain; charset=utf-8" in head
        assert b"connection: close" in head
