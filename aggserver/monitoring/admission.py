"""Metrics of admission, with kube-apiserver's names.

Source: k8s.io/apiserver pkg/admission/metrics/metrics.go, v0.36.3.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from aggserver.admission.observer import AdmissionObserver
from aggserver.meta.distribution import Distribution
from aggserver.monitoring.catalog import MetricsCatalog
from aggserver.monitoring.series import Counters, Histograms
from aggserver.tracing.record import current, note, now

__all__ = ["AdmissionMetrics"]

_STEP_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_BUCKETS = (*_STEP_BUCKETS, 10.0, 25.0)
# Larger codes in a webhook's response are counted as this one.
_MAX_CODE = 600
# Names of webhooks come and go; beyond so many series, new ones are not counted.
_MAX_SERIES = 10_000


class AdmissionMetrics(AdmissionObserver):
    """Also tells the record of a request how long it has waited for webhooks."""

    def __init__(self, registry: MetricsCatalog) -> None:
        durations = partial(Histograms, registry=registry, most=_MAX_SERIES)
        counts = partial(Counters, registry=registry, most=_MAX_SERIES)
        self._steps = durations(
            "apiserver_admission_step_admission_duration_seconds",
            "[STABLE] Seconds of all mutating or all validating admission of an object.",
            ("type", "operation", "rejected"),
            buckets=_STEP_BUCKETS,
        )
        self._controllers = durations(
            "apiserver_admission_controller_admission_duration_seconds",
            "[STABLE] Seconds of one admission plugin.",
            ("name", "type", "operation", "rejected"),
            buckets=_STEP_BUCKETS,
        )
        self._webhooks = durations(
            "apiserver_admission_webhook_admission_duration_seconds",
            "[STABLE] Seconds of one webhook.",
            ("name", "type", "operation", "rejected"),
            buckets=_WEBHOOK_BUCKETS,
        )
        self._rejections = counts(
            "apiserver_admission_webhook_rejection_count",
            "[ALPHA] Requests refused by a webhook, or since it failed (error_type), with the HTTP code.",
            ("name", "type", "operation", "error_type", "rejection_code"),
        )
        self._fail_open = counts(
            "apiserver_admission_webhook_fail_open_count",
            "[ALPHA] Failures of webhooks that were ignored.",
            ("name", "type"),
        )
        self._requests = counts(
            "apiserver_admission_webhook_request_total",
            "[ALPHA] Calls of webhooks by HTTP code.",
            ("name", "type", "operation", "code", "rejected"),
        )
        self._exclusions = counts(
            "apiserver_admission_match_condition_exclusions_total",
            "[ALPHA] Requests that a webhook was not asked about since its matchConditions do not hold.",
            ("name", "kind", "type", "operation"),
        )
        self._errors = counts(
            "apiserver_admission_match_condition_evaluation_errors_total",
            "[ALPHA] matchConditions that could not be evaluated.",
            ("name", "kind", "type", "operation"),
        )
        # The series by labels that are not all strings, which makes a look-up as cheap as it can be.
        self._observed: dict[tuple[Any, ...], Distribution] = {}

    def step(self, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        self._observe(self._steps, (kind, operation, rejected), seconds)
        note("Mutating admission" if kind == "admit" else "Validating admission", now() - seconds)

    def controller(self, name: str, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        self._observe(self._controllers, (name, kind, operation, rejected), seconds)

    def webhook(self, name: str, kind: str, operation: str, seconds: float, code: int, *, rejected: bool) -> None:
        self._requests.labels(name, kind, operation, str(min(code, _MAX_CODE)), _text(rejected)).inc()
        self._observe(self._webhooks, (name, kind, operation, rejected), seconds)
        record = current()
        if record is not None:
            if kind == "admit":
                record.mutating_seconds += seconds
            else:
                record.validating_seconds = max(record.validating_seconds, seconds)

    def webhook_rejection(self, name: str, kind: str, operation: str, error: str, code: int) -> None:
        self._rejections.labels(name, kind, operation, error, str(min(code, _MAX_CODE))).inc()

    def webhook_failed_open(self, name: str, kind: str) -> None:
        self._fail_open.labels(name, kind).inc()

    def conditions_excluded(self, name: str, kind: str, operation: str) -> None:
        self._exclusions.labels(name, "webhook", kind, operation).inc()

    def conditions_failed(self, name: str, kind: str, operation: str) -> None:
        self._errors.labels(name, "webhook", kind, operation).inc()

    def _observe(self, durations: Histograms, labels: tuple[str | bool, ...], seconds: float) -> None:
        series = self._observed.get((durations, *labels))
        if series is None:
            texts = [label if isinstance(label, str) else _text(label) for label in labels]
            series = durations.labels(*texts)
            if len(self._observed) < 3 * _MAX_SERIES:
                self._observed[durations, *labels] = series
        series.observe(seconds)


def _text(rejected: bool) -> str:
    return "true" if rejected else "false"
