"""Dispatches a call to the implementation of the overload that fits the values.

The checker has left one overload, or several where types are dyn. Even a single one may not fit, since a value can be null or
of an unknown type; so the types of the values decide, as cel-go's guards do.
Source: cel-go common/decls/decls.go, v0.26.0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from aggserver.cel.declarations import Overload, functions, patch_functions
from aggserver.cel.library import (
    authz,
    cidr,
    ip,
    jsonpatch,
    lists,
    named_format,
    optional,
    quantity,
    regex,
    semver,
    sets,
    standard,
    strings,
    url,
)
from aggserver.cel.types import Kind, Type
from aggserver.cel.values import Duration, EvaluationError, Invalid, Timestamp, TypeValue, Uint, type_name

__all__ = ["caller"]

_IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    overload: implementation
    for library in (
        authz,
        cidr,
        ip,
        jsonpatch,
        lists,
        named_format,
        optional,
        quantity,
        regex,
        semver,
        sets,
        standard,
        strings,
        url,
    )
    for overload, implementation in library.IMPLEMENTATIONS.items()
}
# Functions that check their arguments themselves, and have their own error messages.
_UNGUARDED = frozenset(("size", "matches", "flatten", "sort", "@sortByAssociatedKeys"))
# Functions that cel-go's error does not name.
_WORDLESS = frozenset(("contains", "startsWith", "endsWith"))

_EXACT: Mapping[Kind, type] = {
    Kind.NULL: type(None),
    Kind.BOOL: bool,
    Kind.INT: int,
    Kind.UINT: Uint,
    Kind.DOUBLE: float,
    Kind.STRING: str,
    Kind.BYTES: bytes,
    Kind.TIMESTAMP: Timestamp,
    Kind.DURATION: Duration,
    Kind.TYPE: TypeValue,
}


@functools.cache
def caller(function: str, overloads: tuple[str, ...]) -> Callable[..., Any]:
    """The function that dispatches calls of `function` among the overloads left by the checker. It raises EvaluationError."""
    known = functions().get(function) or patch_functions()[function]
    declared = [each for each in known if each.id in overloads and each.id in _IMPLEMENTATIONS]
    if function in _UNGUARDED and declared:
        return _IMPLEMENTATIONS[declared[0].id]
    by_types = {
        tuple(_EXACT[arg.kind] for arg in each.args): _IMPLEMENTATIONS[each.id]
        for each in reversed(declared)
        if all(arg.kind in _EXACT for arg in each.args)
    }

    def call(*arguments: Any) -> Any:
        types = tuple(map(type, arguments))
        found = by_types.get(types)
        if found is not None:
            return found(*arguments)
        is_by_types = True
        for each in declared:
            # The choice can be cached by types alone, unless a list's or map's elements had to be looked at for this overload
            # or one before it.
            is_by_types = is_by_types and not any(arg.kind in (Kind.LIST, Kind.MAP) for arg in each.args)
            if _fits(each, arguments):
                found = _IMPLEMENTATIONS[each.id]
                if is_by_types:
                    by_types[types] = found
                return found(*arguments)
        for argument in arguments:
            if isinstance(argument, Invalid):
                raise EvaluationError(argument.message)
        if function in _WORDLESS:
            raise EvaluationError("no such overload")
        raise EvaluationError(f"no such overload: {function}({', '.join(map(type_name, arguments))})")

    return call


def _fits(overload: Overload, arguments: tuple[Any, ...]) -> bool:
    return len(overload.args) == len(arguments) and all(map(_is_of, arguments, overload.args))


def _is_of(value: Any, wanted: Type) -> bool:
    """Whether the value is of the type. Only the first element of a list or map is checked."""
    exact = _EXACT.get(wanted.kind)
    if exact is not None:
        return type(value) is exact
    if wanted.kind is Kind.LIST:
        return isinstance(value, list) and (not value or _is_of(value[0], wanted.element))
    if wanted.kind is Kind.MAP:
        return isinstance(value, dict) and all(
            _is_of(key, wanted.parameters[0]) and _is_of(item, wanted.element) for key, item in list(value.items())[:1]
        )
    return wanted.kind in (Kind.DYN, Kind.PARAM) or type_name(value) == wanted.name
