"""HTTP/1.1 on one connection: hypercorn's protocol over h11, changed where Go's net/http behaves differently.

- Reason phrases are those of Go's `http.StatusText`: some clients show nothing else of a refusal.
- A malformed request head is answered in plain text and ends the connection: with 505 for a version other than 1.x, with 400 for
  a missing or malformed Host, for control characters, for a list of lengths, and for whatever h11 refuses; an expectation other
  than 100-continue with 417. Methods are case-sensitive. Unlike Go, we answer a client of HTTP/1.0
  with the server's own version, as RFC 9110 section 6.2 demands.
- Websockets are handled by `websocket.py`. `Upgrade: h2c` is ignored: there is no HTTP/2 without TLS.
- Other connections get their turn after some chunks of a body: 64 KB hold ten thousand chunks of one byte, which are a fifth of a
  second of work.
Source: net/http server.go (readRequest, serve), transfer.go (fixLength), go1.26; hypercorn 0.18 protocol/h11.py.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, cast

import h11
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body, Data, EndBody, Request, Response
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import WSStream

from aggserver.server.requests import Inbox, Requests
from aggserver.server.websocket import AppSend, WebSocket

__all__ = ["HTTP1", "reason_phrase"]

# Go's phrases where Python's differ, which also depend on Python's version.
_GO_PHRASES = {
    413: "Request Entity Too Large",
    414: "Request URI Too Long",
    416: "Requested Range Not Satisfiable",
    418: "I'm a teapot",
    422: "Unprocessable Entity",
}
_PHRASES = {
    code: phrase.encode() for code, phrase in ({int(status): status.phrase for status in HTTPStatus} | _GO_PHRASES).items()
}

# The characters that Go allows in a Host header: httpguts.ValidHostHeader.
_HOST = re.compile(rb"[0-9A-Za-z!$%&'()*+,\-.:;=\[\]_~]*")

# h11 allows these in header values.
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

# A Content-Length with its continuation lines, as received. h11 accepts a list that repeats one length as that length.
_LENGTH = re.compile(rb"^content-length:(?:[^\n]|\n[ \t])*", re.IGNORECASE | re.MULTILINE)
_END_OF_HEAD = re.compile(rb"\n\r?\n")

# Chunks of a body that are handled before others on the event loop get their turn: about a millisecond.
_CHUNKS_IN_TURN = 64

# States of either side in which nothing more is read.
_FINISHED = (h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)


def reason_phrase(code: int) -> bytes:
    """The reason phrase of a code: Go's http.StatusText, or what Go's server writes for a code without one."""
    return _PHRASES.get(code) or b"status code %d" % code


class HTTP1(H11Protocol):
    """hypercorn's protocol with our own websockets, tasks and error responses."""

    async def handle(self, event: Event) -> None:
        """Drop bytes behind the connection's last request: h11 would treat them as an error of the request in progress."""
        if isinstance(event, RawData) and (self.connection.their_state in _FINISHED or self.connection.our_state in _FINISHED):
            return
        await super().handle(event)

    async def stream_send(self, event: StreamEvent) -> None:
        if not isinstance(event, Response):
            await super().stream_send(event)
            return
        headers = [*event.headers, *self.config.response_headers("h11")]
        kind = h11.Response if event.status_code >= 200 else h11.InformationalResponse
        await self._send_h11_event(kind(status_code=event.status_code, headers=headers, reason=reason_phrase(event.status_code)))

    async def _handle_events(self) -> None:
        chunks = 0
        while self.connection.their_state not in _FINISHED:
            # The bytes of a head that h11 has so far. Once the head is complete, h11 no longer has them.
            received = self.connection.trailing_data[0] if self.connection.their_state is h11.IDLE else b""
            if self.connection.they_are_waiting_for_100_continue:
                await self.stream_send(Response(stream_id=STREAM_ID, headers=[], status_code=100))
            try:
                event = self.connection.next_event()
            except h11.RemoteProtocolError as error:
                await self._refuse(error.error_status_hint, _detail(str(error)))
                return
            if isinstance(event, h11.Request):
                await self.send(Updated(idle=False))
                await self._begin(event, received)
            elif event is h11.PAUSED:
                if self.connection.our_state in _FINISHED:
                    return  # drops bytes behind the last request, as in `handle`
                await self.can_read.clear()
                await self.can_read.wait()
            elif event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed) or self.stream is None:
                return
            elif isinstance(event, h11.Data):
                await self.stream.handle(Body(stream_id=STREAM_ID, data=bytes(event.data)))
                chunks += 1
                if chunks % _CHUNKS_IN_TURN == 0:
                    await asyncio.sleep(0)
            elif isinstance(event, h11.EndOfMessage):
                await self.stream.handle(EndBody(stream_id=STREAM_ID))
            elif isinstance(event, Data):
                await self.stream.handle(event)  # frames of a websocket

    async def _begin(self, request: h11.Request, received: bytes) -> None:
        headers = dict(request.headers)
        if _CONTROL.search(b"".join(headers.values())):
            await self._refuse(400)
            return
        if not request.http_version.startswith(b"1."):
            await self._refuse(505, "unsupported protocol version")
            return
        host = headers.get(b"host")
        if host is None and request.http_version != b"1.0" and request.method != b"CONNECT":
            await self._refuse(400, "missing required Host header")
        elif host is not None and _HOST.fullmatch(host) is None:
            await self._refuse(400, "malformed Host header")
        elif b"content-length" in headers and _has_list_of_lengths(received):
            await self._refuse(400)
        elif not _has_known_expectation(request.headers):
            await self._refuse(417, empty=True)
        else:
            await self._hand_over(request, websocket=_is_websocket_upgrade(request, headers))

    async def _hand_over(self, request: h11.Request, *, websocket: bool) -> None:
        connection = cast(h11.Connection, self.connection)
        if websocket:
            self.stream = cast(WSStream, WebSocket(self._start, self.stream_send, STREAM_ID, secure=self.ssl))
            self.connection = H11WSConnection(connection)
        else:
            # An Upgrade to anything else is ignored, as RFC 9110 section 7.8 allows. h11 has no method to ignore it, and would
            # read nothing more until the end of the response, so that a watch would outlive its client.
            connection._cstate.pending_switch_proposals.clear()
            self.stream = HTTPStream(
                self.app,
                self.config,
                self.context,
                self.task_group,
                self.ssl,
                self.client,
                self.server,
                self.stream_send,
                STREAM_ID,
            )
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii"),
                raw_path=request.target,
                state=self.connection_state,
            )
        )

    async def _start(self, scope: dict[str, Any], send: AppSend) -> Inbox:
        return await cast(Requests, self.task_group).spawn_app(self.app, self.config, scope, send)

    async def _refuse(self, code: int, detail: str = "", *, empty: bool = False) -> None:
        """Close the connection, with an error response if no response has begun. empty: the error response has no body."""
        if self.connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            text = f"{code} {reason_phrase(code).decode()}" + (f": {detail}" if detail else "")
            body = b"Unsupported transfer encoding" if code == 501 else text.encode()
            if empty:
                body = b""
            headers = [
                *([] if empty else [(b"content-type", b"text/plain; charset=utf-8")]),
                (b"connection", b"close"),
                (b"content-length", b"%d" % len(body)),
            ]
            reason = text.partition(" ")[2].encode()
            await self._send_h11_event(h11.Response(status_code=code, headers=headers, reason=reason))
            await self._send_h11_event(h11.Data(data=body))
            await self._send_h11_event(h11.EndOfMessage())
        await self.send(Closed())


def _detail(error: str) -> str:
    """The text in Go's 400 for an error of h11, '' if Go has none."""
    return "missing required Host header" if error.startswith("Missing mandatory Host") else ""


def _has_list_of_lengths(received: bytes) -> bool:
    """Whether `received` begins with a head in which a Content-Length has a comma."""
    end = _END_OF_HEAD.search(received)
    return any(b"," in found[0] for found in _LENGTH.finditer(received, 0, end.start() if end else len(received)))


def _has_known_expectation(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether there is no Expect header, or the first one contains 100-continue."""
    expected = next((value for name, value in headers if name == b"expect"), b"")
    return not expected or b"100-continue" in expected.lower().replace(b"\t", b" ").replace(b",", b" ").split(b" ")


def _is_websocket_upgrade(request: h11.Request, headers: dict[bytes, bytes]) -> bool:
    if b"upgrade" not in headers or request.method != b"GET":
        return False
    wanted = {part.strip() for part in headers.get(b"connection", b"").lower().split(b",")}
    return b"upgrade" in wanted and headers[b"upgrade"].lower() == b"websocket"
