"""Websockets over real sockets, byte for byte: the handshake, what clients say, and every way in which one ends."""

from __future__ import annotations

import asyncio
import logging

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Message, Ping, Pong, TextMessage
from wsproto.frame_protocol import FrameProtocol

from aggserver.server.serving import Server, bind
from tests.server.clients import close
from tests.waiting import HANG_SECONDS

HEAD = (
    b"GET /a%20path?watch=1 HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"sec-websocket-extensions: permessage-deflate\r\n\r\n"
)
# RFC 6455, 1.3, has this key and what is made of it.
ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\n"
    b"upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
)
EVENT = b"\x81\x05event"


class App:
    """Streams `events`, and more for as long as `release` is not set; then it ends as `ending` says."""

    def __init__(self, ending=None, *, accept=True):
        self.ending = ending or {"type": "websocket.close"}
        self.accept = accept
        self.scope = None
        self.asked = asyncio.Event()
        self.decided = asyncio.Event()
        self.release = asyncio.Event()
        self.received = []
        self.sent = 0
        if accept:
            self.decided.set()

    async def __call__(self, scope, receive, send):
        self.scope = scope
        self.asked.set()
        self.received.append((await receive())["type"])
        await self.decided.wait()
        await send({"type": "websocket.accept", "subprotocol": None})
        await send({"type": "websocket.send", "text": "event"})
        gone, stop = asyncio.ensure_future(receive()), asyncio.ensure_future(self.release.wait())
        await asyncio.wait((gone, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if gone.done():
            self.received.append(gone.result()["type"])
        elif isinstance(self.ending, Exception):
            gone.cancel()
            raise self.ending
        else:
            gone.cancel()
            await send(self.ending)


class Running:
    """A server of `app` for the length of an `async with`, and one connection to it, on which HEAD was sent."""

    def __init__(self, app, early=b""):
        self.app = app
        self.early = early
        self.server = Server(
            app, [bind("127.0.0.1", 0)], None, on_stopping=lambda: None, on_shutdown=lambda: app.release.set(), grace=HANG_SECONDS
        )

    async def __aenter__(self):
        self.task = asyncio.ensure_future(self.server.run())
        await self.server.listening.wait()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        self.writer.write(HEAD + self.early)
        return self

    async def __aexit__(self, *_):
        await close(self.writer)
        self.server.request_stop()
        await asyncio.wait_for(self.task, HANG_SECONDS)

    async def head(self):
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), HANG_SECONDS)

    async def exactly(self, expected):
        assert await asyncio.wait_for(self.reader.readexactly(len(expected)), HANG_SECONDS) == expected

    async def rest(self):
        return await asyncio.wait_for(self.reader.read(), HANG_SECONDS)

    async def over(self):
        """The server knows that the websocket is over, and holds nothing of it."""
        async with asyncio.timeout(HANG_SECONDS):
            while self.server._connections:  # noqa: ASYNC110  the end comes by the kernel
                await asyncio.sleep(0)


def masked(event):
    """As a client sends it."""
    return bytes(Connection(ConnectionType.CLIENT).send(event))


async def test_the_handshake():
    async with Running(App()) as running:
        head = await running.head()
        assert head.startswith(ACCEPTED)
        assert b"permessage-deflate" not in head
        await running.exactly(EVENT)
        scope = running.app.scope
        assert (scope["type"], scope["path"], scope["query_string"]) == ("websocket", "/a path", b"watch=1")
        assert (b"upgrade", b"WebSocket") in scope["headers"]
        assert scope["state"] == {"peer_certificate": None, "knew_all_cas": True}


async def test_the_end():
    async with Running(App()) as running:
        await running.head()
        await running.exactly(EVENT)
        running.app.release.set()
        assert await running.rest() == b"\x88\x02\x03\xe8"
        await running.over()


async def test_the_end_at_a_stop():
    async with Running(App()) as running:
        await running.head()
        await running.exactly(EVENT)
        running.server.request_stop()
        assert await running.rest() == b"\x88\x02\x03\xe8"
        await running.over()


async def test_a_failure_half_way(caplog):
    async with Running(App(RuntimeError("on purpose"))) as running:
        await running.head()
        await running.exactly(EVENT)
        running.app.release.set()
        assert await running.rest() == b"\x88\x02\x03\xf3"  # 1011, internal error
        await running.over()
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage() == "the application failed on websocket /a path"


async def test_no_answer_at_all(caplog):
    class Failing(App):
        async def __call__(self, scope, receive, send):
            raise RuntimeError("on purpose")

    async with Running(Failing()) as running:
        assert (await running.rest()).startswith(b"HTTP/1.1 500")
        await running.over()


async def test_a_refusal_is_plain_http():
    class Refusing(App):
        async def __call__(self, scope, receive, send):
            headers = [(b"content-length", b"6"), (b"x", b"y")]
            await send({"type": "websocket.http.response.start", "status": 403, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": b"for", "more_body": True})
            await send({"type": "websocket.http.response.body", "body": b"bid"})

    async with Running(Refusing(), masked(Ping())) as running:
        answer = await running.rest()
        assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 6\r\nx: y\r\nconnection: close\r\n")
        assert answer.endswith(b"\r\n\r\nforbid")
        await running.over()


SAID = {
    # what the client says: what the server answers
    "ping": (masked(Ping(b"hi")), b"\x8a\x02hi"),
    "text": (masked(TextMessage("x" * 100)) + masked(Ping()), b"\x8a\x00"),
    "megabytes": (masked(TextMessage("x" * 3_000_000)) + masked(Ping()), b"\x8a\x00"),
    "pieces": (masked(Message("a", message_finished=False)) + masked(Ping()), b"\x8a\x00"),
    "pong": (masked(Pong()) + masked(Ping()), b"\x8a\x00"),
}


@pytest.mark.parametrize(("said", "answered"), SAID.values(), ids=SAID)
async def test_what_clients_say_is_dropped(said, answered):
    async with Running(App()) as running:
        await running.head()
        await running.exactly(EVENT)
        running.writer.write(said)
        await running.exactly(answered)
        assert running.app.received == ["websocket.connect"], "the application has no use for it"


@pytest.mark.parametrize("frame", [pytest.param(b"\x89\x80", id="pings"), pytest.param(b"\x82\x80", id="empty messages")])
async def test_others_get_their_turn_in_a_flood(monkeypatch, frame):
    """64 KB hold ten thousand frames."""
    handled = [0]
    received_frames = FrameProtocol.received_frames

    def counted(self):
        for found in received_frames(self):
            handled[-1] += 1
            yield found

    def turn():
        handled.append(0)
        ticking[0] = loop.call_soon(turn)

    monkeypatch.setattr(FrameProtocol, "received_frames", counted)
    loop = asyncio.get_running_loop()
    ticking = [loop.call_soon(turn)]
    async with Running(App()) as running:
        await running.head()
        await running.exactly(EVENT)
        running.writer.write((frame + bytes(4)) * 5_000 + masked(Ping(b"last")))
        await asyncio.wait_for(running.reader.readuntil(b"last"), HANG_SECONDS)
    ticking[0].cancel()
    assert sum(handled) > 5_000
    assert max(handled) <= 100


ENDED = {
    "close": (masked(CloseConnection(code=1000, reason="bye")), b"\x88\x05\x03\xe8bye"),
    "close without a code": (b"\x88\x80" + bytes(4), b"\x88\x00"),
    "garbage": (b"\xff" * 50, b"\x88"),
    "unmasked": (b"\x81\x01x", b"\x88"),
    "long ping": (b"\x89\xfe\x01\x00" + bytes(4 + 256), b"\x88"),
    "not text": (b"\x81\x82" + bytes(4) + b"\xff\xfe", b"\x88"),
    "a frame of exabytes": (b"\x82\xff" + b"\xff" * 8 + bytes(4), b"\x88"),
}


@pytest.mark.parametrize(("said", "answered"), ENDED.values(), ids=ENDED)
async def test_clients_end_it(said, answered, caplog):
    async with Running(App()) as running:
        await running.head()
        await running.exactly(EVENT)
        running.writer.write(said)
        assert (await running.rest()).startswith(answered)
        assert running.app.received == ["websocket.connect", "websocket.disconnect"]
        await running.over()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_lost_connection_ends_it():
    async with Running(App()) as running:
        await running.head()
        running.writer.transport.abort()
        await running.over()
        assert running.app.received == ["websocket.connect", "websocket.disconnect"]


async def test_a_hasty_client_is_answered_after_the_handshake():
    async with Running(App(accept=False), masked(Ping(b"hi"))) as running:
        await running.app.asked.wait()
        running.app.decided.set()
        assert (await running.head()).startswith(ACCEPTED)
        assert b"\x8a\x02hi" in await asyncio.wait_for(running.reader.readexactly(len(EVENT) + 4), HANG_SECONDS)


async def test_a_client_that_does_not_read_holds_up_its_application_alone():
    class Flooding(App):
        async def __call__(self, scope, receive, send):
            await send({"type": "websocket.accept"})
            while not self.release.is_set():
                await send({"type": "websocket.send", "text": "x" * 60_000})
                self.sent += 1
                await asyncio.sleep(0)  # others have their turn even while the kernel takes everything

    async with Running(Flooding()) as running:
        await running.head()
        sent = -1
        while sent != running.app.sent:
            sent = running.app.sent
            for _ in range(1000):
                await asyncio.sleep(0)
        assert sent * 60_000 < 64 << 20, "kernel's buffers, and no more"
        running.writer.transport.abort()
        running.app.release.set()
        await running.over()
