"""Rules, compiled: types, costs and errors as upstream has them (tests/cases/rules/compile.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from aggserver.meta.json_types import JSONObject
from aggserver.schema import structural
from aggserver.schema.compiled_rules import compile_rules
from aggserver.schema.decl_type import MAX_REQUEST_SIZE, DeclType, declare
from aggserver.schema.structural import EMBEDDED

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "rules" / "compile.yaml").read_text())
ANSWERS = ("cost", "message_cost", "uses_old_self", "field_path", "error", "message_error")


def declared(schema: JSONObject, **more: Any) -> DeclType:
    found = declare(structural.compile(schema), **more)
    assert found is not None
    return found


def compiled(rules: list[JSONObject], type_: DeclType) -> list[JSONObject]:
    """What is said of each rule; what is nothing is left out."""
    answers = []
    for each in compile_rules(rules, type_):
        expression, message = each.expression, each.message
        assert (expression.program() is None) == (bool(expression.error) or not (each.rule["rule"] or "").strip())
        values = (
            *(expression.max_cost(), message.max_cost(), expression.uses_old_self),
            *(each.field_path.text, expression.error, message.error),
        )
        answers.append({name: value for name, value in zip(ANSWERS, values, strict=True) if value})
    return answers


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_compile(case: JSONObject) -> None:
    schema = case["schema"]
    type_ = declared(schema, is_resource=case.get("root", False) or EMBEDDED in schema)
    rules = [{name: value for name, value in rule.items() if name not in ANSWERS} for rule in case["rules"]]
    expected = [{name: value for name, value in rule.items() if name in ANSWERS} for rule in case["rules"]]
    assert compiled(rules, type_) == expected
    if "count" in case:
        assert MAX_REQUEST_SIZE // (type_.min_size + 1) == case["count"]


def test_labels_for_those_who_want_them() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-embedded-resource": True}}}
    rules = [{"rule": "self.metadata.labels['a'] == self.metadata.annotations['b']"}, {"rule": "has(self.spec.metadata.labels)"}]
    refused = [each["error"] for each in compiled(rules, declared(schema, is_resource=True))]
    assert ["undefined field 'labels'" in error for error in refused] == [True, True]
    # They have no limits.
    assert compiled(rules, declared(schema, is_resource=True, sees_labels=True)) == [{"cost": 314581}, {"cost": 3}]
