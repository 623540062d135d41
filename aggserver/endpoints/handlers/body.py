"""Request bodies: from bytes and a content type to the object to write.

Decodes JSON, YAML (large bodies in a thread) and protobuf, rejects an object without a kind or of another version, and prunes it.
Unknown and repeated fields are ignored, warned of or rejected with 400, as fieldValidation says.
Source: k8s.io/apiserver pkg/endpoints/handlers/{create,update,rest}.go, k8s.io/apimachinery
pkg/apis/meta/v1/unstructured/helpers.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from aggserver.endpoints import negotiation
from aggserver.endpoints.request import Request
from aggserver.endpoints.served import ResourceScope
from aggserver.meta import codec, errors, golang
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import ApplyConfiguration
from aggserver.schema.pruning import MalformedError
from aggserver.scheme import object_meta, protobuf, strict
from aggserver.scheme.decoding import NO_TYPE_META, type_meta_error, without_kind
from aggserver.scheme.types import Type, lookup
from aggserver.workers import OBJECTS, Workers

__all__ = [
    "aside",
    "read_configuration",
    "read_delete_body",
    "read_object",
    "read_value",
    "warning_texts",
]

P = ParamSpec("P")
T = TypeVar("T")

# Bodies up to this many bytes are decoded on the event loop even by slow decoders: about a millisecond for YAML. The others are
# decoded in a thread, the large ones one at a time, so that the memory for decoding is needed only once.
_SLOW_BYTES = 8 * 1024
_SLOW = Workers(2, "decoding")

_SUMMARY_BYTES = 30
# Bodies above this many bytes are decoded, pruned and defaulted in a thread: it takes milliseconds, and other requests must not
# wait.
_LONG = 128 * 1024
# The first line of a strict YAML decoder's error; a line for each repeated key follows.
_YAML_ERRORS = "yaml: unmarshal errors:\n"


async def read_object(scope: ResourceScope, request: Request, field_validation: str) -> JSONObject:
    """The object in the body, pruned and defaulted; its metadata is a dict. Raises 400, 413, 415."""
    content_type = request.header(b"content-type")
    body = await request.body()
    try:
        obj, duplicates = await _decode(request, body, content_type)
    except (codec.DecodeError, protobuf.ProtobufError) as error:
        # Upstream converts YAML to JSON before it looks for the kind, so only an error of JSON comes from that step.
        raise _unrecognized(scope, str(error) if _is_yaml(content_type) else NO_TYPE_META + str(error), body) from None
    obj = {} if obj is None else obj
    mismatch = type_meta_error(obj)
    if mismatch:
        raise _unrecognized(scope, mismatch, body)
    if scope.typed:
        obj["kind"], obj["apiVersion"] = obj.get("kind") or scope.kind, obj.get("apiVersion") or scope.object_version
    elif not obj.get("kind"):
        raise _unrecognized(scope, without_kind(body.decode("utf-8", "replace")), body)
    _check_group_version(scope, obj, body)
    # The order decides which error clients get. As upstream, the version of typed objects is checked first, that of custom
    # resources only after pruning.
    if scope.typed:
        _check_version(scope, obj)
    why = await _aside(request, body, object_meta.type_error, obj.get("metadata"), scope.kind if scope.typed else "")
    if why:
        raise _unfit(scope, obj, why)
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    try:
        # An object of another kind is not pruned by this schema; the strategy rejects it.
        unknown = await _aside(request, body, scope.conform, obj) if scope.typed or obj["kind"] == scope.kind else []
    except MalformedError as error:
        raise _unfit(scope, obj, str(error)) from None
    if field_validation != "Ignore":
        texts = await _complaints(scope, request, body, duplicates, unknown)
        if texts and field_validation == "Strict":
            raise _unfit(scope, obj, f"strict decoding error: {', '.join(texts)}")
        request.warnings.extend(warning_texts(texts))
    if not scope.typed:
        _check_version(scope, obj)
    if request.audit is not None:
        await aside(body, request.audit.record.object, obj)
    return obj


async def aside(body: bytes, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that works on the body or the decoded value for the audit: in a thread if the body is long.

    Not by `OBJECTS`, which may refuse, and what is recorded of a request must not refuse it.
    """
    if len(body) <= _LONG:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


async def _aside(request: Request, body: bytes, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that works on the body or the decoded value: in a thread if the body is long."""
    if len(body) <= _LONG:
        return function(*args, **kwargs)
    return await OBJECTS.run(request.user.name, len(body), function, *args, **kwargs)


async def _complaints(
    scope: ResourceScope, request: Request, body: bytes, duplicates: list[str] | None, unknown: list[str]
) -> list[str]:
    """A strict decoder's complaints about a body. duplicates: from `_decode`. unknown: the paths of fields that were pruned."""
    if scope.type_name and (duplicates is None or unknown):
        read = _of_yaml if _is_yaml(request.header(b"content-type")) else strict.complaints
        return (duplicates or []) + await _slowly(request, lambda text: read(text, lookup(scope.type_name)), body)
    if duplicates is None:
        duplicates = await _slowly(request, codec.duplicate_fields, body)
    return duplicates + [f'unknown field "{path}"' for path in unknown]


def _of_yaml(body: bytes, of: Type) -> list[str]:
    """A strict decoder's complaints about YAML, which upstream first converts to JSON, with sorted keys and none repeated."""
    return strict.complaints(golang.to_json(codec.decode_yaml(body)).encode(), of)


def warning_texts(complaints: Iterable[str]) -> list[str]:
    """The complaints of a strict decoder as warnings. A YAML decoder's error is split: each of its lines is a warning."""
    texts: list[str] = []
    for text in complaints:
        lines = text.removeprefix(_YAML_ERRORS).split("\n") if text.startswith(_YAML_ERRORS) else [text]
        texts += (line.strip() for line in lines)
    return texts


async def read_configuration(request: Request, field_validation: str) -> ApplyConfiguration:
    """The body of an apply, which is YAML; JSON is YAML too. Raises 400 and 413."""
    text = await request.body()
    if text[:1] == b"{":
        # Client libraries send JSON, for which the JSON decoder is several times as fast as the YAML decoder.
        with suppress(codec.DecodeError):
            obj, nothing_repeated = await _aside(request, text, codec.decode_checking_keys, text)
            if nothing_repeated:
                return ApplyConfiguration(text, tree=obj)
    try:
        tree, duplicates = await _slowly(request, codec.decode_yaml_checking_keys, text)
    except codec.DecodeError as error:
        raise errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if not isinstance(tree, dict | None):
        why = f"json: cannot unmarshal {golang.json_kind(tree)} into Go value of type map[string]interface {{}}"
        raise errors.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    encoded = codec.encode_json(tree or {})
    if not duplicates or field_validation == "Ignore":
        return ApplyConfiguration(encoded)
    if field_validation == "Strict":
        why = f"error strict decoding YAML: error converting YAML to JSON: {', '.join(duplicates)}"
        return ApplyConfiguration(encoded, refusal=errors.bad_request(why))
    return ApplyConfiguration(encoded, warnings=warning_texts(duplicates))


async def read_value(request: Request) -> Any:
    """The value in a body that is no object of a resource; None if there is no body. Raises 400, 413, 415."""
    body = await request.body()
    if not body:
        return None
    try:
        value, _ = await _decode(request, body, request.header(b"content-type"))
    except (codec.DecodeError, protobuf.ProtobufError) as error:
        raise errors.bad_request(str(error)) from None
    return value


async def read_delete_body(request: Request) -> Any:
    """The decoded DeleteOptions, a JSON object; None if there is no body. Raises 400, 413, 415."""
    body = await request.body()
    if not body:
        return None
    try:
        options, _ = await _decode(request, body, request.header(b"content-type"))
    except (codec.DecodeError, protobuf.ProtobufError) as error:
        raise errors.bad_request(NO_TYPE_META + str(error)) from None
    if options is not None and (why := type_meta_error(options)):
        raise errors.bad_request(why)
    if request.audit is not None and isinstance(options, dict):
        # Upstream tells its internal version, whatever the client has sent.
        request.audit.record.object({**options, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal"})
    return options


async def _decode(request: Request, body: bytes, content_type: str) -> tuple[Any, list[str] | None]:
    """The value, and a strict decoder's complaints about repeated keys; None if there may be some, which the caller must find.

    Raises DecodeError, ProtobufError; 415 for a media type that isn't supported, such as protobuf of a custom resource.
    """
    if not negotiation.is_protobuf(content_type):
        if negotiation.body_is_yaml(content_type):
            return await _slowly(request, codec.decode_yaml_checking_keys, body)
        value, nothing_repeated = await _aside(request, body, codec.decode_checking_keys, body)
        return value, [] if nothing_repeated else None
    try:
        return await _aside(request, body, protobuf.decode, body), []
    except protobuf.UnknownKind:
        raise negotiation.unsupported_body() from None


async def _slowly(request: Request, decode: Callable[[bytes], T], body: bytes) -> T:
    """Call a slow decoder: in a thread, unless the body is short."""
    if len(body) <= _SLOW_BYTES:
        return decode(body)
    return await _SLOW.run(request.user.name, len(body), decode, body)


def _is_yaml(content_type: str) -> bool:
    return not negotiation.is_protobuf(content_type) and negotiation.body_is_yaml(content_type)


def _check_group_version(scope: ResourceScope, obj: JSONObject, body: bytes) -> None:
    version = obj.get("apiVersion") or ""
    if version.count("/") > 1:
        raise _unrecognized(scope, f"unexpected GroupVersion string: {version}", body)


def _check_version(scope: ResourceScope, obj: JSONObject) -> None:
    version = obj.get("apiVersion") or ""
    if version != scope.object_version:
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({scope.object_version})"
        )


def _unfit(scope: ResourceScope, obj: JSONObject, why: str) -> errors.StatusError:
    version = scope.info.version if scope.typed else str(obj.get("apiVersion") or "").rpartition("/")[2]
    return errors.bad_request(f'{obj["kind"]} in version "{version}" cannot be handled as a {scope.kind}: {why}')


def _unrecognized(scope: ResourceScope, why: str, body: bytes) -> errors.StatusError:
    return errors.bad_request(f"the object provided is unrecognized (must be of type {scope.kind}): {why} ({_summary(body)})")


def _summary(body: bytes) -> str:
    """The start of the body for an error message: as text if it looks like JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SUMMARY_BYTES else ""
    start = body[:_SUMMARY_BYTES]
    return (start.decode("utf-8", "replace") if body[:1] == b"{" else start.hex()) + more
