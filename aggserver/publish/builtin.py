"""Kubernetes' own part of every OpenAPI document: the schemas of meta/v1 and of Scale, and the query parameters.

`kubernetes.json` has them as kube-apiserver 1.36 publishes them for a custom resource, descriptions included. Names and content
must be the same, because kube-aggregator merges our v2 document with the cluster's own and renames (`_v2`) any that differ.

Source: the documents of kube-apiserver v1.36.3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

__all__ = [
    "DELETE_OPTIONS",
    "LIST_META",
    "OBJECT_META",
    "PATCH",
    "SCALE",
    "STATUS",
    "closure",
    "parameters",
    "schemas",
]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
OBJECT_META = _META + "ObjectMeta"
LIST_META = _META + "ListMeta"
DELETE_OPTIONS = _META + "DeleteOptions"
PATCH = _META + "Patch"
STATUS = _META + "Status"
SCALE = "io.k8s.api.autoscaling.v1.Scale"

_V3_PREFIX = "#/components/schemas/"


@cache
def _data() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("kubernetes.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def schemas() -> Mapping[str, dict[str, Any]]:
    """Model name -> OpenAPI v3 schema. Shared, so it must not be changed."""
    found: dict[str, dict[str, Any]] = _data()["schemas"]
    return found


def parameters() -> Mapping[str, dict[str, Any]]:
    """Key -> `name`, `in`, `type`, `description`, `required`, and `shared`, the name among v2's common parameters, if any.

    The key is the name, except for `fieldManager of patch`, whose description differs. Shared, so it must not be changed.
    """
    found: dict[str, dict[str, Any]] = _data()["parameters"]
    return found


def closure(names: Iterable[str]) -> list[str]:
    """The named built-in models and all models that they refer to, sorted."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(_references(name))
    return sorted(found)


@cache
def _references(name: str) -> tuple[str, ...]:
    return tuple(_walk(schemas()[name]))


def _walk(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value.removeprefix(_V3_PREFIX)
            else:
                yield from _walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from _walk(value)
