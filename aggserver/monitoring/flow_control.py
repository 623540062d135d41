"""Metrics of flow control, with kube-apiserver's names: what runs, waits and is rejected, by priority level and FlowSchema.

They are read from flow control's own counts when they are asked for, so that a request pays nothing for them. Labels are names of
objects of the two kinds, never of clients.
Source: k8s.io/apiserver pkg/util/flowcontrol/metrics/metrics.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from aggserver.endpoints.flow_control.flow_control import WAIT_BUCKETS, FlowControl
from aggserver.monitoring.catalog import MetricsCatalog

__all__ = ["FlowControlMetrics"]

_NAME = "apiserver_flowcontrol_"
_LABELS = ("priority_level", "flow_schema")
_BOUNDS = [floatToGoString(bound) for bound in (*WAIT_BUCKETS, float("inf"))]
# Name -> what it says, and the attribute of Counts.
_GAUGES = {
    "current_inqueue_requests": ("[BETA] Requests that wait now.", "waiting"),
    "current_inqueue_seats": ("[ALPHA] Seats that the requests which wait now will take.", "waiting_seats"),
    "current_executing_requests": ("[BETA] Requests that are served now; watches while they begin.", "running"),
    "current_executing_seats": ("[BETA] Seats of the requests that are served now.", "running_seats"),
}
# Name -> what it says, and the attribute of LevelLimits.
_LIMITS = {
    "nominal_limit_seats": ("[BETA] Seats of a priority level by its shares.", "nominal"),
    "lower_limit_seats": ("[ALPHA] Seats of a priority level that others can't borrow.", "lower"),
    "upper_limit_seats": ("[ALPHA] Seats of a priority level with all that it may borrow.", "upper"),
}


class FlowControlMetrics:
    """A collector of the registry."""

    def __init__(self, flow_control: FlowControl, registry: MetricsCatalog) -> None:
        self._flow_control = flow_control
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        flow_control = self._flow_control
        counts = [((level.name, name), of) for level in flow_control.levels.values() for name, of in level.counts.items()]
        dispatched = CounterMetricFamily(f"{_NAME}dispatched_requests", "[BETA] Requests that were served.", labels=_LABELS)
        rejected = CounterMetricFamily(
            f"{_NAME}rejected_requests",
            "[BETA] Requests that were rejected: queue-full, concurrency-limit, time-out, cancelled.",
            labels=(*_LABELS, "reason"),
        )
        for labels, of in counts:
            dispatched.add_metric(labels, of.dispatched + of.at_once)
            for reason, number in of.rejected.items():
                rejected.add_metric((*labels, reason), number)
        yield dispatched
        yield rejected
        for name, (text, attribute) in _GAUGES.items():
            gauge = GaugeMetricFamily(_NAME + name, text, labels=_LABELS)
            for labels, of in counts:
                gauge.add_metric(labels, getattr(of, attribute))
            yield gauge
        for name, (text, attribute) in _LIMITS.items():
            gauge = GaugeMetricFamily(_NAME + name, text, labels=_LABELS[:1])
            for level in flow_control.levels.values():
                gauge.add_metric((level.name,), getattr(level.limits, attribute))
            yield gauge
        yield self._waits()

    def _waits(self) -> Metric:
        """Those that did not wait are in the first bucket."""
        waits = HistogramMetricFamily(
            f"{_NAME}request_wait_duration_seconds",
            "[BETA] Seconds that requests waited in their queue.",
            labels=(*_LABELS, "execute"),
        )
        flow_control = self._flow_control
        for level in flow_control.levels.values():
            if level.exempt:
                continue
            for name, of in level.counts.items():
                for executed in (True, False):
                    observed = flow_control.waits.get((level.name, name, executed))
                    by_bucket = list(observed.counts) if observed is not None else [0] * len(_BOUNDS)
                    if executed:
                        by_bucket[0] += of.dispatched + of.at_once - sum(by_bucket)
                    elif not any(by_bucket):
                        continue
                    total = observed.total if observed is not None else 0.0
                    buckets = list(zip(_BOUNDS, accumulate(by_bucket), strict=True))
                    waits.add_metric((level.name, name, str(executed).lower()), buckets, total)
        return waits
