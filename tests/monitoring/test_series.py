"""Our counters and histograms, beside prometheus_client's."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics, generate_latest

from aggserver.monitoring.series import Histograms

BUCKETS = (0.005, 0.5, 1.0, 1000.0)
VALUES = (0.0, 0.005, 0.0051, 0.5, 1.0, 1.5, 1000.0, 1000.1, 5e9)


def test_the_exposition_is_that_of_the_library() -> None:
    disable_created_metrics()  # as Metrics does
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    for registry, kind in ((theirs, Histogram), (ours, Histograms)):
        metric = kind("seconds", "Of what.", ("verb", "code"), buckets=BUCKETS, registry=registry)
        for number, value in enumerate(VALUES):
            metric.labels("GET", "200").observe(value)
            metric.labels("a\n\"b\\'", str(number)).observe(value)
        metric.labels("gone", "200").observe(1.0)
        metric.remove("gone", "200")
        metric.labels("POST", "nothing")
    assert generate_latest(ours) == generate_latest(theirs)


def test_a_name_is_taken_once() -> None:
    registry = CollectorRegistry()
    Histograms("seconds", "Of what.", (), buckets=BUCKETS, registry=registry)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        Histograms("seconds", "Of what.", (), buckets=BUCKETS, registry=registry)
