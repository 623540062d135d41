"""One HTTP/2 stream, which is one request: its `send` of ASGI, run in the task that runs the application.

A stream ends when its response is complete, when its client is gone, or when the application returns without a complete response.
"""

from __future__ import annotations

from typing import Protocol

from jh2.errors import ErrorCodes
from jh2.exceptions import ProtocolError

from aggserver.server.http2.sender import CLOSE, Sender
from aggserver.server.requests import Inbox, Message

__all__ = ["Stream", "StreamOwner"]


class StreamOwner(Protocol):
    """The interface of the connection to its streams."""

    def forget(self, stream: Stream) -> None:
        """Called when the stream has ended."""

    def lose(self, stream: Stream) -> None:
        """Called when the stream's client is gone."""

    def goodbye(self) -> None:
        """Sends GOAWAY: no more streams on this connection."""


class Stream:
    """One stream. `inbox`: the queue from which the application receives. `closed`: nothing more is sent."""

    __slots__ = ("_connection", "_head", "_is_head", "_sender", "closed", "id", "inbox")

    def __init__(self, connection: StreamOwner, sender: Sender, stream_id: int, inbox: Inbox, *, is_head: bool) -> None:
        self.id = stream_id
        self.inbox = inbox
        self._connection = connection
        self._sender = sender
        self._is_head = is_head
        self._head: Message | None = None
        self.closed = False

    async def send(self, message: Message | None) -> None:
        """ASGI's `send`. message: None when the application has returned."""
        if message is not None and message["type"] == "http.response.start":
            self._head = message  # leaves with the first part of the body: one write, and often one TLS record
            return
        # GOAWAY follows the response: some clients would not read a response behind it. It is sent even if the stream was reset;
        # otherwise a client could avoid it by a reset.
        is_last = self._head is not None and CLOSE in self._head["headers"]
        try:
            if self.closed:
                self._head = None
            elif message is None:
                self._abandoned()
            else:
                await self._body(message.get("body", b""), ended=not message.get("more_body", False))
        except ProtocolError:
            self._finished()  # closed meanwhile
        if is_last:
            self._connection.goodbye()

    async def _body(self, data: bytes, *, ended: bool) -> None:
        head, self._head = self._head, None
        if head is not None:
            bare = self._is_head or head["status"] in (204, 304)
            self._sender.head(self.id, head["status"], head["headers"], ended=bare or (ended and not data))
            if bare or (ended and not data):
                self._sender.flush()
                self._finished()
                return
        if data or ended:
            await self._sender.body(self, data, ended=ended)
        else:
            self._sender.flush()
        if ended:
            self._finished()

    def _abandoned(self) -> None:
        """Reset the stream because the application returned before the end of the response, for which the client would wait."""
        self._sender.reset(self.id, ErrorCodes.INTERNAL_ERROR)
        self._finished()

    def _finished(self) -> None:
        if not self.closed:
            self.closed = True
            self._connection.forget(self)

    def stalled(self) -> None:
        """Called when the sender has reset the stream, because its client took nothing."""
        self._connection.lose(self)

    def lose(self) -> None:
        """Send nothing more, and notify the application that its client is gone."""
        self.closed = True
        self.inbox.put({"type": "http.disconnect"})
        self._sender.wake(self.id)
