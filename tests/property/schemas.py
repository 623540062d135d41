"""Strategies: schemas with every keyword, and values that mostly fit them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from aggserver.meta import codec

__all__ = ["cases", "updates"]

Draw = Callable[[st.SearchStrategy[Any]], Any]

NAMES = ["a", "b", "c", "k"]
TEXTS = ["", "a", "ab", "abc", "1", "k", "2020-01-01", "1.2.3.4", "é☃", "x\n", "A", "true"]
NUMBERS: list[Any] = [0, 1, 2, 3, -1, 5, 65, 1.5, -1.5, 0.5, 2.5, 1e20, 3e9, -3e9, 2147483648, 2**63 - 1, -(2**63)]
NUMBERS += [1000000000.5, 1e39, 1e-7, 10]
METADATA: list[Any] = [{"name": "a"}, {}, {"name": "a/b", "labels": {"x y": "1"}}, {"namespace": "A"}, None, {"labels": 5}]
PATTERNS = ["^a", "b$", "^[a-z]+$", "(", ".", "\\d"]
FORMATS = ["date", "ipv4", "date-time", "uuid", "byte", "k8s-short-name", "int32", "int64", "float", "double", "unheard"]


class _Maker:
    """Draws with words for it."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw

    def one(self, values: list[Any]) -> Any:
        return self.draw(st.sampled_from(values))

    def some(self, values: list[Any], most: int) -> list[Any]:
        return list(self.draw(st.lists(st.sampled_from(values), max_size=most, unique=True)))

    def chance(self, percent: int) -> bool:
        return bool(self.draw(st.integers(0, 99)) < percent)

    def value(self, depth: int) -> Any:
        kind = self.one(["text", "number", "flag", "null", "list", "object"] if depth else ["text", "number", "flag", "null"])
        if kind == "text":
            return self.one(TEXTS)
        if kind == "number":
            return self.one(NUMBERS)
        if kind == "list":
            return [self.value(depth - 1) for _ in range(self.one([0, 1, 2, 3]))]
        if kind == "object":
            return {name: self.value(depth - 1) for name in self.some(NAMES, 3)}
        return None if kind == "null" else self.one([True, False])

    def limits(self, type_: str | None) -> dict[str, Any]:
        schema: dict[str, Any] = {}
        sizes = {"string": "Length", "array": "Items", "object": "Properties"}
        for each, unit in sizes.items():
            if type_ in (each, None) and self.chance(30):
                schema[self.one(["min", "max"]) + unit] = self.one([0, 1, 2, 3])
        if type_ in ("string", None) and self.chance(30):
            schema["pattern"] = self.one(PATTERNS)
        if type_ in ("integer", "number", None) and self.chance(40):
            for keyword in self.some(["minimum", "maximum"], 2):
                schema[keyword] = self.one(NUMBERS)
            if self.chance(20):
                schema["multipleOf"] = self.one([1, 3, 0.5, 1.5, 0.1])
            schema |= dict.fromkeys(self.some(["exclusiveMinimum", "exclusiveMaximum"], 1), True)
        if self.chance(15):
            schema["format"] = self.one(FORMATS)
        if self.chance(10):
            schema["enum"] = [self.one([self.one(TEXTS), self.one(NUMBERS), self.value(1)]) for _ in range(2)]
        if type_ in ("object", None) and self.chance(25):
            schema["required"] = self.some(NAMES, 2)
        if type_ in ("array", None) and self.chance(5):
            schema["uniqueItems"] = True
        return schema

    def junctors(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {}
        if depth and self.chance(25):
            keyword = self.one(["anyOf", "oneOf", "allOf", "not"])
            alternatives = [self.nested(depth - 1) for _ in range(self.one([1, 2, 3]))]
            schema[keyword] = alternatives[0] if keyword == "not" else alternatives
        return schema

    def nested(self, depth: int) -> dict[str, Any]:
        """Within a junctor."""
        schema = self.limits(self.one(["string", "integer", "object", "array", None])) | self.junctors(depth)
        if depth and self.chance(40):
            schema["properties"] = {name: self.nested(depth - 1) for name in self.some(NAMES, 2)}
        if depth and self.chance(20):
            schema["items"] = self.nested(depth - 1)
        return schema

    def schema(self, depth: int) -> dict[str, Any]:
        if self.chance(7):
            schema = {"x-kubernetes-int-or-string": True} | self.limits(self.one(["string", "integer"]))
            return schema | self.one([{}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}])  # type: ignore[no-any-return]
        if self.chance(5):
            return {"x-kubernetes-preserve-unknown-fields": True} | self.limits(None)
        type_ = self.one(["string", "integer", "number", "boolean", *(["object", "object", "array"] if depth else [])])
        schema = {"type": type_} | self.limits(type_) | self.junctors(depth)
        if self.chance(15):
            schema["nullable"] = True
        if type_ == "object":
            schema |= self.members(depth)
        elif type_ == "array":
            schema |= self.items(depth)
        return schema

    def members(self, depth: int) -> dict[str, Any]:
        if self.chance(30):
            return {"additionalProperties": self.one([True, False]) if self.chance(10) else self.schema(depth - 1)}
        schema: dict[str, Any] = {"properties": {name: self.schema(depth - 1) for name in self.some(NAMES, 4)}}
        for keyword in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if self.chance(10):
                schema[keyword] = True
        return schema

    def items(self, depth: int) -> dict[str, Any]:
        list_type = self.one(["", "set", "map", "atomic"])
        schema: dict[str, Any] = {"items": self.schema(depth - 1)}
        if list_type == "map":
            schema["items"] = {"type": "object", "properties": {name: self.schema(0) for name in ("k", "a")}}
            schema["x-kubernetes-list-map-keys"] = self.one([["k"], ["k", "a"]])
        return schema | ({"x-kubernetes-list-type": list_type} if list_type else {})

    def fit(self, schema: dict[str, Any], depth: int = 0) -> Any:
        """A value as the schema wants it, mostly."""
        if self.chance(10) or depth > 5:
            return self.value(2)
        if schema.get("enum") and self.chance(70):
            return self.one(schema["enum"])
        type_ = self.one(["string", "integer"]) if schema.get("x-kubernetes-int-or-string") else schema.get("type")
        if type_ == "string":
            return self.one(TEXTS)
        if type_ in ("integer", "number"):
            return self.one([number for number in NUMBERS if type_ == "number" or isinstance(number, int)])
        if type_ == "boolean":
            return self.one([True, False])
        if type_ == "array":
            return [self.fit(schema.get("items") or {}, depth + 1) for _ in range(self.one([0, 1, 2, 3]))]
        return self.fit_object(schema, depth) if type_ == "object" else self.value(2)

    def fit_object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        obj = {name: self.fit(child, depth + 1) for name, child in properties.items() if self.chance(70)}
        if isinstance(schema.get("additionalProperties"), dict):
            obj |= {name: self.fit(schema["additionalProperties"], depth + 1) for name in self.some(NAMES, 3)}
        if schema.get("x-kubernetes-embedded-resource") and self.chance(90):
            obj |= {"apiVersion": self.one(["v1", "a/b/c", ""]), "kind": self.one(["K", "a b"]), "metadata": self.one(METADATA)}
        return obj

    def change(self, value: Any) -> Any:
        """Another value that has much of this one."""
        if not isinstance(value, dict | list) or not value or self.chance(20):
            return self.one([value, self.value(1)])
        if isinstance(value, dict):
            name = self.one(list(value))
            return {**value, name: self.change(value[name]), **({self.one(NAMES): self.value(1)} if self.chance(20) else {})}
        index = self.one(list(range(len(value))))
        changed = [*value[:index], self.change(value[index]), *value[index + 1 :]]
        return changed[::-1] if self.chance(30) else changed


def _as_read(value: Any) -> Any:
    return codec.decode_json(json.dumps(value).encode())


@st.composite
def cases(draw: Draw) -> tuple[dict[str, Any], Any]:
    """(schema of an object, value)."""
    make = _Maker(draw)
    schema = {"type": "object", "properties": {name: make.schema(3) for name in make.some(NAMES, 3)}}
    return _as_read(schema), _as_read(make.fit(schema))


@st.composite
def updates(draw: Draw) -> tuple[dict[str, Any], Any, Any]:
    """(schema of an object, value, what it was before)."""
    schema, value = draw(cases())
    return schema, value, _as_read(_Maker(draw).change(value))
