"""The static cost of function calls, and the possible sizes of their results.

`cost.py` asks for each overload that a call may mean. Figures are looked up first in cel-go's list and set libraries (by
overload), then in Kubernetes' (by function), then in cel-go's standard ones (by overload). They are part of the API, since an
expression allowed in one version must be allowed in the next: so upstream's mistakes are kept.
Source: k8s.io/apiserver pkg/cel/library/cost.go, v0.36.3 (EstimateCallCost); cel-go checker/cost.go (functionCost),
ext/lists.go and ext/sets.go, v0.26.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aggserver.cel.ast import Expr, Literal
from aggserver.cel.ranges import LARGEST, ONE, UNKNOWN, ZERO, Range
from aggserver.cel.types import Kind, Type

__all__ = ["AUTHORIZATION_CHECK", "REGEXP", "TRAVERSAL", "Node", "call_cost"]

TRAVERSAL = 0.1
"""Cost for each character of a string that is traversed."""
REGEXP = 0.25
"""Cost for each character of a pattern, multiplied by the string's traversal cost."""
AUTHORIZATION_CHECK = 350_000
"""Upstream chose it so that an expression can afford two authorization checks."""

# Among the named formats: characters of the longest pattern, and of the longest name.
_LONGEST_FORMAT_PATTERN = 128
_LONGEST_FORMAT = 64
# A parsed selector is a list, with a list and a struct for each requirement; the shortest requirement is two characters: `k,`.
_SELECTOR = Range(10, 10)
_REQUIREMENTS_PER_CHARACTER = 0.5
_REQUIREMENT = 50.0
# Bytes in an address, of IPv4 or IPv6.
_ADDRESS = Range(4, 16)


@dataclass(frozen=True, slots=True)
class Node:
    """A target or argument."""

    path: tuple[str, ...]
    type: Type
    size: Range | None
    expr: Expr | None = None


Sizes: TypeAlias = Callable[[tuple[str, ...]], Range | None]
# Cost, and the size of the result if it is known.
_Estimate: TypeAlias = tuple[Range, Range | None]


def call_cost(
    function: str, overload: str, target: Node | None, args: Sequence[Node], arg_costs: Sequence[Range], sizes: Sizes
) -> _Estimate:
    """The cost of a call including its arguments, and the size of its result if known."""
    found = _collections(overload, target, args) or _kubernetes(function, overload, target, args, sizes)
    if found is not None:
        return found[0] + sum(arg_costs, ZERO), found[1]
    if overload in ("logical_or", "logical_and"):
        # The right side may be skipped, so it counts only in the maximum.
        return Range(arg_costs[0].min, (arg_costs[0] + arg_costs[1]).max), None
    if overload == "conditional":
        return arg_costs[0] + (arg_costs[1] | arg_costs[2]), _size(args[1]) | _size(args[2])
    cost, size = _standard(overload, target, args) or (ONE, None)
    return cost + sum(arg_costs, ZERO), size


def _size(node: Node) -> Range:
    return UNKNOWN if node.size is None else node.size


# cel-go's extensions

_LIST_RESULT = Range(11, 11)
"""1 for the call, 10 for creating the list."""


def _collections(overload: str, target: Node | None, args: Sequence[Node]) -> _Estimate | None:
    """Cost of the overloads of the list and set libraries; None for other overloads."""
    if overload.startswith("list_sets_"):
        both = _size(args[0]) * _size(args[1])
        return both.times(2 if overload == "list_sets_equivalent_list" else 1) + ONE, None
    factor = 1.0
    if overload == "lists_range":
        size = Range.of(_constant(args[0], LARGEST))
    elif target is None:
        return None
    elif overload == "list_slice":
        # If the end is before the start, this wraps around.
        size = Range.of(_constant(args[1], _size(target).max) - _constant(args[0], 0) & LARGEST)
    elif overload in ("list_reverse", "list_flatten"):
        size = _size(target)
    elif overload == "list_flatten_int":
        size, factor = _size(target), float(_constant(args[0], LARGEST))
    elif overload == "list_distinct":
        size, factor = _size(target) * _size(target), 2.0
    elif overload.endswith(("_sort", "_sortByAssociatedKeys")):
        keys = _size(args[0] if args else target)
        size, factor = keys * keys, 2.0
        if overload.startswith(("list_string", "list_bytes")):
            factor += TRAVERSAL
    else:
        return None
    return size.times(factor) + _LIST_RESULT, size


def _constant(node: Node, unknown: int) -> int:
    """The value of an int literal, 0 if it is negative; `unknown` for any other expression."""
    if not isinstance(node.expr, Literal) or node.expr.kind != "int":
        return unknown
    assert isinstance(node.expr.value, int)
    return max(node.expr.value, 0)


# cel-go


def _standard(overload: str, target: Node | None, args: Sequence[Node]) -> _Estimate | None:
    """Cost of cel-go's standard overloads. None means the default cost of 1, which a method called as a function has too."""
    match overload, target, [_size(arg) for arg in args]:
        case "string_format", Node(), _:
            return _size(target).times(TRAVERSAL), None
        case "string_to_bytes", _, [size]:
            # At most four bytes a character. Overflow wraps around, here and below, as upstream.
            return size.times(TRAVERSAL), Range(size.min, size.max * 4 & LARGEST)
        case "bytes_to_string", _, [size]:
            return size.times(TRAVERSAL), Range(size.min // 4, size.max)
        case "strings_quote", _, [size]:
            return size.times(TRAVERSAL), Range(size.min + 2 & LARGEST, size.max * 2 + 2 & LARGEST)
        case "starts_with_string" | "ends_with_string", _, [size]:
            return size.times(TRAVERSAL), None
        case "in_list", _, [_, size]:
            return size.times(1), None
        case "matches_string", Node(), [pattern]:
            return _matching(_size(target), pattern), None
        case "contains_string", Node(), [part]:
            return _size(target).times(TRAVERSAL) * part.times(TRAVERSAL), None
        case "add_list", _, [left, right]:
            return ONE, left + right
        case "add_string" | "add_bytes", _, [left, right]:
            return (left + right).times(TRAVERSAL), left + right
        case (("equals" | "not_equals"), _, [left, right]):
            return _comparison(left, right), None
        case _, _, [left, right] if overload in _ORDER:
            return _comparison(left, right), None
        case _:
            return None


_ORDER = frozenset(
    f"{order}_{type_}" for order in ("less", "less_equals", "greater", "greater_equals") for type_ in ("string", "bytes")
)


def _matching(text: Range, pattern: Range) -> Range:
    # One character is added so that matching an empty text costs something too.
    return (text + ONE).times(TRAVERSAL) * pattern.times(REGEXP)


def _comparison(left: Range, right: Range) -> Range:
    """Cost of comparing up to the length of the shorter one."""
    most = min(left.max, right.max)
    return Range(min(most, 1), most).times(TRAVERSAL)


# Kubernetes

_NOMINAL = frozenset(
    (
        *("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason", "error"),
        *("errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast"),
        *("isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger", "asApproximateFloat"),
        *("isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch", "getScheme", "getHostname"),
        *("getHost", "getPort", "getEscapedPath", "getQuery"),
    )
)
# Functions that parse their first argument, traversing it once.
_READING = frozenset({"cidr", "ip", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"})
# Objects whose comparison costs one step.
_SIMPLE_OBJECTS = frozenset(
    (
        *("kubernetes.Quantity", "kubernetes.Semver", "kubernetes.authorization.Authorizer"),
        *("kubernetes.authorization.PathCheck", "kubernetes.authorization.GroupCheck"),
        *("kubernetes.authorization.ResourceCheck", "kubernetes.authorization.Decision"),
    )
)


def _kubernetes(function: str, overload: str, target: Node | None, args: Sequence[Node], sizes: Sizes) -> _Estimate | None:
    """Cost by function name, whatever the overload; None for functions that Kubernetes' estimator does not know."""
    if function in _NOMINAL or overload == "cidr_ip":
        return ONE, None
    if function == "check":
        return Range.of(AUTHORIZATION_CHECK), None
    if function == "_==_":
        return _equality(args[0], args[1])
    if target is not None and (of_target := _ON_TARGET.get(function)):
        return of_target(target, args, sizes)
    if not args:
        return None
    size = _size(args[0])
    if function in _READING:
        return size.times(TRAVERSAL), None
    match function:
        case "url" | "jsonpatch.escapeKey" if len(args) == 1:
            return size.times(TRAVERSAL), size
        case "ip.isCanonical":
            return size.times(2 * TRAVERSAL), None
        case "fieldSelector" | "labelSelector" if len(args) == 1:
            requirements = size.times(_REQUIREMENTS_PER_CHARACTER).times(_REQUIREMENT)
            return _SELECTOR + size.times(TRAVERSAL) + requirements, None
        case "containsIP":
            cost = (_ADDRESS + _ADDRESS).times(TRAVERSAL)
            return cost + (size.times(TRAVERSAL) if overload == "cidr_contains_ip_string" else ZERO), None
        case "containsCIDR":
            cost = (_ADDRESS + _ADDRESS).times(TRAVERSAL) + _ADDRESS.times(TRAVERSAL) + ONE
            return cost + (size.times(TRAVERSAL) if overload == "cidr_contains_cidr_string" else ZERO), None
        case "validate":
            return size.times(TRAVERSAL).times(_LONGEST_FORMAT_PATTERN * REGEXP), None
        case _:
            return None


def _equality(left: Node, right: Node) -> _Estimate | None:
    if left.type.name != right.type.name:
        return None
    name = left.type.name
    if left.type.kind is Kind.OPAQUE:
        return (ONE, None) if name in ("net.IP", "net.CIDR") else None
    if left.type.kind is not Kind.OBJECT:
        return None
    if name in _SIMPLE_OBJECTS:
        return ONE, None
    if name == "kubernetes.NamedFormat":
        return Range(1, _LONGEST_FORMAT).times(TRAVERSAL), None
    if name == "kubernetes.URL":
        return Range(1, 1 if right.size is None else right.size.max).times(TRAVERSAL), None
    return None


def _element(node: Node, sizes: Sizes) -> tuple[Type, Range] | None:
    """The type and size of a list's elements; None if it is not a list."""
    if not node.type.parameters:
        return None
    known = sizes((*node.path, "@items") if node.path else ())
    return node.type.parameters[0], UNKNOWN if known is None else known


def _comparing(target: Node, args: Sequence[Node], sizes: Sizes) -> _Estimate:
    """Cost of comparing each element; for strings and bytes each character counts too."""
    element = _element(target, sizes)
    if element is None:
        return _size(target).times(TRAVERSAL), None
    type_, size = element
    each = ONE + size.times(TRAVERSAL) if type_.kind in (Kind.STRING, Kind.BYTES) else ONE
    return _size(target) * each, None


def _copying(target: Node, args: Sequence[Node], sizes: Sizes) -> _Estimate:
    size = _size(target)
    return size.times(TRAVERSAL), size


def _replacing(target: Node, args: Sequence[Node], sizes: Sizes) -> _Estimate | None:
    if len(args) < 2:
        return None
    size, old, new = _size(target), _size(args[0]), _size(args[1])
    # The longest result: as many matches of the shortest `old` as possible, each replaced by the longest `new`.
    count_max = kept_max = 0
    if old.min == 0:
        # An empty string matches around each character.
        count_max, kept_max = min(size.max + 1, LARGEST), size.max
    elif new.max <= old.min:
        kept_max = size.max
    else:
        count_max = _pieces(size.max, old.min)
    # The shortest result: as few matches of the longest `old` as possible, each replaced by the shortest `new`.
    count_min = kept_min = 0
    if old.max == 0:
        count_min, kept_min = min(size.min + 1, LARGEST), size.min
    elif old.max <= new.min:
        kept_min = size.min
    else:
        count_min = _pieces(size.min, old.max)
    result = Range(count_min, count_max) * new + Range(kept_min, kept_max)
    return size.times(2 * TRAVERSAL), result


def _pieces(size: int, each: int) -> int:
    # Upstream computes this in floating point; on amd64 a result beyond 64 bits converts to 2**63.
    count = math.ceil(float(size) / float(each))
    return count if count <= LARGEST else 2**63


def _splitting(target: Node, args: Sequence[Node], sizes: Sizes) -> _Estimate:
    size = _size(target)
    most = size.max
    if len(args) > 1 and isinstance(limit := args[1].expr, Literal) and limit.kind == "int":
        assert isinstance(limit.value, int)
        most = limit.value & LARGEST
    return size.times(2 * TRAVERSAL), Range(0, most)


def _joining(target: Node, args: Sequence[Node], sizes: Sizes) -> _Estimate:
    count = _size(target)
    element = _element(target, sizes)
    size = count * element[1] if element else ZERO
    if args:
        size += _size(args[0]) * Range(max(count.min - 1, 0), max(count.max - 1, 0))
    return size.times(TRAVERSAL), size


def _finding(target: Node, args: Sequence[Node], sizes: Sizes) -> _Estimate | None:
    if not args:
        return None
    size = _size(target)
    return _matching(size, _size(args[0])), Range(0, size.max)


_ON_TARGET: dict[str, Callable[[Node, Sequence[Node], Sizes], _Estimate | None]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _comparing),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _copying),
    "replace": _replacing,
    "split": _splitting,
    "join": _joining,
    "find": _finding,
    "findAll": _finding,
}
