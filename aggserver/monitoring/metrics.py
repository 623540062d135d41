"""Metrics of requests and watches, with kube-apiserver's names, so that its dashboards work.

`RequestObserver` is the observer that `endpoints/filters.py` reports requests to. The children of metrics are looked up once per
combination of labels and kept, because `labels()` costs as much as the observation itself. Clients can't make up label values:
only served resources and a few paths are counted by name.
Source: k8s.io/apiserver pkg/endpoints/metrics/metrics.go; k8s.io/apiextensions-apiserver pkg/apiserver/conversion/metrics.go,
v0.36.3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prometheus_client import Gauge, GCCollector, PlatformCollector, ProcessCollector

from aggserver.endpoints.request import Request
from aggserver.endpoints.request_info import RequestInfo
from aggserver.meta.distribution import Distribution
from aggserver.monitoring.catalog import MetricsCatalog
from aggserver.monitoring.series import Count, Counters, Histograms, ReadCounters, ReadGauges, ReadHistograms

__all__ = ["Metrics", "RequestObserver", "WatchMetrics"]

COMPONENT = "apiserver"

DURATION_BUCKETS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
# Those of the service level indicator, which lack the two shortest.
SLI_BUCKETS = DURATION_BUCKETS[2:]
ACCESS_BUCKETS = tuple(0.001 * 2.0**n for n in range(15))  # seconds of authentication and authorization, 1 ms to 16 s
RESPONSE_SIZE_BUCKETS = tuple(1000.0 * 10.0**n for n in range(7))  # bytes, 1 KB to 1 GB
EVENT_SIZE_BUCKETS = tuple(1024.0 * 2.0**n for n in range(8))  # bytes, 1 to 128 KiB

# Seconds of conversion webhooks, in upstream's two metrics: 1 ms to 16 s, and 5 ms to a minute.
CONVERSION_BUCKETS = tuple(0.001 * 2.0**n for n in range(15))
CONVERSION_CALL_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0)

RESOURCE_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
DRY_RUN_LABELS = ("verb", "dry_run", *RESOURCE_LABELS[1:])

# Verbs whose response sizes upstream observes; the sizes of the others depend on the request's body.
SIZED_VERBS = frozenset({"GET", "LIST"})

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
APPLY_TYPES = frozenset({"application/apply-patch+yaml", "application/apply-patch+cbor"})

# Paths that are counted by name, in the label `subresource` as upstream does. All other paths without a resource are counted as
# "".
COUNTED_PATHS = frozenset(
    {"/", "/api", "/apis", "/healthz", "/livez", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/readyz", "/version"}
)

# The user names that upstream counts by themselves.
_COUNTED_USERS = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})

# Names of users whose counter is kept at hand.
_KNOWN_USERS = 1000

RequestKey = tuple[str, str, str, str, str, str, str]

# Group, version and resource.
Resource = tuple[str, str, str]


class WatchMetrics:
    """The watches of one resource."""

    __slots__ = ("_events", "_sizes")

    def __init__(self, events: Count, sizes: Distribution) -> None:
        self._events = events
        self._sizes = sizes

    def sent(self, count: int, size: int) -> None:
        """Count one piece of `count` events with `size` bytes in total, sent to one watcher.

        It observes the mean size once for each piece, because this is the most frequent call when events go to thousands of
        watchers.
        """
        self._events.inc(count)
        self._sizes.observe(size / count)


class _RequestMetrics:
    """The children of the metrics for one combination of labels other than the code, which `count` adds."""

    __slots__ = ("_codes", "_counter", "duration", "sizes")

    def __init__(self, counter: Callable[[int], Count], duration: Distribution, sizes: Distribution | None) -> None:
        self._counter = counter
        self.duration = duration
        self.sizes = sizes
        self._codes: dict[int, Count] = {}

    def count(self, code: int) -> None:
        child = self._codes.get(code)
        if child is None:
            child = self._codes[code] = self._counter(code)
        child.value += 1


class Metrics:
    """All metrics of one server, in a catalog of their own.

    Verbs are upstream's: GET, LIST, WATCH, POST, PUT, PATCH, APPLY, DELETE, other. The scope is `resource`, `namespace`,
    `cluster`, or empty for paths without a resource.
    """

    def __init__(self) -> None:
        self.registry = registry = MetricsCatalog()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._requests = Counters(
            "apiserver_request_total",
            "[STABLE] Requests by verb, dry run, group, version, resource, subresource, scope, component and HTTP code.",
            (*DRY_RUN_LABELS, "code"),
            registry=registry,
        )
        self._durations = Histograms(
            "apiserver_request_duration_seconds",
            "[STABLE] Seconds to the end of the response.",
            DRY_RUN_LABELS,
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._sizes = Histograms(
            "apiserver_response_sizes",
            "[STABLE] Bytes of responses to reads.",
            RESOURCE_LABELS,
            buckets=RESPONSE_SIZE_BUCKETS,
            registry=registry,
        )
        self._long_running = Gauge(
            "apiserver_longrunning_requests", "[STABLE] Watches and other long requests now.", RESOURCE_LABELS, registry=registry
        )
        # Read when the metrics are, since setting two gauges twice takes 4 us of each request.
        self._in_flight = {"readOnly": 0, "mutating": 0}
        ReadGauges(
            "apiserver_current_inflight_requests",
            "[STABLE] Requests in flight now, by kind.",
            ("request_kind",),
            read=lambda: [((kind,), count) for kind, count in self._in_flight.items()],
            registry=registry,
        )
        self._terminated = Counters(
            "apiserver_request_terminations_total",
            "[ALPHA] Requests ended in self-defence: too many, too slow, failed.",
            (*RESOURCE_LABELS, "code"),
            registry=registry,
        )
        self._events = Counters(
            "apiserver_watch_events_total",
            "[ALPHA] Events sent to watchers.",
            ("group", "version", "resource"),
            registry=registry,
        )
        self._event_sizes = Histograms(
            "apiserver_watch_events_sizes",
            "[ALPHA] Bytes of events sent to watchers.",
            ("group", "version", "resource"),
            buckets=EVENT_SIZE_BUCKETS,
            registry=registry,
        )
        self._deprecated = Gauge(
            "apiserver_requested_deprecated_apis",
            "[STABLE] Deprecated versions that were requested: 1.",
            ("group", "version", "resource", "subresource", "removed_release"),
            registry=registry,
        )
        self._migrated = Counters(
            "aggserver_storage_migration_objects_total",
            "[ALPHA] Stored objects rewritten in the storage version.",
            ("group", "version", "resource"),
            registry=registry,
        )
        self._unmigrated = Gauge(
            "aggserver_storage_migration_remaining_objects",
            "[ALPHA] Stored objects that a migration in progress has not looked at yet.",
            ("group", "version", "resource"),
            registry=registry,
        )
        self._unmigratable = Gauge(
            "aggserver_storage_migration_failing_objects",
            "[ALPHA] Stored objects that a migration has tried in vain to rewrite.",
            ("group", "version", "resource"),
            registry=registry,
        )
        self._conversions = Histograms(
            "apiserver_crd_conversion_webhook_duration_seconds",
            "[ALPHA] Seconds of calls of conversion webhooks.",
            ("crd_name", "from_version", "to_version", "succeeded"),
            buckets=CONVERSION_BUCKETS,
            registry=registry,
        )
        self._conversion_calls = Counters(
            "apiserver_conversion_webhook_request_total",
            "[ALPHA] Calls of conversion webhooks, by result and kind of failure.",
            ("result", "failure_type"),
            registry=registry,
        )
        self._conversion_durations = Histograms(
            "apiserver_conversion_webhook_duration_seconds",
            "[ALPHA] Seconds of calls of conversion webhooks, by result and kind of failure.",
            ("result", "failure_type"),
            buckets=CONVERSION_CALL_BUCKETS,
            registry=registry,
        )
        ReadHistograms(
            "apiserver_request_sli_duration_seconds",
            "[ALPHA] As apiserver_request_duration_seconds, of requests that are no dry runs, without the time in webhooks of "
            "admission and in queues.",
            RESOURCE_LABELS,
            read=self._indicators,
            registry=registry,
        )
        self._aborted = Counters(
            "apiserver_request_aborts_total",
            "[ALPHA] Responses that were broken off when their time was over.",
            RESOURCE_LABELS[:-1],
            registry=registry,
        )
        self._users = Counters(
            "authenticated_user_requests",
            "[ALPHA] Authenticated requests by kind of user name: some well-known names, email_id for those with an @, other.",
            ("username",),
            registry=registry,
        )
        self._authentication = Histograms(
            "authentication_duration_seconds",
            "[ALPHA] Seconds of authentication, by result.",
            ("result",),
            buckets=ACCESS_BUCKETS,
            registry=registry,
        )
        ReadCounters(
            "authentication_attempts",
            "[ALPHA] Requests by result of authentication: success, failure, error.",
            ("result",),
            read=self._authentication.counts,
            registry=registry,
        )
        self._authorization = Histograms(
            "authorization_duration_seconds",
            "[ALPHA] Seconds of authorization, by result.",
            ("result",),
            buckets=ACCESS_BUCKETS,
            registry=registry,
        )
        ReadCounters(
            "authorization_attempts_total",
            "[ALPHA] Requests by result of authorization: allowed, denied, error.",
            ("result",),
            read=self._authorization.counts,
            registry=registry,
        )
        self._user_counts: dict[str, Count] = {}  # by name
        # What the durations of requests would be without foreign seconds, less what they are: counts by bucket, and a sum.
        self._shifts: dict[RequestKey, tuple[list[int], list[float]]] = {}
        self._children: dict[RequestKey, _RequestMetrics] = {}
        self._watches: dict[Resource, WatchMetrics] = {}
        # The series of each resource, which `forget` removes.
        self._series: dict[Resource, set[tuple[Any, tuple[str, ...]]]] = {}

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
        foreign: float = 0.0,
    ) -> None:
        """Count an answered request. code: the HTTP status. seconds: its duration. size: of the response's body in bytes.

        foreign: seconds of it that are no fault of this server.
        """
        self.count((verb, dry_run, group, version, resource, subresource, scope), code, seconds, size, foreign)

    def count(self, key: RequestKey, code: int, seconds: float, size: int, foreign: float) -> None:
        """As `observe`, with the labels in one."""
        children = self._children.get(key)
        if children is None:
            children = self._children[key] = self._resolve(key)
        children.count(code)
        children.duration.observe(seconds)
        if children.sizes is not None:
            children.sizes.observe(size)
        if foreign:
            self._shift(key, seconds, foreign)

    def _shift(self, key: RequestKey, seconds: float, foreign: float) -> None:
        counts, total = self._shifts.setdefault(key, ([0] * (len(SLI_BUCKETS) + 1), [0.0]))
        counts[bisect_left(SLI_BUCKETS, seconds)] -= 1
        counts[bisect_left(SLI_BUCKETS, seconds - foreign)] += 1
        total[0] -= foreign

    def _indicators(self) -> Iterator[tuple[Sequence[str], Distribution]]:
        """The service level indicators, made of the durations when metrics are read: so they cost requests nothing."""
        shortest = len(DURATION_BUCKETS) - len(SLI_BUCKETS)
        for key, children in self._children.items():
            if key[1]:
                continue  # a dry run
            made = Distribution(SLI_BUCKETS)
            counts = children.duration.counts
            made.counts = [sum(counts[: shortest + 1]), *counts[shortest + 1 :]]
            made.total = children.duration.total
            if key in self._shifts:
                shift, total = self._shifts[key]
                made.counts = [one + other for one, other in zip(made.counts, shift, strict=True)]
                made.total += total[0]
            yield (key[0], *key[2:], COMPONENT), made

    def authenticated(self, result: str, name: str, seconds: float) -> None:
        """Count a request whose client was authenticated, or not. result: success, failure or error. name: the user's, or ''."""
        if name:
            count = self._user_counts.get(name)
            if count is None:
                if len(self._user_counts) >= _KNOWN_USERS:
                    self._user_counts.clear()
                kind = name if name in _COUNTED_USERS else "email_id" if "@" in name else "other"
                count = self._user_counts[name] = self._users.labels(kind)
            count.value += 1
        self._authentication.labels(result).observe(seconds)

    def authorized(self, result: str, seconds: float) -> None:
        """Count a decision. result: allowed, denied or error."""
        self._authorization.labels(result).observe(seconds)

    def aborted(self, verb: str, group: str, version: str, resource: str, subresource: str, scope: str) -> None:
        """Count a response that was broken off when its time was over."""
        labels = (verb, group, version, resource, subresource, scope)
        self._child(self._aborted, (group, version, resource), *labels).inc()

    def deprecated(self, group: str, version: str, resource: str, subresource: str) -> None:
        """Records that a deprecated version was requested. As upstream, `removed_release` is empty for custom resources."""
        self._child(self._deprecated, (group, version, resource), group, version, resource, subresource, "").set(1)

    def migration(self, group: str, version: str, resource: str, rewritten: int, remaining: int, failing: int) -> None:
        """Record the progress of a storage migration to a version. rewritten: objects since the last call."""
        key = (group, version, resource)
        self._child(self._migrated, key, *key).inc(rewritten)
        self._child(self._unmigrated, key, *key).set(remaining)
        self._child(self._unmigratable, key, *key).set(failing)

    def conversion(self, definition: str, from_version: str, to_version: str, seconds: float, failure: str) -> None:
        """Counters a call of the conversion webhook of a definition. failure: its kind, '' if it succeeded."""
        result = ("failure" if failure else "success", failure)
        self._conversion_calls.labels(*result).inc()
        self._conversion_durations.labels(*result).observe(seconds)
        labels = (definition, from_version, to_version, "false" if failure else "true")
        # A definition's name is that of its resource, so `forget` can remove the series with the resource.
        resource, _, group = definition.partition(".")
        self._child(self._conversions, (group, to_version, resource), *labels).observe(seconds)

    def inflight(self, read_only: int, mutating: int) -> None:
        """Sets the numbers of requests in progress, without the long-running ones."""
        self._in_flight["readOnly"] = read_only
        self._in_flight["mutating"] = mutating

    def long_running(self, verb: str, group: str, version: str, resource: str, subresource: str, scope: str) -> Gauge:
        """The gauge of one kind of long-running request: `inc` at the start, `dec` at the end."""
        labels = (verb, group, version, resource, subresource, scope, COMPONENT)
        return self._child(self._long_running, (group, version, resource), *labels)

    def terminated(self, verb: str, group: str, version: str, resource: str, subresource: str, scope: str, code: int) -> None:
        """Counters a request refused or cut off to protect the server (429 of the in-flight limit, 504, 500 after a panic)."""
        labels = (verb, group, version, resource, subresource, scope, COMPONENT, str(code))
        self._child(self._terminated, (group, version, resource), *labels).inc()

    def watch(self, group: str, version: str, resource: str) -> WatchMetrics:
        key = (group, version, resource)
        children = self._watches.get(key)
        if children is None:
            children = self._watches[key] = WatchMetrics(
                self._child(self._events, key, *key), self._child(self._event_sizes, key, *key)
            )
        return children

    def forget(self, served: Callable[[str, str, str], bool]) -> None:
        """Drop the series of resources that are no longer served. served: whether a (group, version, resource) is served."""
        gone = {resource for resource in self._series if not served(*resource)}
        if not gone:
            return
        for resource in gone:
            for metric, labels in self._series.pop(resource):
                metric.remove(*labels)
        self._children = {key: children for key, children in self._children.items() if _resource(key) not in gone}
        self._shifts = {key: shift for key, shift in self._shifts.items() if _resource(key) not in gone}
        self._watches = {resource: children for resource, children in self._watches.items() if resource not in gone}

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format; `CONTENT_TYPE` of `catalog.py` is its media type."""
        return self.registry.exposition()

    def _resolve(self, key: RequestKey) -> _RequestMetrics:
        resource, labels = _resource(key), (*key, COMPONENT)
        return _RequestMetrics(
            lambda code: self._child(self._requests, resource, *labels, str(code)),
            self._child(self._durations, resource, *labels),
            self._child(self._sizes, resource, key[0], *key[2:], COMPONENT) if key[0] in SIZED_VERBS else None,
        )

    def _child(self, metric: Any, resource: Resource, *labels: str) -> Any:
        """The series of a metric with these labels, which is recorded for `forget` if it belongs to a resource."""
        if resource[2]:
            self._series.setdefault(resource, set()).add((metric, labels))
        return metric.labels(*labels)


def _resource(key: RequestKey) -> Resource:
    return key[2], key[3], key[4]


class RequestObserver:
    """The observer that `endpoints/filters.py` reports requests to. Labels them as upstream does.

    served: whether a (group, version, resource) is served now.
    """

    def __init__(self, metrics: Metrics, served: Callable[[str, str, str], bool]) -> None:
        self._metrics = metrics
        self._served = served
        self._counts = {"readOnly": 0, "mutating": 0}
        # The gauge that a watch was counted in, so that its end is counted there even if its resource is no longer served.
        self._long_running: dict[Request, Gauge] = {}

    def request_done(self, request: Request, code: int, seconds: float, size: int) -> None:
        dry_run = _dry_run(request) if "dryRun" in request.query_string else ""
        labels = self._labels(request)
        foreign = request.record.foreign_seconds if request.record is not None else 0.0
        self._metrics.count((labels[0], dry_run, *labels[1:]), code, seconds, size, foreign)
        if code in (429, 504):
            self._metrics.terminated(*labels, code)
            if code == 504 and not size:
                self._metrics.aborted(*labels)

    def authenticated(self, request: Request) -> None:
        assert request.authentication is not None
        result, seconds = request.authentication
        self._metrics.authenticated(result, request.user.name if result == "success" else "", seconds)

    def authorized(self, request: Request) -> None:
        assert request.authorization is not None
        self._metrics.authorized(*request.authorization)

    def in_flight(self, kind: str, count: int) -> None:
        """Set the number of requests in progress. kind: readOnly or mutating."""
        self._counts[kind] = count
        self._metrics.inflight(self._counts["readOnly"], self._counts["mutating"])

    def long_running(self, request: Request, change: int) -> None:
        """Count the start or end of a long-running request. change: 1 at the start, -1 at the end."""
        if change > 0:
            self._long_running[request] = self._metrics.long_running(*self._labels(request))
            self._long_running[request].inc()
        else:
            self._long_running.pop(request).dec()

    def _labels(self, request: Request) -> tuple[str, str, str, str, str, str]:
        """verb, group, version, resource, subresource, scope."""
        info: RequestInfo | None = getattr(request, "info", None)  # missing if the request failed before its URL was parsed
        if info is None or not info.is_resource_request:
            subresource = request.path if request.path in COUNTED_PATHS else ""
            return _verb(request, "", ""), "", "", "", subresource, ""
        scope = _scope(info)
        verb = _verb(request, info.verb, scope)
        if not self._served(info.group, info.version, info.resource):
            return verb, "", "", "", "", scope
        # The URL may name any subresource.
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
    values = set(request.query_all.get("dryRun", ()))
    return "All" if values == {"All"} else "invalid" if values else ""
