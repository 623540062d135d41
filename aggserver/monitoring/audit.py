"""Metrics of the audit, with kube-apiserver's names.

Source: k8s.io/apiserver pkg/audit/metrics.go, v0.36.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from aggserver.monitoring.catalog import MetricsCatalog

__all__ = ["AuditMetrics"]


class AuditMetrics:
    """Implements `audit.backends.AuditObserver`. Plain numbers, read when the metrics are: each request counts several times."""

    def __init__(self, registry: MetricsCatalog) -> None:
        self._events = 0
        self._rejected = 0
        self._levels = dict.fromkeys(("None", "Metadata", "Request", "RequestResponse"), 0)
        self._lost: dict[str, int] = defaultdict(int)
        registry.register(self)

    def level(self, level: str) -> None:
        self._levels[level] += 1

    def event(self) -> None:
        self._events += 1

    def lost(self, plugin: str, count: int) -> None:
        self._lost[plugin] += count

    def rejected(self) -> None:
        self._rejected += 1

    def collect(self) -> Iterator[Metric]:
        text = "[ALPHA] Audit events generated and sent to the audit backends."
        yield CounterMetricFamily("apiserver_audit_event_total", text, self._events)
        errors = CounterMetricFamily(
            "apiserver_audit_error_total",
            "[ALPHA] Audit events that could not be recorded, by the plugin that failed.",
            labels=["plugin"],
        )
        for plugin, lost in self._lost.items():
            errors.add_metric([plugin], lost)
        yield errors
        levels = CounterMetricFamily(
            "apiserver_audit_level_total", "[ALPHA] Requests by the level that the audit policy has for them.", labels=["level"]
        )
        for level, count in self._levels.items():
            levels.add_metric([level], count)
        yield levels
        text = "[ALPHA] Requests refused because their audit event could not be stored."
        yield CounterMetricFamily("apiserver_audit_requests_rejected_total", text, self._rejected)
