"""What an update of a PersistentVolumeClaim may change: its volume and its class once, the size and attributes of a bound one.

Pure. Source: ValidatePersistentVolumeClaimUpdate in k8s.io/kubernetes pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from aggserver.kinds.pod_updates import semantic
from aggserver.meta import field, quantity
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["changed_claim"]

_SPEC = Path("spec")
_CLAIM_SPEC = "core/v1.PersistentVolumeClaimSpec"
_CLASS, _ATTRIBUTES = "storageClassName", "volumeAttributesClassName"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_IMMUTABLE = "field is immutable"
_FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def changed_claim(obj: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    spec, before = dict(obj["spec"]), dict(old["spec"])
    if not before.get("volumeName"):
        before["volumeName"] = spec.get("volumeName")
    now, was = (each["metadata"].get("annotations") or {} for each in (obj, old))
    given = spec.get(_CLASS)
    if _OLD_CLASS in was and before.get(_CLASS) is None and given == was[_OLD_CLASS] == now.get(_OLD_CLASS, given):
        spec[_CLASS] = None  # it moves from the annotation to the spec
    else:
        if now.get(_OLD_CLASS, "") != was.get(_OLD_CLASS, ""):
            yield field.invalid(Path("metadata").child("annotations", _OLD_CLASS), now.get(_OLD_CLASS, ""), _IMMUTABLE)
        if before.get(_CLASS) is None and given == was.get(_OLD_CLASS, given):
            spec[_CLASS] = None
    if (obj.get("status") or {}).get("phase") == "Bound":
        _copy_mutable_fields(spec, before)
    if semantic(spec, _CLAIM_SPEC) != semantic(before, _CLAIM_SPEC):
        yield field.forbidden(_SPEC, _FIXED)
    yield from _shrunk(obj, old)
    if obj["spec"].get("volumeMode") != old["spec"].get("volumeMode"):
        yield field.invalid(Path("volumeMode"), obj["spec"].get("volumeMode"), _IMMUTABLE)
    yield from _attributes(obj, old)


def _copy_mutable_fields(spec: JSONObject, before: JSONObject) -> None:
    spec[_ATTRIBUTES] = before.get(_ATTRIBUTES)
    resources = spec.get("resources") or {}
    if resources.get("requests"):
        spec["resources"] = {**resources, "requests": {**resources["requests"], "storage": _size(before)}}


def _size(spec: JSONMapping) -> str | None:
    found: str | None = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    return found


def _shrunk(obj: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    """A request for a larger size may be reduced again, but only to more than the present capacity."""
    size, before = (quantity.parse(_size(each["spec"]) or "0") for each in (obj, old))
    there = quantity.parse(((old.get("status") or {}).get("capacity") or {}).get("storage") or "0")
    if size.compare(before) < 0 and size.compare(there) <= 0:
        yield field.forbidden(_SPEC.child("resources", "requests", "storage"), "field can not be less than status.capacity")


def _attributes(obj: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    name, path = obj["spec"].get(_ATTRIBUTES), _SPEC.child(_ATTRIBUTES)
    if name or name == old["spec"].get(_ATTRIBUTES) or (old.get("status") or {}).get("currentVolumeAttributesClassName") is None:
        return
    to = "nil" if name is None else "empty string"
    yield field.forbidden(path, f"update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil")
