"""SIGTERM while clients watch: each is told all that happened, its watch ends as one ends, and the server goes without delay."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.raw import Client
from tests.integration.server import Standalone
from tests.integration.websockets import upgrade
from tests.server.clients import HTTP2Client
from tests.waiting import HANG_SECONDS

NAMESPACES = "/api/v1/namespaces"
WATCH = f"{NAMESPACES}?watch=1&fieldSelector=metadata.name%3Dlast"
CONNECTIONS = 200  # of HTTP/1.1, and as many of websockets
_PLAIN = f"GET {WATCH} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
STREAMS = 600  # of one connection of HTTP/2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Standalone]:
    made = Standalone(tmp_path / "data")
    yield made
    made.kill()


def test_kubectl_ends_without_a_complaint(control_plane: Cluster, server: Standalone) -> None:
    watching = ("get", "namespace", "default", "--watch", "-o", "name")
    with control_plane.running_kubectl(*watching, user=server.kubeconfig) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "namespace/default\n"
        # That was of the list. Once the change is told, the watch is there.
        control_plane.kubectl("annotate", "namespace", "default", "example.com/changed=true", user=server.kubeconfig)
        assert process.stdout.readline() == "namespace/default\n"
        assert server.stop() == 0
        rest, complaints = process.communicate(timeout=HANG_SECONDS)
        assert (process.returncode, rest, complaints) == (0, "", "")


def test_a_thousand_watches_end(server: Standalone) -> None:
    with Client(server.kubeconfig) as client, Client(server.kubeconfig) as multiplexing:
        multiplexing.context.set_alpn_protocols(["h2"])
        asyncio.run(_stop_under(server, client, multiplexing))
    assert "dropping" not in server.output
    assert "ERROR" not in server.output


async def _stop_under(server: Standalone, client: Client, multiplexing: Client) -> None:
    async with contextlib.AsyncExitStack() as stack:
        chunked = [await stack.enter_async_context(_request(client, _PLAIN)) for _ in range(CONNECTIONS)]
        websockets = [await stack.enter_async_context(_request(client, upgrade(WATCH))) for _ in range(CONNECTIONS)]
        http2 = await HTTP2Client.connect(server.port, multiplexing.context)
        stack.push_async_callback(http2.close)
        streams = [http2.request(WATCH) for _ in range(STREAMS)]
        await http2.until(lambda: all(http2.received[stream]["status"] == 200 for stream in streams))
        made = json.dumps({"metadata": {"name": "last"}}).encode()
        assert client.request("POST", NAMESPACES, {"content-type": "application/json"}, made).status == 201
        status = asyncio.get_running_loop().run_in_executor(None, server.stop)
        for ends, end in ((chunked, b"\r\n0\r\n\r\n"), (websockets, b"\x88\x02\x03\xe8")):
            for reader in ends:
                rest = await asyncio.wait_for(reader.read(), HANG_SECONDS)
                assert b'"name":"last"' in rest
                assert rest.endswith(end)
        for stream in streams:
            got = await http2.response(stream)
            assert b'"name":"last"' in got["body"]
            assert got["ended"] == "end"
        assert http2.goaway is None or http2.goaway[0] == 0
        assert await status == 0


@contextlib.asynccontextmanager
async def _request(client: Client, head: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """A connection on which the head of the answer has come."""
    host, port = client.address
    reader, writer = await asyncio.open_connection(host, port, ssl=client.context, server_hostname=host)
    try:
        writer.write(head)
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HANG_SECONDS)
        yield reader
    finally:
        writer.close()
