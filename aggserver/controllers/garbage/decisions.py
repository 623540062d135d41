"""What the garbage collector does with an object, by its metadata and the state of its owners.

Pure. Source: k8s.io/kubernetes pkg/controller/garbagecollector/{garbagecollector,patch}.go, v1.36.3 (attemptToDeleteItem).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from aggserver.controllers.garbage.owner_graph import FOREGROUND, ORPHAN, Reference
from aggserver.meta.json_types import JSONObject
from aggserver.storage.keys import ObjectKey

__all__ = [
    "Delete",
    "Detach",
    "Keep",
    "Standing",
    "Verdict",
    "is_deleting_dependents",
    "judge",
    "misplaced_owner_event",
    "standing",
    "unblock_owners",
    "without_finalizer",
    "without_owners",
]


class Standing(Enum):
    """The state of an owner."""

    SOLID = "exists"
    DANGLING = "does not exist"
    WAITING = "exists, and its deletion waits for its dependents"
    UNKNOWN = "is of a kind that is not served"
    MISPLACED = "is in a namespace, but its dependent is not"


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Detach:
    """Remove the references to these owners, since another owner keeps the object."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object. unblock: clear blockOwnerDeletion first, since its owners and dependents would wait for each other."""

    propagation: str
    unblock: bool = False


Verdict = Keep | Detach | Delete


def judge(
    metadata: JSONObject,
    owners: Sequence[tuple[Reference, Standing]],
    *,
    has_dependents: bool,
    dependents_wait: bool,
) -> Verdict:
    """What to do with an object that is not being deleted.

    dependents_wait: whether a dependent of the object is itself being deleted in the foreground. The dependent may wait for the
    object, so the object must not wait for the dependent.
    """
    standings = {standing for _, standing in owners}
    if not owners or standings & {Standing.UNKNOWN, Standing.MISPLACED}:
        return Keep()
    if Standing.SOLID in standings:
        # References to owners in foreground deletion are removed, too: else these owners would wait for ever.
        lost = frozenset(reference.uid for reference, standing in owners if standing is not Standing.SOLID)
        return Detach(lost) if lost else Keep()
    if Standing.WAITING in standings and has_dependents:
        return Delete("Foreground", unblock=dependents_wait)
    finalizers = metadata.get("finalizers") or ()
    return Delete("Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background")


def standing(reference: Reference, owner: JSONObject | None) -> Standing:
    """The state of a reference's owner. owner: the metadata of the object that it leads to, None if there is none."""
    if owner is None or owner.get("uid") != reference.uid:
        return Standing.DANGLING
    return Standing.WAITING if is_deleting_dependents(owner) else Standing.SOLID


def is_deleting_dependents(metadata: JSONObject) -> bool:
    return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or ())


def misplaced_owner_event(key: ObjectKey, obj: JSONObject, reference: Reference, now: str, suffix: str) -> JSONObject:
    """The Event for a dependent whose owner is in another namespace.

    obj: apiVersion, kind and metadata of the dependent. now: RFC 3339. suffix: makes the name unique.
    """
    identity = f"{reference.kind.api_version}/{reference.kind.kind}, namespace: {key.namespace}, name: {reference.name}"
    metadata = {"name": f"{key.name}.{suffix}", "namespace": key.namespace or "default"}
    involved = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": key.name, "uid": obj["metadata"].get("uid", "")}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": {**involved, "namespace": key.namespace} if key.namespace else involved,
        "reason": "OwnerRefInvalidNamespace",
        "message": f'ownerRef [{identity}, uid: {reference.uid}] does not exist in namespace "{key.namespace}"',
        "source": {"component": "garbage-collector-controller"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Warning",
    }


def without_owners(obj: JSONObject, uids: Collection[str]) -> JSONObject:
    """Remove the references to these owners from the object, and return it."""
    metadata = obj["metadata"]
    left = [entry for entry in metadata.get("ownerReferences") or () if entry.get("uid") not in uids]
    metadata["ownerReferences"] = left
    if not left:
        del metadata["ownerReferences"]
    return obj


def unblock_owners(obj: JSONObject) -> JSONObject:
    """Clear blockOwnerDeletion in the object's owner references, and return it."""
    for entry in obj["metadata"].get("ownerReferences") or ():
        if entry.get("blockOwnerDeletion"):
            entry["blockOwnerDeletion"] = False
    return obj


def without_finalizer(obj: JSONObject, finalizer: str) -> JSONObject:
    """Remove a finalizer from the object, and return it."""
    metadata = obj["metadata"]
    left = [name for name in metadata.get("finalizers") or () if name != finalizer]
    metadata["finalizers"] = left
    if not left:
        del metadata["finalizers"]
    return obj
