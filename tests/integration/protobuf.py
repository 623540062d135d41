"""Answers in Kubernetes' protobuf as the JSON values that they say. The tables are those that answers are written by."""

from __future__ import annotations

from typing import Any

from aggserver.meta import protobuf
from aggserver.meta.protobuf_messages import ANSWERS, KINDS
from aggserver.meta.protobuf_wire import fields

__all__ = ["decode_answer", "decode_events"]


def decode_answer(body: bytes) -> Any:
    """Of one object, of any kind that is read or written."""
    return protobuf.decode(body, {**KINDS, **ANSWERS})


def decode_events(body: bytes) -> list[Any]:
    """Of a watch: frames with their length in front."""
    events, at = [], 0
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4])
        event = dict(fields(body[at + 4 : end]))
        kind, embedded = event[1], event[2]
        assert isinstance(kind, bytes)
        assert isinstance(embedded, bytes)
        raw = dict(fields(embedded))[1]
        assert isinstance(raw, bytes)
        events.append({"type": kind.decode(), "object": decode_answer(raw)})
        at = end
    return events
