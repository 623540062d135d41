"""patch: JSON patch and JSON merge patch. Strategic merge is not for custom resources, as upstream.

The patch is applied inside the registry's loop, to the object as it is at that moment; so a patch that names no resourceVersion
never conflicts. Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aggserver.admission.chain import UPDATE
from aggserver.endpoints import negotiation
from aggserver.endpoints.handlers import attributes, body, options, reply
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.request import Request, Response
from aggserver.merge import patch as patches
from aggserver.meta import errors, field, golang
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, Updater, WriteOptions
from aggserver.schema.pruning import MalformedError
from aggserver.scheme import object_meta

__all__ = ["PATCH_TYPES", "patch"]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH)
# Bytes of a patch that is applied in a thread: each of its operations may move all items of a list of a million.
_LONG = 8 * 1024


_Apply = Callable[[JSONObject], Any]


async def patch(scope: ResourceScope, request: Request) -> Response:
    resource = cast(Updater, scope.rest)  # the dispatcher has looked
    content_type = request.header(b"content-type").partition(";")[0]
    if content_type not in PATCH_TYPES:
        raise negotiation.unsupported_media_type(PATCH_TYPES)
    name = request.info.name
    media = negotiation.for_object(request)
    given = await request.body()
    write = options.write_options("PatchOptions", request.query_all, request.header(b"user-agent"))
    apply, duplicates = await _read(content_type, given, write)
    what = attributes.of(scope, request, UPDATE, write.dry_run)
    warned = len(request.warnings)

    async def patched(current: JSONObject) -> JSONObject:
        del request.warnings[warned:]  # of a former try

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
            body.add_warnings(request, texts)
        elif texts and write.field_validation == "Strict":
            # Shown is the whole outcome: what is unknown has gone from `obj`, so the patch is applied once more.
            raise _rejected(apply(current), f"strict decoding error: {', '.join(texts)}")
        _check_place(scope, obj, request.info.namespace)
        body.check_name(obj, name)
        await scope.admission.mutate(what, obj)
        body.dedup_owner_references(obj, request, admitted=True)
        return obj

    context = Context(request.user, request.info.namespace, request.warnings)
    written = await resource.update(context, name, patched, write, scope.admission.validator(what))
    return reply.object_reply(scope, request, media, written)


async def _read(content_type: str, given: bytes, write: WriteOptions) -> tuple[_Apply, list[str]]:
    """The patch as a function over the current object, and what a strict decoder says of it.

    Raises 400 and 413 for what is no patch, before any object is read.
    """
    try:
        value, nothing_repeated = patches.decode(given)
        apply = _compiled(content_type, value)
    except patches.TooManyOperations as error:
        raise errors.request_entity_too_large(str(error)) from None
    except patches.InvalidPatch as error:
        raise errors.bad_request(str(error)) from None
    if write.field_validation == "Ignore":
        return apply, []
    duplicates = [] if nothing_repeated else await body.duplicate_fields(given)
    if content_type == JSON_PATCH:
        duplicates = [f"json patch {text}" for text in duplicates + patches.unknown_fields(value)]
    return apply, duplicates


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
    why = "" if obj.get("kind") else body.without_kind(golang.to_json(obj))
    why = why or object_meta.type_error(obj.get("metadata"))
    if why:
        raise _rejected(obj, why)
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    if not obj.get("apiVersion"):
        raise errors.internal_error("Object 'apiVersion' is missing in 'object has no apiVersion field'")


def _check_place(scope: ResourceScope, obj: JSONObject, namespace: str) -> None:
    given = obj["metadata"].get("namespace")
    if scope.namespaced and given and given != namespace:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")


def _rejected(patched: Any, why: str) -> errors.StatusError:
    """422 of no kind and no name, with the patched document as upstream shows it."""
    return errors.invalid("", "", "", [field.invalid(Path("patch"), golang.to_json(patched), why)])
