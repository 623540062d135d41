"""Keys and sizes of data; `tests/integration/cases_kind_updates.py` asks kube-apiserver the same."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.kind_rules import kind_problems

# Type, object, and the fields that have errors.
CASES: dict[str, tuple[str, Any, list[str]]] = {
    "keys": ("core/v1.ConfigMap", {"data": {"a.B_c-1": ""}, "binaryData": {"b": ""}}, []),
    "empty key": ("core/v1.Secret", {"data": {"": ""}}, ["data[]"]),
    "space": ("core/v1.Secret", {"data": {"a b": ""}}, ["data[a b]"]),
    "folders": ("core/v1.Secret", {"data": {".": "", "..": "", "..a": "", ".a": ""}}, ["data[.]", "data[..]", "data[..a]"]),
    "line end": ("core/v1.Secret", {"data": {"a\n": ""}}, ["data[a\n]"]),
    "long key": ("core/v1.Secret", {"data": {"a" * 254: ""}}, [f"data[{'a' * 254}]"]),
    "full": ("core/v1.ConfigMap", {"data": {"a": "a" * 2**20}}, []),
    "too full": ("core/v1.ConfigMap", {"data": {"a": "a" * 2**20}, "binaryData": {"b": "YQ=="}}, ["[]"]),
    "full Secret": ("core/v1.Secret", {"data": {"a": "YWFh" * 349525 + "YQ=="}}, []),
    "too full a Secret": ("core/v1.Secret", {"data": {"a": "YWFh" * 349525, "b": "YWE="}}, ["data"]),
    "both data": ("core/v1.ConfigMap", {"data": {"a": ""}, "binaryData": {"a": ""}}, ["data[a]"]),
}


@pytest.mark.parametrize("name", CASES)
def test_problems(name: str) -> None:
    type_name, obj, wanted = CASES[name]
    assert [problem.field for problem in kind_problems(type_name, obj)] == wanted
    assert kind_problems(type_name, obj, obj) == []
