"""OpenAPI: the v3 models of the kinds in the tables, as kube-apiserver publishes them, without descriptions.

Pure. Source: k8s.io/kube-openapi pkg/generators/openapi.go and pkg/builder3, as k8s.io/kubernetes v1.36.3 has them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from aggserver.meta.json_types import JSONObject
from aggserver.scheme.kinds import kind_of
from aggserver.scheme.types import Member, Type, lookup

__all__ = ["list_model", "model_name", "models", "type_name"]

_PACKAGES = {
    "api/resource": "io.k8s.apimachinery.pkg.api.resource",
    "apiextensions/v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "apiregistration/v1": "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
    "meta/v1": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "pkg/runtime": "io.k8s.apimachinery.pkg.runtime",
    "util/intstr": "io.k8s.apimachinery.pkg.util.intstr",
}
_OTHER = "io.k8s.api."
_REFERENCE = "#/components/schemas/"

# The schemas of values that have no model of their own.
_SCALARS = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
}
_ZEROS = {"string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0}
# The models of types that write their own JSON.
_CUSTOM: dict[str, JSONObject] = {
    "time": {"type": "string", "format": "date-time"},
    "micro-time": {"type": "string", "format": "date-time"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "int-or-string": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "json": {"type": "object"},
    "union": {},
}


def model_name(type_name: str) -> str:
    """The model's name for a type: `io.k8s.api.core.v1.Pod` for `core/v1.Pod`."""
    package, _, short = type_name.rpartition(".")
    return f"{_PACKAGES.get(package) or _OTHER + package.replace('/', '.')}.{short}"


def type_name(model_name: str) -> str:
    """The type of a model: `core/v1.Pod` for `io.k8s.api.core.v1.Pod`; '' for models of other packages."""
    home, _, short = model_name.rpartition(".")
    known = {home: package for package, home in _PACKAGES.items()}
    if home not in known and not home.startswith(_OTHER):
        return ""
    return f"{known.get(home) or home.removeprefix(_OTHER).replace('.', '/')}.{short}"


def models(type_names: Iterable[str]) -> dict[str, JSONObject]:
    """The models of some types, such as `core/v1.Pod`, and of all types that they refer to, by name.

    A kind has one x-kubernetes-group-version-kind. A kind of meta/v1, such as DeleteOptions, has none here: it is in every group.
    """
    found: dict[str, JSONObject] = {}
    pending = list(map(lookup, type_names))
    while pending:
        of = pending.pop()
        name = model_name(of.full_name)
        if name not in found:
            found[name] = _model(of)
            pending.extend(_references(of))
    return found


def list_model(type_name: str) -> JSONObject:
    """The model of the list of a kind. Its name is the kind's with `List` appended."""
    api_version, kind = kind_of(type_name)
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": _with_default(_reference(model_name(type_name)), {})},
            "kind": {"type": "string"},
            "metadata": _with_default(_reference(model_name("meta/v1.ListMeta")), {}),
        },
        "x-kubernetes-group-version-kind": [_group_version_kind(api_version, f"{kind}List")],
    }


def _group_version_kind(api_version: str, kind: str) -> JSONObject:
    group, _, version = api_version.rpartition("/")
    return {"group": group, "kind": kind, "version": version}


def _references(of: Type) -> Iterator[Type]:
    """The types of members that have models of their own."""
    for member in of.members.values() if of.kind == "struct" else ():
        inner = member.type
        while inner.element is not None:
            inner = inner.element
        if _has_model(inner):
            yield inner


def _has_model(of: Type) -> bool:
    return of.kind == "struct" or of.kind in _CUSTOM


def _model(of: Type) -> JSONObject:
    if of.kind in _CUSTOM:
        return dict(_CUSTOM[of.kind]) if of.full_name != "apiextensions/v1.JSON" else {}
    model: JSONObject = {"type": "object"}
    if required := [name for name, member in of.members.items() if member.required]:
        model["required"] = required
    if of.members:
        model["properties"] = {name: _member(member) for name, member in sorted(of.members.items())}
    if "kind" in of.members and "metadata" in of.members and of.package != "meta/v1":
        model["x-kubernetes-group-version-kind"] = [_group_version_kind(*kind_of(of.full_name))]
    if of.map_type:
        model["x-kubernetes-map-type"] = of.map_type
    if of.unions:
        model["x-kubernetes-unions"] = [_union(of, *union) for union in of.unions]
    return model


def _union(of: Type, discriminator: str, others: Iterable[str]) -> JSONObject:
    fields = {name: of.members[name].go_name for name in others}
    return {**({"discriminator": discriminator} if discriminator else {}), "fields-to-discriminateBy": fields}


def _member(member: Member) -> JSONObject:
    schema = _value(member.type, copy.deepcopy(member.default), described=not member.bare)
    if member.list_type == "map":
        schema["x-kubernetes-list-map-keys"] = list(member.list_keys)
    if member.list_type:
        schema["x-kubernetes-list-type"] = member.list_type
    if member.map_type:
        schema["x-kubernetes-map-type"] = member.map_type
    if member.merge_key:
        schema["x-kubernetes-patch-merge-key"] = member.merge_key
    if member.strategy:
        schema["x-kubernetes-patch-strategy"] = member.strategy
    return schema


def _value(of: Type, default: Any, *, described: bool = False) -> JSONObject:
    if _has_model(of):
        reference = _reference(model_name(of.full_name))
        if default is not None:
            return _with_default(reference, default)
        # Upstream wraps the reference in allOf, to add the member's description.
        return {"allOf": [reference]} if described else reference
    if of.kind in ("list", "map"):
        assert of.element is not None
        inner = _value(of.element, {} if of.element.kind == "struct" else _ZEROS.get(of.element.kind))
        return {"type": "array", "items": inner} if of.kind == "list" else {"type": "object", "additionalProperties": inner}
    schema: JSONObject = dict(_SCALARS[of.kind])
    if default is not None:
        schema["default"] = default
    if of.enum:
        schema["enum"] = list(of.enum)
    return schema


def _reference(name: str) -> JSONObject:
    return {"$ref": _REFERENCE + name}


def _with_default(reference: JSONObject, default: Any) -> JSONObject:
    return {"default": default, "allOf": [reference]}
