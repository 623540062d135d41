"""Laws of validation: the generated form and the plain one agree, and an update never has errors that a creation has not."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given

from aggserver.schema import list_type, object_meta, structural
from aggserver.schema.ratcheting import Correlation
from aggserver.schema.validation import validate
from aggserver.schema.validity import Validity
from tests.property.schemas import cases, updates


@given(cases())
def test_the_generated_form_finds_what_the_plain_one_finds(case: tuple[dict[str, Any], Any]) -> None:
    schema, value = case
    before = copy.deepcopy(case)
    tree = structural.compile(schema)
    found = [*validate(value, schema), *object_meta.validate_resources(value, tree), *list_type.duplicates(value, tree)]
    is_valid = Validity()
    assert is_valid(value, schema) == is_valid(value, schema) == (not found)
    assert case == before


@given(updates())
def test_ratcheting_only_drops_errors(case: tuple[dict[str, Any], Any, Any]) -> None:
    schema, value, old = case
    tree = structural.compile(schema)
    told = list(map(str, validate(value, schema, correlation=Correlation(value, old, tree))))
    assert told == list(map(str, validate(value, schema, correlation=Correlation(value, old, tree), passes=Validity())))
    # The others stay in their order; the same text may stand there more often than once.
    errors = map(str, validate(value, schema))
    assert all(text in errors for text in told)
    if Correlation(value, value, tree).is_unchanged():
        assert validate(value, schema, correlation=Correlation(value, value, tree)) == []
