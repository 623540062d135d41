"""Kubernetes' protobuf, read only: the few kinds that Go's typed clients send in it.

kubectl and client-go's typed clients write built-in kinds as `application/vnd.kubernetes.protobuf` whatever they read: a magic
number, an envelope that names the kind, and the message. Here it becomes the same JSON object that a JSON body would have been;
answers stay JSON, which the same clients accept. Custom resources have no protobuf form, upstream neither. Called for request
bodies by `endpoints/handlers/body.py`. Pure. Source: the generated.proto files of k8s.io/apimachinery and k8s.io/api, v0.36.3;
protobuf's encoding guide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from aggserver.meta import times

__all__ = ["ProtobufError", "UnknownKind", "decode"]

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """The bytes are no message of this kind."""


class UnknownKind(ValueError):
    """A kind that is not read here; the text is its name."""


@dataclass(frozen=True, slots=True)
class _Field:
    """name: of the JSON member. kind: string, int, bool, json (a text of JSON), time, map, or a message.

    pointer: Go's field is a pointer, so that its zero value is one; others are left out when zero, as their JSON form is.
    """

    name: str
    kind: str | _Message
    repeated: bool = False
    pointer: bool = False


@dataclass(frozen=True, slots=True)
class _Message:
    fields: Mapping[int, _Field]


def _strings(*names: str) -> dict[int, _Field]:
    """Fields 1, 2, 3 ... that are plain strings."""
    return {number: _Field(name, "string") for number, name in enumerate(names, 1)}


_OWNER_REFERENCE = _Message(
    {
        1: _Field("kind", "string"),
        3: _Field("name", "string"),
        4: _Field("uid", "string"),
        5: _Field("apiVersion", "string"),
        6: _Field("controller", "bool", pointer=True),
        7: _Field("blockOwnerDeletion", "bool", pointer=True),
    }
)
_MANAGED_FIELDS = _Message(
    {
        **_strings("manager", "operation", "apiVersion"),
        4: _Field("time", "time"),
        6: _Field("fieldsType", "string"),
        7: _Field("fieldsV1", _Message({1: _Field("", "json")})),
        8: _Field("subresource", "string"),
    }
)
_OBJECT_META = _Message(
    {
        **_strings("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"),
        7: _Field("generation", "int"),
        8: _Field("creationTimestamp", "time"),
        9: _Field("deletionTimestamp", "time"),
        10: _Field("deletionGracePeriodSeconds", "int", pointer=True),
        11: _Field("labels", "map", repeated=True),
        12: _Field("annotations", "map", repeated=True),
        13: _Field("ownerReferences", _OWNER_REFERENCE, repeated=True),
        14: _Field("finalizers", "string", repeated=True),
        17: _Field("managedFields", _MANAGED_FIELDS, repeated=True),
    }
)
_METADATA = _Field("metadata", _OBJECT_META)
_NAMESPACE = _Message(
    {
        1: _METADATA,
        2: _Field("spec", _Message({1: _Field("finalizers", "string", repeated=True)})),
        3: _Field("status", _Message({1: _Field("phase", "string")})),
    }
)
_RESOURCE_ATTRIBUTES = _Message(_strings("namespace", "verb", "group", "version", "resource", "subresource", "name"))
_ACCESS_REVIEW_SPEC = _Message(
    {
        1: _Field("resourceAttributes", _RESOURCE_ATTRIBUTES, pointer=True),
        2: _Field("nonResourceAttributes", _Message(_strings("path", "verb")), pointer=True),
    }
)
_DELETE_OPTIONS = _Message(
    {
        1: _Field("gracePeriodSeconds", "int", pointer=True),
        2: _Field(
            "preconditions",
            _Message({1: _Field("uid", "string", pointer=True), 2: _Field("resourceVersion", "string", pointer=True)}),
            pointer=True,
        ),
        3: _Field("orphanDependents", "bool", pointer=True),
        4: _Field("propagationPolicy", "string", pointer=True),
        5: _Field("dryRun", "string", repeated=True),
    }
)
_KINDS = {
    "Namespace": _NAMESPACE,
    "SelfSubjectReview": _Message({1: _METADATA}),
    "SelfSubjectAccessReview": _Message({1: _METADATA, 2: _Field("spec", _ACCESS_REVIEW_SPEC)}),
    "DeleteOptions": _DELETE_OPTIONS,
}
_ENVELOPE = _Message({1: _Field("typeMeta", _Message(_strings("apiVersion", "kind"))), 2: _Field("raw", "bytes")})


def decode(body: bytes) -> dict[str, Any]:
    """The object, with apiVersion and kind as the envelope names them. Raises ProtobufError, UnknownKind."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = _decode(body[len(_MAGIC) :], _ENVELOPE)
    type_meta = envelope.get("typeMeta", {})
    kind = type_meta.get("kind", "")
    message = _KINDS.get(kind)
    if message is None:
        raise UnknownKind(kind)
    return {**type_meta, **_decode(envelope.get("raw", b""), message)}


def _decode(data: bytes, message: _Message) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for number, value in _members(data):
        field = message.fields.get(number)
        if field is None:
            continue
        converted = _converted(field, value)
        if field.kind == "map":
            out.setdefault(field.name, {}).update(converted)
        elif field.repeated:
            out.setdefault(field.name, []).append(converted)
        elif converted or field.pointer:
            out[field.name] = converted
    return out


def _converted(field: _Field, value: int | bytes) -> Any:
    kind = field.kind
    if kind in ("int", "bool"):
        if not isinstance(value, int):
            raise ProtobufError(f"{field.name} is no number")
        return bool(value) if kind == "bool" else value - (1 << 64) if value >> 63 else value
    if not isinstance(value, bytes):
        raise ProtobufError(f"{field.name} is a number")
    if isinstance(kind, _Message):
        inner = _decode(value, kind)
        # FieldsV1 holds its JSON in one nameless member.
        return inner.get("", {}) if "" in (part.name for part in kind.fields.values()) else inner
    if kind == "time":
        return _time(value)
    if kind == "map":
        entry = _decode(value, _Message(_strings("key", "value")))
        return {entry.get("key", ""): entry.get("value", "")}
    return _leaf(field, value)


def _leaf(field: _Field, value: bytes) -> Any:
    try:
        if field.kind == "json":
            return orjson.loads(value) if value else {}
        return value if field.kind == "bytes" else value.decode()
    except ValueError as error:
        raise ProtobufError(f"{field.name}: {error}") from None


def _time(value: bytes) -> str:
    seconds = 0
    for number, part in _members(value):
        if number == 1 and isinstance(part, int):
            seconds = part - (1 << 64) if part >> 63 else part
    try:
        return times.format_time(seconds) if seconds else ""
    except (ValueError, OverflowError) as error:
        raise ProtobufError(f"a time is out of range: {error}") from None


def _members(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, number or bytes) of a message, in order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if wire == _BYTES:
            length, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if at + length > len(data):
            raise ProtobufError("unexpected EOF")
        yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise ProtobufError("proto: integer overflow")
