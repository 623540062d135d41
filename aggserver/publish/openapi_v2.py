"""OpenAPI v2 (Swagger): one document for all groups, as `/openapi/v2` serves it.

kube-aggregator reads it and merges it into the cluster's own; kubectl reads it as protobuf to validate a `kind: List`. Swagger
has no `oneOf`, `nullable` and the like, and those clients treat a schema's properties as a complete list, so `lower` removes
everything that would make them refuse valid objects.
Pure. Source: k8s.io/apiextensions-apiserver pkg/controller/openapi/v2/conversion.go;
k8s.io/kube-openapi pkg/builder/{openapi,parameters}.go, pkg/handler/default_pruning.go; v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from aggserver.meta.json_types import JSONObject
from aggserver.publish import builtin, models, operations
from aggserver.publish.models import Dialect, Published
from aggserver.publish.operations import BODY_TYPES, PATCH_TYPES, Operation, PathItem

__all__ = ["build", "lower"]

_DIALECT = Dialect(prefix="#/definitions/", v3=False)
_V3_PREFIX = "#/components/schemas/"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
# v2 could express `default`, but kube-apiserver publishes none, and kube-aggregator renames models that differ from its own.
_DROPPED = frozenset({"allOf", "anyOf", "oneOf", "not", "default"})
# Names of common parameters in v2, as in kube-apiserver (the name and a hash of the content).
_BODIES = {builtin.DELETE_OPTIONS: "body-2Y1dVQaQ", builtin.PATCH: "body-78PwaGsr"}


def build(resources: Sequence[Published], *, info_version: str) -> JSONObject:
    """The document of all `resources`, of any group and version. Parts of it are shared, so it must not be changed."""
    paths: JSONObject = {}
    definitions: JSONObject = {}
    parameters: JSONObject = {}
    used: set[str] = {builtin.OBJECT_META, builtin.LIST_META} if resources else set()
    for published in resources:
        if published.type_name:
            definitions.update((name, _translate(model)) for name, model in models.built_in_models(published).items())
        else:
            definitions[models.own_model_name(published)] = models.kind_schema(published, _root(published), _DIALECT)
            definitions[models.list_model_name(published)] = models.list_schema(published, _DIALECT)
        gvk = {"group": published.info.group, "version": published.info.version, "kind": published.info.kind}
        for item in operations.paths(published):
            paths[item.path] = _path(item, gvk, parameters)
            for operation in item.operations:
                used.update((operation.result, operation.body))
    definitions.update((name, _builtin(name)) for name in builtin.closure(used & builtin.schemas().keys()))
    return {
        "swagger": "2.0",
        "info": {"title": "aggserver", "version": info_version},
        "paths": paths,
        "definitions": definitions,
        "parameters": parameters,
    }


def _root(published: Published) -> Mapping[str, Any]:
    """The schema to publish; empty if unknown fields are preserved at the root, so that no fields are specified."""
    return {} if published.preserves or published.schema.get(_PRESERVE) else lower(published.schema)


def lower(node: Mapping[str, Any]) -> JSONObject:
    """The node without parts that v2 can't express or that its clients misread. Unchanged parts are shared with the result."""
    out = {key: value for key, value in node.items() if key not in _DROPPED}
    properties: Mapping[str, Any] = out.get("properties") or {}
    additional = out.get("additionalProperties")
    if out.pop("nullable", False):
        _forget(out, "type", "items", "properties")
    if out.get(_PRESERVE):
        _forget(out, "items", "properties")
    if out.get("type") == "array" and not out.get("items"):
        del out["type"]
    if out.get(_PRESERVE) and out.get("type") == "object":
        del out["type"]
    # A nullable field becomes optional, since clients would refuse null for a required field.
    if "properties" in out:
        out["properties"] = {name: lower(child) for name, child in properties.items()}
        nullable = {name for name, child in properties.items() if child.get("nullable")}
        out["required"] = [name for name in out.get("required") or () if name not in nullable]
    if isinstance(additional, Mapping):
        out["additionalProperties"] = lower(additional)
        if additional.get("nullable"):
            out.pop("required", None)
    if out.get("items"):
        out["items"] = lower(out["items"])
    return out


def _forget(node: JSONObject, *keys: str) -> None:
    for key in keys:
        node.pop(key, None)


@cache
def _builtin(name: str) -> JSONObject:
    found = _translate(builtin.schemas()[name])
    assert isinstance(found, dict)
    return found


def _translate(node: Any) -> Any:
    """Convert a built-in schema from v3 to v2: references are beside their description, and defaults are removed."""
    if isinstance(node, list):
        return [_translate(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    out: JSONObject = {
        key: {name: _translate(child) for name, child in value.items()} if key == "properties" else _translate(value)
        for key, value in node.items()
        if key not in ("default", "allOf")
    }
    if "allOf" in node:
        out.update(_translate(node["allOf"][0]))
    if "oneOf" in out:  # only quantities and int-or-string have it, which are strings in v2
        del out["oneOf"]
        out["type"] = "string"
    if "$ref" in out:
        out["$ref"] = out["$ref"].replace(_V3_PREFIX, _DIALECT.prefix)
    return out


def _path(item: PathItem, gvk: Mapping[str, str], parameters: JSONObject) -> JSONObject:
    out: JSONObject = {op.method: _operation(op, gvk, parameters) for op in item.operations}
    out["parameters"] = [
        {
            "uniqueItems": True,
            "type": "string",
            "description": item.name_text,
            "name": "name",
            "in": "path",
            "required": True,
        }
        if key == "name"
        else _parameter(key, parameters)
        for key in item.parameters
    ]
    return out


def _operation(operation: Operation, gvk: Mapping[str, str], parameters: JSONObject) -> JSONObject:
    out: JSONObject = {
        "description": operation.description,
        "consumes": list(PATCH_TYPES if operation.action == "patch" else BODY_TYPES),
        "produces": list(BODY_TYPES),
        "schemes": ["https"],
        "tags": [operation.tag],
        "operationId": operation.operation_id,
    }
    listed = [_body(operation, parameters)] if operation.body else []
    listed += [_parameter(key, parameters) for key in operation.parameters]
    if listed:
        out["parameters"] = listed
    result = _DIALECT.reference(operation.result)
    out["responses"] = {code: {"description": text, "schema": result} for code, text in operation.responses}
    out["responses"]["401"] = {"description": "Unauthorized"}
    out["x-kubernetes-action"] = operation.action
    out["x-kubernetes-group-version-kind"] = gvk
    return out


def _body(operation: Operation, parameters: JSONObject) -> JSONObject:
    body: JSONObject = {"name": "body", "in": "body", "schema": _DIALECT.reference(operation.body)}
    if operation.body_required:
        body["required"] = True
    shared = _BODIES.get(operation.body, "")
    return _share(shared, body, parameters) if shared else body


def _parameter(key: str, parameters: JSONObject) -> JSONObject:
    """A reference to a common parameter, which is added to `parameters` at its first use; for others, the parameter itself."""
    found = builtin.parameters()[key]
    out: JSONObject = {
        "uniqueItems": True,
        "type": found["type"],
        "description": found["description"],
        "name": found["name"],
        "in": found["in"],
    }
    if found.get("required"):
        out["required"] = True
    return _share(found["shared"], out, parameters) if "shared" in found else out


def _share(name: str, parameter: JSONObject, parameters: JSONObject) -> JSONObject:
    parameters.setdefault(name, parameter)
    return {"$ref": f"#/parameters/{name}"}
