"""FlowSchemas and PriorityLevelConfigurations: those that every cluster has, and what is checked of others.

Pure. Source: k8s.io/kubernetes pkg/apis/flowcontrol/validation/validation.go, k8s.io/apiserver
pkg/apis/flowcontrol/bootstrap/default.go, pkg/util/shufflesharding, v1.36.3.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from aggserver.meta.field import FieldError, Path, duplicate, forbidden, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.names import dns1123_label, dns1123_subdomain

__all__ = [
    "conditions_problems",
    "dangling_condition",
    "flow_schema_problems",
    "flow_schemas",
    "priority_level_problems",
    "priority_levels",
]

_SPEC = Path("spec")
_EXEMPT, _CATCH_ALL = "exempt", "catch-all"
_LAST = 10_000  # the highest number of a matchingPrecedence
_MAX_QUEUES = 10_000_000
_MAX_ENTROPY_BITS = 60
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_METHODS = ("ByNamespace", "ByUser")


# --- the objects of every cluster ---

_ALL = ("*",)
_EVERYTHING = {"resourceRules": [(_ALL, _ALL, _ALL, True)], "nonResourceRules": [(_ALL, _ALL)]}
_NOBODY_LEFT_OUT = ("system:unauthenticated", "system:authenticated")
_KUBE_SYSTEM = {"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}}


def _users(*names: str) -> list[JSONObject]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _groups(*names: str) -> list[JSONObject]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"
_LEASES = ("coordination.k8s.io",), ("leases",)
_LEASES_OF_LEADERS = {"resourceRules": [(("get", "create", "update"), *_LEASES, False)]}
_OF_NODES = {"resourceRules": [(_ALL, ("",), ("nodes", "nodes/status"), True), (_ALL, *_LEASES, False)]}
_PROBES = {"nonResourceRules": [(("get",), ("/healthz", "/readyz", "/livez"))]}

# Name, priority level, precedence, what tells flows apart, subjects, what they ask for.
_SCHEMAS: tuple[tuple[str, str, int, str, list[JSONObject], dict[str, Any]], ...] = (
    (_EXEMPT, _EXEMPT, 1, "", _groups("system:masters"), _EVERYTHING),
    ("probes", _EXEMPT, 2, "", _groups(*_NOBODY_LEFT_OUT), _PROBES),
    (
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        [*_users(_MANAGER, _SCHEDULER), _KUBE_SYSTEM],
        _LEASES_OF_LEADERS,
    ),
    ("system-node-high", "node-high", 400, "ByUser", _groups("system:nodes"), _OF_NODES),
    ("system-nodes", "system", 500, "ByUser", _groups("system:nodes"), _EVERYTHING),
    ("kube-controller-manager", "workload-high", 800, "ByNamespace", _users(_MANAGER), _EVERYTHING),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", _users(_SCHEDULER), _EVERYTHING),
    ("kube-system-service-accounts", "workload-high", 900, "ByNamespace", [_KUBE_SYSTEM], _EVERYTHING),
    ("service-accounts", "workload-low", 9000, "ByUser", _groups("system:serviceaccounts"), _EVERYTHING),
    ("global-default", "global-default", 9900, "ByUser", _groups(*_NOBODY_LEFT_OUT), _EVERYTHING),
    (_CATCH_ALL, _CATCH_ALL, _LAST, "ByUser", _groups(*_NOBODY_LEFT_OUT), _EVERYTHING),
)
# Name -> shares, per cent that can be lent, queues, size of a hand.
_LEVELS = {
    "system": (30, 33, 64, 6),
    "node-high": (40, 25, 64, 6),
    "leader-election": (10, 0, 16, 4),
    "workload-high": (40, 50, 128, 6),
    "workload-low": (100, 90, 128, 6),
    "global-default": (20, 50, 128, 6),
}
_QUEUE_LENGTH = 50


def flow_schemas() -> list[JSONObject]:
    """The FlowSchemas that every cluster has."""
    return [_made("FlowSchema", each[0], _schema(*each[1:])) for each in _SCHEMAS]


def priority_levels() -> list[JSONObject]:
    """The PriorityLevelConfigurations that every cluster has."""
    specs = {_EXEMPT: _exempt_level(), _CATCH_ALL: _catch_all_level(), **{name: _level(*of) for name, of in _LEVELS.items()}}
    return [_made("PriorityLevelConfiguration", name, spec) for name, spec in specs.items()]


def _made(kind: str, name: str, spec: JSONObject) -> JSONObject:
    metadata = {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}
    return {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _schema(level: str, precedence: int, method: str, subjects: list[JSONObject], rules: dict[str, Any]) -> JSONObject:
    rule: JSONObject = {"subjects": subjects}
    if resources := rules.get("resourceRules"):
        rule["resourceRules"] = [_resource_rule(*each) for each in resources]
    if paths := rules.get("nonResourceRules"):
        rule["nonResourceRules"] = [{"verbs": [*verbs], "nonResourceURLs": [*urls]} for verbs, urls in paths]
    spec: JSONObject = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule]}
    if method:
        spec["distinguisherMethod"] = {"type": method}
    return spec


def _resource_rule(verbs: Sequence[str], groups: Sequence[str], resources: Sequence[str], of_cluster: bool) -> JSONObject:
    rule: JSONObject = {"verbs": [*verbs], "apiGroups": [*groups], "resources": [*resources], "namespaces": ["*"]}
    return {**rule, "clusterScope": True} if of_cluster else rule


def _exempt_level() -> JSONObject:
    return {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}


def _catch_all_level() -> JSONObject:
    limited = {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}
    return {"type": "Limited", "limited": limited}


def _level(shares: int, lendable: int, queues: int, hand: int) -> JSONObject:
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": _QUEUE_LENGTH}
    response = {"type": "Queue", "queuing": queuing}
    return {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response},
    }


def dangling_condition(schema: JSONMapping, exists: bool) -> JSONObject:
    """What a FlowSchema is told about its priority level. exists: whether that does. Without lastTransitionTime."""
    level = schema["spec"]["priorityLevelConfiguration"]["name"]
    what = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    status, reason, rest = ("False", "Found", "and it exists") if exists else ("True", "NotFound", "but there is no such object")
    return {"type": "Dangling", "status": status, "reason": reason, "message": f"{what} {rest}"}


# --- what is checked ---


def flow_schema_problems(obj: JSONObject) -> Iterator[FieldError]:
    """The errors of a FlowSchema, beyond those in the table of checks."""
    name, spec = obj["metadata"].get("name"), obj.get("spec") or {}
    precedence, where = spec.get("matchingPrecedence", 0), _SPEC.child("matchingPrecedence")
    if precedence <= 0:
        yield invalid(where, precedence, "must be a positive value")
    if precedence > _LAST:
        yield invalid(where, precedence, f"must not be greater than {_LAST}")
    if precedence == 1 and name != _EXEMPT:
        yield invalid(where, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        yield not_supported(_SPEC.child("distinguisherMethod", "type"), {"Type": method.get("type", "")}, _METHODS)
    level = (spec.get("priorityLevelConfiguration") or {}).get("name")
    if level:
        where = _SPEC.child("priorityLevelConfiguration", "name")
        yield from (invalid(where, level, text) for text in dns1123_subdomain(level))
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _rule_problems(rule, _SPEC.child("rules").index(index))
    if (fixed := next((each for each in flow_schemas() if each["metadata"]["name"] == name), None)) is not None:
        yield from _fixed(spec, fixed["spec"], name)


def _fixed(spec: JSONMapping, expected: JSONMapping, name: str | None) -> Iterator[FieldError]:
    if name in (_EXEMPT, _CATCH_ALL) and spec != expected:
        yield invalid(_SPEC, spec, f"spec of '{name}' must equal the fixed value")


def _rule_problems(rule: JSONMapping, path: Path) -> Iterator[FieldError]:
    for index, subject in enumerate(rule.get("subjects") or ()):
        yield from _subject_problems(subject, path.child("subjects").index(index))
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for index, each in enumerate(rule.get("resourceRules") or ()):
        yield from _resource_problems(each, path.child("resourceRules").index(index))
    for index, each in enumerate(rule.get("nonResourceRules") or ()):
        where = path.child("nonResourceRules").index(index)
        yield from _verb_problems(each, where)
        urls, at = each.get("nonResourceURLs") or (), where.child("nonResourceURLs")
        if "*" in urls:
            yield from _alone(urls, at, "non-resource URLs")
        else:
            for place, url in enumerate(urls):
                if text := _url_problem(url):
                    yield invalid(at.index(place), url, text)


_SUBJECTS = {"User": "user", "Group": "group", "ServiceAccount": "serviceAccount"}


def _subject_problems(subject: JSONMapping, path: Path) -> Iterator[FieldError]:
    kind = subject.get("kind")
    if kind not in _SUBJECTS:
        return  # told by the table
    own = subject.get(_SUBJECTS[kind])
    if own is None:
        yield required(path.child(_SUBJECTS[kind]), f"{_SUBJECTS[kind]} is required when subject kind is '{kind}'")
    elif kind == "ServiceAccount":
        name, namespace = own.get("name"), own.get("namespace")
        if name and name != "*":
            yield from (invalid(path.child("serviceAccount", "name"), name, text) for text in dns1123_subdomain(name))
        if namespace:
            yield from (invalid(path.child("serviceAccount", "namespace"), namespace, text) for text in dns1123_label(namespace))
    for other, member in _SUBJECTS.items():
        if other != kind and subject.get(member) is not None:
            yield forbidden(path.child(member), f"{member} is forbidden when subject kind is not '{other}'")


def _resource_problems(rule: JSONMapping, path: Path) -> Iterator[FieldError]:
    yield from _verb_problems(rule, path)
    for member, words in (("apiGroups", "api groups"), ("resources", "resources")):
        yield from _alone(rule.get(member) or (), path.child(member), words)
    namespaces, where = rule.get("namespaces") or (), path.child("namespaces")
    if not namespaces and not rule.get("clusterScope"):
        yield required(where, "resource rules that are not cluster scoped must supply at least one namespace")
    elif "*" in namespaces:
        yield from _alone(namespaces, where, "namespaces")
    else:
        for index, name in enumerate(namespaces):
            for text in dns1123_label(name):
                yield invalid(where.index(index), name, f"each member of this list must be '*' or a DNS-1123 label; {text}")


def _verb_problems(rule: JSONMapping, path: Path) -> Iterator[FieldError]:
    verbs = rule.get("verbs") or ()
    if "*" in verbs:
        yield from _alone(verbs, path.child("verbs"), "verbs")
    elif not set(verbs).issubset(_VERBS):
        yield not_supported(path.child("verbs"), verbs, _VERBS)


def _alone(names: Collection[str], path: Path, words: str) -> Iterator[FieldError]:
    if "*" in names and len(names) > 1:
        yield invalid(path, names, f"if '*' is present, must not specify other {words}")


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count("*")
    return "wildcard can only do suffix matching" if stars > 1 or (stars and not url.endswith("/*")) else ""


def priority_level_problems(obj: JSONObject) -> Iterator[FieldError]:
    """The errors of a PriorityLevelConfiguration, beyond those in the table of checks."""
    name, spec = obj["metadata"].get("name"), obj.get("spec") or {}
    kind, limited, exempt = spec.get("type", ""), spec.get("limited"), spec.get("exempt")
    if (name == _EXEMPT) is not (kind == "Exempt"):
        yield invalid(_SPEC.child("type"), kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind == "Exempt":
        if limited is not None:
            yield forbidden(_SPEC.child("limited"), "must be nil if the type is not Limited")
        if exempt is not None:
            yield from _number(exempt, "nominalConcurrencyShares", _SPEC.child("exempt"), "must be a non-negative integer")
            yield from _number(exempt, "lendablePercent", _SPEC.child("exempt"), "must be between 0 and 100, inclusive", 100)
    elif kind == "Limited":
        if exempt is not None:
            yield forbidden(_SPEC.child("exempt"), "must be nil if the type is Limited")
        if limited is None:
            yield required(_SPEC.child("limited"), "must not be empty when type is Limited")
        else:
            yield from _limited_problems(limited, _SPEC.child("limited"))
    if name == _CATCH_ALL:
        yield from _fixed(spec, _catch_all_level(), name)
    elif name == _EXEMPT and {**spec, "exempt": None} != {**_exempt_level(), "exempt": None}:
        yield invalid(_SPEC, spec, "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value")


def _limited_problems(limited: JSONMapping, path: Path) -> Iterator[FieldError]:
    yield from _number(limited, "nominalConcurrencyShares", path, "must be a non-negative integer")
    response, where = limited.get("limitResponse") or {}, path.child("limitResponse")
    kind, queuing = response.get("type"), response.get("queuing")
    if kind == "Reject" and queuing is not None:
        yield forbidden(where.child("queuing"), "must be nil if limited.limitResponse.type is not Limited")
    elif kind == "Queue":
        if queuing is None:
            yield required(where.child("queuing"), "must not be empty if limited.limitResponse.type is Limited")
        else:
            yield from _queuing_problems(queuing, where.child("queuing"))
    yield from _number(limited, "borrowingLimitPercent", path, "if specified, must be a non-negative integer")


def _queuing_problems(queuing: JSONMapping, path: Path) -> Iterator[FieldError]:
    length, queues, hand = (queuing.get(name, 0) for name in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        yield invalid(path.child("queueLengthLimit"), length, "must be positive")
    if queues <= 0:
        yield invalid(path.child("queues"), queues, "must be positive")
    elif queues > _MAX_QUEUES:
        yield invalid(path.child("queues"), queues, f"must not be greater than {_MAX_QUEUES}")
    if text := _hand_problem(queues, hand):
        yield invalid(path.child("handSize"), hand, text)


def _hand_problem(queues: int, hand: int) -> str:
    if hand <= 0:
        return "must be positive"
    if hand > queues:
        return f"should not be greater than queues ({queues})"
    if math.ceil(math.log2(queues) * hand) <= _MAX_ENTROPY_BITS:
        return ""
    return f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_MAX_ENTROPY_BITS}"


def _number(obj: JSONMapping, name: str, path: Path, text: str, most: int | None = None) -> Iterator[FieldError]:
    value = obj.get(name)
    if value is not None and (value < 0 or (most is not None and value > most)):
        yield invalid(path.child(name), value, text)


def conditions_problems(obj: JSONObject, old: JSONObject) -> list[FieldError]:
    """The errors of `/status`: every condition has a type, and no two have the same."""
    found: list[FieldError] = []
    seen = set[str]()
    for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        kind, where = condition.get("type") or "", Path("status").child("conditions").index(index).child("type")
        if kind in seen:
            found.append(duplicate(where, kind))
        seen.add(kind)
        if not kind:
            found.append(required(where))
    return found
