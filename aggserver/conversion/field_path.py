"""FieldPath: a field of an object as conversion rules name it, `.spec.replicas` or `.spec.limits["nvidia.com/gpu"]`.

Paths do not go through lists. `take` also removes the parents that it leaves empty, and `put` creates missing parents. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aggserver.cel.values import MISSING
from aggserver.meta.json_types import JSONObject

__all__ = ["FieldPath", "parse", "put", "read", "take"]

_PART = re.compile(r"""\.(?P<name>[^.\[\]"'\s]+)|\[(?P<key>"(?:[^"\\]|\\.)+"|'[^'\\]+')\]""")
# A name that can stand after a point.
_PLAIN = re.compile(r"""[^.\[\]"'\s]+""")
# Parts of a path; an object has at most 250 levels, and no schema in use has more than some twenty.
_MAX_PARTS = 64


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A path of members. parts: their names from the root; at least one."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f".{part}" if _PLAIN.fullmatch(part) else f"[{json.dumps(part)}]" for part in self.parts)

    def __truediv__(self, part: str) -> FieldPath:
        return FieldPath((*self.parts, part))


def parse(text: str) -> FieldPath:
    """The path that a text names. Raises ValueError, which says what is wrong."""
    parts = []
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise ValueError(_problem(text, at))
        parts.append(found["name"] if found["name"] is not None else _unquoted(found["key"]))
        at = found.end()
    if not parts:
        raise ValueError('must be a field path, such as .spec.replicas or .metadata.annotations["example.com/note"]')
    if len(parts) > _MAX_PARTS:
        raise ValueError(f"must have at most {_MAX_PARTS} parts")
    return FieldPath(tuple(parts))


def _problem(text: str, at: int) -> str:
    if text[at:].startswith(("[]", "[*]")) or re.match(r"\[\d", text[at:]):
        return "must not go into a list: change its items by `each`"
    if at == 0 and text[:1] not in (".", "["):
        return 'must start with a point, such as .spec.replicas; other keys than names are written as ["nvidia.com/gpu"]'
    return f'must be a field path, such as .spec.replicas or .spec.limits["nvidia.com/gpu"]; not understood: {text[at:]}'


def _unquoted(text: str) -> str:
    if text[0] == "'":
        return text[1:-1]
    try:
        key: str = json.loads(text)
    except ValueError:
        raise ValueError(f"must have keys that are JSON strings; not understood: {text}") from None
    return key


def read(obj: Any, path: FieldPath) -> Any:
    """The value of the field; MISSING if the object does not have it."""
    for part in path.parts:
        if type(obj) is not dict or part not in obj:
            return MISSING
        obj = obj[part]
    return obj


def take(obj: JSONObject, path: FieldPath, kept: int) -> Any:
    """Remove the field and return its value; MISSING if there is none.

    Parents that become empty are removed too, except the first `kept` parts of the path.
    """
    parents = list(_parents(obj, path))
    if len(parents) < len(path.parts) or path.parts[-1] not in parents[-1]:
        return MISSING
    value = parents[-1].pop(path.parts[-1])
    for depth in range(len(parents) - 1, kept, -1):
        if parents[depth]:
            break
        del parents[depth - 1][path.parts[depth - 1]]
    return value


def _parents(obj: JSONObject, path: FieldPath) -> Iterator[JSONObject]:
    """The objects that the path goes through, the root first, as far as they exist."""
    for part in path.parts:
        yield obj
        inner = obj.get(part)
        if type(inner) is not dict:
            return
        obj = inner


def put(obj: JSONObject, path: FieldPath, value: Any) -> None:
    """Set the field. Parents that are missing, or no objects, become objects."""
    for part in path.parts[:-1]:
        inner = obj.get(part)
        if type(inner) is not dict:
            inner = obj[part] = {}
        obj = inner
    obj[path.parts[-1]] = value
