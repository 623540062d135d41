"""The schema of `Judged`, which has every keyword, and the tables of values for it.

Read by tests/schema, which hold validation to the errors in the tables, and by tests/integration, which ask kube-apiserver.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

__all__ = ["JUDGED_SPEC", "JUDGED_STATUS", "RATCHETING", "VALUES"]

_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}
_FORMATS = (
    *("bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5"),
    *("isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration"),
    *("date-time", "k8s-short-name", "k8s-long-name"),
)


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def _list_of(kind: str, items: Any, *keys: str) -> dict[str, Any]:
    more = {"x-kubernetes-list-map-keys": list(keys)} if keys else {}
    return _list(items, **{"x-kubernetes-list-type": kind}, **more)


_PAIR = {**_object(name=_STRING, port=_INTEGER, value={**_STRING, "maxLength": 3}), "required": ["name"]}
_EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}

JUDGED_SPEC = _object(
    text=_STRING,
    whole=_INTEGER,
    number={"type": "number"},
    defaulted={**_STRING, "default": "x"},
    flag={"type": "boolean"},
    nullable={**_STRING, "nullable": True},
    nullableEnum={**_STRING, "nullable": True, "enum": ["a"]},
    enum={**_STRING, "enum": ["a", "b c", ""]},
    numbers={"type": "number", "enum": [1, 2.5]},
    mixed={"x-kubernetes-preserve-unknown-fields": True, "enum": ["A", 1, True, {"a": [1]}, None]},
    short={**_STRING, "minLength": 2, "maxLength": 3},
    one={**_STRING, "maxLength": 1},
    pattern={**_STRING, "pattern": "^[a-z]+\\.\\d{1,2}$"},
    patterns={**_STRING, "minLength": 2, "pattern": "a"},
    range={**_INTEGER, "minimum": 1, "maximum": 10},
    open={"type": "number", "minimum": 1, "maximum": 10, "exclusiveMinimum": True, "exclusiveMaximum": True},
    fraction={"type": "number", "minimum": 0.5, "maximum": 1.5},
    wholeFraction={**_INTEGER, "minimum": 0.5, "maximum": 2.5},
    multiple={**_INTEGER, "multipleOf": 3},
    half={"type": "number", "multipleOf": 0.5},
    tenth={"type": "number", "multipleOf": 0.1},
    int32={**_INTEGER, "format": "int32"},
    int64={**_INTEGER, "format": "int64"},
    float={"type": "number", "format": "float"},
    double={"type": "number", "format": "double"},
    unknownFormat={**_STRING, "format": "colour"},
    items=_list(_STRING, minItems=1, maxItems=2),
    nested=_list(_list(_INTEGER)),
    pairs={"type": "object", "additionalProperties": {**_INTEGER, "maximum": 5}, "minProperties": 1, "maxProperties": 2},
    inner={**_object(a=_STRING, b=_object(c=_INTEGER)), "required": ["a", "z.z"]},
    intOrString={"x-kubernetes-int-or-string": True},
    intOrStringTwice={"x-kubernetes-int-or-string": True, "anyOf": [_INTEGER, _STRING], "pattern": "^[0-9]+%$", "maximum": 9},
    anyOf={**_object(a=_STRING, b=_INTEGER), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    oneOf={**_object(a=_STRING, b=_INTEGER), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    allOf={**_STRING, "allOf": [{"minLength": 2}, {"pattern": "^a"}]},
    notOne={**_STRING, "not": {"pattern": "^bad"}},
    deepAny={
        **_object(a=_STRING, b=_object(c=_INTEGER, d=_STRING)),
        "anyOf": [
            {"properties": {"a": {"enum": ["x"]}}},
            {"properties": {"a": {"minLength": 9}, "b": {"properties": {"c": {"maximum": 1}}, "required": ["d"]}}},
        ],
    },
    set=_list_of("set", _STRING),
    numberSet=_list_of("set", {"type": "number"}),
    map=_list_of("map", _PAIR, "name"),
    ports=_list_of("map", {**_PAIR, "required": ["name", "port"]}, "name", "port"),
    template=_EMBEDDED,
    templates=_list(_EMBEDDED),
    templatesByName={"type": "object", "additionalProperties": _EMBEDDED},
    anything={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": _INTEGER}},
    formats=_object(**{name.replace("-", ""): {**_STRING, "format": name} for name in _FORMATS}),
    untyped={"x-kubernetes-preserve-unknown-fields": True, "minimum": 2.5, "maxLength": 2, "minItems": 1, "required": ["a"]},
)
JUDGED_STATUS = {
    **_object(
        phase={**_STRING, "enum": ["Ready"]},
        replicas=_INTEGER,
        conditions=_list_of("map", {**_object(type=_STRING, status=_STRING), "required": ["type", "status"]}, "type"),
    ),
    "required": ["phase"],
}

VALUES: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "validation.yaml").read_text())
RATCHETING: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "ratcheting.yaml").read_text())
