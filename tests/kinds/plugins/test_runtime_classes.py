"""What a RuntimeClass adds to a Pod; `tests/integration/cases_kind_admission.py` compares it with kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.plugins.runtime_classes import apply_class


def _merged(*tolerations: dict[str, Any]) -> Any:
    spec: dict[str, Any] = {"tolerations": list(tolerations[:-1])}
    assert not apply_class(spec, {"scheduling": {"tolerations": [tolerations[-1]]}})
    return spec["tolerations"]


_ALL = {"operator": "Exists"}
_SOON = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
_LATE = {**_SOON, "tolerationSeconds": 9}
_ONE = {"key": "a", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 3}

TOLERATIONS = {
    # tolerations, the last of which is the class's; those that are left
    "equal": ([_SOON, _SOON], [_SOON]),
    "longer": ([_SOON, _LATE], [_LATE]),
    "shorter": ([_LATE, _SOON], [_LATE]),
    "one value": ([_ONE, _SOON], [_SOON]),
    "another key": ([{"key": "b"}, _SOON], [{"key": "b"}, _SOON]),
    "all": ([_SOON, _ONE, _ALL], [_ALL]),
    "without an operator": (
        [{"key": "a", "value": "v"}, {"key": "a", "operator": "Exists"}],
        [{"key": "a", "operator": "Exists"}],
    ),
    "that cover each other": ([{**_ALL, "value": "x"}, {**_ALL, "value": "y"}], [{**_ALL, "value": "y"}]),
}


@pytest.mark.parametrize(("tolerations", "left"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_tolerations(tolerations: list[dict[str, Any]], left: list[dict[str, Any]]) -> None:
    assert _merged(*tolerations) == left


def test_many_tolerations() -> None:
    """A Pod may have as many as fit into a request; comparing all with all would take minutes."""
    many = [{"key": "a", "operator": "Equal", "value": f"v{number}", "effect": "NoExecute"} for number in range(20_000)]
    assert len(_merged(*many, _ONE)) == 20_001
