"""Answers in Kubernetes' protobuf as the JSON values that they say. The tables are those that answers are written by."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from aggserver.meta.protobuf_wire import LENGTH, fields, tag, with_length
from aggserver.scheme.protobuf import ANSWERS, BODIES, UnknownKind, decode, list_of
from aggserver.scheme.protobuf_codec import writer
from aggserver.scheme.types import Type

__all__ = ["contents", "decode_answer", "decode_events", "encode_body"]


def encode_body(obj: dict[str, Any]) -> bytes:
    """An object of one of the kinds in BODIES as Go's typed clients send it."""
    type_meta = b"".join(
        tag(number, LENGTH) + with_length(obj[name].encode()) for number, name in ((1, "apiVersion"), (2, "kind"))
    )
    members = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    parts = ((1, type_meta), (2, writer(BODIES[obj["apiVersion"], obj["kind"]])(members)))
    return b"k8s\x00" + b"".join(tag(number, LENGTH) + with_length(part) for number, part in parts)


def decode_answer(body: bytes) -> Any:
    """Of one object, of any kind that is read or written."""
    for kinds in (ANSWERS, BODIES):
        with suppress(UnknownKind):
            return decode(body, kinds)
    return decode(body, _Lists())


class _Lists(dict[tuple[str, str], Type]):
    """The types of the lists of all kinds."""

    def get(self, key: tuple[str, str], default: Any = None) -> Any:
        of = BODIES.get((key[0], key[1].removesuffix("List")))
        return default if of is None else list_of(of)


def decode_events(body: bytes) -> list[Any]:
    """Of a watch: frames with their length in front."""
    events, at = [], 0
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4])
        event = dict(contents(body[at + 4 : end]))
        kind, embedded = event[1], event[2]
        assert isinstance(kind, bytes)
        assert isinstance(embedded, bytes)
        raw = dict(contents(embedded))[1]
        assert isinstance(raw, bytes)
        events.append({"type": kind.decode(), "object": decode_answer(raw)})
        at = end
    return events


def contents(message: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a message: (number of the field, its number or its bytes)."""
    return [(number, message[value:stop] if stop else value) for number, value, stop in fields(message)]
