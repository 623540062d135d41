"""Escalation: which permissions are missing, and how the message lists them."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.authorization.escalation import EVERYTHING, problem, uncovered
from aggserver.authorization.rbac import FoundRules, Granted, MissingRole, PolicyRule

JANE = UserInfo("jane", groups=("developers", "system:authenticated"))


def on(verbs: str, resources: str, groups: str = '""', names: str = "") -> PolicyRule:
    return PolicyRule(_split(verbs), _split(groups), _split(resources), _split(names))


def at(verbs: str, paths: str) -> PolicyRule:
    return PolicyRule(_split(verbs), paths=_split(paths))


def _split(text: str) -> tuple[str, ...]:
    return tuple("" if part == '""' else part for part in text.split())


PODS = on("get list", "pods")

CASES: dict[str, tuple[list[PolicyRule], list[PolicyRule], list[str]]] = {
    # name: (what the user has, what is granted, what is missing)
    "nothing": ([], [], []),
    "the same": ([PODS], [PODS], []),
    "everything": (list(EVERYTHING), [PODS, at("get", "/x"), *EVERYTHING], []),
    "all of nothing": (
        [],
        list(EVERYTHING),
        ['{APIGroups:["*"], Resources:["*"], Verbs:["*"]}', '{NonResourceURLs:["*"], Verbs:["*"]}'],
    ),
    "verbs become one rule": ([], [PODS], ['{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}']),
    "verbs of several rules, too": (
        [],
        [PODS, on("watch get", "pods")],
        ['{APIGroups:[""], Resources:["pods"], Verbs:["get" "list" "watch" "get"]}'],
    ),
    "one verb": ([on("get", "pods")], [PODS], ['{APIGroups:[""], Resources:["pods"], Verbs:["list"]}']),
    "verbs from two rules": ([on("get", "pods"), on("list", "*")], [PODS], []),
    "groups and resources": (
        [PODS],
        [on("get", "pods secrets", '"" apps')],
        [
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}',
            '{APIGroups:["apps"], Resources:["pods"], Verbs:["get"]}',
            '{APIGroups:["apps"], Resources:["secrets"], Verbs:["get"]}',
        ],
    ),
    "a star is only in a star": ([PODS], [on("*", "pods")], ['{APIGroups:[""], Resources:["pods"], Verbs:["*"]}']),
    "a subresource": ([PODS], [on("get", "pods/log")], ['{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}']),
    "a subresource of all": ([on("get", "*/scale")], [on("get", "x/scale")], []),
    "another subresource": (
        [on("get", "*/scale")],
        [on("get", "x/log")],
        ['{APIGroups:[""], Resources:["x/log"], Verbs:["get"]}'],
    ),
    "names": (
        [on("get", "pods", names="a b")],
        [on("get", "pods", names="b c")],
        ['{APIGroups:[""], Resources:["pods"], ResourceNames:["c"], Verbs:["get"]}'],
    ),
    "names within all": ([PODS], [on("get list", "pods", names="a")], []),
    "all are not within names": (
        [on("get", "pods", names="a")],
        [on("get", "pods")],
        ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
    ),
    "each name gets its verbs": (
        [],
        [on("get list", "pods", names="a b")],
        [
            '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}',
            '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get" "list"]}',
        ],
    ),
    "paths": (
        [at("get", "/a /b/*")],
        [at("get post", "/a /b/c /b/* /c")],
        [
            '{NonResourceURLs:["/a"], Verbs:["post"]}',
            '{NonResourceURLs:["/b/*"], Verbs:["post"]}',
            '{NonResourceURLs:["/b/c"], Verbs:["post"]}',
            '{NonResourceURLs:["/c"], Verbs:["get"]}',
            '{NonResourceURLs:["/c"], Verbs:["post"]}',
        ],
    ),
    "a prefix is not in a path": ([at("get", "/a")], [at("get", "/a*")], ['{NonResourceURLs:["/a*"], Verbs:["get"]}']),
    "no verbs grant nothing": ([], [on("", "pods")], []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_missing(name: str) -> None:
    owned, wanted, missing = CASES[name]
    said = problem(JANE, _found(owned), wanted, "roles")
    if not missing:
        assert said is None
        return
    who = 'user "jane" (groups=["developers" "system:authenticated"])'
    lines = "\n".join(missing)
    assert said == f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}"


def _found(owned: list[PolicyRule], *missing: MissingRole) -> FoundRules:
    return FoundRules([Granted(rule, "why") for rule in owned], missing)


def test_missing_roles_are_told() -> None:
    said = problem(JANE, _found([], MissingRole("Role", "lost")), [at("get", "/")], "roles")
    assert said is not None
    assert said.endswith('Verbs:["get"]}; resolution errors: [roles.rbac.authorization.k8s.io "lost" not found]')


def test_what_is_missing_is_one_permission_each() -> None:
    assert uncovered([], [on("get list", "pods", names="a b")]) == [
        on(verb, "pods", names=name) for verb in ("get", "list") for name in ("a", "b")
    ]


def test_rules_with_too_many_permissions_are_compared_as_a_whole() -> None:
    many = " ".join(f"r{number}" for number in range(200))
    first, second = on("get", many, many), on("list", many, many)
    parts = [on("get list", many, "r1"), on("get list", many, " ".join(many.split()[:1] + many.split()[2:]))]
    assert uncovered(parts, [first]) == []
    assert uncovered(parts, [first, second]) == [second]
    assert uncovered([*parts, on("list", "*", "*")], [first, second]) == []


def test_everything_says_what_it_is() -> None:
    rules: list[dict[str, Any]] = [rule.as_json() for rule in EVERYTHING]
    assert rules == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
