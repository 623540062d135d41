"""WebSocket: watches for clients that ask for an upgrade, such as a browser, which has no other way to send a token.

Around the chain of filters: a websocket request goes through it as the GET request that it is, and where the answer is a stream
of events, and the handshake is good, status 101 makes it a websocket: an event is a message, of text with its line break or of
bytes where it is protobuf, and the end is a close frame with 1000. Whatever else the chain answers goes out as plain HTTP.
Called by `filters.application`.
Source: k8s.io/apiserver pkg/endpoints/handlers/watch.go (HandleWS), golang.org/x/net/websocket server.go and hybi.go, for which
handshakes are refused, and how.
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
# What Go's url.ParseRequestURI takes: a path, or something with a scheme. Not `null`, which browsers say for "I won't tell".
_URI = re.compile(r"/|\*$|[A-Za-z][A-Za-z0-9+.-]*:")


def with_websockets(app: ASGIApp) -> ASGIApp:
    """`app` for both kinds of scopes. What it answers to an upgrade with status 101 becomes a websocket."""

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            scope = {**scope, "type": "http", "method": "GET", "extensions": {_EXTENSION: {}}}
            receive, send = _receiver(receive), _sender(send)
        await app(scope, receive, send)

    return both


def is_upgrade(request: Request) -> bool:
    """Whether the request can be answered with 101."""
    return _EXTENSION in request.scope.get("extensions", {})


def shake_hands(request: Request, stream: StreamResponse) -> StreamResponse | Response:
    """The stream as the answer to an upgrade, or a refusal where the handshake is not good enough; the stream is not closed then.

    One subprotocol is echoed, whatever it is; a choice of several is upstream's to refuse.
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
    """The messages of a request without a body."""

    async def receiver() -> Message:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b"", "more_body": False}

    return receiver


# Bytes before a frame of protobuf, which say how long it is.
_LENGTH = 4


def _events(body: bytes) -> tuple[list[Message], bytes]:
    """The events in what has come of a watch, and the beginning of the next one.

    Text where they are JSON, each on a line; frames of protobuf as they are, but for their length.
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
    begun = b""  # of an event, which may come in several pieces

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
