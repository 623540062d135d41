"""Deletion of objects that are not removed at once: the garbage collector's finalizers by propagation policy, deletionTimestamp,
and the grace period of Pods.

Pure. Source: k8s.io/apiserver pkg/registry/generic/registry/store.go
(deletionFinalizersForGarbageCollection, markAsDeleting), pkg/registry/rest/delete.go (BeforeDelete), v0.36.3.
"""

from __future__ import annotations

from aggserver.meta import errors, times
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import DeleteOptions

__all__ = [
    "FOREGROUND",
    "ORPHAN",
    "begin_gracefully",
    "check_preconditions",
    "finalizers_for",
    "is_emptied",
    "mark_as_deleting",
]

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_COLLECTED = (ORPHAN, FOREGROUND)


def finalizers_for(finalizers: list[str], options: DeleteOptions, *, orphans: bool = False) -> list[str]:
    """The object's new finalizers: the garbage collector's two are added or removed as the options say.

    If the options have no policy, a finalizer that the object has already is kept; without one, dependents are deleted in the
    background, or orphaned if `orphans` is set.
    """
    if options.orphan_dependents is not None:
        wanted = ORPHAN if options.orphan_dependents else ""
    elif options.propagation:
        wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.propagation, "")
    else:
        wanted = next((name for name in finalizers if name in _COLLECTED), ORPHAN if orphans else "")
    kept = [name for name in finalizers if name not in _COLLECTED]
    result = [*kept, wanted] if wanted else kept
    return finalizers if set(result) == set(finalizers) else result


def mark_as_deleting(metadata: JSONObject, now: str) -> None:
    """Set deletionTimestamp and increment the generation, unless it is set already."""
    if "deletionTimestamp" not in metadata:
        if metadata.get("generation", 0) > 0:
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = now
    metadata["deletionGracePeriodSeconds"] = 0


def begin_gracefully(metadata: JSONObject, wanted: int | None, period: int, now: str) -> bool:
    """Set deletionTimestamp to the end of the grace period, or shorten the grace period. Returns whether anything has changed.

    wanted: gracePeriodSeconds of the options, None if it is not set; an object that is being deleted can only get less time.
    period: the grace period in seconds of an object that is not being deleted yet.
    """
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = _later(now, period)
        if metadata.get("generation", 0) > 0:
            metadata["generation"] += 1
    else:
        left = metadata.get("deletionGracePeriodSeconds") or 0
        if wanted is None or wanted >= left:
            return False
        period = wanted
        metadata["deletionTimestamp"] = _later(metadata["deletionTimestamp"], wanted - left)
    metadata["deletionGracePeriodSeconds"] = period
    return True


def _later(time: str, seconds: int) -> str:
    return times.format_time(times.parse_time(time) + seconds)


def is_emptied(metadata: JSONObject, old: JSONObject) -> bool:
    """Whether an update removes the last finalizer of an object that is being deleted, so that it has to be removed now."""
    return "deletionTimestamp" in old and not metadata.get("finalizers") and not old.get("deletionGracePeriodSeconds")


def check_preconditions(group: str, kind: str, metadata: JSONObject, options: DeleteOptions) -> None:
    """Raise Conflict if uid or resourceVersion differ. It names the kind, where updates name the plural, as upstream."""
    name = metadata["name"]
    if options.uid is not None and options.uid != metadata.get("uid", ""):
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata.get('uid', '')}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(group, kind, name, why)
    version = metadata.get("resourceVersion", "")
    if options.resource_version is not None and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion in record "
            f"({version}). The object might have been modified"
        )
        raise errors.conflict(group, kind, name, why)
