"""MetricsCatalog: all metrics of one server, and what each of them is.

It is what prometheus_client calls a registry. It also tells name, type, labels and meaning of each metric, from which
docs/metrics.md is made, and writes Prometheus' text format. As upstream, the text of a metric begins with its stability: STABLE
metrics keep their names and labels, BETA ones nearly so, ALPHA ones may change with any version.
Source: k8s.io/component-base metrics/opts.go, v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, disable_created_metrics, generate_latest

from aggserver.monitoring.series import Counters, ReadCounters

__all__ = ["CONTENT_TYPE", "Described", "MetricsCatalog"]

CONTENT_TYPE = CONTENT_TYPE_LATEST

_COUNTERS = (Counters, ReadCounters)
_STABILITY = re.compile(r"\[([A-Z]+)\] ")


@dataclass(frozen=True, slots=True)
class Described:
    """One metric. stability: STABLE, BETA, ALPHA, or '' for those of prometheus_client's own."""

    name: str
    type: str
    labels: tuple[str, ...]
    stability: str
    text: str


class MetricsCatalog:
    def __init__(self) -> None:
        disable_created_metrics()
        self._registry = CollectorRegistry()
        self._collectors: list[Any] = []

    def register(self, collector: Any) -> None:
        """Called by each metric that is made with `registry=`. Raises ValueError for a name that is taken."""
        self._registry.register(collector)
        self._collectors.append(collector)

    def collect(self) -> Iterator[Any]:
        """The families of prometheus_client, as its registry has them."""
        return iter(self._registry.collect())

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format; `CONTENT_TYPE` is its media type."""
        text: bytes = generate_latest(self._registry)
        for collector in self._collectors:
            # prometheus_client would add the suffix to the name of a counter that has none.
            if isinstance(collector, _COUNTERS) and not collector.name.endswith("_total"):
                name = collector.name.encode()
                text = text.replace(b"# TYPE %b gauge\n" % name, b"# TYPE %b counter\n" % name, 1)
        return text

    def described(self) -> list[Described]:
        """All metrics, sorted by name."""
        found = (each for collector in self._collectors for each in _describe(collector))
        return sorted(found, key=lambda each: each.name)


def _describe(collector: Any) -> Iterator[Described]:
    """Collectors of prometheus_client that stand for the process have no `describe`, and no labels that it tells."""
    families = collector.describe() if hasattr(collector, "describe") else collector.collect()
    for family in families:
        labels = getattr(collector, "_labelnames", None) or getattr(family, "_labelnames", None)
        if labels is None:
            labels = sorted({label for sample in family.samples for label in sample.labels})
        kind = "counter" if isinstance(collector, _COUNTERS) else family.type
        name = collector.name if isinstance(collector, _COUNTERS) else family.name
        if kind == "counter" and not isinstance(collector, _COUNTERS):
            name += "_total"
        stability = _STABILITY.match(family.documentation)
        text = family.documentation[stability.end() :] if stability else family.documentation
        yield Described(name, kind, tuple(labels), stability.group(1) if stability else "", text)
