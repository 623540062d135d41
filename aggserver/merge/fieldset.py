"""FieldSet: which fields of an object somebody owns, kept in the form of fieldsV1.

A set is the JSON object that managedFields show: `{"f:spec": {".": {}, "f:replicas": {}, "f:zones": {"v:1": {}}}}`. Its keys are
path elements: `f:` and the name of a field, `k:` and the keys of an item of a list of type map, `v:` and the value of an item of
a set, `i:` and an index. An element is in the set if what is below it is empty or has `.`. So what was stored needs no decoding
before two sets are compared, and what nobody changes stays as it is. Sets are values: no function here changes its arguments, and
results share parts with them.

`parse` makes a set of what a client sent; all else relies on its form: elements written as `field`, `key` and `value` write them.
Pure. Source: sigs.k8s.io/structured-merge-diff/v6 fieldpath/{set,serialize,serialize-pe,element}.go, v6.3.3.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from aggserver.meta.golang import quote, to_json

__all__ = [
    "EMPTY",
    "NO_ELEMENT",
    "FieldSet",
    "FieldSetError",
    "Path",
    "below",
    "contains",
    "difference",
    "element_text",
    "field",
    "insert",
    "intersection",
    "is_member",
    "key",
    "ordered",
    "parse",
    "path_text",
    "paths",
    "recursive_difference",
    "union",
    "value",
    "with_member",
]

FieldSet = Mapping[str, Any]
Path = tuple[str, ...]

EMPTY: FieldSet = {}
NO_ELEMENT = "?:"
_SELF = "."
_MEMBER: FieldSet = {}

# Levels of a set that comes from outside. Go's JSON decoder gives up at 10,000; an object nests 254 deep at most, as do its sets.
MAX_DEPTH = 256

# Elements that are read again and again (names of containers, types of conditions) are remembered: so many, of so many letters.
_CACHED = 4096
_CACHED_LENGTH = 256


class FieldSetError(ValueError):
    """What should be fieldsV1 is no set."""


def field(name: str) -> str:
    return f"f:{name}"


def value(item: Any) -> str:
    """The element of an item of a set: a string, a number or a boolean."""
    return f"v:{_json(item)}"


def key(fields: Mapping[str, Any]) -> str:
    """The element of an item of a list map, by the members that are its keys and are set."""
    return "k:{" + ",".join([f"{_json(name)}:{_json(fields[name])}" for name in sorted(fields)]) + "}"


# Texts that JSON writes as they are.
_plain = re.compile(r"[ !#-%'-;=?-\[\]-~]*").fullmatch


def _json(item: Any) -> str:
    return f'"{item}"' if item.__class__ is str and _plain(item) else to_json(item)


def element_text(element: str) -> str:
    """An element as errors show it: `.name`, `[name="a"]`, `[="x"]`, `[0]`."""
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "k:":
        members = orjson.loads(rest)
        return "[" + ",".join(f"{name}={_value_text(members[name])}" for name in sorted(members)) + "]"
    return f"[={_value_text(orjson.loads(rest))}]" if kind == "v:" else f"[{rest}]"


def _value_text(item: Any) -> str:
    if isinstance(item, str):
        return quote(item)
    if isinstance(item, list):
        return "[" + ",".join(map(_value_text, item)) + "]"
    if isinstance(item, dict):
        return "".join(f"{name}={_value_text(member)}" for name, member in item.items())
    return to_json(item)


def path_text(path: Path) -> str:
    return "".join(map(element_text, path))


def is_member(node: FieldSet) -> bool:
    """Whether the element that `node` is below of is itself in the set."""
    return not node or _SELF in node


def with_member(node: FieldSet | None) -> FieldSet:
    """`node` with its element in the set; None is an element of which nothing is known."""
    return node if node and _SELF in node else {_SELF: _MEMBER, **node} if node else _MEMBER


def below(node: FieldSet, element: str) -> FieldSet:
    """The set of what is below an element."""
    found = node.get(element)
    if not found:
        return EMPTY
    return {name: child for name, child in found.items() if name != _SELF} if _SELF in found else found


def contains(fields: FieldSet, path: Path) -> bool:
    node: FieldSet | None = fields
    for element in path:
        node = None if node is None else node.get(element)
    return bool(path) and node is not None and is_member(node)


def insert(fields: dict[str, Any], path: Path) -> None:
    """Adds a path to a set that is the caller's own, down to its leaves."""
    node = fields
    for depth, element in enumerate(path):
        is_last = depth == len(path) - 1
        child = node.get(element)
        if child is None:
            node[element] = child = {}
        elif is_last:
            if child:
                child[_SELF] = {}
            return
        elif not child:
            child[_SELF] = {}
        node = child


def paths(fields: FieldSet, before: Path = ()) -> Iterator[Path]:
    """All paths, in upstream's order: those of one level before those below any of them."""
    elements = _in_order(fields)
    for element in elements:
        if is_member(fields[element]):
            yield (*before, element)
    for element in elements:
        yield from paths(fields[element], (*before, element))


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in either."""
    if not left or not right:
        return left or right
    return _united(left, right)


def _united(left: FieldSet, right: FieldSet) -> FieldSet:
    out = dict(left)
    for name, theirs in right.items():
        ours = out.get(name)
        out[name] = theirs if ours is None else _united_nodes(ours, theirs)
    return out


def _united_nodes(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return with_member(right)
    return _united(left, right) if right else with_member(left)


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in both."""
    if len(right) < len(left):
        left, right = right, left
    out: dict[str, Any] = {}
    for name, ours in left.items():
        theirs = right.get(name)
        if theirs is not None and name != _SELF and (both := _common(ours, theirs)) is not None:
            out[name] = both
    return out


def _common(left: FieldSet, right: FieldSet) -> FieldSet | None:
    inner = intersection(left, right) if left and right else EMPTY
    if is_member(left) and is_member(right):
        return with_member(inner)
    return inner or None


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in `left` and not in `right`: of the elements alone, not of what is below them."""
    if not right:
        return left
    out: dict[str, Any] = {}
    for name, ours in left.items():
        theirs = right.get(name)
        kept = ours if theirs is None or name == _SELF else _without(ours, theirs)
        if kept is not None:
            out[name] = kept
    return out


def _without(left: FieldSet, right: FieldSet) -> FieldSet | None:
    inner = difference(left, right) if left and right else left
    inner = {name: node for name, node in inner.items() if name != _SELF}
    if is_member(left) and not is_member(right):
        return with_member(inner)
    return inner or None


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in `left` and neither in `right` nor below something that is."""
    if not right:
        return left
    out: dict[str, Any] = {}
    for name, ours in left.items():
        theirs = right.get(name)
        if theirs is None or name == _SELF:
            out[name] = ours
        elif not is_member(theirs) and (kept := _recursively_without(ours, theirs)) is not None:
            out[name] = kept
    return out


def _recursively_without(left: FieldSet, right: FieldSet) -> FieldSet | None:
    inner = {name: node for name, node in recursive_difference(left, right).items() if name != _SELF}
    return with_member(inner) if is_member(left) else inner or None


def ordered(fields: FieldSet) -> dict[str, Any]:
    """The same set as upstream writes it: `.` first, then fields, keys, values and indexes, each by what they hold."""
    return {name: ordered(fields[name]) for name in ([_SELF] if _SELF in fields else []) + _in_order(fields)}


def _in_order(fields: FieldSet) -> list[str]:
    names = sorted(name for name in fields if name != _SELF)
    # Names of fields are ordered as texts; others are rarer, and numbers among them are not.
    if all(name.startswith("f:") for name in names):
        return names
    return sorted(names, key=_rank)


def _rank(element: str) -> tuple[Any, ...]:
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return (0, rest)
    if kind == "k:":
        return (1, tuple((name, _value_rank(member)) for name, member in sorted(orjson.loads(rest).items())))
    if kind == "v:":
        return (2, _value_rank(orjson.loads(rest)))
    return (3, int(rest)) if kind == "i:" else (4,)


def _value_rank(item: Any) -> tuple[Any, ...]:
    """Numbers, texts, booleans, lists, objects, null."""
    if isinstance(item, bool):
        return (2, item)
    if isinstance(item, int | float):
        return (0, item)
    if isinstance(item, str):
        return (1, item)
    if isinstance(item, list):
        return (3, tuple(map(_value_rank, item)))
    if isinstance(item, dict):
        return (4, tuple((name, _value_rank(member)) for name, member in sorted(item.items())))
    return (5,)


def parse(fields: Any) -> FieldSet:
    """The set of a fieldsV1 that somebody sent, or stored: elements of unknown kinds are dropped, null is the empty set.

    Raises FieldSetError.
    """
    if fields is None:
        return EMPTY
    if not isinstance(fields, dict):
        raise FieldSetError("a set is an object")
    return _parsed(fields, 0)


def _parsed(fields: Mapping[str, Any], depth: int) -> FieldSet:
    if depth > MAX_DEPTH:
        raise FieldSetError("exceeded max depth")
    out: dict[str, Any] = {}
    for name, node in fields.items():
        if name == _SELF:
            out[name] = _MEMBER
            continue
        element = _remembered(name) if len(name) <= _CACHED_LENGTH else _element(name)
        if element is not None:
            # What is no object has nothing below it.
            inner = _parsed(node, depth + 1) if isinstance(node, dict) else _MEMBER
            out[element] = _united_nodes(out[element], inner) if element in out else inner
    return out


def _element(name: str) -> str | None:
    """As it is written here; None for a kind that is not known. Raises FieldSetError."""
    if len(name) < 2:
        raise FieldSetError("key must be 2 characters long:")
    if name[1] != ":":
        raise FieldSetError(f"missing colon: {name}")
    kind, rest = name[:2], name[2:]
    if kind == "f:":
        return name
    try:
        if kind == "i:":
            return f"i:{int(rest)}"
        if kind in ("k:", "v:"):
            read = json.loads(rest)
            if kind == "k:" and not isinstance(read, dict):
                raise FieldSetError("a key is an object")
            return kind + to_json(read)
    except (ValueError, RecursionError) as error:
        raise FieldSetError(str(error)) from None
    return None


_remembered = functools.lru_cache(_CACHED)(_element)
