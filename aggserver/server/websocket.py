"""WebSocket: from the bytes of an upgraded HTTP/1.1 connection to the application's messages and back. Used for watches.

`http1.py` makes a `WebSocket` for each request that asks for the upgrade, instead of hypercorn's, which is made for all uses.
Here only the server sends messages. Messages from the client are read and dropped; pings are answered; a close or an error of the
client ends the websocket. There is no compression, because a client could make the server unpack a kilobyte into a megabyte, and
upstream has none. The application checks the handshake's headers, because it answers requests other than watches without
looking at them.
Sources: RFC 6455; golang.org/x/net/websocket, which kube-apiserver uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

from hypercorn.protocol.events import Body, Data, EndBody, Event, Request, Response, StreamClosed
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.events import Event as FrameEvent
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, generate_accept_token

__all__ = ["WebSocket"]

Message = MutableMapping[str, Any]
AppSend = Callable[[Message | None], Awaitable[None]]
# Starts the application on a scope, and returns a function that puts messages into the application's `receive`.
Spawn = Callable[[dict[str, Any], AppSend], Awaitable[Callable[[Message], Awaitable[None]]]]

_UPGRADE = [(b"upgrade", b"websocket"), (b"connection", b"Upgrade")]
_CLOSE = (b"connection", b"close")

# Frames of a client that are handled before others on the event loop get their turn: some milliseconds. 64 KB may hold ten
# thousand frames.
_EVENTS_IN_TURN = 64


class WebSocket:
    """A stream in the sense of hypercorn's HTTP/1.1. The application gets ASGI's websocket scope with `websocket.http.response`.

    spawn: see `Spawn`. send: sends an event on the connection. secure: whether there is TLS.
    """

    def __init__(self, spawn: Spawn, send: Callable[[Event], Awaitable[None]], stream_id: int, *, secure: bool) -> None:
        self._spawn = spawn
        self._send = send
        self._stream_id = stream_id
        self._secure = secure
        self._key = b""
        self._put: Callable[[Message], Awaitable[None]] | None = None
        self._frames: Connection | None = None  # set when the handshake is complete
        self._answered = asyncio.Event()
        self._over = False

    async def handle(self, event: Event) -> None:
        """Handles an event from the client."""
        if isinstance(event, Request):
            headers = dict(event.headers)
            self._key = headers.get(b"sec-websocket-key", b"")
            self._put = await self._spawn(self._scope(event), self.app_send)
            await self._put({"type": "websocket.connect"})
        elif isinstance(event, Body | Data):
            # Nothing more is read from the connection until the handshake is answered, so that TCP holds back an early client.
            await self._answered.wait()
            if self._frames is not None and not self._over:
                self._frames.receive_data(event.data)
                await self._read(self._frames)
        elif isinstance(event, StreamClosed):
            self._over = True
            self._answered.set()
            if self._put is not None:
                await self._put({"type": "websocket.disconnect", "code": int(CloseReason.ABNORMAL_CLOSURE)})

    def _scope(self, request: Request) -> dict[str, Any]:
        path, _, query = request.raw_path.partition(b"?")
        return {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.http_version,
            "scheme": "wss" if self._secure else "ws",
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "headers": request.headers,
            "state": request.state.copy(),
            "extensions": {"websocket.http.response": {}},
        }

    async def _read(self, frames: Connection) -> None:
        for handled, event in enumerate(frames.events(), 1):
            if handled % _EVENTS_IN_TURN == 0:
                await asyncio.sleep(0)
            if isinstance(event, Ping):
                await self._send_frame(event.response())
            elif isinstance(event, CloseConnection):
                # The client closes, or wsproto reports that it can't parse the client's frames.
                await self._send_frame(event.response())
                await self._send(StreamClosed(stream_id=self._stream_id))
                return

    async def _send_frame(self, event: FrameEvent) -> None:
        if self._frames is None:
            raise RuntimeError("the handshake comes first")
        try:
            data = self._frames.send(event)
        except LocalProtocolError:
            return  # closed meanwhile
        await self._send(Data(stream_id=self._stream_id, data=data))

    async def app_send(self, message: Message | None) -> None:
        """Handles a message from the application; None when it has returned."""
        if self._over:
            return
        kind = None if message is None else message["type"]
        if message is None:
            await self._end()
        elif kind == "websocket.accept":
            await self._accept(message)
        elif kind == "websocket.send":
            await self._send_frame(
                TextMessage(data=message["text"]) if "text" in message else BytesMessage(data=message["bytes"])
            )
        elif kind == "websocket.close":
            await self._send_frame(CloseConnection(code=message.get("code", CloseReason.NORMAL_CLOSURE)))
        elif kind == "websocket.http.response.start":
            await self._respond(message["status"], message["headers"])
        elif kind == "websocket.http.response.body":
            await self._send(Body(stream_id=self._stream_id, data=message.get("body", b"")))
            if not message.get("more_body", False):
                await self._send(EndBody(stream_id=self._stream_id))
        else:
            raise ValueError(f"not a message of a websocket: {kind}")

    async def _accept(self, message: Message) -> None:
        headers = [*_UPGRADE, (b"sec-websocket-accept", generate_accept_token(self._key))]
        if protocol := message.get("subprotocol"):
            headers.append((b"sec-websocket-protocol", protocol.encode("latin-1")))
        await self._send(Response(stream_id=self._stream_id, headers=headers, status_code=101))
        self._frames = Connection(ConnectionType.SERVER)
        self._answered.set()

    async def _respond(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        closing = headers if _CLOSE in headers else [*headers, _CLOSE]
        await self._send(Response(stream_id=self._stream_id, headers=closing, status_code=status))
        self._answered.set()

    async def _end(self) -> None:
        if not self._answered.is_set():
            await self._respond(500, [(b"content-length", b"0")])
            await self._send(EndBody(stream_id=self._stream_id))
        elif self._frames is not None:
            # Does nothing if the application has closed it.
            await self._send_frame(CloseConnection(code=CloseReason.INTERNAL_ERROR))
        await self._send(StreamClosed(stream_id=self._stream_id))
