"""Metrics of admission, with kube-apiserver's names.

Source: k8s.io/apiserver pkg/admission/metrics/metrics.go, v0.36.3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from aggserver.admission.observer import AdmissionObserver

__all__ = ["AdmissionMetrics"]

_STEP_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_BUCKETS = (*_STEP_BUCKETS, 10.0, 25.0)
# Larger codes in a webhook's response are counted as this one.
_MAX_CODE = 600
# Names of webhooks come and go; beyond so many series, new ones are not counted.
_MAX_SERIES = 10_000


class AdmissionMetrics(AdmissionObserver):
    """The metrics. Two counters have names without `_total`, which prometheus_client would add, so their type is gauge here."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._steps = _Durations(
            "apiserver_admission_step_admission_duration_seconds",
            "Seconds of all mutating or all validating admission of an object.",
            ("type", "operation", "rejected"),
            _STEP_BUCKETS,
        )
        self._controllers = _Durations(
            "apiserver_admission_controller_admission_duration_seconds",
            "Seconds of one admission plugin.",
            ("name", "type", "operation", "rejected"),
            _STEP_BUCKETS,
        )
        self._webhooks = _Durations(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Seconds of one webhook.",
            ("name", "type", "operation", "rejected"),
            _WEBHOOK_BUCKETS,
        )
        for durations in (self._steps, self._controllers, self._webhooks):
            registry.register(durations)
        self._rejections = Gauge(
            "apiserver_admission_webhook_rejection_count",
            "Requests refused by a webhook, or since it failed (error_type), with the HTTP code.",
            ("name", "type", "operation", "error_type", "rejection_code"),
            registry=registry,
        )
        self._fail_open = Gauge(
            "apiserver_admission_webhook_fail_open_count",
            "Failures of webhooks that were ignored.",
            ("name", "type"),
            registry=registry,
        )
        self._requests = Counter(
            "apiserver_admission_webhook_request_total",
            "Calls of webhooks by HTTP code.",
            ("name", "type", "operation", "code", "rejected"),
            registry=registry,
        )
        self._exclusions = Counter(
            "apiserver_admission_match_condition_exclusions_total",
            "Requests that a webhook was not asked about since its matchConditions do not hold.",
            ("name", "kind", "type", "operation"),
            registry=registry,
        )
        self._errors = Counter(
            "apiserver_admission_match_condition_evaluation_errors_total",
            "matchConditions that could not be evaluated.",
            ("name", "kind", "type", "operation"),
            registry=registry,
        )
        self._children: dict[tuple[Any, ...], Any] = {}

    def step(self, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        self._steps.observe((kind, operation, rejected), seconds)

    def controller(self, name: str, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        self._controllers.observe((name, kind, operation, rejected), seconds)

    def webhook(self, name: str, kind: str, operation: str, seconds: float, code: int, *, rejected: bool) -> None:
        self._child(self._requests, name, kind, operation, str(min(code, _MAX_CODE)), _text(rejected)).inc()
        self._webhooks.observe((name, kind, operation, rejected), seconds)

    def webhook_rejection(self, name: str, kind: str, operation: str, error: str, code: int) -> None:
        self._child(self._rejections, name, kind, operation, error, str(min(code, _MAX_CODE))).inc()

    def webhook_failed_open(self, name: str, kind: str) -> None:
        self._child(self._fail_open, name, kind).inc()

    def conditions_excluded(self, name: str, kind: str, operation: str) -> None:
        self._child(self._exclusions, name, "webhook", kind, operation).inc()

    def conditions_failed(self, name: str, kind: str, operation: str) -> None:
        self._child(self._errors, name, "webhook", kind, operation).inc()

    def _child(self, metric: Any, *labels: str) -> Any:
        """The series with these labels, which is looked up once."""
        child = self._children.get((metric, *labels))
        if child is None:
            child = metric.labels(*labels) if len(self._children) < _MAX_SERIES else _UNCOUNTED
            if child is not _UNCOUNTED:
                self._children[(metric, *labels)] = child
        return child


class _Uncounted:
    def inc(self) -> None:
        pass


_UNCOUNTED = _Uncounted()


class _Durations:
    """A collector of one histogram, used on the event loop only. It is cheaper than prometheus_client's, which has a lock."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str], buckets: Sequence[float]) -> None:
        self._name = name
        self._help = help_text
        self._labels = labels
        self._buckets = buckets
        self._series: dict[tuple[str | bool, ...], list[int]] = {}  # counts by bucket, the last above all
        self._sums: dict[tuple[str | bool, ...], float] = {}

    def observe(self, labels: tuple[str | bool, ...], seconds: float) -> None:
        counts = self._series.get(labels)
        if counts is None:
            if len(self._series) >= _MAX_SERIES:
                return
            counts = self._series[labels] = [0] * (len(self._buckets) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(self._buckets, seconds)] += 1
        self._sums[labels] += seconds

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        limits = [*map(floatToGoString, self._buckets), "+Inf"]
        for labels, counts in list(self._series.items()):
            texts = [each if isinstance(each, str) else _text(each) for each in labels]
            family.add_metric(texts, list(zip(limits, accumulate(counts), strict=True)), self._sums[labels])
        yield family


def _text(rejected: bool) -> str:
    return "true" if rejected else "false"
