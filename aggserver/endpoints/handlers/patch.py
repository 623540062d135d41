"""patch: JSON patch, JSON merge patch and server-side apply. Custom resources don't support strategic merge, as upstream.

A patch is applied inside the registry's write loop, to the object as it is at that moment, so that a patch without a
resourceVersion never conflicts with another write. The merge of an apply is in `merge/managed_fields.py`.
Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from aggserver.admission.chain import UPDATE
from aggserver.endpoints import access, negotiation
from aggserver.endpoints.handlers import attributes, body, options, reply
from aggserver.endpoints.handlers.reply import shows_metadata_only
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import Request, Response
from aggserver.merge import patch as patches
from aggserver.meta import errors, field, golang
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.publish.operations import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, PATCH_TYPES
from aggserver.registry.rest import Admission, Applier, Context, Updater, WriteOptions
from aggserver.schema.pruning import MalformedError
from aggserver.scheme import object_meta
from aggserver.scheme.decoding import type_meta_error, without_kind

__all__ = ["patch"]

# Patches above this many bytes are applied in a thread: each operation may move all items of a list of a million.
_LONG = 8 * 1024


_Apply = Callable[[JSONObject], Any]


async def patch(scope: ResourceScope, resource: Updater, context: Context, request: Request) -> Response:
    content_type = request.header(b"content-type").partition(";")[0]
    if content_type not in PATCH_TYPES:
        raise negotiation.unsupported_media_type(PATCH_TYPES)
    media = negotiation.for_object(request)
    context.metadata_only = shows_metadata_only(scope, media)
    given = await request.body()
    context.body_bytes = len(given)
    applies = content_type == APPLY_PATCH
    write = options.write_options("PatchOptions", request.query_all, request.header(b"user-agent"), applies=applies)
    admission = attributes.bound(scope, request, UPDATE, options.given(request.query_all), dry_run=write.dry_run)
    if applies:
        return await _apply(scope, context, request, media, write, admission)
    apply, duplicates, of_metadata = await _read(content_type, given, write)
    if of_metadata and not scope.subresource:
        write = replace(write, of_metadata=True)

    async def patched(current: JSONObject) -> JSONObject:
        def conformed() -> tuple[JSONObject, list[str]]:
            patched = apply(current)
            _check_shape(patched)
            return patched, scope.conform(patched)

        try:
            obj, unknown = await asyncio.to_thread(conformed) if len(given) > _LONG else conformed()
        except MalformedError as error:
            raise _rejected(apply(current), str(error)) from None
        texts = duplicates + [f'unknown field "{path}"' for path in unknown]
        if texts and write.field_validation == "Warn":
            context.warnings.extend(body.warning_texts(texts))
        elif texts and write.field_validation == "Strict":
            # The error shows the whole result. The unknown fields were pruned from `obj`, so the patch is applied once more.
            raise _rejected(apply(current), f"strict decoding error: {', '.join(texts)}")
        return obj

    written = await resource.update(context, request.info.name, patched, write, admission)
    return reply.object_reply(scope, request, media, written)


async def _apply(
    scope: ResourceScope,
    context: Context,
    request: Request,
    media: MediaType,
    write: WriteOptions,
    admission: Admission,
) -> Response:
    resource = scope.rest
    if not isinstance(resource, Applier):  # a resource that is not stored, or only as a part of another object
        raise negotiation.unsupported_media_type(PATCH_TYPES[:-1])
    configuration = await body.read_configuration(request, write.field_validation)
    may_create = access.attributes_of(request.info, request.user)._replace(verb="create")
    authorized = _CreateAuthorized(admission, lambda: access.require(request.authorizer, may_create))
    written = await resource.apply(context, request.info.name, configuration, write, authorized)
    return reply.object_reply(scope, request, media, written.object, 201 if written.created else 200)


class _CreateAuthorized:
    """Admission that also checks, if an apply turns out to create the object, that the user may create it."""

    def __init__(self, admission: Admission, require: Callable[[], Awaitable[None]]) -> None:
        self._admission = admission
        self._require = require

    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        return await self._admission.mutate(obj, old)

    async def validate(self, obj: JSONObject | None, old: JSONObject | None) -> None:
        if old is None:
            await self._require()
        await self._admission.validate(obj, old)


async def _read(content_type: str, given: bytes, write: WriteOptions) -> tuple[_Apply, list[str], bool]:
    """The patch as a function of the current object, a strict decoder's complaints about it, and whether it is of metadata alone.

    Raises 400 and 413 for an invalid patch, before any object is read.
    """
    try:
        value, nothing_repeated = patches.decode(given)
        apply = _compiled(content_type, value)
    except patches.TooManyOperations as error:
        raise errors.request_entity_too_large(str(error)) from None
    except patches.InvalidPatch as error:
        raise errors.bad_request(str(error)) from None
    of_metadata = patches.changes_only(value, "metadata")
    if write.field_validation == "Ignore":
        return apply, [], of_metadata
    duplicates = [] if nothing_repeated else await body.duplicate_fields(given)
    if content_type == JSON_PATCH:
        duplicates = [f"json patch {text}" for text in duplicates + patches.unknown_fields(value)]
    return apply, duplicates, of_metadata


def _compiled(content_type: str, value: Any) -> _Apply:
    """Raises InvalidPatch, TooManyOperations."""
    if content_type == MERGE_PATCH:
        tree = patches.parse_merge_patch(value)
        return lambda current: patches.merge_patch(current, tree)
    operations = patches.parse_json_patch(value)

    def apply(current: JSONObject) -> Any:
        try:
            return patches.apply_json_patch(current, operations)
        except patches.JsonPatchError:
            raise errors.patch_rejected() from None

    return apply


def _check_shape(obj: Any) -> None:
    if not isinstance(obj, dict):
        raise _rejected(obj, "the patched document is no object")
    why = type_meta_error(obj)
    if not why and not obj.get("kind"):
        why = without_kind(golang.to_json(obj))
    if not why and (version := obj.get("apiVersion") or "").count("/") > 1:
        why = f"unexpected GroupVersion string: {version}"
    if why := why or object_meta.type_error(obj.get("metadata")):
        raise _rejected(obj, why)
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    if not obj.get("apiVersion"):
        raise errors.internal_error("Object 'apiVersion' is missing in 'object has no apiVersion field'")


def _rejected(patched: Any, why: str) -> errors.StatusError:
    """422 without a kind or a name, with the patched document, as upstream."""
    return errors.invalid("", "", "", [field.invalid(Path("patch"), golang.to_json(patched), why)])
