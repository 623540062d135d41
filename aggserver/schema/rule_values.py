"""Rule values: conversion of an object's JSON values to CEL values, according to their schema.

Numbers become doubles, strings of some formats become timestamps, durations or bytes: `on_access` converts them when an
expression accesses them. Lists, maps and objects stay JSON while an expression only accesses their elements. Before one is
compared or passed to a function, `deep_conversion` wraps it in a class that knows its schema: sets are equal in any order, lists
of type map are concatenated by their keys, and an object's size counts fields outside its schema. A value that can't be
converted becomes `Invalid`, which raises an error when it is used. Pure.
Source: k8s.io/apiserver pkg/cel/common/valuesunstructured.go (UnstructuredToVal), v0.36.3, with its oddities.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from aggserver.cel.objects import OnAccess
from aggserver.cel.values import MISSING, CELError, Duration, EvaluationError, Invalid, Timestamp, equal, no_such_overload, show
from aggserver.meta import codec
from aggserver.schema.escaping import escape, unescape
from aggserver.schema.format_values import PARSERS
from aggserver.schema.structural import Structural

__all__ = ["deep_conversion", "on_access", "unwrapped", "with_object_meta"]

_STRING = Structural(type="string")
_STRINGS = Structural(type="object", additional_properties=_STRING)


def with_object_meta(node: Structural, *, sees_labels: bool = False) -> Structural:
    """Add kind, apiVersion and metadata to the node of a resource; metadata has only its names, as upstream declares it."""
    properties = node.properties
    names = {name: properties[name].type for name in ("kind", "apiVersion", "metadata") if name in properties}
    if names == {"kind": "string", "apiVersion": "string", "metadata": "object"} and not sees_labels:
        known = properties["metadata"].properties
        if all(name in known and known[name].type == "string" for name in ("name", "generateName")):
            return node
    members = {"name": _STRING, "generateName": _STRING}
    if sees_labels:
        members |= {"labels": _STRINGS, "annotations": _STRINGS}
    metadata = Structural(type="object", properties=members)
    return replace(node, properties={**properties, "kind": _STRING, "apiVersion": _STRING, "metadata": metadata})


def on_access(node: Structural) -> OnAccess:
    """How to convert a value of the node when an expression accesses it."""
    if node.x_int_or_string:
        kind = None
    elif node.type == "string":
        kind = _KINDS_OF_FORMATS.get(_format(node), str)
    else:
        kind = _KINDS.get(node.type)
    look = _container if node.type in ("array", "object") else _convert
    return OnAccess(
        kind, lambda value: look(value, node), is_sure=node.type not in ("array", "object"), may_be_null=node.nullable
    )


def deep_conversion(node: Structural) -> Callable[[Any], Any] | None:
    """A function that converts a value of the node with all its elements; None if none is needed."""
    return None if _is_plain(node) else lambda value: _value(value, node)


def _convert(value: Any, node: Structural) -> Any:
    made = _value(value, node)
    if type(made) is Invalid:
        raise EvaluationError(made.message)
    return made


def _container(value: Any, node: Structural) -> Any:
    """A list, map or object unchanged; any other value is converted."""
    return value if isinstance(value, _KINDS[node.type]) else _convert(value, node)


def _is_plain(node: Structural) -> bool:
    """Whether a value of the node and all its elements need no conversion."""
    match node.type:
        case "array":
            items = node.items
            return node.list_type in ("", "atomic") and items is not None and not items.nullable and _is_plain(items)
        case "object":
            return node.values is not None and not node.x_embedded_resource and _is_plain(node.values)
        case "string":
            return not node.x_int_or_string and _format(node) not in PARSERS
        case _:
            return node.type == "boolean"


def _format(node: Structural) -> str:
    return node.schema.get("format") or ""


def _value(value: Any, node: Structural) -> Any:
    """Convert a JSON value; a converted value is returned unchanged."""
    if type(value) is Invalid:
        return value
    if value is None:
        return None if node.nullable else Invalid("invalid data, got null for schema with nullable=false")
    if node.x_int_or_string:
        fits = type(value) is int or type(value) is str
        return value if fits else Invalid("invalid data, expected XIntOrString value to be either a string or integer")
    make = _MAKERS.get(node.type)
    if make is not None:
        return make(value, node)
    if node.x_preserve_unknown_fields:
        return _Unknown(value)
    return Invalid(
        "invalid type, expected object, array, number, integer, boolean or string, or no type with "
        f"x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {node.type}"
    )


def _integer(value: Any, node: Structural) -> Any:
    return value if type(value) is int else _unexpected("int", value)


def _number(value: Any, node: Structural) -> Any:
    if type(value) is float:
        return value
    return float(value) if type(value) is int else _unexpected("float", value)


def _boolean(value: Any, node: Structural) -> Any:
    return value if type(value) is bool else _unexpected("bool", value)


def _string(value: Any, node: Structural) -> Any:
    format_ = _format(node)
    if type(value) is _KINDS_OF_FORMATS.get(format_):
        return value
    if type(value) is not str:
        return _unexpected("string", value)
    if format_ not in PARSERS:
        return value
    parse, problem = PARSERS[format_]
    try:
        return parse(value)
    except EvaluationError as error:
        return Invalid(f"{problem} {value}: {error}")


def _unexpected(wanted: str, value: Any) -> Invalid:
    return Invalid(f"invalid data, expected {wanted}, got {_go_type(value)}")


class _Foreign(NamedTuple):
    """An element added to a list that is no JSON value, such as a time: upstream keeps Go's value, which fits no schema."""

    go_type: str
    value: Any


_GO_TYPES = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    Timestamp: "time.Time",
    Duration: "time.Duration",
    bytes: "[]uint8",
    type(None): "structpb.NullValue",
}


def _go_type(value: Any) -> str:
    if isinstance(value, _Foreign):
        return value.go_type
    return _GO_TYPES.get(type(value)) or _GO_TYPES[dict if isinstance(value, dict) else list]


def _json(value: Any) -> Any:
    """The JSON value that a value was converted from, or a _Foreign if there is none."""
    if isinstance(value, _List | _Map | _Unknown):
        return value.json
    if value is None or isinstance(value, Timestamp | Duration | bytes):
        return _Foreign(_go_type(value), value)
    return value


def _same(mine: Any, theirs: Any) -> bool:
    """Equality with null: it is false, except that a list, map or object on the left is an error."""
    if mine is MISSING or theirs is MISSING:
        return mine is theirs
    if theirs is None and isinstance(mine, list | dict | Invalid):
        raise EvaluationError(mine.message) if isinstance(mine, Invalid) else no_such_overload()
    return equal(mine, theirs)


def unwrapped(value: Any) -> Any:
    """A list, map or object without its schema: its JSON values, and converted values where an expression has added them.

    Raises EvaluationError for a value that does not fit its schema.
    """
    if isinstance(value, Invalid):
        raise EvaluationError(value.message)
    if isinstance(value, _Foreign):
        return value.value
    if isinstance(value, _List | _Map | _Unknown):
        return value.json
    return dict(dict.items(value)) if isinstance(value, _Object) else value


class _Unknown:
    """A preserved value without a type. Expressions meet it only when they compare a value that contains it."""

    __slots__ = ("json",)

    def __init__(self, json: Any) -> None:
        self.json = json

    def equals(self, other: object) -> bool:
        return isinstance(other, _Unknown) and codec.same(self.json, other.json)


class _List(list[Any]):
    """A list of converted values."""

    __slots__ = ("json", "node")

    def __init__(self, json: list[Any], node: Structural) -> None:
        assert node.items is not None
        super().__init__([_value(item, node.items) for item in json])
        self.json = json
        self.node = node

    def holds(self, item: object) -> bool:
        """The operator `in`: an Invalid item or element is an error, unless another element is equal."""
        if not isinstance(item, Invalid) and any(equal(each, item) for each in self if type(each) is not Invalid):
            return True
        for each in (item, *self):
            if isinstance(each, Invalid):
                raise EvaluationError(each.message)
        return False

    def equals(self, other: object) -> bool:
        """Whether the lists are equal. Elements that can't be compared are an error; in cel-go's lists they count as equal."""
        mine = _listed(other)
        return len(mine) == len(self) and all(map(_same, self, mine))

    def added(self, other: object) -> list[Any]:
        return type(self)([*self.json, *map(_json, _listed(other))], self.node)


class _Set(_List):
    """A list of type set: equal in any order. Elements are compared as JSON values, so that an integer differs from a double."""

    __slots__ = ()

    def equals(self, other: object) -> bool:
        theirs = _listed(other)
        return len(theirs) == len(self) and {_identity(_json(each)) for each in theirs} <= set(map(_identity, self.json))

    def added(self, other: object) -> list[Any]:
        elements = {_identity(each): each for each in self.json}
        for each in map(_json, _listed(other)):
            elements.setdefault(_identity(each), each)
        return _Set([*self.json, *list(elements.values())[len(self.json) :]], self.node)


class _ListMap(_List):
    """A list of type map: equal in any order; elements are matched by their keys."""

    __slots__ = ()

    def equals(self, other: object) -> bool:
        theirs = _listed(other)
        if len(theirs) != len(self):
            return False
        by_key = {self._key(json): made for json, made in zip(self.json, self, strict=True)}
        return all((key := self._key(each)) in by_key and _same(by_key[key], each) for each in theirs)

    def added(self, other: object) -> list[Any]:
        """Concatenate; an added element takes the place of an element with the same keys."""
        elements = list(self.json)
        places = {self._key(each): place for place, each in enumerate(elements)}
        for each in map(_json, _listed(other)):
            place = places.get(self._key(each))
            if place is None:
                elements.append(each)
            else:
                elements[place] = each
        return _ListMap(elements, self.node)

    def _key(self, element: Any) -> Hashable:
        """The values of the keys. Keys whose CEL name is escaped are not found, which is a mistake of upstream."""
        if not isinstance(element, dict):
            return object()
        names = [escape(name) or name for name in self.node.list_map_keys]
        # Not `element.get`, which in an _Object returns converted values.
        values = [dict.get(element, name) for name in names]
        return tuple(map(_identity, values)) if len(values) <= 3 else " ".join(map(show, values))


def _listed(other: object) -> list[Any]:
    if not isinstance(other, list):
        raise no_such_overload()
    return other


def _identity(value: Any) -> Hashable:
    """A key that is equal for values that are the same map key in Go. A value that can't be a key makes upstream panic."""
    if isinstance(value, dict | list) or (isinstance(value, _Foreign) and value.go_type == "[]uint8"):
        raise CELError(f"internal error: runtime error: hash of unhashable type {_go_type(value)}")
    return type(value), value


_LISTS = {"": _List, "atomic": _List, "set": _Set, "map": _ListMap}


def _list(value: Any, node: Structural) -> Any:
    if not isinstance(value, list):
        return Invalid("invalid data, expected an array for the provided schema with type=array")
    if node.items is None:
        return Invalid("invalid array type, expected Items with a non-empty Schema")
    if isinstance(value, _List):
        return value
    made = _LISTS[node.list_type](value, node)
    is_plain = type(made) is _List and node.items.type in ("integer", "number") and {int, float}.issuperset(map(type, made))
    return list(made) if is_plain else made


class _Map(dict[str, Any]):
    """A map of converted values."""

    __slots__ = ("json",)

    def __init__(self, json: dict[str, Any], values: Structural) -> None:
        super().__init__({key: _value(value, values) for key, value in json.items()})
        self.json = json

    def equals(self, other: object) -> bool:
        if not isinstance(other, dict):
            raise no_such_overload()
        return len(self) == len(other) and all(_same(mine, other.get(key, MISSING)) for key, mine in self.items())


class _Object(dict[str, Any]):
    """An object. `[]` and `in` see the JSON object; the other methods see CEL names and values, for expressions of type dyn."""

    __slots__ = ("node",)

    def __init__(self, json: dict[str, Any], node: Structural) -> None:
        super().__init__(json)
        self.node = with_object_meta(node) if node.x_embedded_resource else node

    def get(self, name: Any, default: Any = None) -> Any:
        key = unescape(name) if isinstance(name, str) else None
        value = None if key is None else super().get(key)
        if key is None or value is None or key not in self.node.properties:
            return default
        return _value(value, self.node.properties[key])

    def __iter__(self) -> Iterator[str]:
        return (escape(key) or key for key in super().__iter__() if key in self.node.properties)

    def items(self) -> Any:
        known = [(name, self.get(name, Invalid(f"no such key: {name}"))) for name in self]
        # Upstream only counts the fields that the schema does not specify.
        return known + [(_UNNAMED, _UNNAMED)] * (len(self) - len(known))

    def equals(self, other: object) -> bool:
        """Both must have the same number of members, nulls included. Unspecified fields are compared only if both have them."""
        if not isinstance(other, dict):
            raise no_such_overload()
        if len(self) != len(other):
            return False
        for key, json in super().items():
            if key in self.node.properties:
                mine, theirs = self.get(key, MISSING), other.get(key, MISSING)
                if not _same(mine, theirs):
                    return False
            elif not isinstance(other, _Object):
                raise no_such_overload()
            elif key in other and not codec.same(json, other[key]):
                return False
        return True


_UNNAMED = Invalid("no such overload")


def _object(value: Any, node: Structural) -> Any:
    if not isinstance(value, dict):
        return Invalid("invalid data, expected a map for the provided schema with type=object")
    if isinstance(value, _Object | _Map):
        return value
    if node.properties or node.x_embedded_resource or node.values is None:
        return _Object(value, node)
    return value if _is_plain(node) else _Map(value, node.values)


_KINDS: dict[str, type] = {"array": list, "object": dict, "integer": int, "number": float, "boolean": bool}
_KINDS_OF_FORMATS: dict[str, type] = {"date": Timestamp, "date-time": Timestamp, "duration": Duration, "byte": bytes}
_MAKERS: dict[str, Callable[[Any, Structural], Any]] = {
    "array": _list,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "object": _object,
    "string": _string,
}
