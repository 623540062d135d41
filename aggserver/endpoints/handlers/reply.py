"""Responses: objects and lists in the negotiated media type.

JSON is the object's own bytes; for everything else (Table, PartialObjectMetadata, YAML, protobuf, pretty) they are decoded.
Source: k8s.io/apiserver pkg/endpoints/handlers/response.go, v0.36.3.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from aggserver.endpoints import forms
from aggserver.endpoints.handlers.options import include_object
from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import Request, Response
from aggserver.endpoints.served import ResourceScope
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject
from aggserver.publish import table
from aggserver.registry.rest import ListResult, Object

__all__ = ["list_reply", "object_reply", "shows_metadata_only", "tree_reply"]


def shows_metadata_only(scope: ResourceScope, media: MediaType) -> bool:
    """Whether a response needs only the metadata of objects. A Scale is computed, so it needs the whole object."""
    return media.metadata_only and scope.kind == scope.info.kind


def object_reply(scope: ResourceScope, request: Request, media: MediaType, obj: Object, status: int = 200) -> Response:
    if media.convert == "Table":
        return _table_reply(scope, request, media, [obj], {"resourceVersion": obj.resource_version}, status)
    if media.convert:
        return tree_reply(media, table.partial_object_metadata(obj.decoded(), media.api_version), status)
    if media.plain_json:
        return Response(status, obj.raw + b"\n")
    return forms.object_response(media, obj.decoded(), len(obj.raw), status)


def list_reply(scope: ResourceScope, request: Request, media: MediaType, result: ListResult) -> Response:
    meta: JSONObject = {"resourceVersion": result.resource_version}
    # Lists of custom resources always have `continue`, empty on the last page: upstream's unstructured list doesn't omit it.
    if result.continue_token or not (media.convert or scope.typed):
        meta["continue"] = result.continue_token
    if result.remaining:
        meta["remainingItemCount"] = result.remaining
    if media.convert == "Table":
        return _table_reply(scope, request, media, result.items, meta, 200)
    if media.convert:
        before = {"kind": media.convert, "apiVersion": media.api_version, "metadata": meta}
        return forms.listing_response(media, forms.Listing(before, "items", result.items, {}, _metadata_of(media)), 200)
    if result.shard:
        meta["shardInfo"] = {"selector": result.shard}
    before, after = {"apiVersion": scope.info.api_version}, {"kind": scope.info.list_kind, "metadata": meta}
    if media.is_protobuf:
        return forms.listing_response(media, forms.Listing({**before, **after}, "items", result.items, {}), 200)
    entry = _without_type if scope.typed else None
    return forms.listing_response(media, forms.Listing(before, "items", result.items, after, entry), 200)


def tree_reply(media: MediaType, tree: JSONObject, status: int = 200) -> Response:
    body, content_type = media.encode(tree)
    return Response(status, body, content_type)


def _without_type(obj: Object) -> bytes:
    """The JSON of an item of a list of a Go type, which has neither apiVersion nor kind. They come first in an object's bytes."""
    return b"{" + obj.raw[obj.raw.index(b'"metadata":{') :]


def _metadata_of(media: MediaType) -> Callable[[Object], bytes]:
    return lambda obj: codec.encode_json(table.partial_object_metadata(obj.decoded(), media.api_version))


def _table_reply(
    scope: ResourceScope, request: Request, media: MediaType, objects: Sequence[Object], meta: JSONObject, status: int
) -> Response:
    before = table.table_head(scope.table, meta, media.api_version)
    encode = table.row_encoder(include_object(request.query), time.time(), media.api_version)
    return forms.listing_response(
        media,
        forms.Listing(before, "rows", objects, {}, lambda obj: encode(obj.row(scope.table), obj.raw), scope.table.row_bytes),
        status,
    )
