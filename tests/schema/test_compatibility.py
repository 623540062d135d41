"""Which changes of a schema are told as incompatible."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.schema.compatibility import incompatible

STRING = {"type": "string"}
ENUM = {"type": "string", "enum": ["a", "b"]}
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PORTS = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def obj(*, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "nothing": (obj(a=STRING), obj(a=STRING), []),
    "a new field": (obj(), obj(a=STRING), []),
    "a removed field": (obj(a=STRING), obj(), [".a: was removed, so that it is dropped from objects that have it"]),
    "a removed field where all are kept": (obj(a=STRING), FREE, []),
    "another type": (obj(a=STRING), obj(a={"type": "integer"}), [".a: the type was string and is integer"]),
    "integer to number": (obj(a={"type": "integer"}), obj(a={"type": "number"}), []),
    "number to integer": (obj(a={"type": "number"}), obj(a={"type": "integer"}), [".a: the type was number and is integer"]),
    "string to int-or-string": (
        obj(a=STRING),
        obj(a={"x-kubernetes-int-or-string": True}),
        [".a: the type was string and is integer or string"],
    ),
    "a type to anything": (obj(a=STRING), obj(a={"x-kubernetes-preserve-unknown-fields": True}), []),
    "anything to a type": (
        obj(a={"x-kubernetes-preserve-unknown-fields": True}),
        obj(a=STRING),
        [".a: any value was allowed, and now only string", ".a: unknown fields were kept, and now are dropped"],
    ),
    "newly required": (obj(a=STRING), obj(required=["a"], a=STRING), [".a: is required now, and has no default"]),
    "newly required with a default": (obj(a=STRING), obj(required=["a"], a={**STRING, "default": "x"}), []),
    "no longer required": (obj(required=["a"], a=STRING), obj(a=STRING), []),
    "a new enum": (obj(a=STRING), obj(a=ENUM), [".a: only some values are allowed now"]),
    "a smaller enum": (obj(a=ENUM), obj(a={**ENUM, "enum": ["b"]}), [".a: no longer allowed: a"]),
    "a larger enum": (obj(a=ENUM), obj(a={**ENUM, "enum": ["c", "b", "a"]}), []),
    "no enum": (obj(a=ENUM), obj(a=STRING), []),
    "a new minimum": (
        obj(a={"type": "integer"}),
        obj(a={"type": "integer", "minimum": 1}),
        [".a: minimum is 1, and was not set"],
    ),
    "a larger minimum": (
        obj(a={"type": "integer", "minimum": 1}),
        obj(a={"type": "integer", "minimum": 2}),
        [".a: minimum is 2, and was 1"],
    ),
    "a smaller minimum": (obj(a={"type": "integer", "minimum": 2}), obj(a={"type": "integer", "minimum": 1}), []),
    "a smaller maxLength": (
        obj(a={**STRING, "maxLength": 9}),
        obj(a={**STRING, "maxLength": 8}),
        [".a: maxLength is 8, and was 9"],
    ),
    "a larger maxLength": (obj(a={**STRING, "maxLength": 8}), obj(a={**STRING, "maxLength": 9}), []),
    "an exclusive bound": (
        obj(a={"type": "integer", "minimum": 1}),
        obj(a={"type": "integer", "minimum": 1, "exclusiveMinimum": True}),
        [".a: exclusiveMinimum is set now"],
    ),
    "a new pattern": (obj(a=STRING), obj(a={**STRING, "pattern": "^x"}), [".a: pattern is ^x, and was not set"]),
    "another pattern": (
        obj(a={**STRING, "pattern": "^x"}),
        obj(a={**STRING, "pattern": "^y"}),
        [".a: pattern is ^y, and was ^x"],
    ),
    "no pattern": (obj(a={**STRING, "pattern": "^x"}), obj(a=STRING), []),
    "null": (obj(a={**STRING, "nullable": True}), obj(a=STRING), [".a: null is no longer allowed"]),
    "a new rule": (
        obj(a=STRING),
        obj(a={**STRING, "x-kubernetes-validations": [{"rule": "self != 'x'"}]}),
        [".a: there is a new rule: self != 'x'"],
    ),
    "in an item": (
        obj(a={"type": "array", "items": obj(b=STRING)}),
        obj(a={"type": "array", "items": obj()}),
        [".a[].b: was removed, so that it is dropped from objects that have it"],
    ),
    "in a value": (
        obj(a={"type": "object", "additionalProperties": STRING}),
        obj(a={"type": "object", "additionalProperties": ENUM}),
        [".a{}: only some values are allowed now"],
    ),
    "a map becomes a class": (
        obj(a={"type": "object", "additionalProperties": STRING}),
        obj(a=obj(b=STRING)),
        [".a: members of any name were kept, and now are dropped"],
    ),
    "a class becomes a map": (obj(a=obj(b=STRING)), obj(a={"type": "object", "additionalProperties": STRING}), []),
    "keys of a list": (
        obj(a={"type": "array", "items": obj(name=STRING)}),
        obj(a={**PORTS, "items": obj(name=STRING)}),
        [".a: x-kubernetes-list-type is map, and was not set", ".a: x-kubernetes-list-map-keys is name, and was not set"],
    ),
    "deep": (
        obj(spec=obj(size={"type": "integer"})),
        obj(spec=obj(size=STRING)),
        [".spec.size: the type was integer and is string"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_told(name: str) -> None:
    old, new, told = CASES[name]
    assert incompatible(old, new) == told
