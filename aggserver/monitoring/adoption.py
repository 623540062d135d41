"""Metrics of adoption: how many definitions are in which phase, what was copied, and how long writes were frozen.

Source: none; no other server does this.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Counter, Gauge, Histogram

from aggserver.monitoring.catalog import MetricsCatalog

__all__ = ["AdoptionMetrics"]

# Seconds. A client that is refused during a freeze waits a second before it tries again.
_FREEZE_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)


class AdoptionMetrics:
    def __init__(self, registry: MetricsCatalog) -> None:
        self._definitions = Gauge(
            "aggserver_adoption_definitions",
            "[ALPHA] Definitions of the cluster by phase of adoption.",
            ("phase",),
            registry=registry,
        )
        self._objects = Counter(
            "aggserver_adoption_copied_objects_total",
            "[ALPHA] Objects copied from the cluster's etcd or back.",
            registry=registry,
        )
        self._bytes = Counter(
            "aggserver_adoption_copied_bytes_total",
            "[ALPHA] Bytes of objects copied from the cluster's etcd or back.",
            registry=registry,
        )
        self._freezes = Histogram(
            "aggserver_adoption_freeze_seconds",
            "[ALPHA] Seconds in which the writes of a family were refused while it moved.",
            buckets=_FREEZE_BUCKETS,
            registry=registry,
        )

    def phases(self, definitions: Mapping[str, int]) -> None:
        """Set the number of definitions in each phase; all phases must be given."""
        for phase, count in definitions.items():
            self._definitions.labels(phase).set(count)

    def copied(self, objects: int, size: int) -> None:
        """Count the objects copied since the last call, and their size in bytes."""
        self._objects.inc(objects)
        self._bytes.inc(size)

    def froze(self, seconds: float) -> None:
        """Observe the duration of one freeze."""
        self._freezes.observe(seconds)
