"""Behaviours of single kinds in writes: what the server changes in an object beyond the rules of the catalog.

Most of what it sets in new objects is in `creation.py`.
Pure. Source: PrepareForCreate and PrepareForUpdate in k8s.io/kubernetes pkg/registry/*/*/strategy.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aggserver.kinds import autoscalers
from aggserver.kinds.creation import TEMPLATE_GENERATION, keep_secret_names, pair_data_sources
from aggserver.meta.json_types import JSONObject

__all__ = ["ON_CREATE", "ON_DECODE", "ON_STATUS_UPDATE", "ON_UPDATE", "stamp_conditions"]

# A function that changes an object: (object, old object, now).
_Change = Callable[[JSONObject, JSONObject, str], None]


def _limit_range(obj: JSONObject, now: str) -> None:
    """A LimitRange without a name is named by its uid."""
    metadata = obj["metadata"]
    if not metadata.get("name"):
        metadata["name"] = metadata["uid"]


def _api_service(obj: JSONObject, now: str) -> None:
    if obj["spec"].get("service") is None:
        local = {"type": "Available", "status": "True", "lastTransitionTime": now, "reason": "Local"}
        obj["status"] = {"conditions": [{**local, "message": "Local APIServices are always available"}]}


def _daemon_set(obj: JSONObject, old: JSONObject, now: str) -> None:
    """Keep or increment the template generation, an annotation that clients can't change (upstream's spec.templateGeneration)."""
    before = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION)
    if before is None or not before.isdecimal():
        return
    changed = obj["spec"].get("template") != old["spec"].get("template")
    metadata = obj["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), TEMPLATE_GENERATION: str(int(before) + changed)}


def _service_account(obj: JSONObject, old: JSONObject, now: str) -> None:
    keep_secret_names(obj)


def _claim(obj: JSONObject, old: JSONObject, now: str) -> None:
    pair_data_sources(obj, old)


def _signing_request(obj: JSONObject, old: JSONObject, now: str) -> None:
    obj["spec"] = old["spec"]


def _signing_status(obj: JSONObject, old: JSONObject, now: str) -> None:
    """`/status` can't change whether the request is approved."""
    from aggserver.kinds import signing_requests

    signing_requests.keep_judgements(obj, old)
    stamp_conditions(obj, old, now)


def stamp_conditions(obj: JSONObject, old: JSONObject, now: str) -> None:
    """Set the times that the conditions of a CertificateSigningRequest lack."""
    before = {(each.get("type"), each.get("status")): each for each in (old.get("status") or {}).get("conditions") or ()}
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            same = before.get((condition.get("type"), condition.get("status")), {})
            condition["lastTransitionTime"] = same.get("lastTransitionTime") or now


def _volume_status(obj: JSONObject, old: JSONObject, now: str) -> None:
    status, before = obj.setdefault("status", {}), old.get("status") or {}
    time, same = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
    if status.get("phase") == before.get("phase"):
        if time is None and same is not None:
            status["lastPhaseTransitionTime"] = same
    elif time is None or time == same:
        status["lastPhaseTransitionTime"] = now


def _pod_status(obj: JSONObject, old: JSONObject, now: str) -> None:
    status, before = obj.setdefault("status", {}), old.get("status") or {}
    for name in ("qosClass", "observedGeneration"):
        if not status.get(name) and before.get(name):
            status[name] = before[name]


def _show_template_generation(obj: JSONObject) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    if TEMPLATE_GENERATION not in annotations:
        obj["metadata"]["annotations"] = {**annotations, TEMPLATE_GENERATION: "0"}


def _first_template_generation(obj: JSONObject, now: str) -> None:
    annotations = obj["metadata"]["annotations"]
    if annotations.get(TEMPLATE_GENERATION) in (None, "0"):
        obj["metadata"]["annotations"] = {**annotations, TEMPLATE_GENERATION: "1"}


# Functions that change an object after it was decoded.
ON_DECODE: Mapping[str, Callable[[JSONObject], None]] = {
    "apps/v1.DaemonSet": _show_template_generation,
    "autoscaling/v1.HorizontalPodAutoscaler": autoscalers.normalize,
    "autoscaling/v2.HorizontalPodAutoscaler": autoscalers.drop_annotations,
}
# Functions that change a new object: (object, now).
ON_CREATE: Mapping[str, Callable[[JSONObject, str], None]] = {
    "apiregistration/v1.APIService": _api_service,
    "apps/v1.DaemonSet": _first_template_generation,
    "autoscaling/v1.HorizontalPodAutoscaler": autoscalers.drop_status,
    "core/v1.LimitRange": _limit_range,
}
ON_UPDATE: Mapping[str, _Change] = {
    "apps/v1.DaemonSet": _daemon_set,
    "autoscaling/v1.HorizontalPodAutoscaler": autoscalers.keep_status,
    "certificates/v1.CertificateSigningRequest": _signing_request,
    "core/v1.PersistentVolumeClaim": _claim,
    "core/v1.ServiceAccount": _service_account,
}
ON_STATUS_UPDATE: Mapping[str, _Change] = {
    "apps/v1.DaemonSet": _daemon_set,
    "autoscaling/v1.HorizontalPodAutoscaler": autoscalers.keep_spec,
    "certificates/v1.CertificateSigningRequest": _signing_status,
    "core/v1.PersistentVolume": _volume_status,
    "core/v1.Pod": _pod_status,
}
