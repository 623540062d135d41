"""Kubernetes' protobuf, for the kinds that Go's typed clients send in this form, and those that they request in it.

A body consists of a magic number, an envelope that names the kind, and the message. kubectl and client-go's typed clients always
send built-in kinds in this form; client-go's metadata client requests PartialObjectMetadata only in this form, if the server has
it. Custom resources have no protobuf form, as upstream. A request body is decoded to the same JSON object as a JSON body; a
response is encoded from one. `tables/` maps the fields to members.
Pure. Source: k8s.io/apimachinery pkg/runtime/generated.proto and pkg/runtime/serializer/protobuf/protobuf.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from aggserver.meta.protobuf_wire import LENGTH, ProtobufError, fields, tag, with_length
from aggserver.scheme.kinds import KINDS, kind_of
from aggserver.scheme.protobuf_codec import reader, writer
from aggserver.scheme.types import Member, Type, lookup

__all__ = [
    "ANSWERS",
    "BODIES",
    "ProtobufError",
    "UnknownKind",
    "decode",
    "encode",
    "encode_event",
    "encode_items",
    "encode_list",
    "list_of",
]

_MAGIC = b"k8s\x00"


class _ByKind(Mapping[tuple[str, str], Type]):
    """Types by apiVersion and kind. The table of a type is read when the type is first needed.

    Kinds of meta/v1 are in every group and version: upstream's clients send DeleteOptions with the group and version of the
    objects that they delete.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {kind_of(name): name for name in names}

    def __getitem__(self, key: tuple[str, str]) -> Type:
        return lookup(self._names.get(("", key[1])) or self._names[key])

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


# The kinds that request bodies may have.
BODIES = _ByKind((*KINDS, "meta/v1.DeleteOptions"))
# The kinds that responses may have.
ANSWERS = _ByKind(
    (
        "apidiscovery/v2.APIGroupDiscoveryList",
        "meta/v1.APIGroup",
        "meta/v1.APIGroupList",
        "meta/v1.APIResourceList",
        "meta/v1.APIVersions",
        "meta/v1.PartialObjectMetadata",
        "meta/v1.PartialObjectMetadataList",
        "meta/v1.Status",
    )
)
# Built at import, since a thread must not use an incomplete writer; those of built-in kinds are used by the event loop alone.
_WRITERS = {kind: writer(of) for (_, kind), of in ANSWERS.items()}

# runtime.TypeMeta numbers its members differently from that of meta/v1.
_TYPE_META = Type(
    "runtime.TypeMeta",
    "struct",
    members={
        name: Member(name, go_name, Type("string", "string"), number, pointer=False, omitempty=True)
        for number, name, go_name in ((1, "apiVersion", "APIVersion"), (2, "kind", "Kind"))
    },
)
_read_type_meta, _write_type_meta = reader(_TYPE_META), writer(_TYPE_META)
# The fields of runtime.Unknown: the TypeMeta, and the message.
_WHAT, _RAW = 1, 2
# The fields of meta/v1.WatchEvent, and of the runtime.RawExtension in it.
_EVENT_TYPE, _EVENT_OBJECT, _OBJECT_RAW = 1, 2, 1


class UnknownKind(ValueError):
    """A kind that this module does not decode; the text is its name."""


def decode(body: bytes, kinds: Mapping[tuple[str, str], Type] = BODIES) -> dict[str, Any]:
    """Decode an object, with apiVersion and kind from the envelope. Raises ProtobufError, UnknownKind."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    type_meta: dict[str, Any] = {}
    start = stop = len(body)
    for number, at, end in fields(body, len(_MAGIC)):
        if number == _WHAT:
            type_meta = _read_type_meta(body, at, end)
        elif number == _RAW:
            if not end:
                raise ProtobufError("raw is a number")
            start, stop = at, end
    of = kinds.get((type_meta.get("apiVersion", ""), type_meta.get("kind", "")))
    if of is None:
        raise UnknownKind(type_meta.get("kind", ""))
    return {**type_meta, **reader(of)(body, start, stop)}


def encode(obj: dict[str, Any]) -> bytes:
    """Encode an object of one of the kinds in ANSWERS or BODIES. Its members must have the types of the kind."""
    return _enveloped(obj, _writer_of(obj)(obj))


def encode_items(before: dict[str, Any], items: Iterable[dict[str, Any]]) -> bytes:
    """Encode some of the items of a list, for `encode_list`. before: the list without its items."""
    return _writer_of(before)({"items": list(items)})


def encode_list(before: dict[str, Any], items: Iterable[bytes]) -> bytes:
    """Encode a list. before: the list without its items. items: results of `encode_items`, in order."""
    return _enveloped(before, _writer_of(before)(before) + b"".join(items))


def _writer_of(obj: dict[str, Any]) -> Callable[[Any], bytes]:
    return _WRITERS.get(obj["kind"]) or _built_in_writer(obj["apiVersion"], obj["kind"])


# One for each kind and list that was asked for.
@cache
def _built_in_writer(api_version: str, kind: str) -> Callable[[Any], bytes]:
    of = BODIES.get((api_version, kind))
    return writer(of if of is not None else list_of(BODIES[api_version, kind.removesuffix("List")]))


def list_of(of: Type) -> Type:
    """The type of lists of a kind: all have the same members."""
    items = Type("", "list", of)
    return Type(
        f"{of.name}List",
        "struct",
        members={
            "metadata": Member("metadata", "ListMeta", lookup("meta/v1.ListMeta"), 1, pointer=False, omitempty=True),
            "items": Member("items", "Items", items, 2, pointer=False, omitempty=False),
        },
    )


def encode_event(type_: str, obj: bytes) -> bytes:
    """Encode a frame of a watch, which starts with its length. obj: result of `encode`."""
    event = _field(_EVENT_TYPE, type_.encode()) + _field(_EVENT_OBJECT, _field(_OBJECT_RAW, obj))
    return len(event).to_bytes(4) + event


def _enveloped(obj: dict[str, Any], raw: bytes) -> bytes:
    type_meta = _write_type_meta({"apiVersion": obj.get("apiVersion", ""), "kind": obj["kind"]})
    return _MAGIC + _field(_WHAT, type_meta) + _field(_RAW, raw)


def _field(number: int, content: bytes) -> bytes:
    return tag(number, LENGTH) + with_length(content)
