"""Counters and histograms that only the event loop's thread changes, and values that are read when metrics are.

A request changes several, and each event of a watch some for every watcher. prometheus_client's take a lock each, and its
histograms compare with one bucket after the other; these take a third of the time. Its registry collects them as its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from aggserver.meta.distribution import Distribution

__all__ = ["Count", "Counters", "Histograms", "ReadCounters", "ReadGauges", "ReadHistograms"]

# Labels and the value of one series.
Reading = Iterable[tuple[Sequence[str], float]]


class Count:
    """The counter of one combination of labels."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, more: int = 1) -> None:
        self.value += more


class _Labelled:
    """What prometheus_client's registry asks of a metric."""

    def __init__(self, name: str, documentation: str, labelnames: Sequence[str], registry: Any) -> None:
        self.name = name
        self._documentation = documentation
        self._labelnames = tuple(labelnames)
        registry.register(self)

    def describe(self) -> Iterator[Any]:
        """Called by the registry, which refuses two metrics of one name."""
        yield self._family()

    def _family(self) -> Any:
        raise NotImplementedError


class Counters(_Labelled):
    """A counter for each combination of labels. Upstream has counters whose names do not end with `_total`, so these may, too.

    most: the number of combinations that are counted; others are not.
    """

    def __init__(
        self, name: str, documentation: str, labelnames: Sequence[str] = (), *, registry: Any, most: int | None = None
    ) -> None:
        super().__init__(name, documentation, labelnames, registry)
        self._children: dict[tuple[str, ...], Count] = {}
        self._most = most

    def labels(self, *labels: str) -> Count:
        child = self._children.get(labels)
        if child is None:
            child = Count()
            if self._most is None or len(self._children) < self._most:
                self._children[labels] = child
        return child

    def remove(self, *labels: str) -> None:
        """Drop what was counted with these labels, if anything."""
        self._children.pop(labels, None)

    def collect(self) -> Iterator[Any]:
        family = self._family()
        for labels, child in list(self._children.items()):
            family.add_metric(labels, child.value)
        yield family

    def _family(self) -> Any:
        return _counter(self.name)(self.name, self._documentation, labels=self._labelnames)


class Histograms(_Labelled):
    """A histogram for each combination of labels. buckets: their upper bounds, in order, without the infinite one.

    most: see `Counters`.
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        labelnames: Sequence[str] = (),
        *,
        buckets: Sequence[float],
        registry: Any,
        most: int | None = None,
    ) -> None:
        super().__init__(name, documentation, labelnames, registry)
        self._bounds = tuple(buckets)
        self._children: dict[tuple[str, ...], Distribution] = {}
        self._most = most

    def labels(self, *labels: str) -> Distribution:
        child = self._children.get(labels)
        if child is None:
            child = Distribution(self._bounds)
            if self._most is None or len(self._children) < self._most:
                self._children[labels] = child
        return child

    def remove(self, *labels: str) -> None:
        """Drop what was observed with these labels, if anything."""
        self._children.pop(labels, None)

    def counts(self) -> Reading:
        """How many values were observed, by labels."""
        return [(labels, sum(child.counts)) for labels, child in self._children.items()]

    def collect(self) -> Iterator[Any]:
        """Called by the registry for an exposition."""
        family = self._family()
        for labels, child in list(self._children.items()):
            _add(family, labels, child)
        yield family

    def _family(self) -> Any:
        return HistogramMetricFamily(self.name, self._documentation, labels=self._labelnames)


class ReadGauges(_Labelled):
    """Values that `read` returns when metrics are read. An exception of it would fail the whole exposition."""

    def __init__(
        self, name: str, documentation: str, labelnames: Sequence[str] = (), *, read: Callable[[], Reading], registry: Any
    ) -> None:
        self._read = read
        super().__init__(name, documentation, labelnames, registry)

    def collect(self) -> Iterator[Any]:
        family = self._family()
        for labels, value in self._read():
            family.add_metric(labels, value)
        yield family

    def _family(self) -> Any:
        return GaugeMetricFamily(self.name, self._documentation, labels=self._labelnames)


class ReadCounters(ReadGauges):
    """The same of what only grows. For names see `Counters`."""

    def _family(self) -> Any:
        return _counter(self.name)(self.name, self._documentation, labels=self._labelnames)


class ReadHistograms(_Labelled):
    """Histograms that others have counted. read: returns labels and distributions."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labelnames: Sequence[str] = (),
        *,
        read: Callable[[], Iterable[tuple[Sequence[str], Distribution]]],
        registry: Any,
    ) -> None:
        self._read = read
        super().__init__(name, documentation, labelnames, registry)

    def collect(self) -> Iterator[Any]:
        family = self._family()
        for labels, distribution in self._read():
            _add(family, labels, distribution)
        yield family

    def _family(self) -> Any:
        return HistogramMetricFamily(self.name, self._documentation, labels=self._labelnames)


def _counter(name: str) -> Any:
    """The family of a counter. `MetricsCatalog.exposition` says the type of those without the suffix."""
    return CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily


def _add(family: Any, labels: Sequence[str], distribution: Distribution) -> None:
    texts = [floatToGoString(bound) for bound in (*distribution.bounds, float("inf"))]
    family.add_metric(labels, list(zip(texts, accumulate(distribution.counts), strict=True)), distribution.total)
