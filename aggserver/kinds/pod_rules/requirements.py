"""The resources that containers and Pods request: names, amounts, and requests within limits.

Upstream walks maps, so its errors of several resources come in any order; here they come by name.
Pure. Source: validateResourceRequirements and validatePodResources in k8s.io/kubernetes pkg/apis/core/validation/validation.go,
v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from aggserver.kinds.pod_rules.texts import named, not_found
from aggserver.kinds.resource_names import (
    INTEGERS,
    container_resource_problems,
    is_extended,
    may_overcommit,
    resource_problems,
)
from aggserver.kinds.resources import is_huge_pages, pod_limits, pod_requests
from aggserver.meta import quantity
from aggserver.meta.field import FieldError, Path, duplicate, forbidden, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_label

__all__ = ["overhead_problems", "pod_resource_problems", "requirement_problems"]

_Rule = Callable[[str, Path], Iterator[FieldError]]
_BASIC = ("cpu", "memory")
_OF_PODS = ("cpu", "hugepages-", "memory")


def requirement_problems(resources: JSONMapping, claims: Collection[str], path: Path) -> Iterator[FieldError]:
    """The errors of a container's resources. claims: the names of the Pod's resource claims."""
    yield from _requirements(resources, container_resource_problems, path)
    yield from _claims(resources.get("claims") or (), claims, path.child("claims"))


def overhead_problems(overhead: JSONMapping, path: Path) -> Iterator[FieldError]:
    yield from _requirements({"limits": overhead}, container_resource_problems, path)


def _requirements(resources: JSONMapping, rule: _Rule, path: Path) -> Iterator[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in sorted(limits):
        where, amount = path.child("limits").key(name), str(limits[name])
        yield from rule(name, where)
        yield from _amount(name, amount, where)
        yield from _huge(name, amount, where)
    for name in sorted(requests):
        where, amount = path.child("requests").key(name), str(requests[name])
        yield from rule(name, where)
        yield from _amount(name, amount, where)
        yield from _within(name, amount, limits, path)
        yield from _huge(name, amount, where)
    names = limits.keys() | requests.keys()
    if any(map(is_huge_pages, names)) and names.isdisjoint(_BASIC):
        yield forbidden(path, "HugePages require cpu or memory")


def _amount(name: str, amount: str, path: Path) -> Iterator[FieldError]:
    number = quantity.parse(amount)
    if number.sign() < 0:
        yield invalid(path, quantity.canonical(amount), "must be greater than or equal to 0")
    if (name in INTEGERS or is_extended(name)) and not _is_whole(number):
        yield invalid(path, quantity.canonical(amount), "must be an integer")


def _is_whole(number: quantity.Quantity) -> bool:
    return number.scale >= 0 or number.value % 10**-number.scale == 0


def _huge(name: str, amount: str, path: Path) -> Iterator[FieldError]:
    if not is_huge_pages(name):
        return
    try:
        size = quantity.parse(name.removeprefix("hugepages-"))
    except ValueError:
        size = quantity.Quantity(0)
    number = quantity.parse(amount)
    whole = _integer(size)
    if size.sign() <= 0 or number.sign() < 0 or not whole or _integer(number) % whole:
        shown = quantity.canonical(amount)
        yield invalid(path, shown, f"{shown} is not positive integer multiple of {name}")


def _integer(number: quantity.Quantity) -> int:
    """Rounded up, as Go's Quantity.Value."""
    if number.scale < 0:
        return -(-number.value // int(10**-number.scale))
    return number.value * int(10**number.scale)


def _within(name: str, amount: str, limits: JSONMapping, path: Path) -> Iterator[FieldError]:
    limit = limits.get(name)
    if limit is None:
        if not may_overcommit(name):
            yield required(path.child("limits"), "Limit must be set for non overcommitable resources")
        return
    order = quantity.parse(amount).compare(quantity.parse(str(limit)))
    shown, most = quantity.canonical(amount), quantity.canonical(str(limit))
    if order and not may_overcommit(name):
        yield invalid(path.child("requests"), shown, f"must be equal to {name} limit of {most}")
    elif order > 0:
        yield invalid(path.child("requests"), shown, f"must be less than or equal to {name} limit of {most}")


def _claims(claims: Sequence[JSONMapping], known: Collection[str], path: Path) -> Iterator[FieldError]:
    seen = set[str]()  # names, and name/request
    requests: dict[str, int] = {}
    for index, claim in enumerate(claims):
        where, name, request = path.index(index), claim.get("name") or "", claim.get("request") or ""
        if not name:
            yield required(where)
            continue
        key = f"{name}/{request}" if request else name
        if name in seen:
            yield duplicate(where, name)
        else:
            if request:
                yield from named(where.child("request"), request, dns1123_label)
            if key in seen:
                yield duplicate(where, key)
            elif request:
                requests[name] = requests.get(name, 0) + 1
            else:
                yield from (duplicate(where, name) for _ in range(requests.get(name, 0)))
            seen.add(key)
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            yield not_found(where, name, f"must be one of the names in pod.spec.resourceClaims{listed}")


# --- of a whole Pod ---


def pod_resource_problems(spec: JSONMapping, path: Path) -> Iterator[FieldError]:
    """The errors of the resources of the Pod itself."""
    resources, where = spec.get("resources"), path.child("resources")
    if resources is None:
        return
    if (spec.get("os") or {}).get("name") == "windows":
        yield forbidden(where, "may not be set for a windows pod")
        return
    if resources.get("claims") is not None:
        yield forbidden(where.child("claims"), "claims may not be set for Resources at pod-level")
    yield from _requirements(resources, _pod_resource, where)
    known = {claim.get("name") for claim in spec.get("resourceClaims") or () if claim.get("name")}
    yield from _claims(resources.get("claims") or (), known, where.child("claims"))
    yield from _consistent(spec, resources, where)


def _pod_resource(name: str, path: Path) -> Iterator[FieldError]:
    problems = list(resource_problems(name, path))
    yield from problems
    if not problems and name not in _BASIC and not is_huge_pages(name):
        yield not_supported(path, name, _OF_PODS)


def _consistent(spec: JSONMapping, resources: JSONMapping, path: Path) -> Iterator[FieldError]:
    for which, totals in (("requests", pod_requests(spec)), ("limits", pod_limits(spec))):
        own = resources.get(which) or {}
        for name in sorted(totals):
            if name in own and (which == "requests" or is_huge_pages(name)) and _is_more(totals[name], own[name]):
                text = f"must be greater than or equal to aggregate container {which} of {quantity.canonical(totals[name])}"
                yield invalid(path.child(which).key(name), quantity.canonical(str(own[name])), text)
    limits = resources.get("limits") or {}
    for index, container in enumerate(spec.get("containers") or ()):
        amounts = (container.get("resources") or {}).get("limits") or {}
        for name in sorted(amounts):
            if name in limits and _is_more(amounts[name], limits[name]):
                text = f"must be less than or equal to pod limits of {quantity.canonical(str(limits[name]))}"
                where = path.child("containers").index(index).key(name).child("limits")
                yield invalid(where, quantity.canonical(str(amounts[name])), text)


def _is_more(amount: str, than: str) -> bool:
    return quantity.parse(str(amount)).compare(quantity.parse(str(than))) > 0
