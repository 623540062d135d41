"""Checks of literals beyond their types: errors that can be found before the expression runs.

These are durations, timestamps and patterns that don't parse, lists and maps whose elements are of different types, and formats
that don't fit their arguments. The checker calls `check_literals` if it found no type errors.
Source: cel-go cel/validator.go and ext/formatting.go (stringFormatValidator), v0.26.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aggserver.cel.ast import Call, Expr, List, Literal, Map, children, walk
from aggserver.cel.conversions import to_duration, to_timestamp
from aggserver.cel.errors import Errors
from aggserver.cel.types import Kind, Type
from aggserver.cel.values import CELError
from aggserver.meta.regexp import PatternError, matcher

__all__ = ["check_literals"]

# Function -> parser of its first argument. (For the function `matches` that is not the pattern, but upstream checks it too.)
_PARSERS: dict[str, Callable[[Any], object]] = {"duration": to_duration, "timestamp": to_timestamp, "matches": matcher}
_CHECKED_FUNCTIONS = frozenset({"format", *_PARSERS})
# A tuple, since `List | Map` would be created anew for each node.
_AGGREGATES = (List, Map)
# Lists and maps in the arguments of these functions may mix types.
_MIXED_ARGUMENTS = frozenset({"format"})


def check_literals(expr: Expr, types: Mapping[int, Type], errors: Errors) -> None:
    for literal in _aggregates(expr):
        pairs = _list_pairs(literal, types) if isinstance(literal, List) else _map_pairs(literal, types)
        for place, expected, found in pairs:
            errors.add(place.offset, f"expected type '{expected}' but found '{found}'")
    calls = [each for each in walk(expr) if isinstance(each, Call) and each.function in _CHECKED_FUNCTIONS and each.args]
    for function, read in _PARSERS.items():
        for call in calls:
            argument = call.args[0]
            if call.function == function and isinstance(argument, Literal) and not _parses(read, argument.value):
                errors.add(argument.offset, f"invalid {function} argument")
    for call in calls:
        if call.function == "format" and isinstance(call.target, Literal) and isinstance(call.args[0], List):
            try:
                _check_format(str(call.target.value), call.args[0].elements, types)
            except _Misfit as error:
                errors.add(error.place.offset if error.place else call.offset, str(error))


def _parses(read: Callable[[Any], object], value: object) -> bool:
    try:
        read(value)
    except (CELError, PatternError):
        return False
    return True


def _aggregates(expr: Expr) -> Iterator[List | Map]:
    """The list and map literals whose elements must all have one type."""
    waiting = [expr]
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, Call) and expr.function in _MIXED_ARGUMENTS:
            continue
        if isinstance(expr, _AGGREGATES):
            yield expr
        waiting.extend(reversed(children(expr)))


def _list_pairs(literal: List, types: Mapping[int, Type]) -> Iterator[tuple[Expr, Type, Type]]:
    """The first element whose type differs from that of element 0, with both types."""
    first: Type | None = None
    for index, element in enumerate(literal.elements):
        type_ = _given(types[element.id], index in literal.optional_indices)
        first = first or type_
        if type_ != first:
            yield element, first, type_
            return


def _map_pairs(literal: Map, types: Mapping[int, Type]) -> Iterator[tuple[Expr, Type, Type]]:
    """Keys and values whose types differ from those of the first entry, with both types."""
    first: tuple[Type, Type] | None = None
    for entry in literal.entries:
        key, value = types[entry.key.id], _given(types[entry.value.id], entry.optional)
        first = first or (key, value)
        if key != first[0]:
            yield entry.key, first[0], key
        if value != first[1]:
            yield entry.value, first[1], value


def _given(type_: Type, optional: bool) -> Type:
    return type_.element if optional and type_.is_optional else type_


# Formats

_INTEGERS = frozenset({Kind.INT, Kind.UINT})
_FLOATS = frozenset({Kind.DOUBLE, Kind.STRING})
_SHOWN = frozenset(set(Kind) - {Kind.OBJECT, Kind.OPAQUE, Kind.ERROR, Kind.PARAM})
# Clause -> the kinds it accepts, and the error for any other.
_CLAUSES = {
    "s": (
        _SHOWN,
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
    ),
    "d": (_INTEGERS, "decimal clause can only be used on integers"),
    "f": (_FLOATS, "fixed-point clause can only be used on doubles"),
    "e": (_FLOATS, "scientific clause can only be used on doubles"),
    "b": (_INTEGERS | {Kind.BOOL}, "only integers and bools can be formatted as binary"),
    "x": (_INTEGERS | {Kind.STRING, Kind.BYTES}, "only integers, byte buffers, and strings can be formatted as hex"),
    "o": (_INTEGERS, "octal clause can only be used on integers"),
}
_CLAUSES["X"] = _CLAUSES["x"]
_DIGITS = "0123456789"
# The largest precision: Go's int.
_INT64_MAX = 2**63 - 1


class _Misfit(Exception):
    """A format that does not fit. place: the argument that is wrong; None for the format itself."""

    def __init__(self, message: str, place: Expr | None = None) -> None:
        super().__init__(message)
        self.place = place


def _check_format(text: str, args: Sequence[Expr], types: Mapping[int, Type]) -> None:
    """Check each clause of a format against its argument. Raises _Misfit."""
    used = 0
    position = 0
    while (position := text.find("%", position)) >= 0:
        position += 1
        if text[position : position + 1] == "%":
            position += 1
            continue
        if position == len(text):
            raise _Misfit("unexpected end of string")
        if used >= len(args):
            raise _Misfit(f"index {used} out of range")
        position = _precision_end(text, position)
        clause = text[position]
        if clause not in _CLAUSES:
            # Go prints the first byte as a character.
            raise _Misfit(f'could not parse formatting clause: unrecognized formatting clause "{chr(clause.encode()[0])}"')
        allowed, complaint = _CLAUSES[clause]
        if unfit := _unfit(args[used], allowed, types, nested=clause == "s"):
            type_ = types[unfit.id]
            raise _Misfit(f"error during formatting: {complaint}, was given {type_.runtime_name or type_.name}", unfit)
        position += 1
        used += 1
    if len(args) > used:
        raise _Misfit(f"too many arguments supplied to string.format (expected {used}, got {len(args)})")


def _precision_end(text: str, position: int) -> int:
    """The position of the clause's letter, after a precision like `.2`."""
    if text[position] != ".":
        return position
    start = end = position + 1
    while text[end : end + 1] and text[end] in _DIGITS:
        end += 1
    problem = ""
    if end == len(text):
        problem = "could not find end of precision specifier"
    elif end == start:
        problem = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    elif len(digits := text[start:end].lstrip("0")) > len(str(_INT64_MAX)) or int(digits or "0") > _INT64_MAX:
        problem = f'error while converting precision to integer: strconv.Atoi: parsing "{text[start:end]}": value out of range'
    if problem:
        raise _Misfit(f"could not parse formatting clause: error while parsing precision: {problem}")
    return end


def _unfit(expr: Expr, allowed: frozenset[Kind], types: Mapping[int, Type], nested: bool) -> Expr | None:
    """The expression, or if `nested` a part of its literal, that a clause does not accept; dyn is always accepted."""
    type_ = types[expr.id]
    if not type_.is_dyn and type_.kind not in allowed:
        return expr
    if nested and isinstance(expr, _AGGREGATES):
        for part in children(expr):
            if unfit := _unfit(part, allowed, types, nested):
                return unfit
    return None
