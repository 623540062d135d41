"""Sends response heads and bodies on one HTTP/2 connection, as far as flow control and the socket allow.

A body is sent by the request's own task, which waits when the client's window or the socket's buffer is full: there is no queue
of pieces and no sending task. A stream whose client takes nothing for STALL_SECONDS is reset, so that no response is held for
ever.
Sources: RFC 9113, 5.2 and 6.9.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from jh2.errors import ErrorCodes
from jh2.exceptions import ProtocolError
from jh2.hpack import NeverIndexedHeaderTuple

from aggserver.server.http2.allowance import CREDIT_PER_RESPONSE
from aggserver.server.http2.protocol import LimitedConnection
from aggserver.server.requests import STALL_SECONDS

__all__ = ["CLOSE", "OpenStream", "Sender", "Wire"]

log = logging.getLogger(__name__)

# Bytes of a body that are written before other requests get a turn.
WRITE_BYTES = 64 * 1024

# Headers whose value is new in nearly every response. They are kept out of the compression table, where each would replace
# another header.
UNIQUE_HEADERS = frozenset({b"audit-id", b"content-length", b"etag"})

# The header by which an application ends the connection after this response. HTTP/2 has no such header and uses GOAWAY; Go's
# server translates it in the same way.
CLOSE = (b"connection", b"close")


class Wire(Protocol):
    """The socket, as HTTP/2 needs it. `server/connection.py` is the implementation."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None:
        """Wait while the socket has too many unsent bytes. Raises nothing."""

    def idle(self, is_idle: bool) -> None:
        """Take note of whether no request is in progress. Called when a request begins, and when the last one has ended."""

    def date(self) -> list[tuple[bytes, bytes]]:
        """The Date header."""


class OpenStream(Protocol):
    """A stream whose body is being sent."""

    id: int
    closed: bool

    def stalled(self) -> None:
        """Called when the stream's client has taken nothing for STALL_SECONDS. Must close the stream, and must not raise."""


class Sender:
    """Sends on one connection. jh2 keeps the flow-control windows, and this class the tasks that wait for them to open."""

    def __init__(self, protocol: LimitedConnection, wire: Wire, loop: asyncio.AbstractEventLoop) -> None:
        self._protocol = protocol
        self._wire = wire
        self._loop = loop
        self._waiting: dict[int, asyncio.Future[None]] = {}  # by stream, until its window or the connection's opens

    def flush(self) -> None:
        if data := self._protocol.data_to_send():
            self._wire.write(data)

    def head(self, stream_id: int, status: int, headers: list[tuple[bytes, bytes]], *, ended: bool) -> None:
        """Encode a response's head; the next `flush` sends it. Raises ProtocolError if the stream is closed."""
        if CLOSE in headers:
            headers = [pair for pair in headers if pair != CLOSE]
        block = [(b":status", b"%d" % status)]
        block += [NeverIndexedHeaderTuple(*pair) if pair[0] in UNIQUE_HEADERS else pair for pair in headers]
        block += self._wire.date()
        self._protocol.send_headers(stream_id, block, end_stream=ended)
        self._protocol.allowance.earn(CREDIT_PER_RESPONSE)

    async def body(self, stream: OpenStream, data: bytes, *, ended: bool) -> None:
        """Send a part of a response's body, the last one if `ended`. Waits for the client's window and the socket.

        Raises ProtocolError if the stream or the connection is closed.
        """
        rest = memoryview(data)
        stalls_at = 0.0
        while True:
            room = self._protocol.local_flow_control_window(stream.id)
            if rest and room <= 0:
                stalls_at = stalls_at or self._loop.time() + STALL_SECONDS
                await self._room(stream, stalls_at)
            else:
                stalls_at = 0.0
                size = min(room, WRITE_BYTES)
                part, rest = rest[:size], rest[size:]
                self.flush()  # the head comes first
                self._wire.write(self._protocol.data_frames(stream.id, part, end_stream=ended and not rest))
                await self._wire.drain()
            if not rest or stream.closed:
                return

    async def _room(self, stream: OpenStream, stalls_at: float) -> None:
        """Wait until `wake` is called, which may happen before there is room."""
        self.flush()
        waiter = self._waiting[stream.id] = self._loop.create_future()
        timer = self._loop.call_at(stalls_at, self._stalled, stream)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiting.pop(stream.id, None)

    def _stalled(self, stream: OpenStream) -> None:
        log.info("resetting a stream: its client has taken nothing for %g s", STALL_SECONDS)
        self.reset(stream.id, ErrorCodes.CANCEL)
        stream.stalled()

    def wake(self, stream_id: int) -> None:
        """Wake the stream's task: its window may have room now, or the stream is closed."""
        waiter = self._waiting.get(stream_id)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def wake_all(self) -> None:
        """Wake all tasks: the connection's window, or the windows of all streams, may have room now."""
        for stream_id in self._waiting:
            self.wake(stream_id)

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """Send RST_STREAM. Does nothing if the stream or the connection is closed."""
        try:
            self._protocol.reset_stream(stream_id, code)
        except ProtocolError:
            return
        self.flush()

    def consumed(self, stream_id: int, size: int) -> None:
        """Let the client send `size` more bytes of a request's body, because the application has read as many."""
        try:
            self._protocol.acknowledge_received_data(size, stream_id)
        except ProtocolError:
            return  # the connection is closed
        self.flush()
