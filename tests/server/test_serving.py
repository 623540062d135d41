"""The server over real sockets: requests, bodies and answers of HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hyperframe.frame import DataFrame

from aggserver.server.http1 import reason_phrase
from aggserver.server.requests import STREAM_WINDOW, Inbox
from aggserver.server.serving import bind
from tests.server.clients import http1, tls_context
from tests.server.running import CA, GET, App, Running, eventually
from tests.waiting import HANG_SECONDS


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
    b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\ncontent-length: 0\r\n": (b"200 OK", b""),
    b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 0, 0\r\n": (b"400 Bad Request", b"400 Bad Request"),
    b"GET / HTTP/1.1\r\nhost: a\r\nContent-Length: 0\r\nContent-Length:\t0,0\r\n": (b"400 Bad Request", b"400 Bad Request"),
    b"GET / HTTP/1.1\r\nhost: a\r\nContent-Length: 0\r\n ,0\r\n": (b"400 Bad Request", b"400 Bad Request"),
    b"GET / HTTP/1.1\r\nhost: a\r\na: Content-Length: 0, 0\r\ncontent-length: 0\r\n": (b"200 OK", b""),
    b"GET / HTTP/1.1\r\nhost: a\r\nexpect: 200-ok\r\n": (b"417 Expectation Failed", b""),
    b"GET / HTTP/1.0\r\nexpect: x-100-continue\r\n": (b"417 Expectation Failed", b""),
    b"GET / HTTP/1.0\r\nexpect: 200-ok, 100-Continue\r\n": (b"200 OK", b""),
    b"GET / HTTP/1.1\r\nhost: a\r\nexpect:\r\n": (b"200 OK", b""),
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
        assert running.app.asked == (status == b"200 OK")
        await eventually(lambda: not running.server._connections)


@pytest.mark.parametrize("lengths", [b"2, 2", b"2"])
async def test_a_list_of_lengths_in_the_body_is_none_of_the_head(lengths):
    """Also in a head that arrives in two parts, and in the second request of a connection."""
    async with Running(tls=False) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        for part in (
            b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 25\r\n\r\n\ncontent-length: 2, 2\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-len",
            b"gth: %s\r\nconnection: close\r\n\r\nab" % lengths,
        ):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        answer = await asyncio.wait_for(reader.read(), HANG_SECONDS)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert (b"HTTP/1.1 400 Bad Request\r\n" in answer) is (lengths == b"2, 2")


async def test_methods_in_lower_case_are_others():
    methods = []

    class Noting(App):
        async def __call__(self, scope, receive, send):
            methods.append(scope["method"])
            await super().__call__(scope, receive, send)

    async with Running(tls=False, app=Noting()) as running:
        await http1(running.port, (GET % b"/").replace(b"GET", b"gEt"))
    async with Running(app=Noting()) as running:
        client = await running.http2()
        await client.response(client.request("/", method="gEt"))
    assert methods == ["gEt", "gEt"]


async def test_others_get_their_turn_among_many_chunks(monkeypatch):
    """64 KB of chunks of one byte are ten thousand events."""
    handled: list[int] = [0]
    put = Inbox.put

    def counted(self, event):
        handled[-1] += 1
        put(self, event)

    def turn():
        handled.append(0)
        ticking[0] = loop.call_soon(turn)

    monkeypatch.setattr(Inbox, "put", counted)
    loop = asyncio.get_running_loop()
    ticking = [loop.call_soon(turn)]
    async with Running(tls=False) as running:
        head = b"POST /echo HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        answer = await http1(running.port, head + b"1\r\na\r\n" * 5_000 + b"0\r\n\r\n")
        assert answer.endswith(b"5000")
    ticking[0].cancel()
    assert sum(handled) > 5_000
    assert max(handled) <= 100


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


def test_a_port_is_shared_where_both_allow_it():
    with bind("127.0.0.1", 0, shared=True) as first:
        port = first.getsockname()[1]
        with bind("127.0.0.1", port, shared=True) as second:
            assert second.getsockname()[1] == port
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", port)


async def test_streams_of_a_connection():
    async with Running(max_streams=3) as server:
        client = await server.http2()
        await client.get("/ok")
        assert client.h2.remote_settings.max_concurrent_streams == 3


def test_bind():
    with bind("127.0.0.1", 0) as first:
        assert first.getsockname()[1] > 0
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", first.getsockname()[1])
