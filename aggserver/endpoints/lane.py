"""The lane: answers a plain read of one object, or of few, at once, in the call of the event loop that has read the request.

The same filters and the same handler are asked as for any request, in the same order; left out is only what a request needs that
waits: a task, ASGI's messages, a deadline, a place among those in flight. So the lane has no rule of its own about who may read
what. A request takes it if it is a GET of one stored object, without parameters, or of a list of them by a selector (`LISTING`),
whose headers are those that clients and the aggregator always send (`USUAL`). It leaves it, and begins anew as any other request
does, if its answer would have to wait: for the review of a token or of a permission, for a cache that is not filled or is behind,
for an index, for a turn to look at many objects, for an object that is not converted yet; and if the response is not a whole body
in memory that fits into the client's windows.

Nothing else happens in the server while an answer is made, so each one is by the CAs, roles, definitions and objects of that
moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from aggserver.endpoints import compression, filters, request_log
from aggserver.endpoints import request_info as info_module
from aggserver.endpoints.auditing import Auditor
from aggserver.endpoints.filters import Observer
from aggserver.endpoints.request import Filter, Handler, Message, Request, Response, Scope
from aggserver.meta.errors import StatusError

__all__ = ["LISTING", "USUAL", "Lane", "LaneAnswer"]

# Headers that need nothing done that waits. The chain reads some of them, as it does for any request; the others only inform.
USUAL = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"audit-id",
        b"authorization",
        b"content-type",
        b"host",
        b"kubectl-command",
        b"kubectl-session",
        b"traceparent",
        b"tracestate",
        b"user-agent",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"x-forwarded-uri",
        b"x-remote-group",
        b"x-remote-uid",
        b"x-remote-user",
    }
)
_REMOTE_EXTRA = b"x-remote-extra-"
# The parameters of lists that take it, of which one is a selector: without one, a list is mostly too long for it.
_SELECTORS = frozenset({"fieldSelector", "labelSelector"})
LISTING = _SELECTORS | {"limit", "resourceVersion"}


class LaneAnswer(NamedTuple):
    """A whole response. headers: with `connection: close` if the connection is to end after it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Lane:
    """The lane of one server. handler, chained, observer, new_audit_id: as of `filters.application`.

    is_stored: whether the objects of a (group, version, resource) are in the server's own storage, so that reading one is a
    look-up that may be begun twice. Those of others are asked for over a network, or from code of an App. auditor: None without
    an audit policy.
    """

    def __init__(
        self,
        handler: Handler,
        chained: Mapping[str, Filter],
        observer: Observer,
        new_audit_id: Callable[[], str],
        is_stored: Callable[[str, str, str], bool],
        auditor: Auditor | None = None,
    ) -> None:
        for wrap in reversed(list(chained.values())):
            handler = getattr(wrap, "at_once", wrap)(handler)
        self._handler = handler
        self._observer = observer
        self._new_audit_id = new_audit_id
        self._is_stored = is_stored
        self._auditor = auditor

    def __call__(self, scope: Scope, room: int) -> LaneAnswer | None:
        """The answer to a request; None if it is to be made by the application. scope: ASGI's, without a body. room: bytes that
        a body may have to be sent without waiting.
        """
        if scope["method"] != "GET" or request_log.is_on():
            return None
        for name, _ in scope["headers"]:
            if name not in USUAL and not name.startswith(_REMOTE_EXTRA):
                return None
        request = Request(scope, _no_body)
        if scope["query_string"] and (not request.query.keys() <= LISTING or _SELECTORS.isdisjoint(request.query)):
            return None
        info = info_module.parse("GET", scope["path"], request.query)
        is_taken = info.verb == ("list" if request.query else "get") and not info.subresource
        if not is_taken or not self._is_stored(info.group, info.version, info.resource):
            return None
        clock = asyncio.get_running_loop().time
        started = clock()
        request.info = info
        request.audit_id = filters.audit_id_of(request, self._new_audit_id)
        request.received = started
        response = _at_once(self._handler, request)
        if response is None or not isinstance(response.body, bytes) or len(response.body) > min(room, compression.MIN_BYTES):
            return None
        body = response.body
        if self._auditor is not None:
            self._auditor.answered_at_once(request, response)
        headers = filters.headers_of(request, response.content_type, response.headers, len(body))
        if request.flow is not None:
            request.flow.counts.at_once += 1
        observer = self._observer
        if request.authentication is not None:
            observer.authenticated(request)
        if request.authorization is not None:
            observer.authorized(request)
        observer.request_done(request, response.status, clock() - started, len(body))
        return LaneAnswer(response.status, headers, body)


def _at_once(handler: Handler, request: Request) -> Response | None:
    """The handler's response; None if it waits for something, fails, or responds with a stream.

    A handler that waits is ended where it does. What it has asked for goes on, and the application's own try joins it.
    """
    running = handler(request).__await__()
    try:
        next(running)
    except StopIteration as done:
        return done.value if isinstance(done.value, Response) else None
    except StatusError as error:
        return filters.status_response(request, error)
    except Exception:
        return None  # the application meets it again, and reports it
    running.close()
    return None


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}
