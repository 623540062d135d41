from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from aggserver.controllers.namespaces.conditions import Remaining, with_conditions

NOW, EARLIER = "2026-01-02T03:04:05Z", "2026-01-02T03:00:00Z"
DISCOVERY, PARSING = "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure"
FAILURE, CONTENT, FINALIZERS = "NamespaceDeletionContentFailure", "NamespaceContentRemaining", "NamespaceFinalizersRemaining"
PODS, DEPLOYMENTS = ("", "pods"), ("apps", "deployments")

CASES: dict[str, tuple[Remaining, dict[str, tuple[str, str]]]] = {
    # name: (what remains, reason and message of the conditions that are True)
    "nothing": (Remaining(), {}),
    "objects without finalizers": (
        Remaining(Counter({PODS: 2, DEPLOYMENTS: 1})),
        {
            CONTENT: (
                "SomeResourcesRemain",
                "Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances",
            )
        },
    ),
    "objects with finalizers": (
        Remaining(Counter({DEPLOYMENTS: 1}), Counter({"b/c": 1, "a": 3})),
        {
            CONTENT: ("SomeResourcesRemain", "Some resources are remaining: deployments.apps has 1 resource instances"),
            FINALIZERS: (
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: a in 3 resource instances, b/c in 1 resource instances",
            ),
        },
    ),
    "pods, which go first": (Remaining(Counter({PODS: 1}), Counter({"a/b": 1}), shows_numbers=False), {}),
    "failures": (
        Remaining(failures=["that", "not this"]),
        {FAILURE: ("ContentDeletionFailed", "Failed to delete all resource types, 2 remaining: not this, that")},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_problems(name: str) -> None:
    remaining, wanted = CASES[name]
    status = with_conditions({"phase": "Terminating"}, remaining, NOW)
    assert status["phase"] == "Terminating"
    entries = {entry["type"]: entry for entry in status["conditions"]}
    assert list(entries) == [DISCOVERY, PARSING, FAILURE, CONTENT, FINALIZERS]
    found = {key: (entry["reason"], entry["message"]) for key, entry in entries.items() if entry["status"] == "True"}
    assert found == wanted
    assert {entry["lastTransitionTime"] for entry in entries.values()} == {NOW}


def test_times_change_with_the_status() -> None:
    before = with_conditions({}, Remaining(Counter({PODS: 2})), EARLIER)
    fewer = with_conditions(before, Remaining(Counter({PODS: 1})), NOW)
    none = with_conditions(fewer, Remaining(), NOW)

    def of(status: dict[str, Any], name: str) -> tuple[str, str]:
        return next((entry["status"], entry["lastTransitionTime"]) for entry in status["conditions"] if entry["type"] == name)

    assert (of(fewer, CONTENT), of(none, CONTENT), of(none, FAILURE)) == (("True", EARLIER), ("False", NOW), ("False", EARLIER))
    assert with_conditions(none, Remaining(), "later") == none


def test_conditions_of_others_stay() -> None:
    mine = {"type": "example.com/Mine", "status": "Unknown"}
    assert with_conditions({"conditions": [mine]}, Remaining(), NOW)["conditions"][0] == mine
