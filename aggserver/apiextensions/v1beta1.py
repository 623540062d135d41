"""v1beta1: converts definitions from v1beta1, which has the parts common to all versions once at the top, to v1.

v1beta1 is not served, as kube-apiserver stopped that in 1.22. But there are still files in v1beta1; and kube-apiserver still
stores definitions in it, so an etcd that was used by kube-apiserver, or is shared with it, has such objects. (This server stores
v1, which kube-apiserver reads too.)
`StoredDefinitions` is the converter of the definitions' own store, and mutates its arguments; `to_v1` is for manifests, and
copies. Pure.
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/{v1/conversion.go,v1beta1/{types,defaults}.go}, v0.36.3; that
v1beta1 is stored: k8s.io/kubernetes pkg/controlplane/apiserver/apiextensions.go, v1.36.3.
"""

from __future__ import annotations

import copy
from typing import Any

from aggserver.apiextensions import manifest
from aggserver.conversion.converter import ComputedConverter
from aggserver.meta.json_types import JSONObject
from aggserver.schema.structural import PRESERVE

__all__ = ["API_VERSION", "StoredDefinitions", "to_v1"]

API_VERSION = "apiextensions.k8s.io/v1beta1"

# Member of the spec -> member of a version.
_HOISTED = {
    "validation": "schema",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


class StoredDefinitions(ComputedConverter):
    """The `Converter` for definitions that are not stored in v1."""

    changes_metadata = False

    def at_once(self, obj: JSONObject, api_version: str) -> JSONObject:
        if obj["apiVersion"] == API_VERSION:
            obj["spec"].setdefault("preserveUnknownFields", True)  # the default of v1beta1
        obj["apiVersion"] = api_version
        _to_v1(obj["spec"])
        return obj


def _to_v1(spec: dict[str, Any]) -> None:
    name = spec.pop("version", "")
    versions = spec.setdefault("versions", [{"name": name, "served": True, "storage": True}] if name else [])
    for above, below in _HOISTED.items():
        if (common := spec.pop(above, None)) is not None:
            for version in versions:
                version[below] = copy.deepcopy(common)
    for version in versions:
        for column in version.get("additionalPrinterColumns") or ():
            if "JSONPath" in column:
                column["jsonPath"] = column.pop("JSONPath")
    if not spec.get("preserveUnknownFields", True):
        del spec["preserveUnknownFields"]
    _conversion_to_v1(spec.get("conversion") or {})


def _conversion_to_v1(conversion: dict[str, Any]) -> None:
    client = conversion.pop("webhookClientConfig", None)
    reviews = conversion.pop("conversionReviewVersions", None)
    if client is not None or reviews is not None:
        conversion["webhook"] = {"conversionReviewVersions": reviews or []}
        if client is not None:
            conversion["webhook"]["clientConfig"] = client


def to_v1(obj: Any) -> Any:
    """Convert a manifest to v1; anything but a definition in v1beta1 is returned unchanged.

    Members of a wrong type are left for `manifest.py` to report. v1 does not allow preserveUnknownFields: true, the default of
    v1beta1; it becomes x-kubernetes-preserve-unknown-fields in each object of the schemas.
    """
    if not isinstance(obj, dict) or (obj.get("apiVersion"), obj.get("kind")) != (API_VERSION, manifest.KIND):
        return obj
    made = {**copy.deepcopy(obj), "apiVersion": manifest.API_VERSION}
    spec = made.get("spec")
    if isinstance(spec, dict):
        made["spec"] = spec = {name: value for name, value in spec.items() if value is not None}
        if _has_form(spec):
            _fill_in(spec)
    return made


def _has_form(spec: dict[str, Any]) -> bool:
    """Whether the members that must be moved have the right types."""
    versions = spec.get("versions", [])
    if not isinstance(versions, list) or not all(isinstance(version, dict) for version in versions):
        return False
    columns = [spec.get("additionalPrinterColumns", []), *(version.get("additionalPrinterColumns") or [] for version in versions)]
    return (
        isinstance(spec.get("conversion", {}), dict)
        and isinstance(spec.get("validation", {}), dict)
        and all(isinstance(entry, list) and all(isinstance(column, dict) for column in entry) for entry in columns)
    )


def _fill_in(spec: dict[str, Any]) -> None:
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    if conversion.get("strategy") == "Webhook" and not conversion.get("conversionReviewVersions"):
        conversion["conversionReviewVersions"] = ["v1beta1"]
    spec["scope"] = spec.get("scope") or "Namespaced"
    preserves = spec.get("preserveUnknownFields", True)
    if not spec.get("versions"):
        spec.pop("versions", None)
    _to_v1(spec)
    if preserves is not True:
        return
    spec.pop("preserveUnknownFields", None)
    for version in spec["versions"]:
        schema = version.get("schema") or {}
        if isinstance(schema, dict):
            written = schema.get("openAPIV3Schema")
            version["schema"] = {"openAPIV3Schema": _preserving({"type": "object"} if written is None else written)}


def _preserving(schema: Any) -> Any:
    """The schema with x-kubernetes-preserve-unknown-fields in all objects, as preserveUnknownFields meant."""
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    if schema.get("type") == "object" and schema.get("additionalProperties") is None:
        made[PRESERVE] = True
    properties = schema.get("properties")
    if isinstance(properties, dict):
        made["properties"] = {name: child if name == "metadata" else _preserving(child) for name, child in properties.items()}
    for name in ("items", "additionalProperties"):
        if name in schema:
            made[name] = _preserving(schema[name])
    return made
