"""Patches: applies the value of a mutation's expression, a JSON patch or an apply configuration, to an object.

Errors are `MutationError` with upstream's text. Nothing is changed in place. Pure.
Source: k8s.io/apiserver pkg/admission/plugin/policy/mutating/patch/{json_patch,smd}.go, pkg/cel/mutation/dynamic/objects.go,
v0.36.3.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from typing import Any

from aggserver.cel import times
from aggserver.cel.values import Duration, Message, Optional, Timestamp, type_name
from aggserver.merge.atom import Atom
from aggserver.merge.merging import merge
from aggserver.merge.patch import JsonPatchError, PatchOperation, TestFailedError, apply_json_patch
from aggserver.merge.typed import TypedError, validate
from aggserver.meta.golang import from_float, quote
from aggserver.meta.json_types import JSONObject

__all__ = ["MutationError", "apply_configuration", "json_patch"]

# Larger integers are not exact in JSON, as CEL sees it, and become strings in the values of a JSON patch.
_LARGEST_EXACT = 2**53 - 1


class MutationError(Exception):
    """A mutation failed. The text is upstream's."""


def json_patch(obj: JSONObject, made: list[Any]) -> Any:
    """The patched object; `obj` itself if a `test` failed. made: the list of `JSONPatch{}` values. Raises MutationError."""
    operations = [
        PatchOperation(
            op=each.get("op", ""),
            path=each.get("path", ""),
            from_path=each.get("from") or None,
            value=_patch_value(each["value"]) if "value" in each else None,
        )
        for each in made
    ]
    try:
        return apply_json_patch(obj, operations)
    except TestFailedError:
        return obj
    except JsonPatchError as error:
        raise MutationError(f"JSON Patch: {error}") from None


def _patch_value(value: Any) -> Any:
    if isinstance(value, Message):
        _check_type_names(value)
    try:
        return _json(value)
    except ValueError as error:
        raise MutationError(f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}") from None


def apply_configuration(obj: JSONObject, made: Message, atom: Atom) -> JSONObject:
    """The object merged with an apply configuration. atom: the type of the object. Raises MutationError."""
    _check_type_names(made)
    kind = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    try:
        patch = {**_json(made, exact=False), **kind}
        validate({**_json(made, exact=False, null=_GO_NULL), **kind} if _has_null(made) else patch, atom)
    except (TypedError, ValueError) as error:
        raise MutationError(f"error applying patch: failed to convert patch object to typed object: {error}") from None
    if found := list(_atomics("", patch, atom)):
        what = f"may not mutate atomic arrays, maps or structs: {', '.join(found)}"
        raise MutationError(f"error applying patch: invalid ApplyConfiguration: {what}")
    try:
        merged: JSONObject = merge(obj, patch, atom)
    except TypedError as error:
        raise MutationError(f"error applying patch: {_why(obj, atom, error)}") from None
    return merged


def _why(obj: JSONObject, atom: Atom, error: TypedError) -> str:
    try:
        validate(obj, atom, allow_duplicates=True)
    except TypedError as misfit:
        return f"failed to convert original object to typed object: {misfit}"
    return f"failed to merge patch: {error}"


def _atomics(path: str, value: Any, atom: Atom) -> Iterator[str]:
    """The paths of atomic lists and maps, which a configuration must not set. Undeclared members are skipped, as upstream."""
    if isinstance(value, dict) and atom.map is not None:
        if atom.map.atomic:
            yield path
        for name, member in value.items():
            if name in atom.map.fields:
                yield from _atomics(f"{path}.{name}", member, atom.map.fields[name])
    elif isinstance(value, list) and atom.list is not None:
        if not atom.list.associative:
            yield path
        for index, item in enumerate(value):
            yield from _atomics(f"{path}[{index}]", item, atom.list.element)


# --- from CEL to JSON ---


def _check_type_names(made: Message) -> None:
    """Check that the names of types fit: `Object.spec{}` may only be the value of `spec`. Raises MutationError."""
    if problems := list(_wrong_type_names(made, made.type_name)):
        raise MutationError(f"type mismatch: {chr(10).join(problems)}")


def _wrong_type_names(value: Any, expected: str) -> Iterator[str]:
    if isinstance(value, Message):
        if value.type_name != expected:
            where = f"expected {quote(expected)}, which matches field name path from root Object type"
            yield f"unexpected type name {quote(value.type_name)}, {where}"
        for name, member in value.items():
            yield from _wrong_type_names(member, f"{expected}.{name}")
    elif isinstance(value, list | dict):
        for member in value if isinstance(value, list) else value.values():
            yield from _wrong_type_names(member, expected)


def _has_null(value: Any) -> bool:
    if isinstance(value, list | dict):
        return any(map(_has_null, value if isinstance(value, list) else value.values()))
    return value is None


class _GoNull(float):
    """Null in an apply configuration: in upstream's type check, only a schema's numbers accept it."""


_GO_NULL = _GoNull(0)


def _json(value: Any, *, exact: bool = True, null: _GoNull | None = None) -> Any:
    """A CEL value as JSON. exact: integers that JSON's floats can't hold become strings. null: what null becomes.

    Raises ValueError for values that JSON can't represent.
    """
    match value:
        case None:
            return null
        case bool() | str():
            return value
        case int():
            return str(int(value)) if exact and abs(value) > _LARGEST_EXACT else int(value)
        case float():
            return from_float(value) if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case list():
            return [_json(item, exact=exact, null=null) for item in value]
        case dict():
            return {_key(key): _json(item, exact=exact, null=null) for key, item in value.items()}
        case bytes():
            return base64.b64encode(value).decode()
        case Timestamp():
            return times.print_timestamp(value)
        case Duration():
            return times.print_duration(value)
        case Optional() if value.present:
            return _json(value.value, exact=exact, null=null)
        case _:
            name = type_name(value)
            shown = name if name.startswith("kubernetes.authorization.") else name.rpartition(".")[2]
            raise ValueError(f"type conversion error from '{shown}' to '*structpb.Value'")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise ValueError(f"unsupported type conversion from '{type_name(key)}' to string")
