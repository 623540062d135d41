"""The condition Progressing of a Deployment, and when it is too late for it to be True.

Pure. Source: k8s.io/kubernetes pkg/controller/deployment/{progress,sync}.go, pkg/controller/deployment/util/deployment_util.go,
v1.36.3.
"""

from __future__ import annotations

from typing import NamedTuple

from aggserver.meta import times
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["Progress", "announced", "progress_of", "with_condition"]

TYPE = "Progressing"
_NO_DEADLINE = 2**31 - 1
_COMPLETE, _LATE, _PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"
_SECOND = 1.0  # that times in the status leave out


class Progress(NamedTuple):
    """conditions: with Progressing. again: seconds until the deadline, None if it does not matter."""

    conditions: list[JSONObject]
    again: float | None


def with_condition(conditions: list[JSONObject], wanted: JSONMapping, now: float) -> list[JSONObject]:
    """The conditions, with another one at their end, unless there is one of its type with its status and reason. now: seconds."""
    before = next((each for each in conditions if each["type"] == wanted["type"]), {})
    if (before.get("status"), before.get("reason")) == (wanted["status"], wanted["reason"]):
        return conditions
    return _put(conditions, wanted, now)


def _put(conditions: list[JSONObject], wanted: JSONMapping, now: float) -> list[JSONObject]:
    stamp, others = times.format_time(now), [each for each in conditions if each["type"] != wanted["type"]]
    before = next((each for each in conditions if each["type"] == wanted["type"]), {})
    since = before.get("lastTransitionTime", stamp) if before.get("status") == wanted["status"] else stamp
    return [*others, {**wanted, "lastTransitionTime": since, "lastUpdateTime": stamp}]


def announced(owner: JSONObject, conditions: list[JSONObject], created: str, current: str, now: float) -> list[JSONObject]:
    """The conditions, with Progressing as it is before any progress: paused, resumed, or with another ReplicaSet.

    created, current: the names of the ReplicaSet that is being created, and of the present one; '' for none. now: seconds since
    the epoch.
    """
    if _deadline(owner) == _NO_DEADLINE:
        return conditions
    reason = _of(conditions).get("reason")
    if owner["spec"].get("paused"):
        paused = _condition("Unknown", _PAUSED, "Deployment is paused")
        return conditions if reason == _LATE else with_condition(conditions, paused, now)
    if reason == _PAUSED:
        conditions = with_condition(conditions, _condition("Unknown", "DeploymentResumed", "Deployment is resumed"), now)
    if created:
        text = f'Created new replica set "{created}"'
        return with_condition(conditions, _condition("True", "NewReplicaSetCreated", text), now)
    if current and not reason:
        text = f'Found new replica set "{current}"'
        return with_condition(conditions, _condition("True", "FoundNewReplicaSet", text), now)
    return conditions


def progress_of(owner: JSONObject, counts: JSONMapping, conditions: list[JSONObject], current: str, now: float) -> Progress:
    """The conditions with Progressing as it is now. conditions: as `announced`. counts: of the new status."""
    spec, name, deadline = owner["spec"], owner["metadata"]["name"], _deadline(owner)
    if deadline == _NO_DEADLINE:
        return Progress([each for each in conditions if each["type"] != TYPE], None)
    if spec.get("paused"):
        return Progress(conditions, None)
    subject = f'ReplicaSet "{current}"' if current else f'Deployment "{name}"'
    found, old, wanted = _of(conditions), owner.get("status") or {}, spec.get("replicas", 1)
    is_complete = all(_count(counts, each) == wanted for each in ("updatedReplicas", "replicas", "availableReplicas"))
    if _count(counts, "replicas") == _count(counts, "updatedReplicas") and found.get("reason") == _COMPLETE:
        return Progress(conditions, None)
    if is_complete:
        return Progress(
            with_condition(conditions, _condition("True", _COMPLETE, f"{subject} has successfully progressed."), now), None
        )
    if _progresses(old, counts):
        # Also if it says so already: the deadline counts from the last progress.
        conditions = _put(conditions, _condition("True", "ReplicaSetUpdated", f"{subject} is progressing."), now)
    found = _of(conditions)
    if not found or found.get("reason") in (_COMPLETE, _LATE):
        return Progress(conditions, None)
    left = times.parse_frequent_time(found.get("lastUpdateTime") or times.format_time(now)) + deadline - now
    if left < 0:
        return Progress(
            with_condition(conditions, _condition("False", _LATE, f"{subject} has timed out progressing."), now), None
        )
    return Progress(conditions, left + _SECOND)


def _deadline(owner: JSONObject) -> int:
    return int(owner["spec"].get("progressDeadlineSeconds", _NO_DEADLINE))


def _of(conditions: list[JSONObject]) -> JSONObject:
    return next((each for each in conditions if each["type"] == TYPE), {})


def _condition(status: str, reason: str, message: str) -> JSONObject:
    return {"type": TYPE, "status": status, "reason": reason, "message": message}


def _progresses(old: JSONMapping, new: JSONMapping) -> bool:
    """Whether there are more new Pods, fewer old ones, or more that are ready or available."""
    before = _count(old, "replicas") - _count(old, "updatedReplicas")
    more = any(_count(new, each) > _count(old, each) for each in ("updatedReplicas", "readyReplicas", "availableReplicas"))
    return more or _count(new, "replicas") - _count(new, "updatedReplicas") < before


def _count(status: JSONMapping, name: str) -> int:
    return int(status.get(name) or 0)
