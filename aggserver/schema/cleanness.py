"""Cleanness: whether pruning would leave an object unchanged, checked by code generated for one schema.

Nearly every object that passes through the server is clean; the check looks at each member once, and stops at the first that
pruning would drop. It must agree with `pruning.py`, which is the only caller. Pure.
Source: that of `pruning.py`; upstream has no such check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from aggserver.meta.json_types import JSONObject
from aggserver.schema import object_meta
from aggserver.schema.generation import Module
from aggserver.schema.structural import TYPE_META, Structural

__all__ = ["compile_check", "is_null_dropped"]


def is_null_dropped(node: Structural | None) -> bool:
    """Whether a null member with this schema is dropped: it is not nullable and has no default to replace it."""
    return node is not None and not node.nullable and node.default is None


def compile_check(structural: Structural) -> Callable[[JSONObject], bool]:
    """A function that is true for a root object that pruning leaves unchanged; it ignores the object's own metadata."""
    check = _Generator().build(structural)

    def is_clean(obj: JSONObject) -> bool:
        try:
            check(obj)
        except (_UncleanError, KeyError):  # KeyError: an object or a list under an unknown field
            return False
        return True

    return is_clean


class _UncleanError(Exception):
    """Pruning would change the object."""


def _nothing_known(value: JSONObject) -> None:
    if value:
        raise _UncleanError


def _nothing_known_in(items: list[Any]) -> None:
    waiting = [items]
    while waiting:
        for item in waiting.pop():
            if isinstance(item, list):
                waiting.append(item)
            elif isinstance(item, dict) and item:
                raise _UncleanError


def _anything(value: Any) -> None:
    pass


def _check_embedded(resource: JSONObject) -> None:
    if not object_meta.is_well_formed(resource):
        raise _UncleanError


# Names in the generated source: the check for an object, and that for a list.
_Checks = tuple[str, str]
_FORBID: _Checks = ("nothing_known", "nothing_known_in")
_ALLOW: _Checks = ("anything", "anything")


@dataclass(frozen=True, slots=True)
class _Shape:
    """All that determines the function that checks an object; equal shapes share one function.

    keeps: unknown fields are preserved.
    extra: checks for the values under additionalProperties; None if there is none.
    nullable: fields that may be null. drops_null: other fields may not be null.
    embedded: the object is an embedded resource, whose metadata is checked too.
    """

    keeps: bool
    fields: tuple[tuple[str, _Checks], ...]
    extra: _Checks | None
    nullable: frozenset[str]
    drops_null: bool
    embedded: bool


class _Generator:
    def __init__(self) -> None:
        self._module = Module(
            nothing_known=_nothing_known,
            nothing_known_in=_nothing_known_in,
            anything=_anything,
            check_embedded=_check_embedded,
            Unclean=_UncleanError,
        )
        self._objects: dict[_Shape, str] = {}
        self._lists: dict[_Checks, str] = {}
        # Functions find the checks of fields in tables. These hold names until all functions have been built.
        self._tables: list[dict[str, Any]] = []

    def build(self, root: Structural) -> Callable[[JSONObject], None]:
        # The root's own metadata is pruned elsewhere (`compiled.py`).
        shape = replace(self._shape(replace(root, x_embedded_resource=True), keeps=False), embedded=False)
        check = self._object(shape)
        names = self._module.build()
        for table in self._tables:
            for key, name in table.items():
                table[key] = names[name]
        built: Callable[[JSONObject], None] = names[check]
        return built

    def _checks(self, node: Structural | None, *, keeps: bool) -> _Checks:
        """keeps: unknown fields are preserved at this node, because an enclosing list preserves them."""
        if node is None:
            return _ALLOW if keeps else _FORBID
        shape = self._shape(node, keeps=keeps)
        if shape not in self._objects:
            self._objects[shape] = self._object(shape)
        return self._objects[shape], self._list(self._checks(node.items, keeps=shape.keeps))

    def _shape(self, node: Structural, *, keeps: bool) -> _Shape:
        fields = {name: self._checks(child, keeps=False) for name, child in node.properties.items()}
        nullable = {name for name, child in node.properties.items() if not is_null_dropped(child)}
        if node.x_embedded_resource:
            fields.update(dict.fromkeys(TYPE_META, _ALLOW))
            nullable.update(name for name in TYPE_META if not is_null_dropped(node.properties.get(name, node.values)))
        return _Shape(
            keeps or node.x_preserve_unknown_fields,
            tuple(sorted(fields.items())),
            None if node.additional_properties is None else self._checks(node.values, keeps=False),
            frozenset(nullable),
            is_null_dropped(node.values),
            node.x_embedded_resource,
        )

    def _list(self, items: _Checks) -> str:
        if items in (_FORBID, _ALLOW):
            return items[1]
        if items not in self._lists:
            of_object, of_list = items
            body = ("for v in x:", "  c = v.__class__", f"  if c is dict: {of_object}(v)", f"  elif c is list: {of_list}(v)")
            self._lists[items] = self._module.function("check_list", body)
        return self._lists[items]

    def _object(self, shape: _Shape) -> str:
        if shape.extra is None and not shape.fields:
            return _ALLOW[0] if shape.keeps else _FORBID[0]
        body = ["check_embedded(x)"] if shape.embedded else []
        body += self._open(shape) if shape.keeps or shape.extra is not None else self._closed(shape)
        return self._module.function("check", body)

    def _closed(self, shape: _Shape) -> list[str]:
        """Check an object whose fields must all be known. Strings are tested first, since they are the most frequent."""
        objects, lists = self._dispatch(shape.fields)
        return [
            "for k, v in x.items():",
            "  c = v.__class__",
            "  if c is str:",
            f"    if k not in {objects}: raise Unclean",
            f"  elif c is dict: {objects}[k](v)",
            f"  elif c is list: {lists}[k](v)",
            "  elif v is None:",
            f"    if k not in {self._module.bind('nullable', shape.nullable)}: raise Unclean",
            f"  elif k not in {objects}: raise Unclean",
        ]

    def _open(self, shape: _Shape) -> list[str]:
        """Check an object that may have other fields too."""
        of_object, of_list = shape.extra or _ALLOW
        bad_null = str(shape.drops_null)
        if shape.fields:
            objects, lists = self._dispatch(shape.fields)
            of_object, of_list = f"{objects}.get(k, {of_object})", f"{lists}.get(k, {of_list})"
            nullable = self._module.bind("nullable", shape.nullable)
            bad_null = f"k not in {nullable}" + ("" if shape.drops_null else f" and k in {objects}")
        return [
            "for k, v in x.items():",
            "  c = v.__class__",
            f"  if c is dict: {of_object}(v)",
            f"  elif c is list: {of_list}(v)",
            f"  elif v is None and {bad_null}: raise Unclean",
        ]

    def _dispatch(self, fields: Iterable[tuple[str, _Checks]]) -> tuple[str, str]:
        objects, lists = {name: pair[0] for name, pair in fields}, {name: pair[1] for name, pair in fields}
        self._tables += (objects, lists)
        return self._module.bind("objects", objects), self._module.bind("lists", lists)
