"""The checker: types, overloads and errors; type inference; the declarations."""

from __future__ import annotations

import pytest

from aggserver.cel.ast import Call, Ident, Select
from aggserver.cel.checker import Checked, check
from aggserver.cel.declarations import functions
from aggserver.cel.errors import CompileError
from aggserver.cel.inference import Inference, most_general
from aggserver.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    object_type,
    opaque,
    optional_of,
    type_of,
    type_param,
)
from tests.cel.environment import ENVIRONMENT, cases

# The tables don't name these, since nearly every expression has some.
LOGIC = frozenset({"logical_and", "logical_or", "not_strictly_false", "conditional"})


def describe(checked: Checked) -> str:
    overloads = sorted({overload for found in checked.overloads.values() for overload in found} - LOGIC)
    return str(checked.type) + (f" by {', '.join(overloads)}" if overloads else "")


@pytest.mark.parametrize(("rule", "source", "expected"), cases("checking"))
def test_check(rule: str, source: str, expected: str) -> None:
    if not expected.startswith("ERROR"):
        assert describe(check(source, ENVIRONMENT)) == expected, rule
        return
    with pytest.raises(CompileError) as raised:
        check(source, ENVIRONMENT)
    assert str(raised.value) == expected, rule


def test_qualified_names_become_one_identifier() -> None:
    checked = check("a.b.c", ENVIRONMENT)
    assert isinstance(checked.expr, Ident)
    assert checked.expr.name == "a.b.c"
    assert checked.references == {checked.expr.id: "a.b.c"}


def test_functions_in_a_namespace_have_no_target() -> None:
    expr = check("format.named('uuid')", ENVIRONMENT).expr
    assert isinstance(expr, Call)
    assert (expr.function, expr.target) == ("format.named", None)


def test_fields_stay_selections_and_types_are_known() -> None:
    checked = check("o.p", ENVIRONMENT)
    assert isinstance(checked.expr, Select)
    assert checked.types[checked.expr.operand.id] == object_type("Obj")


def test_names_of_types_refer_to_types() -> None:
    checked = check("type(i) == int", ENVIRONMENT)
    assert INT in checked.references.values()
    assert list(checked.references.values()).count("i") == 1


def test_every_error_is_told_up_to_a_hundred() -> None:
    with pytest.raises(CompileError) as raised:
        check("+".join(["zz"] * 150), ENVIRONMENT)
    lines = str(raised.value).splitlines()
    assert lines[-1] == "50 more errors were truncated"
    assert sum(line.startswith("ERROR") for line in lines) == 100


def test_lines_that_are_too_long_are_not_shown() -> None:
    with pytest.raises(CompileError) as raised:
        check(f'zz + "{"y" * 20_000}"', ENVIRONMENT)
    assert str(raised.value) == "ERROR: <input>:1:1: undeclared reference to 'zz' (in container '')"


# Inference

A, B = type_param("A"), type_param("B")

# Given, wanted, and what A and B stand for then; None where it does not fit.
ASSIGNABLE: dict[str, tuple[Type, Type, list[Type] | None]] = {
    "the same type": (INT, INT, [A, B]),
    "another type": (INT, STRING, None),
    "dyn for anything": (DYN, INT, [A, B]),
    "anything for dyn": (INT, DYN, [A, B]),
    "what is wrong already": (ERROR, INT, [A, B]),
    "null for objects": (NULL, object_type("x"), [A, B]),
    "null for optionals": (NULL, optional_of(INT), [A, B]),
    "null for times": (NULL, TIMESTAMP, [A, B]),
    "null for numbers": (NULL, INT, None),
    "null for lists": (NULL, list_of(INT), None),
    "objects for null": (object_type("x"), NULL, [A, B]),
    "objects by name": (object_type("x"), object_type("y"), None),
    "opaque types by name": (opaque("x"), opaque("y"), None),
    "types of types": (type_of(INT), type_of(STRING), [A, B]),
    "elements": (list_of(INT), list_of(STRING), None),
    "elements that are dyn": (list_of(INT), list_of(DYN), [A, B]),
    "keys and values": (map_of(STRING, INT), map_of(STRING, STRING), None),
    "a list for a map": (list_of(INT), map_of(INT, INT), None),
    "a parameter is bound": (INT, A, [INT, B]),
    "a parameter within": (list_of(map_of(STRING, INT)), list_of(map_of(A, B)), [STRING, INT]),
    "a parameter that is given": (A, INT, [INT, B]),
    "a parameter for another": (A, B, [A, A]),
    "twice the same": (map_of(INT, INT), map_of(A, A), [INT, B]),
    "twice, but not the same": (map_of(INT, STRING), map_of(A, A), None),
    "the more general one wins": (map_of(INT, DYN), map_of(A, A), [DYN, B]),
    "no type is part of itself": (list_of(A), A, None),
}


@pytest.mark.parametrize("case", ASSIGNABLE)
def test_assignable(case: str) -> None:
    given, wanted, bound = ASSIGNABLE[case]
    inference = Inference()
    assert inference.is_assignable(given, wanted) is (bound is not None)
    assert [inference.substitute(A), inference.substitute(B)] == (bound or [A, B])


def test_a_failed_attempt_binds_nothing_and_loosens_nothing() -> None:
    inference = Inference()
    assert inference.is_assignable(INT, A)
    assert not inference.are_assignable((DYN, INT), (A, STRING))
    assert inference.substitute(list_of(A)) == list_of(INT)
    assert inference.substitute(B, params_to_dyn=True) == DYN


def test_the_more_general_type() -> None:
    assert most_general(list_of(INT), list_of(DYN)) == list_of(DYN)
    assert most_general(DYN, INT) == DYN
    assert most_general(NULL, object_type("x")) == object_type("x")


# Declarations


def test_every_overload_has_an_id_of_its_own_but_for_the_same_call() -> None:
    ids = [overload.id for overloads in functions().values() for overload in overloads]
    assert len(ids) == len(set(ids))


PRINTED = {
    "_[_]": ["(list(A), int) -> A", "(map(A, B), A) -> B", "(optional_type(list(V)), int) -> optional_type(V)"],
    "contains": ["string.(string) -> bool"],
    "optional.unwrap": ["(list(optional_type(V))) -> list(V)"],
    "type": ["(A) -> type(A)"],
    "getQuery": ["kubernetes.URL.() -> map(string, list(string))"],
    "timestamp": ["(timestamp) -> timestamp", "(int) -> timestamp", "(string) -> timestamp"],
    "_<_": ["(bool, bool) -> bool", "(int, int) -> bool", "(int, double) -> bool"],
}


@pytest.mark.parametrize("name", PRINTED)
def test_declaration(name: str) -> None:
    printed = []
    for overload in functions()[name]:
        args = [str(arg) for arg in overload.args]
        target = f"{args.pop(0)}." if overload.is_member else ""
        printed.append(f"{target}({', '.join(args)}) -> {overload.result}")
    assert printed[: len(PRINTED[name])] == PRINTED[name]


def test_parameters_are_those_of_the_signature() -> None:
    (overload,) = functions()["_?_:_"]
    assert overload.args == (BOOL, A, A)
    assert overload.params == (A,)
