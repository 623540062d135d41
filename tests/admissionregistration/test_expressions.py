"""Which expressions may be written where. `tests/integration/cases_registered_expressions.py` has upstream's answers to more."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from aggserver.admissionregistration.expressions import Expressions, length_of_expressions
from aggserver.admissionregistration.strategy import KINDS, RegistrationStrategy
from aggserver.meta.field import FieldError, Path

Check = Callable[[Expressions, Path], Iterable[FieldError]]
AT = Path("x")
BOOL = "must evaluate to bool but got"

PLACES: dict[str, tuple[Check, str]] = {
    # name: (what is checked, the end of its error)
    "condition": (lambda it, at: it.condition("object.a", at), f'"object.a": {BOOL} dyn'),
    "true condition": (lambda it, at: it.condition("object.a == 1 && authorizer != null", at), ""),
    "text": (lambda it, at: it.message("'a'", at), ""),
    "text of the wrong type": (lambda it, at: it.message("1", at), '"1": must evaluate to string but got int'),
    "annotation": (lambda it, at: it.annotation("null", " null ", at), ""),
    "annotation of the wrong type": (
        lambda it, at: it.annotation("1", " 1 ", at),
        '" 1 ": must evaluate to one of [string null_type] but got int',
    ),
    "apply configuration": (lambda it, at: it.mutation("Object{a: 1}", "ApplyConfiguration", at), ""),
    "JSON patch": (lambda it, at: it.mutation("[JSONPatch{op: 'remove', path: '/a'}]", "JSONPatch", at), ""),
    "the other one": (
        lambda it, at: it.mutation("Object{}", "JSONPatch", at),
        '"Object{}": must evaluate to list(JSONPatch) but got Object',
    ),
    "a broken variable": (
        lambda it, at: it.variable("b", "1 +", at),
        "\"1 +\": compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>'",
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_places(name: str) -> None:
    check, end = PLACES[name]
    errors = [str(error) for error in check(Expressions(has_variables=True), AT)]
    assert len(errors) == (1 if end else 0)
    assert all(error.startswith(f"x: Invalid value: {end}") for error in errors)


def test_variables_and_params_must_be_declared() -> None:
    with_both, with_none = Expressions(has_params=True, has_variables=True), Expressions()
    list(with_both.variable("a", "1", AT))
    for source in ("variables.a == 1", "params == null"):
        assert list(with_both.condition(source, AT)) == []
        assert len(list(with_none.condition(source, AT))) == 1
    assert len(list(with_both.condition("variables.b == 1", AT))) == 1


def test_many_expressions_are_compiled_later() -> None:
    kind = next(kind for kind in KINDS if kind.name == "ValidatingWebhookConfiguration")
    conditions = [{"name": "a", "expression": "x" * 3000}]
    assert length_of_expressions({"a": [{"expression": "12", "b": {"valueExpression": "3"}}], "name": "45"}) == 3
    obj = {"metadata": {"name": "a"}, "webhooks": [{"name": "a.b.c", "matchConditions": conditions}]}
    verdict = RegistrationStrategy(kind).validate(obj)
    assert verdict.errors == []
    assert verdict.later is not None
    assert any(error.field == "webhooks[0].matchConditions[0].expression" for error in verdict.later(lambda: False).errors)
