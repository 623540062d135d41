"""Names for JSON objects in signatures. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["JSONMapping", "JSONObject"]

# A tree that its holder may change.
JSONObject = dict[str, Any]

# A tree that is only read.
JSONMapping = Mapping[str, Any]
