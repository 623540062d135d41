"""What rules see of values, by tables that kube-apiserver's own packages have judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from aggserver.cel.values import NONE, CELError, Optional
from aggserver.schema import structural
from aggserver.schema.compiled_rules import SchemaExpression, compile_rules
from aggserver.schema.decl_type import declare

GROUPS = yaml.safe_load((Path(__file__).parents[1] / "cases/rules/values.yaml").read_text())
RULES = {f"{group}: {name}": (group, name) for group in GROUPS for name in GROUPS[group].get("rules", ())}
TEXTS = {f"{group}: {text}": (group, text) for group in GROUPS for text in GROUPS[group].get("texts", ())}
BUDGET = 1_000_000


def compiled(group: dict[str, Any], rule: str) -> SchemaExpression:
    declared = declare(structural.compile(group["schema"]), is_resource=group.get("resource", False))
    assert declared is not None
    return compile_rules([{"rule": rule, "optionalOldSelf": group.get("optionalOldSelf")}], declared)[0].expression


def evaluated(expression: SchemaExpression, value: Any, old: Any) -> list[Any]:
    """The verdict and its cost, or the error."""
    program = expression.program()
    if program is None:
        return [expression.error.splitlines()[0].removeprefix("compilation failed: ")]
    try:
        return list(program({"self": value, "oldSelf": old}, BUDGET))
    except CELError as error:
        return [f"error: {error}"]


@pytest.mark.parametrize("case", RULES)
def test_rules(case: str) -> None:
    group, name = GROUPS[RULES[case][0]], RULES[case][1]
    rule, *expected = group["rules"][name]
    old = group.get("oldSelf")
    if group.get("optionalOldSelf"):
        old = NONE if old is None else Optional(old)
    expression = compiled(group, rule)
    most = [expression.max_cost()] if len(expected) == 3 else []
    assert evaluated(expression, group["self"], old) + most == expected


@pytest.mark.parametrize("case", TEXTS)
def test_texts(case: str) -> None:
    """Values of a format, printed: of bytes how many there are."""
    group, text = GROUPS[TEXTS[case][0]], TEXTS[case][1]
    seen = "string(self.size())" if group["schema"]["format"] == "byte" else "string(self)"
    expected = group["texts"][text]
    error = expected.removeprefix("error: ")
    rule = f"{seen} == 'never'" if error != expected else f"{seen} == '{expected}'"
    assert evaluated(compiled(group, rule), text, None)[0] == (True if error == expected else expected)
