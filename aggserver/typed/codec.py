"""Codec: objects to instances of a user's type and back, and the changes that a function made to an instance.

Objects are decoded after they have passed the schema. A function that may change an object works on a `Draft`: the instance is
encoded before and after, and only what differs is written into the object. So fields that the class does not know survive, and
defaults that only the class knows do not become fields of the object, which a field manager would own. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from aggserver.errors import AggserverError
from aggserver.meta import field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONMapping, JSONObject, json_copy
from aggserver.schema.structural import LIST_MAP_KEYS, LIST_TYPE
from aggserver.typed.shape import WRONG, Mismatch, MismatchError, Shape, caught

__all__ = ["Codec", "DictCodec", "Draft", "TypeCodec", "UndecodableError", "UnencodableError", "merged"]

T = TypeVar("T")


class UndecodableError(AggserverError):
    """An object is no instance of the class, although it has passed the schema: the class's own validation has refused it.

    errors: by field, for a response with code 422.
    """

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


class UnencodableError(AggserverError):
    """A user's function has returned what can't be an object, such as a time without a zone. The text names each field."""


class Codec(Protocol[T]):
    """decode: never changes the object, nor shares parts that may be changed with the instance. The result of encode has no
    apiVersion and kind.
    """

    def decode(self, obj: JSONMapping) -> T:
        """Raises UndecodableError."""
        ...

    def encode(self, value: T) -> JSONObject:
        """Raises UnencodableError."""
        ...

    def draft(self, obj: JSONMapping) -> Draft[T]:
        """Raises UndecodableError."""
        ...


class Draft(Generic[T]):
    """An object and the instance of it that a function may change. `merged` is the object with these changes."""

    def __init__(self, obj: JSONMapping, value: T, encode: Callable[[T], JSONObject], schema: JSONMapping) -> None:
        self.value = value
        self._obj, self._encode, self._schema = obj, encode, schema
        self._before = encode(value)

    def merged(self) -> JSONObject:
        """A new object, which shares with the old one what has not changed. Raises UnencodableError."""
        after = self._encode(self.value)
        found = merged(self._obj, self._before, after, self._schema)
        assert isinstance(found, dict)
        return found

    def is_changed(self) -> bool:
        """Raises UnencodableError."""
        return self._encode(self.value) != self._before


class TypeCodec(Generic[T]):
    """The codec of a class, made by `schema.of`."""

    def __init__(self, type_: type[T], shape: Shape) -> None:
        assert shape.decode is not None
        assert shape.encode is not None
        self._type = type_
        self._decode, self._encode, self._schema = shape.decode, shape.encode, shape.schema

    def decode(self, obj: JSONMapping) -> T:
        try:
            found: T = self._decode(obj)
        except MismatchError as error:
            raise UndecodableError([_field_error(each) for each in error.found]) from error
        return found

    def encode(self, value: T) -> JSONObject:
        try:
            found: JSONObject = self._encode(value)
        except WRONG as error:
            name = self._type.__name__
            texts = (f"{name}{_text(each)}: {each.text}" for each in caught(error, value).found)
            raise UnencodableError("; ".join(texts)) from error
        return found

    def draft(self, obj: JSONMapping) -> Draft[T]:
        return Draft(obj, self.decode(obj), self.encode, self._schema)


class DictCodec:
    """The codec for objects that stay dicts."""

    def __init__(self, schema: JSONMapping) -> None:
        self._schema = schema

    def decode(self, obj: JSONMapping) -> JSONObject:
        found: JSONObject = json_copy(dict(obj))
        return found

    def encode(self, value: JSONMapping) -> JSONObject:
        if not isinstance(value, Mapping):
            raise UnencodableError(f"must be a dict, not {type(value).__name__}")
        found: JSONObject = json_copy(dict(value))
        return found

    def draft(self, obj: JSONMapping) -> Draft[JSONObject]:
        return Draft(obj, self.decode(obj), self.encode, self._schema)


def _text(each: Mismatch) -> str:
    path = str(_path(each))
    return f".{path}" if path and not path.startswith(("[", "<")) else path.removeprefix("<nil>")


def _path(each: Mismatch) -> Path:
    path = Path()
    for part in each.loc:
        path = path.index(part) if isinstance(part, int) else path.child(part)
    return path


def _field_error(each: Mismatch) -> FieldError:
    value = each.value
    # Of what may be large only the type, as in the errors of rules.
    shown = "object" if isinstance(value, Mapping) else "array" if isinstance(value, list | tuple) else value
    return field.invalid(_path(each), shown if isinstance(shown, str | int | float | None) else str(shown), each.text)


# --- changes ---


def merged(obj: Any, before: Any, after: Any, schema: JSONMapping) -> Any:
    """`obj` with what differs between `before` and `after`, which are encoded instances of it. Changes none of them.

    A list of objects with keys is merged item by item; of any other list, unchanged items keep their unknown fields.
    """
    if after is before or after == before:
        return obj
    if isinstance(obj, dict) and isinstance(before, dict) and isinstance(after, dict):
        return _merged_object(obj, before, after, schema)
    # The items of a set are encoded in another order than they have in the object.
    if schema.get(LIST_TYPE) == "set":
        return after
    if isinstance(obj, list) and isinstance(before, list) and isinstance(after, list) and len(obj) == len(before):
        return _merged_list(obj, before, after, schema)
    return after


def _merged_object(obj: JSONMapping, before: JSONMapping, after: JSONMapping, schema: JSONMapping) -> JSONObject:
    properties, values = schema.get("properties") or {}, schema.get("additionalProperties")
    found = {name: value for name, value in obj.items() if name in after or name not in before}
    for name, value in after.items():
        if name not in before:
            found[name] = value
        elif before[name] == value:
            continue
        elif name in obj:
            child = properties.get(name) or (values if isinstance(values, dict) else {})
            found[name] = merged(obj[name], before[name], value, child)
        else:
            # What the object lacks was a default of the class: it is written as a whole.
            found[name] = value
    return found


def _merged_list(obj: list[Any], before: list[Any], after: list[Any], schema: JSONMapping) -> list[Any]:
    items = schema.get("items") or {}
    keys = schema.get(LIST_MAP_KEYS)
    if keys:
        places = {_key(item, keys): index for index, item in enumerate(before)}
        found = []
        for item in after:
            place = places.get(_key(item, keys))
            found.append(item if place is None else merged(obj[place], before[place], item, items))
        return found
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    middle = after[start : len(after) - end]
    if len(before) == len(after):
        pairs = zip(obj[start:], before[start:], middle, strict=False)
        middle = [merged(old, was, item, items) for old, was, item in pairs]
    return [*obj[:start], *middle, *obj[len(obj) - end :]]


def _key(item: Any, keys: list[str]) -> tuple[Any, ...]:
    return tuple(item.get(key) for key in keys) if isinstance(item, Mapping) else ()
