"""The rules of defaulting in their plain form, for tests to hold what is generated against. It counts no bytes."""

from __future__ import annotations

import copy
from typing import Any

from aggserver.schema.structural import Structural


def default(value: Any, node: Structural | None) -> None:
    """Fills in `value`, in place."""
    if node is None:
        return
    if isinstance(value, dict):
        for name, child in node.properties.items():
            if child.default is not None and (name not in value or _is_bad_null(value[name], child)):
                value[name] = copy.deepcopy(child.default)
        for key in value:
            child_of_key = node.properties.get(key)
            if child_of_key is None:
                _default_entry(value, key, node.values)
            else:
                default(value[key], child_of_key)
    elif isinstance(value, list):
        for index in range(len(value)):
            _default_entry(value, index, node.items)


def _default_entry(container: Any, key: Any, node: Structural | None) -> None:
    """An item of a list, or a value of a map."""
    if node is not None and node.default is not None and _is_bad_null(container[key], node):
        container[key] = copy.deepcopy(node.default)
    default(container[key], node)


def _is_bad_null(value: Any, node: Structural) -> bool:
    return value is None and not node.nullable
