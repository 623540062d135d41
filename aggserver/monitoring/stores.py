"""Metrics of the storage, the watch caches above it, and the caches of what is computed from objects.

All are read when metrics are: what is counted meanwhile are plain numbers of the packages that they are about. Series are by
resource, so there are as many as resources are served; those of a resource end with its cache.
Source: k8s.io/apiserver pkg/storage/etcd3/metrics/metrics.go, pkg/storage/cacher/metrics/metrics.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from aggserver.meta.distribution import Distribution
from aggserver.monitoring.catalog import MetricsCatalog
from aggserver.monitoring.series import ReadCounters, ReadGauges, ReadHistograms
from aggserver.registry.environment import Environment
from aggserver.registry.stored import StoredObject
from aggserver.storage.cacher import CacheCounts, Cacher, CacheSize
from aggserver.storage.figures import CommitFigures, RequestFigures, StorageFigures
from aggserver.storage.keys import split_prefix

__all__ = ["StoreMetrics"]

_RESOURCE = ("group", "resource")

Value = TypeVar("Value", int, Distribution)


class StoreMetrics:
    """environment: of the server whose stores these are."""

    def __init__(self, registry: MetricsCatalog, environment: Environment) -> None:
        self._environment = environment
        self._registry = registry
        self._of_caches()
        self._of_storage()
        self._of_requests()

    def _of_caches(self) -> None:
        counters = partial(ReadCounters, labelnames=_RESOURCE, registry=self._registry)
        gauges = partial(ReadGauges, labelnames=_RESOURCE, registry=self._registry)
        size, counted = self._sizes, self._counted
        gauges("apiserver_resource_objects", "[ALPHA] Objects in the watch cache.", read=size(lambda each: each.objects))
        ReadGauges(
            "apiserver_storage_objects",
            "[STABLE] The same, with resource and group as one label, as older dashboards have it.",
            ("resource",),
            read=self._storage_objects,
            registry=self._registry,
        )
        gauges(
            "apiserver_watch_cache_resource_version",
            "[ALPHA] The revision up to which the watch cache is complete.",
            read=lambda: [(resource, cacher.revision) for resource, cacher in self._cachers()],
        )
        counters(
            "apiserver_watch_cache_initializations_total",
            "[ALPHA] How often all objects were read into the watch cache.",
            read=counted(lambda each: each.loads),
        )
        counters(
            "apiserver_init_events_total",
            "[ALPHA] Objects that were read into the watch cache with all others.",
            read=counted(lambda each: each.loaded_objects),
        )
        counters(
            "apiserver_watch_cache_events_received_total",
            "[ALPHA] Events that the watch cache got from the store.",
            read=counted(lambda each: each.events),
        )
        counters(
            "apiserver_terminated_watchers_total",
            "[ALPHA] Watches that were ended since their clients did not keep up.",
            read=counted(lambda each: each.slow_watches),
        )
        gauges("aggserver_watch_cache_watches", "[ALPHA] Watches on the cache now.", read=size(lambda each: each.watches))
        gauges(
            "aggserver_watch_cache_window_changes",
            "[ALPHA] Recent changes from which watches resume without the store.",
            read=size(lambda each: each.changes),
        )
        gauges(
            "aggserver_watch_cache_window_bytes",
            "[ALPHA] Bytes of the objects that those changes have replaced, which they keep in memory.",
            read=size(lambda each: each.changed_bytes),
        )
        converted = self._environment.converted
        gauges_of_all = partial(ReadGauges, registry=self._registry)
        gauges_of_all(
            "aggserver_conversion_cache_bytes",
            "[ALPHA] Bytes of the cache of objects that were converted to other versions.",
            read=lambda: [((), converted.bytes)],
        )
        gauges_of_all(
            "aggserver_conversion_cache_objects", "[ALPHA] Objects in that cache.", read=lambda: [((), converted.objects)]
        )
        gauges_of_all(
            "aggserver_unreadable_objects",
            "[ALPHA] Stored objects that are known to be unreadable.",
            read=lambda: [((), len(self._environment.corrupt))],
        )
        gauges_of_all(
            "aggserver_watch_caches_behind",
            "[ALPHA] Watch caches that do not follow the store now.",
            read=lambda: [((), len(self._environment.behind))],
        )

    def _of_storage(self) -> None:
        gauges = partial(ReadGauges, registry=self._registry)
        figure = self._figure
        gauges(
            "apiserver_storage_size_bytes",
            "[STABLE] Bytes of the file of a SQLite store. For etcd, etcd tells it.",
            ("storage_cluster_id",),
            read=lambda: [(("sqlite",), value) for _, value in figure(lambda each: each.size)()],
        )
        gauges(
            "aggserver_storage_log_bytes", "[ALPHA] Bytes of SQLite's write-ahead log.", read=figure(lambda each: each.log_size)
        )
        gauges("aggserver_storage_revision", "[ALPHA] The newest revision of the store.", read=figure(lambda each: each.revision))
        gauges(
            "aggserver_storage_compacted_revision",
            "[ALPHA] The revision before which a SQLite store has no history.",
            read=figure(lambda each: each.compacted),
        )
        counters = partial(ReadCounters, registry=self._registry)
        counters(
            "aggserver_storage_compaction_steps_total",
            "[ALPHA] Commits of compactions of a SQLite store.",
            read=self._commits(lambda each: each.compaction_steps),
        )
        counters(
            "aggserver_storage_commit_failures_total",
            "[ALPHA] Commits of a SQLite store that have failed.",
            read=self._commits(lambda each: each.failures),
        )
        histograms = partial(ReadHistograms, registry=self._registry)
        histograms(
            "aggserver_storage_commit_duration_seconds",
            "[ALPHA] Seconds of a commit of a SQLite store, until it is durable.",
            read=self._commits(lambda each: each.seconds),
        )
        histograms(
            "aggserver_storage_commit_writes",
            "[ALPHA] Writes that shared a commit of a SQLite store.",
            read=self._commits(lambda each: each.writes),
        )

    def _of_requests(self) -> None:
        labels = ("operation", *_RESOURCE)
        ReadHistograms(
            "etcd_request_duration_seconds",
            "[ALPHA] Seconds of requests to etcd or kine, by operation.",
            labels,
            read=lambda: self._requests(lambda each: each.seconds),
            registry=self._registry,
        )
        ReadCounters(
            "etcd_requests_total",
            "[ALPHA] Requests to etcd or kine, by operation.",
            labels,
            read=lambda: [(key, sum(each.counts)) for key, each in self._requests(lambda each: each.seconds)],
            registry=self._registry,
        )
        ReadCounters(
            "etcd_request_errors_total",
            "[ALPHA] Requests to etcd or kine that have failed, by operation.",
            labels,
            read=lambda: self._requests(lambda each: each.failures),
            registry=self._registry,
        )

    def _cachers(self) -> list[tuple[tuple[str, str], Cacher[StoredObject]]]:
        """Those that hold their objects; others are of resources that nobody has asked for yet."""
        found = [(split_prefix(cacher.prefix), cacher) for cacher in list(self._environment.cachers.values()) if cacher.loaded]
        return sorted(found, key=lambda each: each[0])

    def _sizes(self, pick: Callable[[CacheSize], float]) -> Callable[[], list[tuple[Sequence[str], float]]]:
        return lambda: [(resource, pick(cacher.size())) for resource, cacher in self._cachers()]

    def _counted(self, pick: Callable[[CacheCounts], float]) -> Callable[[], list[tuple[Sequence[str], float]]]:
        return lambda: [(resource, pick(cacher.counted)) for resource, cacher in self._cachers()]

    def _storage_objects(self) -> Iterator[tuple[Sequence[str], float]]:
        for (group, resource), cacher in self._cachers():
            yield (f"{resource}.{group}" if group else resource,), cacher.size().objects

    def _figures(self) -> StorageFigures:
        return self._environment.storage.figures()

    def _requests(
        self, pick: Callable[[RequestFigures], Mapping[tuple[str, str, str], Value]]
    ) -> list[tuple[Sequence[str], Value]]:
        requests = self._figures().requests
        return [] if requests is None else list(pick(requests).items())

    def _figure(self, pick: Callable[[StorageFigures], float | None]) -> Callable[[], list[tuple[Sequence[str], float]]]:
        def read() -> list[tuple[Sequence[str], float]]:
            value = pick(self._figures())
            return [] if value is None else [((), value)]

        return read

    def _commits(self, pick: Callable[[CommitFigures], Value]) -> Callable[[], list[tuple[Sequence[str], Value]]]:
        def read() -> list[tuple[Sequence[str], Value]]:
            commits = self._figures().commits
            return [] if commits is None else [((), pick(commits))]

        return read
