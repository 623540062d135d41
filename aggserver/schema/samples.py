"""Samples: objects of a schema, made for trying out what is done with objects of a definition.

The first has all fields, the second only the required ones. In each of the others, one field has another value, is missing, or is
there beside the required ones, since alternatives exclude each other. So whoever compares what becomes of them can name the
field. The same schema always gives the same samples. Values come from the schema's enums, defaults and examples, or else from
short lists; of these, only values that the field's schema allows are used.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from aggserver.meta.json_types import JSONObject
from aggserver.schema.structural import Structural
from aggserver.schema.validation import validate

__all__ = ["samples"]

# Fields of one sample. Large schemas have thousands; a sample has those that come first, level by level.
_MAX_FIELDS = 500
# Values tried for one field.
_MAX_VALUES = 4
# Levels of objects and lists. Schemas are finite, but wide ones are not worth more.
_MAX_DEPTH = 12

_STRINGS = ("text", "localhost:1234", "", "a/b=c,d", "2026-01-02T03:04:05Z", "1h30m0s", "10.0.0.1", "aGVsbG8=", "100m", "7")
_INTEGERS = (3, 0, -1, 8080, 100_000)
_NUMBERS = (2.5, 3, 0, -1.5)
_KEY = "key"


@dataclass(frozen=True, slots=True)
class _Field:
    """A place in a sample: names and, for the item of a list or value of a map, an index or key. values: what it may have."""

    path: tuple[str | int, ...]
    values: Sequence[Any]
    required: bool


def samples(node: Structural, most: int) -> Iterator[JSONObject]:
    """At most `most` objects without kind, apiVersion and metadata. They may break rules of the whole schema."""
    fields = _fields(node)
    yield from islice(_samples(fields), most)


def _samples(fields: Sequence[_Field]) -> Iterator[JSONObject]:
    yield _built(fields)
    yield _built([each for each in fields if _is_required(each, fields)])
    for index, each in enumerate(fields):
        for value in each.values[1:]:
            yield _built([*fields[:index], _Field(each.path, (value,), each.required), *fields[index + 1 :]])
        if not each.required:
            yield _built([other for other in fields if other.path[: len(each.path)] != each.path])
            yield _built([other for other in fields if _is_near(other, each) or _is_required(other, fields)])


def _is_required(each: _Field, fields: Sequence[_Field]) -> bool:
    parents = {other.path: other.required for other in fields}
    return all(parents[each.path[:depth]] for depth in range(1, len(each.path) + 1))


def _is_near(other: _Field, each: _Field) -> bool:
    """Whether a field is above another one, that one itself, or required directly below."""
    if len(other.path) <= len(each.path):
        return each.path[: len(other.path)] == other.path
    return other.required and other.path[:-1] == each.path


def _built(fields: Sequence[_Field]) -> JSONObject:
    root: JSONObject = {}
    for each in fields:
        at: Any = root
        for part in each.path[:-1]:
            at = at[part]
        value = _copied(each.values[0])
        if isinstance(at, list):
            at.append(value)
        else:
            at[each.path[-1]] = value
    return root


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(member) for key, member in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _fields(root: Structural) -> list[_Field]:
    """The fields of a sample, parents before their children."""
    found: list[_Field] = []
    level: list[tuple[tuple[str | int, ...], Structural]] = [((), root)]
    for _ in range(_MAX_DEPTH):
        below = []
        for path, node in level:
            for part, child, required in _children(node):
                values = _values(child)
                if not values or len(found) >= _MAX_FIELDS:
                    continue
                found.append(_Field((*path, part), values, required))
                if values[0] in ({}, []):
                    below.append(((*path, part), child))
        level = below
    return found


def _children(node: Structural) -> Iterator[tuple[str | int, Structural, bool]]:
    required = node.schema.get("required") or ()
    for name, child in node.properties.items():
        if name not in _TYPE_META:
            yield name, child, name in required
    if node.values is not None:
        yield _KEY, node.values, bool(node.schema.get("minProperties"))
    if node.items is not None:
        yield 0, node.items, bool(node.schema.get("minItems"))


_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})


def _values(node: Structural) -> Sequence[Any]:
    """Values for a field; that of an object or list is empty, to be filled by its children."""
    if node.type in ("object", "array"):
        return ({},) if node.type == "object" else ([],)
    schema = node.schema
    given = [*(schema.get("enum") or ()), *(schema[name] for name in ("example", "default") if schema.get(name) is not None)]
    tried = given or list(_BY_TYPE.get(node.type, ()))
    if node.x_int_or_string:
        tried = given or [_INTEGERS[0], _STRINGS[0]]
    for name in ("minimum", "maximum") if node.type in ("integer", "number") else ():
        if schema.get(name) is not None:
            tried.append(schema[name])
    return list(islice((value for value in tried if not validate(value, schema)), _MAX_VALUES))


_BY_TYPE: dict[str, Sequence[Any]] = {
    "string": _STRINGS,
    "integer": _INTEGERS,
    "number": _NUMBERS,
    "boolean": (True, False),
}
