"""Pydantic: the fields of models and of pydantic's dataclasses, and the schemas of types that only pydantic knows.

The only module that imports pydantic, and is imported itself only if the user's program has. Names are pydantic's own, and must
be the same in both directions. Instances are made by `model_validate` of values that are decoded already, so that all validators
run. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import pydantic
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from aggserver.typed.markers import Doc, Extra, Tag
from aggserver.typed.readings import NOTHING, ClassReading, FieldReading, UnresolvedError, description_of
from aggserver.typed.shape import Convert, Loc, Mismatch, MismatchError

__all__ = ["expanded", "foreign", "read"]

_PREFIXES = ("Value error, ", "Assertion failed, ")


def read(cls: Any) -> ClassReading | None:
    """What is known of a model; None for a RootModel, which is no object. Raises UnresolvedError."""
    is_model = issubclass(cls, pydantic.BaseModel)
    if is_model and issubclass(cls, pydantic.RootModel):
        return None
    if not cls.__dict__.get("__pydantic_complete__", True):
        _complete(cls, is_model=is_model)
    decorators = cls.__pydantic_decorators__
    serialized = {name for each in decorators.field_serializers.values() for name in each.info.fields}
    infos = getattr(cls, "__pydantic_fields__", None) or cls.model_fields
    fields = [_field(name, info, serialized) for name, info in infos.items()]
    fields += [_computed(name, each.info) for name, each in decorators.computed_fields.items()]
    config = cls.model_config if is_model else cls.__pydantic_config__
    problem = "a serializer of the whole model can write anything: leave it out" if decorators.model_serializers else ""
    return ClassReading(
        cls,
        tuple(fields),
        cls.model_validate if is_model else lambda values: cls(**values),
        description_of(cls),
        get=_get,
        more=_more if is_model and config.get("extra") == "allow" else None,
        explain=_explain,
        problem=problem,
    )


def _complete(cls: Any, *, is_model: bool) -> None:
    try:
        if is_model:
            cls.model_rebuild()
        else:
            pydantic.dataclasses.rebuild_dataclass(cls)
    except pydantic.errors.PydanticUndefinedAnnotation as error:
        name = error.name
        raise UnresolvedError(f"{name} is not known in the module: define or import it there, not only in a function") from None


def _get(value: Any, name: str) -> Any:
    """Not by getattr, by which a deprecated field would warn each time. Computed fields are not in the dict."""
    fields = value.__dict__
    return fields[name] if name in fields else getattr(value, name)


def _more(value: Any) -> Mapping[str, Any]:
    return value.__pydantic_extra__ or {}


def _field(name: str, info: Any, serialized: set[str]) -> FieldReading:
    json = info.serialization_alias or info.alias or name
    problem = ""
    if json != (info.validation_alias or info.alias or name):
        problem = "is read and written by different names: a field has one name, which `alias` sets for both"
    elif info.exclude:
        problem = "an excluded field can't be read back: make it a private attribute, or leave out exclude"
    elif name in serialized or "*" in serialized:
        problem = "a serializer can write another type than is read: leave it out, and use the type that is written"
    elif info.discriminator is not None and not isinstance(info.discriminator, str):
        problem = "the tag of a union is a field: use discriminator='...' with its name"
    annotation = _annotated(info.annotation, expanded(info))
    default = NOTHING if info.default in (PydanticUndefined, ...) else info.default
    return FieldReading(name, json, annotation, default, info.default_factory, key=json, problem=problem)


def _computed(name: str, info: Any) -> FieldReading:
    extras = list(_said(info))
    return FieldReading(name, info.alias or name, _annotated(info.return_type, extras), required=False, computed=True)


def _annotated(annotation: Any, extras: list[Any]) -> Any:
    return Annotated[(annotation, *extras)] if extras else annotation


def expanded(info: Any) -> list[Any]:
    """What a Field says, as markers of ours and the constraints that it has."""
    assert isinstance(info, FieldInfo)
    extras = [*info.metadata, *_said(info)]
    if isinstance(info.discriminator, str):
        extras.append(Tag(info.discriminator))
    return extras


def _said(info: Any) -> Iterator[Any]:
    text = info.description or ""
    if deprecated := info.deprecated:
        why = getattr(deprecated, "message", deprecated)
        text = f"{text}\nDeprecated{': ' + why.rstrip('.') if isinstance(why, str) else ''}.".strip()
    if isinstance(info.json_schema_extra, Mapping):
        yield Extra(info.json_schema_extra)
    if text:
        yield Doc(text)


def _explain(error: Exception) -> Iterator[tuple[Loc, str]]:
    """What pydantic says, by the places below the model. A validator may have raised an error of another type."""
    if not isinstance(error, pydantic.ValidationError):
        yield (), str(error)
        return
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        text = each["msg"]
        for prefix in _PREFIXES:
            text = text.removeprefix(prefix)
        yield each["loc"], text


def foreign(annotation: Any) -> tuple[Mapping[str, Any], Convert, Convert] | str | None:
    """The JSON schema that pydantic prints of a type, with decoder and encoder, or why there is none; None if the type is not
    pydantic's.
    """
    if not _is_known(annotation):
        return None
    try:
        adapter = pydantic.TypeAdapter(annotation)
        printed, written = adapter.json_schema(), adapter.json_schema(mode="serialization")
    except (pydantic.PydanticUserError, ImportError):
        return None
    if printed != written:
        return "is read and written differently: use the type that is written"

    def decode(value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except pydantic.ValidationError as error:
            raise MismatchError([Mismatch(loc, value, text) for loc, text in _explain(error)]) from error

    return printed, decode, lambda value: adapter.dump_python(value, mode="json")


def _is_known(annotation: Any) -> bool:
    """Whether a type is pydantic's, or made for it. Those of the standard library are not: they mean the same without it."""
    return hasattr(annotation, "__metadata__") or hasattr(annotation, "__get_pydantic_core_schema__")
