"""The filters, in the order a request meets them, and the one place that turns outcomes into ASGI messages.

    application      ASGI in and out; panic recovery, audit id, the headers of every answer, gzip, metrics
    request_info     what the URL asks for
    deadline         how long it may take
    authentication   who asks (and identity headers are removed), then impersonation
    in_flight        how many at once
    authorization    may they

Each is a function that takes the next handler and returns a handler. `app.py` puts them together as a list.
Source: k8s.io/apiserver pkg/server/config.go (DefaultBuildHandlerChain), pkg/endpoints/filters, pkg/server/filters, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
import unicodedata
from collections.abc import Callable, Sequence
from typing import Protocol

from aggserver.authentication.delegating import Authenticator
from aggserver.authorization.delegating import Authorizer
from aggserver.endpoints import access, negotiation, websocket
from aggserver.endpoints import request_info as info_module
from aggserver.endpoints.compression import compressed
from aggserver.endpoints.impersonation import impersonate
from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import (
    PLAIN_TEXT,
    AnyResponse,
    ASGIApp,
    ASGIResponse,
    Chunks,
    Filter,
    Handler,
    Message,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    StreamResponse,
)
from aggserver.meta import duration, errors
from aggserver.meta.errors import StatusError

__all__ = ["Observer", "application", "authentication", "authorization", "deadline", "in_flight", "request_info"]

log = logging.getLogger("aggserver.requests")

_LONG_RUNNING_VERBS = frozenset({"watch", "proxy"})
_MUTATING_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# Upstream's limits of all warnings of one answer, in characters, and of each once these are exceeded.
_WARNINGS_TOTAL = 4096
_WARNING_CUT = 256
_CACHE_CONTROL = (b"cache-control", b"no-cache, private")
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_TOO_MANY = b"Too many requests, please try again later.\n"


class Observer(Protocol):
    """Where the figures of requests go (`server/health.py` has the metrics)."""

    def request_done(self, request: Request, code: int, seconds: float, size: int) -> None: ...

    def in_flight(self, kind: str, count: int) -> None:
        """kind: readOnly or mutating."""

    def long_running(self, request: Request, change: int) -> None: ...


def application(handler: Handler, observer: Observer, new_audit_id: Callable[[], str]) -> ASGIApp:
    """The whole chain as one ASGI application."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = asyncio.get_running_loop().time()
        request = Request(scope, receive)
        request.audit_id = request.header(b"audit-id") or new_audit_id()
        response = await _outcome(handler, request)
        if isinstance(response, StreamResponse) and websocket.is_upgrade(request):
            response = await _upgraded(request, response)
        if isinstance(response, ASGIResponse):
            await response.app(scope, request.receive, _with_headers(request, send))
            return
        if isinstance(response, StreamResponse):
            observer.long_running(request, 1)
            try:
                await _send_stream(request, response, send)
            finally:
                observer.long_running(request, -1)
            size = 0
        else:
            size = await _send_whole(request, response, send)
        observer.request_done(request, response.status, asyncio.get_running_loop().time() - started, size)

    return websocket.with_websockets(app)


async def _upgraded(request: Request, stream: StreamResponse) -> StreamResponse | Response:
    answer = websocket.shake_hands(request, stream)
    if isinstance(answer, Response):
        await stream.chunks.aclose()
    return answer


async def _outcome(handler: Handler, request: Request) -> AnyResponse:
    try:
        return await handler(request)
    except StatusError as error:
        return status_response(request, error)
    except Exception as error:
        failure = _only_failure(error)
        if isinstance(failure, StatusError):
            return status_response(request, failure)
        # One request's fault is that request's alone; what it was is in the log, under the id that the client sees.
        log.exception("request failed: %s %s audit-id=%s", request.method, request.path, request.audit_id)
        text = "This request caused apiserver to panic. Look in the logs for details."
        return status_response(request, errors.internal_error(text))


def _only_failure(error: BaseException) -> BaseException:
    """What a task group wraps, where it is a single thing."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def status_response(request: Request, error: StatusError) -> Response:
    """The Status, in the form that the client asked for; JSON where that can't be had, since an error must be told somehow."""
    try:
        media = negotiation.for_plain(request)
    except StatusError:
        media = MediaType(pretty=True)
    body, content_type = media.encode(error.status())
    headers = [(b"retry-after", b"%d" % error.retry_after)] if error.retry_after else []
    if error.code == 403:
        headers.append(_NO_SNIFFING)
    return Response(error.code, body, content_type, headers)


def _headers(request: Request, content_type: bytes, more: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    names = {name for name, _ in more}
    headers = [(b"audit-id", request.audit_id.encode("latin-1", "replace"))]
    if b"cache-control" not in names:
        headers.append(_CACHE_CONTROL)
    if content_type:
        headers.append((b"content-type", content_type))
    headers.extend(more)
    headers.extend((b"warning", text) for text in warning_values(request.warnings))
    return headers


def warning_values(texts: Sequence[str]) -> list[bytes]:
    """`299 - "<text>"`, each once, cut short where all together are too long, until the limit is passed even so.

    Texts with control characters can't be in a header, and are left out, as upstream has it.
    """
    unique = [text for text in dict.fromkeys(texts) if text and not any(map(_is_control, text))]
    if sum(map(len, unique)) > _WARNINGS_TOTAL:
        unique = _cut_short(unique)
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in unique)
    return [f'299 - "{text}"'.encode("utf-8", "replace") for text in escaped]


def _is_control(character: str) -> bool:
    return unicodedata.category(character) == "Cc"


def _cut_short(texts: Sequence[str]) -> list[str]:
    written, kept = 0, []
    for text in texts:
        if written >= _WARNINGS_TOTAL:
            break
        kept.append(text[:_WARNING_CUT])
        written += len(kept[-1])
    return kept


async def _send_whole(request: Request, response: Response, send: Send) -> int:
    body = response.body
    headers = _headers(request, response.content_type, response.headers)
    if response.status == 200:
        body, encoding = await compressed(body, request.header(b"accept-encoding"))
        headers.extend(encoding)
    size = len(body) if isinstance(body, bytes) else body.size
    headers.append((b"content-length", b"%d" % size))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if request.method == "HEAD":
        body = b""
    if not isinstance(body, bytes):
        for piece in body.pieces():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})
    return size


async def _send_stream(request: Request, response: StreamResponse, send: Send) -> None:
    try:
        headers = _headers(request, response.content_type, response.headers)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        # Some servers hold the head back until there is a body; a client waits for it before it trusts the watch.
        await send({"type": "http.response.body", "body": b"", "more_body": request.method != "HEAD"})
        if request.method != "HEAD":
            await _pump_until_gone(request, response.chunks, send)
    finally:
        await response.chunks.aclose()


async def _pump_until_gone(request: Request, chunks: Chunks, send: Send) -> None:
    gone = asyncio.ensure_future(_disconnected(request))
    pump = asyncio.ensure_future(_pump(chunks, send))
    try:
        await asyncio.wait((gone, pump), return_when=asyncio.FIRST_COMPLETED)
        if pump.done():
            if pump.exception() is not None:
                # The head is out: all that is left is to end, and for the client to come back.
                log.error("stream failed: %s audit-id=%s", request.path, request.audit_id, exc_info=pump.exception())
            await send({"type": "http.response.body", "body": b""})
    finally:
        for task in (gone, pump):
            task.cancel()
        await asyncio.gather(gone, pump, return_exceptions=True)


async def _pump(chunks: Chunks, send: Send) -> None:
    async for chunk in chunks:
        message: Message = {"type": "http.response.body", "body": chunk, "more_body": True}
        del chunk  # or a watch that has nothing to tell keeps what it told last
        await send(message)
        del message


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _with_headers(request: Request, send: Send) -> Send:
    """For answers of other applications: our headers beside theirs."""

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            theirs = message.get("headers") or []
            assert isinstance(theirs, list)
            message = {**message, "headers": _headers(request, b"", theirs)}
        elif request.method == "HEAD":
            message = {**message, "body": b""}
        await send(message)

    return sender


def request_info(next_handler: Handler) -> Handler:
    async def handler(request: Request) -> AnyResponse:
        request.info = info_module.parse(request.method, request.path, request.query)
        return await next_handler(request)

    return handler


def deadline(seconds: float) -> Filter:
    """A request that is not long-running ends after `seconds`, or earlier where it asks for that with ?timeout=."""

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            if request.info.verb in _LONG_RUNNING_VERBS:
                return await next_handler(request)
            limit = _limit(request, seconds)
            try:
                async with asyncio.timeout(limit) as allotted:
                    return await next_handler(request)
            except TimeoutError:
                if not allotted.expired():  # somebody else's, on the way
                    raise
                raise errors.timeout("request did not complete within the allotted timeout") from None

        return handler

    return wrap


def _limit(request: Request, maximum: float) -> float:
    text = request.query.get("timeout", "")
    if not text:
        return maximum
    try:
        wanted = duration.parse(text)
    except ValueError as error:
        raise errors.bad_request(f"invalid timeout specified in the request URL - {error}") from None
    return min(wanted, maximum) if wanted > 0 else maximum


def authentication(authenticator: Authenticator, clock: Callable[[], float]) -> Filter:
    """Sets the user and takes the identity headers away."""

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            try:
                outcome = await authenticator.authenticate(request.headers, request.peer, clock())
            except StatusError as error:
                response = status_response(request, error)
                if request.http_version.startswith("1"):
                    # Costs someone who has no business here a new connection for every try.
                    response.headers.append((b"connection", b"close"))
                return response
            request.user, request.headers = outcome.user, outcome.headers
            return await next_handler(request)

        return handler

    return wrap


def impersonation(authorizer: Authorizer) -> Filter:
    """Impersonate-* headers, for those who may."""

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            if any(name.startswith(b"impersonate-") for name, _ in request.headers):
                request.user, request.headers = await impersonate(request.headers, request.user, authorizer)
            return await next_handler(request)

        return handler

    return wrap


def in_flight(reading: int, mutating: int, observer: Observer) -> Filter:
    """At most so many requests at once of each kind; watches don't count. 0 is no limit. system:masters are never turned away."""
    limits = {"readOnly": reading, "mutating": mutating}
    counts = {"readOnly": 0, "mutating": 0}

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            verb = request.info.verb
            if verb in _LONG_RUNNING_VERBS:
                return await next_handler(request)
            kind = "mutating" if verb in _MUTATING_VERBS else "readOnly"
            if limits[kind] and counts[kind] >= limits[kind] and "system:masters" not in request.user.groups:
                return Response(429, _TOO_MANY, PLAIN_TEXT, [_NO_SNIFFING, (b"retry-after", b"1")])
            counts[kind] += 1
            observer.in_flight(kind, counts[kind])
            try:
                return await next_handler(request)
            finally:
                counts[kind] -= 1
                observer.in_flight(kind, counts[kind])

        return handler

    return wrap


def authorization(authorizer: Authorizer) -> Filter:
    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            await access.require(authorizer, access.attributes_of(request.info, request.user))
            return await next_handler(request)

        return handler

    return wrap
