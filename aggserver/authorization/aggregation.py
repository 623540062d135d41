"""Aggregation and reconciliation: ClusterRoles that get their rules from others, and bootstrap objects that are repaired.

A ClusterRole with an aggregationRule gets the rules of all ClusterRoles that its selectors match. In bootstrap roles and bindings
that were changed, missing parts are restored; additions are kept.
Pure. Source: k8s.io/kubernetes pkg/controller/clusterroleaggregation, v1.36.3; k8s.io/component-helpers
auth/rbac/reconciliation, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aggserver.authorization.escalation import uncovered
from aggserver.authorization.rbac import PolicyRule
from aggserver.meta.json_types import JSONMapping, JSONObject, json_copy
from aggserver.meta.selectors import LabelSelector, SelectorError

__all__ = ["Aggregation", "reconciled"]

# How long chains of roles that aggregate each other may be. Longer ones are completed by later updates.
_MAX_ROUNDS = 10


class Aggregation:
    """The rules that ClusterRoles get from each other. roles: all ClusterRoles.

    changed: the new rules of each aggregating role that does not have them yet, by name. A role with an invalid selector is left
    as it is. Takes about a microsecond for each rule that a role gets, and for each role that a selector may match.
    """

    def __init__(self, roles: Iterable[JSONMapping]) -> None:
        by_name = {role["metadata"]["name"]: role for role in roles}
        self._selectors = {name: found for name, role in by_name.items() if (found := _selectors(role)) is not None}
        rules = {name: _rules(role) for name, role in by_name.items()}
        known = _Labels(by_name)
        selected = {name: known.selected(name, selectors) for name, selectors in self._selectors.items()}
        parsed = {id(rule): PolicyRule.of(rule) for each in rules.values() for rule in each}
        self._parts = frozenset(part for parts in selected.values() for part in parts)
        for _ in range(_MAX_ROUNDS):
            before = {name: rules[name] for name in selected}
            for name, parts in selected.items():
                rules[name] = _union(rules, parts, parsed)
            if all(rules[name] == before[name] for name in selected):
                break
        self.changed = {name: rules[name] for name in selected if not _are_same(rules[name], _rules(by_name[name]))}

    def concerns(self, name: str, role: JSONMapping | None) -> bool:
        """Whether a changed role (None if it was deleted) may change the rules of an aggregating one."""
        if name in self._parts or name in self._selectors:
            return True
        if role is None:
            return False
        labels = role["metadata"].get("labels") or {}
        return bool(role.get("aggregationRule")) or any(
            selector.matches(labels) for selectors in self._selectors.values() for selector in selectors
        )


class _Labels:
    """An index of the roles by their labels, so that a selector need not be matched with all of them."""

    def __init__(self, roles: Mapping[str, JSONMapping]) -> None:
        self._labels = {name: roles[name]["metadata"].get("labels") or {} for name in sorted(roles)}
        self._having: dict[tuple[str, str], list[str]] = {}
        for name, labels in self._labels.items():
            for label in labels.items():
                self._having.setdefault(label, []).append(name)

    def selected(self, name: str, selectors: Iterable[LabelSelector]) -> list[str]:
        """The names of the roles whose rules the named role gets, sorted for each selector."""
        found: dict[str, None] = {}
        for selector in dict.fromkeys(selectors):
            for other in self._candidates(selector):
                if other not in found and other != name and selector.matches(self._labels[other]):
                    found[other] = None
            if len(found) == len(self._labels) - 1:
                break
        return list(found)

    def _candidates(self, selector: LabelSelector) -> Iterable[str]:
        """The names of the roles that the selector may match, sorted."""
        wanted = next((each for each in selector.requirements() if each.operator == "In"), None)
        if wanted is None:
            return self._labels
        return sorted({name for value in wanted.values for name in self._having.get((wanted.key, value), ())})


def _selectors(role: JSONMapping) -> list[LabelSelector] | None:
    """The selectors of a role; None if it does not aggregate, or one of them is invalid."""
    rule = role.get("aggregationRule")
    if not rule:
        return None
    try:
        return [LabelSelector.from_object(each) for each in rule.get("clusterRoleSelectors") or ()]
    except SelectorError:
        return None


def _are_same(some: list[JSONObject], others: list[JSONObject]) -> bool:
    """Whether the rules mean the same: an empty member counts as missing."""
    return list(map(PolicyRule.of, some)) == list(map(PolicyRule.of, others))


def _union(rules: Mapping[str, list[JSONObject]], names: Iterable[str], parsed: Mapping[int, PolicyRule]) -> list[JSONObject]:
    """The rules of the named roles, each once. parsed: each rule parsed, by its `id`."""
    found: dict[PolicyRule, JSONObject] = {}
    for name in names:
        for rule in rules[name]:
            found.setdefault(parsed[id(rule)], rule)
    return list(found.values())


def reconciled(existing: JSONMapping, expected: JSONMapping) -> JSONObject | None:
    """The repaired bootstrap object; None if nothing is missing. A binding to another role is replaced by the expected one."""
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
        missing = uncovered(list(map(PolicyRule.of, _rules(role))), map(PolicyRule.of, _rules(expected)))
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
