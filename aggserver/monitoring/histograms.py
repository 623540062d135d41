"""Histograms that only the event loop's thread observes: the same as prometheus_client's, without its locks.

A request observes two, and each event of a watch one for every watcher. prometheus_client's take two locks and compare with one
bucket after the other; these take a third of the time. Its registry collects them as its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString

__all__ = ["Histograms", "Observed"]


class Observed:
    """The histogram of one combination of labels. counts: of values, by bucket; the last one is for those above all bounds."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class Histograms:
    """A histogram for each combination of labels. buckets: their upper bounds, in order, without the infinite one."""

    def __init__(
        self, name: str, documentation: str, labelnames: Sequence[str], *, buckets: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labelnames = labelnames
        self._bounds = tuple(buckets)
        self._texts = [floatToGoString(bound) for bound in (*buckets, float("inf"))]
        self._children: dict[tuple[str, ...], Observed] = {}
        registry.register(self)

    def labels(self, *labels: str) -> Observed:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = Observed(self._bounds)
        return child

    def remove(self, *labels: str) -> None:
        """Drop what was observed with these labels, if anything."""
        self._children.pop(labels, None)

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """Called by the registry, which refuses two metrics of one name."""
        yield HistogramMetricFamily(self._name, self._documentation, labels=self._labelnames)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Called by the registry for an exposition."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labelnames)
        for labels, child in self._children.items():
            family.add_metric(labels, list(zip(self._texts, accumulate(child.counts), strict=True)), child.total)
        yield family
