"""Tracer: which requests are traced, under which ids, and as which spans. Knows nothing of how spans are sent.

A request that the front proxy passes on, or one of an administrator, goes on with the trace that its traceparent names, and with
the decision in it whether that is sampled. Everybody else could make others' traces long, or have every request sampled: such a
request begins a trace of its own, which refers to the one that it names. Without a traceparent, and for traces of its own, the
rate of the configuration decides.
Source: k8s.io/apiserver pkg/endpoints/filters/traces.go, k8s.io/component-base tracing/utils.go, v0.36.3; W3C Trace Context 1.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from aggserver.tracing.record import Part, RequestRecord, TraceIds, now

__all__ = ["Span", "Tracer", "parse_traceparent"]

MILLION = 1_000_000

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16
_MAX_TRACEPARENT = 200


@dataclass(frozen=True, slots=True)
class Span:
    """Ids are in hexadecimal, times in nanoseconds since the epoch. parent: '' for the first span of a trace. linked: (trace,
    span) that it refers to. server: whether it is the request itself.
    """

    name: str
    trace: str
    span: str
    parent: str
    start: int
    end: int
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    linked: tuple[str, str] | None = None
    server: bool = False


def parse_traceparent(text: str) -> tuple[str, str, bool] | None:
    """(trace, span, whether it is sampled) of the header; None if it is not valid."""
    found = _TRACEPARENT.fullmatch(text) if len(text) <= _MAX_TRACEPARENT else None
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or trace == _NO_TRACE or span == _NO_SPAN:
        return None
    return trace, span, bool(int(flags, 16) & 1)


class Tracer:
    """rate_per_million: of requests that begin a trace. random: that many random bytes. export: takes the spans of a request; it
    must not block, and may drop them.
    """

    def __init__(self, rate_per_million: int, random: Callable[[int], bytes], export: Callable[[Sequence[Span]], None]) -> None:
        self._below = (rate_per_million << 63) // MILLION
        self._random = random
        self._export = export

    def start(self, record: RequestRecord, traceparent: str, *, trusted: bool) -> None:
        """Give the request its ids. trusted: whether it may go on with the trace that it names."""
        given = parse_traceparent(traceparent) if traceparent else None
        if given is not None and trusted:
            trace, parent, sampled = given
            record.trace = TraceIds(trace, self._new(8), parent, sampled, self.new_span)
            return
        trace = self._new(16)
        sampled = int(trace[16:], 16) >> 1 < self._below
        linked = None if given is None else (given[0], given[1])
        record.trace = TraceIds(trace, self._new(8), "", sampled, self.new_span, linked)

    def new_span(self) -> str:
        return self._new(8)

    def finish(self, record: RequestRecord, name: str, attributes: Mapping[str, str | int]) -> None:
        """The request has ended: its parts become spans, if it is sampled."""
        ids = record.trace
        if ids is None or not ids.sampled:
            return
        end = now()
        epoch = time.time_ns() - round(end * 1e9)
        request = Part("", record.started, end, span=ids.span)
        spans = [
            Span(
                name,
                ids.trace,
                ids.span,
                ids.parent,
                epoch + round(request.start * 1e9),
                epoch + round(end * 1e9),
                attributes,
                ids.linked,
                server=True,
            )
        ]
        for part, parent in nested(record.parts, self.new_span):
            detail: dict[str, str | int] = {"detail": part.detail} if part.detail else {}
            times = epoch + round(part.start * 1e9), epoch + round(part.end * 1e9)
            spans.append(Span(part.name, ids.trace, part.span, parent or ids.span, *times, detail))
        self._export(spans)

    def _new(self, size: int) -> str:
        """Random; zero is no valid id."""
        made = self._random(size)
        return made.hex() if any(made) else "1".zfill(2 * size)


def nested(parts: Sequence[Part], new_span: Callable[[], str]) -> list[tuple[Part, str]]:
    """The parts with their span ids, and the span within which each has happened, '' for none.

    A part is within the shortest other one that begins before it and ends after it. Parts with a span id of their own are calls
    of others, which may run at once: nothing is within them.
    """
    found: list[tuple[Part, str]] = []
    around: list[Part] = []
    for part in sorted(parts, key=lambda each: (each.start, -each.end)):
        while around and around[-1].end < part.end:
            around.pop()
        own = part if part.span else part._replace(span=new_span())
        found.append((own, around[-1].span if around else ""))
        if not part.span:
            around.append(own)
    return found
