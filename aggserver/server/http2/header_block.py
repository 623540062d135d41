"""The checks of a header block that RFC 7541 demands and jh2's decoder leaves out. Pure.

Without these checks, a truncated block would also make the decoder panic, which writes a trace to the standard error.
"""

from __future__ import annotations

from jh2.errors import ErrorCodes
from jh2.exceptions import ProtocolError
from jh2.hpack.huffman_constants import REQUEST_CODES_LENGTH

__all__ = ["CompressionError", "HuffmanString", "check_padding", "huffman_strings"]

# The most bits of a length or index in a header block.
_INTEGER_BITS = 28

_HUFFMAN_BITS = bytes(REQUEST_CODES_LENGTH[:256])

# (field, 0 for its name and 1 for its value, length in bytes, last byte)
HuffmanString = tuple[int, int, int, int]


class CompressionError(ProtocolError):  # type: ignore[misc]
    """A header block that can't be decoded, after which the compression tables of both sides differ."""

    error_code = ErrorCodes.COMPRESSION_ERROR


def huffman_strings(block: bytes) -> list[HuffmanString]:
    """The Huffman-coded strings of a header block, for `check_padding`.

    Raises CompressionError for a truncated block, and for a change of the table's size behind a field (RFC 7541, 4.2).
    """
    found: list[HuffmanString] = []
    at, end, field = 0, len(block), 0
    try:
        while at < end:
            first = block[at]
            if first & 0x80:  # a field of the table
                at = at + 1 if first != 0xFF else _integer(block, at, 0x7F)[1]
            elif first & 0xE0 == 0x20:
                if field:
                    raise CompressionError("a change of the table's size behind a field")
                at = _integer(block, at, 0x1F)[1]
                continue
            else:  # a name, from the table or literal, and a value
                index, at = _integer(block, at, 0x3F if first & 0x40 else 0x0F)
                for part in (1,) if index else (0, 1):
                    is_huffman = block[at] & 0x80
                    length, at = _integer(block, at, 0x7F)
                    at += length
                    if is_huffman and length:
                        found.append((field, part, length, block[at - 1]))
            field += 1
    except IndexError:
        at = end + 1
    if at > end:
        raise CompressionError("a truncated header block")
    return found


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """The number that begins in the bits of `mask`, and where it ends (RFC 7541, 5.1). Raises IndexError, CompressionError."""
    number = block[at] & mask
    at += 1
    if number == mask:
        shift = 0
        while True:
            octet = block[at]
            at += 1
            number += (octet & 0x7F) << shift
            if octet < 0x80:
                break
            shift += 7
            if shift > _INTEGER_BITS:
                raise CompressionError("a number that is too large")
    return number, at


def check_padding(strings: list[HuffmanString], headers: list[tuple[bytes, bytes]]) -> None:
    """Check that Huffman-coded strings are padded with ones (RFC 7541, 5.2).

    headers: the decoded block. Raises CompressionError.
    """
    for field, part, length, last in strings:
        ones = (1 << (8 * length - sum(headers[field][part].translate(_HUFFMAN_BITS)))) - 1
        if last & ones != ones:
            raise CompressionError("a Huffman-coded string that is not padded with ones")
