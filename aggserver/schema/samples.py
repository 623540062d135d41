"""Samples: objects made from a schema, to try conversions and other operations on objects of a definition.

The first has all fields that can be together in a valid object, the second only the required ones. Each of the others varies one
field, so that a caller who compares results can name that field: it has another value or is missing or, since alternatives
exclude each other, it is added to the required fields alone. The same schema always gives the same samples. Values come from the
schema's enums, defaults and examples, or else from short lists, of which only values that the field's schema allows are used.
Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias

from aggserver.meta.json_types import JSONObject
from aggserver.schema.structural import Structural
from aggserver.schema.validation import validate

__all__ = ["samples"]

# The most fields of one sample. Large schemas have thousands; a sample has the first ones, level by level.
_MAX_FIELDS = 500
# The most fields of all samples of one schema together. Each takes a microsecond to make, and several to validate.
_MAX_BUILT = 20_000
# The most rounds in which fields are removed from the sample with all fields, to make it valid.
_MAX_ROUNDS = 5
# The most values tried for one field.
_MAX_VALUES = 4
# The most levels of objects and lists in a sample. Deeper fields are not worth the time that a wide schema would take.
_MAX_DEPTH = 12

_STRINGS = ("text", "localhost:1234", "", "a/b=c,d", "2026-01-02T03:04:05Z", "1h30m0s", "10.0.0.1", "aGVsbG8=", "100m", "7")
_INTEGERS = (3, 0, -1, 8080, 100_000)
_NUMBERS = (2.5, 3, 0, -1.5)
_KEY = "key"


# The path to a field: names and, for the item of a list or value of a map, an index or key.
_Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a sample. values: the values to try for it."""

    path: _Path
    values: Sequence[Any]
    required: bool


def samples(node: Structural, most: int, first: Collection[tuple[str, ...]] = ()) -> Iterator[JSONObject]:
    """At most `most` objects without kind, apiVersion and metadata, fewer if they are large. They may violate CEL rules.

    first: paths of the fields that are varied before all others, together with the fields below them.
    """
    fields = _fields(node)
    together, apart = _parted(fields, node)
    left = _MAX_BUILT
    for made in islice(_samples(together, apart, frozenset(first)), most):
        yield _built(made)
        left -= len(made)
        if left < 0:
            return


def _samples(together: Sequence[_Field], apart: Sequence[_Field], first: Collection[tuple[str, ...]]) -> Iterator[list[_Field]]:
    """The fields of each sample. together: fields that make a valid object. apart: fields that are not valid together with those,
    or not at all.
    """
    required = _required([*together, *apart])
    yield list(together)
    yield [each for each in together if each.path in required]
    for each in sorted(together, key=lambda each: not _is_below(each, first)):
        for value in each.values[1:]:
            yield [replace(other, values=(value,)) if other is each else other for other in together]
        if not each.required:
            yield [other for other in together if other.path[: len(each.path)] != each.path]
    everything = sorted([*together, *apart], key=lambda each: len(each.path))
    for each in apart:
        yield [other for other in everything if other.path in required or _is_near(other, each)]


def _is_below(each: _Field, paths: Collection[tuple[str, ...]]) -> bool:
    return any(each.path[:depth] in paths for depth in range(1, len(each.path) + 1))


def _parted(fields: Sequence[_Field], node: Structural) -> tuple[list[_Field], list[_Field]]:
    """Split the fields: an object of all the first ones is valid, unless required fields prevent it; the rest is second."""
    together, apart = list(fields), list[_Field]()
    for _ in range(_MAX_ROUNDS):
        at_fault = set()
        for error in validate(_built(together), node.schema):
            # An error of a missing field is blamed on the object above it.
            blamed = [each for each in together if not each.required and _is_prefix(_text(each.path), error.path.text)]
            at_fault |= {max(blamed, key=lambda each: len(each.path)).path} if blamed else set()
        if not at_fault:
            break
        apart += [each for each in together if any(each.path[: len(path)] == path for path in at_fault)]
        together = [each for each in together if not any(each.path[: len(path)] == path for path in at_fault)]
    return together, apart


def _text(path: _Path) -> str:
    """The path as error texts have it."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _is_prefix(text: str, whole: str) -> bool:
    return whole == text or whole.startswith((f"{text}.", f"{text}["))


def _required(fields: Sequence[_Field]) -> set[_Path]:
    """The fields that every object has: those required in a parent that every object has."""
    found: set[_Path] = {()}
    for each in fields:
        if each.required and each.path[:-1] in found:
            found.add(each.path)
    return found


def _is_near(other: _Field, each: _Field) -> bool:
    """Whether a field is `each` itself, above it, or required directly below it."""
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
    level: list[tuple[_Path, Structural]] = [((), root)]
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
    """Values for a field; an object or list is empty, to be filled with its children."""
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
