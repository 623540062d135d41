"""Quota: what the ResourceQuotas of a namespace say of one write.

What an object uses is a `Measure`; an `Evaluator` makes it, one for each resource. Of most resources only the number of objects
is limited, as `count/<plural>.<group>` (`Counted`); those of Pods, Services and claims are in `kinds/quota_usage.py`. The limits
are those in status.hard: a quota does not apply before its controller has copied them there, when it writes the usage. Pure.
Source: k8s.io/apiserver pkg/admission/plugin/resourcequota/controller.go (CheckRequest), pkg/quota/v1/resources.go,
pkg/quota/v1/generic/evaluator.go, v0.36.3; the operators of scopes: k8s.io/kubernetes pkg/apis/core/v1/helper/helpers.go
(ScopedResourceSelectorRequirementsAsSelector), v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from aggserver.meta import quantity
from aggserver.meta.errors import qualified
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.quantity import Quantity

__all__ = [
    "Amounts",
    "Charge",
    "Counted",
    "Evaluator",
    "Measure",
    "QuotaRefusal",
    "Requested",
    "add",
    "charge",
    "count_name",
    "is_within",
    "negative",
    "selectors",
]

# Quantities by the names of resources.
Amounts = Mapping[str, str]
_ZERO = Quantity(0)


class QuotaRefusal(Exception):
    """A quota does not permit a write. Its text is upstream's."""


class Measure(NamedTuple):
    """What an object uses, and what decides about its scopes: the scopes that it is in, and those of whose values it has some.

    An object with a PriorityClass has ("PriorityClass", ("high",)), one of the same kind without ("PriorityClass", ()).
    """

    usage: tuple[tuple[str, str], ...]
    scopes: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Evaluator(Protocol):
    """What quotas count of the objects of one resource."""

    def handles(self, operation: str, subresource: str, obj: JSONObject, old: JSONObject | None) -> bool:
        """Whether a write may change the usage."""

    def matching(self, names: Iterable[str]) -> list[str]:
        """Those of the names whose usage these objects change."""

    def constraints(self, names: Sequence[str], obj: JSONObject) -> str:
        """What the object lacks for a quota of these names, '' for nothing."""

    def measure(self, obj: JSONObject) -> Measure: ...


class Counted:
    """The evaluator of a resource of which only the number of objects counts. alias: another name for this number."""

    def __init__(self, group: str, resource: str, alias: str = "") -> None:
        self.names = tuple(filter(None, (count_name(group, resource), alias)))
        self._measure = Measure(tuple((name, "1") for name in self.names))

    def handles(self, operation: str, subresource: str, obj: JSONObject, old: JSONObject | None) -> bool:
        return operation == "CREATE" and not subresource

    def matching(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.names]

    def constraints(self, names: Sequence[str], obj: JSONObject) -> str:
        return ""

    def measure(self, obj: JSONObject) -> Measure:
        return self._measure


def count_name(group: str, resource: str) -> str:
    return f"count/{qualified(resource, group)}"


# --- scopes ---


def selectors(quota: JSONMapping) -> list[JSONMapping]:
    """The requirements that objects must meet for a quota to count them."""
    spec = quota.get("spec") or {}
    exists = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return [*exists, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def is_within(measure: Measure, requirements: Iterable[JSONMapping]) -> bool:
    return all(_meets(measure, requirement) for requirement in requirements)


_WITH_VALUES = ("PriorityClass", "VolumeAttributesClass")


def _meets(measure: Measure, requirement: JSONMapping) -> bool:
    scope, operator = requirement.get("scopeName"), requirement.get("operator")
    for name, values in measure.scopes:
        if name == scope:
            wanted = requirement.get("values") or ()
            if name not in _WITH_VALUES or (operator == "Exists" and values):
                return True
            if operator == "In":
                return any(value in wanted for value in values)
            if operator == "NotIn":
                return not values or any(value not in wanted for value in values)
            return operator == "DoesNotExist" and not values
    return False


# --- amounts ---


def add(left: str, right: str) -> str:
    """The sum, with the kind of suffix of the first that is not zero."""
    first = quantity.parse(left)
    return quantity.text(first.add(quantity.parse(right)), left if first.value else right)


def negative(amount: str) -> str:
    number = quantity.parse(amount)
    return quantity.text(Quantity(-number.value, number.scale, number.is_short), amount)


def _added(left: Amounts, right: Amounts) -> dict[str, str]:
    return {**left, **{name: add(left[name], amount) if name in left else amount for name, amount in right.items()}}


def _more(usage: Amounts, before: Amounts) -> dict[str, str]:
    """What is used more than before."""
    found = {}
    for name, amount in usage.items():
        rest = quantity.parse(amount).sub(quantity.parse(before.get(name, "0")))
        if rest.sign() > 0:
            found[name] = quantity.text(rest, amount)
    return found


def _pretty(amounts: Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(names) if name in amounts)


# --- charging ---


@dataclass(frozen=True, slots=True)
class Charge:
    """A write that quotas may have to count. old: what it replaces. subresource: '' for none."""

    evaluator: Evaluator
    obj: JSONObject
    old: JSONObject | None = None
    subresource: str = ""


class Requested(NamedTuple):
    """The quotas after a write, those that it does not change as they were, and what it uses more of each of the others."""

    quotas: list[JSONObject]
    amounts: dict[str, dict[str, str]]


def charge(quotas: Sequence[JSONObject], write: Charge) -> Requested:
    """The quotas with a write counted. They are not changed. Raises QuotaRefusal."""
    evaluator = write.evaluator
    measure = evaluator.measure(write.obj)
    concerned = [quota for quota in quotas if _concerns(quota, evaluator, measure, write.obj)]
    usage = dict(measure.usage)
    if below := sorted(name for name, amount in usage.items() if quantity.parse(amount).sign() < 0):
        raise QuotaRefusal(f"quota usage is negative for resource(s): {','.join(below)}")
    before = None if write.old is None or not concerned else evaluator.measure(write.old)
    after, requested = [], {}
    for quota in quotas:
        if quota in concerned:
            was_counted = before is not None and is_within(before, selectors(quota))
            more = _more(usage, dict(before.usage) if before is not None and was_counted else {})
            hard = quota["status"]["hard"]
            if wanted := {name: amount for name, amount in more.items() if name in hard}:
                requested[quota["metadata"]["name"]] = wanted
                quota = _charged(quota, wanted, is_limited=write.subresource != "status")
        after.append(quota)
    return Requested(after, requested)


def _concerns(quota: JSONObject, evaluator: Evaluator, measure: Measure, obj: JSONObject) -> bool:
    """Whether a quota counts the object. Raises QuotaRefusal if it can't."""
    status = quota.get("status") or {}
    names = evaluator.matching(status.get("hard") or {})
    if not names or not is_within(measure, selectors(quota)):
        return False
    if missing := evaluator.constraints(names, obj):
        raise QuotaRefusal(f"failed quota: {quota['metadata']['name']}: {missing}")
    if any(name not in (status.get("used") or {}) for name in names):
        raise QuotaRefusal(f"status unknown for quota: {quota['metadata']['name']}, resources: {','.join(sorted(names))}")
    return True


def _charged(quota: JSONObject, wanted: Amounts, *, is_limited: bool) -> JSONObject:
    status = quota["status"]
    hard, used = status["hard"], status["used"]
    total = _added(used, wanted)
    exceeded = [name for name in wanted if quantity.parse(total[name]).compare(quantity.parse(hard[name])) > 0]
    if exceeded and is_limited:
        raise QuotaRefusal(
            f"exceeded quota: {quota['metadata']['name']}, requested: {_pretty(wanted, exceeded)}, "
            f"used: {_pretty(used, exceeded)}, limited: {_pretty(hard, exceeded)}"
        )
    return {**quota, "status": {**status, "used": total}}
