"""The specs of PersistentVolumeClaims, of their own, in ephemeral volumes and in StatefulSets.

Pure. Source: ValidatePersistentVolumeClaimSpec in k8s.io/kubernetes pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from aggserver.kinds.pod_rules.texts import named
from aggserver.meta import quantity
from aggserver.meta.field import FieldError, Path, forbidden, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_label, dns1123_subdomain
from aggserver.scheme.selectors import label_selector

__all__ = ["claim_spec_problems"]

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_ONE_POD = "ReadWriteOncePod"


def claim_spec_problems(spec: JSONMapping, path: Path) -> Iterator[FieldError]:
    modes, where = spec.get("accessModes") or (), path.child("accessModes")
    if not modes:
        yield required(where, "at least 1 access mode is required")
    if (selector := spec.get("selector")) is not None:
        yield from label_selector(selector, path.child("selector"))
    yield from (not_supported(where, mode, _MODES) for mode in modes if mode not in _MODES)
    if _ONE_POD in modes and any(mode in _MODES and mode != _ONE_POD for mode in modes):
        yield forbidden(where, f"may not use {_ONE_POD} with other access modes")
    size, at = ((spec.get("resources") or {}).get("requests") or {}).get("storage"), path.child("resources").key("storage")
    if size is None:
        yield required(at)
    elif quantity.parse(str(size)).sign() <= 0:
        yield invalid(at, quantity.canonical(str(size)), "must be greater than zero")
    if name := spec.get("storageClassName"):
        yield from named(path.child("storageClassName"), name, dns1123_subdomain)
    if (mode := spec.get("volumeMode")) is not None and mode not in _VOLUME_MODES:
        yield not_supported(path.child("volumeMode"), mode, _VOLUME_MODES)
    for member in ("dataSource", "dataSourceRef"):
        yield from _source(spec.get(member), path.child(member))
    if name := spec.get("volumeAttributesClassName"):
        yield from named(path.child("volumeAttributesClassName"), name, dns1123_subdomain)


def _source(source: JSONMapping | None, path: Path) -> Iterator[FieldError]:
    if source is None:
        return
    yield from (required(path.child(name)) for name in ("name", "kind") if not source.get(name))
    if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield invalid(path, source.get("kind") or "", text)
    if group := source.get("apiGroup"):
        yield from named(path.child("apiGroup"), group, dns1123_subdomain)
    if namespace := source.get("namespace"):
        yield from named(path.child("namespace"), namespace, dns1123_label)
