"""The server over real sockets: protocols, client certificates, clients that misbehave, and the way it stops."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from hyperframe.frame import DataFrame

from aggserver.authentication.x509 import Roots, verify
from aggserver.certificates.issuing import KeyPair, issue_client, issue_serving, new_ca
from aggserver.server import serving
from aggserver.server.connection import EngineConfig
from aggserver.server.http1 import reason_phrase
from aggserver.server.requests import STREAM_WINDOW
from aggserver.server.serving import Server, bind, loop_factory
from aggserver.server.tls import TLSConfig
from tests.server.clients import PATIENCE, HTTP2Client, close, http1, tls_context

NOW = time.time()
CA = new_ca("serving-ca", NOW)
CLIENT_CA = new_ca("client-ca", NOW)
PROXY_CA = new_ca("front-proxy-ca", NOW)
PAIR = issue_serving(CA, ["localhost"], ["127.0.0.1"], NOW)
GET = b"GET %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": loop_factory() or pytest.param(None, marks=pytest.mark.skip)}


class App:
    """An application whose paths are behaviours; `asked` counts requests, `ended` says how they ended."""

    def __init__(self):
        self.peers = []
        self.asked = 0
        self.ended = []
        self.stopping = asyncio.Event()
        self.release = asyncio.Event()
        self.started = asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.asked += 1
        behaviour = getattr(self, scope["path"].strip("/") or "ok")
        await behaviour(scope, receive, send)

    async def answer(self, send, body=b"ok", status=200):
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def ok(self, scope, receive, send):
        self.peers.append(scope["state"]["peer_certificate"])
        await self.answer(send, scope["http_version"].encode())

    async def echo(self, scope, receive, send):
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        await self.answer(send, b"%d" % len(body))

    async def refuse(self, scope, receive, send):
        """Answers without a look at the body."""
        await self.answer(send, b"too large", 413)

    async def stall(self, scope, receive, send):
        """Leaves the body alone until released."""
        self.started.set()
        await self.release.wait()
        await self.echo(scope, receive, send)

    async def slow(self, scope, receive, send):
        self.started.set()
        await self.release.wait()
        await self.answer(send, b"slow")

    async def large(self, scope, receive, send):
        await self.answer(send, b"x" * 3_000_000)

    async def endless(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})

    async def last(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"last"})

    async def watch(self, scope, receive, send):
        """Streams one event, then ends at shutdown or when the client goes away."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"event\n", "more_body": True})
        self.started.set()
        gone, stop = asyncio.ensure_future(self.disconnected(receive)), asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait((gone, stop), return_when=asyncio.FIRST_COMPLETED)
        self.ended.append("client" if gone.done() else "shutdown")
        for task in (gone, stop):
            task.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def disconnected(self, receive):
        while (await receive())["type"] != "http.disconnect":
            pass
        assert (await receive())["type"] == "http.disconnect", "it stays that way"

    async def half(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("on purpose")


class Running:
    """A server for the length of an `async with`."""

    def __init__(self, tls=True, app=None, **options):
        self.app = app or App()
        self.tls = TLSConfig() if tls else None
        if self.tls:
            self.tls.update(cert_pem=PAIR.cert_pem, key_pem=PAIR.key_pem, client_ca_pem=CLIENT_CA.cert_pem + PROXY_CA.cert_pem)
        self.order = []
        self.server = Server(
            self.app, [bind("127.0.0.1", 0)], self.tls, on_stopping=self.on_stopping, on_shutdown=self.on_shutdown, **options
        )
        self.port = self.server.port
        self.clients = []

    def on_stopping(self):
        self.order.append("stopping")

    def on_shutdown(self):
        self.order.append("shutdown")
        if isinstance(self.app, App):
            self.app.stopping.set()

    async def __aenter__(self):
        self.task = asyncio.ensure_future(self.server.run())
        await self.server.listening.wait()
        return self

    async def __aexit__(self, *_):
        if isinstance(self.app, App):
            self.app.release.set()
        self.server.request_stop()
        for client in self.clients:
            await client.close()
        await asyncio.wait_for(self.task, PATIENCE)

    async def stopped(self):
        await asyncio.wait_for(self.task, PATIENCE)

    async def http2(self, receive_buffer=0, **options):
        client = await HTTP2Client.connect(self.port, tls_context(CA.cert_pem, **options), receive_buffer)
        self.clients.append(client)
        return client


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_client_certificates_reach_the_application(factory, tmp_path):
    async def main():
        async with Running() as running:
            for ca, name in ((CLIENT_CA, "alice"), (PROXY_CA, "front-proxy-client")):
                pair = issue_client(ca, name, ["group"], NOW)
                context = tls_context(CA.cert_pem, alpn=["http/1.1"], client=pair, tmp_path=tmp_path)
                assert (await http1(running.port, GET % b"/", context)).endswith(b"\r\n\r\n1.1")
                client = await running.http2(client=pair, tmp_path=tmp_path)
                for _ in range(3):
                    assert (await client.get())["body"] == b"2"
                http1_peer, *http2_peers = running.app.peers
                for peer in (http1_peer, *http2_peers):
                    assert verify(peer, Roots.from_pem(ca.cert_pem), NOW).common_name == name
                assert len(set(map(id, http2_peers))) == 1, "one per connection"
                running.app.peers.clear()
            assert b"200" in await http1(running.port, GET % b"/", tls_context(CA.cert_pem, alpn=["http/1.1"]))
            assert running.app.peers == [None]

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_certificates_change_while_listening(factory, tmp_path):
    async def main():
        new_serving_ca = new_ca("another", NOW)
        pair = issue_serving(new_serving_ca, ["localhost"], [], NOW)
        alice = issue_client(CLIENT_CA, "alice", [], NOW)
        async with Running() as running:
            old = await running.http2(client=alice, tmp_path=tmp_path)
            assert (await old.get())["status"] == 200
            running.tls.update(cert_pem=pair.cert_pem, key_pem=pair.key_pem, client_ca_pem=PROXY_CA.cert_pem)
            with pytest.raises(ssl.SSLCertVerificationError):
                await running.http2()
            trusting = tls_context(new_serving_ca.cert_pem, alpn=["http/1.1"])
            assert b"200" in await http1(running.port, GET % b"/", trusting)
            refused = tls_context(new_serving_ca.cert_pem, alpn=["http/1.1"], client=alice, tmp_path=tmp_path)
            assert not await answer_if_any(running.port, refused)
            assert running.app.asked == 2
            assert (await old.get())["status"] == 200, "connections live on"

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


async def answer_if_any(port, context):
    """In TLS 1.3 a refused client learns of it when it reads, and not in the same way from every event loop."""
    try:
        return await http1(port, GET % b"/", context)
    except OSError:
        return b""


async def test_intermediates_are_passed_on(tmp_path):
    from tests.authentication.test_x509 import CLIENT_AUTH, IS_CA, Issued

    root = Issued("root", extensions=[IS_CA], start=NOW - 60, end=NOW + 3600)
    middle = Issued("middle", root, extensions=[IS_CA], start=NOW - 60, end=NOW + 3600)
    leaf = Issued("alice", middle, extensions=[CLIENT_AUTH], start=NOW - 60, end=NOW + 3600)

    class Chain:
        cert_pem = leaf.pem + middle.pem
        key_pem = pem_key(leaf.key)

    async with Running() as running:
        running.tls.update(client_ca_pem=root.pem)
        context = tls_context(CA.cert_pem, alpn=["http/1.1"], client=Chain, tmp_path=tmp_path)
        assert b"200" in await http1(running.port, GET % b"/", context)
        assert verify(running.app.peers[0], Roots.from_pem(root.pem), NOW).common_name == "alice"


def pem_key(key):
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


async def test_plain_http_without_tls():
    async with Running(tls=False) as running:
        answer = await http1(running.port, GET % b"/")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\ndate: " in answer
    assert b"server:" not in answer.lower()


async def test_more_requests_on_a_connection_than_hypercorn_allows():
    async with Running() as running:
        client = await running.http2()
        for _ in range(12):
            streams = [client.request() for _ in range(100)]
            for stream in streams:
                assert (await client.response(stream))["status"] == 200
        assert running.app.asked == 1200
        assert client.goaway is None


async def test_keep_alive():
    async with Running(tls=False) as running:
        keep = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
        answer = await http1(running.port, keep * 1200 + GET % b"/")
        assert answer.count(b"HTTP/1.1 200") == 1201


async def test_large_answers():
    async with Running() as running:
        client = await running.http2()
        bodies = [await client.response(stream) for stream in [client.request("/large") for _ in range(3)]]
        assert {len(got["body"]) for got in bodies} == {3_000_000}
        assert (await http1(running.port, GET % b"/large", tls_context(CA.cert_pem, alpn=["http/1.1"]))).endswith(
            b"x" * 3_000_000
        )


async def test_bodies_arrive():
    async with Running() as running:
        client = await running.http2()
        stream = client.request("/echo", method="POST", end=False)
        sent = 0
        while sent < 2_000_000:
            await client.until(lambda: client.h2.local_flow_control_window(stream) > 0)
            size = min(client.h2.local_flow_control_window(stream), client.h2.max_outbound_frame_size, 2_000_000 - sent)
            client.send(stream, b"x" * size, end=sent + size == 2_000_000)
            sent += size
        assert (await client.response(stream))["body"] == b"2000000"


async def test_an_unread_body_is_bounded_and_harms_no_neighbour():
    async with Running() as running:
        client = await running.http2()
        stalled = client.request("/stall", method="POST", end=False)
        await client.get()  # the server's settings have come
        sent = 0
        while (room := client.h2.local_flow_control_window(stalled)) > 0:
            size = min(room, client.h2.max_outbound_frame_size)
            client.send(stalled, b"x" * size)
            sent += size
        assert sent == STREAM_WINDOW
        assert (await client.get())["status"] == 200
        running.app.release.set()
        await client.until(lambda: client.h2.local_flow_control_window(stalled) > 0)
        client.send(stalled, b"", end=True)
        assert (await client.response(stalled))["body"] == b"%d" % sent


async def test_an_early_answer_harms_no_neighbour():
    """The client is told to send no more (RFC 9113, 8.1); what is under way is dropped, and its window given back."""
    async with Running() as running:
        client = await running.http2()
        watch = client.request("/watch")
        refused = client.request("/refuse", method="POST", end=False)
        await client.until(lambda: client.received[refused]["ended"] == "reset 0")
        assert (client.received[refused]["status"], client.received[refused]["body"]) == (413, b"too large")
        for _ in range(2000):
            client.writer.write(DataFrame(refused, b"x" * 16_000).serialize())
        assert (await client.get())["status"] == 200
        assert client.received[watch]["ended"] is None


async def test_an_early_answer_on_http1():
    async with Running(tls=False) as running:
        head = b"POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n"
        assert (await http1(running.port, head + b"x" * 1000)).startswith(b"HTTP/1.1 413")


PLAIN = {":method": "GET", ":authority": "a", ":scheme": "https", ":path": "/"}
STRANGE_HEADS = {
    "no path": list((PLAIN | {":path": ""}).items()),
    "a space in the method": list((PLAIN | {":method": "GE T"}).items()),
    "upper case in a name": [*PLAIN.items(), ("Accept", "a")],
    "a line break in a value": [*PLAIN.items(), ("accept", "a\r\nx-remote-user: root")],
    "te that asks for more than trailers": [*PLAIN.items(), ("te", "trailers, deflate;q=0.5")],
    "a header of the connection": [*PLAIN.items(), ("transfer-encoding", "chunked")],
    "an unknown pseudo header": [*PLAIN.items(), (":user", "root")],
    "a pseudo header twice": [*PLAIN.items(), (":path", "/other")],
    "a pseudo header behind others": [("accept", "a"), *PLAIN.items()],
    "path that is not ASCII": [(":method", "GET"), (":authority", "a"), (":scheme", "https"), (":path", "/\u00e4")],
    "plain CONNECT": [(":method", "CONNECT"), (":authority", "a:1")],
    "websocket": [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":authority", "a"),
        (":scheme", "https"),
        (":path", "/watch"),
        ("sec-websocket-version", "13"),
    ],
}


@pytest.mark.parametrize("head", STRANGE_HEADS.values(), ids=STRANGE_HEADS)
async def test_a_strange_request_ends_alone(head, caplog):
    async with Running() as running:
        client = await running.http2()
        watch = client.request("/watch")
        stream = client.h2.get_next_available_stream_id()
        client.received[stream] = {"ended": None}
        client.h2.send_headers(stream, head)
        client.flush()
        await client.response(stream)
        assert client.received[stream]["ended"] == "reset 1"
        assert (await client.get())["status"] == 200
        assert client.received[watch]["ended"] is None
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


CLIENT_AUTH, ANY_USAGE = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE
PURPOSES = {
    "client": ([CLIENT_AUTH], True),
    "client and any": ([CLIENT_AUTH, ANY_USAGE], True),
    "any": ([ANY_USAGE], False),
    "server": ([ExtendedKeyUsageOID.SERVER_AUTH], False),
}


@pytest.mark.parametrize(("usages", "accepted"), PURPOSES.values(), ids=PURPOSES)
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_purposes_of_client_certificates(factory, usages, accepted, tmp_path, caplog):
    """OpenSSL wants clientAuth by its name, and Python can't tell it otherwise: at least it is said, and not too often."""
    from tests.authentication.test_x509 import IS_CA, Issued

    span = {"start": NOW - 60, "end": NOW + 3600}
    root = Issued("front-proxy-ca", extensions=[IS_CA], **span)
    leaf = Issued("front-proxy-client", root, extensions=[(x509.ExtendedKeyUsage(usages), False)], **span)

    async def main():
        async with Running() as running:
            running.tls.update(client_ca_pem=root.pem)
            proxy = KeyPair(leaf.pem, pem_key(leaf.key))
            context = tls_context(CA.cert_pem, alpn=["http/1.1"], client=proxy, tmp_path=tmp_path)
            for _ in range(3):
                answer = await answer_if_any(running.port, context)
                assert (b" 200 " in answer) is accepted

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    text = "a client's certificate was refused in the handshake: unsuitable certificate purpose: its extended key usage must have"
    assert warnings == ([] if accepted else [f"{text} clientAuth"])


GARBAGE = {
    "plain HTTP to the TLS port": GET % b"/",
    "noise": bytes(range(256)) * 4,
    "nothing": b"",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_broken_handshakes_are_silent(factory, garbage, caplog):
    async def main():
        async with Running() as running:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(garbage)
            if garbage:
                await asyncio.wait_for(reader.read(), PATIENCE)
            await close(writer)
            assert b"200" in await http1(running.port, GET % b"/", tls_context(CA.cert_pem, alpn=["http/1.1"]))

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


BROKEN_AFTER_HANDSHAKE = {
    "not HTTP/2": (["h2"], b"\x00" * 100),
    "not HTTP/1.1": (["http/1.1"], b"\x01\x02\x03\r\n\r\n"),
    "half a head": (["http/1.1"], b"GET / HT"),
    "endless head": (["http/1.1"], b"GET / HTTP/1.1\r\na: " + b"x" * 200_000),
}


@pytest.mark.parametrize(("alpn", "sent"), BROKEN_AFTER_HANDSHAKE.values(), ids=BROKEN_AFTER_HANDSHAKE)
async def test_broken_clients_are_silent(alpn, sent, caplog):
    async with Running() as running:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", running.port, ssl=tls_context(CA.cert_pem, alpn=alpn), server_hostname="localhost"
        )
        writer.write(sent)
        await writer.drain()
        writer.transport.abort()
        client = await running.http2()
        assert (await client.get())["status"] == 200
        await close(writer)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_failure_half_way_ends_the_stream_alone(caplog):
    async with Running() as running:
        client = await running.http2()
        watch = client.request("/watch")
        got = await client.response(client.request("/half"))
        assert (got["status"], got["ended"]) == (200, "reset 2")
        assert client.received[watch]["ended"] is None
        assert (await client.get())["status"] == 200
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage() == "the application failed on GET /half"


async def test_the_application_learns_of_a_reset():
    async with Running() as running:
        client = await running.http2()
        watch = client.request("/watch")
        await client.until(lambda: client.received[watch]["body"])
        client.h2.reset_stream(watch)
        client.flush()
        assert (await client.get())["status"] == 200
        await eventually(lambda: running.app.ended)
        assert running.app.ended == ["client"]


async def test_the_application_learns_of_a_lost_connection():
    async with Running() as running:
        client = await running.http2()
        watch = client.request("/watch")
        await client.until(lambda: client.received[watch]["body"])
        client.writer.transport.abort()
        await eventually(lambda: running.app.ended)
        assert running.app.ended == ["client"]


@pytest.mark.parametrize("upgrade", [None, "h2c", "TLS/1.3", "websocket"])
async def test_a_lost_connection_of_http1(upgrade):
    """An upgrade that is ignored is no reason to stop listening. Without `connection: upgrade` that of a websocket is none."""
    wish = f"connection: {'x' if upgrade == 'websocket' else 'upgrade'}\r\nupgrade: {upgrade}\r\n" if upgrade else ""
    async with Running(tls=False) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(f"GET /watch HTTP/1.1\r\nhost: a\r\n{wish}\r\n".encode())
        await asyncio.wait_for(reader.readuntil(b"event\n"), PATIENCE)
        writer.transport.abort()
        await eventually(lambda: running.app.ended)
        assert running.app.ended == ["client"]


async def test_requests_after_an_ignored_upgrade():
    async with Running(tls=False) as running:
        first = b"POST /echo HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 3\r\n\r\nabc"
        answers = await http1(running.port, first + GET % b"/ok")
        assert answers.count(b"HTTP/1.1 200 ") == 2
        assert b"\r\n\r\n3HTTP/1.1" in answers


HEADS = {
    # what is sent: the status line, and the body where it is no answer of the application
    b"GET / HTTP/1.1\r\nhost: a\r\n": (b"200 OK", b""),
    b"GET / HTTP/1.0\r\n": (b"200 OK", b""),
    b"GET / HTTP/9.9\r\nhost: a\r\n": (
        b"505 HTTP Version Not Supported: unsupported protocol version",
        b"505 HTTP Version Not Supported: unsupported protocol version",
    ),
    b"GET / HTTP/1.1\r\n": (b"400 Bad Request: missing required Host header", b"400 Bad Request: missing required Host header"),
    b"GET / HTTP/1.2\r\n": (b"400 Bad Request: missing required Host header", b"400 Bad Request: missing required Host header"),
    b"GET / HTTP/1.1\r\nhost: a/b\r\n": (b"400 Bad Request: malformed Host header", b"400 Bad Request: malformed Host header"),
    b"GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n": (b"400 Bad Request", b"400 Bad Request"),
    b"GET / HTTP/1.1\r\nhost: a\r\nb: \x01\r\n": (b"400 Bad Request", b"400 Bad Request"),
    b"nonsense\r\n": (b"400 Bad Request", b"400 Bad Request"),
    b"GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: zip\r\n": (b"501 Not Implemented", b"Unsupported transfer encoding"),
}


@pytest.mark.parametrize("head", HEADS, ids=[head.decode("latin-1") for head in HEADS])
async def test_heads(head):
    status, body = HEADS[head]
    async with Running(tls=False) as running:
        last = b"" if body else b"connection: close\r\n"
        answer = await http1(running.port, head + last + b"\r\n" + b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")
        assert answer.count(b"HTTP/1.1 ") == 1, "what follows is not read"
        if body:
            assert answer.endswith(b"\r\n\r\n" + body)
            assert running.app.asked == 0
        await eventually(lambda: not running.server._connections)


def test_reason_phrases_are_go_s():
    """Some differ from Python's, and those from one Python to the next."""
    phrases = {
        200: b"OK",
        201: b"Created",
        413: b"Request Entity Too Large",
        415: b"Unsupported Media Type",
        422: b"Unprocessable Entity",
        429: b"Too Many Requests",
        504: b"Gateway Timeout",
        599: b"status code 599",
    }
    assert {code: reason_phrase(code) for code in phrases} == phrases


async def test_what_follows_the_last_request_holds_nothing():
    """A client that is answered with `connection: close` has sent another request already: nobody waits for that one's turn."""
    async with Running(tls=False) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        last = b"GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        writer.write(last + b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await running.app.started.wait()
        running.app.release.set()
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
        assert answer.count(b"HTTP/1.1 200 OK") == 1
        await eventually(lambda: not running.server._connections)
        assert running.app.asked == 1
        await close(writer)


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_a_stop_does_not_wait_for_idle_clients(factory, monkeypatch):
    """One that never looks at its connection does not say the end of TLS; all that it was sent arrives nevertheless."""
    monkeypatch.setattr(serving, "TLS_CLOSE_SECONDS", PATIENCE * 100)

    async def main():
        async with Running() as running:
            context = tls_context(CA.cert_pem, alpn=["http/1.1"])

            def ask():
                plain = socket.create_connection(("127.0.0.1", running.port), PATIENCE)
                client = context.wrap_socket(plain, server_hostname="localhost")
                client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                return client

            # Not by asyncio, which would look.
            client = await asyncio.to_thread(ask)
            await eventually(lambda: running.app.asked)
            (connection,) = running.server._connections.values()
            await eventually(lambda: connection._idle_since is not None)
            running.server.request_stop()
            await running.stopped()
            with client:
                assert (await asyncio.to_thread(client.recv, 65536)).endswith(b"\r\n\r\n1.1")
                assert await asyncio.to_thread(client.recv, 65536) == b"", "TLS ended in order"

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


async def eventually(condition):
    """Let real I/O happen until the condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  what is waited for is in another process' hands, as it were: the kernel's
            await asyncio.sleep(0)


async def test_idle_connections_are_closed():
    config = EngineConfig()
    config.keep_alive_timeout = 0  # type: ignore[assignment]
    async with Running(config=config) as running:
        client = await running.http2()
        with pytest.raises(AssertionError, match="the server closed the connection"):
            await client.until(lambda: False)


async def test_flood_of_resets(monkeypatch):
    monkeypatch.setattr("aggserver.server.http2.connection.MAX_REQUESTS_PER_CONNECTION", 50)
    async with Running() as running:
        client = await running.http2()
        for _ in range(100):
            client.h2.reset_stream(client.request("/slow"))
        client.flush()
        await client.until(lambda: client.goaway)
        assert client.goaway[0] == 11  # ENHANCE_YOUR_CALM
        assert running.app.asked <= 60


async def test_a_client_that_asks_and_does_not_read(monkeypatch):
    """The server stops reading: what it can't send is bounded. Data that comes too late is answered frame by frame."""
    monkeypatch.setattr("aggserver.server.connection.MAX_UNREAD", 256 * 1024)
    async with Running() as running:
        client = await running.http2(receive_buffer=16 * 1024)
        refused = client.request("/refuse", method="POST", end=False)
        assert (await client.response(refused))["status"] == 413
        late = DataFrame(refused, b"x" * 64).serialize() * 1000
        (connection,) = running.server._connections.values()
        unsent = connection._writer.transport.get_write_buffer_size
        for _ in range(2000):
            client.writer.write(late)
            await asyncio.sleep(0)
            if client.writer.transport.get_write_buffer_size() > 1_000_000:
                break
        assert client.writer.transport.get_write_buffer_size() > 1_000_000, "the server reads on"
        assert unsent() < 600_000
        client.writer.transport.abort()


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_a_stop_loses_nothing(factory, caplog):
    """Watches end properly, requests in flight finish, idle connections close, new ones are refused."""

    async def main():
        async with Running(grace=PATIENCE) as running:
            client, idle = await running.http2(), await running.http2()
            assert (await idle.get())["status"] == 200
            watch, slow = client.request("/watch"), client.request("/slow")
            await client.until(lambda: client.received[watch]["body"])
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", running.port, ssl=tls_context(CA.cert_pem, alpn=["http/1.1"]), server_hostname="localhost"
            )
            writer.write(b"GET /watch HTTP/1.1\r\nhost: a\r\n\r\n")
            await reader.readuntil(b"event\n")
            running.server.request_stop()
            got = await client.response(watch)
            assert (got["body"], got["ended"]) == (b"event\n", "end")
            assert (await asyncio.wait_for(reader.read(), PATIENCE)).endswith(b"0\r\n\r\n"), "the chunked body ends properly"
            await client.until(lambda: client.goaway is not None)
            assert client.goaway == (0, slow)
            await idle.until(lambda: idle.closed)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", running.port)
            running.app.release.set()
            got = await client.response(slow)
            assert (got["body"], got["ended"]) == (b"slow", "end")
            await close(writer)
            await running.stopped()
            assert running.order == ["stopping", "shutdown"]

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_readiness_fails_before_anything_is_refused():
    async with Running(shutdown_delay=PATIENCE) as running:
        client = await running.http2()
        running.server.request_stop()
        await eventually(lambda: running.order)
        assert running.order == ["stopping"]
        assert (await client.get())["status"] == 200
        assert b"200" in await http1(running.port, GET % b"/", tls_context(CA.cert_pem, alpn=["http/1.1"]))
        running.server.request_stop()  # the second time: don't wait
        await running.stopped()
        assert running.order == ["stopping", "shutdown"]


@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_what_does_not_finish_is_dropped(factory, caplog):
    async def main():
        async with Running(grace=0.01) as running:
            client = await running.http2()
            client.request("/slow")
            await eventually(running.app.started.is_set)
            running.server.request_stop()
            await running.stopped()
        assert "dropping 1 connections that did not finish" in caplog.text

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


async def test_a_second_stop_gives_up_waiting():
    async with Running(grace=PATIENCE * 100) as running:
        client = await running.http2()
        client.request("/slow")
        await eventually(running.app.started.is_set)
        running.server.request_stop()
        running.server.request_stop()
        await running.stopped()


def test_bind():
    with bind("127.0.0.1", 0) as first:
        assert first.getsockname()[1] > 0
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", first.getsockname()[1])
