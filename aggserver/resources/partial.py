"""Parts of objects in another version: what server-side apply asks for, with functions that know whole objects only.

To find what an applier gave up, apply converts an object that has only some of its fields. A user's class can't hold that. So the
missing fields are filled in, once with one set of values and once with another, and both objects are converted: what differs
between the results comes from the filling, and is left out. What both have comes from the part, or is always the same.
Pure, apart from what the function does.
Source: sigs.k8s.io/structured-merge-diff merge/update.go (addBackOwnedItems) for why parts are converted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aggserver.meta import codec
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["converted_part"]

_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_DIFFERENT: Any = object()
# By format: two values of each that every class can read.
_TEXTS = {
    "date-time": ("2001-02-03T04:05:06Z", "2002-02-03T04:05:06Z"),
    "date": ("2001-02-03", "2002-02-03"),
    "duration": ("1s", "2s"),
    "byte": ("YQ==", "Yg=="),
    "uuid": ("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"),
    "ipv4": ("10.0.0.1", "10.0.0.2"),
    "ipv6": ("fd00::1", "fd00::2"),
    "cidr": ("10.0.0.0/8", "11.0.0.0/8"),
    "uri": ("http://a.example.com/", "http://b.example.com/"),
    "email": ("a@example.com", "b@example.com"),
    "hostname": ("a.example.com", "b.example.com"),
}


def converted_part(obj: JSONObject, schema: JSONMapping, convert: Callable[[JSONObject], JSONObject]) -> JSONObject:
    """Convert an object that may lack fields. schema: of its version. Raises what `convert` raises."""
    first, second = (convert({**_filled(obj, schema, which), "metadata": obj["metadata"]}) for which in (0, 1))
    common = _common(first, second)
    found: JSONObject = {} if common is _DIFFERENT else common
    for name in ("apiVersion", "kind", "metadata"):
        found[name] = first[name]
    return found


def _filled(obj: JSONMapping, schema: JSONMapping, which: int) -> JSONObject:
    """A copy with all the fields that the schema has."""
    found: JSONObject = dict(codec.decode_stored(codec.encode_json(obj)))
    for name, node in (schema.get("properties") or {}).items():
        if name == "metadata":
            continue
        if found.get(name) is None:
            found[name] = _value(node, which)
        else:
            found[name] = _within(found[name], node, which)
    return found


def _within(value: Any, node: JSONMapping, which: int) -> Any:
    if isinstance(value, dict):
        values = node.get("additionalProperties")
        if isinstance(values, Mapping):
            return {name: _within(each, values, which) for name, each in value.items()}
        return _filled(value, node, which)
    if isinstance(value, list):
        return [_within(each, node.get("items") or {}, which) for each in value]
    return value


def _value(node: JSONMapping, which: int) -> Any:
    if enum := node.get("enum"):
        return enum[which % len(enum)]
    if node.get("x-kubernetes-int-or-string"):
        return which + 1
    kind = node.get("type")
    if kind == "object":
        values = node.get("additionalProperties")
        if isinstance(values, Mapping):
            return {"filled": _value(values, which)} if which else {}
        return _filled({"filled": 1} if which and node.get(_PRESERVES) else {}, node, which)
    if kind == "array":
        least = node.get("minItems") or 0
        return [_value(node.get("items") or {}, which)] * max(least, which)
    if kind == "boolean":
        return bool(which)
    if kind in ("integer", "number"):
        least = node.get("minimum")
        return which + 1 if least is None else least + which + (1 if node.get("exclusiveMinimum") else 0)
    if kind == "string":
        texts = _TEXTS.get(node.get("format") or "", ("a", "b"))
        return texts[which].ljust(node.get("minLength") or 0, texts[which][-1])
    return {"filled": which}


def _common(one: Any, other: Any) -> Any:
    """What is the same in both; _DIFFERENT if nothing is."""
    if isinstance(one, dict) and isinstance(other, dict):
        members = {name: _common(value, other[name]) for name, value in one.items() if name in other}
        found = {name: value for name, value in members.items() if value is not _DIFFERENT}
        # An object all of whose fields were filled in was filled in itself.
        return _DIFFERENT if one and not found else found
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        items = [_common(each, more) for each, more in zip(one, other, strict=True)]
        return _DIFFERENT if any(each is _DIFFERENT for each in items) else items
    return one if codec.same(one, other) else _DIFFERENT
