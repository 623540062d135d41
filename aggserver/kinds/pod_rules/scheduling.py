"""Where a Pod may run: affinity, spread and tolerations.

Pure. Source: validateAffinity, validateTopologySpreadConstraints in k8s.io/kubernetes
pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aggserver.kinds.pod_rules.texts import named
from aggserver.meta.field import FieldError, Path, duplicate, forbidden, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_label, dns1123_subdomain, label_value, qualified_name
from aggserver.scheme.selectors import label_selector

__all__ = ["affinity_problems", "spread_problems"]

_REQUIRED, _PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
_ACTIONS, _POLICIES = ("DoNotSchedule", "ScheduleAnyway"), ("Honor", "Ignore")
_OPERATOR = "not a valid selector operator"


def affinity_problems(affinity: JSONMapping | None, path: Path) -> Iterator[FieldError]:
    if affinity is None:
        return
    if (rules := affinity.get("nodeAffinity")) is not None:
        yield from _node_affinity(rules, path.child("nodeAffinity"))
    for name in ("podAffinity", "podAntiAffinity"):
        rules, where = affinity.get(name) or {}, path.child(name)
        for index, term in enumerate(rules.get(_REQUIRED) or ()):
            yield from _pod_term(term, where.child(_REQUIRED).index(index))
        for index, weighted in enumerate(rules.get(_PREFERRED) or ()):
            yield from _weight(weighted, where.child(_PREFERRED).index(index))
            at = where.child(_PREFERRED).index(index).child("podAffinityTerm")
            yield from _pod_term(weighted.get("podAffinityTerm") or {}, at)


def _weight(weighted: JSONMapping, path: Path) -> Iterator[FieldError]:
    if not 1 <= (weight := weighted.get("weight") or 0) <= 100:
        yield invalid(path.child("weight"), weight, "must be in the range 1-100")


def _node_affinity(rules: JSONMapping, path: Path) -> Iterator[FieldError]:
    if (selector := rules.get(_REQUIRED)) is not None:
        where, terms = path.child(_REQUIRED).child("nodeSelectorTerms"), selector.get("nodeSelectorTerms") or ()
        if not terms:
            yield required(where, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _node_term(term, where.index(index), any_values=False)
    for index, weighted in enumerate(rules.get(_PREFERRED) or ()):
        where = path.child(_PREFERRED).index(index)
        yield from _weight(weighted, where)
        yield from _node_term(weighted.get("preference") or {}, where.child("preference"), any_values=True)


def _node_term(term: JSONMapping, path: Path, *, any_values: bool) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        yield from _node_requirement(requirement, path.child("matchExpressions").index(index), any_values=any_values)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        yield from _node_field(requirement, path.child("matchFields").index(index))


def _node_requirement(requirement: JSONMapping, path: Path, *, any_values: bool) -> Iterator[FieldError]:
    operator, values, where = requirement.get("operator") or "", requirement.get("values") or [], path.child("values")
    if operator in ("In", "NotIn"):
        if not values:
            yield required(where, "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(where, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required(where, "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(path.child("operator"), operator, _OPERATOR)
    key = requirement.get("key") or ""
    yield from (invalid(path.child("key"), key, text) for text in qualified_name(key))
    if not any_values:
        for index, value in enumerate(values):
            yield from (invalid(where.index(index), value, text) for text in label_value(value))


def _node_field(requirement: JSONMapping, path: Path) -> Iterator[FieldError]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator not in ("In", "NotIn"):
        yield invalid(path.child("operator"), operator, _OPERATOR)
    elif len(values) != 1:
        yield required(path.child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
    if (key := requirement.get("key") or "") != "metadata.name":
        yield invalid(path.child("key"), key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from named(path.child("values").index(index), value, dns1123_subdomain)


def _pod_term(term: JSONMapping, path: Path) -> Iterator[FieldError]:
    for name in ("labelSelector", "namespaceSelector"):
        if (selector := term.get(name)) is not None:
            yield from label_selector(selector, path.child(name))
    for name in term.get("namespaces") or ():
        yield from named(path.child("namespace"), name, dns1123_label)
    yield from _label_keys(term, path)
    key = term.get("topologyKey") or ""
    if not key:
        yield required(path.child("topologyKey"), "can not be empty")
    yield from (invalid(path.child("topologyKey"), key, text) for text in qualified_name(key))


def _label_keys(term: JSONMapping, path: Path) -> Iterator[FieldError]:
    """The errors of matchLabelKeys and mismatchLabelKeys. The server itself has added those of the Pod to the selector."""
    selector = term.get("labelSelector")
    own, others = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    for name, keys in (("matchLabelKeys", own), ("mismatchLabelKeys", others)):
        if keys and selector is None:
            yield forbidden(path.child(name), "must not be specified when labelSelector is not set")
        elif keys:
            for index, key in enumerate(keys):
                yield from (invalid(path.child(name).index(index), key, text) for text in qualified_name(key))
    if selector is not None:
        places = {key: index for index, key in enumerate(own)}
        known = set(selector.get("matchLabels") or ())
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key") or ""
            if key in places and key in known:
                yield invalid(path.index(places[key]), key, "exists in both matchLabelKeys and labelSelector")
            known.add(key)
    mismatched = set(others)
    for index, key in enumerate(own):
        if key in mismatched:
            where = path.child("matchLabelKeys").index(index)
            yield invalid(where, key, "exists in both matchLabelKeys and mismatchLabelKeys")


def spread_problems(constraints: Sequence[JSONMapping], path: Path) -> Iterator[FieldError]:
    last = {_pair(constraint): index for index, constraint in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        where, action = path.index(index), constraint.get("whenUnsatisfiable") or ""
        if (skew := constraint.get("maxSkew") or 0) <= 0:
            yield invalid(where.child("maxSkew"), skew, "must be greater than zero")
        if not constraint.get("topologyKey"):
            yield required(where.child("topologyKey"), "can not be empty")
        if action not in _ACTIONS:
            yield not_supported(where.child("whenUnsatisfiable"), action, _ACTIONS)
        if last[pair := _pair(constraint)] != index:
            yield duplicate(where.child("{topologyKey, whenUnsatisfiable}"), f"{{{pair[0]}, {pair[1]}}}")
        if (domains := constraint.get("minDomains")) is not None:
            if domains <= 0:
                yield invalid(where.child("minDomains"), domains, "must be greater than zero")
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield invalid(where.child("minDomains"), domains, text)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if (policy := constraint.get(name)) is not None and policy not in _POLICIES:
                yield not_supported(where.child(name), policy, _POLICIES)
        yield from _label_keys(constraint, where)
        if (selector := constraint.get("labelSelector")) is not None:
            yield from label_selector(selector, where.child("labelSelector"))


def _pair(constraint: JSONMapping) -> tuple[str, str]:
    return constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
