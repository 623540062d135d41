"""Which FlowSchema a request belongs to: the first, by matchingPrecedence and then by name, one of whose rules matches it.

Pure. Source: k8s.io/apiserver pkg/util/flowcontrol/rule.go, k8s.io/apiserver pkg/util/apihelpers, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from aggserver.authentication.user import UserInfo
from aggserver.endpoints.request_info import RequestInfo
from aggserver.meta.json_types import JSONMapping

__all__ = ["BY_NAMESPACE", "BY_USER", "CATCH_ALL", "EXEMPT", "Schema", "in_order", "schema"]

EXEMPT, CATCH_ALL = "exempt", "catch-all"
BY_USER, BY_NAMESPACE = "ByUser", "ByNamespace"
_ACCOUNTS = "system:serviceaccount:"

_Test = Callable[[UserInfo, RequestInfo], bool]


class Schema(NamedTuple):
    """A FlowSchema, ready for matching. level: the name of its priority level. method: BY_USER, BY_NAMESPACE or ''."""

    name: str
    uid: str
    level: str
    precedence: int
    method: str
    rules: Sequence[_Test]

    def matches(self, user: UserInfo, info: RequestInfo) -> bool:
        return any(rule(user, info) for rule in self.rules)

    def distinguisher(self, user: UserInfo, info: RequestInfo) -> str:
        """What tells the flows of the schema apart: the user's name, the namespace, or nothing."""
        return user.name if self.method == BY_USER else info.namespace if self.method == BY_NAMESPACE else ""


def schema(obj: JSONMapping) -> Schema:
    """The Schema of a valid FlowSchema."""
    spec, metadata = obj["spec"], obj["metadata"]
    return Schema(
        metadata["name"],
        metadata.get("uid", ""),
        spec["priorityLevelConfiguration"]["name"],
        spec["matchingPrecedence"],
        (spec.get("distinguisherMethod") or {}).get("type", ""),
        [_rule(rule) for rule in spec.get("rules") or ()],
    )


def in_order(schemas: Iterable[Schema]) -> list[Schema]:
    """In the order in which requests are compared with them."""
    return sorted(schemas, key=lambda each: (each.precedence, each.name))


def _rule(rule: JSONMapping) -> _Test:
    is_subject = _subjects(rule.get("subjects") or ())
    resources = [_resource_rule(each) for each in rule.get("resourceRules") or ()]
    paths = [_path_rule(each) for each in rule.get("nonResourceRules") or ()]

    def matches(user: UserInfo, info: RequestInfo) -> bool:
        return is_subject(user) and any(each(info) for each in (resources if info.is_resource_request else paths))

    return matches


def _subjects(subjects: Sequence[JSONMapping]) -> Callable[[UserInfo], bool]:
    users = set[str]()
    groups = set[str]()
    accounts: list[str] = []  # prefixes of the names of service accounts
    for subject in subjects:
        if subject["kind"] == "User" and subject.get("user"):
            users.add(subject["user"]["name"])
        elif subject["kind"] == "Group" and subject.get("group"):
            groups.add(subject["group"]["name"])
        elif subject["kind"] == "ServiceAccount" and subject.get("serviceAccount"):
            account = subject["serviceAccount"]
            if account["name"] == "*":
                accounts.append(f"{_ACCOUNTS}{account['namespace']}:")
            else:
                users.add(f"{_ACCOUNTS}{account['namespace']}:{account['name']}")
    if "*" in users or "*" in groups:
        return lambda user: True
    prefixes = tuple(accounts)

    def matches(user: UserInfo) -> bool:
        return user.name in users or not groups.isdisjoint(user.groups) or user.name.startswith(prefixes)

    return matches


def _resource_rule(rule: JSONMapping) -> Callable[[RequestInfo], bool]:
    verbs, groups = _any_of(rule.get("verbs")), _any_of(rule.get("apiGroups"))
    resources, namespaces = _any_of(rule.get("resources")), _any_of(rule.get("namespaces"))
    of_cluster = bool(rule.get("clusterScope"))

    def matches(info: RequestInfo) -> bool:
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        if not (verbs(info.verb) and resources(resource) and groups(info.group)):
            return False
        return namespaces(info.namespace) if info.namespace else of_cluster

    return matches


def _path_rule(rule: JSONMapping) -> Callable[[RequestInfo], bool]:
    verbs, paths = _any_of(rule.get("verbs")), rule.get("nonResourceURLs") or ()
    exact = frozenset(paths)
    # As upstream, a path also stands for all below it, with or without a star.
    prefixes = tuple(path.removesuffix("*").removesuffix("/") + "/" for path in paths)

    def matches(info: RequestInfo) -> bool:
        return verbs(info.verb) and ("*" in exact or info.path in exact or info.path.startswith(prefixes))

    return matches


def _any_of(names: Sequence[str] | None) -> Callable[[str], bool]:
    if names is not None and list(names) == ["*"]:
        return lambda name: True
    return frozenset(names or ()).__contains__
