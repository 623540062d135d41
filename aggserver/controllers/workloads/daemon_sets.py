"""Plans for DaemonSets: a Pod for each node that the template's node selector and tolerations permit.

A Pod names its node by an affinity, so that a Pod that was not bound yet is gone as soon as it is deleted.
Pure. Source: k8s.io/kubernetes pkg/controller/daemon/{daemon_controller,update}.go, pkg/controller/daemon/util, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aggserver.controllers.workloads.plan import (
    REVISION_LABEL,
    Plan,
    availability,
    burst,
    is_active,
    is_ready,
    pod_from,
    soonest,
    without_zeros,
)
from aggserver.controllers.workloads.revisions import hash_of, newest_revision, truncate
from aggserver.meta.json_types import JSONObject

__all__ = ["daemon_set", "node_of", "scheduling"]

_GENERATION = "deprecated.daemonset.template.generation"
# What the Pods of DaemonSets tolerate, and those of the host's network.
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_HOST_TOLERATED = (("network-unavailable", "NoSchedule"),)


def daemon_set(
    owner: JSONObject, pods: Sequence[JSONObject], revisions: Sequence[JSONObject], nodes: Iterable[JSONObject], now: float
) -> Plan:
    """The plan for a DaemonSet. pods, revisions: those that it controls. nodes: all. now: seconds since the epoch."""
    spec, plan = owner["spec"], Plan()
    template, seconds = spec["template"], spec.get("minReadySeconds", 0)
    update = newest_revision(owner, revisions, plan)
    digest = hash_of(update)
    tolerations = _tolerations(template["spec"])
    wanted = {node["metadata"]["name"]: None for node in nodes if _may_run(template["spec"], tolerations, node)}
    by_node: dict[str, list[JSONObject]] = {}
    for pod in pods:
        if is_active(pod):
            by_node.setdefault(node_of(pod), []).append(pod)
        elif (pod.get("status") or {}).get("phase") == "Failed" and "deletionTimestamp" not in pod["metadata"]:
            plan.delete.append(pod)
    counts = dict.fromkeys(("current", "ready", "available", "updated"), 0)
    outdated: list[tuple[JSONObject, bool]] = []
    waits: list[float | None] = []
    most = burst(len(pods))
    for node in wanted:
        found = sorted(by_node.get(node, ()), key=lambda pod: (not is_ready(pod), pod["metadata"].get("creationTimestamp", "")))
        if not found:
            if len(plan.create) < most:
                plan.create.append(_pod(owner, tolerations, node, digest))
            continue
        pod, *surplus = found
        plan.delete += surplus
        available, wait = availability([pod], seconds, now)
        is_new = (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) == digest
        waits.append(wait)
        counts["current"] += 1
        counts["ready"] += is_ready(pod)
        counts["available"] += available
        counts["updated"] += is_new
        if not is_new:
            outdated.append((pod, bool(available)))
    misplaced = [pod for node, found in by_node.items() if node not in wanted for pod in found]
    plan.delete += misplaced
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") != "OnDelete":
        # Old Pods that are not available may go at once, others while no more than maxUnavailable are missing.
        spare = _most_unavailable(strategy, len(wanted)) - (len(wanted) - counts["available"])
        plan.delete += [pod for pod, is_available in outdated if not is_available]
        plan.delete += [pod for pod, is_available in outdated if is_available][: max(spare, 0)]
    plan.again = soonest(*waits)
    plan.status = {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "desiredNumberScheduled": len(wanted),
        "currentNumberScheduled": counts["current"],
        "numberMisscheduled": len({node_of(pod) for pod in misplaced}),
        "numberReady": counts["ready"],
        **without_zeros(
            numberAvailable=counts["available"],
            numberUnavailable=len(wanted) - counts["available"],
            updatedNumberScheduled=counts["updated"],
        ),
    }
    live = {(pod["metadata"].get("labels") or {}).get(REVISION_LABEL) for pod in pods}
    kept = {each["metadata"]["name"] for each in revisions if hash_of(each) in live}
    truncate(owner, revisions, {update["metadata"]["name"], *kept}, plan)
    return plan


def node_of(pod: JSONObject) -> str:
    """The name of the node that a Pod is bound to, or that its affinity names; '' for none."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for entry in term.get("matchFields") or ():
            if entry["key"] == "metadata.name" and entry.get("values"):
                return str(entry["values"][0])
    return ""


def scheduling(node: JSONObject) -> tuple[Any, ...]:
    """What decides which DaemonSets have a Pod on a node. Nodes change all the time, but this rarely does."""
    spec = node.get("spec") or {}
    return node["metadata"].get("labels"), spec.get("taints")


def _pod(owner: JSONObject, tolerations: list[JSONObject], node: str, digest: str) -> JSONObject:
    labels = {REVISION_LABEL: digest}
    if generation := (owner["metadata"].get("annotations") or {}).get(_GENERATION):
        labels["pod-template-generation"] = generation
    pod = pod_from(owner, owner["spec"]["template"], labels=labels)
    spec = pod["spec"]
    affinity = {**(spec.get("affinity") or {})}
    required = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}
    affinity["nodeAffinity"] = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    }
    spec["affinity"], spec["tolerations"] = affinity, tolerations
    return pod


def _tolerations(spec: JSONObject) -> list[JSONObject]:
    tolerated = (*_TOLERATED, *(_HOST_TOLERATED if spec.get("hostNetwork") else ()))
    added = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in tolerated]
    given = list(spec.get("tolerations") or ())
    return [*given, *(each for each in added if each not in given)]


def _may_run(spec: JSONObject, tolerations: Sequence[JSONObject], node: JSONObject) -> bool:
    labels, placed = node["metadata"].get("labels") or {}, node.get("spec") or {}
    if spec.get("nodeName", node["metadata"]["name"]) != node["metadata"]["name"]:
        return False
    if not labels.items() >= (spec.get("nodeSelector") or {}).items():
        return False
    taints = [(each["key"], each.get("value", ""), each["effect"]) for each in placed.get("taints") or ()]
    # `unschedulable` is tolerated, like the taint that it stands for.
    return all(effect == "PreferNoSchedule" or _is_tolerated(key, value, effect, tolerations) for key, value, effect in taints)


def _is_tolerated(key: str, value: str, effect: str, tolerations: Sequence[JSONObject]) -> bool:
    return any(
        each.get("effect") in (None, "", effect)
        and each.get("key") in (None, "", key)
        and (each.get("operator") == "Exists" or each.get("value", "") == value)
        for each in tolerations
    )


def _most_unavailable(strategy: JSONObject, nodes: int) -> int:
    rolling = strategy.get("rollingUpdate") or {}
    value: Any = rolling.get("maxUnavailable", 1)
    if isinstance(value, str):
        value = -(-nodes * int(value.rstrip("%")) // 100)
    return max(int(value), 1)
