"""The conditions in the status of a namespace that is being deleted: what content is left, and why.

Pure. Source: k8s.io/kubernetes pkg/controller/namespace/deletion/{namespaced_resources_deleter,status_condition_utils}.go,
v1.36.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aggserver.meta.json_types import JSONObject

__all__ = ["Remaining", "with_conditions"]


@dataclass(slots=True)
class Remaining:
    """What could not be deleted: objects by (group, plural), the finalizers that they wait for, and what failed.

    shows_numbers: whether the conditions have the numbers. As upstream, not while there are Pods, which are deleted first.
    """

    objects: Counter[tuple[str, str]] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    shows_numbers: bool = True


class _Condition(NamedTuple):
    """A type of condition. reason, message: with the status False, when there is no problem."""

    type: str
    reason: str
    message: str


_CONDITIONS = (
    _Condition("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    _Condition("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    _Condition(
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    _Condition("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    _Condition("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
)


def with_conditions(status: JSONObject, remaining: Remaining, now: str) -> JSONObject:
    """The status with the conditions that say what remains. now: RFC 3339, the lastTransitionTime of conditions that change."""
    problems = _problems(remaining)
    present = {entry.get("type"): entry for entry in status.get("conditions") or ()}
    wanted = {condition.type: _wanted(condition, problems) for condition in _CONDITIONS}
    entries = [_merged(entry, wanted.get(entry.get("type")), now) for entry in present.values()]
    entries += [{"lastTransitionTime": now, **entry} for name, entry in wanted.items() if name not in present]
    return {**status, "conditions": entries}


def _wanted(condition: _Condition, problems: Mapping[str, tuple[str, str]]) -> JSONObject:
    status = "True" if condition.type in problems else "False"
    reason, message = problems.get(condition.type, (condition.reason, condition.message))
    return {"message": message, "reason": reason, "status": status, "type": condition.type}


def _merged(entry: JSONObject, wanted: JSONObject | None, now: str) -> JSONObject:
    if wanted is None:
        return entry
    time = entry.get("lastTransitionTime", now) if entry.get("status") == wanted["status"] else now
    return {"lastTransitionTime": time, **wanted}


def _problems(remaining: Remaining) -> dict[str, tuple[str, str]]:
    """Reason and message by type, of the conditions that are True."""
    found: dict[str, tuple[str, str]] = {}
    if remaining.failures:
        failures = sorted(remaining.failures)
        message = f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(failures)}"
        found["NamespaceDeletionContentFailure"] = "ContentDeletionFailed", message
    if remaining.shows_numbers and remaining.objects:
        # The name of a core resource ends with a dot, as upstream.
        left = sorted(f"{name}.{group} has {count} resource instances" for (group, name), count in remaining.objects.items())
        found["NamespaceContentRemaining"] = "SomeResourcesRemain", f"Some resources are remaining: {', '.join(left)}"
    if remaining.shows_numbers and remaining.finalizers:
        left = sorted(f"{name} in {count} resource instances" for name, count in remaining.finalizers.items())
        message = f"Some content in the namespace has finalizers remaining: {', '.join(left)}"
        found["NamespaceFinalizersRemaining"] = "SomeFinalizersRemain", message
    return found
