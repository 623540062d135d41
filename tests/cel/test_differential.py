"""The same expressions here and in cel-cpp (cel-expr-python): accepted or refused, in which words, and the value.

What the two don't share is left out by the vocabulary: cross-type comparisons, optional values, macros of two variables and
Kubernetes' libraries. Errors of evaluation have other words there, so that only their being is compared.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

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
    "s": "héllo wörld",
    "i": 3,
    "u": 4,
    "f": 2.5,
    "b": True,
    "by": b"b\xfftes",
    "t": _MOMENT,
    "du": datetime.timedelta(seconds=90),
    "l": ["a", "bb", "ccc"],
    "li": [3, 1, 2],
    "m": {"x": 1},
    "d": {"k": 1, "l": [1, "two", 3.0], "s": "text"},
}
_THEIRS = cel.NewEnv(variables={name: theirs for name, (_, theirs) in _TYPES.items()})
_OURS = Environment({name: ours for name, (ours, _) in _TYPES.items()})
_VARIABLES = {
    **_VALUES,
    "u": Uint(4),
    "t": Timestamp(int(_MOMENT.timestamp() * 1000) * 10**6),
    "du": Duration(90 * 10**9),
}

# What cel-cpp has with Kubernetes' types.
_FUNCTIONS = (
    *(
        "_?_:_",
        "_&&_",
        "_||_",
        "!_",
        "_==_",
        "_!=_",
        "_+_",
        "_-_",
        "_*_",
        "_/_",
        "_%_",
        "-_",
        "@in",
        "_[_]",
        "_<_",
        "_<=_",
        "_>_",
    ),
    *("_>=_", "size", "contains", "startsWith", "endsWith", "int", "uint", "double", "bool", "bytes", "type", "getDate"),
    *("getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth"),
    *("getSeconds", "duration", "timestamp", "string", "matches"),
)


def _is_shared(overload: Overload) -> bool:
    kinds = {arg.kind for arg in overload.args}
    return (
        not any(arg.is_optional for arg in overload.args) and overload.id not in _OTHERWISE and not _is_mixed(overload.id, kinds)
    )


def _is_mixed(overload: str, kinds: set[Kind]) -> bool:
    return overload.startswith(("less", "greater")) and len(kinds) > 1


# Overloads that cel-cpp has not, or whose values differ by design.
_OTHERWISE = frozenset(
    (
        "divide_double",
        "double_to_string",
        "timestamp_to_string",
        "duration_to_string",
        "duration_to_int64",
        "duration_to_milliseconds",
        "int64_to_duration",
        "timestamp_to_timestamp",
        "bytes_to_string",
    )
)
_OVERLOADS: Mapping[str, Sequence[Overload]] = {
    name: [each for each in functions()[name] if _is_shared(each)] for name in _FUNCTIONS
}
_NAMES = {*_TYPES, "d.k", "d.l", "d.s", "d.missing", "m['x']", "l[0]"}
_LEAVES: Mapping[Type, Sequence[str]] = {
    type_: found
    for type_, leaves in LEAVES.items()
    if (
        found := [
            leaf
            for leaf in leaves
            if leaf in _NAMES or (leaf[0] in "0123456789'-b[{tf" and "/ 0.0" not in leaf and ".5Z" not in leaf)
        ]
    )
    and type_.kind not in (Kind.OPAQUE, Kind.OBJECT, Kind.TYPE, Kind.NULL)
}


def _expressions(random: Random, wrong: float) -> str:
    made = Expressions(
        random, leaves=_LEAVES, overloads=_OVERLOADS, macros=("one",), fields=("d.k", "d.missing", "m.x"), wrong=wrong
    )
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


_RANDOMS = st.integers(0, 2**64).map(Random)
_FAILS = "fails"
# Where nothing can be in, cel-go doesn't look for what; what type is in nothing, the two guess differently; and a duration is a
# number in cel-go.
_OTHERWISE_READ = re.compile(r"in \[\]|\(\[\]\)\[|\(\{\}\)\[|int\(du")
# Conversions of constants are done before there is anything to run.
_NO_PROGRAM = "no program"
# cel-cpp's words for what cel-go says otherwise. Which types it knows, after a mistake or of what is empty, differs: only that no
# overload matches is compared.
_WORDS = (
    (re.compile(r"google\.protobuf\.(Duration|Timestamp)"), lambda found: found[1].lower()),
    (re.compile("cannot be the range of"), lambda found: "cannot be range of"),
)
_ERROR = re.compile("^ERROR: (.*?)(?: applied to .*)?$", re.MULTILINE)
# What only Kubernetes' environment refuses, with cel-go's validators of literals; and what only cel-cpp does.
_OURS_ALONE = re.compile("expected type '.*' but found '.*'|invalid (duration|timestamp|matches) argument")
_THEIRS_ALONE = re.compile("type 'dyn' cannot be range of a comprehension|for '_[<>]=?_' applied|duplicate key in map")


def _ours(source: str) -> Any:
    try:
        run = compile_program(check(source, _OURS))
    except CompileError as error:
        return str(error)
    except ProgramError:
        return _NO_PROGRAM
    try:
        return [_plain(run(_VARIABLES, 10**6)[0])]
    except CELError:
        return _FAILS


def _theirs(source: str) -> Any:
    try:
        compiled = _THEIRS.compile(source)
    except RuntimeError as error:
        text = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        for theirs, ours in _WORDS:
            text = theirs.sub(ours, text)
        return text
    try:
        value = compiled.eval(data=_VALUES)
    except RuntimeError as error:
        return str(error)
    return _FAILS if value.type() == cel.Type.ERROR else [_plain(value.plain_value())]


@given(_RANDOMS)
def test_expressions_mean_what_they_mean_elsewhere(random: Random) -> None:
    _compare(_expressions(random, 0.03))


def _compare(source: str) -> None:
    ours, theirs = _ours(source), _theirs(source)
    alone = (
        ours == _NO_PROGRAM,
        _OTHERWISE_READ.search(source),
        _OURS_ALONE.search(str(ours)),
        _THEIRS_ALONE.search(str(theirs)),
    )
    if any(alone):
        return
    if "ERROR" in ours and "ERROR" in theirs:
        # Which errors follow from others, the two see differently.
        assert set(_ERROR.findall(ours)) & set(_ERROR.findall(theirs)), source
    else:
        assert ours == theirs, source


@given(_RANDOMS)
def test_what_is_no_expression_is_none_elsewhere(random: Random) -> None:
    source = mutated(random, _expressions(random, 0))
    try:
        check(source, _OURS)
    except CompileError as error:
        ours = str(error)
    else:
        return
    assert "Syntax error" not in ours or "ERROR" in _theirs(source), source
