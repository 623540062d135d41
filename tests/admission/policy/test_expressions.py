"""Expressions of policies: variables, types, errors and budgets.

Many cases are those of upstream's compile_test.go, condition_test.go and composition_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.chain import DELETE
from aggserver.admission.policy.environment import APPLY_CONFIGURATION, JSON_PATCH, UnansweredError
from aggserver.admission.policy.expressions import (
    BUDGET,
    Compiler,
    Evaluation,
    OutOfBudgetError,
    PolicyOutOfPatienceError,
    Result,
    type_text,
)
from aggserver.cel.library.authz import Check, Decision
from aggserver.cel.types import BOOL, NULL, STRING, TIMESTAMP, list_of, map_of
from aggserver.meta.json_types import JSONObject
from tests.admission.policy.requests import SHIP, attributes, inputs

PARAMS: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"most": "3"}}

# An expression, and its value.
VALUES: dict[str, tuple[str, Any]] = {
    "object": ("object.spec.replicas", 2),
    "no object before": ("oldObject == null", True),
    "null is a value": ("has(object.spec.note) && object.spec.note == null", True),
    "of a list": ("object.spec.masts[1]", "main"),
    "params": ("params.data.most", "3"),
    "the user": ("request.userInfo.username", "alice"),
    "groups": ("'crew' in request.userInfo.groups", True),
    "extra": ("request.userInfo.extra['scope'][0]", "a"),
    "operation": ("request.operation", "CREATE"),
    "kind": ("request.kind.group + '/' + request.kind.version + '/' + request.kind.kind", "example.com/v1/Ship"),
    "resource": ("request.resource.resource + request.requestResource.version", "shipsv1"),
    "requested kind": ("request.requestKind.kind", "Ship"),
    "namespace and name": ("request.namespace + '/' + request.name", "north/ada"),
    "no subresource": ("has(request.subResource)", False),
    "dry run": ("request.dryRun", False),
    "options": ("request.options.kind + request.options.fieldManager", "CreateOptionsme"),
    "a label of the namespace": ("namespaceObject.metadata.labels.env", "test"),
    "the phase of the namespace": ("namespaceObject.status.phase", "Active"),
    "what the namespace lacks": ("has(namespaceObject.metadata.deletionTimestamp)", False),
    "a time is text, whatever its type": ("type(namespaceObject.metadata.creationTimestamp) == string", True),
    "a variable": ("variables.twice", 4),
    "a variable of a variable": ("variables.four_times", 8),
    "a variable is there": ("has(variables.twice)", True),
    "a variable that is null": ("variables.nothing == null", True),
    "a list": ("variables.list.sum()", 10),
    "a map": ("variables.dict['foo'].contains('bar')", True),
    "a true variable": ("variables.yes", True),
    "a variable, optionally": ("variables.?twice.orValue(0)", 4),
    "objects as values": ("variables.owner.username", "alice"),
}

# An expression, and the error of its compilation, or a part of it.
MISTAKES: dict[str, tuple[str, str]] = {
    "syntax": ("1 < 'asdf'", "compilation failed: ERROR: <input>:1:3: found no matching overload for '_<_'"),
    "an unknown variable": ("something", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'something'"),
    "an unknown field of the request": ("request.foo == 1", "undefined field 'foo'"),
    "the object of the request": ("request.object == null", "undefined field 'object'"),
    "an unknown field of the namespace": ("namespaceObject.foo", "undefined field 'foo'"),
    "an unknown variable of the policy": ("variables.none", "undefined field 'none'"),
    "a list confused with a map": (
        "variables.list['invalid'] == 'invalid'",
        "found no matching overload for '_[_]' applied to '(list(int), string)'",
    ),
    "an element confused with an integer": (
        "variables.texts[0] == 1",
        "found no matching overload for '_==_' applied to '(string, int)'",
    ),
    "patches outside of mutations": ("JSONPatch{op: 'add'} == null", "undeclared reference to 'JSONPatch'"),
    "objects outside of mutations": ("Object{} == null", "undeclared reference to 'Object'"),
    "escaping outside of mutations": ("jsonpatch.escapeKey('a') == ''", "undeclared reference to 'jsonpatch'"),
    "an invalid conversion": ("int('a') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
}

# An expression, and the error of its evaluation.
FAILURES: dict[str, tuple[str, str]] = {
    "no such key": ("object.spec.nope == 1", "no such key: nope"),
    "no old object": ("oldObject.spec.replicas == 1", "no such key: spec"),
    "no name yet": ("request.subResource == ''", "no such key: subResource"),
    "what no namespace has": ("namespaceObject.metadata.UID == ''", "no such key: UID"),
    "a variable that fails": ("variables.broken == 1", 'composited variable "broken" fails to evaluate: no such key: nope'),
    "a variable that does not compile": ("variables.wrong", 'composited variable "wrong" fails to compile: compilation failed: '),
    "beyond the limit of one expression": (
        "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, "
        "[1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, true))))))",
        "operation cancelled: actual cost limit exceeded",
    ),
}


def compiler() -> Compiler:
    made = Compiler(has_params=True)
    for name, source in {
        "twice": "object.spec.replicas * 2",
        "four_times": "variables.twice * 2",
        "nothing": "null",
        "yes": "true",
        "list": "[1, 2, 3, 4]",
        "texts": "['1', '2']",
        "dict": "{'foo': 'bar'}",
        "broken": "object.spec.nope",
        "wrong": "1 == '1'",
        "owner": "request.userInfo",
        "allowed": "authorizer.path('/x').check('get').allowed()",
    }.items():
        made.variable(name, source)
    return made


def run(source: str, budget: int = BUDGET, *, has_authorizer: bool = True, **answers: Any) -> Result:
    of = compiler()
    evaluation = Evaluation(
        inputs(given=attributes(options={"fieldManager": "me"}), **answers),
        PARAMS,
        of.variables,
        budget,
        has_authorizer=has_authorizer,
    )
    return evaluation.run(of.expression(source, None))


@pytest.mark.parametrize(("source", "wanted"), VALUES.values(), ids=VALUES)
def test_values(source: str, wanted: Any) -> None:
    assert run(source) == (wanted, "")


@pytest.mark.parametrize(("source", "wanted"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(source: str, wanted: str) -> None:
    assert wanted in compiler().expression(source, (BOOL,)).error
    assert run(source).error.startswith("compilation error: ")


@pytest.mark.parametrize(("source", "wanted"), FAILURES.values(), ids=FAILURES)
def test_failures(source: str, wanted: str) -> None:
    assert run(source).error.startswith(f"expression '{source}' resulted in error: {wanted}")


@pytest.mark.parametrize(
    ("source", "wanted", "text"),
    [
        ("'a'", (BOOL,), "must evaluate to bool but got string"),
        ("object.x", (BOOL,), "must evaluate to bool but got dyn"),
        ("1", (STRING, NULL), "must evaluate to one of [string null_type] but got int"),
        ("[]", (list_of(JSON_PATCH),), "must evaluate to list(JSONPatch) but got list(dyn)"),
        ('"I\'m a teapot!"', (APPLY_CONFIGURATION,), "must evaluate to Object but got string"),
        ("Object.spec.metadata{}", (APPLY_CONFIGURATION,), "must evaluate to Object but got Object.spec.metadata"),
    ],
)
def test_types_of_values(source: str, wanted: Any, text: str) -> None:
    assert compiler().expression(source, wanted, makes_patches=True).error == text


def test_names_of_types() -> None:
    assert type_text(map_of(STRING, list_of(TIMESTAMP))) == "map(string, list(google.protobuf.Timestamp))"


def test_params_only_with_a_kind() -> None:
    assert "undeclared reference to 'params'" in Compiler(has_params=False).expression("params == null", (BOOL,)).error


def test_variables_only_in_policies() -> None:
    without = Compiler(has_params=False, has_variables=False)
    assert "undeclared reference to 'variables'" in without.expression("variables.x", (BOOL,)).error


def test_a_later_variable_is_unknown() -> None:
    made = Compiler(has_params=False)
    made.variable("first", "variables.second")
    made.variable("second", "1")
    assert "undefined field 'second'" in made.variables["first"].error


def test_one_policy_does_not_see_variables_of_another() -> None:
    other = Compiler(has_params=False)
    other.variable("foo", "'bar'")
    assert "undefined field 'foo'" in Compiler(has_params=False).expression("variables.foo == 'bar'", (BOOL,)).error


def test_the_object_of_a_deletion_is_null() -> None:
    of = Compiler(has_params=False)
    evaluation = Evaluation(inputs(None, SHIP, given=attributes(DELETE)), None, {}, BUDGET)
    assert evaluation.run(of.expression("object == null && oldObject != null && request.operation == 'DELETE'", (BOOL,))).value


# Budgets. `variables.twice` costs 2, and its expression 3 and 1.


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        ("variables.twice == 4", 7),
        ("variables.twice == 4 && variables.twice == 4", 10),
        ("variables.twice == 4 && variables.four_times == 8", 13),
        ("true", 0),
    ],
    ids=["of a variable", "counted once", "of a variable of a variable", "of a constant"],
)
def test_costs(source: str, cost: int) -> None:
    assert run(source, cost) == (True, "")
    if cost:
        with pytest.raises(OutOfBudgetError, match="validation failed due to running out of cost budget, no further validation"):
            run(source, cost - 1)


def test_the_budget_goes_down() -> None:
    of = Compiler(has_params=False)
    evaluation = Evaluation(inputs(), None, {}, 100)
    evaluation.run(of.expression("object.spec.replicas == 2", (BOOL,)))
    assert evaluation.left == 96


def test_an_error_is_remembered_and_paid_once() -> None:
    assert run("variables.broken == 1 || variables.broken == 2 || true", 12) == (True, "")


def test_patience() -> None:
    """Expressions that cost more are left to be evaluated elsewhere: nothing is known of them."""
    of = Compiler(has_params=False)
    loop = of.expression("object.spec.masts.all(m, m != '')", (BOOL,))
    given = inputs()
    for patience, ends in ((5, True), (1000, False)):
        given.patience = patience
        evaluation = Evaluation(given, None, {}, BUDGET)
        if ends:
            with pytest.raises(PolicyOutOfPatienceError):
                evaluation.run(loop)
        else:
            assert evaluation.run(loop).value


def test_hundreds_of_variables_in_a_row() -> None:
    of = Compiler(has_params=False)
    of.variable("v0", "1")
    for number in range(1, 800):
        of.variable(f"v{number}", f"variables.v{number - 1}")
    expression = of.expression("variables.v799 == 1", (BOOL,))
    value, error = Evaluation(inputs(), None, of.variables, BUDGET).run(expression)
    assert value is True or "too many nested variables" in error


# Authorization


def test_checks_are_asked_one_after_another() -> None:
    source = "authorizer.requestResource.check('create').allowed() && authorizer.path('/x').check('get').allowed()"
    answers: dict[Check, Decision] = {}
    asked: list[Check] = []
    while True:
        try:
            result = run(source, answers=answers)
            break
        except UnansweredError as error:
            asked.append(error.check)
            answers[error.check] = Decision(True)
    assert result == (True, "")
    assert asked == [
        Check(None, "create", group="example.com", resource="ships", namespace="north", name="ada"),
        Check(None, "get", "/x"),
    ]


def test_without_authorizer() -> None:
    """Messages and audit annotations have none, though a variable that they read may want one."""
    assert run("variables.allowed", has_authorizer=False).error == (
        "expression 'variables.allowed' resulted in error: "
        'composited variable "allowed" fails to evaluate: no such attribute(s): authorizer'
    )
    made = compiler().expression("authorizer.path('/x').check('get').reason()", (STRING,), has_authorizer=False)
    assert "undeclared reference to 'authorizer'" in made.error
