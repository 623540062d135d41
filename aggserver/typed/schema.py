"""Schema: `of` makes of a user's type all that the server needs to know: the structural schema, and a codec.

Raises one error with everything that is wrong, each with its place in the source and what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_origin

from aggserver.errors import AggserverError
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.schema import constructs, invariants, structural
from aggserver.schema.constructs import Strictness
from aggserver.schema.defaults import validate_defaults
from aggserver.typed import json_schema
from aggserver.typed.codec import Codec, DictCodec, TypeCodec
from aggserver.typed.places import place_of
from aggserver.typed.reader import Refusal, TypeReader

__all__ = ["TypeSchema", "TypeSchemaError", "of", "of_dict", "of_value"]

T = TypeVar("T")


class TypeSchemaError(AggserverError):
    """A type can't be a resource. problems: each as `module.py:12: Site.spec.ports: what to write instead`."""

    exit_status = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class TypeSchema(Generic[T]):
    """kind: the name of the class. schema: the openAPIV3Schema. description: of the kind. has_status: whether there is a status,
    which then is a subresource.
    """

    kind: str
    schema: JSONObject
    codec: Codec[T]
    has_status: bool

    @property
    def description(self) -> str:
        found: str = self.schema.get("description", "")
        return found


def of(type_: type[T], *, stored: bool = True) -> TypeSchema[T]:
    """Raises TypeSchemaError. stored: whether the objects are kept in a store; computed fields are then only in the status."""
    reader = TypeReader(stored=stored)
    shape = reader.root(type_)
    if not reader.problems:
        reader.problems += _violations(shape.schema, type_)
    if reader.problems:
        raise TypeSchemaError([_text(problem) for problem in reader.problems])
    metadata = shape.schema["properties"].get("metadata")
    if metadata == {"type": "object"}:
        # Every object has it, and the schema says only what is more than that.
        del shape.schema["properties"]["metadata"]
    has_status = "status" in shape.schema["properties"]
    codec: Codec[T] = TypeCodec(type_, shape)
    return TypeSchema(_name(type_), shape.schema, codec, has_status)


def of_value(type_: type[T]) -> TypeSchema[T]:
    """Of a value that is no object of the API, such as the body of an action. Raises TypeSchemaError."""
    reader = TypeReader(stored=False)
    shape = reader.value(type_)
    if reader.problems:
        raise TypeSchemaError([_text(problem) for problem in reader.problems])
    return TypeSchema(_name(type_), shape.schema, TypeCodec(type_, shape), False)


def of_dict(schema: JSONMapping, kind: str) -> TypeSchema[JSONObject]:
    """For users who keep dicts, and give a JSON Schema or a structural one. Raises TypeSchemaError."""
    lowered, problems = json_schema.lower(schema)
    texts = [f"{kind}{''.join(_step(part) for part in problem.path)}: {problem.text}" for problem in problems]
    if not texts:
        texts = [f"{kind}: {text}" for text in _broken(lowered)]
    if texts:
        raise TypeSchemaError(texts)
    return TypeSchema(kind, lowered, DictCodec(lowered), "status" in lowered.get("properties", {}))


def _step(part: str) -> str:
    return part if part in ("[]", "{}") else f".{part}"


def _name(type_: Any) -> str:
    """Without the types in brackets that pydantic adds to the name of a generic model."""
    name: str = (get_origin(type_) or type_).__name__
    return name.partition("[")[0]


def _text(problem: Refusal) -> str:
    return f"{place_of(problem.cls, problem.field)}: {problem.path}: {problem.text}"


def _violations(schema: JSONObject, type_: Any) -> Iterator[Refusal]:
    for text in _broken(schema):
        yield Refusal(_name(type_), get_origin(type_) or type_, "", text)


def _broken(schema: JSONObject) -> Iterator[str]:
    """What makes a schema unfit for a definition, by the same checks: it can come from members that users have added to it."""
    path = Path("schema")
    errors = structural.problems(schema, path)
    if not errors:
        errors = [*invariants.violations(schema, path), *constructs.violations(schema, path, Strictness())[0]]
        if unsupported := invariants.unsupported(schema):
            yield unsupported
    if not errors:
        errors = validate_defaults(structural.compile(schema), path)
    yield from map(str, errors)
