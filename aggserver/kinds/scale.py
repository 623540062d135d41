"""`/scale` of the built-in workloads: replicas at fixed paths, and the selector as text.

Source: k8s.io/kubernetes pkg/registry/apps/*/storage/storage.go (scaleFrom...), v1.36.3.
"""

from __future__ import annotations

from aggserver.kinds.catalog import BuiltInKind
from aggserver.merge.scale_owners import ScaleOwners
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import LabelSelector, SelectorError
from aggserver.registry.custom_resource import ScalePaths
from aggserver.registry.store import Store
from aggserver.registry.subresources import ScaleStore

__all__ = ["scale_store"]

_REPLICAS = ".spec.replicas"


def scale_store(kind: BuiltInKind, store: Store) -> ScaleStore:
    """The store of a kind's Scales. store: of the objects, without a field manager."""
    paths = ScalePaths(_REPLICAS, f".status.{kind.scale}")
    return ScaleStore(store, paths, ScaleOwners(kind.api_version, {kind.api_version: _REPLICAS}), _selector)


def _selector(obj: JSONObject) -> str:
    selector = (obj.get("spec") or {}).get("selector") or {}
    if obj.get("kind") == "ReplicationController":
        selector = {"matchLabels": selector}
    try:
        return str(LabelSelector.from_object(selector))
    except SelectorError:
        return ""
