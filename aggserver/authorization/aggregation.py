"""Aggregation and reconciliation: what ClusterRoles get from others, and what bootstrap objects get back.

A ClusterRole with an aggregationRule has the rules of all that its selectors match. Bootstrap roles and bindings that were
changed get back what is missing in them; what was added stays.
Pure. Source: k8s.io/kubernetes pkg/controller/clusterroleaggregation, v1.36.3; k8s.io/component-helpers
auth/rbac/reconciliation, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aggserver.authorization.escalation import uncovered
from aggserver.authorization.rbac import Rule
from aggserver.meta.json_types import JSONMapping, JSONObject, json_copy
from aggserver.meta.selectors import LabelSelector, SelectorError

__all__ = ["aggregate", "reconciled"]

# Chains of roles that aggregate roles that aggregate ... are followed so far at once; a longer one ends with a later change.
_MAX_ROUNDS = 10


def aggregate(roles: Iterable[JSONMapping]) -> dict[str, list[JSONObject]]:
    """The rules of each ClusterRole that aggregates and does not have them yet. roles: all ClusterRoles.

    A role with a selector that can't be read is left as it is.
    """
    by_name = {role["metadata"]["name"]: role for role in roles}
    aggregating = {name: role for name, role in by_name.items() if role.get("aggregationRule")}
    rules = {name: _rules(role) for name, role in by_name.items()}
    selected = {name: _selected(name, role, by_name) for name, role in aggregating.items()}
    for _ in range(_MAX_ROUNDS):
        before = {name: rules[name] for name in aggregating}
        for name, others in selected.items():
            if others is not None:
                rules[name] = _union(rules, others)
        if all(rules[name] == before[name] for name in aggregating):
            break
    return {name: rules[name] for name, role in aggregating.items() if not _are_same(rules[name], _rules(role))}


def _selected(name: str, role: JSONMapping, by_name: Mapping[str, JSONMapping]) -> list[str] | None:
    """The names of the roles whose rules it gets, in their order; some may come twice."""
    try:
        selectors = [LabelSelector.from_object(each) for each in role["aggregationRule"].get("clusterRoleSelectors") or ()]
    except SelectorError:
        return None
    return [
        other
        for selector in selectors
        for other in sorted(by_name)
        if other != name and selector.matches(by_name[other]["metadata"].get("labels") or {})
    ]


def _are_same(some: list[JSONObject], others: list[JSONObject]) -> bool:
    """Whether they say the same: a member that is empty may as well be missing."""
    return list(map(Rule.of, some)) == list(map(Rule.of, others))


def _union(rules: Mapping[str, list[JSONObject]], names: Iterable[str]) -> list[JSONObject]:
    found: dict[Rule, JSONObject] = {}
    for name in names:
        for rule in rules[name]:
            found.setdefault(Rule.of(rule), rule)
    return list(found.values())


def reconciled(existing: JSONMapping, expected: JSONMapping) -> JSONObject | None:
    """What a bootstrap object becomes; None if it lacks nothing. A binding of another role becomes the expected one."""
    if "roleRef" in expected and existing.get("roleRef") != expected["roleRef"]:
        return dict(json_copy(expected))
    changed: JSONObject = json_copy(existing)
    metadata = changed["metadata"]
    for name in ("labels", "annotations"):
        wanted = expected["metadata"].get(name) or {}
        if wanted:
            metadata[name] = {**wanted, **(metadata.get(name) or {})}
    if "roleRef" in expected:
        subjects = changed.get("subjects") or []
        _extend(changed, "subjects", [each for each in expected.get("subjects") or () if each not in subjects])
    else:
        _reconcile_role(changed, expected)
    return None if changed == existing else changed


def _reconcile_role(role: JSONObject, expected: JSONMapping) -> None:
    wanted = expected.get("aggregationRule")
    if wanted is None:
        role.pop("aggregationRule", None)
        missing = uncovered(list(map(Rule.of, _rules(role))), map(Rule.of, _rules(expected)))
        _extend(role, "rules", [rule.as_json() for rule in missing])
        return
    rule = dict(role.get("aggregationRule") or {})
    selectors = rule.get("clusterRoleSelectors") or []
    _extend(rule, "clusterRoleSelectors", [each for each in wanted["clusterRoleSelectors"] if each not in selectors])
    role["aggregationRule"] = rule


def _extend(obj: JSONObject, member: str, more: list[JSONObject]) -> None:
    if more:
        obj[member] = [*(obj.get(member) or ()), *more]


def _rules(role: JSONMapping) -> list[JSONObject]:
    return list(role.get("rules") or ())
