"""`jsonpatch.escapeKey`, which makes a key part of the path of a JSON patch. Only expressions that make patches may call it.

Source: k8s.io/apiserver pkg/cel/library/jsonpatch.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["IMPLEMENTATIONS"]

IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "string_jsonpatch_escapeKey_string": lambda key: key.replace("~", "~0").replace("/", "~1"),
}
