"""Immutable fields: what an update of a built-in kind can't change, with upstream's errors.

Pure. Source: Validate...Update in k8s.io/kubernetes pkg/apis/*/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggserver.kinds.pod_updates import changed_pod, semantic
from aggserver.meta import codec, field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONObject

__all__ = ["changed_immutables"]

_IMMUTABLE = "field is immutable"

# Path -> why it can't change. `!` before the text makes it forbidden, and not an invalid value. What stands behind `>` is the
# path that the error has.
_RULES: Mapping[str, Mapping[str, str]] = {
    "apps/v1.ControllerRevision": {"data": _IMMUTABLE},
    "apps/v1.DaemonSet": {"spec.selector": _IMMUTABLE},
    "apps/v1.Deployment": {"spec.selector": _IMMUTABLE},
    "apps/v1.ReplicaSet": {"spec.selector": _IMMUTABLE},
    "batch/v1.Job": {
        "spec.selector": _IMMUTABLE,
        "spec.template": _IMMUTABLE,
        "spec.completionMode": _IMMUTABLE,
        "spec.podFailurePolicy": _IMMUTABLE,
        "spec.backoffLimitPerIndex": _IMMUTABLE,
        "spec.managedBy": _IMMUTABLE,
    },
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
}
# The kinds with `immutable`, and what it protects.
_FROZEN = {"core/v1.ConfigMap": ("data", "binaryData"), "core/v1.Secret": ("data",)}
_WHEN_FROZEN = "field is immutable when `immutable` is set"

# Kinds whose spec can't change but for some members, and the text.
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
    "core/v1.PersistentVolumeClaim": (
        ("resources", "volumeAttributesClassName", "volumeName", "storageClassName"),
        "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
    ),
}


def changed_immutables(type_name: str, obj: JSONObject, old: JSONObject) -> list[FieldError]:
    """type_name: in the tables of `scheme/`."""
    if type_name == "core/v1.Pod":
        return changed_pod(obj, old)
    problems = _frozen(type_name, obj, old)
    for paths, why in _RULES.get(type_name, {}).items():
        if type_name == "batch/v1.Job" and paths == "spec.template":
            problems += _job_template(obj, old)
            continue
        path, _, shown = paths.partition(">")
        value, before = _at(obj, path), _at(old, path)
        if not codec.same(value or None, before or None):
            where = Path(shown or path)
            problems.append(field.forbidden(where, why[1:]) if why[0] == "!" else field.invalid(where, value, why))
    fixed = _FIXED.get(type_name)
    if fixed is not None and _fixed_part(obj, fixed[0]) != _fixed_part(old, fixed[0]):
        problems.append(field.forbidden(Path("spec"), fixed[1]))
    return problems


def _job_template(obj: JSONObject, old: JSONObject) -> list[FieldError]:
    """A template can change only in where its Pods run and in their resources, and only while the Job is suspended without Pods.

    Source: shouldAllowMutablePodTemplate of pkg/registry/batch/job/strategy.go, which says when, and validatePodTemplateUpdate.
    """
    value, before = _at(obj, "spec.template"), _at(old, "spec.template")
    where = Path("spec.template")
    if _is_at_rest(old):
        where, value, before = Path("spec.template.spec"), _at(obj, "spec.template.spec"), _at(old, "spec.template.spec")
        if _without_placement(value or {}) == _without_placement(before or {}):
            return []
    return [] if codec.same(value or None, before or None) else [field.invalid(where, value, _IMMUTABLE)]


def _is_at_rest(job: JSONObject) -> bool:
    status = job.get("status") or {}
    conditions = status.get("conditions") or ()
    is_marked = any(each.get("type") == "Suspended" and each.get("status") == "True" for each in conditions)
    return bool(_at(job, "spec.suspend")) and (is_marked or not status.get("startTime")) and not status.get("active")


def _without_placement(pod: JSONObject) -> JSONObject:
    free = ("nodeSelector", "tolerations", "schedulingGates", "affinity", "containers", "initContainers")
    kept = {name: value for name, value in pod.items() if name not in free and value not in (None, {}, [])}
    affinity = {name: value for name, value in (pod.get("affinity") or {}).items() if name != "nodeAffinity" and value}
    containers = {
        name: [{key: value for key, value in each.items() if key != "resources"} for each in pod.get(name) or ()]
        for name in ("containers", "initContainers")
    }
    return {**kept, **containers, "affinity": affinity}


def _frozen(type_name: str, obj: JSONObject, old: JSONObject) -> list[FieldError]:
    protected = _FROZEN.get(type_name)
    if protected is None or not old.get("immutable"):
        return []
    problems = [] if obj.get("immutable") else [field.forbidden(Path("immutable"), _WHEN_FROZEN)]
    changed = (name for name in protected if (obj.get(name) or {}) != (old.get(name) or {}))
    return problems + [field.forbidden(Path(name), _WHEN_FROZEN) for name in changed]


def _fixed_part(obj: JSONObject, free: tuple[str, ...]) -> Any:
    return semantic({name: value for name, value in (obj.get("spec") or {}).items() if name not in free})


def _at(obj: JSONObject, path: str) -> Any:
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
