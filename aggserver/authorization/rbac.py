"""RBAC: what roles and bindings allow.

A `Policy` holds compiled roles and bindings. It finds the bindings of a request by the user's name and groups, and caches the
rules that concern a user and an action, so that the same request costs only a look-up the next time. Rules only allow: a request
that no rule allows is denied.

If several bindings allow a request, the reason names the first one, ClusterRoleBindings before RoleBindings, each by name;
upstream names any one of them.
Pure. Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/registry/rbac/validation/rule.go,
pkg/apis/rbac/v1/evaluation_helpers.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["GROUP", "ROLES", "FoundRules", "Granted", "MissingRole", "Policy", "PolicyRule"]

GROUP = "rbac.authorization.k8s.io"
# kind -> resource
ROLES = {"ClusterRole": "clusterroles", "Role": "roles"}

_SERVICE_ACCOUNT = "system:serviceaccount:"

# Clients choose the keys of the caches, so both the number of entries and the characters of a key are limited.
_KEPT_QUESTIONS = 4096
_KEPT_USERS = 512
_KEPT_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A PolicyRule: verbs on resources of API groups, or on paths. `*` matches all, `*/scale` that subresource of all resources;
    a path may end with `*`. names: of objects; empty for all of them.
    """

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, rule: JSONMapping) -> PolicyRule:
        members = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(tuple(rule.get(member) or ()) for member in members))

    def as_json(self) -> JSONObject:
        members = {
            "apiGroups": self.groups,
            "nonResourceURLs": self.paths,
            "resourceNames": self.names,
            "resources": self.resources,
        }
        return {**{name: list(values) for name, values in members.items() if values}, "verbs": list(self.verbs)}

    def allows(self, attributes: Attributes) -> bool:
        return self.concerns(attributes) and (not attributes.on_resource or not self.names or attributes.name in self.names)

    def concerns(self, attributes: Attributes) -> bool:
        """Whether the rule allows this for some object: `allows` without regard to the object's name."""
        if not _has(self.verbs, attributes.verb):
            return False
        if not attributes.on_resource:
            return any(covers_path(path, attributes.path) for path in self.paths)
        if not _has(self.groups, attributes.group):
            return False
        subresource = attributes.subresource
        if not subresource:
            return _has(self.resources, attributes.resource)
        return _has(self.resources, f"{attributes.resource}/{subresource}") or f"*/{subresource}" in self.resources


class MissingRole(NamedTuple):
    """A role that a binding names and that does not exist. kind: Role or ClusterRole, or another text that the binding has."""

    kind: str
    name: str

    def text(self, resource: str) -> str:
        """Upstream's error. resource: see `FoundRules.trouble`."""
        if self.kind not in ROLES:
            return f"unsupported role reference kind: {quote(self.kind)}"
        return f"{resource or self.kind.lower()}.{GROUP} {quote(self.name)} not found"


class Granted(NamedTuple):
    """A rule of a user, and the reason for decisions by it: which binding grants it."""

    rule: PolicyRule
    reason: str


class FoundRules(NamedTuple):
    """The rules of a user in a namespace, and the roles that bindings of the user name but that do not exist."""

    granted: Sequence[Granted]
    missing: Sequence[MissingRole]

    @property
    def rules(self) -> list[PolicyRule]:
        return [each.rule for each in self.granted]

    def trouble(self, resource: str = "") -> str:
        """The errors of `missing` as upstream's Aggregate joins them; '' if there are none.

        resource: of a request for which upstream reads roles from the storage: its errors then name that resource.
        """
        texts = list(dict.fromkeys(each.text(resource) for each in self.missing))
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


class _Subject(NamedTuple):
    """The subject of a binding. key: by which users are found. text: in reasons."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class _Binding:
    name: str
    source: str  # the reason, up to the subject
    role: tuple[str, str, str]  # kind, namespace, name
    subjects: dict[str, tuple[int, str]] = field(default_factory=dict)  # key -> its index, and its text in reasons

    def subject(self, keys: Iterable[str]) -> str:
        """The text of the first subject with one of these keys."""
        return min(self.subjects[key] for key in keys if key in self.subjects)[1]


# The rules that concern a request, each as (the object names that it is restricted to, empty for all; the reason).
_Answer = tuple[tuple[tuple[str, ...], str], ...]


class Policy:
    """Roles and bindings, to be kept current by `put` and `remove`."""

    def __init__(self, objects: Iterable[JSONMapping] = ()) -> None:
        """objects: the initial roles and bindings."""
        self._roles: dict[tuple[str, str, str], tuple[PolicyRule, ...]] = {}
        self._bindings: dict[tuple[str, str], _Binding] = {}  # by namespace, '' for the whole cluster, and name
        self._of_subjects: dict[tuple[str, str], dict[str, _Binding]] = {}  # by namespace and subject, then by name
        self._found: dict[tuple[str, tuple[str, ...], str], FoundRules] = {}
        self._answers: dict[tuple[str | tuple[str, ...], ...], _Answer] = {}
        for obj in objects:
            self.put(obj)

    def put(self, obj: JSONMapping) -> None:
        """Add or replace an object of one of the four kinds."""
        for _ in self.putting(obj):
            pass

    def putting(self, obj: JSONMapping) -> Iterator[None]:
        """Like `put`, in one step for each rule or subject of the object. The policy may be used between the steps; until the
        last one, some decisions are the old ones.
        """
        kind, metadata = obj["kind"], obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if kind in ROLES:
            rules = []
            for rule in obj.get("rules") or ():
                rules.append(PolicyRule.of(rule))
                yield
            self._roles[kind, namespace, name] = tuple(rules)
        else:
            yield from self._bind(namespace, name, obj)
        self._changed()

    def removing(self, kind: str, namespace: str, name: str) -> Iterator[None]:
        """Like `remove`, in steps (see `putting`)."""
        if kind in ROLES:
            self._roles.pop((kind, namespace, name), None)
        else:
            yield from self._unbind(namespace, name, self._bindings.pop((namespace, name), None), {})
        self._changed()

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object. namespace: '' for cluster-scoped kinds."""
        for _ in self.removing(kind, namespace, name):
            pass

    def why(self, attributes: Attributes) -> str | None:
        """The reason for which this is allowed; None if it is not."""
        for names, reason in self._answer(attributes):
            if not names or attributes.name in names:
                return reason
        return None

    def found(self, user: UserInfo, namespace: str) -> FoundRules:
        """The user's rules in a namespace, those of ClusterRoleBindings first. namespace: '' for these alone."""
        key = (user.name, user.groups, namespace)
        found = self._found.get(key)
        if found is None:
            found = self._find(user, namespace)
            if _may_be_kept(user, namespace):
                if len(self._found) >= _KEPT_USERS:
                    self._found.clear()
                self._found[key] = found
        return found

    def _answer(self, attributes: Attributes) -> _Answer:
        user, verb, namespace = attributes.user, attributes.verb, attributes.namespace
        of_resource = (attributes.group, attributes.resource, attributes.subresource, namespace)
        what = (verb, *of_resource) if attributes.on_resource else (verb, attributes.path)
        key = (user.name, user.groups, *what)
        answer = self._answers.get(key)
        if answer is None:
            granted = [each for each in self.found(user, namespace).granted if each.rule.concerns(attributes)]
            answer = tuple((each.rule.names if attributes.on_resource else (), each.reason) for each in granted)
            if _may_be_kept(user, *what):
                if len(self._answers) >= _KEPT_QUESTIONS:
                    self._answers.clear()
                self._answers[key] = answer
        return answer

    def _find(self, user: UserInfo, namespace: str) -> FoundRules:
        granted: list[Granted] = []
        missing: list[MissingRole] = []
        keys = [_user_key(user.name), *map(_group_key, user.groups)]
        for where in ("", namespace) if namespace else ("",):
            bindings = {name: each for key in keys for name, each in self._of_subjects.get((where, key), {}).items()}
            for name in sorted(bindings):
                binding = bindings[name]
                rules = self._roles.get(binding.role)
                if rules is None:
                    missing.append(MissingRole(binding.role[0], binding.role[2]))
                    continue
                reason = f"{binding.source} to {binding.subject(keys)}"
                granted += [Granted(rule, reason) for rule in rules]
        return FoundRules(granted, missing)

    def _bind(self, namespace: str, name: str, obj: JSONMapping) -> Iterator[None]:
        """Store a binding: first add its subjects, then remove those that it does not name any more."""
        before, binding = self._bindings.get((namespace, name)), _binding(obj)
        self._bindings[namespace, name] = binding
        for place, given in enumerate(obj.get("subjects") or ()):
            yield
            subject = _subject(given, namespace)
            if subject is not None and subject.key not in binding.subjects:
                binding.subjects[subject.key] = (place, subject.text)
                self._of_subjects.setdefault((namespace, subject.key), {})[name] = binding
        yield from self._unbind(namespace, name, before, binding.subjects)

    def _unbind(self, namespace: str, name: str, binding: _Binding | None, kept: Container[str]) -> Iterator[None]:
        for key in binding.subjects if binding is not None else ():
            yield
            if key not in kept:
                named = self._of_subjects[namespace, key]
                del named[name]
                if not named:
                    del self._of_subjects[namespace, key]

    def _changed(self) -> None:
        self._found.clear()
        self._answers.clear()


def _may_be_kept(user: UserInfo, *texts: str) -> bool:
    return sum(map(len, (user.name, *user.groups, *texts))) <= _KEPT_LENGTH


def covers_path(path: str, wanted: str) -> bool:
    """Whether a rule's path covers the wanted one. Both may end with `*`."""
    return wanted == path or (path.endswith("*") and wanted.startswith(path.rstrip("*")))


def _has(known: tuple[str, ...], wanted: str) -> bool:
    return "*" in known or wanted in known


def _binding(obj: JSONMapping) -> _Binding:
    """The binding, without its subjects."""
    kind, metadata, ref = obj["kind"], obj["metadata"], obj.get("roleRef") or {}
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    role_kind, role = ref.get("kind", ""), ref.get("name", "")
    full = f"{name}/{namespace}" if kind == "RoleBinding" else name
    source = f"RBAC: allowed by {kind} {quote(full)} of {role_kind} {quote(role)}"
    where = namespace if role_kind == "Role" else ""
    return _Binding(name, source, (role_kind, where, role))


def _subject(subject: JSONMapping, namespace: str) -> _Subject | None:
    """The subject; None for an invalid one. namespace: of the binding, the default for a service account's."""
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind == "User":
        return _Subject(_user_key(name), f"User {quote(name)}")
    if kind == "Group":
        return _Subject(_group_key(name), f"Group {quote(name)}")
    where = subject.get("namespace") or namespace
    if kind != "ServiceAccount" or not where:
        return None
    return _Subject(_user_key(f"{_SERVICE_ACCOUNT}{where}:{name}"), f"ServiceAccount {quote(f'{name}/{where}')}")


def _user_key(name: str) -> str:
    return f"User {name}"


def _group_key(name: str) -> str:
    return f"Group {name}"
