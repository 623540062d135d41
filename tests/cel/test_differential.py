"""The same expressions here and in cel-cpp (cel-expr-python): accepted or refused, in which words, and the value.

What the two don't share is left out by the vocabulary: cross-type comparisons, optional values, macros of two variables and
Kubernetes' libraries. Errors of evaluation have other words there, so that only their being is compared.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from cel_expr_python import cel
from hypothesis import given
from hypothesis import strategies as st

from aggserver.cel.checker import Environment, check
from aggserver.cel.declarations import Overload, functions
from aggserver.cel.errors import CompileError
from aggserver.cel.program import ProgramError, compile_program
from aggserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Kind,
    Type,
    list_of,
    map_of,
)
from aggserver.cel.values import CELError, Duration, Timestamp, TypeValue, Uint
from tests.cel.expressions import LEAVES, Expressions, mutated

_TYPES = {
    "s": (STRING, cel.Type.STRING),
    "i": (INT, cel.Type.INT),
    "u": (UINT, cel.Type.UINT),
    "f": (DOUBLE, cel.Type.DOUBLE),
    "b": (BOOL, cel.Type.BOOL),
    "by": (BYTES, cel.Type.BYTES),
    "t": (TIMESTAMP, cel.Type.TIMESTAMP),
    "du": (DURATION, cel.Type.DURATION),
    "l": (list_of(STRING), cel.Type.List(cel.Type.STRING)),
    "li": (list_of(INT), cel.Type.List(cel.Type.INT)),
    "m": (map_of(STRING, INT), cel.Type.Map(cel.Type.STRING, cel.Type.INT)),
    "d": (DYN, cel.Type.DYN),
}
_MOMENT = datetime.datetime(2024, 2, 29, 12, 34, 56, 789000, datetime.UTC)
_VALUES: dict[str, Any] = {
    **{"s": "héllo wörld", "i": 3, "u": 4, "f": 2.5, "b": True, "by": b"b\xfftes", "t": _MOMENT},
    **{"du": datetime.timedelta(seconds=90.5), "l": ["a", "bb", "ccc"], "li": [3, 1, 2], "m": {"x": 1}},
    "d": {"k": 1, "l": [1, "two", 3.0], "s": "text"},
}
_THEIRS = cel.NewEnv(variables={name: theirs for name, (_, theirs) in _TYPES.items()})
_OURS = Environment({name: ours for name, (ours, _) in _TYPES.items()})
_VARIABLES = {
    **_VALUES,
    "u": Uint(4),
    "t": Timestamp(int(_MOMENT.timestamp() * 1000) * 10**6),
    "du": Duration(90_500_000_000),
}

# What cel-cpp has with Kubernetes' types.
_FUNCTIONS = (
    *("_?_:_", "_&&_", "_||_", "!_", "_==_", "_!=_", "_+_", "_-_", "_*_", "_/_", "_%_", "-_", "@in", "_[_]", "_<_", "_<=_", "_>_"),
    *("_>=_", "size", "contains", "startsWith", "endsWith", "int", "uint", "double", "bool", "bytes", "dyn", "type", "getDate"),
    *("getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth"),
    *("getSeconds", "duration", "timestamp", "string", "matches"),
)


def _is_shared(overload: Overload) -> bool:
    kinds = {arg.kind for arg in overload.args}
    return not any(arg.is_optional for arg in overload.args) and overload.id not in _OTHERWISE and not _is_mixed(overload.id, kinds)


def _is_mixed(overload: str, kinds: set[Kind]) -> bool:
    return overload.startswith(("less", "greater")) and len(kinds) > 1


# Overloads that cel-cpp has not, or whose values differ by design.
_OTHERWISE = frozenset(
    (
        "double_to_string",
        "duration_to_string",
        "duration_to_int64",
        "int64_to_duration",
        "timestamp_to_timestamp",
        "bytes_to_string",
    )
)
_OVERLOADS: Mapping[str, Sequence[Overload]] = {name: [each for each in functions()[name] if _is_shared(each)] for name in _FUNCTIONS}
_NAMES = {*_TYPES, "d.k", "d.l", "d.s", "d.missing", "m['x']", "l[0]", "dyn(1)", "dyn('a')", "dyn([1])"}
_LEAVES: Mapping[Type, Sequence[str]] = {
    type_: found
    for type_, leaves in LEAVES.items()
    if (found := [leaf for leaf in leaves if leaf in _NAMES or (leaf[0] in "0123456789'-b[{tf" and leaf not in LEAVES[DYN])])
    and type_.kind not in (Kind.OPAQUE, Kind.OBJECT, Kind.TYPE, Kind.NULL)
}


def _expressions(random: Random, wrong: float) -> str:
    made = Expressions(random, leaves=_LEAVES, overloads=_OVERLOADS, macros=("one",), fields=("d.k", "d.missing", "m.x"), wrong=wrong)
    return made.expression(random.randint(1, 3))


def _plain(value: Any) -> Any:
    match value:
        case bool() | None | str():
            return value
        case Uint() | int():
            return int(value)
        case float():
            return "NaN" if math.isnan(value) else value
        case bytes() | bytearray():
            return bytes(value)
        case list():
            return list(map(_plain, value))
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case Timestamp() | Duration():
            return value.nanoseconds // 1000
        case datetime.datetime():
            return (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
        case datetime.timedelta():
            return value // datetime.timedelta(microseconds=1)
        case TypeValue():
            return "type"
        case cel.Type():
            return "type"
    raise AssertionError(type(value))


_FAILS = "fails"


def _ours(source: str) -> Any:
    try:
        run = compile_program(check(source, _OURS))
    except CompileError as error:
        return str(error)
    except ProgramError:
        return _FAILS
    try:
        return [_plain(run(_VARIABLES, 10**6)[0])]
    except CELError:
        return _FAILS


def _theirs(source: str) -> Any:
    try:
        compiled = _THEIRS.compile(source)
    except RuntimeError as error:
        return str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    value = compiled.eval(data=_VALUES)
    return _FAILS if value.type() == cel.Type.ERROR else [_plain(value.plain_value())]


@given(st.randoms(use_true_random=False))
def test_expressions_mean_what_they_mean_elsewhere(random: Random) -> None:
    source = _expressions(random, 0.03)
    assert _ours(source) == _theirs(source), source
