"""Classes: what a class of users is, and what its fields are.

dataclasses and TypedDicts are read here; attrs classes, pydantic models and msgspec Structs by the doors, which are imported only
if the user's program has imported the library. Pure.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from typing import Any, get_args, get_origin, is_typeddict

from aggserver.typed.readings import NOTHING, ClassReading, FieldReading, description_of, json_name, plain_field, type_hints

__all__ = ["read_class"]


def read_class(cls: Any) -> ClassReading | None:
    """What is known of a class; None if it is none with fields. Raises UnresolvedError."""
    if not isinstance(cls, type):
        return None
    if hasattr(cls, "__pydantic_decorators__") and "pydantic" in sys.modules:
        from aggserver.typed import pydantic_door

        return pydantic_door.read(cls)
    if hasattr(cls, "__struct_fields__") and "msgspec" in sys.modules:
        from aggserver.typed import msgspec_door

        return msgspec_door.read(cls)
    if hasattr(cls, "__attrs_attrs__"):
        from aggserver.typed import attrs_door

        return attrs_door.read(cls)
    if is_typeddict(cls):
        return _typed_dict(cls)
    return _dataclass(cls) if dataclasses.is_dataclass(cls) else None


def _dataclass(cls: Any) -> ClassReading:
    hints = type_hints(cls)
    fields = []
    # What only the constructor takes is no field. Python has no public name for these.
    given = [each.name for each in cls.__dataclass_fields__.values() if each._field_type is dataclasses._FIELD_INITVAR]  # type: ignore[attr-defined]
    needed = [name for name in given if cls.__dataclass_fields__[name].default is dataclasses.MISSING]
    problem = f"the InitVar {needed[0]} can't be read back: give it a default, or make it a field" if needed else ""
    for each in dataclasses.fields(cls):
        factory = None if each.default_factory is dataclasses.MISSING else each.default_factory
        reading = plain_field(
            each.name,
            hints[each.name],
            NOTHING if each.default is dataclasses.MISSING else each.default,
            factory,
            each.init,
        )
        if reading is not None:
            fields.append(reading)
    return ClassReading(cls, tuple(fields), lambda values: cls(**values), description_of(cls), problem=problem)


def _typed_dict(cls: Any) -> ClassReading:
    fields = []
    for name, hint in type_hints(cls).items():
        # Python does not see these two in annotations that are texts, so `__required_keys__` alone is not enough.
        origin = get_origin(hint)
        is_marked = origin in (typing.Required, typing.NotRequired)
        annotation = get_args(hint)[0] if is_marked else hint
        required = origin is typing.Required if is_marked else name in cls.__required_keys__
        fields.append(FieldReading(name, json_name(name, annotation), annotation, required=required, key=name))
    return ClassReading(cls, tuple(fields), dict, description_of(cls), lambda value, name: value.get(name, NOTHING))
