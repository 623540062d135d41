"""Upgrades to websockets that both servers are asked for: handshakes good and bad, forms of events, and what clients may say."""

from __future__ import annotations

import base64

from tests.integration.comparison import path
from tests.integration.websockets import BINARY, CLOSE, PING, TEXT, Asked, frame

__all__ = ["CASES"]


def _watch(**query: object) -> str:
    return path("shirts", namespace="listed", watch=1, timeoutSeconds=1, **query)


_WATCH = _watch()
_NOTHING = _watch(fieldSelector="spec.color=none")
_TOKEN = "base64url.bearer.authorization.k8s.io." + base64.urlsafe_b64encode(b"nobody's").decode().rstrip("=")


def _with(*headers: tuple[str, str | None]) -> Asked:
    return Asked(_WATCH, headers)


def _offered(*protocols: str) -> Asked:
    return _with(("sec-websocket-protocol", ", ".join(protocols)))


def _said(*frames: bytes) -> Asked:
    return Asked(_WATCH, late=b"".join(frames))


CASES: dict[str, Asked] = {
    # the events
    "watch": Asked(_WATCH),
    "one-object": Asked(path("shirts", "a", namespace="listed", watch=1, timeoutSeconds=1)),
    "watch-path": Asked(_watch().replace("/v1/", "/v1/watch/")),
    "selected": Asked(_watch(fieldSelector="spec.color=blue")),
    "initial-events": Asked(
        _watch(
            sendInitialEvents="true",
            allowWatchBookmarks="true",
            resourceVersionMatch="NotOlderThan",
            fieldSelector="spec.color=blue",
        )
    ),
    "table": _with(("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")),
    "metadata": _with(("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")),
    # handshakes
    "protocol": _offered("binary.k8s.io"),
    "protocols": _offered("a", "b"),
    "protocols-in-two-lines": _with(("sec-websocket-protocol", "a"), ("sec-websocket-protocol", "b")),
    "protocol-empty": _with(("sec-websocket-protocol", "")),
    "token-for-who-is-known": _offered(_TOKEN),
    "token-and-protocol-for-who-is-known": _offered(_TOKEN, "a"),
    "origin-none": _with(("origin", None)),
    "origin-null": _with(("origin", "null")),
    "origin-host": _with(("origin", "pages.example.com")),
    "origin-path": _with(("origin", "/pages")),
    "key-none": _with(("sec-websocket-key", None)),
    "key-short": _with(("sec-websocket-key", "abc")),
    "version-none": _with(("sec-websocket-version", None)),
    "version-8": _with(("sec-websocket-version", "8")),
    "connection-list": _with(("connection", "keep-alive, Upgrade")),
    "upgrade-in-capitals": _with(("upgrade", "WebSocket")),
    "compression-offered": _with(("sec-websocket-extensions", "permessage-deflate")),
    # what is no watch, or none that is granted
    "list": Asked(path("shirts", namespace="listed", limit=1)),
    "list-without-key": Asked(path("shirts", namespace="listed", limit=1), [("sec-websocket-key", None)]),
    "get": Asked(path("shirts", "a", namespace="listed")),
    "stranger": Asked(_WATCH, stranger=True),
    "selector-bad": Asked(_watch(fieldSelector="spec.nothing=x")),
    "revision-bad": Asked(_watch(resourceVersion="x")),
    "not-acceptable": _with(("accept", "application/xml")),
    "missing": Asked(path("shirts", "missing", namespace="listed")),
    # what clients say
    "ping": _said(frame(PING, b"hello")),
    "ping-early": Asked(_WATCH, early=frame(PING, b"hello")),
    "text": _said(frame(TEXT, b"hello"), frame(PING)),
    "large": _said(frame(BINARY, bytes(200_000)), frame(PING)),
    "fragments": _said(frame(TEXT, b"hel", last=False), frame(PING), frame(0, b"lo")),
    # without events, since it is chance whether any comes before the end
    "close": Asked(_NOTHING, late=frame(CLOSE, b"\x03\xe8bye")),
    "text-and-close": Asked(_NOTHING, late=frame(TEXT, b"hello") + frame(CLOSE, b"\x03\xe8")),
}
