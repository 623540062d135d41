"""RequestRecord: the parts of one request with their times, kept by the request's task.

Whoever does a part of the work notes it when it has ended: `started = now()`, the work, `note("Create", started)`. Nobody passes
the record on, since a context variable has it, also in the tasks that a request starts. Where no request runs, as in controllers
and at the start, nothing is noted.
Source: k8s.io/apiserver pkg/endpoints/request/webhook_duration.go, k8s.io/component-base tracing, v0.36.3.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple

__all__ = ["MAX_PARTS", "Part", "RequestRecord", "TraceIds", "begin", "current", "note", "now", "outgoing"]

# Parts that are kept of one request. A request has some ten; one that deletes a collection may have any number.
MAX_PARTS = 200

# Monotonic seconds.
now = time.perf_counter


class Part(NamedTuple):
    """A part of a request, from `start` to `end` by `now`. detail: which one, such as the host of a webhook.

    span: its id, for a call of another server that was told of it; else ''.
    """

    name: str
    start: float
    end: float
    detail: str = ""
    span: str = ""


class TraceIds(NamedTuple):
    """The ids of a request that is traced, in hexadecimal. parent: the span that it belongs to, or ''. linked: (trace, span) that
    it names but does not belong to. new_span: makes the id of another span.
    """

    trace: str
    span: str
    parent: str
    sampled: bool
    new_span: Callable[[], str]
    linked: tuple[str, str] | None = None


class RequestRecord:
    """One request. started: by `now`.

    mutating_seconds: of all calls of mutating webhooks, which come one after the other. validating_seconds: of the longest call
    of a validating webhook, since those are made at once. queued_seconds: that the request has waited for its turn because others
    were running. Upstream leaves these three out of its service level indicators.
    """

    __slots__ = ("mutating_seconds", "parts", "queued_seconds", "started", "trace", "validating_seconds")

    def __init__(self) -> None:
        self.started = now()
        self.parts: list[Part] = []
        self.mutating_seconds = 0.0
        self.validating_seconds = 0.0
        self.queued_seconds = 0.0
        self.trace: TraceIds | None = None

    @property
    def foreign_seconds(self) -> float:
        """The time that does not count as this server's own."""
        return self.mutating_seconds + self.validating_seconds + self.queued_seconds

    def note(self, name: str, start: float, detail: str = "", span: str = "") -> None:
        """A part has ended now. Beyond MAX_PARTS, it is not kept."""
        if len(self.parts) < MAX_PARTS:
            self.parts.append(Part(name, start, now(), detail, span))


_current: ContextVar[RequestRecord | None] = ContextVar("request record", default=None)


def begin() -> RequestRecord:
    """A new record, which is the current one of this task and those that it starts from here on."""
    record = RequestRecord()
    _current.set(record)
    return record


def current() -> RequestRecord | None:
    """The record of the request that this task belongs to, None if it belongs to none."""
    return _current.get()


def note(name: str, start: float, detail: str = "", span: str = "") -> None:
    """Note a part of the current request that has begun at `start` and ends now."""
    record = _current.get()
    if record is not None:
        record.note(name, start, detail, span)


def outgoing() -> tuple[str, str]:
    """(value of the header traceparent, id of the span) for a call of another server; '' for both where nothing is traced.

    Source: W3C Trace Context 1.
    """
    record = _current.get()
    if record is None or record.trace is None:
        return "", ""
    span = record.trace.new_span()
    return f"00-{record.trace.trace}-{span}-{int(record.trace.sampled):02x}", span
