"""Compatibility: what of a changed schema can refuse or drop parts of objects that were written under the old one.

Objects are stored under the old schema until somebody writes them again: a field that is no longer there is dropped then, and a
rule that has become narrower refuses the write of a client that has changed something else. Pure.
Source: none; kube-apiserver accepts every change of a definition's schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aggserver.meta.json_types import JSONMapping

__all__ = ["incompatible"]

_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
# Keyword -> whether a larger number is narrower.
_BOUNDS = {
    "minimum": True,
    "maximum": False,
    "minLength": True,
    "maxLength": False,
    "minItems": True,
    "maxItems": False,
    "minProperties": True,
    "maxProperties": False,
}
_TEXTS = ("pattern", "format", "multipleOf", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-list-map-keys")
_WIDER = {("integer", "number")}


def incompatible(old: JSONMapping, new: JSONMapping) -> list[str]:
    """Each as `.spec.size: what has changed`, in the order of the old schema. Both are structural schemas, as written."""
    return [f"{path or '.'}: {text}" for path, text in _changes(old, new, "")]


def _changes(old: JSONMapping, new: JSONMapping, path: str) -> Iterator[tuple[str, str]]:
    before, after = _type(old), _type(new)
    if before and before != after and (before, after) not in _WIDER and not (not after and new.get(_PRESERVES)):
        yield path, f"the type was {before} and is {after or 'any'}"
        return
    if not before and after:
        yield path, f"any value was allowed, and now only {after}"
    yield from ((path, text) for text in _narrower(old, new))
    yield from _properties(old, new, path)
    items, values = (old.get("items"), new.get("items")), (old.get("additionalProperties"), new.get("additionalProperties"))
    for (one, other), name in ((items, "[]"), (values, "{}")):
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _changes(one, other, path + name)
    if isinstance(values[0], Mapping) and not isinstance(values[1], Mapping) and not new.get(_PRESERVES):
        yield path, "members of any name were kept, and now are dropped"


def _type(node: JSONMapping) -> str:
    return "integer or string" if node.get(_INT_OR_STRING) else node.get("type") or ""


def _properties(old: JSONMapping, new: JSONMapping, path: str) -> Iterator[tuple[str, str]]:
    before, after = old.get("properties") or {}, new.get("properties") or {}
    values = new.get("additionalProperties")
    for name, node in before.items():
        child = after.get(name)
        if child is not None:
            yield from _changes(node, child, f"{path}.{name}")
        elif isinstance(values, Mapping):
            yield from _changes(node, values, f"{path}.{name}")
        elif not new.get(_PRESERVES):
            yield f"{path}.{name}", "was removed, so that it is dropped from objects that have it"
    was_required = set(old.get("required") or ())
    for name in new.get("required") or ():
        if name not in was_required and "default" not in (after.get(name) or {}):
            yield f"{path}.{name}", "is required now, and has no default"
    if old.get(_PRESERVES) and not new.get(_PRESERVES):
        yield path, "unknown fields were kept, and now are dropped"


def _narrower(old: JSONMapping, new: JSONMapping) -> Iterator[str]:
    if "enum" in new:
        gone = [value for value in old.get("enum") or () if value not in new["enum"]]
        if "enum" not in old:
            yield "only some values are allowed now"
        elif gone:
            yield f"no longer allowed: {', '.join(map(str, gone))}"
    for keyword, larger_is_narrower in _BOUNDS.items():
        before, after = old.get(keyword), new.get(keyword)
        if after is not None and (before is None or (after > before if larger_is_narrower else after < before)):
            yield f"{keyword} is {after}, and was {'not set' if before is None else before}"
    for keyword, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if new.get(keyword) and not old.get(keyword) and old.get(bound) == new.get(bound):
            yield f"{keyword} is set now"
    for keyword in _TEXTS:
        before, after = old.get(keyword), new.get(keyword)
        if after is not None and before != after and not _is_atomic(keyword, after):
            yield f"{keyword} is {_shown(after)}, and was {'not set' if before is None else _shown(before)}"
    if old.get("nullable") and not new.get("nullable"):
        yield "null is no longer allowed"
    known = [rule.get("rule") for rule in old.get("x-kubernetes-validations") or ()]
    for rule in new.get("x-kubernetes-validations") or ():
        if rule.get("rule") not in known:
            yield f"there is a new rule: {rule.get('rule')}"


def _is_atomic(keyword: str, value: Any) -> bool:
    """Lists and maps of one piece take whatever was there."""
    return keyword.startswith("x-") and value in ("atomic", "granular")


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
