"""Matching: whether the rules of a webhook, a policy or a binding are meant for a request.

`Criteria` are what an operator wrote: rules, a matchPolicy, and two selectors. `matches` returns the version of the resource that
the rules name, which may differ from the request's in version and group. `Index` finds the criteria that can match requests of a
resource at all, so that all others cost a write nothing.
Pure: `matches` is a coroutine only because the labels of a namespace may have to be read by whoever calls it.
Source: k8s.io/apiserver pkg/admission/plugin/webhook/{generic/webhook,predicates/rules/rules,predicates/namespace/matcher,
predicates/object/matcher}.go, pkg/admission/plugin/policy/matching/matching.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aggserver.admission.chain import CREATE, UPDATE, Attributes, ResourceObjects, Target
from aggserver.meta import errors, versions
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.meta.selectors import LabelSelector, SelectorError

__all__ = ["Criteria", "Index", "NamespaceLabels", "RuleWithOperations", "Target", "is_exempt", "matches"]

ANY = "*"

# (name of a namespace) -> its labels. Raises StatusError: 404 if there is no such namespace.
NamespaceLabels = Callable[[str], Awaitable[Mapping[str, str]]]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RuleWithOperations:
    """A RuleWithOperations, or a NamedRuleWithOperations of a policy.

    resources: (resource, subresource), where either may be `*`; the subresource is '' for the resource itself. names: of objects;
    empty for all of them.
    """

    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[tuple[str, str]]
    operations: frozenset[str]
    scope: str = ANY
    names: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, rule: Mapping[str, Any]) -> RuleWithOperations:
        parts = (resource.partition("/") for resource in rule.get("resources") or ())
        return cls(
            groups=frozenset(rule.get("apiGroups") or ()),
            versions=frozenset(rule.get("apiVersions") or ()),
            resources=frozenset((resource, subresource) for resource, _, subresource in parts),
            operations=frozenset(rule.get("operations") or ()),
            scope=ANY if rule.get("scope") is None else rule["scope"],
            names=frozenset(rule.get("resourceNames") or ()),
        )

    def matches(self, attributes: Attributes, target: Target) -> bool:
        """Whether the rule matches the request. target: the resource in the version to look for."""
        return (
            _holds(self.operations, attributes.operation)
            and _holds(self.groups, target.group)
            and _holds(self.versions, target.version)
            and self._in_resources(target.resource, attributes.subresource)
            and self._in_scope(attributes, target)
            and (not self.names or attributes.name in self.names)
        )

    def may_match(self, groups: Iterable[str], resource: str) -> bool:
        """Whether the rule names the resource in one of the groups, in whatever version and with whatever subresource."""
        return any(_holds(self.groups, group) for group in groups) and any(name in (ANY, resource) for name, _ in self.resources)

    def _in_resources(self, resource: str, subresource: str) -> bool:
        wanted = self.resources
        return (
            (resource, subresource) in wanted or (resource, ANY) in wanted or (ANY, subresource) in wanted or (ANY, ANY) in wanted
        )

    def _in_scope(self, attributes: Attributes, target: Target) -> bool:
        if self.scope == ANY:
            return True
        # A Namespace is cluster-scoped, though the namespace of a request for it is its own name.
        clustered = not attributes.namespace or (target.group, target.version, target.resource) == ("", "v1", "namespaces")
        return self.scope == ("Cluster" if clustered else "Namespaced")


def _holds(items: frozenset[str], wanted: str) -> bool:
    return wanted in items or ANY in items


# The selector `{}` matches everything, and a missing one nothing, as with metav1.LabelSelectorAsSelector.
_Selector = LabelSelector | SelectorError | None


@dataclass(frozen=True, slots=True)
class Criteria:
    """The conditions under which a webhook, a policy or a binding applies to a request.

    rules: None if all requests match. excluded: rules of requests that do not match after all (excludeResourceRules). equivalent:
    whether the rules may also name another version of the resource (matchPolicy Equivalent).
    namespaces, objects: the selectors; the error if one can't be parsed, None if there is none, which selects nothing.
    """

    rules: tuple[RuleWithOperations, ...] | None
    excluded: tuple[RuleWithOperations, ...]
    equivalent: bool
    namespaces: _Selector
    objects: _Selector

    @classmethod
    def of_webhook(cls, webhook: Mapping[str, Any]) -> Criteria:
        """The criteria of a webhook. Without rules it matches nothing."""
        return cls._parse(webhook, _rules(webhook.get("rules")), ())

    @classmethod
    def of_resources(cls, resources: Mapping[str, Any]) -> Criteria:
        """The criteria of the MatchResources of a policy or binding. Without resourceRules they match all resources."""
        return cls._parse(
            resources, _rules(resources.get("resourceRules")) or None, _rules(resources.get("excludeResourceRules"))
        )

    @classmethod
    def _parse(
        cls, spec: Mapping[str, Any], rules: tuple[RuleWithOperations, ...] | None, excluded: tuple[RuleWithOperations, ...]
    ) -> Criteria:
        return cls(
            rules=rules,
            excluded=excluded,
            equivalent=spec.get("matchPolicy") == "Equivalent",
            namespaces=_selector(spec.get("namespaceSelector")),
            objects=_selector(spec.get("objectSelector")),
        )

    def may_match(self, info: ResourceInfo, objects: ResourceObjects) -> bool:
        """Whether a request for the resource can match, in whatever version, with any subresource.

        Equivalent versions of a resource have the same name, but not always the same group: Events have two.
        """
        if self.rules is None:
            return True
        groups = {info.group}
        if self.equivalent:
            groups |= {target.group for target in objects.equivalents("")}
        return any(rule.may_match(groups, info.resource) for rule in self.rules)

    def may_concern(self, operation: str) -> bool:
        """Whether a request for this operation can match."""
        return self.rules is None or any(_holds(rule.operations, operation) for rule in self.rules)

    def target(self, attributes: Attributes, equivalents: Sequence[Target]) -> Target | None:
        """The version of the resource that the rules name: the requested one, if it is among them. None if they don't match.

        equivalents: the resource in all its versions that have the requested subresource.
        """
        if self.excluded and self._target(self.excluded, attributes, equivalents) is not None:
            return None
        if self.rules is None:
            return Target.requested(attributes)
        return self._target(self.rules, attributes, equivalents)

    def _target(
        self, rules: Sequence[RuleWithOperations], attributes: Attributes, equivalents: Sequence[Target]
    ) -> Target | None:
        requested = Target.requested(attributes)
        if any(rule.matches(attributes, requested) for rule in rules):
            return requested
        if not self.equivalent:
            return None
        for rule in rules:  # the first rule counts, not the first version
            for target in equivalents:
                if target[:3] != requested[:3] and rule.matches(attributes, target):
                    return target
        return None

    def selects_object(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        """Whether the objectSelector matches the object or the old one. Raises StatusError if it can't be parsed."""
        selector = _parsed(self.objects)
        if selector is None:
            return False
        return selector.empty or any(each is not None and selector.matches(_labels(each)) for each in (obj, old))

    def needs_namespace(self, attributes: Attributes) -> bool:
        """Whether the labels of a namespace decide: not for resources that are in none, unless they are namespaces."""
        if not attributes.namespace and attributes.resource.resource != "namespaces":
            return False
        return not isinstance(self.namespaces, LabelSelector) or not self.namespaces.empty

    def selects_namespace(self, labels: Mapping[str, str]) -> bool:
        """Whether the namespaceSelector matches; only for `needs_namespace`. Raises StatusError if it can't be parsed."""
        selector = _parsed(self.namespaces)
        return selector is not None and selector.matches(labels)


def _rules(rules: Iterable[Mapping[str, Any]] | None) -> tuple[RuleWithOperations, ...]:
    return tuple(map(RuleWithOperations.parse, rules or ()))


def _selector(selector: Mapping[str, Any] | None) -> _Selector:
    if selector is None:
        return None
    try:
        return LabelSelector.from_object(selector)
    except SelectorError as error:
        return error


def _parsed(selector: _Selector) -> LabelSelector | None:
    if isinstance(selector, SelectorError):
        raise errors.internal_error(str(selector)) from selector
    return selector


def _labels(obj: JSONObject) -> Mapping[str, str]:
    """The object's labels. Malformed ones, which a webhook may have made, count as none, as in Go."""
    metadata = obj.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values()) else {}


async def matches(
    criteria: Criteria,
    attributes: Attributes,
    obj: JSONObject | None,
    old: JSONObject | None,
    equivalents: Sequence[Target],
    namespace_labels: NamespaceLabels,
) -> Target | None:
    """The version that the rules name; None without a match. Raises StatusError if a selector or a namespace can't be read.

    An error is raised only if everything else matches: criteria that do not apply to a request must not make it fail.
    """
    target = criteria.target(attributes, equivalents)
    if target is None:
        return None
    trouble: errors.StatusError | None = None
    try:
        if not criteria.selects_object(obj, old):
            return None
    except errors.StatusError as error:
        trouble = error
    if criteria.needs_namespace(attributes) and not await _selects_namespace(criteria, attributes, obj, namespace_labels):
        return None
    if trouble is not None:
        raise trouble
    return target


async def _selects_namespace(
    criteria: Criteria, attributes: Attributes, obj: JSONObject | None, namespace_labels: NamespaceLabels
) -> bool:
    if not isinstance(criteria.namespaces, LabelSelector):
        return criteria.selects_namespace({})  # False or an error, whatever the labels are
    written = attributes.operation in (CREATE, UPDATE) and not attributes.subresource
    if written and attributes.resource.resource == "namespaces" and obj is not None:
        return criteria.selects_namespace(_labels(obj))  # these labels are not stored yet
    return criteria.selects_namespace(await namespace_labels(attributes.namespace))


# Rules about these could lock out whoever wants to repair them.
_EXEMPT = frozenset(
    {
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }
)


def is_exempt(attributes: Attributes) -> bool:
    """Whether the object is itself a configuration of admission, which no webhook is asked about."""
    return (
        attributes.kind in _EXEMPT
        and versions.parse_group_version(attributes.object_version)[0] == "admissionregistration.k8s.io"
    )


class Index(Generic[T]):
    """Webhooks or policies with their criteria, looked up by resource. Immutable; one for each state of the configuration.

    `of` remembers its results, at most one for each served resource.
    """

    __slots__ = ("_entries", "_found")

    def __init__(self, entries: Iterable[tuple[Criteria, T]] = ()) -> None:
        self._entries = tuple(entries)
        self._found: dict[tuple[str, str], tuple[tuple[Criteria, T], ...]] = {}

    def of(self, info: ResourceInfo, objects: ResourceObjects) -> tuple[tuple[Criteria, T], ...]:
        """The entries that may match requests for the resource, in the order given. objects: those of the resource."""
        found = self._found.get((info.group, info.resource))
        if found is None:
            found = tuple(entry for entry in self._entries if entry[0].may_match(info, objects))
            self._found[info.group, info.resource] = found
        return found
