"""Aggregated ClusterRoles, and what bootstrap objects get back."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.authorization.aggregation import Aggregation, reconciled
from tests.fakes.work import instructions

GET = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
LIST = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}
WATCH = {"verbs": ["watch"], "apiGroups": [""], "resources": ["pods"]}


def role(name: str, *rules: dict[str, Any], labels: str = "", of: list[str] | None = None) -> dict[str, Any]:
    """labels: `a b`, each with the value true. of: the labels that it aggregates."""
    made: dict[str, Any] = {"kind": "ClusterRole", "metadata": {"name": name, "labels": dict.fromkeys(labels.split(), "true")}}
    made["rules"] = list(rules)
    if of is not None:
        made["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}} for label in of]}
    return made


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]] = {
    # name: (roles, the rules that change)
    "nothing": ([role("a", GET)], {}),
    "by name": ([role("z", of=["x"]), role("b", GET, labels="x"), role("a", LIST, labels="x")], {"z": [LIST, GET]}),
    "by selector first": (
        [role("z", of=["x", "y"]), role("a", GET, labels="y"), role("b", LIST, labels="x")],
        {"z": [LIST, GET]},
    ),
    "each rule once": (
        [role("z", of=["x", "y"]), role("a", GET, LIST, labels="x y"), role("b", GET, labels="x")],
        {"z": [GET, LIST]},
    ),
    "up to date": ([role("z", GET, of=["x"]), role("a", GET, labels="x")], {}),
    "nothing is said in two ways": ([role("z", {**GET, "resourceNames": []}, of=["x"]), role("a", GET, labels="x")], {}),
    "own rules go": ([role("z", GET, of=["x"])], {"z": []}),
    "not itself": ([role("z", GET, labels="x", of=["x"]), role("a", LIST, labels="x")], {"z": [LIST]}),
    "chains": (
        [
            role("view", of=["v"], labels="e"),
            role("edit", of=["e"], labels="a"),
            role("admin", of=["a"]),
            role("x", GET, labels="v"),
        ],
        {"view": [GET], "edit": [GET], "admin": [GET]},
    ),
    "circles": (
        [
            role("p", of=["x"], labels="y"),
            role("q", of=["y"], labels="x"),
            role("a", GET, labels="x"),
            role("b", LIST, labels="y"),
        ],
        {"p": [GET, LIST], "q": [LIST, GET]},
    ),
    "an unreadable selector": (
        [{**role("z", WATCH), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a b": "c"}}]}}, role("a", GET)],
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_aggregate(name: str) -> None:
    roles, changed = CASES[name]
    assert Aggregation(roles).changed == changed


def test_what_a_change_concerns() -> None:
    found = Aggregation([role("z", of=["x"]), role("part", GET, labels="x"), role("other", GET)])
    assert found.concerns("part", None)
    assert found.concerns("part", role("part"))
    assert found.concerns("z", role("z"))
    assert found.concerns("new", role("new", labels="y x"))
    assert found.concerns("new", role("new", of=["y"]))
    assert not found.concerns("new", role("new", GET, labels="y"))
    assert not found.concerns("other", role("other", LIST))
    assert not found.concerns("other", None)


AUTOUPDATE = {"rbac.authorization.kubernetes.io/autoupdate": "true"}


def bootstrap(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "labels": {"b": "1"}, "annotations": dict(AUTOUPDATE)}, **more}


REF = {"kind": "ClusterRole", "name": "x"}
ANN, BOB = {"kind": "User", "name": "ann"}, {"kind": "User", "name": "bob"}
SELECTOR = {"matchLabels": {"x": "true"}}

BACK: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]] = {
    # name: (what there is, what there should be, what it becomes)
    "complete": (bootstrap(rules=[GET, LIST]), bootstrap(rules=[GET]), None),
    "complete in other words": (bootstrap(rules=[{**GET, "verbs": ["*"]}]), bootstrap(rules=[GET, LIST]), None),
    "a missing rule": (bootstrap(rules=[WATCH]), bootstrap(rules=[GET, LIST]), bootstrap(rules=[WATCH, GET, LIST])),
    "no rules": (bootstrap(), bootstrap(rules=[GET]), bootstrap(rules=[GET])),
    "a missing label": (
        {"metadata": {"name": "x", "labels": {"own": "1"}, "annotations": dict(AUTOUPDATE)}},
        bootstrap(),
        {"metadata": {"name": "x", "labels": {"b": "1", "own": "1"}, "annotations": dict(AUTOUPDATE)}},
    ),
    "a changed label stays": ({"metadata": {"labels": {"b": "2"}, "annotations": dict(AUTOUPDATE)}}, bootstrap(), None),
    "an aggregation that nobody expects": (
        bootstrap(rules=[GET], aggregationRule={"clusterRoleSelectors": [SELECTOR]}),
        bootstrap(rules=[GET]),
        bootstrap(rules=[GET]),
    ),
    "a missing selector": (
        bootstrap(rules=[WATCH], aggregationRule={"clusterRoleSelectors": [{}]}),
        bootstrap(rules=[GET], aggregationRule={"clusterRoleSelectors": [SELECTOR]}),
        bootstrap(rules=[WATCH], aggregationRule={"clusterRoleSelectors": [{}, SELECTOR]}),
    ),
    "a missing aggregation": (
        bootstrap(rules=[WATCH]),
        bootstrap(rules=[GET], aggregationRule={"clusterRoleSelectors": [SELECTOR]}),
        bootstrap(rules=[WATCH], aggregationRule={"clusterRoleSelectors": [SELECTOR]}),
    ),
    "subjects": (
        bootstrap(roleRef=REF, subjects=[ANN]),
        bootstrap(roleRef=REF, subjects=[BOB, ANN]),
        bootstrap(roleRef=REF, subjects=[ANN, BOB]),
    ),
    "more subjects": (bootstrap(roleRef=REF, subjects=[BOB, ANN]), bootstrap(roleRef=REF, subjects=[ANN]), None),
    "no subjects": (bootstrap(roleRef=REF), bootstrap(roleRef=REF, subjects=[ANN]), bootstrap(roleRef=REF, subjects=[ANN])),
    "another role": (
        bootstrap(roleRef={**REF, "name": "y"}, subjects=[BOB]),
        bootstrap(roleRef=REF, subjects=[ANN]),
        bootstrap(roleRef=REF, subjects=[ANN]),
    ),
}


@pytest.mark.parametrize("name", BACK)
def test_reconciled(name: str) -> None:
    existing, expected, becomes = BACK[name]
    assert reconciled(existing, expected) == becomes


def test_many_selectors_of_many_roles() -> None:
    """Each selector is matched with the roles that have its label, not with all."""

    def work(size: int) -> int:
        parts = [role(f"part-{number}", GET, labels=f"x{number}") for number in range(size)]
        whole = role("whole", of=[f"x{number}" for number in range(size)] * 2)
        return instructions(lambda: Aggregation([whole, *parts]))

    assert work(400) < 2.2 * work(200)
