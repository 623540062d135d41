"""Programs: values, errors and costs by a table that upstream has judged; then what only this implementation has to care for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggserver.cel import times
from aggserver.cel.checker import Environment, check
from aggserver.cel.objects import OnAccess
from aggserver.cel.program import Program, ProgramError, compile_program
from aggserver.cel.types import BOOL, DYN, INT, STRING, Type, list_of, map_of, object_type, optional_of
from aggserver.cel.values import (
    CELError,
    CostExceeded,
    Duration,
    EvaluationError,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    type_name,
)
from aggserver.meta.golang import quote
from tests.cel.environment import ENVIRONMENT, VALUES

BUDGET = 1_000_000
SELF = {
    "s": "abc",
    "i": 3,
    "l": [1, 2, 3],
    "m": {"a": 1, "b": {"c": 2}},
    "e": "",
    "items": ["aa", "bb", "cc"],
    "n": None,
    "f": 1.5,
    "big": "x" * 57,
    "objs": [{"n": 1, "v": "a"}, {"n": 2}, {"v": "q"}],
    "t": True,
}
TABLES = Path(__file__).parents[1] / "cases" / "cel"
TABLE = yaml.safe_load((TABLES / "values.yaml").read_text())
TYPED = yaml.safe_load((TABLES / "typed.yaml").read_text())


def written(value: Any) -> str:
    """As cel-go's types.Format."""
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case Uint():
            return f"{int(value)}u"
        case float() if not math.isfinite(value):
            return f'double("{"NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}")'
        case float():
            digits = format(Decimal(repr(value)), "f")
            return digits if "." in digits else f"{digits}.0"
        case str():
            return quote(value)
        case bytes():
            return 'b"' + "".join(f"\\{byte:03o}" for byte in value) + '"'
        case list():
            return f"[{', '.join(map(written, value))}]"
        case dict():
            return "{" + ", ".join(sorted(f"{written(key)}: {written(item)}" for key, item in value.items())) + "}"
        case Timestamp():
            return f'timestamp("{times.print_timestamp(Timestamp(value.nanoseconds))}")'
        case Duration():
            return f'duration("{times.print_duration(value)}")'
        case Optional():
            return f"optional.of({written(value.value)})" if value.present else "optional.none()"
        case TypeValue():
            return value.name
        case _:
            return str(value)


def program(source: str, **variables: Type) -> Program:
    return compile_program(check(source, Environment(variables or {"self": DYN})))


def outcome(run: Callable[[], tuple[Any, int]]) -> tuple[str, int]:
    try:
        value, cost = run()
    except CELError as error:
        return f"error: {error}", error.cost
    return f"{type_name(value)} {written(value)}", cost


def named(table: dict[str, list[list[Any]]]) -> list[Any]:
    return [pytest.param(*case, id=f"{area}: {case[0]}") for area, cases in table.items() for case in cases]


@pytest.mark.parametrize(("source", "expected", "cost"), named(TABLE))
def test_as_upstream(source: str, expected: str, cost: int) -> None:
    assert outcome(lambda: program(source)({"self": SELF}, BUDGET)) == (expected, cost)


@pytest.mark.parametrize(("source", "expected", "cost"), named(TYPED))
def test_as_upstream_where_types_are_known(source: str, expected: str, cost: int) -> None:
    run = compile_program(check(source, ENVIRONMENT))
    assert outcome(lambda: run(VALUES, BUDGET)) == (expected, cost)


@pytest.mark.parametrize("case", [case for cases in TABLE.values() for case in cases if case[2] > 0])
def test_the_budget_is_the_cost(case: list[Any]) -> None:
    source, expected, cost = case
    assert outcome(lambda: program(source)({"self": SELF}, cost))[0] == expected
    assert outcome(lambda: program(source)({"self": SELF}, cost - 1))[0] == f"error: {CostExceeded()}"


# What is known of constants is known at once.
NO_PROGRAMS = {
    "int('abc')": "type conversion error from 'string' to 'int'",
    "uint(-1)": "unsigned integer overflow",
    "double('x')": "type conversion error from 'string' to 'double'",
    "self.m[null]": "invalid qualifier type: types.Null",
    "self.m[duration('1s')]": "invalid qualifier type: types.Duration",
    "self.m[?b'a']": "invalid qualifier type: types.Bytes",
    "self.m[[1]]": "invalid qualifier type: *types.baseList",
    "int(9223372036854775807.0)": "integer overflow",
    "self.s.find('(')": "error parsing regexp: missing closing ): `(`",
}


@pytest.mark.parametrize("source", NO_PROGRAMS)
def test_no_program(source: str) -> None:
    with pytest.raises(ProgramError) as error:
        program(source)
    assert str(error.value) == NO_PROGRAMS[source]


class Types:
    """An object with fields, one of which holds others."""

    fields_of: Mapping[str, Mapping[str, Type]] = {
        "Root": {
            "name": STRING,
            "kind__": INT,
            "nested": object_type("Nested"),
            "list": list_of(object_type("Nested")),
            "map": map_of(STRING, INT),
        },
        "Nested": {"size": replace(INT, origin="a text"), "label": STRING},
    }

    def fields(self, type_name: str) -> Mapping[str, Type] | None:
        return self.fields_of.get(type_name)


class Objects:
    """Kept under other keys; sizes are texts."""

    def field(self, type_: Type, name: str) -> tuple[str, Type]:
        return name.replace("__", "-"), Types.fields_of[type_.name][name]

    def on_access(self, type_: Type) -> OnAccess | None:
        return OnAccess(int, self._size) if type_.origin == "a text" else None

    def deep_conversion(self, type_: Type) -> Callable[[Any], Any] | None:
        return Whole if type_ == object_type("Nested") else None

    @staticmethod
    def _size(value: Any) -> int:
        if not isinstance(value, str):
            raise EvaluationError("a size is a text")
        return int(value)


class Whole(dict[str, Any]):
    """Equal by their sizes."""

    def equals(self, other: object) -> bool:
        return isinstance(other, Whole) and self["size"] == other["size"]


OBJECT = {
    "name": "n",
    "kind-": 4,
    "nested": {"size": "5", "label": None},
    "list": [{"size": "1", "label": "x"}, {"size": 2.5}],
    "map": {"a": 1},
}
OBJECTS = {
    "a key of another name": ("self.kind__ == 4", "bool true", 3),
    "a value is made": ("self.nested.size + 1", "int 6", 4),
    "of an element": ("self.list[0].size", "int 1", 4),
    "in a macro": ("self.list.exists(e, e.label == 'x')", "bool true", 13),
    "an optional field": ("self.?nested.?size.orValue(0)", "int 5", 3),
    "an optional field that is null": ("self.nested.?label.orValue('none')", 'string "none"', 2),
    "null is absent": ("has(self.nested.label)", "bool false", 2),
    "there": ("has(self.nested.size)", "bool true", 2),
    "a test of an optional": ("has(self.?nested.label)", "bool false", 1),
    "null is no value": ("self.nested.label", "error: no such key: label", 3),
    "what can't be made": ("self.list[1].size", "error: a size is a text", 4),
    "as a whole": ("self.list[0] == self.nested || self.list[0] == self.list[0]", "bool true", 13),
    "an index of a map": ("self.map['a']", "int 1", 3),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects(name: str) -> None:
    source, expected, cost = OBJECTS[name]
    checked = check(source, Environment({"self": object_type("Root")}, Types()))
    run = compile_program(checked, Objects())
    assert outcome(lambda: run({"self": OBJECT}, BUDGET)) == (expected, cost)


VARIABLES = {
    "missing": ("other == 1", {}, "error: no such attribute(s): other"),
    "missing and not needed": ("self || other == 1", {"self": True}, "bool true"),
    "an optional of what is missing": ("old.?a.orValue(1) == 2", {"old": Optional({"a": 2})}, "bool true"),
    "an optional that holds nothing": ("old.hasValue()", {"old": Optional()}, "bool false"),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_variables(name: str) -> None:
    source, variables, expected = VARIABLES[name]
    run = program(source, self=BOOL, other=INT, old=optional_of(map_of(STRING, INT)))
    assert outcome(lambda: run(variables, BUDGET))[0] == expected


def nested(open_: str, inner: str, close: str, times: int) -> str:
    return open_ * times + inner + close * times


# So deep that neither Python's blocks nor its levels of indentation would do.
DEEP = {
    "conditionals": (nested("(t ? ", "1", " : 0)", 60), 1),
    "else": (nested("(!t ? 0 : ", "1", ")", 60), 1),
    "logic": (nested("(t && (", "t", " || l[0] == 1))", 40), True),
    "errors within errors": (nested("(1 / l[2] == 1 || (", "t", " && t))", 30), True),
    "loops": ("".join(f"l.all(x{number}, " for number in range(25)) + "x0 < 2" + ")" * 25, True),
    "loops over loops": (nested("[", "l", "].map(x, x)[0]", 40), [0]),
    "optional steps": ("m" + ".?a" * 100, Optional()),
    "variables": (nested("optional.of(1).optMap(x, t ? x : ", "0", ").value()", 20), 1),
    "sums": ("+".join(["1"] * 200), 200),
}


@pytest.mark.parametrize("name", DEEP)
def test_deep(name: str) -> None:
    source, expected = DEEP[name]
    variables = {"t": True, "l": [0] if "loops" in name else [1, 0, 0], "m": {}}
    value, _ = program(source, t=BOOL, l=list_of(INT), m=DYN)(variables, 10**9)
    assert value == expected or (isinstance(expected, Optional) and not value.present)


# Each would run for minutes or fill the memory. What is charged upstream for copies and large results doesn't bound them.
HOSTILE = {
    "loops": "l.all(a, l.all(b, l.all(c, l.all(d, true))))",
    "copies": "l.all(a, l.all(b, (l + l + l + l).size() > 0))",
    "a range": "lists.range(1000000000000).size() > 0",
    "a replacement": "s.replace('', s).replace('', s).size() > 0",
    "joined": "l.map(x, s).join(s).size() > 0",
    "flattened": "l.map(x, l).map(x, l.map(y, l)).flatten().flatten().size() > 0",
    "a pattern": "l.all(x, s.matches('(a*)*b') || true)",
    "sets": "sets.equivalent(l, l.map(x, -x)) || true",
    "sorted": "l.sort().sort().sort().size() > 0",
    "a width": "'%.999999999e'.format([1.0]).size() > 0",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str) -> None:
    run = program(HOSTILE[name], l=list_of(INT), s=STRING)
    with pytest.raises(CostExceeded) as error:
        run({"l": list(range(2000)), "s": "a" * 30_000}, BUDGET)
    assert error.value.cost >= 0


def test_a_program_runs_again() -> None:
    run = program("self.map(x, [x]) + [['c']]")
    first, _ = run({"self": ["a"]}, BUDGET)
    second, _ = run({"self": ["b"]}, BUDGET)
    assert (first, second) == ([["a"], ["c"]], [["b"], ["c"]])


class Ordered(list[Any]):
    """A list of a caller's own class, which says what it equals and what adding to it means."""

    def equals(self, other: Any) -> bool:
        return sorted(self) == sorted(other)

    def added(self, other: Any) -> Ordered:
        return Ordered(sorted({*self, *other}))


def test_lists_of_a_callers_class() -> None:
    run = program("self == [2, 1] && self + [1, 3] == [3, 2, 1] && self.all(x, x > 0)", self=list_of(INT))
    assert run({"self": Ordered([1, 2])}, BUDGET)[0] is True
