"""The content of a definition: the parts that determine how its objects look to readers, i.e. versions, schemas and conversion.

When the content changes, objects that clients hold become outdated (new defaults, pruned fields, other versions), so watches end.
Columns, names, descriptions, subresources and deprecations don't affect objects.

Pure. Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go (updateCustomResourceDefinition), v0.36.3,
which ends watches when anything in the spec or in the accepted names changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from aggserver.apiextensions.definition import Definition, Version

__all__ = ["content_digest", "same_content"]

# Members of a schema that are only documentation; then those that contain one further schema, a map or a list of them.
_DOCUMENTATION = frozenset({"description", "title", "example", "externalDocs"})
_ONE = frozenset({"additionalItems", "additionalProperties", "items", "not"})
_BY_NAME = frozenset({"definitions", "dependencies", "patternProperties", "properties"})
_IN_A_LIST = frozenset({"allOf", "anyOf", "items", "oneOf"})


def same_content(one: Definition, other: Definition) -> bool:
    if one.versions == other.versions and one.conversion == other.conversion:
        return one.preserve_unknown_fields == other.preserve_unknown_fields
    return _content(one) == _content(other)


def content_digest(definition: Definition) -> str:
    """A digest that is equal for definitions of the same content, in every process: SHA-256 in hexadecimal."""
    text = json.dumps(_content(definition), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _content(definition: Definition) -> dict[str, Any]:
    return {
        "versions": {version.name: _version(version) for version in definition.versions},
        "conversion": asdict(definition.conversion),
        "preserveUnknownFields": definition.preserve_unknown_fields,
    }


def _version(version: Version) -> dict[str, Any]:
    return {"served": version.served, "storage": version.storage, "schema": _schema(version.schema)}


def _schema(schema: Any) -> Any:
    """A schema without documentation; any other value is returned unchanged."""
    if not isinstance(schema, Mapping):
        return schema
    return {key: _member(key, value) for key, value in schema.items() if key not in _DOCUMENTATION}


def _member(key: str, value: Any) -> Any:
    if key in _BY_NAME and isinstance(value, Mapping):
        return {name: _schema(inner) for name, inner in value.items()}
    if key in _IN_A_LIST and isinstance(value, list):
        return [_schema(inner) for inner in value]
    return _schema(value) if key in _ONE else value
