"""Header blocks to fields and back: the coder of jh2, which is compiled, with the checks and limits that it leaves out. Pure.

jh2's decoder accepts Huffman-coded strings with wrong padding and sizes of the table behind a field, which RFC 7541 forbids, and
panics on a truncated block, which writes a trace to the standard error. `_huffman_strings` reads the structure of a block before
it is decoded, so that none of these reaches the decoder.

The coder is in a private module of jh2, whose public one is written in Python; so pyproject.toml pins jh2's minor version, and
tests/server/test_private_names.py checks what is used.
Source: RFC 7541; tables as in golang.org/x/net/http2/server.go v0.49.0.
"""

from __future__ import annotations

from collections.abc import Iterable

from jh2._hazmat import Decoder, Encoder, HPACKError, OversizedHeaderListError
from jh2.hpack.huffman_constants import REQUEST_CODES_LENGTH

from aggserver.server.http2.frames import ErrorCode, ProtocolError

__all__ = ["MAX_HEADER_LIST", "Field", "HeaderDecoder", "HeaderEncoder"]

# (name, value, whether it must not be put into a compression table)
Field = tuple[bytes, bytes, bool]

# The most bytes of a request's fields, names and values. Bearer tokens, selectors and X-Remote-Extra headers are long.
MAX_HEADER_LIST = 64 * 1024

# The most fields, and changes of the table's size: a field counts as its bytes and 32 more (RFC 9113, 6.5.2). A byte of a block
# is enough for a field, and each takes a microsecond.
MAX_FIELDS = MAX_HEADER_LIST // 32

# The most bytes of each side's table, which is the default of HTTP/2: we announce no more, and do not use more, even if the
# client allows it, because most responses have the same headers. Go's numbers (MaxDecoderHeaderTableSize and the encoder's).
TABLE_BYTES = 4096

# The most bits of a length or index in a header block.
_INTEGER_BITS = 28

_HUFFMAN_BITS = bytes(REQUEST_CODES_LENGTH[:256])

# (field, 0 for its name and 1 for its value, length in bytes, last byte)
_HuffmanString = tuple[int, int, int, int]


class HeaderDecoder:
    """The client's side of the compression. Every block of a connection passes it, in order, whatever becomes of its stream."""

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = Decoder(MAX_HEADER_LIST)
        self._decoder.max_allowed_table_size = TABLE_BYTES

    def decode(self, block: bytes) -> list[Field]:
        """Raises ProtocolError: after an error, the tables of both sides differ."""
        strings = _huffman_strings(block)
        try:
            fields: list[Field] = self._decoder.decode(block, True)
        except OversizedHeaderListError:
            raise _too_large() from None
        except HPACKError as error:
            raise _failure(str(error)) from None
        _check_padding(strings, fields)
        return fields


class HeaderEncoder:
    """Our side of the compression."""

    __slots__ = ("_encoder", "_sizes")

    def __init__(self) -> None:
        self._encoder = Encoder()
        self._sizes: tuple[int, int] | None = None  # the smallest and the last size since the last block

    def limit_table(self, size: int) -> None:
        """The client's SETTINGS_HEADER_TABLE_SIZE. The next block tells the client what we use of it."""
        size = min(size, TABLE_BYTES)
        self._sizes = (size if self._sizes is None else min(size, self._sizes[0]), size)

    def encode(self, fields: list[Field]) -> bytes:
        if self._sizes is not None:
            # Both have to be told, but not what was between them: RFC 7541, 4.2.
            for size in dict.fromkeys(self._sizes):
                if size != self._encoder.header_table_size:
                    self._encoder.header_table_size = size
            self._sizes = None
        block: bytes = self._encoder.encode(fields)
        return block


def _failure(text: str) -> ProtocolError:
    return ProtocolError(ErrorCode.COMPRESSION_ERROR, text)


def _too_large() -> ProtocolError:
    return ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, "more headers than are allowed")


def _huffman_strings(block: bytes) -> list[_HuffmanString]:
    """The Huffman-coded strings of a header block, for `_check_padding`.

    Raises ProtocolError for a truncated block, for too many fields, and for a change of the table's size behind a field
    (RFC 7541, 4.2).
    """
    found: list[_HuffmanString] = []
    at, end, field, changes = 0, len(block), 0, 0
    try:
        while at < end:
            if field + changes == MAX_FIELDS:
                raise _too_large()
            first = block[at]
            if first & 0x80:  # a field of the table
                at = at + 1 if first != 0xFF else _integer(block, at, 0x7F)[1]
            elif first & 0xE0 == 0x20:
                if field:
                    raise _failure("a change of the table's size behind a field")
                at = _integer(block, at, 0x1F)[1]
                changes += 1
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
        raise _failure("a truncated header block")
    return found


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """The number that begins in the bits of `mask`, and where it ends (RFC 7541, 5.1). Raises IndexError, ProtocolError."""
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
                raise _failure("a number that is too large")
    return number, at


def _check_padding(strings: Iterable[_HuffmanString], fields: list[Field]) -> None:
    """Check that Huffman-coded strings are padded with ones (RFC 7541, 5.2). fields: the decoded block. Raises ProtocolError."""
    for field, part, length, last in strings:
        text = fields[field][1] if part else fields[field][0]
        ones = (1 << (8 * length - sum(text.translate(_HUFFMAN_BITS)))) - 1
        if last & ones != ones:
            raise _failure("a Huffman-coded string that is not padded with ones")
