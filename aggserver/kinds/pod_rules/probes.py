"""Probes and lifecycle hooks: each has one handler.

Pure. Source: validateProbe, validateHandler and validateLifecycle in k8s.io/kubernetes
pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from aggserver.kinds.pod_rules.texts import described, header_name, port_problems
from aggserver.meta.field import FieldError, Path, forbidden, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping

__all__ = ["lifecycle_problems", "probe_problems"]

_SCHEMES = ("HTTP", "HTTPS")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_OF_PROBES, _OF_HOOKS = ("exec", "httpGet", "tcpSocket", "grpc"), ("exec", "httpGet", "tcpSocket", "sleep")


def probe_problems(container: JSONMapping, grace: int | None, path: Path) -> Iterator[FieldError]:
    """The errors of a container's probes. grace: the Pod's terminationGracePeriodSeconds."""
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(name)) is None:
            continue
        where = path.child(name)
        yield from _probe(probe, grace, where)
        threshold, seconds = probe.get("successThreshold") or 0, probe.get("terminationGracePeriodSeconds")
        if name != "readinessProbe" and threshold != 1:
            yield invalid(where.child("successThreshold"), threshold, "must be 1")
        if name == "readinessProbe" and seconds is not None:
            yield invalid(where.child("terminationGracePeriodSeconds"), seconds, "must not be set for readinessProbes")


def _probe(probe: JSONMapping, grace: int | None, path: Path) -> Iterator[FieldError]:
    yield from _handler(probe, _OF_PROBES, grace, path)
    for name in _NUMBERS:
        if (number := probe.get(name) or 0) < 0:
            yield invalid(path.child(name), number, "must be greater than or equal to 0")
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid(path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0")


def lifecycle_problems(lifecycle: JSONMapping, grace: int | None, path: Path) -> Iterator[FieldError]:
    for name in ("postStart", "preStop"):
        if (hook := lifecycle.get(name)) is not None:
            yield from _handler(hook, _OF_HOOKS, grace, path.child(name))


def _handler(handler: JSONMapping, kinds: tuple[str, ...], grace: int | None, path: Path) -> Iterator[FieldError]:
    is_first = True
    for name in kinds:
        if (action := handler.get(name)) is None:
            continue
        if is_first:
            yield from _action(name, action, grace, path.child(name))
        else:
            yield forbidden(path.child(name), "may not specify more than 1 handler type")
        is_first = False
    if is_first:
        yield required(path, "must specify a handler type")


def _action(name: str, action: JSONMapping, grace: int | None, path: Path) -> Iterator[FieldError]:
    if name == "exec":
        if not action.get("command"):
            yield required(path.child("command"))
    elif name == "sleep":
        seconds = action.get("seconds") or 0
        if grace is not None and not 0 <= seconds <= grace:
            yield invalid(path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})")
    elif name == "httpGet":
        yield from _http(action, path)
    else:
        port = action.get("port")
        yield from port_problems(0 if port is None else port, path.child("port"))


def _http(action: JSONMapping, path: Path) -> Iterator[FieldError]:
    if not action.get("path"):
        yield required(path.child("path"))
    port = action.get("port")
    yield from port_problems(0 if port is None else port, path.child("port"))
    if (scheme := action.get("scheme") or "") not in _SCHEMES:
        yield not_supported(path.child("scheme"), scheme, _SCHEMES)
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        yield from described(path.child("httpHeaders"), name, header_name(name))
