"""The history of StatefulSets and DaemonSets: ControllerRevisions, each with a patch that brings back one template.

`kubectl rollout history` and `undo` read them, and compare the patch byte by byte, so its members are sorted as Go sorts them.
Pure. Source: k8s.io/kubernetes pkg/controller/history/controller_history.go, pkg/controller/statefulset/stateful_set_control.go,
pkg/controller/daemon/update.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from aggserver.controllers.workloads.plan import HISTORY, REVISION_LABEL, Plan, reference_to, template_hash
from aggserver.meta.json_types import JSONObject

__all__ = ["hash_of", "newest_revision", "template_of", "truncate"]

# The label that has a revision's hash, by the kind of its owner.
_HASH_LABELS = {"StatefulSet": "controller.kubernetes.io/hash", "DaemonSet": REVISION_LABEL}
_LONGEST = 223  # characters of an owner's name in the name of a revision
_DIRECTIVE = {"$patch": "replace"}


def newest_revision(owner: JSONObject, revisions: Sequence[JSONObject], plan: Plan) -> JSONObject:
    """The revision of the owner's template. The plan creates it, or gives it the highest number if it is an earlier one."""
    template = owner["spec"]["template"]
    ordered = sorted(revisions, key=_order)
    latest = ordered[-1].get("revision", 0) if ordered else 0
    equal = next((each for each in reversed(ordered) if template_of(each) == template), None)
    if equal is None:
        found = _revision(owner, latest + 1)
        plan.create.append(found)
        return found
    if equal is ordered[-1]:
        return equal
    plan.renumber.append((equal, latest + 1))
    return {**equal, "revision": latest + 1}


def truncate(owner: JSONObject, revisions: Sequence[JSONObject], live: Collection[str], plan: Plan) -> None:
    """Plan to delete the oldest revisions beyond revisionHistoryLimit. live: names that are in use, which do not count."""
    limit = owner["spec"].get("revisionHistoryLimit", HISTORY)
    history = [each for each in sorted(revisions, key=_order) if each["metadata"]["name"] not in live]
    if limit >= 0:
        plan.delete += history[: max(len(history) - limit, 0)]


def template_of(revision: JSONObject) -> JSONObject:
    """The template that a revision brings back."""
    template = ((revision.get("data") or {}).get("spec") or {}).get("template") or {}
    return {name: value for name, value in template.items() if name != "$patch"}


def hash_of(revision: JSONObject) -> str:
    """The hash of a DaemonSet's revision, which its Pods have as a label."""
    metadata = revision["metadata"]
    return str((metadata.get("labels") or {}).get(REVISION_LABEL) or metadata["name"])


def _order(revision: JSONObject) -> tuple[int, str, str]:
    metadata = revision["metadata"]
    return revision.get("revision", 0), metadata.get("creationTimestamp", ""), metadata["name"]


def _revision(owner: JSONObject, number: int) -> JSONObject:
    metadata, template = owner["metadata"], owner["spec"]["template"]
    digest = template_hash(template, (owner.get("status") or {}).get("collisionCount", 0))
    labels = {**((template.get("metadata") or {}).get("labels") or {}), _HASH_LABELS[owner["kind"]]: digest}
    annotations = metadata.get("annotations") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{metadata['name'][:_LONGEST]}-{digest}",
            "namespace": metadata["namespace"],
            "labels": labels,
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [reference_to(owner)],
        },
        "data": {"spec": {"template": _sorted({**template, **_DIRECTIVE})}},
        "revision": number,
    }


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return list(map(_sorted, value)) if isinstance(value, list) else value
