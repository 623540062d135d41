"""Encoding and decoding of etcd's messages, compared with bytes written by hand."""

from collections.abc import Callable

import pytest

from aggserver.storage import etcd_wire as wire
from aggserver.storage.interface import Event, KeyValue, Unavailable

# Written out from rpc.proto and kv.proto: tag, length, content. The header has cluster_id, member_id, revision 300, raft_term.
_HEADER = b"\x08\xb2\xf4\xaa\xf5\x97\xe8\x8e\x9e\xd1\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x18\xac\x02\x20\x02"
HEADER = b"\x0a" + bytes((len(_HEADER),)) + _HEADER
KV = b"\x0a\x04/r/a\x10\x05\x18\xac\x02\x20\x03\x2a\x02{}"
PREVIOUS = b"\x0a\x04/r/a\x10\x05\x18\x07\x20\x02\x2a\x01x"


def field(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | 2, len(content))) + content


@pytest.mark.parametrize(
    ("message", "data"),
    [
        pytest.param(wire.range_request(b"/a"), b"\x0a\x02/a", id="range of one key"),
        pytest.param(
            wire.range_request(b"/a/", b"/a0", limit=500, revision=300, count_only=True),
            b"\x0a\x03/a/\x12\x03/a0\x18\xf4\x03\x20\xac\x02\x48\x01",
            id="range",
        ),
        pytest.param(
            wire.txn_request(wire.compare(b"k", wire.MOD, 0), wire.put_op(b"k", b"v"), wire.range_op(b"k")),
            # The number of a comparison is encoded even if it is 0.
            b"\x0a\x07\x10\x02\x1a\x01k\x30\x00\x12\x08\x12\x06\x0a\x01k\x12\x01v\x1a\x05\x0a\x03\x0a\x01k",
            id="create",
        ),
        pytest.param(
            wire.txn_request(wire.compare(b"k", wire.MOD, 300), wire.delete_op(b"k"), wire.range_op(b"k")),
            b"\x0a\x08\x10\x02\x1a\x01k\x30\xac\x02\x12\x05\x1a\x03\x0a\x01k\x1a\x05\x0a\x03\x0a\x01k",
            id="delete",
        ),
        pytest.param(
            wire.txn_request(wire.compare(b"k", wire.VERSION, 2), wire.put_op(b"k", b""), wire.range_op(b"k")),
            b"\x0a\x05\x1a\x01k\x20\x02\x12\x05\x12\x03\x0a\x01k\x1a\x05\x0a\x03\x0a\x01k",
            id="claim",
        ),
        pytest.param(wire.compaction_request(300), b"\x08\xac\x02", id="compaction"),
        pytest.param(
            wire.watch_request(b"/a/", b"/a0", 300, previous=True),
            b"\x0a\x13\x0a\x03/a/\x12\x03/a0\x18\xac\x02\x20\x01\x30\x01\x40\x01",
            id="watch",
        ),
        pytest.param(wire.PROGRESS, field(3, b""), id="progress"),
    ],
)
def test_requests(message: bytes, data: bytes) -> None:
    assert message == data


def test_a_range() -> None:
    answer = wire.range_answer(HEADER + field(2, KV) + b"\x18\x01\x20\x90\x4e", len("/r"))
    assert answer == wire.RangeAnswer(300, [KeyValue("/a", b"{}", 5, 300)], True, 10000, 3)
    assert wire.range_answer(HEADER, 0) == wire.RangeAnswer(300, [], False, 0, 0)


def test_a_transaction() -> None:
    assert wire.txn_answer(HEADER + b"\x10\x01" + field(3, field(2, HEADER)), 0) == wire.TxnAnswer(300, True, None, None)
    for deletion, deleted in ((b"", 0), (b"\x10\x01", 1)):
        assert wire.txn_answer(HEADER + field(3, field(3, field(1, b"") + deletion)), 0).deleted == deleted
    refused = wire.txn_answer(HEADER + field(3, field(1, field(2, KV) + b"\x20\x01")), len("/r"))
    assert (refused.revision, refused.succeeded) == (300, False)
    assert refused.found == wire.RangeAnswer(0, [KeyValue("/a", b"{}", 5, 300)], False, 1, 3)


def test_a_watch() -> None:
    put, deletion = field(2, KV) + field(3, PREVIOUS), b"\x08\x01" + field(2, b"\x0a\x04/r/a\x18\xac\x02") + field(3, PREVIOUS)
    previous = KeyValue("/a", b"x", 5, 7)
    assert wire.watch_answer(HEADER + field(11, put) + field(11, deletion), len("/r")) == wire.WatchAnswer(
        [Event(300, "/a", b"{}", 5, previous), Event(300, "/a", None, 5, previous)], 300
    )
    negative = b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # watch_id -1: the answer to a progress request
    assert wire.watch_answer(HEADER + negative, 0) == wire.WatchAnswer([], 300)
    assert wire.watch_answer(b"\x18\x01\x38\x01", 0) == wire.WatchAnswer([], created=True, fragment=True)
    assert wire.watch_answer(b"\x20\x01\x28\x09\x32\x03why", 0) == wire.WatchAnswer(
        [], canceled=True, compact_revision=9, cancel_reason="why"
    )


def test_what_is_not_known_is_skipped() -> None:
    unknown = b"\xf8\x07\x05" + b"\xf9\x07" + bytes(8) + b"\xfd\x07" + bytes(4) + b"\xfa\x07\x02ab"
    assert wire.range_answer(unknown + HEADER + unknown, 0).revision == 300


def test_a_status() -> None:
    member = field(1, b"\x08\x05\x10\xac\x02\x18\x07")
    assert wire.status(member + field(2, b"3.6.8")) == wire.MemberStatus("3.6.8", 300)
    assert wire.status(field(1, b"") + field(2, b"3.6.11")) == wire.MemberStatus("3.6.11", 0)


def test_a_put() -> None:
    assert wire.put_answer(HEADER) == 300


@pytest.mark.parametrize(
    ("read", "message"),
    [
        pytest.param(lambda data: wire.range_answer(data, 2), HEADER + field(2, KV), id="range"),
        pytest.param(lambda data: wire.txn_answer(data, 2), HEADER + field(3, field(1, field(2, KV))), id="transaction"),
        pytest.param(lambda data: wire.watch_answer(data, 2), HEADER + field(11, field(2, KV) + field(3, PREVIOUS)), id="watch"),
    ],
)
def test_what_is_cut_off_is_refused(read: Callable[[bytes], object], message: bytes) -> None:
    # Behind the header alone a message may end: what follows is one field.
    for length in {*range(1, len(message))} - {len(HEADER)}:
        with pytest.raises(Unavailable, match="unexpected EOF"):
            read(message[:length])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(field(11, field(2, KV[:-3] + b"\x7f{}")), "unexpected EOF", id="a length past its message"),
        pytest.param(field(11, field(2, b"\x0a\x01\xff")), "'utf-8' codec", id="a key that is no text"),
        pytest.param(field(11, b""), "an event without a key", id="an event of nothing"),
        pytest.param(b"\x18" + b"\xff" * 10, "integer overflow", id="a number without end"),
    ],
)
def test_what_is_malformed_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(Unavailable, match=text):
        wire.watch_answer(data, 0)
