"""Values of the standard library as Go writes and reads them; quantities; metadata."""

from __future__ import annotations

import copy
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggserver.meta import duration
from aggserver.meta.formats import is_base64, is_date, is_date_time
from aggserver.typed import texts
from aggserver.typed.metadata import Metadata
from aggserver.typed.quantity import Quantity

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


# The first and the last day have no other zones.
@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=ZONES))  # noqa: DTZ001
def test_times_come_back(moment: datetime) -> None:
    text = texts.time_text(moment)
    assert is_date_time(text)
    assert text.endswith("Z")
    assert texts.time_of(text) == moment


@given(st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)))
def test_durations_come_back(length: timedelta) -> None:
    text = texts.duration_text(length)
    assert texts.duration_of(text) == length
    assert abs(duration.parse(text) - length.total_seconds()) < 1e-3


@given(st.dates())
def test_dates_come_back(day: date) -> None:
    assert is_date(texts.date_text(day))
    assert texts.date_of(texts.date_text(day)) == day


@given(st.binary(min_size=1))
def test_bytes_come_back(content: bytes) -> None:
    assert is_base64(texts.bytes_text(content))
    assert texts.bytes_of(texts.bytes_text(content)) == content


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        # Of Go's time.Duration.String.
        (0, "0s"),
        (1e-6, "1µs"),
        (1.1e-3, "1.1ms"),
        (2.2, "2.2s"),
        (3.3e-1, "330ms"),
        (245, "4m5s"),
        (5 * 60 + 6.001, "5m6.001s"),
        (5 * 3600 + 6 * 60 + 7.001, "5h6m7.001s"),
        (8 * 60 + 1e-6, "8m0.000001s"),
        (49 * 3600, "49h0m0s"),
        (-60, "-1m0s"),
    ],
)
def test_durations_as_go_writes_them(seconds: float, text: str) -> None:
    assert texts.duration_text(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1d", 86400),
        ("3 weeks", 3 * 7 * 86400),
        ("1 day 2 hours", 86400 + 7200),
        ("15 µs", 15e-6),
        ("1.5h", 5400),
        ("+1s", 1),
        ("0", 0),
        ("1h30m.5s", 5400.5),
        ("1600ns", 2e-6),
        ("400ns", 0),
    ],
)
def test_durations_as_their_format_allows_them(text: str, seconds: float) -> None:
    assert texts.duration_of(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("convert", "value", "why"),
    [
        (texts.time_text, datetime(2026, 1, 1), "must have a time zone"),  # noqa: DTZ001
        (texts.time_of, "noon", "must be a time"),
        (texts.time_of, "2026-02-30T00:00:00Z", "day is out of range"),
        (texts.duration_of, "soon", "must be a duration"),
        (texts.duration_of, "1e", "must be a duration"),
        (texts.duration_of, "9" * 40 + "h", "must be a duration"),
        (texts.duration_of, ".h", "must be a duration"),
        (texts.duration_of, "", "must be a duration"),
        (texts.bytes_of, "a", "must be base64"),
        (texts.bytes_of, "_-==", "must be base64"),
        (Quantity, "much", "quantities must match"),
    ],
)
def test_what_is_no_value(convert: Any, value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        convert(value)


def test_quantities() -> None:
    assert Quantity("1000m") == Quantity(1)
    assert hash(Quantity("1000m")) == hash(Quantity(1))
    assert str(Quantity("1000m")) == "1000m"
    assert Quantity("1Gi") > Quantity("1G") >= Quantity("1000M")
    assert str(Quantity("1Gi") + Quantity("1Gi")) == "2Gi"
    assert str(Quantity("1") - Quantity("250m")) == "750m"
    assert Quantity("1.5").decimal == Decimal("1.5")
    assert float(Quantity("250m")) == 0.25
    assert Quantity("1") != 1
    assert repr(Quantity("1Ki")) == "Quantity('1Ki')"


NOON = datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=UTC)


def test_metadata_of_an_object() -> None:
    given = {
        "name": "a",
        "namespace": "b",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-01-02T12:00:00Z",
        "deletionTimestamp": "2026-01-02T13:00:00Z",
        "labels": {"x": "y"},
        "annotations": None,
        "managedFields": [{}],
    }
    metadata = Metadata.from_json(given)
    assert (metadata.name, metadata.namespace, metadata.uid, metadata.revision, metadata.generation) == ("a", "b", "u", "7", 3)
    assert metadata.created == NOON.replace(microsecond=0)
    assert metadata.deletion_timestamp == datetime(2026, 1, 2, 13, tzinfo=UTC)
    assert (metadata.labels, metadata.annotations, metadata.finalizers, metadata.owner_references) == ({"x": "y"}, {}, [], [])
    metadata.labels["z"] = "1"
    assert given["labels"] == {"x": "y"}
    assert metadata.to_json() == {**given, "labels": {"x": "y", "z": "1"}, "annotations": {}}


def test_metadata_of_a_user() -> None:
    metadata = Metadata(
        "a",
        "b",
        labels={"x": "y"},
        annotations={"p": "q"},
        created=NOON,
        uid="u",
        revision="7",
        generation=2,
        finalizers=["f/g"],
        owner_references=[{"uid": "o"}],
    )
    assert metadata.to_json() == {
        "name": "a",
        "namespace": "b",
        "labels": {"x": "y"},
        "annotations": {"p": "q"},
        "creationTimestamp": "2026-01-02T12:00:00Z",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 2,
        "finalizers": ["f/g"],
        "ownerReferences": [{"uid": "o"}],
    }
    assert copy.deepcopy(metadata) == metadata == copy.copy(metadata)
    assert repr(metadata) == "<Metadata b/a>"
    assert Metadata(generate_name="a-").to_json() == {"generateName": "a-"}
    with pytest.raises(ValueError, match="must have a time zone"):
        Metadata("a", created=NOON.replace(tzinfo=None))


def test_metadata_is_changed_by_its_attributes() -> None:
    metadata = Metadata("a")
    metadata.name, metadata.namespace, metadata.uid, metadata.revision, metadata.generation = "b", "c", "u", "1", 4
    metadata.generate_name, metadata.created = "g-", NOON
    metadata.annotations, metadata.finalizers, metadata.owner_references = {"a": "b"}, ("f",), [{"uid": "o"}]  # type: ignore[assignment]
    assert metadata == Metadata(
        "b",
        "c",
        uid="u",
        revision="1",
        generation=4,
        generate_name="g-",
        created=NOON,
        annotations={"a": "b"},
        finalizers=["f"],
        owner_references=[{"uid": "o"}],
    )
    metadata.namespace = metadata.created = None
    assert "namespace" not in metadata.to_json()
    assert metadata.created is None
    assert metadata.deletion_timestamp is None
    assert metadata.generate_name == "g-"
