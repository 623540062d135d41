"""The catalog: what metrics are, and their exposition where prometheus_client has another idea of it."""

from __future__ import annotations

import pytest
from prometheus_client import Counter
from prometheus_client.parser import text_string_to_metric_families

from aggserver.meta.distribution import Distribution
from aggserver.monitoring.catalog import Described, MetricsCatalog
from aggserver.monitoring.series import Counters, Histograms, ReadCounters, ReadGauges, ReadHistograms


def test_what_each_kind_of_metric_is() -> None:
    catalog = MetricsCatalog()
    Counter("theirs_total", "[ALPHA] Theirs.", ("a",), registry=catalog)
    Counters("counted_total", "[STABLE] Ours.", ("a", "b"), registry=catalog)
    Counters("attempts", "[ALPHA] Without the suffix.", registry=catalog)
    Histograms("seconds", "[BETA] Times.", ("c",), buckets=(1.0,), registry=catalog)
    ReadGauges("now", "No stability.", read=lambda: [((), 1)], registry=catalog)
    ReadCounters("ever", "[ALPHA] Read.", read=lambda: [((), 2)], registry=catalog)
    ReadHistograms("read_seconds", "[ALPHA] Read, too.", read=lambda: [((), Distribution((1.0,)))], registry=catalog)
    assert catalog.described() == [
        Described("attempts", "counter", (), "ALPHA", "Without the suffix."),
        Described("counted_total", "counter", ("a", "b"), "STABLE", "Ours."),
        Described("ever", "counter", (), "ALPHA", "Read."),
        Described("now", "gauge", (), "", "No stability."),
        Described("read_seconds", "histogram", (), "ALPHA", "Read, too."),
        Described("seconds", "histogram", ("c",), "BETA", "Times."),
        Described("theirs_total", "counter", ("a",), "ALPHA", "Theirs."),
    ]
    families = {family.name: family for family in text_string_to_metric_families(catalog.exposition().decode())}
    assert {name: family.type for name, family in families.items()} == {
        "theirs": "counter",
        "counted": "counter",
        "attempts": "counter",
        "seconds": "histogram",
        "now": "gauge",
        "ever": "counter",
        "read_seconds": "histogram",
    }
    assert b"# TYPE ever counter\never 2.0\n" in catalog.exposition()


def test_combinations_are_counted_up_to_a_limit() -> None:
    catalog = MetricsCatalog()
    counts = Counters("calls_total", "[ALPHA] Calls.", ("name",), registry=catalog, most=2)
    histograms = Histograms("call_seconds", "[ALPHA] Calls.", ("name",), buckets=(1.0,), registry=catalog, most=2)
    for name in ("a", "b", "c", "a"):
        counts.labels(name).inc()
        histograms.labels(name).observe(0.5)
    text = catalog.exposition().decode()
    assert [line for line in text.splitlines() if line.startswith("calls_total{")] == [
        'calls_total{name="a"} 2.0',
        'calls_total{name="b"} 1.0',
    ]
    assert 'name="c"' not in text


def test_a_name_is_taken_once() -> None:
    catalog = MetricsCatalog()
    Counters("calls_total", "[ALPHA] Calls.", registry=catalog)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        ReadCounters("calls_total", "[ALPHA] Calls.", read=list, registry=catalog)
    assert [each.name for each in catalog.described()] == ["calls_total"]
