"""A websocket client that sends what it is told, good or bad, and shows what comes: handshakes, messages, the way it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Pong, TextMessage

from tests.integration.raw import Client

__all__ = ["Asked", "Seen", "frame", "open_websocket", "upgrade"]

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9

_HEADERS = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-version": "13",
    "origin": "https://pages.example.com",
}
_SHOWN = ("upgrade", "sec-websocket-accept", "sec-websocket-protocol", "sec-websocket-extensions", "sec-websocket-version")


@dataclass(frozen=True)
class Asked:
    """One upgrade. headers: more, or others; None leaves one out. early: sent with the request; late: after the answer's head."""

    path: str
    headers: Sequence[tuple[str, str | None]] = ()
    early: bytes = b""
    late: bytes = b""
    stranger: bool = False


@dataclass
class Seen:
    """What came until the server closed. messages: (kind, content); JSON is decoded, but for the line break at its end."""

    status: int
    headers: dict[str, str]
    body: Any = ""
    messages: list[tuple[str, Any]] = field(default_factory=list)


def open_websocket(client: Client, asked: Asked) -> Seen:
    """Asks, and waits for the end."""
    with client.dial() as connection:
        connection.sendall(upgrade(asked.path, asked.headers) + asked.early)
        with HTTPResponse(connection, method="GET") as response:
            response.begin()
            headers = {name: value for name in _SHOWN if (value := response.headers.get(name)) is not None}
            if response.status != 101:
                return Seen(response.status, headers, _decoded(response.read().decode()))
            connection.sendall(asked.late)
            received = response.fp.read()
    return Seen(response.status, headers, messages=_messages(received))


def upgrade(where: str, headers: Sequence[tuple[str, str | None]] = ()) -> bytes:
    """The request; headers as in `Asked`."""
    given = dict(headers)
    head = [(name, value) for name, value in _HEADERS.items() if name not in given]
    head += [(name, value) for name, value in headers if value is not None]
    text = "".join(f"{name}: {value}\r\n" for name, value in head)
    return f"GET {where} HTTP/1.1\r\nhost: localhost\r\n{text}\r\n".encode()


def frame(kind: int, content: bytes = b"", *, last: bool = True) -> bytes:
    """As a client sends it, masked with zeros."""
    size = len(content)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2) if size < 65536 else b"\xff" + size.to_bytes(8)
    return bytes([(0x80 if last else 0) | kind]) + length + bytes(4) + content


def _messages(received: bytes) -> list[tuple[str, Any]]:
    protocol = Connection(ConnectionType.CLIENT)
    protocol.receive_data(received)
    found: list[tuple[str, Any]] = []
    for event in protocol.events():
        match event:
            case TextMessage(data=data, message_finished=True):
                found.append(("text", _decoded(data)))
            case BytesMessage(data=data, message_finished=True):
                found.append(("bytes", bytes(data)))
            case Pong(payload=payload):
                found.append(("pong", bytes(payload)))
            case CloseConnection(code=code):
                found.append(("close", int(code)))
            case _:
                raise AssertionError(f"not a whole message: {event}")
    return found


def _decoded(text: str) -> Any:
    try:
        return [json.loads(text), text.removesuffix("\n").count("\n"), text.endswith("\n")]
    except ValueError:
        return text
