"""Answers: objects and lists as the client asked for them.

JSON in the requested version is the object's own bytes; everything else (Table, PartialObjectMetadata, YAML, pretty) decodes.
Called by every handler. Source: k8s.io/apiserver pkg/endpoints/handlers/response.go, v0.36.3.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from aggserver.endpoints.handlers.options import include_object
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import LongBody, Request, Response
from aggserver.meta import codec
from aggserver.publish import table
from aggserver.registry.rest import JSONObject, ListResult, Object

__all__ = ["list_reply", "object_reply", "tree_reply"]

# Bytes of a list from which on it is joined piece by piece as it is sent: thirty lists of all objects at once would take as many
# times the memory of the objects, and the allocator keeps what it once had.
_LONG = 256 * 1024


def object_reply(scope: ResourceScope, request: Request, media: MediaType, obj: Object, status: int = 200) -> Response:
    if not media.convert:
        return Response(status, obj.raw + b"\n") if media.plain_json else tree_reply(media, obj.decoded(), status)
    if media.convert == "Table":
        return _table_reply(scope, request, media, [obj], {"resourceVersion": str(obj.revision)}, status)
    return tree_reply(media, table.partial_object_metadata(obj.decoded(), media.api_version), status)


def list_reply(scope: ResourceScope, request: Request, media: MediaType, result: ListResult) -> Response:
    meta: JSONObject = {"resourceVersion": str(result.revision)}
    # Empty where nothing follows, in lists of objects that have no Go type.
    if result.continue_token or not (media.convert or scope.typed):
        meta["continue"] = result.continue_token
    if result.remaining:
        meta["remainingItemCount"] = result.remaining
    if media.convert == "Table":
        return _table_reply(scope, request, media, result.items, meta, 200)
    if media.convert:
        items = [table.partial_object_metadata(obj.decoded(), media.api_version) for obj in result.items]
        return tree_reply(media, {"kind": media.convert, "apiVersion": media.api_version, "metadata": meta, "items": items})
    head = codec.encode_json({"apiVersion": scope.api_version})[:-1] + b',"items":['
    tail = b"]," + codec.encode_json({"kind": scope.list_kind, "metadata": meta})[1:] + b"\n"
    raws = [obj.raw for obj in result.items]
    size = sum(map(len, raws))
    if size > _LONG and media.plain_json:
        count = len(raws) * _LONG // size or 1
        size += len(head) + len(raws) - 1 + len(tail)
        return Response(200, LongBody(size, lambda: _joined(head, raws, tail, count)))
    body = b"".join((head, b",".join(raws), tail))
    return Response(200, body) if media.plain_json else tree_reply(media, codec.decode_stored(body))


def _joined(head: bytes, items: Sequence[bytes], tail: bytes, count: int) -> Iterator[bytes]:
    """The list, with `count` items in a piece."""
    yield head
    yield b",".join(items[:count])
    for first in range(count, len(items), count):
        yield b",".join([b"", *items[first : first + count]])
    yield tail


def tree_reply(media: MediaType, tree: JSONObject, status: int = 200) -> Response:
    body, content_type = media.encode(tree)
    return Response(status, body, content_type)


def _table_reply(
    scope: ResourceScope, request: Request, media: MediaType, objects: Sequence[Object], meta: JSONObject, status: int
) -> Response:
    body = table.encode_table(
        scope.table,
        (obj.row(scope.table) for obj in objects),
        include_object(request.query),
        meta,
        time.time(),
        api_version=media.api_version,
    )
    return Response(status, body + b"\n") if media.plain_json else tree_reply(media, codec.decode_stored(body), status)
