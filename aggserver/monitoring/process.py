"""Metrics of the process: its version, its work queues, TLS, and its requests to the cluster that hosts it.

Source: k8s.io/component-base metrics/prometheus/{version,workqueue,restclient}, k8s.io/apiserver
pkg/authentication/authenticatorfactory/metrics.go, v0.36.3.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from aggserver.cluster.figures import ClientFigures
from aggserver.informers.work_queue import RUNNING
from aggserver.meta.distribution import Distribution
from aggserver.monitoring.catalog import MetricsCatalog
from aggserver.monitoring.series import ReadCounters, ReadGauges, ReadHistograms

__all__ = ["cluster_metrics", "process_metrics", "tls_metrics"]

# The members of /version, and their labels.
_BUILD = {
    "buildDate": "build_date",
    "compiler": "compiler",
    "gitCommit": "git_commit",
    "gitTreeState": "git_tree_state",
    "gitVersion": "git_version",
    "goVersion": "go_version",
    "major": "major",
    "minor": "minor",
    "platform": "platform",
}


def process_metrics(
    registry: MetricsCatalog, version: Mapping[str, str], aggserver_version: str, monotonic: Callable[[], float] = time.monotonic
) -> None:
    """version: the object that is served at /version. aggserver_version: our own."""
    ReadGauges(
        "kubernetes_build_info",
        "[BETA] 1. The labels say which Kubernetes this server behaves as.",
        tuple(_BUILD.values()),
        read=lambda: [([version[name] for name in _BUILD], 1)],
        registry=registry,
    )
    ReadGauges(
        "aggserver_build_info",
        "[ALPHA] 1. Its version.",
        ("version",),
        read=lambda: [((aggserver_version,), 1)],
        registry=registry,
    )
    _queue_metrics(registry, monotonic)


def _queue_metrics(registry: MetricsCatalog, monotonic: Callable[[], float]) -> None:
    gauges = partial(ReadGauges, labelnames=("name",), registry=registry)
    counters = partial(ReadCounters, labelnames=("name",), registry=registry)
    histograms = partial(ReadHistograms, labelnames=("name",), registry=registry)

    def ages() -> Iterator[tuple[Sequence[str], list[float]]]:
        now = monotonic()
        for queue in list(RUNNING):
            yield (queue.what,), [now - begun for begun in queue.figures.begun.values()]

    gauges(
        "workqueue_depth", "[BETA] Keys that wait in a work queue.", read=lambda: _sum((q.what, q.depth) for q in list(RUNNING))
    )
    counters(
        "workqueue_adds_total",
        "[BETA] Keys added to a work queue.",
        read=lambda: _sum((q.what, q.figures.adds) for q in list(RUNNING)),
    )
    counters(
        "workqueue_retries_total",
        "[BETA] Keys that are tried again since they have failed.",
        read=lambda: _sum((q.what, q.figures.retries) for q in list(RUNNING)),
    )
    histograms(
        "workqueue_queue_duration_seconds",
        "[BETA] Seconds that a key waits in a work queue.",
        read=lambda: _first((q.what, q.figures.waited) for q in list(RUNNING)),
    )
    histograms(
        "workqueue_work_duration_seconds",
        "[BETA] Seconds that it takes to handle a key.",
        read=lambda: _first((q.what, q.figures.worked) for q in list(RUNNING)),
    )
    gauges(
        "workqueue_unfinished_work_seconds",
        "[BETA] Seconds that the keys being handled have taken until now, together.",
        read=lambda: _sum((name, sum(each)) for (name,), each in ages()),
    )
    gauges(
        "workqueue_longest_running_processor_seconds",
        "[BETA] Seconds that the longest of them has taken until now.",
        read=lambda: _sum((name, max(each, default=0.0)) for (name,), each in ages()),
    )


def _sum(values: Iterable[tuple[str, float]]) -> Iterable[tuple[Sequence[str], float]]:
    """By name: two queues may have one name, where several servers run in one process."""
    found: dict[str, float] = {}
    for name, value in values:
        found[name] = found.get(name, 0.0) + value
    return [((name,), value) for name, value in sorted(found.items())]


def _first(values: Iterable[tuple[str, Distribution]]) -> Iterable[tuple[Sequence[str], Distribution]]:
    found: dict[str, Distribution] = {}
    for name, value in values:
        found.setdefault(name, value)
    return [((name,), value) for name, value in sorted(found.items())]


def tls_metrics(registry: MetricsCatalog, failures: Callable[[], int]) -> None:
    """failures: the number of handshakes that have failed."""
    ReadCounters(
        "apiserver_tls_handshake_errors_total",
        "[ALPHA] TLS handshakes that have failed.",
        read=lambda: [((), failures())],
        registry=registry,
    )


def cluster_metrics(registry: MetricsCatalog, clients: Callable[[], Iterable[tuple[str, ClientFigures]]]) -> None:
    """clients: the servers that this one sends requests to, as host and port, and what was counted of each."""

    def requests() -> Iterator[tuple[Sequence[str], float]]:
        for host, figures in clients():
            for (code, method), count in figures.requests.items():
                yield (code, method, host), count

    def seconds() -> Iterator[tuple[Sequence[str], Distribution]]:
        for host, figures in clients():
            for method, distribution in figures.seconds.items():
                yield (method, host), distribution

    def reviews(kind: str) -> Iterator[tuple[Sequence[str], Distribution]]:
        for _, figures in clients():
            for (reviewed, code), distribution in figures.reviews.items():
                if reviewed == kind:
                    yield (code,), distribution

    ReadCounters(
        "rest_client_requests_total",
        "[ALPHA] Requests to the hosting API server by code, method and host. The code is <error> where there was no answer.",
        ("code", "method", "host"),
        read=requests,
        registry=registry,
    )
    ReadHistograms(
        "rest_client_request_duration_seconds",
        "[ALPHA] Seconds until the head of the answer of the hosting API server.",
        ("verb", "host"),
        read=seconds,
        registry=registry,
    )
    for kind, what in (("authn", "TokenReviews"), ("authz", "SubjectAccessReviews")):
        ReadCounters(
            f"apiserver_delegated_{kind}_request_total",
            f"[ALPHA] {what} that the hosting API server was asked for, by code.",
            ("code",),
            read=partial(_counts, partial(reviews, kind)),
            registry=registry,
        )
        ReadHistograms(
            f"apiserver_delegated_{kind}_request_duration_seconds",
            f"[ALPHA] Seconds of {what}, by code.",
            ("code",),
            read=partial(reviews, kind),
            registry=registry,
        )


def _counts(read: Callable[[], Iterable[tuple[Sequence[str], Distribution]]]) -> Iterator[tuple[Sequence[str], float]]:
    for labels, distribution in read():
        yield labels, sum(distribution.counts)
