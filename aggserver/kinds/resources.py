"""The resources of a Pod: the total requests and limits of its containers, and its QoS class.

Pure. Source: k8s.io/component-helpers resource/helpers.go, k8s.io/kubernetes pkg/apis/core/v1/helper/qos/qos.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aggserver.meta import quantity
from aggserver.meta.json_types import JSONMapping

__all__ = ["is_huge_pages", "larger", "pod_limits", "pod_requests", "qos_class"]

_Amounts = dict[str, str]
_QOS_RESOURCES = ("cpu", "memory")


def is_huge_pages(name: str) -> bool:
    return name.startswith("hugepages-")


def pod_requests(spec: JSONMapping) -> _Amounts:
    """The most that the Pod requests at the same time, by resource."""
    return _aggregated(spec, "requests")


def pod_limits(spec: JSONMapping) -> _Amounts:
    return _aggregated(spec, "limits")


def _aggregated(spec: JSONMapping, which: str) -> _Amounts:
    """The largest total at any time: init containers run one after the other before the containers, and restartable ones go on
    beside all later ones.
    """
    total = _sum(_amounts(each, which) for each in (spec.get("containers") or ()))
    beside: _Amounts = {}
    highest: _Amounts = {}
    for container in spec.get("initContainers") or ():
        now = _sum((_amounts(container, which), beside))
        if container.get("restartPolicy") == "Always":
            total = _sum((total, _amounts(container, which)))
            beside = now
        highest = larger(highest, now)
    return larger(total, highest)


def _amounts(container: JSONMapping, which: str) -> Mapping[str, str]:
    found: Mapping[str, str] = (container.get("resources") or {}).get(which) or {}
    return found


def _sum(lists: Iterable[Mapping[str, str]]) -> _Amounts:
    total: _Amounts = {}
    for amounts in lists:
        for name, amount in amounts.items():
            if name in total:
                amount = quantity.text(quantity.parse(total[name]).add(quantity.parse(amount)), total[name])
            total[name] = amount
    return total


def larger(left: Mapping[str, str], right: Mapping[str, str]) -> _Amounts:
    """Of each resource the larger amount."""
    larger = dict(left)
    for name, amount in right.items():
        if name not in larger or quantity.parse(amount).compare(quantity.parse(larger[name])) > 0:
            larger[name] = amount
    return larger


def qos_class(spec: JSONMapping) -> str:
    """BestEffort, Burstable or Guaranteed, for a Pod with defaults."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    holders = containers if spec.get("resources") is None else [spec]
    requests = _sum(_positive(_amounts(each, "requests")) for each in holders)
    limits = [_positive(_amounts(each, "limits")) for each in holders]
    total = _sum(limits)
    if not requests and not total:
        return "BestEffort"
    is_limited = all(each.keys() >= set(_QOS_RESOURCES) for each in limits)
    is_same = requests.keys() == total.keys() and all(_is_equal(requests[name], total[name]) for name in requests)
    return "Guaranteed" if is_limited and is_same else "Burstable"


def _positive(amounts: Mapping[str, str]) -> _Amounts:
    return {name: amounts[name] for name in _QOS_RESOURCES if name in amounts and quantity.parse(amounts[name]).sign() > 0}


def _is_equal(left: str, right: str) -> bool:
    return quantity.parse(left).compare(quantity.parse(right)) == 0
