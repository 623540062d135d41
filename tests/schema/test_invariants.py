"""What a structural schema may have below allOf; tests/apiextensions has the answers of kube-apiserver for the rest."""

from __future__ import annotations

import pytest

from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.schema import invariants

ALLOWED: JSONObject = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
NOTED = ["s.allOf[1].anyOf[0].type", "s.allOf[1].anyOf[1].type"]

# name: (allOf, the places of errors).
ALL_OF: dict[str, tuple[list[JSONObject], list[str]]] = {
    "first": ([ALLOWED], []),
    "first and second": ([ALLOWED, ALLOWED], NOTED),
    "second": ([{"minimum": 1}, ALLOWED], NOTED),
}


@pytest.mark.parametrize("name", ALL_OF)
def test_the_types_of_an_integer_or_a_string(name: str) -> None:
    all_of, places = ALL_OF[name]
    found = invariants.violations({"x-kubernetes-int-or-string": True, "allOf": all_of}, Path("s"))
    assert [error.field for error in found if "allOf" in error.field] == places
