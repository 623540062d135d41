"""The bytes of protobuf's encoding guide, and that nothing is read past the end of a message."""

from __future__ import annotations

import pytest

from aggserver.meta.protobuf_wire import FIXED32, FIXED64, LENGTH, VARINT, ProtobufError, fields, signed, tag, varint, with_length

NUMBERS = {
    0: b"\x00",
    1: b"\x01",
    127: b"\x7f",
    128: b"\x80\x01",
    150: b"\x96\x01",
    2**63 - 1: b"\xff" * 8 + b"\x7f",
    2**64 - 1: b"\xff" * 9 + b"\x01",
    -1: b"\xff" * 9 + b"\x01",
    -(2**63): b"\x80" * 9 + b"\x01",
}


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers(number: int) -> None:
    data = NUMBERS[number]
    assert varint(number) == data
    ((_, value, stop),) = fields(tag(1, VARINT) + data)
    assert (value, stop) == (number % 2**64, 0)
    if number < 2**63:
        assert signed(value) == number


def test_tags() -> None:
    assert tag(1, LENGTH) == b"\x0a"
    assert tag(16, VARINT) == b"\x80\x01"


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300])
def test_lengths(size: int) -> None:
    content = bytes(size)
    data = tag(2, LENGTH) + with_length(content)
    assert [(number, data[start:stop]) for number, start, stop in fields(data)] == [(2, content)]


MESSAGE = (
    tag(1, VARINT)
    + varint(300)
    + tag(20, LENGTH)
    + with_length(b"ab")
    + (tag(3, FIXED64) + b"12345678")
    + (tag(4, FIXED32) + b"1234")
    + tag(5, LENGTH)
    + with_length(b"x" * 200)
)


def test_a_message() -> None:
    found = [(number, MESSAGE[value:stop] if stop else value) for number, value, stop in fields(MESSAGE)]
    assert found == [(1, 300), (20, b"ab"), (3, b"12345678"), (4, b"1234"), (5, b"x" * 200)]


def test_a_part_of_the_bytes() -> None:
    data = b"\xff" + MESSAGE + b"\xff"
    assert [number for number, _, _ in fields(data, 1, 1 + len(MESSAGE))] == [1, 20, 3, 4, 5]
    assert not list(fields(data, 5, 5))


@pytest.mark.parametrize("behind", [b"", b"\x01" * 300], ids=["at the end", "with bytes behind"])
def test_every_prefix_that_ends_within_a_field_is_refused(behind: bytes) -> None:
    """Also where the message is a part of another, whose bytes must not be taken for its own."""
    whole = {0, len(MESSAGE), *(stop for _, _, stop in fields(MESSAGE) if stop), 3}
    for length in range(len(MESSAGE)):
        data = MESSAGE[:length] + behind
        if length in whole:
            list(fields(data, 0, length))
            continue
        with pytest.raises(ProtobufError, match="unexpected EOF"):
            list(fields(data, 0, length))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"\x08" + b"\xff" * 10 + b"\x01", "proto: integer overflow", id="a number of eleven bytes"),
        pytest.param(b"\xff" * 11, "proto: integer overflow", id="a tag of eleven bytes"),
        pytest.param(b"\x0a" + b"\xff" * 9 + b"\x01", "unexpected EOF", id="a length of 64 bits"),
        pytest.param(b"\x0b", "proto: illegal wireType 3", id="a group"),
        pytest.param(b"\x0e", "proto: illegal wireType 6", id="no type"),
    ],
)
def test_malformed(data: bytes, text: str) -> None:
    with pytest.raises(ProtobufError, match=f"^{text}$"):
        list(fields(data))
