"""Immutable fields: what an update of a built-in kind can't change, with upstream's errors.

Pure. Source: Validate...Update in k8s.io/kubernetes pkg/apis/*/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aggserver.kinds.claim_updates import changed_claim
from aggserver.kinds.job_updates import changed_job
from aggserver.kinds.network_ranges import changed_range
from aggserver.kinds.pod_updates import changed_pod, semantic
from aggserver.kinds.quota_rules import changed_quota
from aggserver.kinds.service_rules import changed_service
from aggserver.kinds.storage_rules import changed_capacity
from aggserver.meta import codec, field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONObject

__all__ = ["changed_immutables"]

_IMMUTABLE = "field is immutable"

# Path -> the error's text. With `!` before the text, the reason is Forbidden instead of Invalid. After `>` stands the path that
# the error shows.
_RULES: Mapping[str, Mapping[str, str]] = {
    "apps/v1.ControllerRevision": {"data": _IMMUTABLE},
    "apps/v1.DaemonSet": {"spec.selector": _IMMUTABLE},
    "apps/v1.Deployment": {"spec.selector": _IMMUTABLE},
    "apps/v1.ReplicaSet": {"spec.selector": _IMMUTABLE},
    "core/v1.Secret": {"type": _IMMUTABLE},
    "events/v1.Event": {
        "regarding>involvedObject": _IMMUTABLE,
        "reason": _IMMUTABLE,
        "note>message": _IMMUTABLE,
        "deprecatedSource>source": _IMMUTABLE,
        "deprecatedFirstTimestamp>firstTimestamp": _IMMUTABLE,
        "deprecatedLastTimestamp>lastTimestamp": _IMMUTABLE,
        "deprecatedCount>count": _IMMUTABLE,
        "eventTime": _IMMUTABLE,
        "action": _IMMUTABLE,
        "related": _IMMUTABLE,
        "reportingController": _IMMUTABLE,
        "reportingInstance": _IMMUTABLE,
        "type": _IMMUTABLE,
    },
    "discovery/v1.EndpointSlice": {"addressType": _IMMUTABLE},
    "networking/v1.IPAddress": {"spec.parentRef": _IMMUTABLE},
    "networking/v1.IngressClass": {"spec.controller": _IMMUTABLE},
    "node/v1.RuntimeClass": {"handler": _IMMUTABLE},
    "resource/v1.ResourceClaim": {"spec": _IMMUTABLE},
    "resource/v1.ResourceClaimTemplate": {"spec": _IMMUTABLE},
    "resource/v1.ResourceSlice": {"spec.driver": _IMMUTABLE, "spec.nodeName": _IMMUTABLE},
    "scheduling/v1.PriorityClass": {"value": "!may not be changed in an update.", "preemptionPolicy": _IMMUTABLE},
    "storage/v1.CSIDriver": {"spec.attachRequired": _IMMUTABLE, "spec.volumeLifecycleModes": _IMMUTABLE},
    "storage/v1.StorageClass": {
        "parameters": _IMMUTABLE,
        "provisioner": _IMMUTABLE,
        "reclaimPolicy": _IMMUTABLE,
        "volumeBindingMode": _IMMUTABLE,
    },
    "storage/v1.VolumeAttachment": {"spec": _IMMUTABLE},
    "storage/v1.VolumeAttributesClass": {
        "driverName": "!updates to driverName are forbidden.",
        "parameters": "!updates to parameters are forbidden.",
    },
}
# The kinds with a member `immutable`, and the members that it protects.
_FROZEN = {"core/v1.ConfigMap": ("data", "binaryData"), "core/v1.Secret": ("data",)}
_WHEN_FROZEN = "field is immutable when `immutable` is set"

# Kinds whose spec can't change: (the members that can, the error's text).
_FIXED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "apps/v1.StatefulSet": (
        (
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ),
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
        "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
    ),
}

# The kinds with functions of their own.
_OWN: Mapping[str, Callable[[JSONObject, JSONObject], Iterable[FieldError]]] = {
    "batch/v1.Job": changed_job,
    "core/v1.PersistentVolumeClaim": changed_claim,
    "core/v1.Pod": changed_pod,
    "core/v1.ResourceQuota": changed_quota,
    "core/v1.Service": changed_service,
    "networking/v1.ServiceCIDR": changed_range,
    "storage/v1.CSIStorageCapacity": changed_capacity,
}


def changed_immutables(type_name: str, obj: JSONObject, old: JSONObject) -> list[FieldError]:
    """The errors of an update. type_name: in the tables of `scheme/`."""
    own = _OWN.get(type_name)
    if own is not None:
        return list(own(obj, old))
    problems = _frozen(type_name, obj, old)
    for paths, why in _RULES.get(type_name, {}).items():
        path, _, shown = paths.partition(">")
        value, before = _at(obj, path), _at(old, path)
        if not codec.same(value or None, before or None):
            where = Path(shown or path)
            problems.append(field.forbidden(where, why[1:]) if why[0] == "!" else field.invalid(where, value, why))
    fixed = _FIXED.get(type_name)
    if fixed is not None and _fixed_part(type_name, obj, fixed[0]) != _fixed_part(type_name, old, fixed[0]):
        problems.append(field.forbidden(Path("spec"), fixed[1]))
    return problems


def _frozen(type_name: str, obj: JSONObject, old: JSONObject) -> list[FieldError]:
    protected = _FROZEN.get(type_name)
    if protected is None or not old.get("immutable"):
        return []
    problems = [] if obj.get("immutable") else [field.forbidden(Path("immutable"), _WHEN_FROZEN)]
    changed = (name for name in protected if (obj.get(name) or {}) != (old.get(name) or {}))
    return problems + [field.forbidden(Path(name), _WHEN_FROZEN) for name in changed]


def _fixed_part(type_name: str, obj: JSONObject, free: tuple[str, ...]) -> Any:
    kept = {name: value for name, value in (obj.get("spec") or {}).items() if name not in free}
    return semantic(kept, f"{type_name}Spec")


def _at(obj: JSONObject, path: str) -> Any:
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
