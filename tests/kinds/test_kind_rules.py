"""Names of containers and keys of data; `tests/integration/cases_kind_updates.py` asks kube-apiserver the same."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.kind_rules import kind_problems


def _pod(*names: str, first: tuple[str, ...] = ()) -> Any:
    return {"spec": {"containers": [{"name": name} for name in names], "initContainers": [{"name": name} for name in first]}}


# Type, object, and the fields that have errors.
CASES: dict[str, tuple[str, Any, list[str]]] = {
    "names": ("core/v1.Pod", _pod("a", "b", first=("c",)), []),
    "dots": ("core/v1.Pod", _pod("a.b"), ["spec.containers[0].name"]),
    "long": ("core/v1.Pod", _pod("a" * 64), ["spec.containers[0].name"]),
    "twice": ("core/v1.Pod", _pod("a", "a", first=("a",)), ["spec.containers[1].name", "spec.initContainers[0].name"]),
    "template": ("apps/v1.Deployment", {"spec": {"template": _pod("A")}}, ["spec.template.spec.containers[0].name"]),
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
    "tolerations": ("core/v1.Pod", {"spec": {"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b"}]}}, []),
    "wrong tolerations": (
        "batch/v1.Job",
        {
            "spec": {
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "tolerations": [
                            {"value": "a"},
                            {"key": "a b", "operator": "Exists", "value": "c"},
                            {"key": "a", "value": "b c", "tolerationSeconds": 3},
                        ],
                    }
                }
            }
        },
        [
            f"spec.template.spec.tolerations[{where}"
            for where in ("0].operator", "1].key", "1].operator", "2].effect", "2].operator")
        ],
    ),
    "both data": ("core/v1.ConfigMap", {"data": {"a": ""}, "binaryData": {"a": ""}}, ["data[a]"]),
}


@pytest.mark.parametrize("name", CASES)
def test_problems(name: str) -> None:
    type_name, obj, wanted = CASES[name]
    assert [problem.field for problem in kind_problems(type_name, obj)] == wanted
    assert kind_problems(type_name, obj, obj) == []
