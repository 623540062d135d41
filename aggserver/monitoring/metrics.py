"""Metrics: what the filters and the watch handlers count, under the names kube-apiserver gives them, so that dashboards fit.

`app.py` makes one `Metrics` and gives `endpoints/filters.py` a `RequestObserver` of it; `health.py` serves `exposition`. Label
children are looked up once per combination and kept: `labels()` costs as much as the observation itself. No string that a client
made up becomes a label: resources count when they are served, paths when they are among a few.
Source: k8s.io/apiserver pkg/endpoints/metrics/metrics.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from aggserver.endpoints.request import Request
from aggserver.endpoints.request_info import RequestInfo

__all__ = ["CONTENT_TYPE", "Metrics", "RequestObserver", "WatchMetrics"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
COMPONENT = "apiserver"

DURATION_BUCKETS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
RESPONSE_SIZE_BUCKETS = tuple(1000.0 * 10.0**n for n in range(7))  # bytes, 1 KB to 1 GB
EVENT_SIZE_BUCKETS = tuple(1024.0 * 2.0**n for n in range(8))  # bytes, 1 to 128 KiB

RESOURCE_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
DRY_RUN_LABELS = ("verb", "dry_run", *RESOURCE_LABELS[1:])

# Verbs whose responses upstream sizes up: the others echo what they were sent.
SIZED_VERBS = frozenset({"GET", "LIST"})

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
APPLY_TYPES = frozenset({"application/apply-patch+yaml", "application/apply-patch+cbor"})

# Paths that are counted by name (as the subresource, where upstream has them); any other path that is no resource counts as "".
COUNTED_PATHS = frozenset(
    {"/", "/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"}
)

RequestKey = tuple[str, str, str, str, str, str, str]


class WatchMetrics:
    """The watches of one resource."""

    __slots__ = ("_events", "_sizes")

    def __init__(self, events: Counter, sizes: Histogram) -> None:
        self._events = events
        self._sizes = sizes

    def sent(self, count: int, size: int) -> None:
        """`count` events, `size` bytes together, went to one watcher in one piece.

        The sizes are observed once for each piece, by the mean: in a fan-out to thousands this is called more than anything else.
        """
        self._events.inc(count)
        self._sizes.observe(size / count)


class _RequestMetrics:
    """The children of one combination of labels, codes apart."""

    __slots__ = ("codes", "counter", "duration", "labels", "sizes")

    def __init__(self, counter: Counter, duration: Histogram, sizes: Histogram | None, labels: tuple[str, ...]) -> None:
        self.counter = counter
        self.duration = duration
        self.sizes = sizes
        self.labels = labels
        self.codes: dict[int, Counter] = {}

    def count(self, code: int) -> None:
        child = self.codes.get(code)
        if child is None:
            child = self.codes[code] = self.counter.labels(*self.labels, str(code))
        child.inc()


class Metrics:
    """All metrics of one server, in a registry of their own (`registry`, open for collectors of other packages).

    Verbs are upstream's upper-case ones: GET, LIST, WATCH, POST, PUT, PATCH, APPLY, DELETE, other. Scope is
    `resource`, `namespace`, `cluster` or empty for paths that are no resource.
    """

    def __init__(self) -> None:
        disable_created_metrics()
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._requests = Counter(
            "apiserver_request_total",
            "Requests by verb, dry run, group, version, resource, subresource, scope, component and HTTP code.",
            (*DRY_RUN_LABELS, "code"),
            registry=registry,
        )
        self._durations = Histogram(
            "apiserver_request_duration_seconds",
            "Seconds to the end of the response.",
            DRY_RUN_LABELS,
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._sizes = Histogram(
            "apiserver_response_sizes",
            "Bytes of responses to reads.",
            RESOURCE_LABELS,
            buckets=RESPONSE_SIZE_BUCKETS,
            registry=registry,
        )
        self._long_running = Gauge(
            "apiserver_longrunning_requests", "Watches and other long requests now.", RESOURCE_LABELS, registry=registry
        )
        self._inflight = Gauge(
            "apiserver_current_inflight_requests", "Requests in flight now, by kind.", ("request_kind",), registry=registry
        )
        self._terminated = Counter(
            "apiserver_request_terminations_total",
            "Requests ended in self-defence: too many, too slow, failed.",
            (*RESOURCE_LABELS, "code"),
            registry=registry,
        )
        self._events = Counter(
            "apiserver_watch_events_total", "Events sent to watchers.", ("group", "version", "resource"), registry=registry
        )
        self._event_sizes = Histogram(
            "apiserver_watch_events_sizes",
            "Bytes of events sent to watchers.",
            ("group", "version", "resource"),
            buckets=EVENT_SIZE_BUCKETS,
            registry=registry,
        )
        self._read_only = self._inflight.labels("readOnly")
        self._mutating = self._inflight.labels("mutating")
        self._children: dict[RequestKey, _RequestMetrics] = {}
        self._watches: dict[tuple[str, str, str], WatchMetrics] = {}

    def observe(
        self,
        verb: str,
        group: str,
        version: str,
        resource: str,
        subresource: str,
        scope: str,
        code: int,
        seconds: float,
        size: int,
        dry_run: str = "",
    ) -> None:
        """One request that was answered: HTTP code, duration in seconds, body in bytes."""
        key = (verb, dry_run, group, version, resource, subresource, scope)
        children = self._children.get(key)
        if children is None:
            children = self._children[key] = self._resolve(key)
        children.count(code)
        children.duration.observe(seconds)
        if children.sizes is not None:
            children.sizes.observe(size)

    def inflight(self, read_only: int, mutating: int) -> None:
        """The numbers of requests in progress, long-running ones apart."""
        self._read_only.set(read_only)
        self._mutating.set(mutating)

    def long_running(self, verb: str, group: str, version: str, resource: str, subresource: str, scope: str) -> Gauge:
        """The gauge of one kind of long request: `inc` it at the start, `dec` it at the end."""
        return self._long_running.labels(verb, group, version, resource, subresource, scope, COMPONENT)

    def terminated(self, verb: str, group: str, version: str, resource: str, subresource: str, scope: str, code: int) -> None:
        """One request refused or cut off to protect the server (429 of the in-flight limit, 504, 500 after a panic)."""
        self._terminated.labels(verb, group, version, resource, subresource, scope, COMPONENT, str(code)).inc()

    def watch(self, group: str, version: str, resource: str) -> WatchMetrics:
        key = (group, version, resource)
        children = self._watches.get(key)
        if children is None:
            children = self._watches[key] = WatchMetrics(self._events.labels(*key), self._event_sizes.labels(*key))
        return children

    def forget(self, groups_resources: Iterable[tuple[str, str]]) -> None:
        """Drop the series of resources that are no longer served, given as (group, resource)."""
        gone = set(groups_resources)
        for key in [key for key in self._children if (key[2], key[4]) in gone]:
            for metric, labels in self._series(key):
                metric.remove(*labels)
            del self._children[key]
        for watched in [watched for watched in self._watches if (watched[0], watched[2]) in gone]:
            self._events.remove(*watched)
            self._event_sizes.remove(*watched)
            del self._watches[watched]

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format; `CONTENT_TYPE` is its media type."""
        text: bytes = generate_latest(self.registry)
        return text

    def _resolve(self, key: RequestKey) -> _RequestMetrics:
        labels = (*key, COMPONENT)
        sized = self._sizes.labels(key[0], *key[2:], COMPONENT) if key[0] in SIZED_VERBS else None
        return _RequestMetrics(self._requests, self._durations.labels(*labels), sized, labels)

    def _series(self, key: RequestKey) -> Iterator[tuple[Counter | Histogram, tuple[str, ...]]]:
        labels = (*key, COMPONENT)
        yield self._durations, labels
        for code in self._children[key].codes:
            yield self._requests, (*labels, str(code))
        if key[0] in SIZED_VERBS and not key[1]:
            yield self._sizes, (key[0], *key[2:], COMPONENT)


class RequestObserver:
    """Requests as `endpoints/filters.py` reports them, told apart as upstream does.

    served: whether a (group, version, resource) is one of ours now.
    """

    def __init__(self, metrics: Metrics, served: Callable[[str, str, str], bool]) -> None:
        self._metrics = metrics
        self._served = served
        self._counts = {"readOnly": 0, "mutating": 0}

    def request_done(self, request: Request, code: int, seconds: float, size: int) -> None:
        labels = self._labels(request)
        self._metrics.observe(*labels, code, seconds, size, _dry_run(request))
        if code in (429, 504):
            self._metrics.terminated(*labels, code)

    def in_flight(self, kind: str, count: int) -> None:
        """kind: readOnly or mutating."""
        self._counts[kind] = count
        self._metrics.inflight(self._counts["readOnly"], self._counts["mutating"])

    def long_running(self, request: Request, change: int) -> None:
        """change: 1 at the start, -1 at the end."""
        self._metrics.long_running(*self._labels(request)).inc(change)

    def _labels(self, request: Request) -> tuple[str, str, str, str, str, str]:
        """verb, group, version, resource, subresource, scope."""
        info: RequestInfo | None = getattr(request, "info", None)  # a request may fail before its URL was looked at
        if info is None or not info.is_resource_request:
            subresource = request.path if request.path in COUNTED_PATHS else ""
            return _verb(request, "", ""), "", "", "", subresource, ""
        scope = _scope(info)
        verb = _verb(request, info.verb, scope)
        if not self._served(info.group, info.version, info.resource):
            return verb, "", "", "", "", scope
        # a resource has few subresources, but the URL may name any
        subresource = info.subresource if info.subresource in ("", "status", "scale") else "other"
        return verb, info.group, info.version, info.resource, subresource, scope


def _scope(info: RequestInfo) -> str:
    if info.name or info.verb == "create":
        return "resource"
    return "namespace" if info.namespace else "cluster"


def _verb(request: Request, verb: str, scope: str) -> str:
    method = "GET" if request.method == "HEAD" else request.method
    if method == "GET":
        return "WATCH" if verb == "watch" else "LIST" if scope in ("namespace", "cluster") else "GET"
    if method == "PATCH" and request.header(b"content-type") in APPLY_TYPES:
        return "APPLY"
    return method if method in METHODS else "other"


def _dry_run(request: Request) -> str:
    if "dryRun" not in request.query_string:
        return ""
    values = set(request.query_all.get("dryRun", ()))
    return "All" if values == {"All"} else "invalid" if values else ""
