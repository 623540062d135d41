"""Plans for StatefulSets: Pods in their order, PersistentVolumeClaims, and rolling updates between two ControllerRevisions.

Pure. Source: k8s.io/kubernetes pkg/controller/statefulset/{stateful_set_control,stateful_set_utils}.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from aggserver.controllers.workloads.retention import is_stale, owners_of_claim
from aggserver.controllers.workloads.revisions import newest_revision, template_of, truncate
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["is_member", "stateful_set"]


# Seconds after which a Pod is tried again whose claims are about to be deleted.
_STALE = 1.0


def stateful_set(
    owner: JSONObject,
    pods: Sequence[JSONObject],
    revisions: Sequence[JSONObject],
    claims: Mapping[str, Sequence[JSONMapping]],
    now: float,
) -> Plan:
    """The plan for a StatefulSet.

    pods, revisions: those that it controls. claims: the owner references of the PersistentVolumeClaims in its namespace, by name.
    now: seconds since the epoch. With the policy OrderedReady, a Pod is created when the one before it is available, and deleted
    when those after it are gone.
    """
    spec, name, plan = owner["spec"], owner["metadata"]["name"], Plan()
    wanted, start = spec.get("replicas", 1), (spec.get("ordinals") or {}).get("start", 0)
    in_parallel, seconds = spec.get("podManagementPolicy") == "Parallel", spec.get("minReadySeconds", 0)
    status, strategy = owner.get("status") or {}, spec.get("updateStrategy") or {}
    update = newest_revision(owner, revisions, plan)
    before = status.get("currentRevision")
    current = next((each for each in revisions if each["metadata"]["name"] == before), update)
    new, old = update["metadata"]["name"], current["metadata"]["name"]
    first_new = start + _old_pods(status, strategy)
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    is_waiting = False
    ordinals, known, most = range(start, start + wanted), claims.keys(), burst(len(pods))
    for ordinal in ordinals:
        pod_name = f"{name}-{ordinal}"
        pod = by_name.get(pod_name)
        if pod is None and is_stale(pod_name, claims, _claim_names(owner, pod_name)):
            is_waiting = True
        elif pod is None:
            plan.create += [claim for claim in _claims(owner, pod_name) if claim["metadata"]["name"] not in known]
            made = current if ordinal < first_new else update
            plan.create.append(_pod(owner, template_of(made), pod_name, ordinal, made["metadata"]["name"]))
        elif (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
            plan.delete += [pod] if "deletionTimestamp" not in pod["metadata"] else []
        if len(plan.create) >= most or (not in_parallel and not _is_available(pod, seconds, now)):
            break
        if pod is not None:
            _own(plan, owner, pod, claims, is_surplus=False)
    else:
        names = dict.fromkeys(f"{name}-{ordinal}" for ordinal in ordinals)
        surplus = [pod for key, pod in sorted(by_name.items(), key=_ordinal) if key not in names]
        for pod in surplus:
            _own(plan, owner, pod, claims, is_surplus=True)
        gone = surplus if in_parallel else surplus[-1:]
        if not gone and not plan.delete and strategy.get("type") != "OnDelete":
            partition = start + (strategy.get("rollingUpdate") or {}).get("partition", 0)
            candidates = [by_name.get(f"{name}-{ordinal}") for ordinal in range(start + wanted - 1, partition - 1, -1)]
            gone = _next_to_update(candidates, new, seconds, now)
        plan.delete += [pod for pod in gone if "deletionTimestamp" not in pod["metadata"]]
    present = [pod for pod in pods if is_active(pod)]
    ready = sum(map(is_ready, present))
    available, plan.again = availability(present, seconds, now)
    if is_waiting:
        plan.again = _STALE
    updated = sum(_revision_of(pod) == new for pod in present)
    if strategy.get("type") != "OnDelete" and updated == len(present) == wanted == ready:
        old = new
    plan.status = {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "replicas": len(present),
        "availableReplicas": available,
        "collisionCount": status.get("collisionCount", 0),
        "currentRevision": old,
        "updateRevision": new,
        **without_zeros(
            readyReplicas=ready,
            updatedReplicas=updated,
            currentReplicas=sum(_revision_of(pod) == old for pod in present),
        ),
    }
    truncate(owner, revisions, {old, current["metadata"]["name"], new, *map(_revision_of, pods)}, plan)
    return plan


def _own(
    plan: Plan, owner: JSONObject, pod: JSONObject, claims: Mapping[str, Sequence[JSONMapping]], *, is_surplus: bool
) -> None:
    for name in _claim_names(owner, pod["metadata"]["name"]):
        references = owners_of_claim(owner, pod, claims[name], is_surplus=is_surplus) if name in claims else None
        if references is not None:
            plan.own.append((name, references))


def _claim_names(owner: JSONObject, pod: str) -> list[str]:
    return [f"{each['metadata']['name']}-{pod}" for each in owner["spec"].get("volumeClaimTemplates") or ()]


def is_member(owner: str, pod: str) -> bool:
    """Whether a Pod may be one of a StatefulSet's, by their keys or names."""
    parent, _, ordinal = pod.rpartition("-")
    return parent == owner and ordinal.isascii() and ordinal.isdigit()


def _old_pods(status: JSONObject, strategy: JSONObject) -> int:
    """How many Pods, from the first on, are made from the current revision and not from the newest."""
    if strategy.get("rollingUpdate") is not None:
        return int(strategy["rollingUpdate"].get("partition", 0))
    return int(status.get("currentReplicas", 0)) if strategy.get("type") == "RollingUpdate" else 0


def _next_to_update(pods: Iterable[JSONObject | None], revision: str, seconds: int, now: float) -> list[JSONObject]:
    """The first Pod with another revision; none before all updated ones are available. pods: from the last ordinal down."""
    for pod in pods:
        if pod is not None and _revision_of(pod) != revision:
            return [pod]
        if not _is_available(pod, seconds, now):
            break
    return []


def _is_available(pod: JSONObject | None, seconds: int, now: float) -> bool:
    return pod is not None and is_active(pod) and availability([pod], seconds, now)[0] == 1


def _pod(owner: JSONObject, template: JSONObject, name: str, ordinal: int, revision: str) -> JSONObject:
    labels = {
        "apps.kubernetes.io/pod-index": str(ordinal),
        REVISION_LABEL: revision,
        "statefulset.kubernetes.io/pod-name": name,
    }
    pod = pod_from(owner, template, name=name, labels=labels)
    spec = pod["spec"]
    spec["hostname"] = name
    if owner["spec"].get("serviceName"):
        spec["subdomain"] = owner["spec"]["serviceName"]
    templates = [template["metadata"]["name"] for template in owner["spec"].get("volumeClaimTemplates") or ()]
    volumes = [volume for volume in spec.get("volumes") or () if volume["name"] not in templates]
    volumes += [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}} for each in templates]
    if volumes:
        spec["volumes"] = volumes
    return pod


def _claims(owner: JSONObject, pod: str) -> list[JSONObject]:
    found = []
    for template in owner["spec"].get("volumeClaimTemplates") or ():
        given = template["metadata"]
        labels = {**(given.get("labels") or {}), **((owner["spec"].get("selector") or {}).get("matchLabels") or {})}
        metadata = {"name": f"{given['name']}-{pod}", "namespace": owner["metadata"]["namespace"], "labels": labels}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        found.append({**claim, "spec": template["spec"]})
    return found


def _revision_of(pod: JSONObject) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))


def _ordinal(named: tuple[str, Any]) -> int:
    number = named[0].rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() else -1
