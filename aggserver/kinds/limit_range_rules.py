"""The rules of LimitRanges: their types, the names of their resources, and which of their amounts contradict each other.

Pure. Source: ValidateLimitRange in k8s.io/kubernetes pkg/apis/core/validation/validation.go, v1.36.3. Where upstream goes
through a map in the order of chance, this goes by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aggserver.kinds.resource_names import container_resource_problems, may_overcommit, resource_problems
from aggserver.meta import field, quantity
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONObject
from aggserver.meta.names import qualified_name
from aggserver.meta.quantity import Quantity

__all__ = ["MOST_MILLI", "limit_range_problems"]

# Larger amounts are compared as whole numbers, others in thousandths.
MOST_MILLI = (2**63 - 1) // 1000
_LIMITS = Path("spec").child("limits")
_TYPES = frozenset({"Container", "PersistentVolumeClaim", "Pod"})
_MEMBERS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_OF_CONTAINERS = ("default", "defaultRequest")
# What must not be more than what: (less, more, whose field the error names, text). As upstream, the value that is shown is not
# always that of the field.
_ORDERS = (
    ("min", "max", "min", "min value {0} is greater than max value {1}", 0),
    ("min", "defaultRequest", "defaultRequest", "min value {0} is greater than default request value {1}", 1),
    ("defaultRequest", "max", "defaultRequest", "default request value {0} is greater than max value {1}", 0),
    ("defaultRequest", "default", "defaultRequest", "default request value {0} is greater than default limit value {1}", 0),
    ("min", "default", "default", "min value {0} is greater than default value {1}", 0),
    ("default", "max", "default", "default value {0} is greater than max value {1}", 1),
)
_ONE = Quantity(1)


def limit_range_problems(obj: JSONObject) -> Iterator[FieldError]:
    seen = set[str]()
    for index, limit in enumerate(obj["spec"].get("limits") or ()):
        path, of = _LIMITS.index(index), str(limit.get("type") or "")
        yield from _type_problems(of, path.child("type"))
        if of in seen:
            yield field.duplicate(path.child("type"), of)
        seen.add(of)
        yield from _of_item(of, limit, path)


def _type_problems(of: str, path: Path) -> Iterator[FieldError]:
    problems = qualified_name(of)
    yield from (field.invalid(path, of, text) for text in problems)
    if not problems and "/" not in of and of not in _TYPES:
        yield field.invalid(path, of, "must be a standard limit type or fully qualified")


def _of_item(of: str, limit: JSONObject, path: Path) -> Iterator[FieldError]:
    name_problems = container_resource_problems if of in ("Container", "Pod") else resource_problems
    given: dict[str, Mapping[str, str]] = {}
    for member in _MEMBERS:
        amounts: Mapping[str, str] = limit.get(member) or {}
        if of == "Pod" and member in _OF_CONTAINERS:
            if amounts:
                yield field.forbidden(path.child(member), "may not be specified when `type` is 'Pod'")
            continue
        if member == "maxLimitRequestRatio" and of == "PersistentVolumeClaim":
            yield from _claim_problems(limit, path)
        given[member] = amounts
        for name in sorted(amounts):
            yield from name_problems(name, path.child(member).key(name))
    for name in sorted(set().union(*given.values())):
        yield from _amount_problems(name, {member: amounts[name] for member, amounts in given.items() if name in amounts}, path)


def _claim_problems(limit: JSONObject, path: Path) -> Iterator[FieldError]:
    if not any("storage" in (limit.get(member) or {}) for member in ("min", "max")):
        yield field.required(
            path.child("limits"), "either minimum or maximum storage value is required, but neither was provided"
        )


def _amount_problems(name: str, given: Mapping[str, str], path: Path) -> Iterator[FieldError]:
    """The errors of one resource. given: its amount in each member that has it."""
    amounts = {member: quantity.parse(text) for member, text in given.items()}
    for less, more, member, text, shown in _ORDERS:
        if less in amounts and more in amounts and amounts[less].compare(amounts[more]) > 0:
            texts = given[less], given[more]
            yield field.invalid(path.child(member).key(name), texts[shown], text.format(*texts))
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is not None:
        where, text = path.child("maxLimitRequestRatio").key(name), given["maxLimitRequestRatio"]
        if ratio.compare(_ONE) < 0:
            yield field.invalid(where, text, f"ratio {text} is less than 1")
        if "min" in amounts and "max" in amounts and (limit := _largest_ratio(ratio, amounts["min"], amounts["max"])) is not None:
            yield field.invalid(where, text, f"ratio {text} is greater than max/min = {limit:f}")
    if not may_overcommit(name) and "default" in amounts and "defaultRequest" in amounts:
        default, request = given["default"], given["defaultRequest"]
        if amounts["default"].compare(amounts["defaultRequest"]) != 0:
            detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
            yield field.invalid(path.child("defaultRequest").key(name), request, detail)


def _largest_ratio(ratio: Quantity, least: Quantity, most: Quantity) -> float | None:
    """max/min, if the ratio is greater."""
    value, low, high = float(ratio.rounded(0)), least.rounded(0), most.rounded(0)
    if max(ratio.rounded(0), low, high) < MOST_MILLI:
        value, low, high = ratio.rounded(-3) / 1000, least.rounded(-3), most.rounded(-3)
    if not low:
        return None  # upstream divides by zero as floats do: no ratio is greater than infinity
    return high / low if value > high / low else None
