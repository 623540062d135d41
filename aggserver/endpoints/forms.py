"""Forms: encodes objects and lists in the negotiated media type, as a whole or piece by piece.

A long list, table or YAML object is never in memory as one tree or one text: its parts are decoded, converted and encoded as the
response is sent, in pieces of about a millisecond's work each (`endpoints/turns.py`). For a list of unconverted objects in JSON,
their bytes are only joined.
Source: k8s.io/apimachinery pkg/runtime/serializer/json/json.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import orjson

from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import LongBody, Response
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Object
from aggserver.scheme import protobuf

__all__ = ["Listing", "listing_response", "object_response"]

# Lists with more bytes of objects than this are joined in pieces: thirty concurrent lists, each joined as a whole, would take
# thirty times the memory of the objects, and the allocator doesn't give it back.
_LONG = 256 * 1024
# The same limits for lists and objects that have to be converted or encoded: about two milliseconds' work.
_LONG_YAML = 32 * 1024
_LONG_INDENTED = 256 * 1024
_LONG_CONVERTED = 512 * 1024
# Bytes of the objects in one piece, about a millisecond's work: if their bytes are joined, if they are converted, and if they are
# encoded as indented JSON or protobuf. _OBJECT_BYTES are added for each object, for the work that does not depend on its size.
_JOINED_BYTES = 256 * 1024
_CONVERTED_BYTES = 512 * 1024
_INDENTED_BYTES = 128 * 1024
_OBJECT_BYTES = 512
# Of the first two, so many pieces may be made in one turn: for a page of 500 objects, which kubectl requests, a turn for
# each piece took a tenth more CPU time.
_TOGETHER = 4
_INDENT = b"\n    "

Encode = Callable[[Object], bytes]


class Listing(NamedTuple):
    """A list or a table. before, after: the JSON members before and after the member `name`, which has an entry for each object.

    entry: makes the JSON of an entry; None if that is the object's own bytes. entry_bytes: the work for an entry that does not
    depend on the object's size, as the number of bytes whose conversion takes as long.
    """

    before: JSONObject
    name: str
    objects: Sequence[Object]
    after: JSONObject
    entry: Encode | None = None
    entry_bytes: int = _OBJECT_BYTES


def object_response(media: MediaType, tree: JSONObject, size: int, status: int) -> Response:
    """A response with one object. size: of its JSON, in bytes."""
    if media.subtype == "yaml" and size > _LONG_YAML:
        return Response(status, LongBody(None, lambda: codec.yaml_pieces(tree)), media.content_type)
    body, content_type = media.encode(tree)
    return Response(status, body, content_type)


def listing_response(media: MediaType, listing: Listing, status: int) -> Response:
    """A response with a list or a table, which is generated while it is sent if it is long."""
    raws = [obj.raw for obj in listing.objects]
    size = sum(map(len, raws))
    if media.plain_json and listing.entry is None:
        return Response(status, _joined_body(*_compact_ends(listing), raws, size))
    work = size + len(raws) * (listing.entry_bytes - _OBJECT_BYTES)
    if work <= (_LONG_YAML if media.subtype == "yaml" else _LONG_INDENTED if media.pretty else _LONG_CONVERTED):
        return Response(status, b"".join(_pieces(media, listing)), media.content_type)
    return Response(
        status, LongBody(None, lambda: _pieces(media, listing), _TOGETHER if media.plain_json else 1), media.content_type
    )


def _joined_body(head: bytes, tail: bytes, raws: Sequence[bytes], size: int) -> bytes | LongBody:
    if size <= _LONG:
        return b"".join((head, b",".join(raws), tail))
    count = len(raws) * _JOINED_BYTES // size or 1
    return LongBody(len(head) + size + len(raws) - 1 + len(tail), lambda: _joined(head, raws, tail, count), _TOGETHER)


def _joined(head: bytes, raws: Sequence[bytes], tail: bytes, count: int) -> Iterator[bytes]:
    """The list, with `count` objects in a piece."""
    yield head
    yield b",".join(raws[:count])
    for first in range(count, len(raws), count):
        yield b",".join([b"", *raws[first : first + count]])
    yield tail


def _pieces(media: MediaType, listing: Listing) -> Iterator[bytes]:
    entry = listing.entry or _raw
    if media.is_protobuf:
        return _protobuf_pieces(listing, entry)
    if media.subtype == "yaml":
        trees = (orjson.loads(entry(obj)) for obj in listing.objects)
        return codec.yaml_pieces({**listing.before, listing.name: trees, **listing.after})
    if media.pretty:
        groups = _grouped(listing, _INDENTED_BYTES)
        return _made(_indented_ends(listing), b"," + _INDENT, groups, lambda obj: _indented(entry(obj)))
    return _made(_compact_ends(listing), b",", _grouped(listing, _CONVERTED_BYTES), entry)


def _protobuf_pieces(listing: Listing, entry: Encode) -> Iterator[bytes]:
    """Encode the items piece by piece, but yield the list only at the end, since protobuf begins with the lengths of its parts.

    The pieces before that are empty, so that other requests get their turn after each.
    """
    items: list[bytes] = []
    for group in _grouped(listing, _INDENTED_BYTES):
        items.append(protobuf.encode_items(listing.before, (orjson.loads(entry(obj)) for obj in group)))
        yield b""
    yield protobuf.encode_list(listing.before, items)


def _raw(obj: Object) -> bytes:
    return obj.raw


def _grouped(listing: Listing, piece_bytes: int) -> Iterator[Sequence[Object]]:
    objects = listing.objects
    start, size = 0, 0
    for index, obj in enumerate(objects):
        size += len(obj.raw) + listing.entry_bytes
        if size >= piece_bytes:
            yield objects[start : index + 1]
            start, size = index + 1, 0
    if start < len(objects):
        yield objects[start:]


def _made(ends: tuple[bytes, bytes], separator: bytes, groups: Iterator[Sequence[Object]], encode: Encode) -> Iterator[bytes]:
    begin, tail = ends
    for group in groups:
        yield begin + separator.join([encode(obj) for obj in group])
        begin = separator
    yield tail if begin is separator else begin + tail


def _compact_ends(listing: Listing) -> tuple[bytes, bytes]:
    head = b'%b,"%b":[' % (orjson.dumps(listing.before)[:-1], listing.name.encode())
    return head, b"],%b\n" % orjson.dumps(listing.after)[1:] if listing.after else b"]}\n"


def _indented_ends(listing: Listing) -> tuple[bytes, bytes]:
    before = orjson.dumps(listing.before, option=orjson.OPT_INDENT_2).removesuffix(b"\n}")
    after = orjson.dumps(listing.after, option=orjson.OPT_INDENT_2).removeprefix(b"{") if listing.after else b"\n}"
    head = b'%b,\n  "%b": [' % (before, listing.name.encode())
    tail = (b"]," if listing.after else b"]") + after
    return (head + _INDENT, b"\n  " + tail) if listing.objects else (head, tail)


def _indented(entry: bytes) -> bytes:
    return orjson.dumps(orjson.loads(entry), option=orjson.OPT_INDENT_2).replace(b"\n", _INDENT)
