"""Watches over websockets, for clients that ask for an upgrade, such as scripts in a browser.

A websocket request passes the chain of filters as the GET request that it is. If the response is a stream of events, and the
handshake is valid, status 101 makes it a websocket: each event is a message, JSON as text with its line break, protobuf as bytes,
and the stream ends with a close frame with code 1000. Any other response is sent as plain HTTP.
Source: k8s.io/apiserver pkg/endpoints/handlers/watch.go (HandleWS); for handshakes that are refused: golang.org/x/net/websocket
server.go and hybi.go.
"""

from __future__ import annotations

import re

from aggserver.endpoints.request import (
    PLAIN_TEXT,
    ASGIApp,
    Message,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    StreamResponse,
)

__all__ = ["is_upgrade", "shake_hands", "with_websockets"]

_PROTOCOL = b"sec-websocket-protocol"
_VERSION = "13"
_EXTENSION = "aggserver.websocket"
# What Go's url.ParseRequestURI accepts: a path, or a URI with a scheme. Not `null`, which browsers send to hide the origin.
_URI = re.compile(r"/|\*$|[A-Za-z][A-Za-z0-9+.-]*:")


def with_websockets(app: ASGIApp) -> ASGIApp:
    """`app` for ASGI scopes of HTTP and of websockets. Its response with status 101 to an upgrade becomes a websocket."""

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            scope = {**scope, "type": "http", "method": "GET", "extensions": {_EXTENSION: {}}}
            receive, send = _receiver(receive), _sender(send)
        await app(scope, receive, send)

    return both


def is_upgrade(request: Request) -> bool:
    """Whether the request is for a websocket, so that status 101 is possible."""
    return _EXTENSION in request.scope.get("extensions", {})


def shake_hands(request: Request, stream: StreamResponse) -> StreamResponse | Response:
    """The stream as the response to an upgrade, or an error if the handshake is invalid; then the caller must close the stream.

    A single subprotocol is accepted, whatever it is; several are refused, as upstream.
    """
    protocols = [part.strip() for part in request.header(_PROTOCOL).split(",") if part.strip()]
    if not request.header(b"sec-websocket-key"):
        return _refusal(400, b"mismatch challenge/response")
    if request.header(b"sec-websocket-version") != _VERSION:
        refused = _refusal(400, b"missing or bad WebSocket Version")
        refused.headers.append((b"sec-websocket-version", _VERSION.encode()))
        return refused
    if not _URI.match(request.header(b"origin")):
        return _refusal(403, b"a websocket needs an Origin header with a URL")
    if len(protocols) > 1:
        return _refusal(400, b"offer one subprotocol beside the token, or none")
    return StreamResponse(stream.chunks, status=101, headers=[(_PROTOCOL, part.encode("latin-1")) for part in protocols])


def _refusal(status: int, text: bytes) -> Response:
    return Response(status, text, PLAIN_TEXT)


def _receiver(receive: Receive) -> Receive:
    """Receives the messages of an HTTP request without a body."""

    async def receiver() -> Message:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b"", "more_body": False}

    return receiver


# Bytes of the length in front of a frame of protobuf.
_LENGTH = 4


def _events(body: bytes) -> tuple[list[Message], bytes]:
    """(the complete events in a watch's bytes, the incomplete rest). JSON events become text, frames of protobuf become bytes,
    without their length.
    """
    if body[:1] == b"{":
        *lines, begun = body.split(b"\n")
        return [{"text": f"{line.decode()}\n"} for line in lines], begun
    events: list[Message] = []
    at = 0
    while len(body) - at >= _LENGTH and (end := at + _LENGTH + int.from_bytes(body[at : at + _LENGTH])) <= len(body):
        events.append({"bytes": body[at + _LENGTH : end]})
        at = end
    return events, body[at:]


def _sender(send: Send) -> Send:
    upgraded = False
    begun = b""  # the incomplete event at the end of the last piece

    async def sender(message: Message) -> None:
        nonlocal upgraded, begun
        if message["type"] == "http.response.start" and message["status"] == 101:
            upgraded = True
            protocol = next((value.decode("latin-1") for name, value in message["headers"] if name == _PROTOCOL), None)
            await send({"type": "websocket.accept", "subprotocol": protocol})
        elif not upgraded:
            await send({**message, "type": f"websocket.{message['type']}"})
        else:
            events, begun = _events(begun + message["body"])
            for event in events:
                await send({"type": "websocket.send", **event})
            if not message.get("more_body", False):
                await send({"type": "websocket.close", "code": 1000})

    return sender
