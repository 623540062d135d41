"""Lists of type set and map: duplicate items, or items with duplicate keys.

On an update, they are errors only if the old object had none (`compiled.py`). Pure.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/listtype/validation.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import orjson

from aggserver.meta import field
from aggserver.meta.field import FieldError, Path
from aggserver.schema.structural import Structural

__all__ = ["duplicates", "has_duplicates"]


def duplicates(value: Any, node: Structural | None, path: Path | None = None) -> list[FieldError]:
    """An error for each repeated item, at its second occurrence only."""
    at = path or Path()
    if node is None:
        return []
    if isinstance(value, list):
        found = _in_list(value, node.list_type, node.list_map_keys, at)
        if node.items is not None:
            for index, item in enumerate(value):
                if isinstance(item, dict | list):
                    found += duplicates(item, node.items, at.index(index))
        return found
    if not isinstance(value, dict):
        return []
    found = []
    if node.values is not None:
        for name in sorted(value):
            if isinstance(value[name], dict | list):
                found += duplicates(value[name], node.values, at.key(name))
    for name in sorted(value.keys() & node.properties.keys()):
        if isinstance(value[name], dict | list):
            found += duplicates(value[name], node.properties[name], at.child(name))
    return found


def has_duplicates(items: list[Any], list_type: str, keys: Sequence[str]) -> bool:
    """Whether the list itself has duplicates; lists within its items are not checked."""
    try:
        # Python treats more values as equal than Go (1 and True): if it finds no duplicates, there are none.
        if list_type == "set":
            different = set(items)
        elif len(keys) == 1:
            different = {item.get(keys[0]) for item in items}
        else:
            different = {tuple([item.get(key) for key in keys]) for item in items}
        if len(different) == len(items):
            return False
    except (TypeError, AttributeError):  # items that are not hashable, or are no objects
        pass
    return bool(_in_list(items, list_type, keys, Path()))


def _in_list(items: list[Any], list_type: str, keys: Sequence[str], path: Path) -> list[FieldError]:
    if list_type == "set":
        return [field.duplicate(path.index(index), items[index]) for index in _repeated(map(_identity, items))]
    if list_type != "map":
        return []
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            return [field.invalid(path.index(index), item, "must be an object for an array of list-type map")]
    identities = (tuple([_identity(item[key]) if item and key in item else None for key in keys]) for item in items)
    return [
        field.duplicate(path.index(index), {key: items[index][key] for key in keys if key in (items[index] or ())})
        for index in _repeated(identities)
    ]


def _identity(value: Any) -> Hashable:
    """A key that is equal for values that are equal in Go: 1 is not true."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) if isinstance(value, dict | list) else (type(value), value)


def _repeated(identities: Iterable[Hashable]) -> list[int]:
    """The indexes of second occurrences."""
    times: dict[Hashable, int] = {}
    found = []
    for index, identity in enumerate(identities):
        times[identity] = times.get(identity, 0) + 1
        if times[identity] == 2:
            found.append(index)
    return found
