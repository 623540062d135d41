"""Auditing: makes the audit record of a request, and sends its event at each stage that the policy asks for.

The filter stands behind authentication, so that a record tells who asks, and before impersonation. Handlers, authorization and
admission add what they know to `request.audit`, which is None without a policy and where the policy's level is None.
`filters.application` tells of the response. Requests that are refused before the filter have one event, ResponseStarted, as
upstream. A request that the lane answers has all its events when it is answered.
Source: k8s.io/apiserver pkg/endpoints/filters/{audit,authn_audit,request_deadline}.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from aggserver.audit.backends import AuditObserver, Sink
from aggserver.audit.events import AuditRecord, micro_time, source_ips, user_agent
from aggserver.audit.policy import LEVELS, AuditPolicy
from aggserver.authentication.user import UserInfo
from aggserver.endpoints import access
from aggserver.endpoints.audited import Audit
from aggserver.endpoints.request import AnyResponse, Filter, Handler, Request, Response, Shortened
from aggserver.meta import errors

__all__ = ["Auditor"]

_NOBODY = UserInfo("")


class Auditor:
    """Decides by the policy which requests are recorded. clock: in seconds since 1970. is_long_running: as of filters.

    may_wait: whether a sink may wait, or refuse a request; then the lane leaves requests that are recorded to the application.
    """

    def __init__(
        self,
        policy: AuditPolicy,
        sink: Sink,
        observer: AuditObserver,
        clock: Callable[[], float],
        is_long_running: Callable[[Request], bool],
        *,
        may_wait: bool,
    ) -> None:
        self._policy = policy
        self._sink = sink
        self._observer = observer
        self._clock = clock
        self._is_long_running = is_long_running
        self._may_wait = may_wait

    def filter(self) -> Filter:
        return Shortened(self._whole, self._at_once)

    def refused(self, request: Request) -> None:
        """The request is refused before it comes to the filter."""
        request.audit = self._audit(request, _NOBODY, refused=True)

    def answered_at_once(self, request: Request, response: Response) -> None:
        """The lane has answered the request."""
        audit = request.audit
        if audit is None:
            self._observer.level(LEVELS[0])
            return
        self._observer.level(LEVELS[audit.record.verdict.level])
        self.send(audit.record, "RequestReceived")
        assert isinstance(response.body, bytes)
        _finish(audit.answered(response.status, response.content_type, response.body))

    def send(self, record: AuditRecord, stage: str) -> bool | Awaitable[bool]:
        """What the sink says; True for a stage that is omitted."""
        if stage in record.verdict.omitted:
            return True
        self._observer.event()
        return self._sink(record.event(stage, self._clock()))

    def _whole(self, next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            audit = request.audit = self._audit(request, request.user)
            self._observer.level(LEVELS[0 if audit is None else audit.record.verdict.level])
            if audit is not None:
                taken = self.send(audit.record, "RequestReceived")
                if not (taken if isinstance(taken, bool) else await taken):
                    request.audit = None
                    self._observer.rejected()
                    raise errors.internal_error("failed to store audit event")
            return await next_handler(request)

        return handler

    def _at_once(self, next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            request.audit = self._audit(request, request.user)
            if request.audit is not None and self._may_wait:
                await asyncio.sleep(0)  # which ends the lane's run
            return await next_handler(request)

        return handler

    def _audit(self, request: Request, user: UserInfo, *, refused: bool = False) -> Audit | None:
        attributes = access.attributes_of(request.info, user)
        verdict = self._policy.of(attributes)
        if not verdict.level:
            return None
        waited = asyncio.get_running_loop().time() - request.received
        target: bytes = request.scope.get("raw_path") or b"/"
        query: bytes = request.scope["query_string"]
        client = request.scope.get("client")
        agent, forwarded, real = b"", "", ""
        # Once over all of them. The first of several counts, as in Go's Header.Get.
        for name, value in request.headers:
            if name == b"user-agent":
                agent = agent or value
            elif name == b"x-forwarded-for":
                forwarded = forwarded or value.decode("latin-1")
            elif name == b"x-real-ip":
                real = real or value.decode("latin-1")
        record = AuditRecord(
            verdict,
            attributes,
            request.audit_id,
            (b"%s?%s" % (target, query) if query else target).decode("utf-8", "replace"),
            source_ips(forwarded, real, client[0] if client else ""),
            user_agent(agent),
            micro_time(self._clock() - waited),
        )
        return Audit(
            self.send,
            record,
            is_api=request.path.startswith("/api"),
            is_long_running=self._is_long_running(request),
            refused=refused,
        )


def _finish(step: Coroutine[Any, Any, object]) -> None:
    """Run what does not wait: no sink does where the lane answers, and its bodies are short."""
    try:
        step.send(None)
    except StopIteration:
        return
    step.close()
    raise AssertionError("an event of the lane waits")
