"""What a trace says of a request: its name and attributes, as kube-apiserver's, and whether its traceparent is followed.

Source: k8s.io/apiserver pkg/endpoints/filters/traces.go, v0.36.3.
"""

from __future__ import annotations

from aggserver.endpoints.request import Request
from aggserver.endpoints.request_info import RequestInfo
from aggserver.tracing.record import RequestRecord
from aggserver.tracing.tracer import Tracer

__all__ = ["start_trace", "trace"]

# Whose traceparent is followed without a front proxy.
_TRUSTED_GROUPS = frozenset({"system:masters", "system:monitoring"})
_LONGEST_TARGET = 1024


def start_trace(tracer: Tracer, request: Request, *, by_proxy: bool) -> None:
    """Called when the user is known. by_proxy: whether the front proxy passes the request on."""
    if request.record is not None:
        trusted = by_proxy or not _TRUSTED_GROUPS.isdisjoint(request.user.groups)
        tracer.start(request.record, request.header(b"traceparent"), trusted=trusted)


def trace(tracer: Tracer, request: Request, record: RequestRecord, code: int) -> None:
    """Called when the response has been sent. A request whose user could not be told has no trace."""
    if record.trace is None or not record.trace.sampled:
        return
    info: RequestInfo | None = getattr(request, "info", None)
    target = f"{request.path}?{request.query_string}" if request.query_string else request.path
    attributes: dict[str, str | int] = {
        "http.method": request.method,
        "http.target": target[:_LONGEST_TARGET],
        "http.status_code": code,
        "audit-id": request.audit_id[:64],
    }
    tracer.finish(record, _name(request.method, info), attributes)


def _name(method: str, info: RequestInfo | None) -> str:
    if info is None or not info.is_resource_request:
        return method
    parts = [
        "apis" if info.group else "api",
        info.group,
        info.version,
        "namespaces/{:namespace}" if info.namespace else "",
        info.resource,
        "{:name}" if info.name else "",
        info.subresource,
    ]
    return f"{method} /{'/'.join(filter(None, parts))}"
