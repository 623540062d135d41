"""Models: the published schemas of a kind and of its list, for OpenAPI documents.

A published schema is the definition's own without empty members, with int-or-string written as `anyOf`, and with apiVersion, kind
and metadata added at the root and in embedded resources. One renderer serves v2 and v3; a `Dialect` holds the differences. Parts
that v2 can't express are removed before (`openapi_v2.lower`).
Pure. Source: k8s.io/apiextensions-apiserver pkg/controller/openapi/builder/builder.go and
pkg/apiserver/schema/{kubeopenapi,unfold}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish import builtin
from aggserver.publish.discovery import APIResource
from aggserver.scheme import openapi

__all__ = [
    "Dialect",
    "Published",
    "built_in_models",
    "kind_schema",
    "list_model_name",
    "list_schema",
    "model_name",
    "own_model_name",
]


@dataclass(frozen=True, slots=True)
class Published:
    """One resource in one version. resource: a path that none of its verbs needs is not published.

    schema: openAPIV3Schema as written; empty for a kind that publishes none, which means any object. preserves: the definition
    has preserveUnknownFields, as only definitions from before v1 can.
    selectable_fields: JSON paths, with or without a leading dot.
    type_name: of a built-in kind, whose models are made from the tables of `scheme/`, and not from `schema`.
    """

    resource: APIResource
    schema: Mapping[str, Any] = field(default_factory=dict)
    selectable_fields: tuple[str, ...] = ()
    preserves: bool = False
    type_name: str = ""

    @property
    def info(self) -> ResourceInfo:
        return self.resource.info


@dataclass(frozen=True, slots=True)
class Dialect:
    """The differences between OpenAPI v2 and v3. prefix: of references. v3: whether it is v3.

    v3 has `allOf`, which a reference with a description needs, and `anyOf`, in which int-or-string is written. In v2 an embedded
    resource that preserves unknown fields has no properties, since old kubectl would treat them as a complete list.
    """

    prefix: str
    v3: bool

    def reference(self, model: str, description: str = "") -> JSONObject:
        target = {"$ref": self.prefix + model}
        if not description:
            return target
        return {"description": description, "allOf": [target]} if self.v3 else {"description": description, **target}


_CONVENTIONS = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_OBJECT_META_TEXT = f"Standard object's metadata. {_CONVENTIONS}#metadata"
_LIST_META_TEXT = f"Standard list metadata. {_CONVENTIONS}#types-kinds"
_EMBEDDED_API_VERSION = {
    "description": f"apiVersion defines the versioned schema of this representation of an object. {_CONVENTIONS}#resources",
    "type": "string",
}
_EMBEDDED_KIND = {
    "description": f"kind is a string value representing the type of this object. In CamelCase. {_CONVENTIONS}#types-kinds",
    "type": "string",
}

_GVK = "x-kubernetes-group-version-kind"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"

# Members whose zero value has a meaning: published whenever they are set and not null.
_KEPT = frozenset(
    {
        "default",
        "example",
        "maximum",
        "minimum",
        "maxLength",
        "minLength",
        "maxItems",
        "minItems",
        "maxProperties",
        "minProperties",
        "multipleOf",
    }
)
# Members whose zero value (empty, false) means the same as their absence, so it is left out, as by Go's omitempty.
_KEPT_UNLESS_EMPTY = frozenset(
    {
        "description",
        "type",
        "format",
        "title",
        "pattern",
        "nullable",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "uniqueItems",
        "enum",
        "required",
        "externalDocs",
        _PRESERVE,
        _EMBEDDED,
        _INT_OR_STRING,
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    }
)
_JUNCTORS = frozenset({"allOf", "anyOf", "oneOf"})
_INTEGER_OR_STRING: list[JSONObject] = [{"type": "integer"}, {"type": "string"}]


def model_name(group: str, version: str, kind: str) -> str:
    """The model's name, e.g. `com.example.stable.v1.CronTab`; models of the core group are named as in Kubernetes."""
    prefix = ".".join(reversed(group.split("."))) if group else "io.k8s.api.core"
    return f"{prefix}.{version}.{kind}"


def own_model_name(published: Published) -> str:
    if published.type_name:
        return openapi.model_name(published.type_name)
    return _own_name(published, published.info.kind)


def list_model_name(published: Published) -> str:
    if published.type_name:
        return f"{openapi.model_name(published.type_name)}List"
    return _own_name(published, published.info.list_kind)


def _own_name(published: Published, kind: str) -> str:
    return model_name(published.info.group, published.info.version, kind)


def built_in_models(published: Published) -> dict[str, JSONObject]:
    """The v3 models, by name, of a built-in kind, of its list if it has one, and of what they refer to, without `builtin`'s."""
    found = openapi.models([published.type_name])
    if published.info.list_kind:
        found[list_model_name(published)] = openapi.list_model(published.type_name)
    return {name: model for name, model in found.items() if name not in builtin.schemas()}


def kind_schema(published: Published, schema: Mapping[str, Any], dialect: Dialect) -> JSONObject:
    """The published schema of the kind. schema: the resource's own or its lowered form; if empty, the result is a bare object.

    A bare object has no metadata, since clients would treat any properties as a complete list.
    """
    out: JSONObject = {"type": "object"}
    if schema:
        out = _render(schema, dialect)
        out["properties"] = {
            **out.get("properties", {}),
            **_type_meta(),
            "metadata": dialect.reference(builtin.OBJECT_META, _OBJECT_META_TEXT),
        }
    out[_GVK] = _gvk(published, published.info.kind)
    return out | _selectable_fields(published)


def list_schema(published: Published, dialect: Dialect) -> JSONObject:
    items = {
        "description": f"List of {published.info.resource}. {_CONVENTIONS}",
        "type": "array",
        "items": dialect.reference(_own_name(published, published.info.kind)),
    }
    out: JSONObject = {
        "description": f"{published.info.list_kind} is a list of {published.info.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_type_meta(),
            "items": items,
            "metadata": dialect.reference(builtin.LIST_META, _LIST_META_TEXT),
        },
        _GVK: _gvk(published, published.info.list_kind),
    }
    return out | _selectable_fields(published)


def _gvk(published: Published, kind: str) -> list[JSONObject]:
    """The group, version and kind as schemas have them: in a list. Operations have a single object instead."""
    return [{"group": published.info.group, "version": published.info.version, "kind": kind}]


def _selectable_fields(published: Published) -> JSONObject:
    if not published.selectable_fields:
        return {}
    return {"x-kubernetes-selectable-fields": [{"fieldPath": path.removeprefix(".")} for path in published.selectable_fields]}


def _type_meta() -> JSONObject:
    properties = builtin.schemas()[builtin.STATUS]["properties"]
    return {"apiVersion": properties["apiVersion"], "kind": properties["kind"]}


def _render(node: Mapping[str, Any], dialect: Dialect) -> JSONObject:
    out: JSONObject = {}
    for key, value in node.items():
        if key == "properties":
            if value:
                out[key] = {name: _render(child, dialect) for name, child in value.items()}
        elif key == "items":
            if value is not None:
                out[key] = _render(value, dialect)
        elif key == "additionalProperties":
            if value is not None:
                out[key] = value if isinstance(value, bool) else _render(value, dialect)
        else:
            _render_validation(key, value, out)
    if dialect.v3 and out.get(_INT_OR_STRING):
        _unfold_int_or_string(out)
    if out.get(_EMBEDDED) and (dialect.v3 or not out.get(_PRESERVE)):
        _show_embedded(out, dialect)
    return out


def _render_validation(key: str, value: Any, out: JSONObject) -> None:
    """Render a member that both a node and an entry of a junctor may have; other members are left out."""
    if key in _KEPT:
        if value is not None:
            out[key] = value
    elif key in _KEPT_UNLESS_EMPTY:
        if value:
            out[key] = value
    elif key in _JUNCTORS:
        if value:
            out[key] = [_render_nested(entry) for entry in value]
    elif key == "not" and value is not None:
        out[key] = _render_nested(value)


def _render_nested(node: Mapping[str, Any]) -> JSONObject:
    out: JSONObject = {}
    for key, value in node.items():
        if key == "properties":
            if value:
                out[key] = {name: _render_nested(child) for name, child in value.items()}
        elif key == "items":
            if value is not None:
                out[key] = _render_nested(value)
        else:
            _render_validation(key, value, out)
    return out


def _unfold_int_or_string(out: JSONObject) -> None:
    """Write x-kubernetes-int-or-string as `anyOf`, unless the author has done so."""
    all_of = out.get("allOf", [])
    if out.get("anyOf") == _INTEGER_OR_STRING or (all_of and all_of[0].get("anyOf") == _INTEGER_OR_STRING):
        return
    if "anyOf" in out:
        out["allOf"] = [{"anyOf": _INTEGER_OR_STRING}, *all_of]
    else:
        out["anyOf"] = _INTEGER_OR_STRING


def _show_embedded(out: JSONObject, dialect: Dialect) -> None:
    out["properties"] = {
        **out.get("properties", {}),
        "apiVersion": _EMBEDDED_API_VERSION,
        "kind": _EMBEDDED_KIND,
        "metadata": dialect.reference(builtin.OBJECT_META, _OBJECT_META_TEXT),
    }
    required = list(out.get("required", []))
    out["required"] = required + [name for name in ("kind", "apiVersion") if name not in required]
