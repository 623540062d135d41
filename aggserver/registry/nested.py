"""Values at simple dotted paths (`.spec.replicas`) of an object, with upstream's error texts for values of the wrong type.

Pure. Source: k8s.io/apimachinery pkg/apis/meta/v1/unstructured/helpers.go, v0.36.3.
"""

from __future__ import annotations

from typing import Any

from aggserver.meta.golang import format_float
from aggserver.meta.json_types import JSONObject

__all__ = ["NestedError", "find_integer", "find_string", "go_text", "go_type", "put", "steps"]

_MISSING = object()


class NestedError(ValueError):
    """A value of the wrong type, at the path or on the way to it."""


def steps(path: str) -> list[str]:
    """The names in a path."""
    return path.removeprefix(".").split(".")


def find_integer(obj: JSONObject, path: str) -> int | None:
    """The integer at a path, None if there is none. Raises NestedError."""
    value = _find(obj, path)
    if value is _MISSING:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise _mismatch(path, value, "int64")
    return value


def find_string(obj: JSONObject, path: str) -> str | None:
    """The string at a path, None if there is none. Raises NestedError."""
    value = _find(obj, path)
    if value is _MISSING:
        return None
    if not isinstance(value, str):
        raise _mismatch(path, value, "string")
    return value


def put(obj: JSONObject, path: str, value: Any) -> None:
    """Set a value, creating missing objects on the way to it. Raises NestedError if a value on the way is not an object."""
    here = obj
    *way, last = steps(path)
    for count, step in enumerate(way, 1):
        here = here.setdefault(step, {})
        if not isinstance(here, dict):
            raise NestedError(f"value cannot be set because .{'.'.join(way[:count])} is not a map[string]interface{{}}")
    here[last] = value


def _find(obj: JSONObject, path: str) -> Any:
    here: Any = obj
    way: list[str] = []
    for step in steps(path):
        if here is None:
            return _MISSING
        if not isinstance(here, dict):
            raise _mismatch("." + ".".join([*way, step]), here, "map[string]interface{}")
        if step not in here:
            return _MISSING
        here = here[step]
        way.append(step)
    return here


def _mismatch(path: str, value: Any, wanted: str) -> NestedError:
    return NestedError(
        f".{path.removeprefix('.')} accessor error: {go_text(value)} is of the type {go_type(value)}, expected {wanted}"
    )


def go_text(value: Any) -> str:
    """A JSON value as Go's %v formats it: `<nil>`, `[a 1]`, `map[a:1]`."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float(value)
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    return str(value)


def go_type(value: Any) -> str:
    """The name of a JSON value's type in Go."""
    if value is None:
        return "<nil>"
    for kind, name in ((bool, "bool"), (int, "int64"), (float, "float64"), (str, "string"), (list, "[]interface {}")):
        if isinstance(value, kind):
            return name
    return "map[string]interface {}"
