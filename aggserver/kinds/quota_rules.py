"""The rules of ResourceQuotas: the names and amounts of their resources, and their scopes; and the warnings about them.

Pure. Source: ValidateResourceQuota, ValidateResourceQuotaUpdate, ValidateResourceQuotaStatusUpdate in k8s.io/kubernetes
pkg/apis/core/validation/validation.go, pkg/registry/core/resourcequota/strategy.go, v1.36.3. Where upstream goes through a map in
the order of chance, this goes by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from aggserver.kinds.resource_names import (
    INTEGERS,
    SCOPES,
    goes_with_scope,
    is_extended,
    is_standard_quota,
    quota_resource_problems,
)
from aggserver.meta import quantity
from aggserver.meta.field import FieldError, Path, RawJSON, invalid, required
from aggserver.meta.golang import to_json
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["changed_quota", "quota_problems", "quota_status_problems", "quota_warnings"]

_SPEC, _STATUS = Path("spec"), Path("status")
_PAIRS = (frozenset({"BestEffort", "NotBestEffort"}), frozenset({"NotTerminating", "Terminating"}))
_ONLY_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
# The scopes of whose values a quota can choose some.
_WITH_VALUES = frozenset({"PriorityClass", "VolumeAttributesClass"})
_WARNED = ("cpu", "memory", "storage", "ephemeral-storage")


def quota_problems(obj: JSONObject) -> Iterator[FieldError]:
    spec = obj["spec"]
    yield from _amounts(spec.get("hard") or {}, _SPEC.child("hard"))
    names = sorted(spec.get("hard") or ())
    scopes = spec.get("scopes") or []
    if scopes:
        yield from _scopes(scopes, scopes, names)
    selector = spec.get("scopeSelector")
    if selector is not None:
        yield from _selector(selector.get("matchExpressions") or (), selector, scopes, names)


def changed_quota(obj: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    scopes = obj["spec"].get("scopes") or []
    if set(scopes) != set(old["spec"].get("scopes") or ()):
        yield invalid(_SPEC.child("scopes"), scopes or None, "field is immutable")


def quota_status_problems(obj: JSONObject, old: JSONObject) -> list[FieldError]:
    status = obj.get("status") or {}
    return [problem for member in ("hard", "used") for problem in _amounts(status.get(member) or {}, _STATUS.child(member))]


def _amounts(amounts: Mapping[str, str], path: Path) -> Iterator[FieldError]:
    for name in sorted(amounts):
        where, amount = path.key(name), quantity.parse(amounts[name])
        yield from quota_resource_problems(name, where)
        if amount.sign() < 0:
            yield invalid(where, amounts[name], "must be greater than or equal to 0")
        if (name in INTEGERS or is_extended(name)) and amount.rounded(-3) % 1000:
            yield invalid(where, amounts[name], "must be an integer")


def _scopes(scopes: Iterable[str], shown: object, names: Iterable[str]) -> Iterator[FieldError]:
    path = _SPEC.child("scopes")
    for scope in scopes:
        if scope not in SCOPES:
            yield invalid(path, shown, "unsupported scope")
        yield from (invalid(path, shown, text) for text in _misfits(scope, names))
    yield from _contradictions(set(scopes), path, shown)


def _misfits(scope: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if is_standard_quota(name) and not goes_with_scope(name, scope):
            yield "unsupported scope applied to resource"


def _contradictions(scopes: set[str], path: Path, shown: object) -> Iterator[FieldError]:
    for pair in _PAIRS:
        if pair <= scopes:
            yield invalid(path, shown, "conflicting scopes")


def _selector(
    expressions: Iterable[JSONMapping], selector: JSONMapping, scopes: list[str], names: Iterable[str]
) -> Iterator[FieldError]:
    path = _SPEC.child("scopeSelector", "matchExpressions")
    for each in expressions:
        scope, operator = each.get("scopeName") or "", each.get("operator") or ""
        values = each.get("values") or []
        if scope not in SCOPES:
            yield invalid(path.child("scopeName"), scope, "unsupported scope")
        yield from (invalid(path, _as_go(selector), text) for text in _misfits(scope, names))
        if scope in SCOPES - _WITH_VALUES and operator != "Exists":
            yield invalid(path.child("operator"), operator, _ONLY_EXISTS)
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(path.child("values"), detail)
        elif operator in ("DoesNotExist", "Exists"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield invalid(path.child("values"), values, detail)
        else:
            yield invalid(path.child("operator"), operator, "not a valid selector operator")
    yield from _contradictions({each.get("scopeName") or "" for each in expressions}, path, scopes or None)


def _as_go(selector: JSONMapping) -> RawJSON:
    """The selector as upstream shows it: with the names of its internal struct."""
    shown = [
        f'{{"ScopeName":{to_json(each.get("scopeName") or "")},"Operator":{to_json(each.get("operator") or "")},'
        f'"Values":{to_json(each.get("values") or None)}}}'
        for each in selector.get("matchExpressions") or ()
    ]
    return RawJSON(f'{{"MatchExpressions":[{",".join(shown)}]}}')


def quota_warnings(quota: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
    """Of a new quota: whose requests are larger than its limits."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    for name in _WARNED if old is None else ():
        request, limit = f"requests.{name}", f"limits.{name}"
        if request not in hard and name in ("cpu", "memory"):
            request = name
        if request in hard and limit in hard and quantity.parse(hard[request]).compare(quantity.parse(hard[limit])) > 0:
            yield f"ResourceQuota {request} ({hard[request]}) should be less than {limit} ({hard[limit]})"
