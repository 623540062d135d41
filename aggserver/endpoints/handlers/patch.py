"""patch: JSON patch, JSON merge patch, server-side apply and, for the server's own kinds as upstream, strategic merge patch.

A patch is applied inside the registry's write loop, to the object as it is at that moment, so that a patch without a
resourceVersion never conflicts with another write. The merge of an apply is in `merge/managed_fields.py`.
Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from aggserver.admission.chain import UPDATE
from aggserver.endpoints import negotiation
from aggserver.endpoints.handlers import attributes, body, options, reply
from aggserver.endpoints.handlers.reply import shows_metadata_only
from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import Request, Response
from aggserver.endpoints.served import ResourceScope
from aggserver.merge import patch as patches
from aggserver.merge.strategic import BadDirectiveError, StrategicPatchError, TooCostlyError, go_text, strategic_merge
from aggserver.meta import codec, errors, field, golang
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.publish.operations import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, PATCH_TYPES, STRATEGIC_PATCH
from aggserver.registry.rest import Admission, Applier, Context, Sharing, Transform, Updater, WriteOptions, WriteRequest
from aggserver.schema.pruning import MalformedError
from aggserver.scheme import object_meta, strict
from aggserver.scheme.decoding import type_meta_error, without_kind
from aggserver.scheme.types import Type, lookup
from aggserver.workers import OBJECTS

__all__ = ["patch"]

P = ParamSpec("P")
T = TypeVar("T")

# Patches above this many bytes are read and applied in a thread: one may have hundreds of operations.
_LONG = 8 * 1024
# So are patches of objects above this many bytes: each operation may move all items of a list, and the object is pruned.
_LONG_OBJECT = 128 * 1024

# Members of metadata in a patch of finalizers, with its preconditions. Such a patch is made without conversion, since a finalizer
# that can't be removed blocks a deletion. Other patches of metadata are only if the response has only metadata.
_OF_FINALIZERS = {"finalizers", "resourceVersion", "uid"}

_STRATEGIC_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

_Apply = Callable[[JSONObject], Any]


async def patch(scope: ResourceScope, resource: Updater, context: Context, request: Request) -> Response:
    content_type = request.header(b"content-type").partition(";")[0]
    accepted = _STRATEGIC_TYPES if scope.type_name else PATCH_TYPES
    if content_type not in accepted:
        raise errors.no_consumer() if scope.built_in else negotiation.unsupported_media_type(accepted)
    media = negotiation.for_object(request, built_in=scope.built_in)
    context.metadata_only = shows_metadata_only(scope, media)
    given = await request.body()
    context.body_bytes = len(given)
    applies = content_type == APPLY_PATCH
    write = options.write_options("PatchOptions", request.query_all, request.header(b"user-agent"), applies=applies)
    admission = attributes.bound(scope, request, UPDATE, options.given(request.query_all), dry_run=write.dry_run)
    if request.audit is not None and not applies:
        await body.aside(given, request.audit.record.patch, given)
    if applies:
        return await _apply(scope, context, request, media, write, admission)
    of = lookup(scope.type_name) if content_type == STRATEGIC_PATCH else None

    async def work(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if len(given) <= _LONG and size <= _LONG_OBJECT:
            return function(*args, **kwargs)
        return await OBJECTS.run(context.user.name, max(len(given), size), function, *args, **kwargs)

    try:
        apply, complaints, named = await work(0, _read, content_type, given, write, of)
    except errors.StatusError as error:
        # Upstream reads a patch when it has the object: one that is not there is told first.
        await resource.update(WriteRequest(context, write, admission), request.info.name, _refusing(error))
        raise
    if named and not scope.subresource and (context.metadata_only or {"finalizers"} <= named <= _OF_FINALIZERS):
        write = write._replace(of_metadata=True)
    is_strict = write.field_validation == "Strict"

    async def patched(current: JSONObject) -> JSONObject:
        obj, texts = await work(context.object_bytes, _patched, scope, current, apply, complaints, is_strict=is_strict)
        if write.field_validation == "Warn":
            context.warnings.extend(body.warning_texts(texts))
        return obj

    # Typed objects are defaulted by code that may change any part of them.
    transform: Transform = Sharing(patched) if apply.copies and not scope.typed else patched
    written = await resource.update(WriteRequest(context, write, admission), request.info.name, transform)
    return reply.object_reply(scope, request, media, written.object)


def _refusing(error: errors.StatusError) -> Transform:
    async def refuse(current: JSONObject) -> JSONObject:
        raise error

    return refuse


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
    if request.audit is not None:
        await body.aside(configuration.encoded, request.audit.record.patch, configuration.encoded)
    authorized = attributes.allowed_to_create(admission, request)
    written = await resource.apply(WriteRequest(context, write, authorized), request.info.name, configuration)
    return reply.object_reply(scope, request, media, written.object, 201 if written.created else 200)


class _Patch:
    """A patch as a function of the current object, which raises StatusError.

    shown: makes the text of a strategic merge patch for errors; None for other patches. It decodes the patch again, since the
    patched object, which was pruned, shares values with the first one. written: encodes a patched object as upstream does; the
    order of its members is the order of a strict decoder's complaints. copies: whether the patched object is another one, which
    shares only whole values with the current one, each at its place and under the same schema.
    """

    def __init__(
        self,
        apply: _Apply,
        written: Callable[[Any], bytes] = lambda obj: golang.to_json(obj).encode(),
        shown: Callable[[], str] | None = None,
        *,
        copies: bool = False,
    ) -> None:
        self.apply = apply
        self.copies = copies
        self._written = written
        self._shown = shown

    @property
    def is_strategic(self) -> bool:
        return self._shown is not None

    def unknown(self, current: JSONObject, paths: list[str], type_name: str) -> list[str]:
        """A strict decoder's complaints about the patched object. paths: of the fields that were pruned from it."""
        if not paths or not type_name:
            return [f'unknown field "{path}"' for path in paths]
        texts = strict.complaints(self._written(self.apply(current)), lookup(type_name))
        return sorted(texts) if self.is_strategic else texts

    def rejected(self, current: JSONObject, why: str) -> errors.StatusError:
        """422 without a kind or a name. Its value is a strategic merge patch itself, or the object that other patches make."""
        # The unknown fields were pruned from the first result, so the patch is applied once more.
        shown = golang.to_json(self.apply(current)) if self._shown is None else self._shown()
        return errors.invalid("", "", "", [field.invalid(Path("patch"), shown, why)])


def _read(content_type: str, given: bytes, write: WriteOptions, of: Type | None) -> tuple[_Patch, list[str], set[str]]:
    """of: the type of the object for a strategic merge patch, else None.

    Returns the patch, a strict decoder's complaints about it, and the members of metadata in it, if it changes metadata only.
    Raises 400 and 413 for an invalid patch, before any object is read.
    """
    try:
        value, nothing_repeated = patches.decode(given)
        if of is None:
            read = _compiled(content_type, value)
        else:
            read = _Patch(_strategic(value, of), shown=lambda: go_text(patches.decode(given)[0]))
    except patches.TooManyOperations as error:
        raise errors.request_entity_too_large(str(error)) from None
    except patches.InvalidPatch as error:
        raise errors.bad_request(str(error) if of is None else str(error).removeprefix("error decoding patch: ")) from None
    named = patches.metadata_named(value)
    if write.field_validation == "Ignore":
        return read, [], named
    if content_type == JSON_PATCH:
        texts = patches.complaints(given, value, nothing_repeated=nothing_repeated)
        return read, [f"json patch {text}" for text in texts], named
    return read, [] if nothing_repeated else codec.duplicate_fields(given), named


def _patched(
    scope: ResourceScope, current: JSONObject, read: _Patch, complaints: list[str], *, is_strict: bool
) -> tuple[JSONObject, list[str]]:
    """The patched object, pruned and defaulted, and a strict decoder's complaints about the patch and this object."""
    obj = read.apply(current)
    try:
        if why := _shape_problem(obj):
            raise MalformedError(why)
        unknown = scope.conform(obj)
    except MalformedError as error:
        raise read.rejected(current, str(error)) from None
    except errors.StatusError as error:
        if not read.is_strategic or error.reason != "BadRequest":
            raise
        raise read.rejected(current, str(error)) from None
    texts = complaints + read.unknown(current, unknown, scope.type_name)
    if texts and is_strict:
        raise read.rejected(current, f"strict decoding error: {', '.join(texts)}")
    return obj, texts


def _compiled(content_type: str, value: Any) -> _Patch:
    """A JSON patch or JSON merge patch. Raises InvalidPatch, TooManyOperations."""
    if content_type == MERGE_PATCH:
        tree = patches.parse_merge_patch(value)
        return _Patch(lambda current: patches.merge_patch(current, tree), copies=tree.keys().isdisjoint(("apiVersion", "kind")))
    operations = patches.parse_json_patch(value)

    def apply(current: JSONObject) -> Any:
        try:
            return patches.apply_json_patch(current, operations)
        except patches.JsonPatchError:
            raise errors.patch_rejected() from None

    return _Patch(apply, lambda obj: codec.encode_json(patches.as_written(obj, operations)))


def _strategic(value: Any, of: Type) -> _Apply:
    if value is not None and not isinstance(value, dict):
        raise errors.bad_request(
            f"json: cannot unmarshal {golang.json_kind(value)} into Go value of type map[string]interface {{}}"
        )

    def apply(current: JSONObject) -> Any:
        try:
            return strategic_merge(current, value or {}, of)
        except BadDirectiveError as error:
            raise errors.bad_request(str(error)) from None
        except TooCostlyError as error:
            raise errors.request_entity_too_large(str(error)) from None
        except StrategicPatchError as error:
            raise errors.StatusError(500, "", str(error)) from None

    return apply


def _shape_problem(obj: Any) -> str:
    """Why a patched document is not an object of any kind; '' if it is one. Adds metadata if it has none."""
    if not isinstance(obj, dict):
        return "the patched document is no object"
    why = type_meta_error(obj)
    if not why and not obj.get("kind"):
        why = without_kind(golang.to_json(obj))
    if not why and (version := obj.get("apiVersion") or "").count("/") > 1:
        why = f"unexpected GroupVersion string: {version}"
    if why := why or object_meta.type_error(obj.get("metadata")):
        return why
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    if not obj.get("apiVersion"):
        raise errors.internal_error("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    return ""
