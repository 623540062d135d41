"""The filters, in the order a request passes them, and `application`, which sends the responses as ASGI messages.

    application      ASGI in and out; panic recovery, audit id, the headers of every response, gzip, metrics, a line of the log
    request_info     parses the URL
    deadline         limits the time until the response has been sent
    authentication   sets the user and removes the identity headers
    audit            makes the record of the request, where there is an audit policy (`endpoints/auditing.py`)
    impersonation    sets the user to another one, for Impersonate-* headers
    flow_control     lets a request wait for its turn, or rejects it, where too many are served (`flow_control/`)
    authorization    checks that the user may make the request

A filter is a function that takes the next handler and returns a handler; `chain` lists them all.
Source: k8s.io/apiserver pkg/server/config.go (DefaultBuildHandlerChain), pkg/endpoints/filters, pkg/server/filters, v0.36.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Protocol, TypeAlias

from aggserver.authentication.delegating import Authenticator
from aggserver.authentication.user import ANONYMOUS
from aggserver.authorization.attributes import forbidden
from aggserver.authorization.delegating import HEALTH_PATHS, Authorizer
from aggserver.endpoints import access, compression, negotiation, request_log, websocket
from aggserver.endpoints import request_info as info_module
from aggserver.endpoints.auditing import Auditor
from aggserver.endpoints.crowd import Crowd
from aggserver.endpoints.deadlines import Deadlines
from aggserver.endpoints.flow_control.flow_control import FlowControl, too_many
from aggserver.endpoints.impersonation import impersonate
from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import (
    PLAIN_TEXT,
    AnyResponse,
    ASGIApp,
    ASGIResponse,
    BrokenOff,
    Chunks,
    Filter,
    Handler,
    LongBody,
    Message,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    Shortened,
    StreamResponse,
    begin,
)
from aggserver.endpoints.slow_requests import SLOW_SECONDS, log_slow
from aggserver.endpoints.traced import start_trace, trace
from aggserver.endpoints.turns import Turns
from aggserver.meta import codec, duration, errors
from aggserver.meta.errors import StatusError
from aggserver.tracing import record
from aggserver.tracing.tracer import Tracer

__all__ = ["Observer", "application", "chain"]

log = logging.getLogger("aggserver.requests")

_LONG_RUNNING_VERBS = frozenset({"watch", "proxy"})
LONG_RUNNING_SUBRESOURCES = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_MUTATING_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# Upstream's limits in characters: for all warnings of a response together, and for each one if they exceed that.
_WARNINGS_TOTAL = 4096
_WARNING_CUT = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CACHE_CONTROL = (b"cache-control", b"no-cache, private")
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
# Seconds to send the 504 after a request's time is over, to a client that may not be reading. Upstream has buffers for it.
_TIMEOUT_RESPONSE_SECONDS = 5.0

# (code, bytes of the body) of a response; None if another ASGI application has sent it.
_Done: TypeAlias = tuple[int, int] | None


class Observer(Protocol):
    """Counts requests, for metrics; implemented in `monitoring/metrics.py`."""

    def request_done(self, request: Request, code: int, seconds: float, size: int) -> None: ...

    def in_flight(self, kind: str, count: int) -> None:
        """kind: readOnly or mutating."""

    def long_running(self, request: Request, change: int) -> None: ...

    def authenticated(self, request: Request) -> None:
        """`request.authentication` is set: success, failure or error, and the seconds."""

    def authorized(self, request: Request) -> None:
        """`request.authorization` is set: allowed, denied or error, and the seconds."""


def chain(
    authenticator: Authenticator,
    authorizer: Authorizer,
    clock: Callable[[], float],
    observer: Observer,
    *,
    timeout_seconds: float,
    max_reading: int,
    max_mutating: int,
    flow_control: FlowControl | None = None,
    before_authentication: Mapping[str, Filter] = MappingProxyType({}),
    before_authorization: Mapping[str, Filter] = MappingProxyType({}),
    auditor: Auditor | None = None,
) -> dict[str, Filter]:
    """The filters by name, in the order a request passes them. The limits are those of `deadline` and `in_flight`.

    flow_control: in place of `in_flight`.

    before_authentication, before_authorization: further filters, which only some modes have. auditor: None without an audit
    policy.
    """
    audit = {} if auditor is None else {"audit": auditor.filter()}
    return {
        "request_info": request_info(),
        "deadline": deadline(timeout_seconds, auditor),
        **before_authentication,
        "authentication": authentication(authenticator, clock, observer, auditor),
        **audit,
        "impersonation": impersonation(authorizer),
        **(
            {"in_flight": in_flight(max_reading, max_mutating, observer)}
            if flow_control is None
            else {"flow_control": in_turn(flow_control, observer)}
        ),
        **before_authorization,
        "authorization": authorization(authorizer, observer),
    }


def application(
    handler: Handler,
    chained: Mapping[str, Filter],
    observer: Observer,
    new_audit_id: Callable[[], str],
    tracer: Tracer | None = None,
) -> ASGIApp:
    """The handler and the filters in front of it, as one ASGI application. tracer: None if requests are not traced."""
    for wrap in reversed(list(chained.values())):
        handler = wrap(handler)
    turns = Turns()
    crowd = Crowd()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        clock = asyncio.get_running_loop().time
        started = clock()
        if b"watch=" in scope["query_string"]:
            await crowd.wait()
        request = Request(scope, receive)
        in_progress = begin(request)
        if request_log.is_on():
            send = request_log.logging_sender(request, send, clock, started)
        request.audit_id = audit_id_of(request, new_audit_id)
        request.received = started
        request.record = parts = record.begin()
        request.tracer = tracer
        request.allotted = asyncio.Timeout(None)
        done: _Done = None
        try:
            done = await _in_time(request, send, _exchange(handler, observer, turns, request, send))
        finally:
            in_progress.request = None
            # Emptied, because the callbacks refer to the request: in a circle it would wait for the collector.
            while request.on_end:
                request.on_end.pop()()
            if request.audit is not None:
                await request.audit.ended(0 if done is None else done[0])
        if done is None:
            return
        seconds = record.now() - parts.started
        if seconds >= SLOW_SECONDS and not is_long_running(request):
            log_slow(request, parts, done[0], seconds)
        if tracer is not None:
            trace(tracer, request, parts, done[0])
        observer.request_done(request, done[0], clock() - started, done[1])

    return websocket.with_websockets(app)


def audit_id_of(request: Request, new_audit_id: Callable[[], str]) -> str:
    """The audit id that the client has given, else a new one."""
    return request.header(b"audit-id") or new_audit_id()


async def _in_time(request: Request, send: Send, exchange: Awaitable[_Done]) -> _Done:
    """Run the exchange. If its time is over, send 504, or break off a response that has begun, as upstream."""
    try:
        async with request.allotted:
            return await exchange
    except TimeoutError:
        if request.begun:
            # Returning now, with the response incomplete, resets the stream or closes the connection.
            log.info("response broken off at its timeout: %s %s audit-id=%s", request.method, request.path, request.audit_id)
            return 504, 0
    late = errors.timeout("request did not complete within the allotted timeout")
    if request.audit is not None:
        request.audit.failed(late)
        await request.audit.ended(late.code)
    # As upstream, whose timeout filter does not negotiate: JSON without kind and apiVersion and the content type that Go detects.
    complete = late.status()
    status = {name: complete[name] for name in ("metadata", "status", "message", "reason")}
    body = codec.encode_json({**status, "details": {}, "code": late.code}) + b"\n"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_TIMEOUT_RESPONSE_SECONDS):
            return await _send_failure(request, Response(504, body, PLAIN_TEXT), send)
    return 504, 0


async def _exchange(handler: Handler, observer: Observer, turns: Turns, request: Request, send: Send) -> _Done:
    started = record.now()
    response = await _outcome(handler, request)
    if request.record is not None:
        request.record.note("Handler", started)
    if isinstance(response, StreamResponse) and websocket.is_upgrade(request):
        response = await _upgraded(request, response)
    if isinstance(response, ASGIResponse):
        await response.app(request.scope, request.receive, _with_headers(request, send))
        return None
    if isinstance(response, StreamResponse):
        observer.long_running(request, 1)
        try:
            await _send_stream(request, response, send)
        finally:
            observer.long_running(request, -1)
        return response.status, 0
    look = None
    if request.audit is not None:
        if isinstance(response.body, bytes):
            await request.audit.answered(response.status, response.content_type, response.body)
        else:
            response.body.pieces, look = request.audit.keeping(response.content_type, response.body.pieces)
    started = record.now()
    try:
        sent = await _send_whole(request, response, send, turns)
        if request.record is not None:
            request.record.note("Response", started)
        if look is not None:
            await look()
        return response.status, sent
    except Exception as error:
        if request.begun:
            raise  # too late for an error response; the server breaks off the one that has begun
        return await _send_failure(request, _failed(request, error), send)


async def _send_failure(request: Request, failure: Response, send: Send) -> _Done:
    assert isinstance(failure.body, bytes)
    return failure.status, await _send_bytes(request, failure, failure.body, send)


async def _upgraded(request: Request, stream: StreamResponse) -> StreamResponse | Response:
    answer = websocket.shake_hands(request, stream)
    if isinstance(answer, Response):
        await stream.chunks.aclose()
    return answer


async def _outcome(handler: Handler, request: Request) -> AnyResponse:
    try:
        return await handler(request)
    except Exception as error:
        response = _failed(request, error)
        if request.audit is not None and not isinstance(_only_failure(error), StatusError):
            await request.audit.panicked(error)
        return response


def _failed(request: Request, error: Exception) -> Response:
    failure = _only_failure(error)
    if isinstance(failure, StatusError):
        return status_response(request, failure)
    # The server goes on. The log has the traceback, with the audit id that the client sees.
    log.error("request failed: %s %s audit-id=%s", request.method, request.path, request.audit_id, exc_info=error)
    text = "This request caused apiserver to panic. Look in the logs for details."
    return status_response(request, errors.internal_error(text))


def _only_failure(error: BaseException) -> BaseException:
    """The first exception of a group, at any depth, since a response can have only one error; others as they are."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def status_response(request: Request, error: StatusError) -> Response:
    """The error as a Status in a form that the client accepts; as indented JSON if it accepts none."""
    try:
        media = negotiation.for_plain(request)
    except StatusError:
        media = MediaType(pretty=True)
    request.failure = (error.reason, error.message)
    if request.audit is not None:
        request.audit.failed(error)
    body, content_type = media.encode(error.status())
    headers = [(b"retry-after", b"%d" % error.retry_after)] if error.retry_after else []
    return Response(error.code, body, content_type, headers)


def _refusal(request: Request, error: StatusError) -> Response:
    """The response to a request that is not authorized. Its 403 has a header that admission's 403 lacks, as upstream."""
    response = status_response(request, error)
    if error.code == 403:
        response.headers.append(_NO_SNIFFING)
    return response


def headers_of(
    request: Request, content_type: bytes, more: Sequence[tuple[bytes, bytes]], size: int | None = None
) -> list[tuple[bytes, bytes]]:
    """The headers of a response. more: its own ones. size: of its body in bytes, None if that is not known."""
    names = {name for name, _ in more}
    headers = [(b"audit-id", request.audit_id.encode("latin-1", "replace"))]
    if b"cache-control" not in names:
        headers.append(_CACHE_CONTROL)
    if content_type:
        headers.append((b"content-type", content_type))
    headers.extend(more)
    if request.flow is not None:
        headers.extend(request.flow.headers)
    if request.added_headers:
        headers.extend(request.added_headers)
    if request.last_of_connection:
        headers.append((b"connection", b"close"))
    if request.warnings:
        headers.extend((b"warning", text) for text in warning_values(request.warnings))
    if size is not None:
        headers.append((b"content-length", b"%d" % size))
    return headers


def warning_values(texts: Iterable[str]) -> list[bytes]:
    """Values of Warning headers: `299 - "<text>"`, without repeated texts.

    As upstream, if all texts together are too long, each is cut short, and those after the limit are dropped. Texts with control
    characters can't be in a header, and are dropped too. Texts far beyond the limit are not looked at, since an object may cause
    hundreds of thousands.
    """
    unique = list(islice(_presentable(texts), _WARNINGS_TOTAL + 1))
    if sum(map(len, unique)) > _WARNINGS_TOTAL:
        unique = _cut_short(unique)
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in unique)
    return [f'299 - "{text}"'.encode("utf-8", "replace") for text in escaped]


def _presentable(texts: Iterable[str]) -> Iterator[str]:
    seen = set()
    for text in texts:
        if text and text not in seen and not _CONTROL.search(text):
            seen.add(text)
            yield text


def _cut_short(texts: Sequence[str]) -> list[str]:
    written, kept = 0, []
    for text in texts:
        if written >= _WARNINGS_TOTAL:
            break
        kept.append(text[:_WARNING_CUT])
        written += len(kept[-1])
    return kept


async def _send_whole(request: Request, response: Response, send: Send, turns: Turns) -> int:
    """Send a response that is not a stream. Returns the size of its body in bytes."""
    body = response.body
    if isinstance(body, bytes) and len(body) <= compression.MIN_BYTES:
        return await _send_bytes(request, response, body, send)
    compresses = response.status == 200 and compression.accepts(request.header(b"accept-encoding"))
    if isinstance(body, bytes):
        if compresses:
            response.headers.extend(compression.HEADERS)
            body = await compression.compress_whole(body)
        return await _send_bytes(request, response, body, send)
    # A long list is compressed while it is sent: many at once would take the memory of all their bodies otherwise.
    return await _send_generated(request, response, body, send, turns, compresses=compresses)


async def _send_generated(
    request: Request, response: Response, body: LongBody, send: Send, turns: Turns, *, compresses: bool
) -> int:
    """Send a body that is generated while it is sent: in one message if it is short, else without a Content-Length.

    Upstream sends no Content-Length with its long responses either.
    """
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        async with contextlib.aclosing(turns.each(body.pieces(), gone.done, body.together)) as pieces:
            first: list[bytes] = []
            if body.size is not None and not compresses:
                await _begin(request, response, body.size, send)
                return await _send_pieces(request, pieces, send)
            while sum(map(len, first)) <= compression.MIN_BYTES:
                piece = await anext(pieces, None)
                if piece is None:
                    return await _send_bytes(request, response, b"".join(first), send)
                first.append(piece)
            if compresses:
                response.headers.extend(compression.HEADERS)
            await _begin(request, response, None, send)
            every = _after(first, pieces)
            return await _send_pieces(request, compression.compress_pieces(every) if compresses else every, send)
    finally:
        gone.cancel()


async def _each(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def _after(first: Sequence[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for piece in first:
        yield piece
    async for piece in rest:
        yield piece


async def _send_bytes(request: Request, response: Response, body: bytes, send: Send) -> int:
    await _begin(request, response, len(body) if response.status != 204 else None, send)
    await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})
    return len(body)


async def _begin(request: Request, response: Response, size: int | None, send: Send) -> None:
    headers = headers_of(request, response.content_type, response.headers, size)
    request.begun = True
    await send({"type": "http.response.start", "status": response.status, "headers": headers})


async def _send_pieces(request: Request, pieces: AsyncIterator[bytes], send: Send) -> int:
    size = 0
    async for piece in pieces if request.method != "HEAD" else _each(()):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        size += len(piece)
    await send({"type": "http.response.body", "body": b""})
    return size


async def _send_stream(request: Request, response: StreamResponse, send: Send) -> None:
    try:
        headers = headers_of(request, response.content_type, response.headers)
        request.begun = True
        if request.audit is not None:
            await request.audit.started(response.status)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        # Some ASGI servers send the head only with the first body message, and clients wait for the head of a watch.
        await send({"type": "http.response.body", "body": b"", "more_body": request.method != "HEAD"})
        if request.method != "HEAD":
            await _pump_until_disconnect(request, response, send)
    finally:
        await response.chunks.aclose()


async def _pump_until_disconnect(request: Request, response: StreamResponse, send: Send) -> None:
    gone = asyncio.ensure_future(_disconnected(request))
    pump = asyncio.ensure_future(_pump(response.chunks, _impatient(send, response.unread_seconds)))
    try:
        await asyncio.wait((gone, pump), return_when=asyncio.FIRST_COMPLETED)
        if pump.done():
            failure = pump.exception()
            if isinstance(failure, _UnreadError):
                log.info("stream broken off, since its client does not read: %s audit-id=%s", request.path, request.audit_id)
                return
            if isinstance(failure, BrokenOff):
                why = failure.__cause__
                traceback = None if isinstance(why, StatusError) else why
                log.error("stream broken off: %s audit-id=%s: %s", request.path, request.audit_id, why, exc_info=traceback)
                return
            if failure is not None:
                # The status has been sent, so the stream can only be ended; the client will watch again.
                log.error("stream failed: %s audit-id=%s", request.path, request.audit_id, exc_info=failure)
            await send({"type": "http.response.body", "body": b""})
    finally:
        for task in (gone, pump):
            task.cancel()
        await asyncio.gather(gone, pump, return_exceptions=True)


class _UnreadError(Exception):
    """The client takes nothing. What is left of the response is not sent, which closes the connection or resets the stream."""


def _impatient(send: Send, seconds: float) -> Send:
    if not seconds:
        return send

    async def sending(message: Message) -> None:
        try:
            async with asyncio.timeout(seconds):
                await send(message)
        except TimeoutError:
            raise _UnreadError from None

    return sending


async def _pump(chunks: Chunks, send: Send) -> None:
    async for chunk in chunks:
        message: Message = {"type": "http.response.body", "body": chunk, "more_body": True}
        del chunk  # otherwise an idle watch would keep its last events in memory
        await send(message)
        del message


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _with_headers(request: Request, send: Send) -> Send:
    """Add our headers to the response of another ASGI application."""

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            request.begun = True
            if request.audit is not None:
                status = message["status"]
                assert isinstance(status, int)
                await request.audit.started(status)
            theirs = message.get("headers") or []
            assert isinstance(theirs, list)
            message = {**message, "headers": headers_of(request, b"", theirs)}
        elif request.method == "HEAD":
            message = {**message, "body": b""}
        await send(message)

    return sender


def request_info() -> Filter:
    """Sets what the URL requests. The lane has done so, to know whether the request is for it."""

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            request.info = info_module.parse(request.method, request.path, request.query)
            return await next_handler(request)

        return handler

    return Shortened(wrap, _passing)


def _passing(next_handler: Handler) -> Handler:
    return next_handler


def deadline(seconds: float, auditor: Auditor | None = None) -> Filter:
    """Limits the time of requests that are not long-running to `seconds`, or to the client's ?timeout= if that is shorter.

    As upstream, the time includes the sending of the response. What is answered at once never reaches it.
    """
    deadlines = Deadlines(seconds)

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            if not is_long_running(request):
                try:
                    deadlines.begin(request, _limit(request, seconds))
                except StatusError:
                    if auditor is not None:
                        auditor.refused(request)
                    raise
            return await next_handler(request)

        return handler

    return Shortened(wrap, _passing)


def is_long_running(request: Request) -> bool:
    """As kube-apiserver decides it, which cuts all other requests that it passes on to an aggregated server after a minute."""
    return request.info.verb in _LONG_RUNNING_VERBS or request.info.subresource in LONG_RUNNING_SUBRESOURCES


def _limit(request: Request, maximum: float) -> float:
    text = request.query.get("timeout", "")
    if not text:
        return maximum
    try:
        wanted = duration.parse(text)
    except ValueError as error:
        raise errors.bad_request(f"invalid timeout specified in the request URL - {error}") from None
    return min(wanted, maximum) if wanted > 0 else maximum


def authentication(
    authenticator: Authenticator, clock: Callable[[], float], observer: Observer, auditor: Auditor | None = None
) -> Filter:
    """Sets the user and removes the identity headers. If authentication fails, the connection is closed after the response.

    It is also closed after an anonymous request over HTTP/2, where one connection can do much harm. That is upstream's
    UnauthenticatedHTTP2DOSMitigation; it also closes the aggregator's connection when that forwards an anonymous request.
    On a connection that began before the server knew the client CAs, authentication may fail with 503, since its handshake
    requested no client certificate.
    """

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            started = record.now()
            try:
                outcome = await authenticator.authenticate(
                    request.headers,
                    request.peer,
                    clock(),
                    knew_all_cas=request.knew_all_cas,
                    for_anyone=request.path.startswith(HEALTH_PATHS),
                )
            except StatusError as error:
                request.authentication = ("failure" if error.code == 401 else "error", record.now() - started)
                _authenticated(request, observer, started)
                request.last_of_connection = True
                if auditor is not None:
                    auditor.refused(request)
                return status_response(request, error)
            request.user, request.headers = outcome.user, outcome.headers
            request.authentication = ("success", record.now() - started)
            _authenticated(request, observer, started)
            if request.tracer is not None:
                start_trace(request.tracer, request, by_proxy=outcome.by_proxy)
            if outcome.user is ANONYMOUS and request.http_version == "2":
                request.last_of_connection = True
            return await next_handler(request)

        return handler

    return wrap


def _authenticated(request: Request, observer: Observer, started: float) -> None:
    if request.record is not None:  # else the lane reports it, unless the request begins anew
        observer.authenticated(request)
        request.record.note("Authentication", started)


def _authorized(request: Request, observer: Observer, started: float) -> None:
    if request.record is not None:
        observer.authorized(request)
        request.record.note("Authorization", started)


def impersonation(authorizer: Authorizer) -> Filter:
    """Sets the user to the one that Impersonate-* headers name, if the requesting user may impersonate that one."""

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            for name, _ in request.headers:  # not `any`, which takes four times as long
                if name.startswith(b"impersonate-"):
                    break
            else:
                return await next_handler(request)
            try:
                user, request.headers = await impersonate(request.headers, request.user, authorizer)
            except StatusError as error:
                return _refusal(request, error)
            if request.audit is not None and user is not request.user:
                request.audit.record.impersonated = user.to_json()
            request.user = user
            return await next_handler(request)

        return handler

    return wrap


def in_flight(reading: int, mutating: int, observer: Observer) -> Filter:
    """Limits the number of concurrent requests of each kind; 0 is no limit. Long-running requests and system:masters are exempt.

    As upstream, a request counts until its response has been sent, since a slow client holds the memory of the response. One that
    is answered at once needs a place, too, and has left it before anyone could see it there.
    """
    limits = {"readOnly": reading, "mutating": mutating}
    counts = {"readOnly": 0, "mutating": 0}

    def count(kind: str, change: int) -> None:
        counts[kind] += change
        observer.in_flight(kind, counts[kind])

    def refusal(kind: str, request: Request) -> Response | None:
        if limits[kind] and counts[kind] >= limits[kind] and "system:masters" not in request.user.groups:
            return too_many(1)
        return None

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            verb = request.info.verb
            if is_long_running(request):
                return await next_handler(request)
            kind = "mutating" if verb in _MUTATING_VERBS else "readOnly"
            if (refused := refusal(kind, request)) is not None:
                return refused
            count(kind, 1)
            request.on_end.append(partial(count, kind, -1))
            return await next_handler(request)

        return handler

    def at_once(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            return refusal("readOnly", request) or await next_handler(request)

        return handler

    return Shortened(wrap, at_once)


def in_turn(flow_control: FlowControl, observer: Observer) -> Filter:
    """Lets each request wait for its turn where its priority level is full. Long-running requests other than watches are exempt.

    As with `in_flight`, a request counts until its response has been sent.
    """
    counts = {"readOnly": 0, "mutating": 0}

    def count(kind: str, change: int) -> None:
        counts[kind] += change
        observer.in_flight(kind, counts[kind])

    return flow_control.filter(is_long_running, count)


def authorization(authorizer: Authorizer, observer: Observer) -> Filter:
    """Refuses requests that the user is not allowed to make."""

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            started = record.now()
            attributes = access.attributes_of(request.info, request.user)
            try:
                decision = await authorizer.authorize(attributes)
            except StatusError as error:
                if request.audit is not None:
                    request.audit.undecided()
                request.authorization = ("denied" if error.code == 403 else "error", record.now() - started)
                _authorized(request, observer, started)
                return _refusal(request, error)
            if request.audit is not None:
                request.audit.decided(decision.reason, allowed=decision.allowed)
            if not decision.allowed:
                request.authorization = ("denied", record.now() - started)
                _authorized(request, observer, started)
                return _refusal(request, forbidden(attributes, decision.reason))
            request.authorizer = authorizer
            request.authorization = ("allowed", record.now() - started)
            _authorized(request, observer, started)
            return await next_handler(request)

        return handler

    return wrap
