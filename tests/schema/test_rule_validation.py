from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from aggserver.schema import structural
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.lazy_rules import compile_validator
from aggserver.schema.ratcheting import Correlation
from aggserver.schema.rules import OutOfPatienceError, RuleFindings, RuleOptions, RuleValidator
from aggserver.schema.structural import VALIDATIONS

CASES: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "cases" / "rules" / "objects.yaml").read_text())

INTEGERS = {"type": "array", "items": {"type": "integer"}}
# 100 elements squared are some 50,000 units.
SQUARED = "self.all(a, self.all(b, a + b >= 0))"
OUT_OF_BUDGET = (
    '<nil>: Invalid value: "object": validation failed due to running out of cost budget, no further validation rules will be run'
)


def expand(schema: Any) -> Any:
    """The schema with its `rules` as they are in a definition."""
    if isinstance(schema, list):
        return [expand(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    rules = [{"rule": rule} if isinstance(rule, str) else rule for rule in schema.get("rules", [])]
    rest = {name: expand(member) for name, member in schema.items() if name != "rules"}
    return {**rest, VALIDATIONS: rules} if rules else rest


def schema_of(spec: dict[str, Any], root: dict[str, Any] | None = None) -> dict[str, Any]:
    around = expand(root or {})
    return {"type": "object", **around, "properties": {**around.get("properties", {}), "spec": expand(spec)}}


def example(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Example", "metadata": {"name": "example"}, "spec": spec}


def findings(schema: dict[str, Any], obj: Any, old: Any = None, options: RuleOptions | None = None) -> RuleFindings:
    node = structural.compile(schema)
    validator = compile_validator(node, options or RuleOptions())
    if validator is None:
        return RuleFindings([], [])
    return validator.validate(obj, old, None if old is None else Correlation(obj, old, node))


def errors(found: RuleFindings) -> list[str]:
    return [str(error) for error in found.errors]


def validator_of(spec: dict[str, Any], options: RuleOptions | None = None) -> RuleValidator:
    validator = compile_validator(structural.compile(schema_of(spec)), options or RuleOptions())
    assert validator is not None
    return validator


@pytest.mark.parametrize("name", CASES)
def test_objects(name: str) -> None:
    case = CASES[name]
    given = case["given"]
    old = example(given["old"]) if "old" in given else None
    found = findings(schema_of(given["spec"], given.get("root")), example(given["value"]), old)
    assert errors(found) == case.get("errors", [])
    assert found.warnings == case.get("warnings", [])


def test_what_has_no_rules_has_no_validator() -> None:
    assert compile_validator(structural.compile({"type": "object", "properties": {"spec": INTEGERS}}), RuleOptions()) is None


# --- limits ---


def test_a_call_that_costs_too_much() -> None:
    spec = {**INTEGERS, "rules": [SQUARED, "false"]}
    found = findings(schema_of(spec), example([1] * 1000))
    assert errors(found) == [
        "spec: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be "
        f"run due to call cost exceeds limit for rule: {SQUARED}"
    ]


def test_a_larger_budget() -> None:
    spec = {**INTEGERS, "rules": [SQUARED, "false"]}
    found = findings(schema_of(spec), example([1] * 500), options=RuleOptions(budget=10))
    assert errors(found) == ["spec: Invalid value: failed rule: false"]


def test_calls_that_cost_too_much_together() -> None:
    rules = [f"{SQUARED} && {index} >= 0" for index in range(20)]
    found = findings(schema_of({**INTEGERS, "rules": [*rules, "false"]}), example([1] * 330))
    assert errors(found) == [OUT_OF_BUDGET.replace("<nil>", "spec").replace("object", "array")]


def test_nothing_is_left_for_the_next_node() -> None:
    rule = "self.all(a, self.all(b, true))"
    names = [f"n{index:02}" for index in range(30)]
    properties = {name: {**INTEGERS, "rules": [rule]} for name in names}
    found = findings(schema_of({"type": "object", "properties": properties}), example({name: [1] * 500 for name in names}))
    assert len(found.errors) == 1
    assert errors(found)[0].endswith(OUT_OF_BUDGET.removeprefix('<nil>: Invalid value: "object"'))


def test_a_message_that_costs_too_much() -> None:
    message = f"{SQUARED} ? 'a' : 'b'"
    spec = {**INTEGERS, "rules": [{"rule": "false", "messageExpression": message}, "false"]}
    found = findings(schema_of(spec), example([1] * 1000))
    assert errors(found) == [
        'spec: Invalid value: "array": no further validation rules will be run due to call cost exceeds limit for '
        f'messageExpression: "{message}"'
    ]


def test_a_message_for_which_nothing_is_left() -> None:
    message = f"{SQUARED} ? 'a' : 'b'"
    spec = {**INTEGERS, "rules": [{"rule": "false", "messageExpression": message}] * 20}
    found = findings(schema_of(spec), example([1] * 330))
    assert errors(found)[0] == "spec: Invalid value: a"
    assert errors(found)[-1] == (
        'spec: Invalid value: "array": messageExpression evaluation failed due to running out of cost budget, no further '
        "validation rules will be run"
    )
    assert len(found.errors) < 20


def test_limits_are_never_only_warnings() -> None:
    obj = example([1] * 1000)
    assert len(findings(schema_of({**INTEGERS, "rules": [SQUARED]}), obj, obj).errors) == 1


def test_patience() -> None:
    validator = validator_of({**INTEGERS, "rules": [SQUARED]})
    assert validator.validate(example([1] * 100), patience=100_000) == ([], [])
    with pytest.raises(OutOfPatienceError):
        validator.validate(example([1] * 100), patience=1000)


def test_patience_with_compiling() -> None:
    validator = validator_of({**INTEGERS, "rules": ["self.size() < 3"] * 10})
    with pytest.raises(OutOfPatienceError):
        validator.validate(example([1]), patience=500)
    assert validator.validate(example([1])) == ([], [])
    # Now it is compiled.
    assert validator.validate(example([1]), patience=500) == ([], [])


def test_no_patience_with_large_objects() -> None:
    # Nothing but what they are costs anything.
    validator = validator_of({**INTEGERS, "rules": ["true"]})
    assert validator.validate(example([1] * 100), patience=500) == ([], [])
    for obj, old in ((example([1] * 100_000), None), (example([1]), example([1] * 100_000))):
        with pytest.raises(OutOfPatienceError):
            validator.validate(obj, old, patience=500)
        assert validator.validate(obj, old) == ([], [])


def test_giving_up() -> None:
    validator = validator_of({**INTEGERS, "rules": ["self.size() < 3", "self.size() < 2", "self.size() < 1"]})
    asked = iter((False, False, True))
    found = validator.validate(example([1, 1, 1]), is_given_up=lambda: next(asked))
    assert errors(found)[:2] == [f"spec: Invalid value: failed rule: self.size() < {size}" for size in (3, 2)]
    assert "operation cancelled" in errors(found)[2]


LONG = {
    "a loop": "self.all(x, x == 1)",
    "loops within each other": "self.all(x, self.all(y, x == y))",
    "a loop, after something large is compared": "dyn(self) == dyn(self) && self.all(x, x == 1)",
    "a loop that meets an error": "self.all(x, 1 / (x - 1) == 1)",
}


@pytest.mark.parametrize("case", LONG)
def test_giving_up_within_a_rule(case: str) -> None:
    validator = validator_of({**INTEGERS, "rules": [LONG[case]]})
    asked = iter([False] * 8 + [True])
    found = validator.validate(example([1] * 100), is_given_up=lambda: next(asked))
    assert "operation cancelled" in errors(found)[0]


# --- options ---


def test_labels() -> None:
    spec, rule = {"type": "object"}, "self.metadata.labels['app'] == 'a' && !has(self.metadata.annotations)"
    obj = example({})
    obj["metadata"]["labels"] = {"app": "a"}
    assert "undefined field 'labels'" in errors(findings(schema_of(spec, {"rules": [rule]}), obj))[0]
    assert findings(schema_of(spec, {"rules": [rule]}), obj, options=RuleOptions(sees_labels=True)) == ([], [])


# --- beside other errors ---

BLOCKING = {
    "a missing field": {"a": 1},
    "a wrong type": {"a": "x", "b": 1},
    "a value that is not in the enum": {"a": 3, "b": 1},
    "too many items": {"a": 1, "b": 1, "l": [1, 2]},
    "a text that is too long": {"a": 1, "b": 1, "s": "xx"},
}
JUDGED = CompiledSchema(
    schema_of(
        {
            "type": "object",
            "required": ["b"],
            "properties": {
                "a": {"type": "integer", "enum": [1, 2]},
                "b": {"type": "integer", "minimum": 1},
                "l": {"type": "array", "maxItems": 1, "items": {"type": "integer"}},
                "s": {"type": "string", "maxLength": 1},
            },
            "rules": ["false"],
        }
    )
)


@pytest.mark.parametrize("case", BLOCKING)
def test_rules_are_not_asked_of_what_is_malformed(case: str) -> None:
    obj = example(BLOCKING[case])
    found = JUDGED.on_rules(obj, None, JUDGED.on_create(obj).values)
    assert errors(found) == [
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
        "errors to complete validation"
    ]


def test_other_errors_are_told_with_those_of_rules() -> None:
    obj = example({"a": 1, "b": 0})
    problems = JUDGED.on_create(obj).values
    assert [str(problem) for problem in problems] == [
        "spec.b: Invalid value: 0: spec.b in body should be greater than or equal to 1"
    ]
    assert errors(JUDGED.on_rules(obj, None, problems)) == ["spec: Invalid value: failed rule: false"]


def test_items_of_what_is_no_list() -> None:
    """No definition is accepted with that any more."""
    spec = {"type": "object", "items": {"type": "integer", "rules": ["self > 0"]}}
    assert errors(findings(schema_of(spec), example([1]))) == [
        'spec[0]: Invalid value: "integer": rule compiler initialization error: failed to convert to declType for CEL '
        "validation rules"
    ]
