"""TypeReader: annotations -> shapes, with all that can't be in a structural schema, each with what to write instead.

The rules are the table in docs/python-types.md. A refused type is replaced by one that takes anything, so that the rest is still
read, and all problems are found at once. Pure.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, NewType, TypeVar, Union, get_args, get_origin

from aggserver.meta.golang import to_json
from aggserver.meta.json_types import json_copy
from aggserver.schema.structural import INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, PRESERVE
from aggserver.schema.validation import validate
from aggserver.typed import json_schema
from aggserver.typed.classes import read_class
from aggserver.typed.constraints import constrain, described
from aggserver.typed.markers import INT_OR_STRING_MARK, MapKey, Tag
from aggserver.typed.metadata import Metadata
from aggserver.typed.objects import ObjectOf, Property, object_shape
from aggserver.typed.readings import NOTHING, ClassReading, FieldReading, UnresolvedError
from aggserver.typed.scalars import REFUSED, choice_shape, json_type, scalar_shape
from aggserver.typed.shape import WRONG, Shape, list_shape, map_shape, nullable
from aggserver.typed.unions import UntaggedError, tagged

__all__ = ["Refusal", "TypeReader"]

_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Collection, collections.abc.Iterable)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_EMPTY: Mapping[Any, Any] = {list: [], tuple: [], set: [], frozenset: [], dict: {}}
# The most classes around a class. A generic class may contain itself with ever other types.
_MAX_DEPTH = 50
_RECURSIVE = "a schema can't contain itself; use Any for this field (it is kept unchecked)"
_OPTIONAL = "use a class with one optional field per case"


@dataclass(frozen=True, slots=True)
class Refusal:
    """path: the class and the fields below it, by their names in Python. cls, field: where it is written. text: what to do."""

    path: str
    cls: type | None
    field: str
    text: str


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a type stands. inside: the classes around it. variables: what their type variables stand for. is_root: the field is
    one of the object itself. shows_computed: whether computed fields are part of it.
    """

    path: str
    cls: type | None = None
    inside: tuple[Any, ...] = ()
    variables: Mapping[Any, Any] = dataclasses.field(default_factory=dict)
    field: str = ""
    is_root: bool = False
    shows_computed: bool = False


class TypeReader:
    """stored: whether objects are kept in a store, where computed fields are only a part of the status."""

    def __init__(self, *, stored: bool) -> None:
        self._stored = stored
        self.problems: list[Refusal] = []

    def root(self, type_: Any) -> Shape:
        """The shape of a whole object, without apiVersion and kind."""
        cls = get_origin(type_) or type_
        name = getattr(cls, "__name__", repr(cls)).partition("[")[0]
        place = _Place(name, cls if isinstance(cls, type) else None, is_root=True, shows_computed=not self._stored)
        shape = self._type(type_, place)
        if shape.of_class is None:
            if not self.problems:
                self._refuse(place, "an object is a class with fields, such as a dataclass with metadata: Metadata")
        elif not any(member.json == "metadata" for member in shape.of_class.members):
            self._refuse(place, "has no metadata: write metadata: Metadata as its first field")
        return shape

    def value(self, type_: Any) -> Shape:
        """The shape of a value that is no whole object."""
        cls = get_origin(type_) or type_
        name = getattr(cls, "__name__", repr(cls))
        return self._type(type_, _Place(name, cls if isinstance(cls, type) else None))

    def _refuse(self, place: _Place, text: str) -> Shape:
        problem = Refusal(place.path, place.cls, place.field, text)
        if problem not in self.problems:
            self.problems.append(problem)
        return _anything()

    # --- types ---

    def _type(self, given: Any, place: _Place) -> Shape:
        if isinstance(given, TypeVar):
            if given in place.variables:
                return self._type(place.variables[given], place)
            return self._refuse(place, f"{given.__name__} of what? Write the class with its types, such as Page[Item]")
        if isinstance(given, NewType):
            return self._type(given.__supertype__, place)
        origin, args = get_origin(given), get_args(given)
        if type(given).__name__ == "TypeAliasType" or type(origin).__name__ == "TypeAliasType":
            return self._alias(given, place)
        if given is Any or given is object:
            return _anything()
        if origin is Annotated:
            return self._annotated(args[0], given.__metadata__, place)
        if origin is Final:
            return self._type(args[0], place)
        if origin in (Union, types.UnionType):
            return self._union(args, place)
        if origin is Literal:
            return self._literal(args, place)
        return self._collection(given, origin or given, args, place) or self._class(given, origin, args, place)

    def _alias(self, given: Any, place: _Place) -> Shape:
        """`type Name = ...`, and typing_extensions' form of it."""
        alias = get_origin(given) or given
        if alias.__name__ == "JsonValue":
            return _anything()
        if alias in place.inside:
            return self._refuse(place, _RECURSIVE)
        variables = dict(zip(alias.__type_params__, get_args(given), strict=False))
        return self._type(
            alias.__value__, replace(place, inside=(*place.inside, alias), variables={**place.variables, **variables})
        )

    def _annotated(self, base: Any, extras: Sequence[Any], place: _Place) -> Shape:
        extras = [each for extra in extras for each in _expanded(extra)]
        if INT_OR_STRING_MARK in extras:
            shape = Shape({INT_OR_STRING: True})
        elif _changes_type(extras):
            shape = self._foreign(Annotated[(base, *extras)], place) or self._unknown(base, place)
            extras = ()
        else:
            tag = next((extra.field for extra in extras if isinstance(extra, Tag)), "")
            args = get_args(base)
            is_union = tag and get_origin(base) in (Union, types.UnionType)
            shape = self._union(args, place, tag) if is_union else self._type(base, place)
        for extra in extras:
            if isinstance(extra, MapKey):
                self._map_keys(shape, extra.keys, place)
                continue
            for problem in constrain(shape, extra):
                self._refuse(place, problem)
        if text := _documentation(extras):
            shape.schema["description"] = described(text)
        return shape

    def _map_keys(self, shape: Shape, keys: Sequence[str], place: _Place) -> None:
        items = shape.schema.get("items") or {}
        if not keys or items.get("type") != "object" or "properties" not in items:
            self._refuse(place, "MapKey is for a list of objects of a class, and names fields of it")
            return
        for key in keys:
            found = items["properties"].get(key)
            if found is None:
                known = ", ".join(items["properties"])
                self._refuse(place, f"MapKey({key!r}): the class has no such field in JSON; it has {known}")
            elif found.get("type") not in ("string", "integer", "number", "boolean"):
                self._refuse(place, f"MapKey({key!r}): a key is a text, a number or a boolean")
            elif key not in items.get("required", ()) and "default" not in found:
                self._refuse(place, f"MapKey({key!r}): a key must be required or have a default")
        shape.schema.update({LIST_TYPE: "map", LIST_MAP_KEYS: list(keys)})

    def _union(self, args: Sequence[Any], place: _Place, tag: str = "") -> Shape:
        rest = [each for each in args if each is not type(None) and not _is_unset(each)]
        if len(rest) == 1:
            shape = self._type(rest[0], place)
        elif all(get_origin(each) is Literal for each in rest):
            shape = self._literal([value for each in rest for value in get_args(each)], place)
        elif set(rest) == {int, float}:
            shape = Shape({"type": "number"})
        elif set(rest) == {int, str}:
            shape = self._refuse(place, "int | str is no type of a schema: use IntOrString")
        else:
            shape = self._classes(rest, tag, place)
        if type(None) in args:
            shape.null = True
        return shape

    def _classes(self, args: Sequence[Any], tag: str, place: _Place) -> Shape:
        if not all(_is_class(each, place.variables) for each in args):
            return self._refuse(place, f"a field has one type: {_OPTIONAL}")
        before = len(self.problems)
        shapes = [self._type(each, place) for each in args]
        if len(self.problems) > before or any(shape.of_class is None for shape in shapes):
            return _anything() if len(self.problems) > before else self._refuse(place, f"a field has one type: {_OPTIONAL}")
        try:
            return tagged(shapes, tag)
        except UntaggedError as why:
            return self._refuse(place, str(why))

    def _literal(self, args: Sequence[Any], place: _Place) -> Shape:
        choices = [(each.value if isinstance(each, enum.Enum) else each, each) for each in args if each is not None]
        found = choice_shape(choices)
        shape = self._refuse(place, found) if isinstance(found, str) else found
        shape.null = None in args
        return shape

    # --- collections ---

    def _collection(self, given: Any, origin: Any, args: Sequence[Any], place: _Place) -> Shape | None:
        if origin in _LISTS or origin is tuple:
            name = getattr(origin, "__name__", "list").lower()
            if not args:
                return self._refuse(place, f"{name} of what? Write {name}[str], or {name}[Any] for anything")
            if origin is tuple and (len(args) != 2 or args[1] is not Ellipsis):
                return self._refuse(place, "a tuple of fixed length is no type of a schema: use a class, or tuple[X, ...]")
            return list_shape(self._item(args[0], place), tuple if origin is tuple else None)
        if origin in _SETS:
            return self._set(origin, args, place)
        if origin in _MAPS:
            return self._map(args, place)
        return None

    def _item(self, given: Any, place: _Place) -> Shape:
        """An item of a list or a value of a map. Only here, and in required fields, null is a value."""
        shape = self._type(given, replace(place, is_root=False))
        if not shape.null:
            return shape
        if "enum" in shape.schema:
            return self._refuse(place, "null never passes an enum: leave out `| None`, or use an own value for it")
        return nullable(shape)

    def _set(self, origin: Any, args: Sequence[Any], place: _Place) -> Shape:
        if not args:
            return self._refuse(place, "set of what? Write set[str]")
        items = self._type(args[0], replace(place, is_root=False))
        if items.type not in ("string", "integer", "number", "boolean") or items.null:
            return self._refuse(place, "a set has texts, numbers or booleans: use a list, with MapKey if objects have a key")
        make = set if origin in (set, collections.abc.MutableSet) else frozenset
        shape = list_shape(items, make, lambda found: sorted(found))
        shape.schema[LIST_TYPE] = "set"
        return shape

    def _map(self, args: Sequence[Any], place: _Place) -> Shape:
        if not args:
            return _any_object()
        key = self._type(args[0], replace(place, is_root=False))
        if key.schema.get("type") != "string" or key.decode is not None:
            return self._refuse(place, "the keys of an object are texts: use dict[str, ...]")
        if key.schema.keys() - {"type", "description"}:
            return self._refuse(
                place, "a schema can't check keys: use dict[str, ...], and check them in a Rule or a validate hook"
            )
        values = self._item(args[1], place)
        if values.schema == _anything().schema:
            return _any_object()
        return map_shape(values)

    # --- classes ---

    def _class(self, given: Any, origin: Any, args: Sequence[Any], place: _Place) -> Shape:
        cls = origin or given
        if not isinstance(cls, type):
            return self._foreign(given, place) or self._unknown(given, place)
        if (found := scalar_shape(cls)) is not None:
            return found
        if cls in REFUSED:
            return self._refuse(place, REFUSED[cls])
        if cls is Metadata:
            return self._refuse(
                place, "Metadata is the object's own: use a class with the fields that you need, or dict[str, Any]"
            )
        if issubclass(cls, enum.Enum):
            return self._enum(cls, place)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self._refuse(place, "a named tuple is a list in JSON: use a dataclass")
        variables = {**_inherited(cls), **dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))}
        variables = {variable: _filled(value, place.variables) for variable, value in variables.items()}
        itself = (cls, tuple(variables.values()))
        if itself in place.inside or len(place.inside) > _MAX_DEPTH:
            return self._refuse(place, _RECURSIVE)
        try:
            reading = read_class(cls)
        except UnresolvedError as why:
            return self._refuse(replace(place, cls=cls, field=""), str(why))
        if reading is None:
            return self._foreign(given, place) or self._unknown(given, place)
        if reading.problem:
            return self._refuse(place, reading.problem)
        return self._object(reading, replace(place, inside=(*place.inside, itself), variables=variables))

    def _unknown(self, given: Any, place: _Place) -> Shape:
        name = getattr(given, "__name__", str(given))
        if isinstance(given, str):
            return self._refuse(place, f"{given!r} can't be resolved: import it in the module")
        return self._refuse(
            place, f"{name} is no type of a schema: use a dataclass, a type of the table, or Any (kept unchecked)"
        )

    def _enum(self, cls: type[enum.Enum], place: _Place) -> Shape:
        if issubclass(cls, enum.Flag):
            return self._refuse(place, "a Flag has combinations: use set[...] of an Enum")
        found = choice_shape([(member.value, member) for member in cls])
        if isinstance(found, str):
            return self._refuse(place, found)
        if text := (cls.__dict__.get("__doc__") or ""):
            found.schema["description"] = described(text)
        return found

    def _foreign(self, given: Any, place: _Place) -> Shape | None:
        """A type that pydantic knows and we do not, such as HttpUrl: by the schema that pydantic prints."""
        if "pydantic" not in sys.modules:
            return None
        from aggserver.typed import pydantic_door

        found = pydantic_door.foreign(given)
        if found is None:
            return None
        if isinstance(found, str):
            return self._refuse(place, found)
        printed, decode, encode = found
        lowered, problems = json_schema.lower(printed)
        for problem in problems:
            self._refuse(place, problem.text)
        return Shape(lowered, decode, encode)

    def _object(self, reading: ClassReading, place: _Place) -> Shape:
        members: list[Property] = []
        by_name: dict[str, str] = {}
        if reading.tag is not None:
            by_name[reading.tag.json] = "the tag"
        for each in reading.fields:
            if each.computed and not (place.shows_computed or (place.is_root and each.json == "status")):
                continue
            at = replace(
                place,
                path=f"{place.path}.{each.name}",
                cls=reading.cls,
                field=each.name,
                is_root=False,
                shows_computed=place.shows_computed or (place.is_root and each.json == "status"),
            )
            if each.json in by_name:
                self._refuse(at, f"{each.json} is the JSON name of {by_name[each.json]}, too: give one another name")
                continue
            by_name[each.json] = each.name
            member = self._root_member(each, at) if place.is_root else self._member(each, at)
            if member is not None:
                members.append(member)
        shape = object_shape(reading, members, is_root=place.is_root)
        if reading.tag is not None and "properties" in shape.schema | {"properties": {}}:
            tag = {"type": json_type(reading.tag.value), "enum": [reading.tag.value]}
            shape.schema["properties"] = {reading.tag.json: tag, **shape.schema.get("properties", {})}
            shape.schema["required"] = [reading.tag.json, *shape.schema.get("required", ())]
        if reading.description:
            shape.schema["description"] = described(reading.description)
        return shape

    # --- fields ---

    def _root_member(self, each: FieldReading, place: _Place) -> Property | None:
        if each.json in ("apiVersion", "kind"):
            self._refuse(place, "every object has it, and the server knows it: leave the field out")
            return None
        if each.json == "items":
            self._refuse(place, "an object with items is taken for a list by clients: use another name, or put it below spec")
            return None
        if each.json == "metadata":
            return self._metadata(each, place)
        member = self._member(each, place)
        if member is not None and each.json == "status" and member.required:
            self._refuse(place, "an object is created without a status: give it a default, such as field(default_factory=...)")
        return member

    def _metadata(self, each: FieldReading, place: _Place) -> Property:
        base, extras = (each.annotation, ()) if get_origin(each.annotation) is not Annotated else _split(each.annotation)
        if base is not Metadata:
            self._refuse(place, "the metadata of an object is a Metadata")
        shape = Shape({"type": "object"}, Metadata.from_json, _metadata_json)
        for extra in extras:
            for problem in constrain(shape, extra):
                self._refuse(place, problem)
        return Property(each.name, "metadata", each.key, shape, required=False)

    def _member(self, each: FieldReading, place: _Place) -> Property | None:
        if each.problem:
            self._refuse(place, each.problem)
            return None
        shape = self._type(each.annotation, place)
        member = Property(each.name, each.json, each.key, shape, required=False, computed=each.computed)
        takes_anything = each.default is None and bool(shape.schema.get(PRESERVE)) and not shape.type
        if each.computed or (not each.required and not each.has_default) or takes_anything:
            member.leaves_none = True
        elif shape.null:
            self._nullable_member(member, each, place)
        elif not each.has_default:
            member.required = True
        elif each.default is not NOTHING:
            member.default = self._constant(each.default, shape, place)
        else:
            member.default = self._made(each.factory, shape, place)
        return member

    def _nullable_member(self, member: Property, each: FieldReading, place: _Place) -> None:
        if each.default not in (None, NOTHING):
            text = "None is left out of an object, and the default would come back: make None the default, or leave out `| None`"
            self._refuse(place, text)
        elif each.has_default:
            member.leaves_none = True
        elif "enum" in member.shape.schema:
            self._refuse(place, "null never passes an enum: make None the default, so that it is left out")
        else:
            member.required = True
            member.shape = nullable(member.shape)

    def _constant(self, default: Any, shape: Shape, place: _Place) -> Any:
        if default is None:
            self._refuse(place, "the default None needs `| None` in the type")
            return NOTHING
        try:
            value = default if shape.encode is None else shape.encode(default)
            if isinstance(shape.of_class, ObjectOf) and shape.of_class.has_only_defaults and shape.encode is not None:
                value = {} if value == shape.encode(type(default)()) else value
            errors = [each.detail.partition("in body ")[2] or each.detail for each in validate(value, shape.schema)]
        except WRONG as wrong:
            errors = [str(wrong)]
        for text in errors:
            self._refuse(place, f"the default {_shown(default)} is no value of the type: {text}")
        return NOTHING if errors else value

    def _made(self, factory: Any, shape: Shape, place: _Place) -> Any:
        if factory in _EMPTY:
            return self._constant(factory(), shape, place)
        of_class = shape.of_class
        if isinstance(of_class, ObjectOf) and factory is of_class.reading.cls and of_class.has_only_defaults:
            return {}
        text = "a schema has only constants as defaults: write the constant, or `| None` and fill it in a default hook"
        self._refuse(place, text)
        return NOTHING


def _anything() -> Shape:
    return Shape({PRESERVE: True}, json_copy, json_copy)


def _any_object() -> Shape:
    return Shape({"type": "object", PRESERVE: True}, json_copy, json_copy)


def _metadata_json(value: Any) -> Any:
    if not isinstance(value, Metadata):
        raise TypeError(f"must be a Metadata, not {type(value).__name__}")
    return value.to_json()


def _split(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    return annotation.__origin__, annotation.__metadata__


def _is_unset(given: Any) -> bool:
    """Whether it is msgspec's type of a value that is not there."""
    return getattr(given, "__name__", "") == "UnsetType"


def _is_class(given: Any, variables: Mapping[Any, Any]) -> bool:
    found = variables.get(given, given) if isinstance(given, TypeVar) else given
    cls = get_origin(found) or found
    return isinstance(cls, type) and cls not in (str, int, float, bool, bytes) and scalar_shape(cls) is None


def _expanded(extra: Any) -> Sequence[Any]:
    """What a pydantic Field stands for; anything else stands for itself."""
    if type(extra).__name__ != "FieldInfo" or "pydantic" not in sys.modules:
        return (extra,)
    from aggserver.typed import pydantic_door

    return pydantic_door.expanded(extra)


def _changes_type(extras: Sequence[Any]) -> bool:
    """Whether pydantic's markers make another type in JSON than the annotation says."""
    names = {"PlainValidator", "PlainSerializer", "WrapSerializer", "WithJsonSchema", "EncodedBytes", "EncodedStr"}
    return any(type(extra).__name__ in names and type(extra).__module__.startswith("pydantic") for extra in extras)


def _documentation(extras: Sequence[Any]) -> str:
    """The description in `Annotated`; of several the first. Doc of others has the same attribute (PEP 727)."""
    for name in ("description", "documentation"):
        for extra in extras:
            text = getattr(extra, name, None)
            if isinstance(text, str) and text:
                return text
    return ""


def _inherited(cls: Any) -> dict[Any, Any]:
    """What the type variables of generic bases stand for."""
    found: dict[Any, Any] = {}
    for base in _generic_bases(cls):
        origin = get_origin(base)
        found.update(zip(getattr(origin, "__parameters__", ()), get_args(base), strict=False))
        found.update(_inherited(origin))
    return found


def _generic_bases(cls: Any) -> Iterator[Any]:
    for base in cls.__dict__.get("__orig_bases__", ()):
        if get_origin(base) not in (None, typing.Generic, typing.Protocol):
            yield base


def _filled(value: Any, variables: Mapping[Any, Any]) -> Any:
    if isinstance(value, TypeVar):
        return variables.get(value, value)
    parameters = getattr(value, "__parameters__", ())
    if not parameters or isinstance(value, type):
        return value
    return value[tuple(variables.get(each, each) for each in parameters)]


def _shown(value: Any) -> str:
    return to_json(value) if isinstance(value, str | int | float | list | dict) else repr(value)
