"""Plans for Deployments: ReplicaSets with `pod-template-hash`, their revisions, and rollouts within maxSurge and maxUnavailable.

Pure. Source: k8s.io/kubernetes pkg/controller/deployment/{sync,rolling,recreate,progress}.go,
pkg/controller/deployment/util/deployment_util.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aggserver.controllers.workloads.deployment_progress import announced, progress_of, with_condition
from aggserver.controllers.workloads.plan import HISTORY, Plan, reference_to, template_hash, without_zeros
from aggserver.controllers.workloads.replicas import FAILURE
from aggserver.meta.json_types import JSONObject

__all__ = ["HASH_LABEL", "REVISION", "deployment"]

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_PASSED = "deployment.kubernetes.io/revision-history"
_DESIRED, _MAX = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = frozenset({_LAST_APPLIED, REVISION, _PASSED, _DESIRED, _MAX})  # from a Deployment to its ReplicaSets
_PASSED_CHARACTERS = 2000  # of the revisions that a ReplicaSet had before, as upstream


def deployment(owner: JSONObject, sets: Sequence[JSONObject], now: float) -> Plan:
    """The plan for a Deployment. sets: the ReplicaSets that it controls. now: seconds since the epoch."""
    spec, plan = owner["spec"], Plan()
    wanted = spec.get("replicas", 1)
    sets = sorted((each for each in sets if "deletionTimestamp" not in each["metadata"]), key=_revision)
    current = next((each for each in sets if _template(each) == _plain(spec["template"])), None)
    others = [each for each in sets if each is not current]
    if spec.get("paused"):
        _resize(plan, owner, current, others)
        _tell(plan, owner, current, others, now)
        return plan
    revision = str(max(map(_revision, others), default=0) + 1)
    if current is not None and _revision(current) >= int(revision):
        revision = current["metadata"]["annotations"][REVISION]
    if str(_revision(owner)) != revision:
        plan.annotate.append((owner, {REVISION: revision}))
    if current is not None and (added := _new_annotations(current, spec, revision)):
        plan.annotate.append((current, added))
    if any(_desired(each) not in ("", str(wanted)) for each in sets if _replicas(each)):
        _resize(plan, owner, current, others)  # the rollout goes on from there
    elif (spec.get("strategy") or {}).get("type") == "Recreate":
        _recreate(plan, owner, current, others, revision)
    else:
        _roll(plan, owner, current, others, revision)
    idle = [each for each in others if not _replicas(each) and not (each.get("status") or {}).get("replicas")]
    plan.delete = idle[: max(len(idle) - spec.get("revisionHistoryLimit", HISTORY), 0)]
    _tell(plan, owner, current, others, now)
    return plan


# --- the two strategies ---


def _recreate(plan: Plan, owner: JSONObject, current: JSONObject | None, others: Sequence[JSONObject], revision: str) -> None:
    """All old Pods go before the first new one is made."""
    wanted = owner["spec"].get("replicas", 1)
    is_clear = not any((each.get("status") or {}).get("replicas") for each in others)
    if current is None:
        plan.create.append(_new_set(owner, revision, wanted if is_clear else 0))
    elif is_clear and _replicas(current) != wanted:
        plan.scale.append((current, wanted))
    plan.scale += [(each, 0) for each in others if _replicas(each)]


def _roll(plan: Plan, owner: JSONObject, current: JSONObject | None, others: Sequence[JSONObject], revision: str) -> None:
    """One step of a rollout: the new ReplicaSet grows as far as maxSurge permits, then the old ones shrink."""
    spec = owner["spec"]
    wanted, (surge, unavailable) = spec.get("replicas", 1), _bounds(spec)
    old = sum(map(_replicas, others))
    replicas = 0 if current is None else _replicas(current)
    grown = wanted if replicas > wanted else min(wanted, max(replicas, wanted + surge - old))
    if current is None:
        plan.create.append(_new_set(owner, revision, grown))
        return
    if grown != replicas:
        plan.scale.append((current, grown))
        return
    least = wanted - unavailable
    spare = old + replicas - least - (replicas - _available(current))
    if not old or spare <= 0:
        return
    left = {_name(each): _replicas(each) for each in others}
    # First the old Pods that are not available, then as many of the others as may be missing.
    for each in others:
        name = _name(each)
        gone = min(spare, max(left[name] - _available(each), 0))
        left[name] -= gone
        spare -= gone
    spare = min(spare, _available(current) + sum(map(_available, others)) - least)
    for each in others:
        name = _name(each)
        gone = min(max(spare, 0), left[name])
        left[name] -= gone
        spare -= gone
    plan.scale += [(each, count) for each in others if (count := left[_name(each)]) != _replicas(each)]


def _resize(plan: Plan, owner: JSONObject, current: JSONObject | None, others: Sequence[JSONObject]) -> None:
    """Another number of replicas. In the middle of a rollout, each ReplicaSet gets its share of what is added or removed."""
    spec = owner["spec"]
    wanted, sets = spec.get("replicas", 1), [*others, *([current] if current is not None else [])]
    active = [each for each in sets if _replicas(each)]
    if len(active) < 2:
        sizes = {_name(each): wanted for each in active or sets[-1:]}
    elif current is not None and _replicas(current) == _available(current) == wanted and _desired(current) == str(wanted):
        sizes = {_name(each): 0 for each in active if each is not current}
    elif (spec.get("strategy") or {}).get("type") == "Recreate":
        return
    else:
        sizes = _shares(active, wanted, _bounds(spec)[0])
    annotations = _sizes(spec)
    known = {_name(each) for each, _ in plan.annotate}
    for each in sets:
        count = sizes.get(_name(each), _replicas(each))
        if count != _replicas(each):
            plan.scale.append((each, count))
        if _name(each) in sizes and _name(each) not in known:
            before = each["metadata"].get("annotations") or {}
            if added := {name: text for name, text in annotations.items() if before.get(name) != text}:
                plan.annotate.append((each, added))


def _shares(active: Sequence[JSONObject], wanted: int, surge: int) -> dict[str, int]:
    """The new replicas by the names of the ReplicaSets. What is left by rounding goes to the largest one."""
    most = wanted + surge if wanted else 0
    change = most - sum(map(_replicas, active))
    # Equal ones: the newest gets more first, the oldest loses first.
    by_age = sorted(active, key=lambda each: each["metadata"].get("creationTimestamp", ""), reverse=change > 0)
    by_size = sorted(by_age, key=_replicas, reverse=True)
    sizes, left = {_name(each): _replicas(each) for each in active}, change
    for each in by_size:
        replicas = _replicas(each)
        annotated = (each["metadata"].get("annotations") or {}).get(_MAX, "")
        before = int(annotated) if annotated.isascii() and annotated.isdigit() and len(annotated) < 11 else 0
        before = before or (each.get("status") or {}).get("replicas", 0) or replicas
        share = (2 * replicas * most + before) // (2 * before) - replicas if wanted else -replicas
        share = min(share, left) if change > 0 else max(share, left)
        sizes[_name(each)] += share
        left -= share
    if change:
        first = _name(by_size[0])
        sizes[first] = max(sizes[first] + left, 0)
    return sizes


def _desired(each: JSONObject) -> str:
    return str((each["metadata"].get("annotations") or {}).get(_DESIRED, ""))


def _name(each: JSONObject) -> str:
    return str(each["metadata"]["name"])


def _bounds(spec: JSONObject) -> tuple[int, int]:
    """How many Pods maxSurge and maxUnavailable are. If both are 0, one may be unavailable, else nothing could be done."""
    wanted, rolling = spec.get("replicas", 1), (spec.get("strategy") or {}).get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    return surge, min(unavailable, wanted) if surge or unavailable else 1


def _share(value: Any, of: int, *, up: bool) -> int:
    if not isinstance(value, str):
        return int(value)
    hundredths = of * int(value.rstrip("%"))
    return -(-hundredths // 100) if up else hundredths // 100


# --- ReplicaSets ---


def _new_set(owner: JSONObject, revision: str, replicas: int) -> JSONObject:
    spec, metadata = owner["spec"], owner["metadata"]
    template = {**spec["template"]}
    added = {HASH_LABEL: template_hash(spec["template"], (owner.get("status") or {}).get("collisionCount", 0))}
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
            "annotations": {**annotations, REVISION: revision, **_sizes(spec)},
            "ownerReferences": [reference_to(owner)],
        },
        "spec": {
            "replicas": replicas,
            **({"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {}),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **added}},
            "template": template,
        },
    }


def _new_annotations(current: JSONObject, spec: JSONObject, revision: str) -> dict[str, str]:
    """The annotations that the current ReplicaSet lacks or has with other values, for `kubectl rollout` and scalers."""
    known = current["metadata"].get("annotations") or {}
    wanted = _sizes(spec)
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


def _sizes(spec: JSONObject) -> dict[str, str]:
    wanted = spec.get("replicas", 1)
    surge = 0 if (spec.get("strategy") or {}).get("type") == "Recreate" else _bounds(spec)[0]
    return {_DESIRED: str(wanted), _MAX: str(wanted + surge)}


def _replicas(each: JSONObject) -> int:
    return int(each["spec"].get("replicas", 1))


def _available(each: JSONObject) -> int:
    return int((each.get("status") or {}).get("availableReplicas", 0))


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
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4000 else 0


# --- the status ---


def _tell(plan: Plan, owner: JSONObject, current: JSONObject | None, others: Sequence[JSONObject], now: float) -> None:
    """Set the status of a plan, and when it has to be looked at again."""
    spec, metadata = owner["spec"], owner["metadata"]
    wanted = spec.get("replicas", 1)
    sets = [*others, *([current] if current is not None else [])]

    def total(name: str, of: Iterable[JSONObject]) -> int:
        return sum((each.get("status") or {}).get(name, 0) for each in of)

    replicas, ready, available = (total(name, sets) for name in ("replicas", "readyReplicas", "availableReplicas"))
    updated = total("replicas", [current] if current is not None else [])
    counts = without_zeros(
        observedGeneration=metadata.get("generation", 0),
        replicas=replicas,
        updatedReplicas=updated,
        readyReplicas=ready,
        availableReplicas=available,
        unavailableReplicas=max(sum(map(_replicas, sets)) - available, 0),
    )
    recreates = (spec.get("strategy") or {}).get("type") == "Recreate"
    if available >= wanted - (0 if recreates else _bounds(spec)[1]):
        found = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        found = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    created, present = next(map(_name, plan.create), ""), "" if current is None else _name(current)
    before = list((owner.get("status") or {}).get("conditions") or ())
    conditions = _with(announced(owner, before, created, present, now), "Available", *found, now)
    conditions, plan.again = progress_of(owner, counts, conditions, present, now)
    failures = [
        entry
        for each in (current, *others)
        if each is not None
        for entry in (each.get("status") or {}).get("conditions") or ()
        if entry["type"] == FAILURE
    ]
    if failures:
        texts = (failures[0]["status"], failures[0].get("reason", ""), failures[0].get("message", ""))
        conditions = _with(conditions, FAILURE, *texts, now)
    else:
        conditions = [entry for entry in conditions if entry["type"] != FAILURE]
    counts["terminatingReplicas"] = total("terminatingReplicas", sets)
    plan.status = {**counts, "conditions": conditions}


def _with(conditions: list[JSONObject], kind: str, status: str, reason: str, message: str, now: float) -> list[JSONObject]:
    return with_condition(conditions, {"type": kind, "status": status, "reason": reason, "message": message}, now)
