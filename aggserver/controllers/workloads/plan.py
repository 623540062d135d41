"""What the controller of a workload wants written, and what the plans of all kinds share: Pods of templates, hashes, conditions.

Pure. Source: k8s.io/kubernetes pkg/controller/controller_utils.go, pkg/controller/controller_ref_manager.go, v1.36.3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aggserver.meta import codec, times
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = [
    "BURST",
    "HISTORY",
    "INDEX",
    "LONGEST_BURST",
    "REVISION_LABEL",
    "Plan",
    "availability",
    "burst",
    "controller_of",
    "is_active",
    "is_ready",
    "merged_conditions",
    "pod_from",
    "reference_to",
    "template_hash",
    "terminating",
    "without_zeros",
]

REVISION_LABEL = "controller-revision-hash"
INDEX = "batch.kubernetes.io/job-completion-index"
HISTORY = 10  # the default of revisionHistoryLimit
# The most Pods of one plan: a workload may ask for two billion. Each created Pod causes a new plan, which has the next ones.
BURST, LONGEST_BURST = 500, 5000
# Letters and digits that make no words, as in upstream's hashes.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(slots=True)
class Plan:
    """What to write for one workload.

    create: Pods, ReplicaSets, ControllerRevisions and PersistentVolumeClaims. They share parts with each other and with the
    workload, since hundreds of copies of a large template would fill the memory. delete: objects. scale: ReplicaSets, with their
    new replicas. renumber: ControllerRevisions, with their new revision.

    own: the names of PersistentVolumeClaims, with their new owner references.

    annotate: objects, maybe the workload itself, with their new annotations. status: the members of the workload's status that
    are to change; None removes one. failed: the status to write instead if Pods can't be created or deleted, from a reason and
    the error's text; None if it does not say so. again: seconds until the next plan, if nothing happens before.
    """

    create: list[JSONObject] = field(default_factory=list)
    delete: list[JSONObject] = field(default_factory=list)
    scale: list[tuple[JSONObject, int]] = field(default_factory=list)
    renumber: list[tuple[JSONObject, int]] = field(default_factory=list)
    own: list[tuple[str, list[JSONMapping]]] = field(default_factory=list)
    status: JSONObject = field(default_factory=dict)
    annotate: list[tuple[JSONObject, dict[str, str]]] = field(default_factory=list)
    failed: Callable[[str, str], JSONObject] | None = None
    again: float | None = None


def controller_of(obj: JSONObject) -> JSONObject | None:
    """The owner reference to the controller of an object; None if it has none."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((entry for entry in owners if entry.get("controller")), None)


def reference_to(owner: JSONObject) -> JSONObject:
    """The owner reference by which `owner` controls an object."""
    metadata = owner["metadata"]
    found = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**found, "controller": True, "blockOwnerDeletion": True}


# --- Pods ---


def pod_from(
    owner: JSONObject, template: JSONObject, *, name: str = "", labels: Mapping[str, str] | None = None, index: str = ""
) -> JSONObject:
    """A Pod from a template. name: '' to have one generated. index: the completion index in a Job, '' for none."""
    given = template.get("metadata") or {}
    added = {**(labels or {}), **({INDEX: index} if index else {})}
    annotations = {**(given.get("annotations") or {}), **({INDEX: index} if index else {})}
    metadata: JSONObject = {"namespace": owner["metadata"]["namespace"], "ownerReferences": [reference_to(owner)]}
    metadata["generateName"] = f"{owner['metadata']['name']}-{index}-" if index else f"{owner['metadata']['name']}-"
    if name:
        metadata["name"] = name
    for key, value in (("labels", {**(given.get("labels") or {}), **added}), ("annotations", annotations)):
        if value:
            metadata[key] = value
    if given.get("finalizers"):
        metadata["finalizers"] = list(given["finalizers"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template["spec"]}}


def burst(known: int) -> int:
    """The most Pods to create by one plan: as many as there are, since each plan reads them all."""
    return min(max(BURST, known), LONGEST_BURST)


def is_active(pod: JSONObject) -> bool:
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not is_over and "deletionTimestamp" not in pod["metadata"]


def terminating(pods: Iterable[JSONObject]) -> int:
    """How many Pods are being deleted and have not ended."""
    phases = [(pod.get("status") or {}).get("phase") for pod in pods if "deletionTimestamp" in pod["metadata"]]
    return sum(phase not in ("Succeeded", "Failed") for phase in phases)


def is_ready(pod: JSONObject) -> bool:
    """Whether the condition Ready is True, of a Pod or a node."""
    return _ready(pod) is not None


def _ready(pod: JSONObject) -> JSONObject | None:
    """The condition Ready if it is True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == "Ready" and entry["status"] == "True"), None)


def availability(pods: Iterable[JSONObject], seconds: int, now: float) -> tuple[int, float | None]:
    """How many Pods have been ready for minReadySeconds, and the seconds until there is one more; None if all ready ones have.

    now: seconds since the epoch.
    """
    count, waits = 0, list[float]()
    for pod in pods:
        if (ready := _ready(pod)) is None:
            continue
        since = ready.get("lastTransitionTime")
        wait = times.parse_frequent_time(since) + seconds - now if seconds and since else 0.0
        if wait > 0:
            waits.append(wait)
        else:
            count += 1
    return count, min(waits, default=None)


# --- templates and conditions ---


def template_hash(template: JSONObject, collisions: int = 0) -> str:
    """A name for a template, equal for equal ones. collisions: how often the name was taken by another template's."""
    digest = hashlib.sha256(codec.encode_json(_sorted(template)))
    if collisions:
        digest.update(str(collisions).encode())
    number = int.from_bytes(digest.digest()[:8], "big")
    text = ""
    for _ in range(10):
        number, rest = divmod(number, len(_SAFE))
        text += _SAFE[rest]
    return text


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return list(map(_sorted, value)) if isinstance(value, list) else value


def without_zeros(**counts: int) -> JSONObject:
    """The counts with None for zeros, which the status leaves out."""
    return {name: count or None for name, count in counts.items()}


def merged_conditions(
    before: Sequence[JSONObject],
    wanted: Mapping[str, tuple[str, str, str]],
    now: str,
) -> list[JSONObject]:
    """The conditions, with the wanted ones merged in: (status, reason, message) by type. Times change only with a condition."""
    entries = {entry["type"]: entry for entry in before}
    for name, (status, reason, message) in wanted.items():
        old = entries.get(name, {})
        if (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message):
            continue
        since = old.get("lastTransitionTime", now) if old.get("status") == status else now
        stamps = {"lastTransitionTime": since, "lastProbeTime": now}
        entries[name] = {"type": name, "status": status, "reason": reason, "message": message, **stamps}
    return list(entries.values())
