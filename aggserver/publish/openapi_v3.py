"""OpenAPI v3: the document of one group-version, as `/openapi/v3/apis/<group>/<version>` serves it.

kubectl reads three things here: the schemas (`explain`), whether PATCH lists `fieldValidation` and `dryRun` (otherwise it
validates by itself), and the patch types (apply). Apart from its info, the document equals kube-apiserver's for the same CRD.
Pure. Source: the documents of kube-apiserver v1.36.3; k8s.io/kube-openapi pkg/builder3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aggserver.meta.json_types import JSONObject
from aggserver.publish import builtin, models, operations
from aggserver.publish.models import Dialect, Published
from aggserver.publish.operations import BODY_TYPES, PATCH_TYPES, Operation, PathItem

__all__ = ["Published", "build"]

_DIALECT = Dialect(prefix="#/components/schemas/", v3=True)


def build(
    group: str,
    version: str,
    resources: Sequence[Published],
    *,
    info_version: str,
) -> JSONObject:
    """The whole document. Parts of the result are shared, so it must not be changed."""
    paths: JSONObject = {}
    used: set[str] = {builtin.OBJECT_META, builtin.LIST_META}
    schemas: JSONObject = {}
    for published in resources:
        if published.type_name:
            schemas |= models.built_in_models(published)
        else:
            schemas[models.own_model_name(published)] = models.kind_schema(published, published.schema, _DIALECT)
            schemas[models.list_model_name(published)] = models.list_schema(published, _DIALECT)
        gvk = {"group": group, "version": version, "kind": published.info.kind}
        for item in operations.paths(published):
            paths[item.path] = _path(item, gvk)
            used.update(model for operation in item.operations for model in _models(operation))
    schemas.update((name, builtin.schemas()[name]) for name in builtin.closure(used & builtin.schemas().keys()))
    return {
        "openapi": "3.0.0",
        "info": {"title": "aggserver", "version": info_version},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _models(operation: Operation) -> Iterator[str]:
    yield operation.result
    if operation.body:
        yield operation.body


def _path(item: PathItem, gvk: Mapping[str, str]) -> JSONObject:
    out: JSONObject = {operation.method: _operation(operation, gvk) for operation in item.operations}
    out["parameters"] = [
        {
            "name": "name",
            "in": "path",
            "description": item.name_text,
            "required": True,
            "schema": {"type": "string", "uniqueItems": True},
        }
        if key == "name"
        else _parameter(key)
        for key in item.parameters
    ]
    return out


def _operation(operation: Operation, gvk: Mapping[str, str]) -> JSONObject:
    out: JSONObject = {
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.operation_id,
    }
    if operation.parameters:
        out["parameters"] = [_parameter(key) for key in operation.parameters]
    if operation.body:
        types = sorted(PATCH_TYPES) if operation.action == "patch" else BODY_TYPES
        out["requestBody"] = _content(operation.body, types)
        if operation.body_required:
            out["requestBody"]["required"] = True
    content = _content(operation.result, BODY_TYPES)
    out["responses"] = {code: {"description": text, **content} for code, text in operation.responses}
    out["responses"]["401"] = {"description": "Unauthorized"}
    out["x-kubernetes-action"] = operation.action
    out["x-kubernetes-group-version-kind"] = gvk
    return out


def _content(model: str, types: Sequence[str]) -> JSONObject:
    return {"content": {media_type: {"schema": _DIALECT.reference(model)} for media_type in types}}


def _parameter(key: str) -> JSONObject:
    found = builtin.parameters()[key]
    out: JSONObject = {"name": found["name"], "in": found["in"], "description": found["description"]}
    if found.get("required"):
        out["required"] = True
    out["schema"] = {"type": found["type"], "uniqueItems": True}
    return out
