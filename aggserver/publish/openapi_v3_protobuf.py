"""OpenAPI v3 as protobuf: the document of `openapi_v3.build` as gnostic's message `openapi.v3.Document`.

client-go's OpenAPI clients can request either form. The tables below map each JSON member to its field.

Pure. Source: github.com/google/gnostic-models v0.7.0 openapiv3/OpenAPIv3.{proto,go}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggserver.publish.gnostic import (
    EXTENSION,
    Field,
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
    one_double,
    one_flag,
    repeated,
    text,
    utf8,
)

__all__ = ["encode"]


def encode(document: Mapping[str, Any]) -> bytes:
    """The bytes of the message. document: a tree as `openapi_v3.build` returns it; it is not changed."""
    return _DOCUMENT(document)


# Filled below, since schemas contain schemas.
_SCHEMA_FIELDS: Table = {}
_SCHEMA = members(_SCHEMA_FIELDS)
_ONE_SCHEMA = always(1, _SCHEMA)
_REFERENCE = always(2, members({"$ref": text(1), "summary": text(2), "description": text(3)}))


def _schema_or_reference(value: Mapping[str, Any]) -> bytes:
    return _REFERENCE(value) if "$ref" in value else _ONE_SCHEMA(value)


_ADDITIONAL_SCHEMA, _ADDITIONAL_FLAG = always(1, _schema_or_reference), one_flag(2)


def _additional(value: Any) -> bytes:
    return _ADDITIONAL_SCHEMA(value) if isinstance(value, Mapping) else _ADDITIONAL_FLAG(value)


_DEFAULTS: Mapping[type, Field] = {bool: one_flag(2), int: one_double(1), float: one_double(1), str: always(3, utf8)}


def _default(value: Any) -> bytes:
    """Encode a default, which is a oneof of three scalars. For any other value, the message is empty."""
    write = _DEFAULTS.get(type(value))
    return write(value) if write else b""


_ITEMS = repeated(1, _schema_or_reference)

_SCHEMA_FIELDS.update(
    {
        "nullable": flag(1),
        "externalDocs": always(6, members({"description": text(1), "url": text(2), EXTENSION: extensions(3)})),
        "example": always(7, any_value),
        "title": text(9),
        "multipleOf": double(10),
        "maximum": double(11),
        "exclusiveMaximum": flag(12),
        "minimum": double(13),
        "exclusiveMinimum": flag(14),
        "maxLength": integer(15),
        "minLength": integer(16),
        "pattern": text(17),
        "maxItems": integer(18),
        "minItems": integer(19),
        "uniqueItems": flag(20),
        "maxProperties": integer(21),
        "minProperties": integer(22),
        "required": repeated(23, utf8),
        "enum": repeated(24, any_value),
        "type": text(25),
        "allOf": repeated(26, _schema_or_reference),
        "oneOf": repeated(27, _schema_or_reference),
        "anyOf": repeated(28, _schema_or_reference),
        "not": always(29, _SCHEMA),
        "items": always(30, lambda value: _ITEMS(as_list(value))),
        "properties": always(31, named(1, _schema_or_reference)),
        "additionalProperties": always(32, _additional),
        "default": always(33, _default),
        "description": text(34),
        "format": text(35),
        EXTENSION: extensions(36),
    }
)

_MEDIA_TYPES = named(1, members({"schema": always(1, _schema_or_reference), EXTENSION: extensions(5)}))

_PARAMETER = always(
    1,
    members(
        {
            "name": text(1),
            "in": text(2),
            "description": text(3),
            "required": flag(4),
            "schema": always(10, _schema_or_reference),
            EXTENSION: extensions(14),
        }
    ),
)
_REQUEST_BODY = always(
    1, members({"description": text(1), "content": always(2, _MEDIA_TYPES), "required": flag(3), EXTENSION: extensions(4)})
)
_RESPONSE = always(1, members({"description": text(1), "content": always(3, _MEDIA_TYPES), EXTENSION: extensions(5)}))

_OPERATION = members(
    {
        "tags": repeated(1, utf8),
        "summary": text(2),
        "description": text(3),
        "operationId": text(5),
        "parameters": repeated(6, _PARAMETER),
        "requestBody": always(7, _REQUEST_BODY),
        "responses": always(8, named(2, _RESPONSE)),
        "deprecated": flag(10),
        EXTENSION: extensions(13),
    }
)

_PATH_ITEM = members(
    {
        "get": always(4, _OPERATION),
        "put": always(5, _OPERATION),
        "post": always(6, _OPERATION),
        "delete": always(7, _OPERATION),
        "patch": always(10, _OPERATION),
        "parameters": repeated(13, _PARAMETER),
        EXTENSION: extensions(14),
    }
)

_DOCUMENT = members(
    {
        "openapi": text(1),
        "info": always(2, members({"title": text(1), "description": text(2), "version": text(6), EXTENSION: extensions(7)})),
        "paths": always(4, named(1, _PATH_ITEM)),
        "components": always(5, members({"schemas": always(1, named(1, _schema_or_reference)), EXTENSION: extensions(10)})),
        EXTENSION: extensions(9),
    }
)
