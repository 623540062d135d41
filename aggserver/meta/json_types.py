"""Names for JSON objects in signatures, and how to copy one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["JSONMapping", "JSONObject", "json_copy"]

# A JSON object that its holder may change.
JSONObject = dict[str, Any]

# A JSON object that is only read.
JSONMapping = Mapping[str, Any]


def json_copy(value: Any) -> Any:
    """A copy that shares no list or object with `value`."""
    if isinstance(value, dict):
        return {key: json_copy(member) for key, member in value.items()}
    if isinstance(value, list):
        return [json_copy(member) for member in value]
    return value
