"""Schemas of definitions: kube-apiserver's errors of each (tests/cases), found by invariants, defaults, constructs, rule_costs.

Whether the root may be null is for tests/apiextensions.
"""

from __future__ import annotations

from pathlib import Path as File

import pytest
import yaml

from aggserver.meta.field import FieldError, Path, invalid
from aggserver.meta.json_types import JSONObject
from aggserver.schema import constructs, invariants, rule_costs, structural
from aggserver.schema.constructs import Strictness
from aggserver.schema.defaults import validate_defaults
from aggserver.schema.rules import UPSTREAM

FILES = ("crd_schemas.yaml", "rules/definitions.yaml")
CASES = [case for name in FILES for case in yaml.safe_load((File(__file__).parents[1] / "cases" / name).read_text())]
AT = Path("s")


def errors(schema: JSONObject) -> list[FieldError]:
    if why := invariants.unsupported(schema):
        return [*constructs.violations(schema, AT, Strictness())[0]] or [invalid(AT, "", why)]
    structural_errors = invariants.violations(schema, AT) or validate_defaults(structural.compile(schema), AT)
    found, faulty = constructs.violations(schema, AT, Strictness())
    rules = [] if structural_errors else rule_costs.violations(schema, AT, faulty, UPSTREAM, unchanged=False)
    return [*structural_errors, *found, *rules]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_errors(case: JSONObject) -> None:
    expected = [text for text in case["errors"] if not text.startswith("s.nullable: ")]
    assert [str(error) for error in errors(case["schema"])] == expected
