"""Places: the nodes of a schema, written as paths like `.spec.items[]`, and the values that an object has at one.

`.` is the root, `[]` each item of a list or value of a map, `["a.b"]` a member whose name has dots or brackets. Pure.
Source of the cardinality: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/cel_validation.go, v0.36.3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aggserver.cel.ranges import LARGEST
from aggserver.schema.decl_type import MAX_REQUEST_SIZE, DeclType, declare
from aggserver.schema.escaping import escape
from aggserver.schema.ratcheting import MapList
from aggserver.schema.structural import Structural

__all__ = ["SchemaPlace", "Value", "find", "places", "values"]

_PLAIN = re.compile(r'[^.\[\]"]+')
_STEP = re.compile(rf'\.(?P<plain>{_PLAIN.pattern})|\[\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]')


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """A node of a schema. steps: the names of members; None for each item or value. declared: its type for expressions.

    bound: how often the place can occur in one object, by the limits of the lists and maps around it; None if one has no limit.
    """

    steps: tuple[str | None, ...]
    declared: DeclType
    bound: int | None = 1

    def __str__(self) -> str:
        return "".join(map(_step_text, self.steps)) or "."

    @property
    def cardinality(self) -> int:
        """How often the place can occur in one object. Without a bound: as often as it fits into a request."""
        return MAX_REQUEST_SIZE // (self.declared.min_size + 1) if self.bound is None else self.bound


@dataclass(frozen=True, slots=True)
class Value:
    """A value in an object. place: with indices and keys, such as `.spec.items[0]`. old: the previous value, None if none."""

    place: str
    value: Any
    old: Any


def places(root: Structural, *, sees_labels: bool = False) -> Iterator[SchemaPlace]:
    """All places of a resource that can have rules, from the root downwards."""
    declared = declare(root, is_resource=True, sees_labels=sees_labels)
    if declared is not None:
        yield from _below(SchemaPlace((), declared), sees_labels=sees_labels)


def _below(place: SchemaPlace, *, sees_labels: bool) -> Iterator[SchemaPlace]:
    yield place
    declared, node = place.declared, place.declared.node
    if declared.element is not None:
        limit = node.schema.get("maxItems" if node.items is not None else "maxProperties")
        bound = None if place.bound is None or limit is None else min(place.bound * max(limit, 0), LARGEST)
        yield from _below(SchemaPlace((*place.steps, None), declared.element, bound), sees_labels=sees_labels)
    for name, child in node.properties.items():
        identifier = escape(name)
        # A member that expressions can't name may still have rules of its own.
        below = (
            declare(child, is_resource=child.x_embedded_resource, sees_labels=sees_labels)
            if identifier is None
            else declared.fields.get(identifier)
        )
        if below is not None:
            yield from _below(SchemaPlace((*place.steps, name), below, place.bound), sees_labels=sees_labels)


def find(root: Structural, text: str, *, sees_labels: bool = False) -> SchemaPlace | None:
    """The place that a text names; None if no rules can be there. Raises ValueError if the text is malformed."""
    steps = _parse(text)
    return next((place for place in places(root, sees_labels=sees_labels) if place.steps == steps), None)


def _parse(text: str) -> tuple[str | None, ...]:
    steps: list[str | None] = []
    at = 0
    while text != "." and at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise ValueError('a place is written as .spec.items[].name, a member with a dot in its name as .spec["a.b"]')
        steps.append(json.loads(step["quoted"]) if step["quoted"] else step["plain"])
        at = step.end()
    return tuple(steps)


def _step_text(step: str | None) -> str:
    if step is None:
        return "[]"
    return f".{step}" if _PLAIN.fullmatch(step) else f"[{json.dumps(step, ensure_ascii=False)}]"


def values(root: Structural, place: SchemaPlace, obj: Any, old: Any = None) -> Iterator[Value]:
    """The values at a place, without nulls. As in rules, only the items of lists of type map have old values."""
    return _values(place.steps, root, "", obj, old)


def _values(steps: Sequence[str | None], node: Structural, at: str, value: Any, old: Any) -> Iterator[Value]:
    if value is None:
        return
    if not steps:
        yield Value(at or ".", value, old)
        return
    step, *rest = steps
    if isinstance(value, list):
        before = MapList(old if isinstance(old, list) else [], node)
        for index, item in enumerate(value):
            yield from _values(rest, node.items or _UNKNOWN, f"{at}[{index}]", item, before.find(item))
        return
    for name in value if step is None else {step} & value.keys():
        child = node.values if step is None else node.properties.get(name)
        member = old.get(name) if isinstance(old, dict) else None
        yield from _values(rest, child or _UNKNOWN, at + _step_text(name), value[name], member)


_UNKNOWN = Structural()
