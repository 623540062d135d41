"""Models: the schemas of a kind and of its list, as OpenAPI documents show them.

A published schema is the definition's own with its empty members left out, int-or-string spelt as `anyOf`, and apiVersion, kind
and metadata put in at the root and in embedded resources. One renderer serves v2 and v3; a `Dialect` holds what differs. What v2
can't express is taken out beforehand (`openapi_v2.lower`).
Pure. Called by the two document builders. Source: k8s.io/apiextensions-apiserver pkg/controller/openapi/builder/builder.go and
pkg/apiserver/schema/{kubeopenapi,unfold}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aggserver.meta.json_types import JSONObject
from aggserver.publish import builtin

__all__ = ["Dialect", "Published", "kind_schema", "list_model_name", "list_schema", "model_name"]


@dataclass(frozen=True, slots=True)
class Published:
    """One resource in one version. `verbs` are discovery's: a path that no verb needs is not published.

    schema: openAPIV3Schema as written; empty for a kind that publishes none (any object then). preserves: the definition, one
    from before v1, keeps unknown fields everywhere.
    selectable_fields: JSON paths, with or without the dot in front.
    """

    group: str
    version: str
    kind: str
    list_kind: str
    plural: str
    namespaced: bool
    verbs: tuple[str, ...]
    schema: Mapping[str, Any]
    status: bool = False
    scale: bool = False
    finalize: bool = False
    selectable_fields: tuple[str, ...] = ()
    deprecated: bool = False
    preserves: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a reference opens with, and whether the language is v3's.

    v3 has `allOf`, which a reference with a description beside it needs, and `anyOf`, which spells int-or-string out. In v2 an
    embedded resource that keeps unknown fields shows no properties, since old kubectl would take them for all there are.
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

# Members whose zero value says something: shown whenever they are there, unless null.
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
# Members whose zero value (empty, false) is the same as their absence: left out then, as Go's omitempty does.
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
    """`com.example.stable.v1.CronTab`; the core group has the name it has in Kubernetes."""
    prefix = ".".join(reversed(group.split("."))) if group else "io.k8s.api.core"
    return f"{prefix}.{version}.{kind}"


def list_model_name(resource: Published) -> str:
    return model_name(resource.group, resource.version, resource.list_kind)


def kind_schema(resource: Published, schema: Mapping[str, Any], dialect: Dialect) -> JSONObject:
    """The kind's schema. `schema` is the resource's own or what was made of it; empty makes it a bare object.

    Bare on purpose, without metadata: clients would read any property as the complete list of them.
    """
    out: JSONObject = {"type": "object"}
    if schema:
        out = _render(schema, dialect)
        out["properties"] = {
            **out.get("properties", {}),
            **_type_meta(),
            "metadata": dialect.reference(builtin.OBJECT_META, _OBJECT_META_TEXT),
        }
    out[_GVK] = _gvk(resource, resource.kind)
    return out | _selectable_fields(resource)


def list_schema(resource: Published, dialect: Dialect) -> JSONObject:
    items = {
        "description": f"List of {resource.plural}. {_CONVENTIONS}",
        "type": "array",
        "items": dialect.reference(model_name(resource.group, resource.version, resource.kind)),
    }
    out: JSONObject = {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_type_meta(),
            "items": items,
            "metadata": dialect.reference(builtin.LIST_META, _LIST_META_TEXT),
        },
        _GVK: _gvk(resource, resource.list_kind),
    }
    return out | _selectable_fields(resource)


def _gvk(resource: Published, kind: str) -> list[JSONObject]:
    """A list on schemas; operations have the object itself."""
    return [{"group": resource.group, "version": resource.version, "kind": kind}]


def _selectable_fields(resource: Published) -> JSONObject:
    if not resource.selectable_fields:
        return {}
    return {"x-kubernetes-selectable-fields": [{"fieldPath": path.removeprefix(".")} for path in resource.selectable_fields]}


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
    """What a node and an entry of a junctor have in common; a key that structural schemas don't have is not shown."""
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
    """Says in OpenAPI's words what the extension means, unless the author has already."""
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
