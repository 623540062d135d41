"""PriorityClasses: which names and values are reserved for the system.

Pure. Source: k8s.io/kubernetes pkg/apis/scheduling/{validation,v1/helpers.go}, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from aggserver.kinds.plugins.additions import CRITICAL
from aggserver.meta.field import FieldError, Path, forbidden
from aggserver.meta.json_types import JSONObject

__all__ = ["priority_class_problems"]

_PREFIX = "system-"
_HIGHEST = 1_000_000_000


def priority_class_problems(obj: JSONObject) -> Iterator[FieldError]:
    name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
    if name.startswith(_PREFIX):
        if why := _unlike_the_systems(name, value, is_default=bool(obj.get("globalDefault"))):
            text = f"priority class names with '{_PREFIX}' prefix are reserved for system use only. error: {why}"
            yield forbidden(Path("metadata").child("name"), text)
    elif value > _HIGHEST:
        yield forbidden(Path("value"), f"maximum allowed value of a user defined priority is {_HIGHEST}")


def _unlike_the_systems(name: str, value: int, *, is_default: bool) -> str:
    known = CRITICAL.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known["value"]:
        return f"value of {name} PriorityClass must be {known['value']}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""
