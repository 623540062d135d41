"""DeclType: the CEL types of a schema's values, with their fields and maximum sizes.

`declare` builds them once for the schema of a version; for a node with rules, `Declarations` then provides types to the checker,
sizes to the cost estimate and conversions to the generated code. Values without a type (preserved unknown fields, lists of
them) are not declared, so expressions can't access them. Pure.
Source: k8s.io/apiserver pkg/cel/common/schemas.go, pkg/cel/{types,limits}.go; k8s.io/apiextensions-apiserver
pkg/apiserver/schema/cel/compilation.go (sizeEstimator), pkg/apiserver/schema/cel/model/schemas.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from aggserver.cel.objects import OnAccess
from aggserver.cel.ranges import Range
from aggserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    list_of,
    map_of,
    object_type,
)
from aggserver.cel.values import Optional
from aggserver.schema import rule_values
from aggserver.schema.escaping import escape, is_reserved
from aggserver.schema.rule_values import with_object_meta
from aggserver.schema.structural import Structural

__all__ = ["MAX_REQUEST_SIZE", "DeclType", "Declarations", "declare"]

MAX_REQUEST_SIZE = 3 * 1024 * 1024
"""The maximum size of an object, in bytes."""

# Upstream appends a number that differs each time, so that nobody relies on the name.
_SELF_TYPE = "selfType0"

# The longest value in bytes of JSON, without its quotes, brackets or braces.
_LONGEST = MAX_REQUEST_SIZE - 2
# Bytes of a code point in UTF-8.
_LARGEST_CHARACTER = 4

_STRING = Structural(type="string")


@dataclass(frozen=True, slots=True, eq=False)
class DeclType:
    """The declared type of a node's values.

    type: an object type without its name, which depends on the place (see Declarations); a list or map without parameters.
    fields: of an object, by CEL name; a field that is a reserved word has two names. keys: names of properties by CEL name.
    element: of a list or map. max_elements: in characters, bytes, elements or entries. min_size: in bytes of JSON.
    """

    node: Structural
    type: Type
    min_size: int
    max_elements: int = 0
    fields: Mapping[str, DeclType] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    element: DeclType | None = None


_OBJECT = object_type("object")
_LIST = list_of(DYN)
_MAP = map_of(STRING, DYN)


def declare(node: Structural, *, is_resource: bool = False, sees_labels: bool = False) -> DeclType | None:
    """The declaration of a node; None if expressions can't access its values.

    is_resource: it is the root of a custom resource. sees_labels: metadata of a resource also has labels and annotations, which
    kube-apiserver does not declare.
    """
    if node.x_int_or_string:
        return DeclType(node, DYN, min_size=1, max_elements=_longest_string(node, enum=False))
    if is_resource:
        node = with_object_meta(node, sees_labels=sees_labels)
    match node.type:
        case "array":
            return _declare_list(node, sees_labels)
        case "object":
            return _declare_map(node, sees_labels) if node.values is not None else _declare_object(node, sees_labels)
        case "string":
            return _declare_string(node)
        case "boolean":
            return DeclType(node, BOOL, min_size=4)
        case "number":
            return DeclType(node, DOUBLE, min_size=1)
        case "integer":
            return DeclType(node, INT, min_size=1)
        case _:
            return None


def _declare_below(node: Structural | None, sees_labels: bool) -> DeclType | None:
    return None if node is None else declare(node, is_resource=node.x_embedded_resource, sees_labels=sees_labels)


def _declare_list(node: Structural, sees_labels: bool) -> DeclType | None:
    element = _declare_below(node.items, sees_labels)
    if element is None:
        return None
    return DeclType(node, _LIST, 2, _limit(node, "maxItems", _LONGEST // (element.min_size + 1)), element=element)


def _declare_map(node: Structural, sees_labels: bool) -> DeclType | None:
    element = _declare_below(node.values, sees_labels)
    if element is None:
        return None
    return DeclType(node, _MAP, 2, _limit(node, "maxProperties", _LONGEST // (element.min_size + 6)), element=element)


def _declare_object(node: Structural, sees_labels: bool) -> DeclType:
    fields, keys, min_size = {}, {}, 2
    required = node.schema.get("required") or ()
    for name, child in node.properties.items():
        declared = _declare_below(child, sees_labels)
        if declared is None:
            continue
        if (identifier := escape(name)) is not None:
            for spelling in (identifier, name) if is_reserved(name) else (identifier,):
                fields[spelling], keys[spelling] = declared, name
        # A required field with a default may be missing in a request.
        if name in required and child.default is None:
            min_size += len(name.encode()) + declared.min_size + 4
    return DeclType(node, _OBJECT, min_size, fields=fields, keys=keys)


def _declare_string(node: Structural) -> DeclType:
    match node.schema.get("format"):
        case "byte":
            return DeclType(node, BYTES, 2, _limit(node, "maxLength", _LONGEST))
        case "duration":
            return DeclType(node, DURATION, 3, 32)
        case "date":
            return DeclType(node, TIMESTAMP, 12, 12)
        case "date-time":
            return DeclType(node, TIMESTAMP, 21, 32)
        case _:
            return DeclType(node, STRING, 2, _longest_string(node, enum=True))


def _longest_string(node: Structural, *, enum: bool) -> int:
    if node.schema.get("maxLength") is not None:
        return _limit(node, "maxLength", 0) * _LARGEST_CHARACTER
    values = node.schema.get("enum") if enum else None
    if values:
        return max((len(value.encode()) for value in values if isinstance(value, str)), default=0)
    return _LONGEST


def _limit(node: Structural, name: str, default: int) -> int:
    value = node.schema.get(name)
    return default if value is None else max(value, 0)


class Declarations:
    """The types below a node, named by their path from there, for checker, cost estimate and generated code.

    name: of the node's own type; by default that of `self`.
    """

    def __init__(self, root: DeclType, name: str = _SELF_TYPE) -> None:
        self._root = root
        self._objects: dict[str, DeclType] = {}
        # The fields of each object type, kept since an expression may access many fields of an object that has many.
        self._fields: dict[str, Mapping[str, Type]] = {}
        self.type = self._name(root, name)

    def _name(self, declared: DeclType, name: str) -> Type:
        """Give a type its name and parameters, and register the object types in it by name."""
        type_ = declared.type
        if type_ is _OBJECT:
            self._objects[name] = declared
            type_ = object_type(name)
        elif declared.element is not None:
            is_list = type_ is _LIST
            element = self._name(declared.element, f"{name}.{'@idx' if is_list else '@elem'}")
            type_ = list_of(element) if is_list else map_of(STRING, element)
        return replace(type_, origin=declared)

    def fields(self, type_name: str) -> Mapping[str, Type] | None:
        declared = self._objects.get(type_name)
        if declared is None:
            return None
        if type_name not in self._fields:
            self._fields[type_name] = {
                name: self._name(field_, f"{type_name}.{f'__{name}__' if is_reserved(name) else name}")
                for name, field_ in declared.fields.items()
            }
        return self._fields[type_name]

    def field(self, type_: Type, name: str) -> tuple[str, Type]:
        fields = self.fields(type_.name)
        assert fields is not None
        return self._objects[type_.name].keys[name], fields[name]

    def on_access(self, type_: Type) -> OnAccess | None:
        return rule_values.on_access(type_.origin.node) if isinstance(type_.origin, DeclType) else None

    def deep_conversion(self, type_: Type) -> Callable[[Any], Any] | None:
        """As `Objects.deep_conversion`. In a list, map or optional that an expression has made, scalars are converted already;
        lists, maps and objects are not.
        """
        if type_.kind not in (Kind.LIST, Kind.MAP, Kind.OBJECT) and not type_.is_optional:
            return None
        if isinstance(type_.origin, DeclType):
            return rule_values.deep_conversion(type_.origin.node)
        if not type_.parameters:
            return None
        element = type_.element
        if type_.is_optional and isinstance(element.origin, DeclType):
            # Optional oldSelf is not converted yet.
            inner = rule_values.deep_conversion(element.origin.node)
        else:
            inner = self.deep_conversion(element)
        return None if inner is None else partial(_each, inner)

    def size(self, path: tuple[str, ...]) -> Range | None:
        """The maximum sizes, with upstream's oddities: values without a size and keys of maps have size 0, and the size of a
        field accessed by a name that is an unescaped reserved word is unknown.
        """
        if not path:
            return None
        declared: DeclType | None = self._root
        for name in path[1:]:
            if declared is None:
                return None
            if name == "@keys":
                declared = _KEY if declared.type is _MAP else None
            elif name in ("@items", "@values"):
                declared = declared.element
            else:
                declared = None if is_reserved(name) else declared.fields.get(name)
        return None if declared is None else Range(0, declared.max_elements)


_KEY = DeclType(_STRING, STRING, min_size=2)


def _converted(convert: Callable[[Any], Any], elements: Iterable[Any]) -> Iterator[Any]:
    """The converted elements. Each list and map is converted once, since an expression may add the same one many times."""
    known: dict[int, Any] = {}
    for element in elements:
        if not isinstance(element, list | dict):
            yield convert(element)
            continue
        if id(element) not in known:
            known[id(element)] = convert(element)
        yield known[id(element)]


def _each(convert: Callable[[Any], Any], value: Any) -> Any:
    if type(value) is list:
        return list(_converted(convert, value))
    if type(value) is dict:
        return dict(zip(value, _converted(convert, value.values()), strict=True))
    return Optional(convert(value.value)) if type(value) is Optional and value.present else value
