"""WebSocket: one of a connection, between its bytes and the application's messages.

`connection.py` makes one of every HTTP/1.1 request that asks for an upgrade, in the place of hypercorn's, which is for the whole
web. Here only the server speaks, in text messages: what the client says is read and dropped as it comes, pings are answered, and
its end or its faults end the websocket. Compression is not offered: a client could make a megabyte of a kilobyte, and upstream
has none. Whether a handshake is good enough is the application's to say, since it answers what is no watch without a look at it.
Sources: RFC 6455; golang.org/x/net/websocket, which kube-apiserver has.
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
# Starts the application on a scope; what it returns takes the messages that the application receives.
Spawn = Callable[[dict[str, Any], AppSend], Awaitable[Callable[[Message], Awaitable[None]]]]

_UPGRADE = [(b"upgrade", b"websocket"), (b"connection", b"Upgrade")]
_CLOSE = (b"connection", b"close")


class WebSocket:
    """A stream as hypercorn's HTTP/1.1 has them. The application knows ASGI's websocket scope, with `websocket.http.response`.

    spawn: see above. send: takes the events of the connection. secure: whether there is TLS.
    """

    def __init__(self, spawn: Spawn, send: Callable[[Event], Awaitable[None]], stream_id: int, *, secure: bool) -> None:
        self._spawn = spawn
        self._send = send
        self._stream_id = stream_id
        self._secure = secure
        self._key = b""
        self._put: Callable[[Message], Awaitable[None]] | None = None
        self._frames: Connection | None = None  # from the handshake's end on
        self._answered = asyncio.Event()
        self._over = False

    async def handle(self, event: Event) -> None:
        """What comes from the client."""
        if isinstance(event, Request):
            headers = dict(event.headers)
            self._key = headers.get(b"sec-websocket-key", b"")
            self._put = await self._spawn(self._scope(event), self.app_send)
            await self._put({"type": "websocket.connect"})
        elif isinstance(event, Body | Data):
            # Nothing more is read from the connection until then, so that a hasty client is held back by TCP.
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
        for event in frames.events():
            if isinstance(event, Ping):
                await self._say(event.response())
            elif isinstance(event, CloseConnection):
                # Of a client that wants to close, or by wsproto of one whose frames can't be understood.
                await self._say(event.response())
                await self._send(StreamClosed(stream_id=self._stream_id))
                return

    async def _say(self, event: FrameEvent) -> None:
        if self._frames is None:
            raise RuntimeError("the handshake comes first")
        try:
            data = self._frames.send(event)
        except LocalProtocolError:
            return  # it was closed meanwhile
        await self._send(Data(stream_id=self._stream_id, data=data))

    async def app_send(self, message: Message | None) -> None:
        """What comes from the application; None when it has returned."""
        if self._over:
            return
        kind = None if message is None else message["type"]
        if message is None:
            await self._end()
        elif kind == "websocket.accept":
            await self._accept(message)
        elif kind == "websocket.send":
            await self._say(TextMessage(data=message["text"]) if "text" in message else BytesMessage(data=message["bytes"]))
        elif kind == "websocket.close":
            await self._say(CloseConnection(code=message.get("code", CloseReason.NORMAL_CLOSURE)))
        elif kind == "websocket.http.response.start":
            await self._respond(message["status"], message["headers"])
        elif kind == "websocket.http.response.body":
            await self._send(Body(stream_id=self._stream_id, data=message.get("body", b"")))
            if not message.get("more_body", False):
                await self._send(EndBody(stream_id=self._stream_id))
        else:
            raise ValueError(f"not of a websocket: {kind}")

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
            # No effect where the application has closed it.
            await self._say(CloseConnection(code=CloseReason.INTERNAL_ERROR))
        await self._send(StreamClosed(stream_id=self._stream_id))
