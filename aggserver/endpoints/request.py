"""Request and Response: used by filters and handlers instead of ASGI's scope, receive and send.

A handler takes a `Request`, and returns one of the three responses or raises `StatusError`; filters wrap handlers. Only
`endpoints/filters.py` sends ASGI messages. There is no web framework in between, to keep the hot path short.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import parse_qsl

from aggserver.authentication.user import ANONYMOUS, UserInfo
from aggserver.authentication.x509 import PeerCertificate
from aggserver.authorization.delegating import Authorizer
from aggserver.endpoints.audited import Audit
from aggserver.endpoints.field_manager import manager_of
from aggserver.endpoints.flow_control.levels import Flow
from aggserver.endpoints.request_info import RequestInfo
from aggserver.meta import errors
from aggserver.meta.warnings import Warnings
from aggserver.tracing.record import RequestRecord
from aggserver.tracing.tracer import Tracer

__all__ = [
    "JSON",
    "MAX_BODY_BYTES",
    "ASGIApp",
    "ASGIResponse",
    "AnyResponse",
    "BrokenOff",
    "Chunks",
    "Filter",
    "Handler",
    "InProgress",
    "LongBody",
    "Message",
    "Receive",
    "Request",
    "Response",
    "Scope",
    "Send",
    "Shortened",
    "StreamResponse",
    "begin",
    "current",
]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = b"application/json"
PLAIN_TEXT = b"text/plain; charset=utf-8"

# Upstream's limit for the bodies of create, update, patch and delete, in bytes: twice etcd's limit, for JSON escapes.
MAX_BODY_BYTES = 3 * 1024 * 1024

# A body above its limit is received, and dropped, up to so many times the limit before the answer: of an answer amid what they
# send, curl 7.88 tells a stream error and Java 17 nothing at all. kube-apiserver receives as much as its limit.
DROPPED_LIMITS = 4


# Query strings that are kept once they are parsed, since clients send the same ones again and again, and the most characters of
# such a one.
_KNOWN, _SHORT = 1000, 300


def _parameters(query_string: str) -> Sequence[tuple[str, str]]:
    return parse_qsl(query_string, keep_blank_values=True)


_known_parameters = lru_cache(_KNOWN)(_parameters)


class InProgress:
    """Refers to a request until it has ended. Tasks that it began may go on; what they log then belongs to no request."""

    __slots__ = ("request",)

    def __init__(self, request: Request) -> None:
        self.request: Request | None = request


_current: ContextVar[InProgress | None] = ContextVar("request", default=None)


def begin(request: Request) -> InProgress:
    """Take the request as the one for which this task runs."""
    made = InProgress(request)
    _current.set(made)
    return made


def current() -> Request | None:
    """The request for which this task or thread runs; None if there is none, or it has ended."""
    found = _current.get()
    return found.request if found is not None else None


class Request:
    """One request on its way through the filters, which set some of its attributes.

    headers: pairs of lower-case name and value, as the client sent them; authentication removes the identity headers.
    query: the first value of each parameter, percent-decoded (Go's url.Values.Get); `query_all` has every value.
    peer: the client certificate of the connection, None if there is none.
    """

    __slots__ = (
        "_body",
        "_query",
        "_query_all",
        "added_headers",
        "allotted",
        "audit",
        "audit_id",
        "authentication",
        "authorization",
        "authorizer",
        "begun",
        "deadline",
        "failure",
        "flow",
        "headers",
        "http_version",
        "info",
        "knew_all_cas",
        "last_of_connection",
        "method",
        "on_end",
        "path",
        "peer",
        "query_string",
        "receive",
        "received",
        "record",
        "scope",
        "tracer",
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
        self.knew_all_cas: bool = scope.get("state", {}).get("knew_all_cas", True)
        self._query: dict[str, str] | None = None
        self._query_all: dict[str, list[str]] | None = None
        self._body: bytes | None = None
        # Set by the filters:
        self.audit_id: str = ""
        self.audit: Audit | None = None  # what is recorded of the request, None if nothing is
        self.received = 0.0  # when the head of the request has arrived, by the event loop's clock
        self.info: RequestInfo
        self.user: UserInfo = ANONYMOUS
        self.authorizer: Authorizer  # for handlers that need a second permission
        self.last_of_connection = False  # whether the connection is closed after the response
        self.warnings = Warnings()
        self.added_headers: list[tuple[bytes, bytes]] = []  # of the response, whatever it is
        self.allotted: asyncio.Timeout  # until the response has been sent
        # When the request is broken off, by the event loop's clock; infinite for a long-running one.
        self.deadline = math.inf
        self.begun = False  # whether the head of the response has been sent
        # (reason, message) of the Status in the response. Not the exception, whose traceback refers to this request.
        self.failure: tuple[str, str] | None = None
        self.flow: Flow | None = None  # by which flow control it was classified
        # (result, seconds) of these steps, for metrics: see `Observer`.
        self.authentication: tuple[str, float] | None = None
        self.authorization: tuple[str, float] | None = None
        self.record: RequestRecord | None = None  # the parts and their times; None for what is answered at once
        self.tracer: Tracer | None = None  # of a server that traces requests
        self.on_end: list[Callable[[], object]] = []  # called when the response has been sent, or failed

    @property
    def info_if_known(self) -> RequestInfo | None:
        """What the URL requests; None before it was parsed."""
        return getattr(self, "info", None)

    @property
    def verb(self) -> str:
        return self.info.verb

    @property
    def subresource(self) -> str:
        return self.info.subresource

    @property
    def field_manager(self) -> str:
        """The client's name as an owner of fields: the parameter fieldManager, else it is made of the user agent."""
        return self.query.get("fieldManager") or manager_of(self.header(b"user-agent"))

    def header(self, name: bytes) -> str:
        """The first value of a header, '' if there is none. name: in lower case."""
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
                short = len(self.query_string) <= _SHORT
                for key, value in (_known_parameters if short else _parameters)(self.query_string):
                    self._query_all.setdefault(key, []).append(value)
        return self._query_all

    async def body(self, limit: int = MAX_BODY_BYTES) -> bytes:
        """The whole body. Raises 413 above `limit` bytes, without keeping what is received beyond them, and BadRequest if the
        client disconnects.
        """
        if self._body is not None:
            return self._body
        length = self.header(b"content-length")
        declared = int(length) if length.isdigit() else 0
        # A client that expects 100 Continue has sent nothing yet.
        if declared > DROPPED_LIMITS * limit or (declared > limit and self.header(b"expect")):
            raise errors.request_entity_too_large(f"limit is {limit}")
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise errors.bad_request("the client disconnected before the end of the body")
            chunk = message.get("body", b"")
            size += len(chunk)
            if size <= limit:
                chunks.append(chunk)
            else:
                chunks.clear()
            if size > DROPPED_LIMITS * limit or not message.get("more_body", False):
                break
        if size > limit:
            raise errors.request_entity_too_large(f"limit is {limit}")
        self._body = b"".join(chunks)
        return self._body


@dataclass(slots=True)
class LongBody:
    """A body that is generated while it is sent, so that a long list needs no memory for its body.

    pieces: yields the body; each piece is generated when the iterator is advanced, in a turn (`endpoints/turns.py`), since that
    takes up to a millisecond. size: of the whole body, in bytes; None if that is not known. together: so many pieces may be
    generated in one turn while few responses wait for theirs.
    """

    size: int | None
    pieces: Callable[[], Iterable[bytes]]
    together: int = 1


@dataclass(slots=True)
class Response:
    """A response with a complete body, or with one that is generated while it is sent."""

    status: int
    body: bytes | LongBody
    content_type: bytes = JSON
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class Chunks(Protocol):
    """The pieces of a stream. `aclose` frees its resources, even if iteration has not begun; it may be called twice."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class BrokenOff(Exception):
    """Raised by chunks, from the error, where the client must see that what it got is not all: the connection is closed, or the
    stream reset.
    """


@dataclass(slots=True)
class StreamResponse:
    """A response whose head is sent at once, and each chunk when it is ready. It is closed when the client disconnects.

    unread_seconds: after which it is broken off if the client takes no chunk; 0 for never.
    """

    chunks: Chunks
    content_type: bytes = JSON
    status: int = 200
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    unread_seconds: float = 0.0


@dataclass(slots=True)
class ASGIResponse:
    """A response that another ASGI application sends (health, metrics, index)."""

    app: ASGIApp


AnyResponse = Response | StreamResponse | ASGIResponse
Handler = Callable[[Request], Awaitable[AnyResponse]]
Filter = Callable[[Handler], Handler]


class Shortened:
    """A filter with a shorter form for requests that are answered at once (`endpoints/lane.py`)."""

    def __init__(self, whole: Filter, at_once: Filter) -> None:
        self.whole = whole
        self.at_once = at_once

    def __call__(self, next_handler: Handler) -> Handler:
        return self.whole(next_handler)
