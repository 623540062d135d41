"""Who owns the PersistentVolumeClaims of a StatefulSet by its persistentVolumeClaimRetentionPolicy: claims go with their owners.

Pure. Source: k8s.io/kubernetes pkg/controller/statefulset/stateful_set_utils.go (isClaimOwnerUpToDate,
updateClaimOwnerRefForSetAndPod), v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aggserver.controllers.workloads.plan import reference_to
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["is_stale", "owners_of_claim"]


def owners_of_claim(
    owner: JSONObject, pod: JSONObject, references: Sequence[JSONMapping], *, is_surplus: bool
) -> list[JSONMapping] | None:
    """The owner references that a claim should have; None if it has them, or nobody may change them.

    references: those that it has. is_surplus: whether the Pod is to go, since the StatefulSet wants fewer.
    """
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    when_scaled, when_deleted = (policy.get(name, "Retain") == "Delete" for name in ("whenScaled", "whenDeleted"))
    both = (owner, pod)
    if any(_names(each, obj) and each["uid"] != obj["metadata"]["uid"] for each in references for obj in both):
        return None  # those of a StatefulSet or a Pod that is gone are the garbage collector's
    mine = [each for each in references if any(_names(each, obj) for obj in both)]
    others = [each for each in references if each not in mine]
    wanted: list[JSONMapping] = []
    if not (when_scaled or when_deleted) or not any(each.get("controller") for each in others):
        if when_scaled and is_surplus:
            wanted = [reference_to(pod)]
        elif when_deleted:
            wanted = [reference_to(owner)]
    if {_identity(each) for each in mine} == {_identity(each) for each in wanted}:
        return None
    return [*others, *wanted]


def is_stale(pod: str, claims: Mapping[str, Sequence[JSONMapping]], names: Sequence[str]) -> bool:
    """Whether a Pod that is to be created has claims of a former one with its name, which are about to be deleted."""
    return any(each["kind"] == "Pod" and each["name"] == pod for name in names for each in claims.get(name, ()))


def _names(reference: JSONMapping, obj: JSONObject) -> bool:
    wanted = obj["apiVersion"], obj["kind"], obj["metadata"]["name"]
    return (reference["apiVersion"], reference["kind"], reference["name"]) == wanted


def _identity(reference: JSONMapping) -> tuple[str, bool]:
    return reference["uid"], bool(reference.get("controller"))
