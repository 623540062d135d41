"""A client of HTTP/2 without a socket: frames written by hand to an `HTTP2`, and what it writes back taken apart."""

from __future__ import annotations

import asyncio

from hpack import Encoder
from hyperframe.frame import Frame, GoAwayFrame, HeadersFrame, SettingsFrame

from aggserver.server.http2.connection import HTTP2
from aggserver.server.requests import Requests, never

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"a"), (b":path", b"/")]


def parsed(data):
    """The frames in it, which must be whole."""
    frames, data = [], memoryview(data)
    while data:
        frame, length = Frame.parse_frame_header(data[:9])
        frame.parse_body(data[9 : 9 + length])
        frames.append(frame)
        data = data[9 + length :]
    return frames


class Wire:
    """Keeps what is written."""

    def __init__(self):
        self.written = b""
        self.is_idle = True
        self.is_full = False

    def write(self, data):
        self.written += data

    async def drain(self):
        return None

    def idle(self, is_idle):
        self.is_idle = is_idle

    def date(self):
        return [(b"date", b"today")]


class Peer:
    """A connection with `app` behind it. `open()` sends the preface."""

    def __init__(self, app=None, at_once=never, **more):
        self.failures = []
        self.requests = Requests(asyncio.get_running_loop(), self.failures.append)
        self.wire = Wire()
        self.http2 = HTTP2(app or answer, self.requests, self.wire, {"type": "http", "http_version": "2"}, at_once, **more)
        self.encoder = Encoder()
        self.next_stream = 1

    async def open(self, settings=None):
        self.http2.initiate()
        assert await self.send(PREFACE, SettingsFrame(0, settings=settings or {}))
        self.take()
        return self

    async def send(self, *frames):
        """Returns whether the connection goes on. `connection.py` gives it its turns in the same way."""
        more = self.http2.receive(b"".join(frame if isinstance(frame, bytes) else frame.serialize() for frame in frames))
        while more:
            await asyncio.sleep(0)
            more = self.http2.receive(b"")
        await asyncio.sleep(0)
        return not self.http2.over

    def head(self, stream=0, headers=(), flags=("END_HEADERS", "END_STREAM")):
        """The HEADERS of a new request, or of `stream`."""
        if not stream:
            stream, self.next_stream = self.next_stream, self.next_stream + 2
        return HeadersFrame(stream, self.encoder.encode([*HEAD, *headers]), flags=flags)

    async def request(self, **options):
        """A request and its whole answer; the stream."""
        frame = self.head(**options)
        assert await self.send(frame)
        while frame.stream_id in self.http2._streams:  # noqa: ASYNC110  the application has its turns
            await asyncio.sleep(0)
        return frame.stream_id

    def take(self):
        """The frames written since the last look."""
        data, self.wire.written = self.wire.written, b""
        return parsed(data)

    def goaways(self):
        """(error code, last stream) of each GOAWAY written since the last look."""
        return [(frame.error_code, frame.last_stream_id) for frame in self.take() if isinstance(frame, GoAwayFrame)]


async def answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
