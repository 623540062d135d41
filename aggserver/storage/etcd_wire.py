"""Encoding and decoding of etcd's messages: only those messages and fields that are used here. Pure.

Responses are decoded in one pass into the types of `interface.py`; a malformed one raises Unavailable. The protobuf library would
not be faster, because most of the time goes into making the objects, and it would be one more dependency. Field numbers are in
the code, with the message's name beside them.
Source: go.etcd.io/etcd/api/v3 etcdserverpb/rpc.proto and mvccpb/kv.proto, v3.6.8; protobuf's encoding guide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

from aggserver.meta.protobuf_wire import LENGTH, VARINT, ProtobufError, fields, tag, varint, with_length
from aggserver.storage.interface import Event, KeyValue, Unavailable

__all__ = [
    "MOD",
    "PROGRESS",
    "VERSION",
    "MemberStatus",
    "RangeAnswer",
    "TxnAnswer",
    "WatchAnswer",
    "compaction_request",
    "compare",
    "delete_op",
    "put_answer",
    "put_op",
    "put_request",
    "range_answer",
    "range_op",
    "range_request",
    "status",
    "txn_answer",
    "txn_request",
    "watch_answer",
    "watch_request",
]

# What a Compare compares: (Compare.target, the number of the field with the expected value).
VERSION, MOD = (0, 4), (2, 6)
# WatchRequest.progress_request
PROGRESS = b"\x1a\x00"


def range_request(key: bytes, end: bytes = b"", *, limit: int = 0, revision: int = 0, count_only: bool = False) -> bytes:
    return _bytes(1, key) + _bytes(2, end) + _number(3, limit) + _number(4, revision) + _number(9, count_only)


def range_op(key: bytes) -> bytes:
    """An operation of a `txn_request`, like the next two: RequestOp.request_range of one key."""
    return _bytes(1, range_request(key))


def put_request(key: bytes, value: bytes) -> bytes:
    return _bytes(1, key) + _bytes(2, value)


def put_op(key: bytes, value: bytes) -> bytes:
    return _bytes(2, put_request(key, value))


def delete_op(key: bytes) -> bytes:
    return _bytes(3, _bytes(1, key))


def compare(key: bytes, what: tuple[int, int], number: int) -> bytes:
    """A comparison of a `txn_request`: the key's VERSION or MOD is `number` (0: no such key). Several may be concatenated."""
    target, field = what
    # The number belongs to a oneof, so it is encoded even if it is 0. Compare.result is left out: 0 is EQUAL.
    return _bytes(1, _number(2, target) + _bytes(3, key) + tag(field, VARINT) + varint(number))


def txn_request(compares: bytes, then: bytes, otherwise: bytes) -> bytes:
    """A TxnRequest, which runs `then` if all comparisons hold, else `otherwise`."""
    return compares + _bytes(2, then) + _bytes(3, otherwise)


def compaction_request(revision: int) -> bytes:
    return _number(1, revision)


def watch_request(key: bytes, end: bytes, start_revision: int, *, previous: bool) -> bytes:
    """A WatchRequest that creates a watch. Large responses may come in fragments, because the size of a message is limited.

    It has progress_notify, as kube-apiserver's: kine answers progress requests only on watches that have it.
    """
    create = _bytes(1, key) + _bytes(2, end) + _number(3, start_revision)
    create += _number(4, True) + _number(6, previous) + _number(8, True)
    return _bytes(1, create)


@dataclass(slots=True)
class RangeAnswer:
    """A RangeResponse. `count` is that of the whole range, whatever the limit; `version` is the last item's number of writes."""

    revision: int
    items: list[KeyValue]
    more: bool
    count: int
    version: int


class TxnAnswer(NamedTuple):
    """A TxnResponse. `found` is the result of the `range_op` in the branch that was run, None if the branch had none.

    deleted: how many keys its `delete_op` has deleted, None if it had none.
    """

    revision: int
    succeeded: bool
    found: RangeAnswer | None
    deleted: int | None


class MemberStatus(NamedTuple):
    """A StatusResponse. version: such as 3.6.8. member: the id of the member that answers, 0 from kine, which has no members."""

    version: str
    member: int


@dataclass(slots=True)
class WatchAnswer:
    """A WatchResponse. `revision` is the store's when it was sent; only if `events` is empty, all events up to it were sent."""

    events: list[Event]
    revision: int = 0
    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    cancel_reason: str = ""
    fragment: bool = False


_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def _answer(read: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """Raise Unavailable for a malformed message, because a store that sends one can't be relied on."""

    @wraps(read)
    def wrapper(*args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        try:
            return read(*args, **kwargs)
        except (ProtobufError, UnicodeDecodeError) as error:
            raise Unavailable(f"etcd sent a message that can't be read: {error}") from None

    return wrapper


@_answer
def range_answer(data: bytes, skip: int) -> RangeAnswer:
    """Decode a RangeResponse. skip: length in bytes of the prefix of all keys."""
    return _range_answer(data, 0, len(data), skip)


def _range_answer(data: bytes, at: int, end: int, skip: int) -> RangeAnswer:
    revision = count = version = 0
    more = False
    items: list[KeyValue] = []
    for field, value, stop in fields(data, at, end):
        if field == 2:
            item, version = _key_value(data, value, stop, skip)
            items.append(item)
        elif field == 1:
            revision = _revision(data, value, stop)
        elif field == 3:
            more = bool(value)
        elif field == 4:
            count = value
    return RangeAnswer(revision, items, more, count, version)


@_answer
def txn_answer(data: bytes, skip: int) -> TxnAnswer:
    revision, succeeded, found, deleted = 0, False, None, None
    for field, value, stop in fields(data):
        if field == 1:
            revision = _revision(data, value, stop)
        elif field == 2:
            succeeded = bool(value)
        elif field == 3:
            for kind, start, inner in fields(data, value, stop):
                if kind == 1:  # ResponseOp.response_range
                    found = _range_answer(data, start, inner, skip)
                elif kind == 3:  # ResponseOp.response_delete_range
                    deleted = next((number for field, number, _ in fields(data, start, inner) if field == 2), 0)
    return TxnAnswer(revision, succeeded, found, deleted)


@_answer
def watch_answer(data: bytes, skip: int) -> WatchAnswer:
    answer = WatchAnswer([])
    for field, value, stop in fields(data):
        if field == 11:
            answer.events.append(_event(data, value, stop, skip))
        elif field == 1:
            answer.revision = _revision(data, value, stop)
        elif field == 3:
            answer.created = bool(value)
        elif field == 4:
            answer.canceled = bool(value)
        elif field == 5:
            answer.compact_revision = value
        elif field == 6:
            answer.cancel_reason = data[value:stop].decode()
        elif field == 7:
            answer.fragment = bool(value)
    return answer


@_answer
def put_answer(data: bytes) -> int:
    """The revision in a PutResponse."""
    return next((_revision(data, value, stop) for field, value, stop in fields(data) if field == 1), 0)


@_answer
def status(data: bytes) -> MemberStatus:
    version, member = "", 0
    for field, value, stop in fields(data):
        if field == 1:  # ResponseHeader.member_id
            member = next((number for inner, number, _ in fields(data, value, stop) if inner == 2), 0)
        elif field == 2:
            version = data[value:stop].decode()
    return MemberStatus(version, member)


def _event(data: bytes, at: int, end: int, skip: int) -> Event:
    deletion = False
    item = previous = None
    for field, value, stop in fields(data, at, end):
        if field == 1:
            deletion = bool(value)  # Event.EventType: PUT is 0, DELETE is 1
        elif field == 2:
            item, _ = _key_value(data, value, stop, skip)
        elif field == 3:
            previous, _ = _key_value(data, value, stop, skip)
    if item is None or not item.key or not item.revision:
        raise ProtobufError("an event without a key or a revision")
    created = previous.create_revision if deletion and previous is not None else item.create_revision
    return Event(item.revision, item.key, None if deletion else item.value, created, previous)


def _key_value(data: bytes, at: int, end: int, skip: int) -> tuple[KeyValue, int]:
    key, content = "", b""
    create_revision = revision = version = 0
    for field, value, stop in fields(data, at, end):
        if field == 1:
            key = data[value + skip : stop].decode()
        elif field == 2:
            create_revision = value
        elif field == 3:
            revision = value
        elif field == 4:
            version = value
        elif field == 5:
            content = data[value:stop]
    return KeyValue(key, content, create_revision, revision), version


def _revision(data: bytes, at: int, end: int) -> int:
    """ResponseHeader.revision."""
    return next((value for field, value, _ in fields(data, at, end) if field == 3), 0)


def _bytes(field: int, content: bytes) -> bytes:
    return tag(field, LENGTH) + with_length(content) if content else b""


def _number(field: int, value: int) -> bytes:
    return tag(field, VARINT) + varint(value) if value else b""
