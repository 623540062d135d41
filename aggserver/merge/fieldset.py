"""FieldSet: the set of fields that a manager owns, in the form of fieldsV1.

A set is the JSON object that managedFields show: `{"f:spec": {".": {}, "f:replicas": {}, "f:zones": {"v:1": {}}}}`. Its keys are
path elements: `f:` and the name of a field, `k:` and the keys of an item of a list of type map, `v:` and the value of an item of
a set, `i:` and an index. An element is in the set if the object below it is empty or has `.`. Thus stored sets can be compared
without decoding them, and are kept as they are if nothing changes them. Sets are values: no function here changes its arguments,
and results share parts with them, or are an argument itself where nothing differs.

`parse` checks and normalises what a client sent. All other functions rely on that form: elements as `field`, `key` and `value`
write them.
Pure. Source: sigs.k8s.io/structured-merge-diff/v6 fieldpath/{set,serialize,serialize-pe,element}.go, v6.3.3.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from aggserver.meta.golang import quote, to_json

__all__ = [
    "EMPTY",
    "NO_ELEMENT",
    "FieldSet",
    "FieldSetError",
    "Path",
    "contains",
    "difference",
    "element_text",
    "field",
    "intersection",
    "is_member",
    "is_plain",
    "key",
    "of_path",
    "ordered",
    "parse",
    "path_text",
    "paths",
    "recursive_difference",
    "union",
    "union_of",
    "value",
    "with_member",
]

FieldSet = Mapping[str, Any]
Path = tuple[str, ...]

EMPTY: FieldSet = {}
NO_ELEMENT = "?:"
_SELF = "."
_MEMBER: FieldSet = {}

# Maximum depth of a set that a client sends. Go's JSON decoder allows 10,000 levels, but an object, and thus its sets, has 254 at
# most.
MAX_DEPTH = 256

# Size of the cache of parsed elements (names of containers and types of conditions recur), and the characters of the longest
# element in it.
_CACHED = 4096
_CACHED_LENGTH = 256


class FieldSetError(ValueError):
    """The given fieldsV1 is not a valid set."""


def field(name: str) -> str:
    return f"f:{name}"


def value(item: Any) -> str:
    """The element of an item of a set: a string, a number or a boolean."""
    return f"v:{_json(item)}"


def key(fields: Mapping[str, Any]) -> str:
    """The element of an item of a list map. fields: its key members, without those that are not set."""
    return "k:{" + ",".join([f"{_json(name)}:{_json(fields[name])}" for name in sorted(fields)]) + "}"


# Characters that JSON writes without an escape.
_PLAIN = r"[ !#-%'-;=?-\[\]-~]*"
is_plain = re.compile(_PLAIN).fullmatch


def _json(item: Any) -> str:
    return f'"{item}"' if item.__class__ is str and is_plain(item) else to_json(item)


def element_text(element: str) -> str:
    """An element in the form used in error messages: `.name`, `[name="a"]`, `[="x"]`, `[0]`."""
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
    """Whether the element whose contents are `node` is itself in the set."""
    return not node or _SELF in node


def with_member(node: FieldSet | None) -> FieldSet:
    """`node` with its own element added to the set; None stands for no node yet."""
    if not node:
        return _MEMBER
    return node if _SELF in node else {_SELF: _MEMBER, **node}


def contains(fields: FieldSet, path: Path) -> bool:
    node: FieldSet | None = fields
    for element in path:
        node = None if node is None else node.get(element)
    return bool(path) and node is not None and is_member(node)


def of_path(path: Path) -> FieldSet:
    """The set of one path."""
    fields: FieldSet = EMPTY
    for element in reversed(path):
        fields = {element: fields}
    return fields


def paths(fields: FieldSet, before: Path = ()) -> Iterator[Path]:
    """All paths, in upstream's order: each level before the levels below it."""
    elements = [element for element in _in_order(fields) if element != _SELF]
    for element in elements:
        if is_member(fields[element]):
            yield (*before, element)
    for element in elements:
        yield from paths(fields[element], (*before, element))


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """The union of two sets; `left` itself if it has all of `right`."""
    if not right or left is right:
        return left
    if not left:
        return right
    out: dict[str, Any] | None = None
    for name, theirs in right.items():
        ours = left.get(name)
        if ours is theirs or (not theirs and ours is not None and not ours):
            continue
        both = theirs if ours is None else _united_nodes(ours, theirs)
        if both is not ours:
            if out is None:
                out = dict(left)
            out[name] = both
    return left if out is None else out


def _united_nodes(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return with_member(right) if right else left
    return union(left, right) if right else with_member(left)


def union_of(sets: Sequence[FieldSet]) -> FieldSet:
    """The union of all sets, united by halves: one after the other, each step would copy the results of all steps before it."""
    if len(sets) <= 1:
        return sets[0] if sets else EMPTY
    middle = len(sets) // 2
    return union(union_of(sets[:middle]), union_of(sets[middle:]))


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """The elements that are in both sets."""
    if left is right:
        return left
    if len(right) < len(left):
        left, right = right, left
    out: dict[str, Any] = {}
    for name, ours in left.items():
        theirs = right.get(name)
        if theirs is not None and name != _SELF and (both := _common(ours, theirs)) is not None:
            out[name] = both
    return out


def _common(left: FieldSet, right: FieldSet) -> FieldSet | None:
    if left is right:
        return left
    inner = intersection(left, right) if left and right else EMPTY
    if is_member(left) and is_member(right):
        return with_member(inner)
    return inner or None


def difference(left: FieldSet, right: FieldSet, levels: int = 0) -> FieldSet:
    """`left` without the elements of `right`; the elements below a removed one are kept.

    Keeps the order of `left`, and is `left` itself if nothing is removed. levels: on how many levels parts are first compared
    with `==`, which is fast if they are equal and wasted if not.
    """
    if not right or not left:
        return left
    if left is right:
        return EMPTY
    out: dict[str, Any] | None = None
    for name in right if len(right) <= len(left) else left:
        ours, theirs = left.get(name), right.get(name)
        if ours is None or theirs is None or name == _SELF:
            continue
        kept = None if levels and ours == theirs else _without(ours, theirs, max(levels - 1, 0))
        if kept is not ours:
            out = _replaced(left, out, name, kept)
    return left if out is None else out


def _without(left: FieldSet, right: FieldSet, levels: int) -> FieldSet | None:
    if not left:
        return None if is_member(right) else left
    inner = difference(left, right, levels) if right else left
    if _SELF not in left:
        return inner or None
    if is_member(right):
        return {name: node for name, node in inner.items() if name != _SELF} or None
    return _MEMBER if len(inner) == 1 else inner


def _replaced(left: FieldSet, out: dict[str, Any] | None, name: str, node: FieldSet | None) -> dict[str, Any]:
    """`out` (None: a copy of `left`) with `node` at an element, or without that element if `node` is None."""
    if out is None:
        out = dict(left)
    if node is None:
        del out[name]
    else:
        out[name] = node
    return out


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """`left` without the elements of `right` and all that is below them; `left` itself if nothing is removed."""
    if not right or not left:
        return left
    out: dict[str, Any] | None = None
    for name in right if len(right) <= len(left) else left:
        ours, theirs = left.get(name), right.get(name)
        if ours is None or theirs is None or name == _SELF:
            continue
        kept = None if is_member(theirs) else _recursively_without(ours, theirs)
        if kept is not ours:
            out = _replaced(left, out, name, kept)
    return left if out is None else out


def _recursively_without(left: FieldSet, right: FieldSet) -> FieldSet | None:
    if not left:
        return left
    inner = recursive_difference(left, right)
    return _MEMBER if len(inner) == 1 and _SELF in inner else inner or None


def ordered(fields: FieldSet) -> dict[str, Any]:
    """The same set with its elements sorted as texts.

    kube-apiserver shows the sets of custom resources so, because it decodes them to Go maps and encodes these again.
    """
    return _ordered(fields, {})


def _ordered(fields: FieldSet, done: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """done: id of a node -> the ordered node, since items of a list share nodes."""
    out: dict[str, Any] = {}
    for name in sorted(fields):
        node = fields[name]
        if not node:
            out[name] = _MEMBER
            continue
        found = done.get(id(node))
        if found is None:
            found = done[id(node)] = _ordered(node, done)
        out[name] = found
    return out


def _in_order(fields: FieldSet) -> list[str]:
    """Upstream's order of elements: `.` first, then fields, keys, values and indexes, each sorted by their content."""
    names = sorted(fields)
    # `.` sorts before letters, and fields are ordered by name.
    if not names or names[-1] < "f;" or _are_plain_keys(names):
        return names
    return sorted(names, key=_rank)


def _are_plain_keys(names: list[str]) -> bool:
    """Whether all elements have one and the same key, with string values that sort as the texts of the elements do.

    The two orders agree if no character of a value is smaller than the quote at its end, and none is escaped.
    """
    keys = names[1:] if names[0] == _SELF else names
    head, quote_mark, _ = keys[0].partition('":"')
    if not quote_mark or not head.startswith("k:"):
        return False
    together = "".join(keys)
    if " " in together or "!" in together or "\\" in together:
        return False
    # Four quotes in each: one key and one value.
    return together.count(head + quote_mark) == len(keys) and together.count('"') == 4 * len(keys)


def _rank(element: str) -> tuple[Any, ...]:
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return (0, rest)
    if element == _SELF:
        return (-1,)
    if kind == "k:":
        return (1, tuple((name, _value_rank(member)) for name, member in sorted(orjson.loads(rest).items())))
    if kind == "v:":
        return (2, _value_rank(orjson.loads(rest)))
    return (3, int(rest)) if kind == "i:" else (4,)


def _value_rank(item: Any) -> tuple[Any, ...]:
    """Sort key: numbers, strings, booleans, lists, objects, null, in this order."""
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
    """Read a fieldsV1 that a client sent. Elements of unknown kinds are dropped, null is the empty set.

    Raises FieldSetError.
    """
    if fields is None:
        return EMPTY
    if not isinstance(fields, dict):
        raise FieldSetError("a set is an object")
    made = _parsed(fields, 0)
    return {name: node for name, node in made.items() if name != _SELF} if _SELF in made else made


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
            if not isinstance(node, dict | None):
                raise FieldSetError("ReadMapCB: expect { or n")
            inner = _parsed(node, depth + 1) if node else _MEMBER
            if _SELF in inner and len(inner) == 1:
                inner = _MEMBER
            out[element] = _united_nodes(out[element], inner) if element in out else inner
    return out


# Elements that need no normalising: small integers, plain strings, and one key with either.
_TEXT = f'"{_PLAIN}"'
_NUMBER = "(?:0|-?[1-9][0-9]{0,14})"
_is_canonical = re.compile(f"i:{_NUMBER}|v:(?:{_NUMBER}|{_TEXT})|k:{{{_TEXT}:(?:{_NUMBER}|{_TEXT})}}").fullmatch


def _not_json(name: str) -> Any:
    raise ValueError(f"invalid character {name[0]!r} looking for beginning of value")


_DECODER = json.JSONDecoder(parse_constant=_not_json)


def _index(text: str) -> int:
    if not re.fullmatch("[+-]?[0-9]+", text, re.ASCII):
        raise ValueError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def _element(name: str) -> str | None:
    """The element in normal form; None for an unknown kind. Raises FieldSetError."""
    if len(name) < 2:
        raise FieldSetError("key must be 2 characters long:")
    if name[1] != ":":
        raise FieldSetError(f"missing colon: {name}")
    kind, rest = name[:2], name[2:]
    if kind == "f:" or _is_canonical(name):
        return name
    try:
        if kind == "i:":
            return f"i:{_index(rest)}"
        if kind in ("k:", "v:"):
            # Upstream's decoder does not look at what follows.
            read, _ = _DECODER.raw_decode(rest.lstrip(" \t\r\n"))
            if kind == "k:" and not isinstance(read, dict):
                raise FieldSetError("a key is an object")
            return kind + to_json(read)
    except (ValueError, RecursionError) as error:
        raise FieldSetError(str(error)) from None
    return None


_remembered = functools.lru_cache(_CACHED)(_element)
