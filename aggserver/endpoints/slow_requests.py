"""The line of the log about a request that takes long, with its parts and how long each took.

    slow request: update /apis/shop.example.com/v1/namespaces/a/shops/b by "jane": 200 in 1203 ms audit-id=...:
    Webhook a.example.com 1100 ms, Mutating admission 1101 ms, Storage 30 ms, Handler 1180 ms, Response 2 ms

Parts are in the order of their ends, so one that contains others comes after them. Those that take less than a millisecond are
left out. Watches and other long-running requests have no such line.
Source: k8s.io/apiserver pkg/endpoints/handlers (trace.LogIfLong), k8s.io/utils trace, v0.36.3.
"""

from __future__ import annotations

import logging

from aggserver.endpoints.request import Request
from aggserver.endpoints.request_log import described
from aggserver.tracing.record import RequestRecord

__all__ = ["SLOW_SECONDS", "log_slow"]

log = logging.getLogger("aggserver.requests")

SLOW_SECONDS = 0.5  # as upstream
# Parts in one line; a request that deletes many objects has more.
_MOST_PARTS = 40
_SHORTEST_SECONDS = 0.001


def log_slow(request: Request, record: RequestRecord, code: int, seconds: float) -> None:
    """Write the line. seconds: that the request has taken, at least SLOW_SECONDS."""
    parts = sorted((part for part in record.parts if part.end - part.start >= _SHORTEST_SECONDS), key=lambda part: part.end)
    texts = [f"{' '.join(filter(None, (part.name, part.detail)))} {_ms(part.end - part.start)}" for part in parts[:_MOST_PARTS]]
    more = [f"and {len(parts) - _MOST_PARTS} more"] if len(parts) > _MOST_PARTS else []
    steps = ", ".join(texts + more) or "no part of it took long"
    log.info("slow request: %s: %d in %s audit-id=%s: %s", described(request), code, _ms(seconds), request.audit_id, steps)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
