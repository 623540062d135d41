"""The status of a PodDisruptionBudget: how many Pods are healthy, how many must be, and how many may be disrupted.

Pure. Source: k8s.io/kubernetes pkg/controller/disruption/disruption.go, v1.36.3; k8s.io/component-helpers
apps/poddisruptionbudget/helpers.go, v0.36.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from aggserver.controllers.pod_facts import Pod
from aggserver.meta import times
from aggserver.meta.json_types import JSONObject

__all__ = ["Decision", "decided", "failed", "needs_scale", "scaled"]

# Seconds within which a Pod that was evicted is expected to be marked as being deleted.
DELETION_TIMEOUT = 120.0
_CONDITION = "DisruptionAllowed"


class Decision(NamedTuple):
    """status: what it should be. recheck: seconds until it changes by itself, None if it does not. late: the names of Pods that
    were evicted and are not being deleted.
    """

    status: JSONObject
    recheck: float | None
    late: tuple[str, ...]


def needs_scale(spec: JSONObject) -> bool:
    """Whether the budget is of what the Pods' controllers want, and not of the Pods that there are."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def scaled(value: int | str, total: int) -> int:
    """A number, or a percentage of the total, rounded up. Raises ValueError for what is neither, with upstream's text."""
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    if digits == value or not digits.isascii() or not digits.isdecimal():
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    return -(-int(digits) * total // 100)


def decided(budget: JSONObject, pods: Iterable[Pod], scale: int, now: float) -> Decision:
    """pods: that the budget selects. scale: how many Pods their controllers want, if `needs_scale`. now: seconds since the epoch.

    Raises ValueError if the spec has a text that is no percentage.
    """
    spec, status, pods = budget["spec"], budget.get("status") or {}, list(pods)
    disrupted, late, until = _disrupted(status.get("disruptedPods") or {}, pods, now)
    healthy = sum(1 for pod in pods if pod.is_ready and not pod.is_terminating and pod.name not in disrupted)
    expected, desired = scale if needs_scale(spec) else len(pods), 0
    if spec.get("maxUnavailable") is not None:
        desired = max(0, expected - scaled(spec["maxUnavailable"], expected))
    elif spec.get("minAvailable") is not None:
        desired = scaled(spec["minAvailable"], expected)
    else:
        expected = 0
    allowed = max(0, healthy - desired) if expected > 0 else 0
    generation = budget["metadata"].get("generation") or 0
    found: JSONObject = {
        "observedGeneration": generation,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        **({"disruptedPods": disrupted} if disrupted else {}),
    }
    outcome = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    found["conditions"] = _conditions(status, *outcome, "", generation, now)
    return Decision(found, None if math.isinf(until) else max(0.0, until - now), late)


def failed(budget: JSONObject, why: str, now: float) -> JSONObject:
    """The status of a budget that could not be computed: nothing may be disrupted."""
    status = budget.get("status") or {}
    conditions = _conditions(status, "False", "SyncFailed", why, status.get("observedGeneration") or 0, now)
    return {**status, "disruptionsAllowed": 0, "conditions": conditions}


def _disrupted(given: Mapping[str, str], pods: Iterable[Pod], now: float) -> tuple[dict[str, str], tuple[str, ...], float]:
    """The Pods that were evicted and will soon be deleted, those that should have been, and when the first of those is late."""
    disrupted: dict[str, str] = {}
    late: list[str] = []
    until = math.inf
    for pod in pods if given else ():
        if pod.is_terminating or pod.name not in given:
            continue
        end = times.parse_time(given[pod.name]) + DELETION_TIMEOUT
        if end <= now:
            late.append(pod.name)
        else:
            disrupted[pod.name] = given[pod.name]
            until = min(until, end)
    return disrupted, tuple(late), until


def _conditions(status: JSONObject, state: str, reason: str, message: str, generation: int, now: float) -> list[JSONObject]:
    """The conditions with DisruptionAllowed set, whose time changes only with its state."""
    conditions = list(status.get("conditions") or ())
    index = next((index for index, each in enumerate(conditions) if each.get("type") == _CONDITION), None)
    old = {} if index is None else conditions[index]
    since = old.get("lastTransitionTime") if old.get("status") == state else None
    new = {
        "type": _CONDITION,
        "status": state,
        "observedGeneration": generation,
        "lastTransitionTime": since or times.format_time(now),
        "reason": reason,
        "message": message,
    }
    if index is None:
        return [*conditions, new]
    conditions[index] = new
    return conditions
