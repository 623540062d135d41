"""The runtime cost of a call, computed from the sizes of its arguments before the call is made.

cel-go's list and set libraries have their own figures; Kubernetes' estimator follows, by function name, then cel-go's standard
figures, by overload; all other calls cost 1. A call is paid for even if it fails, or if an argument failed, which counts as
null then; a value of the wrong type has size 1.
Rounding is in floating point as upstream's, since the sizes at which a cost goes up depend on it. Variables, fields, indexes,
lists and macros are charged by the generated code (`generator.py`).
Source: k8s.io/apiserver pkg/cel/library/cost.go, v0.36.3; cel-go interpreter/runtimecost.go and ext/{lists,sets}.go, v0.26.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from aggserver.cel.call_cost import AUTHORIZATION_CHECK
from aggserver.cel.library.named_format import NamedFormat
from aggserver.cel.values import Opaque, Optional

__all__ = ["CREATE_LIST", "CREATE_MAP", "CREATE_STRUCT", "Cost", "cost_of", "equality", "inequality", "weight"]

Cost = int | Callable[..., int]

CREATE_LIST, CREATE_MAP, CREATE_STRUCT = 10, 30, 40
_TRAVERSAL = 0.1
_REGEX = 0.25
# A tuple, since `str | ...` would be created anew for each call.
_SIZED = (str, list, dict, bytes)


def _size(value: Any) -> int:
    """The size of a value; 1 if it has none."""
    if isinstance(value, _SIZED):
        return len(value)
    if isinstance(value, Optional):
        return _size(value.value) if value.present else 1
    return value.size() if isinstance(value, Opaque) else 1


def _traversal(value: Any, *_: Any) -> int:
    return ceil(_size(value) * _TRAVERSAL)


def _traversal_twice(value: Any, *_: Any) -> int:
    return ceil(_size(value) * 2 * _TRAVERSAL)


def _deep_traversal(value: Any, *_: Any) -> int:
    match value:
        case str():
            return int(len(value.encode("utf-8", "surrogatepass")) * _TRAVERSAL)
        case bytes():
            return int(len(value) * _TRAVERSAL)
        case list():
            return sum(map(_deep_traversal, value))
        case dict():
            return sum(_deep_traversal(key) + _deep_traversal(item) for key, item in value.items())
        case _:
            return 1


def _join(parts: Any, separator: Any = "") -> int:
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in (*parts, separator)):
        return 1
    length = sum(map(_size, parts)) + len(separator) * max(len(parts) - 1, 0)
    return ceil(length * 2 * _TRAVERSAL)


def _regex(text: Any, pattern: Any, *_: Any) -> int:
    return ceil((1.0 + _size(text)) * _TRAVERSAL) * ceil(_size(pattern) * _REGEX)


def _selector(_: Any, text: Any) -> int:
    size = _size(text)
    return 10 + ceil(size * _TRAVERSAL) + ceil(ceil(size * 0.5) * 50.0)


def _validate(named: Any, text: Any) -> int:
    if not isinstance(named, NamedFormat):
        return 1
    return ceil((1.0 + _size(text)) * _TRAVERSAL) * ceil(named.pattern_size * _REGEX)


def _contains_ip(network: Any, _: Any) -> int:
    size = _size(network)
    return ceil((size + size) * _TRAVERSAL)


def _contains_ip_string(network: Any, text: Any) -> int:
    return _contains_ip(network, text) + _traversal(text)


def _contains_cidr(network: Any, other: Any) -> int:
    return _contains_ip(network, other) + _traversal(network) + 1


def _contains_cidr_string(network: Any, text: Any) -> int:
    return _contains_cidr(network, text) + _traversal(text)


def equality(left: Any, right: Any) -> int:
    """The cost of `==`."""
    return 1 if isinstance(left, Opaque) else inequality(left, right)


def inequality(left: Any, right: Any) -> int:
    """The cost of `!=`, and of the order of strings and bytes."""
    return ceil(min(_size(left), _size(right)) * _TRAVERSAL)


# Lists with at least this many elements are remembered; for shorter ones that would cost more than it saves.
_LONG = 64
# The most lists and maps that are searched, which takes a fifth of a second. No object has as many.
_MOST_CONTAINERS = 2_000_000


def weight(value: Any, most: int) -> int:
    """The number of elements and entries of a list or map, including nested ones, which upstream's costs ignore.

    most: counting stops beyond it. A value may contain the same list any number of times.
    """
    found = looked = 0
    known: dict[int, list[Any]] = {}  # the content of long lists, by the list's id(), so that each list is read once
    content: Any = value.value if type(value) is Optional else value
    waiting: list[Any] = [content] if isinstance(content, list | dict) else []
    while waiting and found <= most:
        each = waiting.pop()
        if isinstance(each, dict):
            each = each.values()
        looked += 1
        found += len(each)
        if len(each) < _LONG or (inside := known.get(id(each))) is None:
            inside = [inner for inner in each if isinstance(inner, list | dict)]
            if len(each) >= _LONG and isinstance(each, list):
                known[id(each)] = inside
        waiting += inside
        if looked + len(waiting) > _MOST_CONTAINERS:
            return most + 1
    return found


def _sum(left: Any, right: Any) -> int:
    return ceil((_size(left) + _size(right)) * _TRAVERSAL)


def _contains(text: Any, part: Any) -> int:
    return _traversal(text) * _traversal(part)


def _in_list(_: Any, items: Any) -> int:
    return _size(items)


def _allocated(size: float) -> int:
    return int(size) + 1 + CREATE_LIST


def _slice(items: Any, start: Any, end: Any) -> int:
    fits = isinstance(items, list) and type(start) is type(end) is int and 0 <= start <= end <= len(items)
    return _allocated(end - start if fits else 1)


def _flatten(items: Any, depth: Any = 1) -> int:
    # A negative depth is an error, but upstream has converted it to a large unsigned number here.
    return _allocated((depth if type(depth) is int else 1) * _size(items)) % 2**64


def _range(end: Any) -> int:
    return _allocated(max(end, 0) if type(end) is int else 1)


def _reverse(items: Any) -> int:
    return _allocated(len(items) if isinstance(items, list) else 1)


def _self_compare(items: Any) -> int:
    size = _size(items)
    factor = 2.0 + (_TRAVERSAL if isinstance(items, list) and items and isinstance(items[0], str | bytes) else 0)
    return _allocated(size * size * factor)


def _sort_by(_: Any, keys: Any) -> int:
    return _self_compare(keys)


def _sets(factor: int) -> Cost:
    return lambda left, right: 1 + _size(left) * _size(right) * factor


# The list and set libraries of cel-go, by overload.
_TRACKED: Mapping[str, Cost] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _self_compare,
    **{
        f"list_{name}_{function}": cost
        for name in (
            "int",
            "uint",
            "double",
            "bool",
            "google.protobuf.Duration",
            "google.protobuf.Timestamp",
            "string",
            "bytes",
        )
        for function, cost in (("sort", _self_compare), ("sortByAssociatedKeys", _sort_by))
    },
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
# Kubernetes' estimator, by function; where overloads differ, by function and overload.
_ESTIMATED: Mapping[str, Cost] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _deep_traversal),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"), _traversal),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _traversal),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _traversal_twice),
    "join": _join,
    "check": AUTHORIZATION_CHECK,
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("find", "findAll"), _regex),
    "ip": _traversal,
    "ip cidr_ip": 1,
    "containsIP": _contains_ip,
    "containsIP cidr_contains_ip_string": _contains_ip_string,
    "containsCIDR": _contains_cidr,
    "containsCIDR cidr_contains_cidr_string": _contains_cidr_string,
    "validate": _validate,
}
_STANDARD: Mapping[str, Cost] = {
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string", "strings_quote", "string_format"),
        _traversal,
    ),
    "in_list": _in_list,
    **{
        f"{order}_{kind}": inequality
        for order in ("less", "greater", "less_equals", "greater_equals")
        for kind in ("string", "bytes")
    },
    "add_string": _sum,
    "add_bytes": _sum,
    "matches_string": _regex,
    "contains_string": _contains,
}


def cost_of(function: str, overload: str) -> Cost:
    """The cost of a call, fixed or computed. overload: '' if it depends on the values, then only the function counts."""
    for figures, key in (
        (_TRACKED, overload),
        (_ESTIMATED, f"{function} {overload}"),
        (_ESTIMATED, function),
        (_STANDARD, overload),
    ):
        if key in figures:
            return figures[key]
    return 1
