"""What validating policies decide, and what becomes of it. Most cases are of upstream's validator_test.go, matcher_test.go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aggserver.admission.policy.conditions import MatchConditionError, MatchConditions
from aggserver.admission.policy.expressions import BUDGET, Compiler
from aggserver.admission.policy.validating import Annotation, PolicyDecision, PolicyVerdict, compile_policy, evaluate
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from tests.admission.policy.requests import SHIP, attributes, inputs

ADMIT = PolicyDecision(False)
# Costs about 1,100,000 and so more than one expression may.
NUMBERS = f"[{', '.join('1' * 100)}]"
LONG = f"{NUMBERS}.all(a, {NUMBERS}.all(b, {NUMBERS}.all(c, true)))"
# Costs about 600,000.
HALF = f"{NUMBERS}.all(a, {NUMBERS}.all(b, [{', '.join('1' * 18)}].all(c, true)))"
FAILS = "object.spec.nope"


def deny(message: str, reason: str = "Invalid") -> PolicyDecision:
    return PolicyDecision(True, message, reason)


def validation(expression: str, **others: str) -> dict[str, str]:
    return {"expression": expression, **others}


def failed(expression: str, why: str = "no such key: nope") -> str:
    return f"expression '{expression}' resulted in error: {why}"


# Validations, and decisions; with failurePolicy Ignore, if they are different.
DECISIONS: dict[str, tuple[list[dict[str, str]], list[PolicyDecision]]] = {
    "passes": ([validation("true")], [ADMIT]),
    "two pass": ([validation("true"), validation("object.spec.replicas == 2")], [ADMIT, ADMIT]),
    "the message": ([validation("false", message="no")], [deny("no")]),
    "the message is trimmed": ([validation("false", message=" no\n")], [deny("no")]),
    "no message": ([validation(" 1 == 2 ")], [deny("failed expression: 1 == 2")]),
    "an empty message": ([validation("false", message=" ")], [deny("failed expression: false")]),
    "the reason": ([validation("false", message="no", reason="Forbidden")], [deny("no", "Forbidden")]),
    "one of two is denied": ([validation("false", message="one"), validation("true")], [deny("one"), ADMIT]),
    "both are denied": (
        [validation("false", message="one", reason="Forbidden"), validation("false", message="two", reason="Unauthorized")],
        [deny("one", "Forbidden"), deny("two", "Unauthorized")],
    ),
    "a messageExpression": ([validation("false", messageExpression="'is ' + object.metadata.name")], [deny("is ada")]),
    "it comes before the message": ([validation("false", message="no", messageExpression="'yes'")], [deny("yes")]),
    "one of two has it": (
        [validation("false", message="one"), validation("false", message="two", messageExpression="'better'")],
        [deny("one"), deny("better")],
    ),
    "it is trimmed": ([validation("false", messageExpression="' a '")], [deny("a")]),
    "it fails": ([validation("false", message="no", messageExpression="string(object.spec.nope)")], [deny("no")]),
    "it does not compile": ([validation("false", message="no", messageExpression="authorizer.x")], [deny("no")]),
    "it is empty": ([validation("false", message="no", messageExpression="''")], [deny("no")]),
    "it is blank": ([validation("false", messageExpression="' '")], [deny("failed expression: false")]),
    "it has two lines": ([validation("false", message="no", messageExpression=r"'a\nb'")], [deny("no")]),
    "it is too long": ([validation("false", message="no", messageExpression=f"'{'a' * 5121}'")], [deny("no")]),
    "it is as long as it may be": ([validation("false", message="no", messageExpression=f"'{'a' * 5120}'")], [deny("a" * 5120)]),
    "it reads a variable": ([validation("false", messageExpression="string(variables.twice)")], [deny("4")]),
}

# Validations, and the decision about the first where errors count.
ERRORS: dict[str, tuple[list[dict[str, str]], str]] = {
    "an error": ([validation(f"{FAILS} == 1", message="no")], failed(f"{FAILS} == 1")),
    "a wrong type": ([validation("'true'")], "compilation error: must evaluate to bool but got string"),
    "beyond the limit": ([validation(LONG)], failed(LONG, "operation cancelled: actual cost limit exceeded")),
}


def spec(validations: list[dict[str, str]], **others: Any) -> dict[str, Any]:
    return {"validations": validations, "variables": [{"name": "twice", "expression": "object.spec.replicas * 2"}], **others}


@pytest.mark.parametrize("policy", ["Fail", "Ignore", None])
@pytest.mark.parametrize(("validations", "wanted"), DECISIONS.values(), ids=DECISIONS)
def test_decisions(validations: list[dict[str, str]], wanted: list[PolicyDecision], policy: str | None) -> None:
    assert evaluate(compile_policy(spec(validations, failurePolicy=policy)), inputs(), None) == (wanted, [])


@pytest.mark.parametrize("policy", ["Fail", "Ignore", None])
@pytest.mark.parametrize(("validations", "text"), ERRORS.values(), ids=ERRORS)
def test_errors(validations: list[dict[str, str]], text: str, policy: str | None) -> None:
    decisions, _ = evaluate(compile_policy(spec(validations, failurePolicy=policy)), inputs(), None)
    assert decisions == [PolicyDecision(policy != "Ignore", text)]


def test_a_compile_error_has_a_picture() -> None:
    (decision,), _ = evaluate(compile_policy(spec([validation("nope")])), inputs(), None)
    assert decision.message == (
        "compilation error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n"
        " | nope\n | ^"
    )


def test_the_budget_of_a_policy() -> None:
    """Each of them is within the limit of one expression, but not all together."""
    decisions, _ = evaluate(compile_policy(spec([validation(HALF)] * 20)), inputs(), None)
    text = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert decisions == [PolicyDecision(True, text)]
    assert evaluate(compile_policy(spec([validation(HALF)] * 20, failurePolicy="Ignore")), inputs(), None)[0] == [
        PolicyDecision(False, text)
    ]


def test_messages_beyond_the_budget() -> None:
    """They count even where nothing is denied, as upstream."""
    message = f"{HALF} ? 'a' : 'b'"
    decisions, _ = evaluate(compile_policy(spec([validation("true", messageExpression=message)] * 20)), inputs(), None)
    text = (
        "failed messageExpression: validation failed due to running out of cost budget, no further validation rules will be run"
    )
    assert decisions == [PolicyDecision(True, text)] * 20


# Audit annotations, and what is published; with failurePolicy Ignore too, where errors are left out.
ANNOTATIONS: dict[str, tuple[str, list[Annotation]]] = {
    "a value": ("'string value'", [Annotation("key", "string value")]),
    "it is trimmed": ("' a '", [Annotation("key", "a")]),
    "null": ("null", []),
    "an empty value": ("' '", []),
    "either": ("object.spec.replicas > 1 ? 'many' : 'few'", [Annotation("key", "many")]),
    "an error": ("string(object.spec.nope)", [Annotation("key", "", failed("string(object.spec.nope)"))]),
    "a wrong type": ("1", [Annotation("key", "", "compilation error: must evaluate to one of [string null_type] but got int")]),
    "no authorizer": (
        "authorizer.path('/x').check('get').reason()",
        [Annotation("key", "", failed("authorizer.path('/x').check('get').reason()", "no such attribute(s): authorizer"))],
    ),
}


@pytest.mark.parametrize(("expression", "wanted"), ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_annotations(expression: str, wanted: list[Annotation]) -> None:
    given = spec([validation("true")], auditAnnotations=[{"key": "key", "valueExpression": expression}])
    assert evaluate(compile_policy(given), inputs(), None) == ([ADMIT], wanted)
    ignored = compile_policy({**given, "failurePolicy": "Ignore"})
    assert evaluate(ignored, inputs(), None) == ([ADMIT], [each for each in wanted if not each.error])


def test_only_annotations() -> None:
    given = {"auditAnnotations": [{"key": "key", "valueExpression": "'a'"}]}
    assert evaluate(compile_policy(given), inputs(), None) == ([], [Annotation("key", "a")])


# Match conditions: whether they hold with failurePolicy Fail, or the error; with Ignore an error is False.
CONDITIONS: dict[str, tuple[list[str], bool | str]] = {
    "none": ([], True),
    "one": (["true"], True),
    "two": (["true", "object.spec.replicas == 2"], True),
    "false": (["false"], False),
    "the first is false": (["false", "true"], False),
    "the last is false": (["true", "false"], False),
    "one in between is false": (["true", "false", "true"], False),
    "errors do not count if one is false": (["true", f"{FAILS} == 1", "false", "true", f"{FAILS} == 2"], False),
    "an error": (["true", f"{FAILS} == 1", "true"], failed(f"{FAILS} == 1")),
    "two errors": (
        [f"{FAILS} == 1", f"{FAILS} == 2", f"{FAILS} == 1"],
        f"[{failed(f'{FAILS} == 1')}, {failed(f'{FAILS} == 2')}]",
    ),
    "the same error twice": ([f"{FAILS} == 1", f"{FAILS} == 1"], failed(f"{FAILS} == 1")),
    "a wrong type": (["'a'"], "compilation error: must evaluate to bool but got string"),
    "beyond the budget, though one is false": (
        ["false", *[HALF] * 5],
        "validation failed due to running out of cost budget, no further validation rules will be run",
    ),
    "they do not see the namespace": (["namespaceObject == null"], True),
}


@pytest.mark.parametrize(("expressions", "wanted"), CONDITIONS.values(), ids=CONDITIONS)
def test_match_conditions(expressions: list[str], wanted: bool | str) -> None:
    given = {"matchConditions": [{"name": "a", "expression": each} for each in expressions]}
    strict, lax = (
        MatchConditions.compiled(Compiler(has_params=False), {**given, "failurePolicy": each}) for each in ("Fail", "Ignore")
    )
    if isinstance(wanted, str):
        with pytest.raises(MatchConditionError) as caught:
            strict.holds(inputs())
        assert str(caught.value) == wanted
    else:
        assert strict.holds(inputs()) is wanted
    assert lax.holds(inputs()) is (wanted is True)


def test_no_match_condition_holds() -> None:
    given = spec([validation("false")], matchConditions=[{"name": "never", "expression": "variables.twice == 5"}])
    assert evaluate(compile_policy(given), inputs(), None) == ([], [])


def test_a_match_condition_fails() -> None:
    given = spec([validation("false")], matchConditions=[{"name": "broken", "expression": f"{FAILS} == 1"}])
    assert evaluate(compile_policy(given), inputs(), None) == ([PolicyDecision(True, failed(f"{FAILS} == 1"))], [])
    assert evaluate(compile_policy({**given, "failurePolicy": "Ignore"}), inputs(), None) == ([], [])


def test_webhooks_see_the_requested_resource() -> None:
    given = inputs()
    given.target = given.target._replace(version="v2", api_version="example.com/v2")
    conditions = Compiler(has_params=False, has_variables=False)
    expression = {"name": "a", "expression": "request.resource.version == 'v1' && request.kind.version == 'v2'"}
    assert MatchConditions.compiled(conditions, {"matchConditions": [expression]}).holds(given)
    assert BUDGET == 10_000_000


# Verdicts


def policy(name: str = "p", **of: Any) -> JSONObject:
    return {"metadata": {"name": name}, "spec": of}


def binding(*actions: str, name: str = "b") -> JSONObject:
    return {"metadata": {"name": name}, "spec": {"policyName": "p", "validationActions": list(actions)}}


def refused(verdict: PolicyVerdict, obj: JSONObject | None = SHIP) -> dict[str, Any]:
    with pytest.raises(StatusError) as caught:
        verdict.conclude(obj)
    return caught.value.status()


def test_denied() -> None:
    verdict = PolicyVerdict(attributes())
    verdict.add(policy(), binding("Deny"), [ADMIT, deny("one", "Forbidden"), deny("two")], [])
    message = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: one"
    assert refused(verdict) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'ships.example.com "ada" is forbidden: {message}',
        "reason": "Forbidden",
        "details": {"name": "ada", "group": "example.com", "kind": "ships", "causes": [{"message": message}]},
        "code": 403,
    }


@pytest.mark.parametrize(
    ("reason", "code", "shown"),
    [
        ("Invalid", 422, "Invalid"),
        ("Forbidden", 403, "Forbidden"),
        ("Unauthorized", 401, "Unauthorized"),
        ("RequestEntityTooLarge", 413, "RequestEntityTooLarge"),
        ("", 422, "Invalid"),
    ],
)
def test_reasons(reason: str, code: int, shown: str) -> None:
    verdict = PolicyVerdict(attributes())
    verdict.add(policy(), binding("Deny"), [PolicyDecision(True, "no", reason)], [])
    status = refused(verdict)
    assert (status["code"], status["reason"]) == (code, shown)


@pytest.mark.parametrize(
    ("metadata", "name"),
    [({"name": "x"}, "x"), ({"generateName": "x-"}, "x-"), ({}, "Unknown")],
    ids=["named", "to be named", "nameless"],
)
def test_the_name_of_a_new_object(metadata: JSONObject, name: str) -> None:
    verdict = PolicyVerdict(attributes(name=""))
    verdict.add(policy(), binding("Deny"), [deny("no")], [])
    assert refused(verdict, {"metadata": metadata})["details"]["name"] == name


def test_warned() -> None:
    of = attributes()
    verdict = PolicyVerdict(of)
    verdict.add(policy(), binding("Warn"), [deny("one"), ADMIT, deny("two")], [])
    verdict.conclude(SHIP)
    start = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': "
    assert of.warnings == [f"{start}one", f"{start}two"]


def test_audited() -> None:
    of = attributes()
    verdict = PolicyVerdict(of)
    verdict.add(policy(), binding("Audit", "Warn"), [ADMIT, deny("a <b>")], [])
    verdict.conclude(SHIP)
    (value,) = of.audit_annotations.values()
    assert list(of.audit_annotations) == ["validation.policy.admission.k8s.io/validation_failure"]
    assert json.loads(value) == [
        {"message": "a <b>", "policy": "p", "binding": "b", "expressionIndex": 1, "validationActions": ["Audit", "Warn"]}
    ]
    assert value.startswith('[{"message":"a \\u003cb\\u003e","policy":"p"')
    assert len(of.warnings) == 1


def test_without_actions_nothing_happens() -> None:
    of = attributes()
    verdict = PolicyVerdict(of)
    verdict.add(policy(), binding(), [deny("one")], [])
    verdict.conclude(SHIP)
    assert not of.warnings
    assert not of.audit_annotations


def test_audit_annotations() -> None:
    of = attributes()
    verdict = PolicyVerdict(of)
    verdict.add(policy(), binding("Deny"), [], [Annotation("key", "a")])
    verdict.add(policy(), binding("Deny", name="c"), [], [Annotation("key", "a"), Annotation("other", "x" * 20_000)])
    verdict.add(policy(), binding("Deny", name="d"), [], [Annotation("key", "b")])
    verdict.conclude(SHIP)
    assert of.audit_annotations == {"p/key": "a, b", "p/other": "x" * 10240}


def test_an_error_of_an_annotation_denies() -> None:
    verdict = PolicyVerdict(attributes())
    verdict.add(policy(), binding("Audit"), [], [Annotation("key", error="no")])
    assert refused(verdict)["message"].endswith("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no")


def test_misconfigured() -> None:
    verdict = PolicyVerdict(attributes())
    verdict.misconfigured(policy(failurePolicy="Ignore"), None, "never mind")
    verdict.conclude(SHIP)
    verdict.misconfigured(policy(), None, "why")
    verdict.misconfigured(policy(), binding(), "why else")
    status = refused(verdict)
    assert status["message"].endswith("ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: why")
    assert (status["code"], status["reason"]) == (422, "Invalid")
    other = PolicyVerdict(attributes())
    other.misconfigured(policy(), binding(), "why")
    assert refused(other)["message"].endswith("'p' with binding 'b' denied request: failed to configure binding: why")
