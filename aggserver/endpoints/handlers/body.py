"""Bodies of requests: from bytes and a content type to the object that is about to be written.

Decodes JSON or YAML, fills in apiVersion and kind where they are missing, refuses another version, prunes what the schema does
not know, and says so as fieldValidation asks: nothing, a warning, or 400. Called by the handlers of create and update.
Source: k8s.io/apiserver pkg/endpoints/handlers/{create,update,rest}.go, v0.36.3.
"""

from __future__ import annotations

from typing import Any

from aggserver.endpoints import negotiation
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.request import Request
from aggserver.meta import codec, errors, object_meta, protobuf
from aggserver.registry.rest import JSONObject

__all__ = ["check_name", "dedup_owner_references", "json_kind", "read_delete_body", "read_object", "report_unknown"]

_SUMMARY_BYTES = 30


async def read_object(scope: ResourceScope, request: Request, field_validation: str) -> JSONObject:
    """The object of the body, pruned; its metadata is a dict. Raises 400, 413, 415."""
    content_type = request.header(b"content-type")
    body = await request.body()
    try:
        obj = _decode(body, content_type)
    except (codec.DecodeError, protobuf.ProtobufError) as error:
        raise _unrecognized(scope, f"couldn't get version/kind; json parse error: {error}", body) from None
    if not isinstance(obj, dict):
        what = "json parse error: json: cannot unmarshal " + json_kind(obj) + " into Go value of type struct "
        what += '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        raise _unrecognized(scope, f"couldn't get version/kind; {what}", body)
    for key in ("apiVersion", "kind"):
        if not isinstance(obj.get(key) or "", str):
            what = f"json: cannot unmarshal {json_kind(obj[key])} into Go struct field .{key} of type string"
            raise _unrecognized(scope, f"couldn't get version/kind; json parse error: {what}", body)
    _check_version(scope, obj)
    why = object_meta.type_error(obj.get("metadata"))
    if why:
        raise errors.bad_request(f'{obj["kind"]} in version "{scope.version}" cannot be handled as a {scope.kind}: {why}')
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    unknown = scope.conform(obj)
    if field_validation != "Ignore" and not negotiation.is_protobuf(content_type):
        duplicates = codec.duplicate_fields(body, negotiation.body_is_yaml(content_type))
        report_unknown(scope, request, obj, duplicates, unknown, strict=field_validation == "Strict")
    return obj


def report_unknown(
    scope: ResourceScope, request: Request, obj: JSONObject, duplicates: list[str], unknown: list[str], *, strict: bool
) -> None:
    """Raises 400 (strict) or adds warnings. `duplicates` are texts, `unknown` the paths of fields that were dropped."""
    texts = duplicates + [f'unknown field "{path}"' for path in unknown]
    if not texts:
        return
    if strict:
        what = f'{obj["kind"]} in version "{scope.version}" cannot be handled as a {scope.kind}'
        raise errors.bad_request(f"{what}: strict decoding error: {', '.join(texts)}")
    request.warnings.extend(texts)


async def read_delete_body(request: Request) -> Any:
    """The decoded DeleteOptions; None where there is no body."""
    body = await request.body()
    if not body:
        return None
    try:
        return _decode(body, request.header(b"content-type"))
    except (codec.DecodeError, protobuf.ProtobufError) as error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from None


def check_name(obj: JSONObject, name: str) -> None:
    """The body's name must be the URL's. Raises 400."""
    given = obj["metadata"].get("name")
    if not given:
        raise errors.bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def dedup_owner_references(obj: JSONObject, request: Request, *, admitted: bool = False) -> None:
    """Drops repeated ownerReferences, with upstream's warning, which tells of mutating admission where that came before."""
    references = obj["metadata"].get("ownerReferences")
    if not isinstance(references, list) or len(references) < 2:
        return
    kept: list[Any] = []
    repeated: list[str] = []
    for reference in references:
        if reference in kept:
            repeated.append(str(reference.get("uid", "")))
        else:
            kept.append(reference)
    if repeated:
        obj["metadata"]["ownerReferences"] = kept
        request.warnings.append(
            f".metadata.ownerReferences contains duplicate entries{' after mutating admission happens' if admitted else ''}; "
            "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
            f"duplicate UID(s) observed: {', '.join(repeated)}"
        )


def _decode(body: bytes, content_type: str) -> Any:
    """Raises DecodeError, ProtobufError; 415 for a type that isn't read, protobuf of a custom resource among them."""
    if not negotiation.is_protobuf(content_type):
        return codec.decode_yaml(body) if negotiation.body_is_yaml(content_type) else codec.decode_json(body)
    try:
        return protobuf.decode(body)
    except protobuf.UnknownKind:
        raise negotiation.unsupported_body() from None


def _check_version(scope: ResourceScope, obj: JSONObject) -> None:
    version = obj.get("apiVersion")
    if not version:
        obj["apiVersion"] = scope.object_version
    elif version != scope.object_version:
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({scope.object_version})"
        )
    if not obj.get("kind"):
        obj["kind"] = scope.kind


def _unrecognized(scope: ResourceScope, why: str, body: bytes) -> errors.StatusError:
    return errors.bad_request(f"the object provided is unrecognized (must be of type {scope.kind}): {why} ({_summary(body)})")


def _summary(body: bytes) -> str:
    """The start of the body for the error: text where it looks like JSON, hexadecimal otherwise."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SUMMARY_BYTES else ""
    start = body[:_SUMMARY_BYTES]
    return (start.decode("utf-8", "replace") if body[:1] == b"{" else start.hex()) + more


def json_kind(value: Any) -> str:
    """What Go's decoder calls a JSON value."""
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "number"
