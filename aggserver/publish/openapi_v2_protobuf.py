"""OpenAPI v2 as protobuf: the document of `openapi_v2.build` as gnostic's message `openapi.v2.Document`.

kubectl requests v2 only in this form: to validate a `kind: List`, whose items the server receives one by one, and for
`kubectl explain --output=plaintext-openapiv2`. The tables below map each JSON member to its field.
Pure. Source: github.com/google/gnostic-models v0.7.0 openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggserver.publish.gnostic import (
    EXTENSION,
    Table,
    always,
    any_value,
    as_list,
    double,
    extensions,
    flag,
    integer,
    members,
    named,
    one_flag,
    repeated,
    text,
    utf8,
)

__all__ = ["encode"]


def encode(document: Mapping[str, Any]) -> bytes:
    """The bytes of the message. document: a tree as `openapi_v2.build` returns it; it is not changed."""
    return _DOCUMENT(document)


# Filled below, since schemas contain schemas.
_SCHEMA_FIELDS: Table = {}
_SCHEMA = members(_SCHEMA_FIELDS)
_ONE_SCHEMA = always(1, _SCHEMA)
_SCHEMAS = repeated(1, _SCHEMA)
_STRINGS = repeated(1, utf8)


def _additional(value: Any) -> bytes:
    """Encode an AdditionalPropertiesItem, which is a oneof, so that `false` is written too."""
    return _ONE_SCHEMA(value) if isinstance(value, Mapping) else one_flag(2)(value)


_EXTERNAL_DOCS = members({"description": text(1), "url": text(2), EXTENSION: extensions(3)})

_SCHEMA_FIELDS.update(
    {
        "$ref": text(1),
        "format": text(2),
        "title": text(3),
        "description": text(4),
        "default": always(5, any_value),
        "multipleOf": double(6),
        "maximum": double(7),
        "exclusiveMaximum": flag(8),
        "minimum": double(9),
        "exclusiveMinimum": flag(10),
        "maxLength": integer(11),
        "minLength": integer(12),
        "pattern": text(13),
        "maxItems": integer(14),
        "minItems": integer(15),
        "uniqueItems": flag(16),
        "maxProperties": integer(17),
        "minProperties": integer(18),
        "required": repeated(19, utf8),
        "enum": repeated(20, any_value),
        "additionalProperties": always(21, _additional),
        "type": always(22, lambda value: _STRINGS(as_list(value))),
        "items": always(23, lambda value: _SCHEMAS(as_list(value))),
        "properties": always(25, named(1, _SCHEMA)),
        "externalDocs": always(29, _EXTERNAL_DOCS),
        "example": always(30, any_value),
        EXTENSION: extensions(31),
    }
)

# A reference in a list of parameters; in a schema, the reference is one of its members.
_REFERENCE = always(2, lambda value: text(1)(value["$ref"]))

_BODY_PARAMETER = always(
    1,
    members(
        {
            "description": text(1),
            "name": text(2),
            "in": text(3),
            "required": flag(4),
            "schema": always(5, _SCHEMA),
            EXTENSION: extensions(6),
        }
    ),
)
_COMMON: Table = {"required": flag(1), "in": text(2), "description": text(3), "name": text(4)}
_QUERY_PARAMETER = always(
    3, members({**_COMMON, "type": text(6), "format": text(7), "uniqueItems": flag(20), EXTENSION: extensions(23)})
)
_PATH_PARAMETER = always(
    4, members({**_COMMON, "type": text(5), "format": text(6), "uniqueItems": flag(19), EXTENSION: extensions(22)})
)
_PLAIN_PARAMETERS = {
    "query": always(2, _QUERY_PARAMETER),
    "path": always(2, _PATH_PARAMETER),
}


def _parameter(value: Mapping[str, Any]) -> bytes:
    return _PLAIN_PARAMETERS.get(value["in"], _BODY_PARAMETER)(value)


_ONE_PARAMETER = always(1, _parameter)


def _parameter_or_reference(value: Mapping[str, Any]) -> bytes:
    return _REFERENCE(value) if "$ref" in value else _ONE_PARAMETER(value)


_PARAMETERS = repeated(8, _parameter_or_reference)

# SchemaItem is a schema or a file, ResponseValue a response or a reference; we only have schemas and responses.
_RESPONSE = always(1, members({"description": text(1), "schema": always(2, _ONE_SCHEMA), EXTENSION: extensions(5)}))

_OPERATION = members(
    {
        "tags": repeated(1, utf8),
        "summary": text(2),
        "description": text(3),
        "operationId": text(5),
        "produces": repeated(6, utf8),
        "consumes": repeated(7, utf8),
        "parameters": _PARAMETERS,
        "responses": always(9, named(1, _RESPONSE)),
        "schemes": repeated(10, utf8),
        "deprecated": flag(11),
        EXTENSION: extensions(13),
    }
)

_PATH_ITEM = members(
    {
        "get": always(2, _OPERATION),
        "put": always(3, _OPERATION),
        "post": always(4, _OPERATION),
        "delete": always(5, _OPERATION),
        "patch": always(8, _OPERATION),
        "parameters": repeated(9, _parameter_or_reference),
        EXTENSION: extensions(10),
    }
)

_INFO = members({"title": text(1), "version": text(2), "description": text(3), EXTENSION: extensions(7)})

_DOCUMENT = members(
    {
        "swagger": text(1),
        "info": always(2, _INFO),
        "paths": always(8, named(2, _PATH_ITEM)),
        "definitions": always(9, named(1, _SCHEMA)),
        "parameters": always(10, named(1, _parameter)),
        EXTENSION: extensions(16),
    }
)
