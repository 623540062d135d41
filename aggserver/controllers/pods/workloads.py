"""Plans for ReplicaSets, Deployments, StatefulSets, DaemonSets and Jobs, as their controllers would make them: Pods to create and
to delete, and the status to write.

For `--pods=run`, by which every new Pod is ready at once. So a rollout has no surge: all new Pods are created, and then the old
ones are deleted. Pods without a controller are not adopted.

Pure. Source: k8s.io/kubernetes pkg/controller/{replicaset,deployment,statefulset,daemon,job}, v1.36.3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject

__all__ = [
    "HASH_LABEL",
    "REVISION",
    "WorkloadPlan",
    "controller_of",
    "daemon_set",
    "deployment",
    "job",
    "replica_set",
    "stateful_set",
]

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_REVISION_LABEL = "controller-revision-hash"
_INDEX = "batch.kubernetes.io/job-completion-index"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_PASSED = "deployment.kubernetes.io/revision-history"
_DESIRED, _MAX = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = frozenset({_LAST_APPLIED, REVISION, _PASSED, _DESIRED, _MAX})  # from a Deployment to its ReplicaSets
_PASSED_CHARACTERS = 2000  # of the revisions that a ReplicaSet had before, as upstream
_JOB_CONTROLLER = "kubernetes.io/job-controller"
# Letters and digits that make no words, as in upstream's hashes.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_HISTORY = 10
# The most Pods of one plan: a workload may ask for two billion. Each created Pod causes a new plan, which has the next ones.
_BURST = 500
_FAILURES = 6


@dataclass(slots=True)
class WorkloadPlan:
    """What to write for one workload.

    create: Pods, ReplicaSets and PersistentVolumeClaims. They share parts with each other and with the workload, since hundreds
    of copies of a large template would fill the memory. delete: objects. scale: ReplicaSets, with their new replicas.

    annotate: objects, maybe the workload itself, with their new annotations. status: the members of the workload's status that
    are to change; None removes one.
    """

    create: list[JSONObject] = field(default_factory=list)
    delete: list[JSONObject] = field(default_factory=list)
    scale: list[tuple[JSONObject, int]] = field(default_factory=list)
    status: JSONObject = field(default_factory=dict)
    annotate: list[tuple[JSONObject, dict[str, str]]] = field(default_factory=list)


def controller_of(obj: JSONObject) -> JSONObject | None:
    """The owner reference to the controller of an object; None if it has none."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((entry for entry in owners if entry.get("controller")), None)


# --- ReplicaSets ---


def replica_set(owner: JSONObject, pods: Sequence[JSONObject]) -> WorkloadPlan:
    """The plan for a ReplicaSet. pods: those that it controls."""
    spec = owner["spec"]
    active = [pod for pod in pods if _is_active(pod)]
    wanted = spec.get("replicas", 1)
    plan = WorkloadPlan(
        create=[_pod(owner, spec["template"]) for _ in range(min(wanted - len(active), _BURST))],
        delete=_newest_first(active)[: max(len(active) - wanted, 0)],
    )
    ready = sum(map(_is_ready, active))
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    labeled = sum((pod["metadata"].get("labels") or {}).items() >= labels.items() for pod in active)
    plan.status = {
        "replicas": len(active),
        **_without_zeros(fullyLabeledReplicas=labeled, readyReplicas=ready, availableReplicas=ready),
        "observedGeneration": owner["metadata"].get("generation", 0),
    }
    return plan


# --- Deployments ---


def deployment(owner: JSONObject, sets: Sequence[JSONObject], now: str) -> WorkloadPlan:
    """The plan for a Deployment. sets: the ReplicaSets that it controls. now: RFC 3339."""
    spec, plan = owner["spec"], WorkloadPlan()
    wanted = spec.get("replicas", 1)
    sets = sorted((each for each in sets if "deletionTimestamp" not in each["metadata"]), key=_revision)
    current = next((each for each in sets if _template(each) == _plain(spec["template"])), None)
    others = [each for each in sets if each is not current]
    if spec.get("paused"):
        newest = current or (sets[-1] if sets else None)
        if newest is not None and newest["spec"].get("replicas", 1) != wanted:
            plan.scale.append((newest, wanted))
        plan.status = _deployment_status(owner, current, others, now)
        return plan
    revision = str(max(map(_revision, others), default=0) + 1)
    if current is not None and _revision(current) >= int(revision):
        revision = current["metadata"]["annotations"][REVISION]
    if str(_revision(owner)) != revision:
        plan.annotate.append((owner, {REVISION: revision}))
    if current is not None and (added := _new_annotations(current, spec, revision)):
        plan.annotate.append((current, added))
    recreates = (spec.get("strategy") or {}).get("type") == "Recreate"
    is_clear = not recreates or not any((each.get("status") or {}).get("replicas") for each in others)
    if current is None:
        plan.create.append(_new_set(owner, revision, wanted if is_clear else 0))
    elif is_clear and current["spec"].get("replicas", 1) != wanted:
        plan.scale.append((current, wanted))
    is_up = current is not None and (current.get("status") or {}).get("availableReplicas", 0) >= wanted
    if recreates or is_up:
        plan.scale += [(each, 0) for each in others if each["spec"].get("replicas", 1)]
    idle = [each for each in others if not each["spec"].get("replicas", 1) and not (each.get("status") or {}).get("replicas")]
    plan.delete = idle[: max(len(idle) - spec.get("revisionHistoryLimit", _HISTORY), 0)]
    plan.status = _deployment_status(owner, current, others, now)
    return plan


def _new_annotations(current: JSONObject, spec: JSONObject, revision: str) -> dict[str, str]:
    """The annotations that the current ReplicaSet lacks or has with other values, for `kubectl rollout` and scalers."""
    known = current["metadata"].get("annotations") or {}
    wanted = _replicas(spec)
    before = known.get(REVISION, "")
    if before != revision:
        wanted[REVISION] = revision
        if before:  # a former ReplicaSet has become the current one again
            wanted[_PASSED] = _with_passed(known.get(_PASSED, ""), before)
    return {name: text for name, text in wanted.items() if known.get(name) != text}


def _with_passed(passed: str, revision: str) -> str:
    """Add a revision to the former revisions of a ReplicaSet. The oldest are dropped if they are longer than the limit."""
    if not passed:
        return revision
    revisions, characters, first = passed.split(","), len(passed) + len(revision) + 1, 0
    while characters > _PASSED_CHARACTERS and first < len(revisions):
        characters -= len(revisions[first]) + 1
        first += 1
    return passed if characters > _PASSED_CHARACTERS else ",".join([*revisions[first:], revision])


def _replicas(spec: JSONObject) -> dict[str, str]:
    strategy, wanted = spec.get("strategy") or {}, spec.get("replicas", 1)
    surge: Any = 0
    if strategy.get("type") != "Recreate":
        surge = (strategy.get("rollingUpdate") or {}).get("maxSurge", "25%")
    if isinstance(surge, str):
        surge = -(-wanted * int(surge.rstrip("%")) // 100)  # rounded up
    return {_DESIRED: str(wanted), _MAX: str(wanted + surge)}


def _new_set(owner: JSONObject, revision: str, replicas: int) -> JSONObject:
    spec, metadata = owner["spec"], owner["metadata"]
    template = {**spec["template"]}
    added = {HASH_LABEL: _hash(spec["template"])}
    template["metadata"] = {**(template.get("metadata") or {})}
    labels = template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), **added}
    selector = spec["selector"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in _NOT_COPIED}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{added[HASH_LABEL]}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {**annotations, REVISION: revision, **_replicas(spec)},
            "ownerReferences": [_reference(owner)],
        },
        "spec": {
            "replicas": replicas,
            **({"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {}),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **added}},
            "template": template,
        },
    }


def _deployment_status(owner: JSONObject, current: JSONObject | None, others: Sequence[JSONObject], now: str) -> JSONObject:
    spec, metadata = owner["spec"], owner["metadata"]
    wanted = spec.get("replicas", 1)
    sets = [*others, *([current] if current is not None else [])]

    def total(name: str, of: Iterable[JSONObject]) -> int:
        return sum((each.get("status") or {}).get(name, 0) for each in of)

    replicas, ready, available = (total(name, sets) for name in ("replicas", "readyReplicas", "availableReplicas"))
    updated = total("replicas", [current] if current is not None else [])
    specified = sum(each["spec"].get("replicas", 1) for each in sets)
    counts = _without_zeros(
        observedGeneration=metadata.get("generation", 0),
        replicas=replicas,
        updatedReplicas=updated,
        readyReplicas=ready,
        availableReplicas=available,
        unavailableReplicas=max(specified - available, 0),
    )
    unavailable = ((spec.get("strategy") or {}).get("rollingUpdate") or {}).get("maxUnavailable", 0)
    spare = wanted * int(unavailable[:-1]) // 100 if isinstance(unavailable, str) else unavailable
    if available >= wanted - spare:
        is_available = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        is_available = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    name = "" if current is None else current["metadata"]["name"]
    if current is not None and updated == replicas == available == wanted:
        progress = ("True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
    elif current is None:
        progress = ("True", "ReplicaSetUpdated", f'Deployment "{metadata["name"]}" is progressing.')
    else:
        progress = ("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    before = (owner.get("status") or {}).get("conditions") or ()
    conditions = _conditions(before, {"Available": is_available, "Progressing": progress}, now, with_updates=True)
    return {**counts, "conditions": conditions}


# --- StatefulSets ---


def stateful_set(owner: JSONObject, pods: Sequence[JSONObject], claims: Iterable[str]) -> WorkloadPlan:
    """The plan for a StatefulSet. pods: those that it controls. claims: the names of the PersistentVolumeClaims in its namespace.

    With the policy OrderedReady, a Pod is created when the one before it is ready, and deleted when those after it are gone.
    """
    spec, name, plan = owner["spec"], owner["metadata"]["name"], WorkloadPlan()
    wanted, start = spec.get("replicas", 1), (spec.get("ordinals") or {}).get("start", 0)
    in_parallel = spec.get("podManagementPolicy") == "Parallel"
    revision = f"{name}-{_hash(spec['template'])}"
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    ordinals = range(start, start + wanted)
    known = set(claims)
    for ordinal in ordinals:
        pod_name = f"{name}-{ordinal}"
        pod = by_name.get(pod_name)
        if pod is None:
            plan.create += [claim for claim in _claims(owner, pod_name) if claim["metadata"]["name"] not in known]
            plan.create.append(_stateful_pod(owner, pod_name, ordinal, revision))
        if len(plan.create) >= _BURST or (not in_parallel and (pod is None or not _is_ready(pod))):
            break
    else:
        names = dict.fromkeys(f"{name}-{ordinal}" for ordinal in ordinals)
        surplus = [pod for key, pod in sorted(by_name.items(), key=_ordinal) if key not in names]
        strategy = spec.get("updateStrategy") or {}
        first = start + (strategy.get("rollingUpdate") or {}).get("partition", 0)
        old = [by_name[key] for key in names if key in by_name and _revision_of(by_name[key]) != revision]
        if strategy.get("type") == "OnDelete":
            old = []
        old = [pod for pod in old if _ordinal((pod["metadata"]["name"], pod)) >= first]
        plan.delete = [pod for pod in (surplus or old)[-1:] if "deletionTimestamp" not in pod["metadata"]]
    present = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    ready = sum(map(_is_ready, present))
    updated = sum(_revision_of(pod) == revision for pod in present)
    before = (owner.get("status") or {}).get("currentRevision")
    is_done = updated == len(present) == wanted == ready
    current = revision if is_done or before is None else before
    plan.status = {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "replicas": len(present),
        "availableReplicas": ready,
        "collisionCount": 0,
        "currentRevision": current,
        "updateRevision": revision,
        **_without_zeros(
            readyReplicas=ready,
            updatedReplicas=updated,
            currentReplicas=sum(_revision_of(pod) == current for pod in present),
        ),
    }
    return plan


def _stateful_pod(owner: JSONObject, name: str, ordinal: int, revision: str) -> JSONObject:
    labels = {
        "apps.kubernetes.io/pod-index": str(ordinal),
        _REVISION_LABEL: revision,
        "statefulset.kubernetes.io/pod-name": name,
    }
    pod = _pod(owner, owner["spec"]["template"], name=name, labels=labels)
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


# --- DaemonSets ---


def daemon_set(owner: JSONObject, pods: Sequence[JSONObject], node: str) -> WorkloadPlan:
    """The plan for a DaemonSet. node: the name of the only node."""
    spec, plan = owner["spec"], WorkloadPlan()
    revision = _hash(spec["template"])
    active = [pod for pod in pods if _is_active(pod)]
    if not active:
        pod = _pod(owner, spec["template"], labels={_REVISION_LABEL: revision})
        pod["spec"]["nodeName"] = node
        plan.create.append(pod)
    old = [pod for pod in active if _revision_of(pod) != revision]
    if (spec.get("updateStrategy") or {}).get("type") == "OnDelete":
        old = []
    plan.delete = [*old, *active[1:]] if old or len(active) > 1 else []
    ready = sum(map(_is_ready, active[:1]))
    plan.status = {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "desiredNumberScheduled": 1,
        "currentNumberScheduled": len(active[:1]),
        "numberMisscheduled": 0,
        "numberReady": ready,
        **_without_zeros(
            numberAvailable=ready,
            numberUnavailable=1 - ready,
            updatedNumberScheduled=sum(_revision_of(pod) == revision for pod in active[:1]),
        ),
    }
    return plan


# --- Jobs ---


def job(owner: JSONObject, pods: Sequence[JSONObject], now: str) -> WorkloadPlan:
    """The plan for a Job. now: RFC 3339."""
    spec, status, plan = owner["spec"], owner.get("status") or {}, WorkloadPlan()
    if (spec.get("managedBy") or _JOB_CONTROLLER) != _JOB_CONTROLLER:
        return plan
    conditions = status.get("conditions") or ()
    if any(entry["type"] in ("Complete", "Failed") and entry["status"] == "True" for entry in conditions):
        return plan
    succeeded = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Succeeded"]
    failed = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Failed"]
    active = [pod for pod in pods if _is_active(pod)]
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    wanted = completions if completions is not None else 1  # without completions, one success is enough
    # Pods that are gone still count, as upstream, which counts each Pod before it is removed.
    counts = {"succeeded": max(len(succeeded), status.get("succeeded", 0)), "failed": max(len(failed), status.get("failed", 0))}
    is_complete = counts["succeeded"] >= wanted
    found: dict[str, tuple[str, str, str]] = {}
    if spec.get("suspend"):
        plan.delete = active
        found["Suspended"] = ("True", "JobSuspended", "Job suspended")
    elif counts["failed"] > spec.get("backoffLimit", _FAILURES):
        plan.delete = active
        found["FailureTarget"] = found["Failed"] = (
            "True",
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )
    elif is_complete:
        plan.delete = active
        text = "Reached expected number of succeeded pods"
        found["SuccessCriteriaMet"] = found["Complete"] = ("True", "CompletionsReached", text)
    else:
        if any(entry["type"] == "Suspended" and entry["status"] == "True" for entry in conditions):
            found["Suspended"] = ("False", "JobResumed", "Job resumed")
        missing = min(parallelism, wanted - counts["succeeded"] if completions is not None else parallelism) - len(active)
        plan.create = _job_pods(owner, [*succeeded, *active], missing)
    plan.status = {
        **_without_zeros(active=len(active) - len(plan.delete), **counts),
        "ready": 0 if plan.delete else sum(map(_is_ready, active)),
        "uncountedTerminatedPods": {},
        "conditions": _conditions(conditions, found, now, with_probes=True),
    }
    if not spec.get("suspend") and "startTime" not in status:
        plan.status["startTime"] = now
    if "Complete" in found:
        plan.status["completionTime"] = now
        if spec.get("completionMode") == "Indexed" and wanted:
            plan.status["completedIndexes"] = f"0-{wanted - 1}" if wanted > 1 else "0"
    return plan


def _job_pods(owner: JSONObject, present: Sequence[JSONObject], count: int) -> list[JSONObject]:
    template = owner["spec"]["template"]
    if owner["spec"].get("completionMode") != "Indexed":
        return [_pod(owner, template) for _ in range(min(count, _BURST))]
    taken = {(pod["metadata"].get("annotations") or {}).get(_INDEX) for pod in present}
    free = (index for index in map(str, range(owner["spec"]["completions"])) if index not in taken)
    return [_pod(owner, template, index=index) for index in islice(free, max(min(count, _BURST), 0))]


# --- Pods ---


def _pod(
    owner: JSONObject, template: JSONObject, *, name: str = "", labels: Mapping[str, str] | None = None, index: str = ""
) -> JSONObject:
    """A Pod from a template. name: '' to have one generated. index: the completion index in a Job, '' for none."""
    given = template.get("metadata") or {}
    added = {**(labels or {}), **({_INDEX: index} if index else {})}
    annotations = {**(given.get("annotations") or {}), **({_INDEX: index} if index else {})}
    metadata: JSONObject = {"namespace": owner["metadata"]["namespace"], "ownerReferences": [_reference(owner)]}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{owner['metadata']['name']}-{index}-" if index else f"{owner['metadata']['name']}-"
    for key, value in (("labels", {**(given.get("labels") or {}), **added}), ("annotations", annotations)):
        if value:
            metadata[key] = value
    if given.get("finalizers"):
        metadata["finalizers"] = list(given["finalizers"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template["spec"]}}


def _reference(owner: JSONObject) -> JSONObject:
    metadata = owner["metadata"]
    found = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**found, "controller": True, "blockOwnerDeletion": True}


def _is_active(pod: JSONObject) -> bool:
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not is_over and "deletionTimestamp" not in pod["metadata"]


def _is_ready(pod: JSONObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def _newest_first(pods: Iterable[JSONObject]) -> list[JSONObject]:
    return sorted(pods, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]), reverse=True)


def _revision_of(pod: JSONObject) -> str:
    return str((pod["metadata"].get("labels") or {}).get(_REVISION_LABEL, ""))


def _ordinal(named: tuple[str, Any]) -> int:
    number = named[0].rpartition("-")[2]
    return int(number) if number.isdigit() else -1


# --- templates, revisions and conditions ---


def _hash(template: JSONObject) -> str:
    number = int.from_bytes(hashlib.sha256(codec.encode_json(_sorted(template))).digest()[:8], "big")
    text = ""
    for _ in range(10):
        number, rest = divmod(number, len(_SAFE))
        text += _SAFE[rest]
    return text


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return list(map(_sorted, value)) if isinstance(value, list) else value


def _template(each: JSONObject) -> JSONObject:
    """The template of a ReplicaSet as in its Deployment, without the hash label."""
    return _plain(each["spec"]["template"])


def _plain(template: JSONObject) -> JSONObject:
    metadata = {**(template.get("metadata") or {})}
    metadata["labels"] = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": metadata}


def _revision(each: JSONObject) -> int:
    text = (each["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdigit() else 0


def _without_zeros(**counts: int) -> JSONObject:
    """The counts with None for zeros, which the status leaves out."""
    return {name: count or None for name, count in counts.items()}


def _conditions(
    before: Sequence[JSONObject],
    wanted: Mapping[str, tuple[str, str, str]],
    now: str,
    *,
    with_updates: bool = False,
    with_probes: bool = False,
) -> list[JSONObject]:
    """The conditions, with the wanted ones merged in: (status, reason, message) by type. Times change only with their conditions.

    with_updates, with_probes: whether the conditions have a lastUpdateTime, or a lastProbeTime.
    """
    entries = {entry["type"]: entry for entry in before}
    for name, (status, reason, message) in wanted.items():
        old = entries.get(name, {})
        if (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message):
            continue
        since = old.get("lastTransitionTime", now) if old.get("status") == status else now
        times = {"lastTransitionTime": since}
        times |= {"lastUpdateTime": now} if with_updates else {}
        times |= {"lastProbeTime": now} if with_probes else {}
        entries[name] = {"type": name, "status": status, "reason": reason, "message": message, **times}
    return list(entries.values())
