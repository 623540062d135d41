"""LimitRanger: gives containers the default requests and limits of their namespace, and refuses what is beyond its limits.

The LimitRanges of a namespace are taken by name, where upstream takes them in the order of chance.
Source: k8s.io/kubernetes plugin/pkg/admission/limitranger/admission.go, v1.36.3, also for error texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from aggserver.admission.chain import CREATE, UPDATE, Attributes, forbidden
from aggserver.admission.sources import Collection
from aggserver.kinds.limit_range_rules import MOST_MILLI
from aggserver.kinds.resources import pod_limits, pod_requests
from aggserver.meta import quantity
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.quantity import Quantity

__all__ = ["LimitRanger", "set_defaults", "violations"]

ANNOTATION = "kubernetes.io/limit-ranger"
# What may be given for a Pod as a whole, in place of the sum of its containers.
_OF_WHOLE_PODS = frozenset({"cpu", "memory"})
_ZERO = Quantity(0)

_Amounts = Mapping[str, str]


class LimitRanger:
    """The plugin. ranges: the LimitRanges of all namespaces."""

    def __init__(self, ranges: Collection) -> None:
        self._ranges = ranges

    def concerns(self, attributes: Attributes) -> bool:
        if not self._ranges.within(attributes.namespace) or attributes.resource.group:
            return False
        if attributes.resource.resource == "pods":
            is_resized = attributes.subresource == "resize" and attributes.operation == UPDATE
            return is_resized or (not attributes.subresource and attributes.operation == CREATE)
        return attributes.resource.resource == "persistentvolumeclaims" and not attributes.subresource

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        if obj is None or attributes.resource.resource != "pods" or _is_leaving(old):
            return False
        changed = False
        for each in self._of(attributes):
            changed = set_defaults(obj, each) or changed
        return changed

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if obj is None or _is_leaving(old):
            return
        for each in self._of(attributes):
            if found := list(dict.fromkeys(violations(attributes.resource.resource, obj, each))):
                raise forbidden(attributes, obj, found[0] if len(found) == 1 else f"[{', '.join(found)}]")

    def _of(self, attributes: Attributes) -> Iterable[Iterable[JSONObject]]:
        """The limits of each LimitRange in the namespace, for one object."""
        known = self._ranges.within(attributes.namespace)
        return [(known[name].get("spec") or {}).get("limits") or () for name in sorted(known)]


def _is_leaving(old: JSONObject | None) -> bool:
    return old is not None and "deletionTimestamp" in old["metadata"]


def set_defaults(pod: JSONObject, limits: Iterable[JSONObject]) -> bool:
    """Add the defaults of a LimitRange to a Pod, and an annotation that says which. Returns whether there were any to add."""
    requests: dict[str, str] = {}
    most: dict[str, str] = {}
    for limit in limits:
        if limit.get("type") == "Container":
            requests |= limit.get("defaultRequest") or {}
            most |= limit.get("default") or {}
    said: list[str] = []
    for member, what in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(member) or ():
            said += _set(container, what, requests=requests, limits=most)
    if said:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: f"LimitRanger plugin set: {'; '.join(said)}"}
    return bool(said)


def _set(container: JSONObject, what: str, **defaults: _Amounts) -> Iterator[str]:
    """Add what a container lacks, and say so."""
    for member, amounts in defaults.items():
        resources = container.get("resources") or {}
        given = resources.get(member) or {}
        if missing := sorted(amounts.keys() - given.keys()):
            container["resources"] = {**resources, member: {**given, **{name: amounts[name] for name in missing}}}
            yield f"{', '.join(missing)} {member.removesuffix('s')} for {what} {container.get('name', '')}"


def violations(resource: str, obj: JSONObject, limits: Iterable[JSONObject]) -> Iterator[str]:
    """What is wrong with an object by the limits of one LimitRange. resource: pods or persistentvolumeclaims."""
    spec = obj["spec"]
    for limit in limits:
        of = limit.get("type") or ""
        if resource == "persistentvolumeclaims":
            if of == "PersistentVolumeClaim":
                yield from _claim_violations(limit, (spec.get("resources") or {}).get("requests") or {})
        elif of == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                resources = container.get("resources") or {}
                yield from _violations(of, limit, resources.get("requests") or {}, resources.get("limits") or {})
        elif of == "Pod":
            whole = spec.get("resources") or {}
            given = (_of_whole(whole, "requests"), _of_whole(whole, "limits"))
            yield from _violations(of, limit, {**pod_requests(spec), **given[0]}, {**pod_limits(spec), **given[1]})


def _of_whole(resources: JSONMapping, member: str) -> _Amounts:
    return {name: amount for name, amount in (resources.get(member) or {}).items() if name in _OF_WHOLE_PODS}


def _claim_violations(limit: JSONObject, requests: _Amounts) -> Iterator[str]:
    of = "PersistentVolumeClaim"
    for name, least in sorted((limit.get("min") or {}).items()):
        yield from _too_small(of, name, least, requests, {})
    for name, most in sorted((limit.get("max") or {}).items()):
        head = f"maximum {name} usage per {of} is {most}"
        if name not in requests:
            yield f"{head}.  No request is specified"
        elif _compared(requests[name], None, most)[0] > 0:
            yield f"{head}, but request is {requests[name]}"


def _violations(of: str, limit: JSONObject, requests: _Amounts, limits: _Amounts) -> Iterator[str]:
    for name, least in sorted((limit.get("min") or {}).items()):
        yield from _too_small(of, name, least, requests, limits)
    for name, most in sorted((limit.get("max") or {}).items()):
        yield from _too_large(of, name, most, requests, limits)
    for name, ratio in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        yield from _out_of_ratio(of, name, ratio, requests.get(name), limits.get(name))


def _too_small(of: str, name: str, least: str, requests: _Amounts, limits: _Amounts) -> Iterator[str]:
    head = f"minimum {name} usage per {of} is {least}"
    if name not in requests:
        yield f"{head}.  No request is specified"
        return
    request, limit = _compared(requests[name], limits.get(name), least)
    if request < 0:
        yield f"{head}, but request is {requests[name]}"
    elif name in limits and limit < 0:
        yield f"{head}, but limit is {limits[name]}"


def _too_large(of: str, name: str, most: str, requests: _Amounts, limits: _Amounts) -> Iterator[str]:
    head = f"maximum {name} usage per {of} is {most}"
    if name not in limits:
        yield f"{head}.  No limit is specified"
        return
    request, limit = _compared(requests.get(name), limits[name], most)
    if limit > 0:
        yield f"{head}, but limit is {limits[name]}"
    elif name in requests and request > 0:
        yield f"{head}, but request is {requests[name]}"


def _out_of_ratio(of: str, name: str, ratio: str, request: str | None, limit: str | None) -> Iterator[str]:
    head = f"{name} max limit to request ratio per {of} is {ratio}"
    enforced = quantity.parse(ratio)
    low, high, _ = _same_precision(request, limit, enforced)
    if not low:
        yield f"{head}, but no request is specified or request is 0"
        return
    if not high:
        yield f"{head}, but no limit is specified or limit is 0"
        return
    observed, most = high / low, float(enforced.rounded(0))
    if enforced.rounded(0) <= MOST_MILLI:
        observed, most = observed * 1000, float(enforced.rounded(-3))
    if observed > most:
        yield f"{head}, but provided ratio is {high / low:f}"


def _compared(request: str | None, limit: str | None, enforced: str) -> tuple[int, int]:
    """How request and limit compare with the amount: negative if less. Those that are not given count as 0."""
    low, high, amount = _same_precision(request, limit, quantity.parse(enforced))
    return low - amount, high - amount


def _same_precision(request: str | None, limit: str | None, enforced: Quantity) -> tuple[int, int, int]:
    """The numbers in thousandths, rounded up, or as whole numbers if one is too large for that."""
    low, high = (_ZERO if text is None else quantity.parse(text) for text in (request, limit))
    scale = -3 if max(each.rounded(0) for each in (low, high, enforced)) <= MOST_MILLI else 0
    return low.rounded(scale), high.rounded(scale), enforced.rounded(scale)
