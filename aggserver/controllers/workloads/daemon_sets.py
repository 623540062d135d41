"""Plans for DaemonSets: a Pod for each node that the template's node selector, node affinity and tolerations permit.

A Pod names its node by an affinity, so that a Pod that was not bound yet is gone as soon as it is deleted.
Pure. Source: k8s.io/kubernetes pkg/controller/daemon/{daemon_controller,update}.go, pkg/controller/daemon/util, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aggserver.controllers.workloads.node_affinity import is_required, required_terms
from aggserver.controllers.workloads.plan import (
    REVISION_LABEL,
    Plan,
    availability,
    burst,
    is_active,
    is_ready,
    pod_from,
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


@dataclass(slots=True)
class _Node:
    """What a DaemonSet has on a node. runs, stays: whether its Pods may begin there, and go on. pods: the oldest first."""

    name: str
    runs: bool
    stays: bool
    pods: list[JSONObject]

    @property
    def kept(self) -> list[JSONObject]:
        """The Pods that are not being deleted."""
        return [pod for pod in self.pods if "deletionTimestamp" not in pod["metadata"]]


class _Versions(NamedTuple):
    """The new Pod of a node and the old one; None if there is none."""

    new: JSONObject | None
    old: JSONObject | None


def daemon_set(
    owner: JSONObject, pods: Sequence[JSONObject], revisions: Sequence[JSONObject], nodes: Iterable[JSONObject], now: float
) -> Plan:
    """The plan for a DaemonSet. pods, revisions: those that it controls. nodes: all. now: seconds since the epoch."""
    spec, plan = owner["spec"], Plan()
    template, seconds = spec["template"], spec.get("minReadySeconds", 0)
    update = newest_revision(owner, revisions, plan)
    digest = hash_of(update)
    tolerations = _tolerations(template["spec"])
    by_node: dict[str, list[JSONObject]] = {}
    for pod in sorted(pods, key=_age):
        if "deletionTimestamp" not in pod["metadata"] or (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded"):
            by_node.setdefault(node_of(pod), []).append(pod)
    here = [_node(template["spec"], tolerations, node, by_node.pop(node["metadata"]["name"], [])) for node in nodes]
    wanted = [node for node in here if node.runs]
    update_strategy = spec.get("updateStrategy") or {}
    surge, unavailable = _bounds(update_strategy, len(wanted))

    def is_available(pod: JSONObject) -> bool:
        return availability([pod], seconds, now)[0] == 1

    new_nodes = [node.name for node in wanted if not node.pods or (surge and not any(map(is_active, node.kept)))]
    for node in here:
        plan.delete += _gone(node, digest, is_available, surges=bool(surge))
    # In a cluster, the collector of Pods removes those of a node that is gone.
    plan.delete += [pod for found in by_node.values() for pod in found if "deletionTimestamp" not in pod["metadata"]]
    if not new_nodes and not plan.delete and update_strategy.get("type") != "OnDelete":
        if surge:
            new_nodes, plan.delete = _surged(here, digest, is_available, surge, len(wanted))
        else:
            plan.delete = _replaced(here, digest, is_available, unavailable)
    plan.create += [_pod(owner, tolerations, name, digest) for name in new_nodes[: burst(len(pods))]]
    _tell(plan, owner, here, digest, seconds, now)
    live = {(pod["metadata"].get("labels") or {}).get(REVISION_LABEL) for pod in pods}
    kept = {each["metadata"]["name"] for each in revisions if hash_of(each) in live}
    truncate(owner, revisions, {update["metadata"]["name"], *kept}, plan)
    return plan


def _tell(plan: Plan, owner: JSONObject, nodes: Sequence[_Node], digest: str, seconds: int, now: float) -> None:
    """Set the status of a plan, by the oldest Pod of each node, and when it has to be looked at again."""
    wanted = sum(node.runs for node in nodes)
    first = [node.pods[0] for node in nodes if node.runs and node.pods]
    available, plan.again = availability(first, seconds, now)
    plan.status = {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "desiredNumberScheduled": wanted,
        "currentNumberScheduled": len(first),
        "numberMisscheduled": sum(not node.runs and bool(node.pods) for node in nodes),
        "numberReady": sum(map(is_ready, first)),
        **without_zeros(
            numberAvailable=available,
            numberUnavailable=wanted - available,
            updatedNumberScheduled=sum(_is_new(pod, digest) for pod in first),
        ),
    }


def _age(pod: JSONObject) -> tuple[bool, str, str]:
    return not pod["spec"].get("nodeName"), pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]


def _is_new(pod: JSONObject, digest: str) -> bool:
    return (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) == digest


# --- what has to go, and how Pods are replaced ---


def _gone(node: _Node, digest: str, is_available: Callable[[JSONObject], bool], *, surges: bool) -> list[JSONObject]:
    """The Pods of a node that have ended, are too many or may not be there."""
    if not node.stays:
        return node.kept
    ended = [pod for pod in node.kept if not is_active(pod)]
    running = [pod for pod in node.kept if is_active(pod)]
    if not surges or len(running) < 2:
        return ended + running[1:]
    # Two are allowed as long as the old one is ready and the new one is not yet.
    new = next((pod for pod in running if _is_new(pod, digest)), None)
    old = next((pod for pod in running if not _is_new(pod, digest)), None)
    ended += [pod for pod in running if pod is not new and pod is not old]
    if new is not None and old is not None and (not is_ready(old) or is_available(new)):
        ended.append(old)
    return ended


def _versions(node: _Node, digest: str) -> _Versions | None:
    """None if it has several of one version, which go first."""
    new = [pod for pod in node.kept if _is_new(pod, digest)]
    old = [pod for pod in node.kept if not _is_new(pod, digest)]
    if len(new) > 1 or len(old) > 1:
        return None
    return _Versions(new[0] if new else None, old[0] if old else None)


def _replaced(
    nodes: Iterable[_Node], digest: str, is_available: Callable[[JSONObject], bool], unavailable: int
) -> list[JSONObject]:
    """Old Pods that are not available go at once, others while no more than so many are missing."""
    missing, at_once, others = 0, list[JSONObject](), list[JSONObject]()
    for node in nodes:
        if not node.runs and not node.pods:
            continue
        versions = _versions(node, digest)
        if versions is None or (versions.new is None) == (versions.old is None):
            missing += 1
        elif versions.new is not None:
            missing += not is_available(versions.new)
        elif versions.old is not None and is_available(versions.old):
            others.append(versions.old)
        elif versions.old is not None:
            at_once.append(versions.old)
            missing += 1
    return at_once + others[: max(unavailable - missing, 0)]


def _surged(
    nodes: Iterable[_Node], digest: str, is_available: Callable[[JSONObject], bool], surge: int, wanted: int
) -> tuple[list[str], list[JSONObject]]:
    """The nodes that get a new Pod beside the old one, and the old Pods that go."""
    surged, available = 0, 0
    at_once, others, gone, misplaced = list[str](), list[str](), list[JSONObject](), list[JSONObject]()
    for node in nodes:
        versions = _versions(node, digest)
        if versions is None:
            surged += 1
            continue
        oldest = versions.old or versions.new
        available += oldest is not None and is_available(oldest)
        if versions.old is None:
            continue
        if versions.new is not None:
            if is_available(versions.new):
                gone.append(versions.old)
            else:
                surged += 1
        elif is_available(versions.old):
            (others.append(node.name) if node.runs else misplaced.append(versions.old))
        elif node.runs:
            at_once.append(node.name)
        else:
            gone.append(versions.old)
    gone += misplaced[: max(available - wanted, 0)]
    return at_once + others[: max(surge - surged, 0)], gone


def _bounds(strategy: JSONObject, nodes: int) -> tuple[int, int]:
    """How many Pods maxSurge and maxUnavailable are. If both are 0, one may be unavailable, else nothing could be done."""
    rolling = (strategy.get("rollingUpdate") or {}) if strategy.get("type") != "OnDelete" else {}
    surge, unavailable = (_share(rolling.get(name, 0), nodes) for name in ("maxSurge", "maxUnavailable"))
    return surge, unavailable if surge or unavailable else 1


def _share(value: Any, nodes: int) -> int:
    return -(-nodes * int(value.rstrip("%")) // 100) if isinstance(value, str) else int(value)


# --- nodes and their Pods ---


def node_of(pod: JSONObject) -> str:
    """The name of the node that a Pod is bound to, or that its affinity names; '' for none."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    for term in required_terms(spec) or ():
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


def _node(spec: JSONObject, tolerations: Sequence[JSONObject], node: JSONObject, pods: list[JSONObject]) -> _Node:
    """spec: of the template."""
    name, taints = node["metadata"]["name"], (node.get("spec") or {}).get("taints") or ()
    fits = spec.get("nodeName", name) == name and is_required(spec, node)
    # `unschedulable` is tolerated, like the taint that it stands for.
    effects = {
        each["effect"] for each in taints if not _is_tolerated(each["key"], each.get("value", ""), each["effect"], tolerations)
    }
    return _Node(name, fits and effects <= {"PreferNoSchedule"}, fits and "NoExecute" not in effects, pods)


def _is_tolerated(key: str, value: str, effect: str, tolerations: Sequence[JSONObject]) -> bool:
    return any(
        each.get("effect") in (None, "", effect)
        and each.get("key") in (None, "", key)
        and (each.get("operator") == "Exists" or each.get("value", "") == value)
        for each in tolerations
    )
