from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from aggserver.certificates.issuing import issue_serving, new_ca
from aggserver.cluster import ClusterError, Unreachable
from aggserver.cluster.client import ClusterClient, connect
from aggserver.cluster.configuration import ClientCredentials, ConfigurationError, InClusterSource, KubeconfigSource
from tests.controlplane.processes import free_ports

# OpenSSL checks validity by the system's clock, so these certificates must be valid now.
NOW = time.time()


class FakeSource:
    """Credentials that a test replaces; `stale` makes `changed` true until they are loaded."""

    def __init__(self, credentials: ClientCredentials) -> None:
        self.credentials = credentials
        self.stale = False
        self.loads = 0

    async def load(self) -> ClientCredentials:
        self.loads += 1
        self.stale = False
        return self.credentials

    def changed(self) -> bool:
        return self.stale


class Server:
    """A loopback HTTP server: returns `answers` in order and repeats the last. `seen` has (method, path and query, token)."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.seen: list[tuple[str, str, str]] = []
        self.bodies: list[bytes] = []
        self.content_types: list[str] = []
        self.tokens: set[str] = set()
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        token = request.headers.get("Authorization", "")
        self.seen.append((request.method, request.raw_path, token))
        self.bodies.append(await request.read())
        self.content_types.append(request.content_type)
        if self.tokens and token not in self.tokens:
            return web.json_response(
                {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}, status=401
            )
        code, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(body, asyncio.Event):
            await body.wait()
            return web.Response()
        if isinstance(body, list):
            response = web.StreamResponse(status=code)
            await response.prepare(request)
            for piece in body:
                await response.write(piece)
            return response
        return web.Response(status=code, body=body) if isinstance(body, bytes) else web.json_response(body, status=code)


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server()
    runner = web.ServerRunner(web.Server(lambda request: server.handle(request)))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def talking(source: FakeSource) -> AsyncIterator[ClusterClient]:
    client = ClusterClient(source, source.credentials, "aggserver/test")
    try:
        yield client
    finally:
        await client.close()


async def test_request_sends_and_returns_json() -> None:
    async with serving() as server, talking(FakeSource(ClientCredentials(server.url, None, "Bearer t"))) as client:
        server.answers = [(201, {"kind": "Thing"})]
        answer = await client.request("POST", "/apis/x/v1/things", query={"fieldManager": "a b"}, body={"a": 1})
        assert answer == {"kind": "Thing"}
        assert server.seen == [("POST", "/apis/x/v1/things?fieldManager=a+b", "Bearer t")]
        assert server.bodies == [b'{"a":1}']
        assert client.server == server.url
        await client.request("PATCH", "/apis/x/v1/things/a", body={"a": 2})
        await client.request("PATCH", "/apis/x/v1/things/a", body=[{"op": "remove", "path": "/a"}])
        assert server.content_types == ["application/json", "application/merge-patch+json", "application/json-patch+json"]


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        pytest.param(
            404,
            {"kind": "Status", "reason": "NotFound", "message": "no such thing", "code": 404},
            (404, "NotFound", "no such thing", 0),
            id="status",
        ),
        pytest.param(
            429,
            {"kind": "Status", "reason": "TooManyRequests", "message": "slow", "details": {"retryAfterSeconds": 3}},
            (429, "TooManyRequests", "slow", 3),
            id="says when to come back",
        ),
        pytest.param(502, b"bad gateway\n", (502, "", "bad gateway", 0), id="a proxy in between"),
        pytest.param(500, b"", (500, "", "no explanation given", 0), id="silence"),
        pytest.param(307, b"", (307, "", "no explanation given", 0), id="a redirect is not followed"),
    ],
)
async def test_errors(code: int, body: Any, expected: tuple[int, str, str, int]) -> None:
    async with serving() as server, talking(FakeSource(ClientCredentials(server.url, None))) as client:
        server.answers = [(code, body)]
        with pytest.raises(ClusterError) as caught:
            await client.request("GET", "/x")
        error = caught.value
        assert (error.code, error.reason, error.message, error.retry_after) == expected


async def test_an_answer_that_is_no_object() -> None:
    async with serving() as server, talking(FakeSource(ClientCredentials(server.url, None))) as client:
        for body, text in ((b"<html>", "not JSON"), (b"[]", "not an object")):
            server.answers = [(200, body)]
            with pytest.raises(ClusterError, match=text):
                await client.request("GET", "/x")


async def test_a_header_of_the_answer() -> None:
    async with serving() as server, talking(FakeSource(ClientCredentials(server.url, None))) as client:
        server.answers = [(200, {"kind": "Thing"})]
        assert await client.header("/x", "content-type") == "application/json; charset=utf-8"
        assert await client.header("/x", "X-Other") == ""
        server.answers = [(503, b"service unavailable\n")]
        with pytest.raises(ClusterError, match="503: service unavailable"):
            await client.header("/x", "content-type")


async def test_an_answer_whatever_its_status_is() -> None:
    async with serving() as server, talking(FakeSource(ClientCredentials(server.url, None))) as client:
        server.answers = [(503, b"service unavailable\n")]
        answer = await client.answer("/x", query={"verbose": ""})
        assert (answer.status, answer.text) == (503, "service unavailable\n")
        assert answer.date.endswith(" GMT")


async def test_watch_puts_lines_together() -> None:
    async with serving() as server, talking(FakeSource(ClientCredentials(server.url, None))) as client:
        server.answers = [(200, [b'{"type":"ADDED","obj', b'ect":{"a":1}}\n{"type":"BOOKMARK","object":{}}\n{"type":"torn'])]
        events = [event async for event in client.watch("/x", {"watch": "true", "timeoutSeconds": "60"})]
        assert events == [{"type": "ADDED", "object": {"a": 1}}, {"type": "BOOKMARK", "object": {}}]
        server.answers = [(200, [b"nonsense\n"])]
        with pytest.raises(ClusterError, match="not a watch event"):
            [event async for event in client.watch("/x", {"timeoutSeconds": "60"})]
        server.answers = [(410, {"kind": "Status", "reason": "Expired", "message": "too old"})]
        with pytest.raises(ClusterError, match="410 Expired"):
            [event async for event in client.watch("/x", {"timeoutSeconds": "60"})]


async def test_a_watch_that_hangs_is_given_up() -> None:
    async def hang(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        if "begun" in request.raw_path:
            await response.prepare(request)
            await response.write(b'{"type":"ADDED","object":{}}\n')
        await over.wait()
        return response

    over = asyncio.Event()
    async with serving() as server:
        server.handle = hang  # type: ignore[method-assign]
        credentials = ClientCredentials(server.url, None)
        client = ClusterClient(FakeSource(credentials), credentials, "test", headers_seconds=0.05, late_seconds=0.05)
        with pytest.raises(Unreachable, match=r"/silent: the watch has not begun within 0\.05 s"):
            [event async for event in client.watch("/silent", {"timeoutSeconds": "60"})]
        watch = client.watch("/begun", {"timeoutSeconds": "0"})
        assert await anext(watch) == {"type": "ADDED", "object": {}}
        with pytest.raises(Unreachable, match=r"/begun: no answer within 0\.05 s"):
            await anext(watch)
        over.set()
        await client.close()


async def test_401_reads_the_credentials_again_once() -> None:
    async with serving() as server:
        source = FakeSource(ClientCredentials(server.url, None, "Bearer old"))
        async with talking(source) as client:
            server.answers, server.tokens = [(200, {})], {"Bearer new"}
            source.credentials = replace(source.credentials, authorization="Bearer new")
            await asyncio.gather(*(client.request("GET", "/x") for _ in range(3)))
            assert source.loads == 1
            server.tokens = {"Bearer other"}
            with pytest.raises(ClusterError, match="401 Unauthorized"):
                await client.request("GET", "/x")


async def test_changed_files_are_read_before_the_request() -> None:
    async with serving() as server:
        source = FakeSource(ClientCredentials(server.url, None, "Bearer old"))
        async with talking(source) as client:
            server.answers = [(200, {})]
            source.credentials, source.stale = replace(source.credentials, authorization="Bearer new"), True
            await client.request("GET", "/x")
            await client.request("GET", "/x")
            assert [token for _, _, token in server.seen] == ["Bearer new"] * 2
            assert source.loads == 1


async def test_files_that_went_away_leave_the_credentials_as_they_are(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as server:
        server.answers = [(200, {})]
        (tmp_path / "config").write_text(kubeconfig({"token": "t"}, {"server": server.url}))
        client = await connect(str(tmp_path / "config"), "aggserver/test")
        (tmp_path / "config").unlink()
        for _ in range(2):
            await client.request("GET", "/x")
        (tmp_path / "config").write_text(kubeconfig({"token": "new"}, {"server": server.url}))
        await client.request("GET", "/x")
        await client.close()
        assert [token for _, _, token in server.seen] == ["Bearer t", "Bearer t", "Bearer new"]
    assert [record.getMessage() for record in caplog.records if record.name == "aggserver.cluster.client"] == [
        f"{server.url}: keeping the present credentials: no kubeconfig at {tmp_path / 'config'}"
    ]


async def test_unreachable_says_where_and_why(tmp_path: Path) -> None:
    refused = f"http://127.0.0.1:{free_ports(1)[0]}"
    async with talking(FakeSource(ClientCredentials(refused, None))) as client:
        with pytest.raises(Unreachable, match=f"^{refused}/x: .*refused") as caught:
            await client.request("GET", "/x")
        assert not caught.value.broken
    ca, stranger = new_ca("a", NOW), new_ca("b", NOW)
    async with serving(_server_context(tmp_path, issue_serving(ca, ["localhost"], ["127.0.0.1"], NOW))) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=stranger.cert_pem.decode())
        async with talking(FakeSource(ClientCredentials(server.url, context))) as client:
            with pytest.raises(Unreachable, match="its certificate is not trusted"):
                await client.request("GET", "/x")


async def test_a_connection_that_breaks_is_worth_another_try() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    listener = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener, talking(FakeSource(ClientCredentials(url, None))) as client:
        with pytest.raises(Unreachable) as caught:
            await client.request("POST", "/x", body={})
        assert caught.value.broken


async def test_no_answer_in_time() -> None:
    async with serving() as server, talking(FakeSource(ClientCredentials(server.url, None))) as client:
        silence = asyncio.Event()
        server.answers = [(200, silence)]
        with pytest.raises(Unreachable, match=r"no answer within 0\.01 s"):
            await client.request("GET", "/x", timeout=0.01)
        silence.set()


def _server_context(folder: Path, pair: Any) -> ssl.SSLContext:
    (folder / "tls.crt").write_bytes(pair.cert_pem)
    (folder / "tls.key").write_bytes(pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


class TestInCluster:
    environment: Mapping[str, str] = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    def folder(self, path: Path) -> Path:
        (path / "token").write_text("secret\n")
        (path / "ca.crt").write_bytes(new_ca("a", NOW).cert_pem)
        return path

    async def test_credentials(self, tmp_path: Path) -> None:
        source = InClusterSource(self.environment, self.folder(tmp_path))
        found = await source.load()
        assert (found.server, found.authorization) == ("https://10.0.0.1:443", "Bearer secret")
        assert "secret" not in repr(found)
        assert not source.changed()

    async def test_ipv6(self, tmp_path: Path) -> None:
        source = InClusterSource({**self.environment, "KUBERNETES_SERVICE_HOST": "fd00::1"}, self.folder(tmp_path))
        assert (await source.load()).server == "https://[fd00::1]:443"

    async def test_a_replaced_token_is_seen_and_the_tls_context_stays(self, tmp_path: Path) -> None:
        source = InClusterSource(self.environment, self.folder(tmp_path))
        first = await source.load()
        (tmp_path / "new").write_text("other")
        (tmp_path / "new").replace(tmp_path / "token")
        assert source.changed()
        second = await source.load()
        assert second.authorization == "Bearer other"
        assert second.tls is first.tls
        (tmp_path / "ca.crt").write_bytes(new_ca("b", NOW).cert_pem)
        assert (await source.load()).tls is not first.tls

    async def test_refusals_say_what_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"not in a cluster: .*give a kubeconfig"):
            await InClusterSource({}, tmp_path).load()
        with pytest.raises(ConfigurationError, match="token: No such file"):
            await InClusterSource(self.environment, tmp_path).load()
        (self.folder(tmp_path) / "token").write_text("")
        with pytest.raises(ConfigurationError, match="token is empty"):
            await InClusterSource(self.environment, tmp_path).load()
        self.folder(tmp_path)
        (tmp_path / "ca.crt").write_text("rubbish")
        with pytest.raises(ConfigurationError, match="unusable certificates"):
            await InClusterSource(self.environment, tmp_path).load()


def kubeconfig(user: dict[str, Any], cluster: dict[str, Any]) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    return yaml.safe_dump(config)


class TestKubeconfig:
    def write(self, path: Path, user: dict[str, Any], cluster: dict[str, Any]) -> str:
        path.write_text(kubeconfig(user, cluster))
        return str(path)

    async def test_token(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "config", {"token": "t"}, {"server": "http://127.0.0.1:1/"})
        found = await KubeconfigSource(path).load()
        assert (found.server, found.authorization, found.tls) == ("http://127.0.0.1:1", "Bearer t", None)

    async def test_ca_and_server_name(self, tmp_path: Path) -> None:
        (tmp_path / "ca.crt").write_bytes(new_ca("a", NOW).cert_pem)
        cluster = {"server": "https://x:1", "certificate-authority": "ca.crt", "tls-server-name": "y"}
        source = KubeconfigSource(self.write(tmp_path / "config", {"token": "t"}, cluster))
        first, second = await source.load(), await source.load()
        assert first.server_name == "y"
        assert first.tls is not None
        assert first.tls.verify_mode is ssl.CERT_REQUIRED
        assert first.tls is second.tls, "connections are pooled by the context"

    async def test_an_exec_plugin_runs_anew_at_each_load(self, tmp_path: Path) -> None:
        credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-plugin"}}'
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [credential]}
        path = self.write(tmp_path / "config", {"exec": plugin}, {"server": "https://x:1"})
        assert (await KubeconfigSource(path).load()).authorization == "Bearer from-plugin"

    async def test_a_changed_file_is_seen(self, tmp_path: Path) -> None:
        source = KubeconfigSource(self.write(tmp_path / "config", {"token": "t"}, {"server": "http://x:1"}))
        await source.load()
        assert not source.changed()
        self.write(tmp_path / "config", {"token": "another"}, {"server": "http://x:1"})
        assert source.changed()

    async def test_renewed_files_that_it_names_are_seen(self, tmp_path: Path) -> None:
        ca = new_ca("a", NOW)
        (tmp_path / "ca.crt").write_bytes(ca.cert_pem)
        (tmp_path / "token").write_text("one")

        def put(name: str) -> None:
            pair = issue_serving(ca, [name], [], NOW)
            (tmp_path / "c.crt").write_bytes(pair.cert_pem)
            (tmp_path / "c.key").write_bytes(pair.key_pem)

        put("first")
        user = {"client-certificate": "c.crt", "client-key": str(tmp_path / "c.key"), "tokenFile": "token"}
        cluster = {"server": "https://x:1", "certificate-authority": "ca.crt"}
        source = KubeconfigSource(self.write(tmp_path / "config", user, cluster))
        first = await source.load()
        assert (source.changed(), first.authorization) == (False, "Bearer one")
        (tmp_path / "token").write_text("two")
        assert source.changed()
        second = await source.load()
        assert (source.changed(), second.authorization, second.tls) == (False, "Bearer two", first.tls)
        put("second")
        assert source.changed()
        third = await source.load()
        assert not source.changed()
        assert third.tls is not first.tls, "a new context has the new certificate, and its own connections"
        (tmp_path / "ca.crt").write_bytes(new_ca("b", NOW).cert_pem)
        assert source.changed()
        assert (await source.load()).tls is not third.tls
        (tmp_path / "c.key").write_bytes(b"half written")
        assert source.changed()
        with pytest.raises(ConfigurationError, match="unusable certificates"):
            await source.load()
        assert not source.changed()

    async def test_what_is_odd_in_a_kubeconfig_names_no_files(self, tmp_path: Path) -> None:
        for content in ("[]", "users: 1", "users: [1, {user: 1}, {user: {tokenFile: 1}}]", "clusters: {a: b}", "a: [", "\0"):
            (tmp_path / "config").write_text(content)
            with pytest.raises(ConfigurationError):
                await KubeconfigSource(str(tmp_path / "config")).load()

    @pytest.mark.parametrize(
        ("content", "text"),
        [
            pytest.param(None, "no kubeconfig at", id="missing"),
            pytest.param("apiVersion: v1\nkind: Config\n", "config: Invalid kube-config", id="empty"),
        ],
    )
    async def test_refusals(self, tmp_path: Path, content: str | None, text: str) -> None:
        if content is not None:
            (tmp_path / "config").write_text(content)
        with pytest.raises(ConfigurationError, match=text):
            await connect(str(tmp_path / "config"), "aggserver/test")


async def test_post_sends_to_the_very_url_and_ignores_the_answer() -> None:
    async with serving() as server, talking(FakeSource(ClientCredentials(f"{server.url}/events", None, "Bearer t"))) as client:
        server.answers = [(200, [b"no ", b"JSON"])]
        await client.post(b'{"a": 1}', 30.0)
        assert (server.seen, server.bodies) == ([("POST", "/events?timeout=30s", "Bearer t")], [b'{"a": 1}'])
        assert server.content_types == ["application/json"]
        server.answers = [(500, {"kind": "Status", "message": "broken"})]
        with pytest.raises(ClusterError, match="broken"):
            await client.post(b"{}", 30.0)
