"""Request and Response: what filters and handlers see in place of ASGI's scope, receive and send.

The hot path is raw ASGI: no framework stands between the server and a handler. A handler takes a `Request` and returns one of the
three responses, or raises `StatusError`; filters wrap handlers. `endpoints/filters.py` turns the outcome into ASGI messages, in
one place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qsl

from aggserver.authentication.user import ANONYMOUS, UserInfo
from aggserver.authentication.x509 import PeerCertificate
from aggserver.authorization.delegating import Authorizer
from aggserver.endpoints.request_info import RequestInfo
from aggserver.meta import errors

__all__ = [
    "JSON",
    "MAX_BODY_BYTES",
    "ASGIApp",
    "ASGIResponse",
    "AnyResponse",
    "Chunks",
    "Filter",
    "Handler",
    "LongBody",
    "Message",
    "Receive",
    "Request",
    "Response",
    "Scope",
    "Send",
    "StreamResponse",
]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = b"application/json"
PLAIN_TEXT = b"text/plain; charset=utf-8"

# Upstream's limit for the bodies of create, update, patch and delete, in bytes: etcd's 1.5 MB request, with room for escapes.
MAX_BODY_BYTES = 3 * 1024 * 1024


class Request:
    """One request on its way through the filters. The filters fill what is below the line, in the order of the chain.

    headers: pairs of lower-case name and value, as the connection had them; authentication removes the identity headers.
    query: first value of each parameter, percent-decoded (Go's url.Values.Get); `query_all` has every value.
    peer: the certificate of the connection, None for a client that sent none.
    """

    __slots__ = (
        "_body",
        "_query",
        "_query_all",
        "allotted",
        "answered",
        "audit_id",
        "authorizer",
        "begun",
        "headers",
        "http_version",
        "info",
        "last_of_connection",
        "method",
        "path",
        "peer",
        "query_string",
        "receive",
        "scope",
        "user",
        "warnings",
    )

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope.get("method", "GET")
        self.path: str = scope["path"]
        self.query_string: str = scope["query_string"].decode("latin-1")
        self.headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        self.http_version: str = scope["http_version"]
        self.peer: PeerCertificate | None = scope.get("state", {}).get("peer_certificate")
        self._query: dict[str, str] | None = None
        self._query_all: dict[str, list[str]] | None = None
        self._body: bytes | None = None
        # filled by the filters
        self.audit_id: str = ""
        self.info: RequestInfo
        self.user: UserInfo = ANONYMOUS
        self.authorizer: Authorizer  # for handlers that need a second permission
        self.last_of_connection = False  # the connection ends with the answer
        self.warnings: list[str] = []
        self.allotted = asyncio.Timeout(None)  # the time it may take, its answer included; no limit for a long-running request
        self.begun = False  # whether the head of its answer has gone out
        self.answered: list[Callable[[], None]] = []  # called when the answer has gone out, or nobody waits for it

    def header(self, name: bytes) -> str:
        """The first value of a header (name in lower case), or the empty string."""
        for key, value in self.headers:
            if key == name:
                return value.decode("latin-1")
        return ""

    @property
    def query(self) -> dict[str, str]:
        if self._query is None:
            self._query = {key: values[0] for key, values in self.query_all.items()}
        return self._query

    @property
    def query_all(self) -> dict[str, list[str]]:
        if self._query_all is None:
            self._query_all = {}
            if self.query_string:
                for key, value in parse_qsl(self.query_string, keep_blank_values=True):
                    self._query_all.setdefault(key, []).append(value)
        return self._query_all

    async def body(self, limit: int = MAX_BODY_BYTES) -> bytes:
        """The whole body. Raises 413 past `limit` bytes, without reading further, and BadRequest when the client is gone."""
        if self._body is not None:
            return self._body
        length = self.header(b"content-length")
        if length.isdigit() and int(length) > limit:
            raise errors.request_entity_too_large(f"limit is {limit}")
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise errors.bad_request("the client went away before the end of the body")
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise errors.request_entity_too_large(f"limit is {limit}")
            chunks.append(chunk)
            if not message.get("more_body", False):
                break
        self._body = b"".join(chunks)
        return self._body


@dataclass(slots=True)
class LongBody:
    """A body that is made as it is sent, so that a long list is not in memory a second time.

    pieces: makes them, each when it is asked for. size: of all of them, where they are only joined; None where making them is
    work, about a millisecond's for each piece, and takes turns with everything else.
    """

    size: int | None
    pieces: Callable[[], Iterable[bytes]]


@dataclass(slots=True)
class Response:
    """A whole answer."""

    status: int
    body: bytes | LongBody
    content_type: bytes = JSON
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class Chunks(Protocol):
    """The pieces of a stream. `aclose` frees what is behind them, even where nobody has begun to read; it may be called twice."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


@dataclass(slots=True)
class StreamResponse:
    """An answer whose head goes out at once and whose pieces follow as they come; closed when the client goes, or at shutdown."""

    chunks: Chunks
    content_type: bytes = JSON
    status: int = 200
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class ASGIResponse:
    """An answer that another ASGI application gives (health, metrics, index)."""

    app: ASGIApp


AnyResponse = Response | StreamResponse | ASGIResponse
Handler = Callable[[Request], Awaitable[AnyResponse]]
Filter = Callable[[Handler], Handler]
