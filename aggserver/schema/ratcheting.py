"""Ratcheting: finds the parts of an object that an update leaves unchanged.

An object that became invalid under a newer schema can still be changed elsewhere: errors of unchanged values are dropped. A
`Correlation` finds the old value of each value. Members of objects correlate by name, items of lists of type map by their keys,
other items not at all; values without a schema never count as unchanged. Pure.
Source: k8s.io/apiserver pkg/cel/common/{equality,maplist}.go; k8s.io/apiextensions-apiserver
pkg/apiserver/validation/ratcheting.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from aggserver.meta import codec
from aggserver.schema.structural import Structural

__all__ = ["Correlation", "MapList"]


class MapList:
    """Finds items of a list of type map by their keys; it finds nothing in a list of another type."""

    __slots__ = ("_items", "_node")

    def __init__(self, items: list[Any], node: Structural) -> None:
        self._node = node
        self._items: dict[Hashable, Any] = {}
        if node.type == "array" and node.list_type == "map" and node.list_map_keys:
            for item in items:
                if (key := self._key_of(item)) is not None:
                    self._items.setdefault(key, item)

    def find(self, item: Any) -> Any:
        """The first item with the same keys as `item`, or None."""
        if not self._items or (key := self._key_of(item)) is None:
            return None
        return self._items.get(key)

    def _key_of(self, item: Any) -> Hashable | None:
        """The values of an item's keys; None if one is missing or not a scalar. Types count: 1 is not true."""
        if not isinstance(item, dict):
            return None
        values = [item.get(name) for name in self._node.list_map_keys]
        if not all(isinstance(value, bool | int | float | str) for value in values):
            return None
        return tuple((type(value), value) for value in values)


class Correlation:
    """A value with its old value and their schema. Caches results, so it must be used for one validation only."""

    __slots__ = ("_children", "_old", "_old_items", "_structural", "_unchanged", "_value")

    def __init__(self, value: Any, old: Any, structural: Structural) -> None:
        self._value = value
        self._old = old
        self._structural = structural
        self._children: dict[str | int, Correlation | None] = {}
        self._unchanged: bool | None = None
        self._old_items: MapList | None = None

    def key(self, name: str) -> Correlation | None:
        """The correlation of a member; None if there was no old one, or the schema does not specify it."""
        return self._child(name, self._make_member)

    def index(self, index: int) -> Correlation | None:
        """The correlation of an item of a list of type map; None in other lists."""
        return self._child(index, self._make_item)

    def is_unchanged(self) -> bool:
        if self._unchanged is None:
            self._unchanged = self._compare()
        return self._unchanged

    def _child(self, name: Any, make: Callable[[Any], Correlation | None]) -> Correlation | None:
        if name not in self._children:
            self._children[name] = make(name)
        return self._children[name]

    def _make_member(self, name: str) -> Correlation | None:
        if not isinstance(self._value, dict) or not isinstance(self._old, dict) or name not in self._old:
            return None
        child = self._structural.properties.get(name, self._structural.values)
        return None if child is None else Correlation(self._value[name], self._old[name], child)

    def _make_item(self, index: int) -> Correlation | None:
        node = self._structural
        if node.items is None or not isinstance(self._old, list):
            return None
        if self._old_items is None:
            self._old_items = MapList(self._old, node)
        old = self._old_items.find(self._value[index])
        return None if old is None else Correlation(self._value[index], old, node.items)

    def _compare(self) -> bool:
        value, old = self._value, self._old
        if isinstance(value, dict) and isinstance(old, dict):
            children = (self.key(name) for name in value)
            return len(value) == len(old) and all(child is not None and child.is_unchanged() for child in children)
        if isinstance(value, list) and isinstance(old, list):
            if len(value) != len(old):
                return False
            if self._structural.list_type != "map":
                return codec.same(value, old)
            items = (self.index(index) for index in range(len(value)))
            return all(child is not None and child.is_unchanged() for child in items)
        return codec.same(value, old)
