"""Kept metadata: what is the source's own, what is kept beside it, and both together."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.resources import kept

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}
OTHER = {**OWNER, "name": "b", "uid": "2"}
TIME = {"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 0}


def entry(manager: str, time: str = "") -> dict[str, Any]:
    return {"manager": manager, "operation": "Apply", "apiVersion": "a/v1", "time": time}


# name: (the source's own, what a client wants, what is kept, what is shown)
CASES: dict[str, tuple[dict[str, Any], ...]] = {
    "nothing": ({}, {}, {}, {}),
    "labels": ({}, {"labels": {"a": "1"}}, {"labels": {"a": "1"}}, {"labels": {"a": "1"}}),
    "labels of both": (
        {"labels": {"own": "1"}},
        {"labels": {"own": "1", "a": "2"}},
        {"labels": {"a": "2"}},
        {"labels": {"a": "2", "own": "1"}},
    ),
    "the source wins": (
        {"annotations": {"own": "1"}},
        {"annotations": {"own": "2", "a": "2"}},
        {"annotations": {"a": "2"}},
        {"annotations": {"a": "2", "own": "1"}},
    ),
    "what the source tells itself is not kept": (
        {"labels": {"own": "1"}},
        {"labels": {"own": "1"}},
        {},
        {"labels": {"own": "1"}},
    ),
    "finalizers": (
        {"finalizers": ["own"]},
        {"finalizers": ["own", "a", "b"]},
        {"finalizers": ["a", "b"]},
        {"finalizers": ["own", "a", "b"]},
    ),
    "owners by uid": (
        {"ownerReferences": [OWNER]},
        {"ownerReferences": [{**OWNER, "controller": True}, OTHER]},
        {"ownerReferences": [OTHER]},
        {"ownerReferences": [OWNER, OTHER]},
    ),
    "a deletion": ({}, TIME, TIME, TIME),
    "a deletion of the source": (
        {"deletionTimestamp": "2025-01-01T00:00:00Z"},
        TIME,
        {},
        {"deletionTimestamp": "2025-01-01T00:00:00Z"},
    ),
    "managers": ({}, {"managedFields": [entry("a")]}, {"managedFields": [entry("a")]}, {"managedFields": [entry("a")]}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_kept_and_shown(case: str) -> None:
    own, wanted, to_keep, shown = CASES[case]
    assert kept.kept_of(wanted, own) == to_keep
    assert kept.merged(own, to_keep) == shown


def test_what_is_empty_is_no_part() -> None:
    metadata = {"name": "a", "labels": {}, "annotations": None, "finalizers": [], "deletionGracePeriodSeconds": 0}
    assert kept.part(metadata) == {"deletionGracePeriodSeconds": 0}
    assert kept.replaced({"name": "a", "labels": {"a": "1"}}, {"finalizers": ["f"]}) == {"name": "a", "finalizers": ["f"]}


def test_what_clients_can_not_change() -> None:
    own = {"labels": {"own": "1", "gone": "1"}, "finalizers": ["own"]}
    wanted = {"labels": {"own": "2"}}
    assert [str(error) for error in kept.changed_own(wanted, own)] == [
        "metadata.labels[own]: Forbidden: comes from the source of this resource"
    ]
    assert [text.partition(" ")[0] + " " + text.split()[1] for text in kept.returning(wanted, own)] == [
        "metadata.labels[own] comes",
        "metadata.labels[gone] comes",
        "metadata.finalizers: own",
    ]
    assert kept.changed_own(own, own) == []
    assert kept.returning(own, own) == []


# name: (before, after, what somebody else has written meanwhile, the result)
REBASED: dict[str, tuple[dict[str, Any], ...]] = {
    "nobody wrote": ({"labels": {"a": "1"}}, {"labels": {"a": "2"}}, {"labels": {"a": "1"}}, {"labels": {"a": "2"}}),
    "both add": ({}, {"labels": {"a": "1"}}, {"labels": {"b": "1"}}, {"labels": {"a": "1", "b": "1"}}),
    "one removes": (
        {"labels": {"a": "1", "b": "1"}},
        {"labels": {"b": "1"}},
        {"labels": {"a": "1", "b": "2"}},
        {"labels": {"b": "2"}},
    ),
    "the other removes": ({"labels": {"a": "1"}}, {"labels": {"a": "1", "c": "1"}}, {}, {"labels": {"c": "1"}}),
    "finalizers": ({"finalizers": ["a"]}, {"finalizers": ["b"]}, {"finalizers": ["a", "c"]}, {"finalizers": ["c", "b"]}),
    "a deletion goes on": ({}, {"labels": {"a": "1"}}, TIME, {"labels": {"a": "1"}, **TIME}),
    "managers": (
        {"managedFields": [entry("a"), entry("b")]},
        {"managedFields": [entry("a", "later"), entry("b")]},
        {"managedFields": [entry("a"), entry("b", "much later")]},
        {"managedFields": [entry("a", "later"), entry("b", "much later")]},
    ),
}


@pytest.mark.parametrize("case", REBASED)
def test_rebased(case: str) -> None:
    *given, wanted = REBASED[case]
    assert kept.rebased(*given) == wanted
