from __future__ import annotations

from typing import Any

import pytest

from aggserver.registry.deletion import begin_gracefully, finalizers_for, is_emptied, mark_as_deleting
from aggserver.registry.rest import DeleteOptions

NOW = "2026-01-02T03:04:05Z"
BEFORE = "2026-01-01T00:00:00Z"


def test_finalizers_that_stay_are_the_same_list() -> None:
    """The caller compares identity to find out whether there is a change."""
    for before in ([], ["x/y"], ["orphan", "x/y"]):
        assert finalizers_for(before, DeleteOptions()) is before
    before = ["orphan", "x/y"]
    assert finalizers_for(before, DeleteOptions(propagation="Orphan")) is before


MARKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "first": ({"generation": 3}, {"generation": 4, "deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0}),
    "no generation": ({}, {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0}),
    "again": (
        {"generation": 3, "deletionTimestamp": BEFORE, "deletionGracePeriodSeconds": 5},
        {"generation": 3, "deletionTimestamp": BEFORE, "deletionGracePeriodSeconds": 0},
    ),
}


@pytest.mark.parametrize("case", MARKS)
def test_marks(case: str) -> None:
    metadata, expected = MARKS[case]
    mark_as_deleting(metadata, NOW)
    assert metadata == expected


DELETING = {"deletionTimestamp": BEFORE}
EMPTIED: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "the last one went": ({}, {**DELETING, "finalizers": ["x/y"]}, True),
    "an empty list": ({"finalizers": []}, DELETING, True),
    "one is left": ({"finalizers": ["x/y"]}, DELETING, False),
    "not deleting": ({}, {"finalizers": ["x/y"]}, False),
    "within its grace period": ({}, {**DELETING, "deletionGracePeriodSeconds": 30}, False),
    "after its grace period": ({}, {**DELETING, "deletionGracePeriodSeconds": 0}, True),
}


@pytest.mark.parametrize("case", EMPTIED)
def test_emptied(case: str) -> None:
    metadata, old, expected = EMPTIED[case]
    assert is_emptied(metadata, old) is expected


LATER = "2026-01-02T03:04:35Z"
_ENDING = {"deletionTimestamp": LATER, "deletionGracePeriodSeconds": 30}

# Metadata, the seconds that the client wants, what becomes of the metadata; None if nothing changes.
GRACEFUL: dict[str, tuple[dict[str, Any], int | None, dict[str, Any] | None]] = {
    "begins": ({"generation": 1}, None, {**_ENDING, "generation": 2}),
    "begins without a generation": ({}, None, _ENDING),
    "waits": (_ENDING, None, None),
    "not longer": (_ENDING, 40, None),
    "shorter": (_ENDING, 10, {"deletionTimestamp": "2026-01-02T03:04:15Z", "deletionGracePeriodSeconds": 10}),
    "at once": (_ENDING, 0, {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0}),
}


@pytest.mark.parametrize("name", GRACEFUL)
def test_graceful_deletion(name: str) -> None:
    given, wanted, expected = GRACEFUL[name]
    metadata = dict(given)
    assert begin_gracefully(metadata, wanted, 30, NOW) == (expected is not None)
    assert metadata == (given if expected is None else expected)


def test_some_kinds_leave_their_dependents() -> None:
    assert finalizers_for([], DeleteOptions(), orphans=True) == ["orphan"]
    assert finalizers_for([], DeleteOptions(propagation="Background"), orphans=True) == []
