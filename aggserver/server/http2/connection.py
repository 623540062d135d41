"""One HTTP/2 connection: the events that jh2 makes of a client's frames, and which stream they belong to.

Clients multiplex watches and writes on one connection for hours. So no request may harm its neighbours, and no connection others:
- A stream that is malformed, exceeds the limit, fails half-way, or sends data after its early response is reset alone.
- A body that the application has not read is bounded by flow control: the window opens as the body is consumed.
- Other connections get a turn between the frames of one, and a client that sends too many frames without effect is cut off.
- At shutdown, and after a response with `connection: close` (to an unauthenticated client), GOAWAY makes the client open its
  next stream elsewhere. A stream that crosses the GOAWAY is refused, and the client may retry it. The connection ends with its
  last response.
Priorities are ignored, as RFC 9113 allows.
Sources: RFC 9113; limits of k8s.io/apiserver pkg/server/secure_serving.go and golang.org/x/net/http2/server.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from jh2.errors import ErrorCodes
from jh2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from jh2.exceptions import ProtocolError
from jh2.hyperframe.frame import GoAwayFrame
from jh2.settings import SettingCodes

from aggserver.server.http2.protocol import MAX_STREAMS, LimitedConnection
from aggserver.server.http2.request_head import scope_of
from aggserver.server.http2.sender import Sender, Wire
from aggserver.server.http2.stream import Stream
from aggserver.server.requests import ASGIApp, Inbox, Requests

__all__ = ["HTTP2"]

# If a client opens streams and resets them at once, their requests still run but do not count as its streams (CVE-2023-44487).
# Like Go, we end a connection that has 4 times as many requests as it may have streams.
MAX_REQUESTS_PER_CONNECTION = 4 * MAX_STREAMS


class HTTP2:
    """The server's side of one connection. scope: the part that the ASGI scopes of all its requests share, with `state`."""

    def __init__(self, app: ASGIApp, requests: Requests, wire: Wire, scope: dict[str, Any]) -> None:
        self._app = app
        self._requests = requests
        self._wire = wire
        self._scope = scope
        self._streams: dict[int, Stream] = {}
        self.leaving = False  # GOAWAY was sent
        self.failed = False  # GOAWAY was sent, with an error of the client's
        self._over = False
        loop = asyncio.get_running_loop()
        self.protocol = LimitedConnection(loop.time)
        self._sender = Sender(self.protocol, wire, loop)
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            RequestReceived: self._begin,
            DataReceived: self._data,
            StreamEnded: self._end_of_body,
            StreamReset: self._reset,
            WindowUpdated: self._window,
            RemoteSettingsChanged: self._settings,
            ConnectionTerminated: self._terminated,
        }

    def initiate(self) -> None:
        self.protocol.initiate()
        self._sender.flush()

    async def receive(self, data: bytes) -> bool:
        """Handle bytes from the client. Returns False when nothing more is to be read from this connection.

        Yields to other connections in between and at the end, since a reader that has more data would never yield.
        """
        more = self._take(data)
        while more:
            await asyncio.sleep(0)
            more = self._take(b"")
        await asyncio.sleep(0)
        return not self._over

    def _take(self, data: bytes) -> bool:
        """Handles the frames of one turn. Returns whether more are waiting."""
        more = False
        try:
            if not self._over:
                events, more = self.protocol.receive(data)
                for event in events:
                    handle = self._handlers.get(type(event))
                    if handle is not None:
                        handle(event)
        except ProtocolError:
            self.failed = self._over = True
        self._sender.flush()  # after an error this is the GOAWAY with its reason
        return more and not self._over

    def closed(self) -> None:
        """Call when the connection is gone: notifies every request that its client has disconnected."""
        self._over = True
        for stream in tuple(self._streams.values()):
            self.lose(stream)
        self._handlers = {}  # bound methods: without them no cycle keeps this object alive

    def goodbye(self) -> None:
        """Sends GOAWAY with the last stream seen: streams up to it are finished, the client retries later ones elsewhere.

        The frame bypasses jh2, which would refuse to send anything on a connection that it has closed.
        """
        if self.leaving or self._over:
            return
        self.leaving = True
        last = self.protocol.highest_inbound_stream_id
        self._wire.write(GoAwayFrame(0, last_stream_id=last, error_code=ErrorCodes.NO_ERROR).serialize())
        if not self._streams:
            self._wire.idle(True)

    # The handlers of jh2's events

    def _begin(self, event: RequestReceived) -> None:
        stream_id: int = event.stream_id
        if len(self._requests.tasks) > MAX_REQUESTS_PER_CONNECTION:
            self.protocol.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self.failed = self._over = True
            return
        if self.leaving or len(self._streams) >= MAX_STREAMS:
            self.protocol.refuse(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        head = scope_of(event.headers)
        if head is None:
            self.protocol.refuse(stream_id, ErrorCodes.PROTOCOL_ERROR)
            return
        scope = self._scope | head
        inbox = Inbox(partial(self._sender.consumed, stream_id))
        stream = self._streams[stream_id] = Stream(self, self._sender, stream_id, inbox, is_head=scope["method"] == "HEAD")
        self._wire.idle(False)
        self._requests.call(self._app, scope, inbox, stream.send)

    def _data(self, event: DataReceived) -> None:
        """The window opens for a body's bytes when they are read, for padding and unwanted data at once."""
        stream = self._streams.get(event.stream_id)
        if stream is None:
            self._sender.consumed(event.stream_id, event.flow_controlled_length)
            return
        if padding := event.flow_controlled_length - len(event.data):
            self._sender.consumed(event.stream_id, padding)
        if event.data:  # flow control doesn't bound the number of empty frames
            stream.inbox.put({"type": "http.request", "body": bytes(event.data), "more_body": True})

    def _end_of_body(self, event: StreamEnded) -> None:
        if (stream := self._streams.get(event.stream_id)) is not None:
            stream.inbox.put({"type": "http.request", "body": b"", "more_body": False})

    def _reset(self, event: StreamReset) -> None:
        if (stream := self._streams.get(event.stream_id)) is not None:
            self.lose(stream)

    def _window(self, event: WindowUpdated) -> None:
        if event.stream_id:
            self._sender.wake(event.stream_id)
        else:
            self._sender.wake_all()

    def _settings(self, event: RemoteSettingsChanged) -> None:
        if SettingCodes.INITIAL_WINDOW_SIZE in event.changed_settings:
            self._sender.wake_all()

    def _terminated(self, event: ConnectionTerminated) -> None:
        self._over = True  # after the client's GOAWAY jh2 sends nothing any more

    # Called by streams

    def forget(self, stream: Stream) -> None:
        """Forget a stream that has ended. A client that still sends the request's body gets RST_STREAM (RFC 9113, 8.1)."""
        self._streams.pop(stream.id, None)
        if not self.protocol.forget(stream.id):
            self._sender.reset(stream.id, ErrorCodes.NO_ERROR)
            self.protocol.forget(stream.id)
        if not self._streams:
            self._wire.idle(True)

    def lose(self, stream: Stream) -> None:
        """End a stream whose client is gone."""
        stream.lose()
        self.forget(stream)
