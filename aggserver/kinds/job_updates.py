"""What an update of a Job's spec may change: its template while it is suspended without Pods, its completions if it is indexed.

Pure. Source: ValidateJobSpecUpdate in k8s.io/kubernetes pkg/apis/batch/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aggserver.kinds.pod_updates import semantic
from aggserver.meta import codec, field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["changed_job"]

_SPEC = Path("spec")
_TEMPLATE = _SPEC.child("template")
_IMMUTABLE = "field is immutable"
_FIXED = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def changed_job(obj: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    spec, before = obj["spec"], old["spec"]
    yield from _completions(spec, before)
    yield from _template(spec.get("template") or {}, before.get("template") or {}, is_free=_is_at_rest(old))
    for name in _FIXED:
        if not codec.same(spec.get(name) or None, before.get(name) or None):
            yield field.invalid(_SPEC.child(name), spec.get(name), _IMMUTABLE)


def _completions(spec: JSONMapping, before: JSONMapping) -> Iterator[FieldError]:
    number = spec.get("completions")
    if number == before.get("completions"):
        return
    if spec.get("completionMode") != "Indexed":
        yield field.invalid(_SPEC.child("completions"), number, _IMMUTABLE)
    elif number is not None and number != spec.get("parallelism"):
        yield field.invalid(_SPEC.child("completions"), number, "can only be modified in tandem with spec.parallelism")


def _template(template: JSONObject, before: JSONObject, *, is_free: bool) -> Iterator[FieldError]:
    """Only the placement and resources of a template's Pods can change, and only while the Job is suspended without Pods.

    Source, for the condition: shouldAllowMutablePodTemplate in pkg/registry/batch/job/strategy.go.
    """
    if not is_free:
        if not codec.same(template or None, before or None):
            yield field.invalid(_TEMPLATE, template, _IMMUTABLE)
        return
    pod = template.get("spec") or {}
    if _without_placement(pod) != _without_placement(before.get("spec") or {}):
        yield field.invalid(_TEMPLATE.child("spec"), pod, _IMMUTABLE)


def _is_at_rest(job: JSONObject) -> bool:
    status = job.get("status") or {}
    conditions = status.get("conditions") or ()
    is_marked = any(each.get("type") == "Suspended" and each.get("status") == "True" for each in conditions)
    return bool(job["spec"].get("suspend")) and (is_marked or not status.get("startTime")) and not status.get("active")


def _without_placement(pod: JSONObject) -> Any:
    kept = {name: value for name, value in pod.items() if name not in ("nodeSelector", "tolerations", "schedulingGates")}
    # A missing affinity is the same as one for nodes only.
    kept["affinity"] = {name: value for name, value in (pod.get("affinity") or {}).items() if name != "nodeAffinity"}
    for name in ("containers", "initContainers"):
        kept[name] = [{key: value for key, value in each.items() if key != "resources"} for each in pod.get(name) or ()]
    return semantic(kept, "core/v1.PodSpec")
