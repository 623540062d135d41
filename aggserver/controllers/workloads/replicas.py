"""Plans for ReplicaSets and ReplicationControllers, which differ in their selectors only.

Pure. Source: k8s.io/kubernetes pkg/controller/replicaset/{replica_set,replica_set_utils}.go, pkg/controller/replication, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aggserver.controllers.workloads.plan import (
    Plan,
    availability,
    burst,
    is_active,
    is_ready,
    pod_from,
    terminating,
    without_zeros,
)
from aggserver.meta import times
from aggserver.meta.json_types import JSONObject

__all__ = ["FAILURE", "replicas"]

FAILURE = "ReplicaFailure"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = ("Pending", "Unknown", "Running")


def replicas(owner: JSONObject, pods: Sequence[JSONObject], now: float) -> Plan:
    """The plan for a ReplicaSet or a ReplicationController. pods: those that it controls. now: seconds since the epoch."""
    spec = owner["spec"]
    template = spec.get("template") or {"spec": {}}
    active = [pod for pod in pods if is_active(pod)]
    wanted = spec.get("replicas", 1)
    plan = Plan(
        create=[pod_from(owner, template) for _ in range(min(wanted - len(active), burst(len(active))))],
        delete=_first_to_go(active, len(active) - wanted) if len(active) > wanted else [],
    )
    available, plan.again = availability(active, spec.get("minReadySeconds", 0), now)
    labels = (template.get("metadata") or {}).get("labels") or {}
    conditions = (owner.get("status") or {}).get("conditions") or ()
    others = [entry for entry in conditions if entry["type"] != FAILURE]
    plan.status = {
        "replicas": len(active),
        **without_zeros(
            fullyLabeledReplicas=sum((pod["metadata"].get("labels") or {}).items() >= labels.items() for pod in active),
            readyReplicas=sum(map(is_ready, active)),
            availableReplicas=available,
        ),
        "observedGeneration": owner["metadata"].get("generation", 0),
        "conditions": others or None,
    }
    if owner["kind"] == "ReplicaSet":
        plan.status["terminatingReplicas"] = terminating(pods)

    def failed(reason: str, message: str) -> JSONObject:
        if any(entry["type"] == FAILURE for entry in conditions):  # it says what failed first
            return {**plan.status, "conditions": list(conditions)}
        entry = {"type": FAILURE, "status": "True", "reason": reason, "message": message}
        return {**plan.status, "conditions": [*others, {**entry, "lastTransitionTime": times.format_time(now)}]}

    plan.failed = failed
    return plan


def _first_to_go(pods: Iterable[JSONObject], count: int) -> list[JSONObject]:
    """The Pods to delete: those first that are not bound, not running or not ready, then the cheapest, then the newest."""
    newest = sorted(pods, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]), reverse=True)
    return sorted(newest, key=_rank)[:count]


def _rank(pod: JSONObject) -> tuple[bool, int, bool, int]:
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    cost = (pod["metadata"].get("annotations") or {}).get(_DELETION_COST, "")
    digits = cost.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 10
    place = _PHASES.index(phase) if phase in _PHASES else 0
    return bool(pod["spec"].get("nodeName")), place, is_ready(pod), int(cost) if is_number else 0
