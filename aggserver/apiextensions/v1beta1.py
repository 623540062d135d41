"""Definitions as kube-apiserver stores them: in v1beta1, which says once above all versions what is alike in each of them.

Nobody is served v1beta1. But where an etcd is shared with kube-apiserver, or was taken over from it, its definitions are read,
and must not be taken for v1; what is written here is v1, which kube-apiserver reads too.
Given to the definitions' own store by `app/standalone.py`. Changes only what it is given.
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/{v1/conversion.go,v1beta1/types.go}, v0.36.3; that v1beta1 is
stored: k8s.io/kubernetes pkg/controlplane/apiserver/apiextensions.go, v1.36.3.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

__all__ = ["StoredDefinitions"]

# Member of the spec -> member of a version.
_HOISTED = {
    "validation": "schema",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


class StoredDefinitions:
    """A `Converter` of what is not stored in v1."""

    async def convert(self, objects: Sequence[dict[str, Any]], api_version: str) -> list[dict[str, Any]]:
        for obj in objects:
            obj["apiVersion"] = api_version
            _to_v1(obj["spec"])
        return list(objects)


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
