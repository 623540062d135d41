"""Msgspec: the fields of Structs. The only module that imports msgspec, and is imported itself only for a Struct.

Names are msgspec's own (`rename`, `field(name=...)`). Instances are made by the constructor, which checks no types: the schema
did. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec

from aggserver.typed.readings import NOTHING, ClassReading, ClassTag, FieldReading, UnresolvedError, description_of

__all__ = ["read"]


def read(cls: Any) -> ClassReading:
    """Raises UnresolvedError."""
    config = cls.__struct_config__
    try:
        infos = msgspec.structs.fields(cls)
    except NameError as error:
        raise UnresolvedError(
            f"{error.name} is not known in the module: define or import it there, not only in a function"
        ) from None
    found = (_field(info) for info in infos)
    return ClassReading(
        cls,
        tuple(each for each in found if each is not None),
        lambda values: cls(**values),
        description_of(cls),
        get=_get,
        tag=None if config.tag is None else ClassTag(config.tag_field, config.tag),
        problem="an array-like Struct is a tuple in JSON: leave out array_like" if config.array_like else "",
    )


def _field(info: Any) -> FieldReading | None:
    default = NOTHING if info.default is msgspec.NODEFAULT else info.default
    factory = None if info.default_factory is msgspec.NODEFAULT else info.default_factory
    problem = ""
    if info.name.startswith("_"):
        if default is not NOTHING or factory is not None:
            return None
        problem = "a private field is no part of an object: give it a default, or another name"
    if default is msgspec.UNSET:
        return FieldReading(info.name, info.encode_name, info.type, required=False, key=info.name, problem=problem)
    return FieldReading(info.name, info.encode_name, info.type, default, factory, key=info.name, problem=problem)


def _get(value: Any, name: str) -> Any:
    found = getattr(value, name)
    return NOTHING if found is msgspec.UNSET else found
