"""Validation of what a webhook, a policy or a binding matches: rules and match conditions.

The functions expect objects that fit their types and have upstream's defaults (`defaults.py`).
Pure. Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aggserver.admissionregistration.expressions import Expressions
from aggserver.meta.field import FieldError, Path, duplicate, invalid, not_supported, required, too_many
from aggserver.meta.golang import trim_space
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import path_segment_name, qualified_name
from aggserver.scheme.selectors import label_selector

__all__ = ["MATCH_POLICIES", "Errors", "match_conditions", "match_resources", "one_of", "rule_with_operations"]

Errors = Iterator[FieldError]

# All lists of supported values are sorted, since upstream's sets print them so.
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MUTABLE_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
MATCH_POLICIES = ("Equivalent", "Exact")
_MAX_CONDITIONS = 64


def one_of(value: str | None, supported: Sequence[str], path: Path) -> Errors:
    """An error if the value is set and not supported. Callers check whether it is required."""
    if value is not None and value not in supported:
        yield not_supported(path, value, supported)


def match_resources(given: JSONMapping, path: Path, *, mutating: bool, needs_rule: bool = False) -> Errors:
    """The errors of `matchConstraints` of a policy or `matchResources` of a binding.

    mutating: whether the policy mutates; then DELETE is not allowed. needs_rule: whether a resource rule is required.
    """
    if given.get("matchPolicy") is None:
        yield required(path.child("matchPolicy"))
    yield from one_of(given.get("matchPolicy"), MATCH_POLICIES, path.child("matchPolicy"))
    for name in ("namespaceSelector", "objectSelector"):
        if given.get(name) is None:
            yield required(path.child(name))
        else:
            yield from label_selector(given[name], path.child(name))
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(given.get(name) or ()):
            yield from _named_rule(rule, path.child(name).index(index))
    rules = given.get("resourceRules") or []
    if needs_rule and not rules:
        yield required(path.child("resourceRules"))
    if mutating:
        for operation in (operation for rule in rules for operation in rule.get("operations") or ()):
            yield from one_of(operation, _MUTABLE_OPERATIONS, path.child("resourceRules", "operations"))


def _named_rule(rule: JSONMapping, path: Path) -> Errors:
    names = rule.get("resourceNames") or []
    for index, name in enumerate(names):
        at = path.child("resourceNames").index(index)
        yield from (invalid(at, name, text) for text in path_segment_name(name))
        if name in names[:index]:
            yield duplicate(at, name)
    yield from rule_with_operations(rule, path)


def rule_with_operations(rule: JSONMapping, path: Path) -> Errors:
    operations, at = rule.get("operations") or [], path.child("operations")
    if not operations:
        yield required(at)
    if len(operations) > 1 and "*" in operations:
        yield invalid(at, operations, "if '*' is present, must not specify other operations")
    for index, operation in enumerate(operations):
        yield from one_of(operation, _OPERATIONS, at.index(index))
    for name, words in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(name) or []
        if not values:
            yield required(path.child(name))
        if len(values) > 1 and "*" in values:
            yield invalid(path.child(name), values, f"if '*' is present, must not specify other {words}")
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:  # a group may be empty: the core group
            yield required(path.child("apiVersions").index(index))
    yield from _resources(rule.get("resources") or [], path.child("resources"))
    yield from one_of(rule.get("scope"), _SCOPES, path.child("scope"))


def _resources(resources: Sequence[str], path: Path) -> Errors:
    if not resources:
        yield required(path)
    all_subresources_of: set[str] = set()
    everywhere: set[str] = set()  # subresources that are named for all resources
    whole = False
    for index, name in enumerate(resources):
        at = path.index(index)
        if not name:
            yield required(at)
            continue
        resource, slash, subresource = name.partition("/")
        if not slash:
            whole = name != "*"  # the last entry decides, as upstream
            continue
        if resource in all_subresources_of:
            yield invalid(at, name, f"if '{resource}/*' is present, must not specify {name}")
        if subresource in everywhere:
            yield invalid(at, name, f"if '*/{subresource}' is present, must not specify {name}")
        if subresource == "*":
            all_subresources_of.add(resource)
        if resource == "*":
            everywhere.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and whole:
        yield invalid(path, resources, "if '*' is present, must not specify other resources without subresources")


def match_conditions(conditions: Sequence[JSONMapping], path: Path, expressions: Expressions) -> Errors:
    if len(conditions) > _MAX_CONDITIONS:
        yield too_many(path, len(conditions), _MAX_CONDITIONS)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at, name = path.index(index), condition.get("name") or ""
        if expression := trim_space(condition.get("expression") or ""):
            yield from expressions.condition(expression, at.child("expression"))
        else:
            yield required(at.child("expression"))
        if not name:
            yield required(at.child("name"))
            continue
        yield from (invalid(at.child("name"), name, text) for text in qualified_name(name))
        if name in seen:
            yield duplicate(at.child("name"), name)
        seen.add(name)
