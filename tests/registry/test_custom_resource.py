from __future__ import annotations

from typing import Any

import pytest

from aggserver.meta import jsonpath
from aggserver.registry.custom_resource import read_fields

FIELDS: dict[str, tuple[Any, str]] = {
    "a string": ({"spec": {"x": "red"}}, "red"),
    "true": ({"spec": {"x": True}}, "true"),
    "false": ({"spec": {"x": False}}, "false"),
    "a number": ({"spec": {"x": 42}}, "42"),
    "null": ({"spec": {"x": None}}, ""),
    "not there": ({"spec": {}}, ""),
    "nothing on the way": ({}, ""),
}


@pytest.mark.parametrize("case", FIELDS)
def test_selectable_fields(case: str) -> None:
    obj, value = FIELDS[case]
    assert read_fields({"spec.x": jsonpath.compile(".spec.x")})(obj) == {"spec.x": value}
