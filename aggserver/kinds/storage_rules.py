"""Rules of CSIStorageCapacities and VolumeAttributesClasses that the table of checks can't express.

Pure. Source: k8s.io/kubernetes pkg/apis/storage/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from aggserver.meta.field import FieldError, Path, invalid, too_long
from aggserver.meta.json_types import JSONObject
from aggserver.meta.names import dns1123_subdomain, qualified_name

__all__ = ["attributes_class_problems", "changed_capacity", "storage_capacity_problems"]

_PARAMETERS = Path("parameters")
_MOST_PARAMETERS = 512
_MAX_PARAMETER_BYTES = 256 * 1024


def storage_capacity_problems(obj: JSONObject) -> Iterator[FieldError]:
    name = obj.get("storageClassName") or ""
    yield from (invalid(Path("storageClassName"), name, text) for text in dns1123_subdomain(name))
    if (capacity := obj.get("capacity")) is not None and str(capacity).startswith("-"):
        yield invalid(Path("capacity"), capacity, "must be greater than or equal to 0")


def changed_capacity(obj: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    for name in ("nodeTopology", "storageClassName"):
        if obj.get(name) != old.get(name):
            yield invalid(Path(name), obj.get(name), "field is immutable")


def attributes_class_problems(obj: JSONObject) -> Iterator[FieldError]:
    driver = (obj.get("driverName") or "").lower()
    if driver:
        yield from (invalid(Path("driverName"), driver, text) for text in qualified_name(driver))
    parameters = obj.get("parameters") or {}
    if len(parameters) > _MOST_PARAMETERS:
        yield too_long(_PARAMETERS, _MOST_PARAMETERS)
        return
    if "" in parameters:
        yield invalid(_PARAMETERS, "", "field can not be empty.")
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _MAX_PARAMETER_BYTES:
        yield too_long(_PARAMETERS, _MAX_PARAMETER_BYTES)
