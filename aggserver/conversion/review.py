"""ConversionReview: the request to a conversion webhook, and the rules for its response.

A converted object must have the same kind, name, namespace and uid; of its metadata, only labels and annotations may change.
Upstream calls a webhook once for each object; the error texts are upstream's for one object.
Pure. Source: k8s.io/apiextensions-apiserver pkg/apiserver/conversion/{webhook_converter,metrics}.go, v0.36.3;
k8s.io/apimachinery pkg/apis/meta/v1/unstructured/helpers.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from aggserver.conversion.converter import ConversionError
from aggserver.meta import codec
from aggserver.meta.field import Path
from aggserver.meta.golang import json_kind, quote
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.versions import parse_group_version
from aggserver.scheme.object_meta import validate_annotations, validate_labels
from aggserver.scheme.types import lookup
from aggserver.webhook.reviews import decode_review

__all__ = ["CALL_FAILED", "ReviewError", "decode_answer", "encode_request", "refused", "review_version"]

_GROUP, _KIND = "apiextensions.k8s.io", "ConversionReview"
_TYPES = {f"{_GROUP}/{version}": lookup(f"apiextensions/{version}.{_KIND}") for version in ("v1", "v1beta1")}

# Labels of metrics.
CALL_FAILED = "conversion_webhook_call_failure"
_MALFORMED = "conversion_webhook_malformed_response_failure"
_PARTIAL = "conversion_webhook_partial_response_failure"
_INVALID = "conversion_webhook_invalid_converted_object_failure"

# As much of a converted object as an error quotes, in characters. Upstream quotes all of it.
_MAX_QUOTED = 4096

_GO_TYPES = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    int: "int64",
    float: "float64",
    bool: "bool",
    str: "string",
    type(None): "<nil>",
}


class ReviewError(ConversionError):
    """A call of a conversion webhook failed. failure: upstream's name for this kind of failure, a label of metrics."""

    def __init__(self, failure: str, message: str, index: int | None = None, *, answered: bool = True) -> None:
        super().__init__(message, index, answered=answered)
        self.failure = failure


def review_version(accepted: Sequence[str]) -> str:
    """The first version in conversionReviewVersions that this server knows. Raises ReviewError if there is none."""
    for version in accepted:
        if f"{_GROUP}/{version}" in _TYPES:
            return version
    raise ReviewError(CALL_FAILED, "no supported conversion review versions", answered=False)


def encode_request(objects: Sequence[JSONObject], api_version: str, version: str, uid: str) -> bytes:
    """The body of a call. api_version: to convert to. version: of the review. uid: of the request."""
    head = f'{{"kind":"{_KIND}","apiVersion":"{_GROUP}/{version}","request":{{"uid":"{uid}","desiredAPIVersion":"{api_version}",'
    # Objects are encoded one by one, so that other threads get their turn between them.
    return b"".join((head.encode(), b'"objects":[', b",".join(map(codec.encode_json, objects)), b"]}}"))


def decode_answer(body: bytes, objects: Sequence[JSONObject], api_version: str, version: str, uid: str) -> list[JSONObject]:
    """The converted objects in an answer to `encode_request` with the same arguments. Raises ReviewError with upstream's texts.

    Indexes of errors are those of `objects`, which must not be empty.
    """
    first = objects[0]
    try:
        review = decode_review(body, f"{_GROUP}/{version}", _KIND, _TYPES)
    except ValueError as error:
        raise refused(first, CALL_FAILED, f"failed: {error}") from None
    made = _response(review, first, version, uid).get("convertedObjects") or []
    if len(made) != len(objects):
        raise refused(first, _PARTIAL, f"returned {len(made)} objects, expected {len(objects)}")
    return [_checked(objects[index], made[index], api_version, index) for index in range(len(objects))]


def refused(obj: JSONMapping, failure: str, what: str, index: int | None = None, *, answered: bool = True) -> ReviewError:
    """The error of a call for `obj` and perhaps others. what: what the webhook did, such as `failed: it broke`."""
    return ReviewError(failure, f"conversion webhook for {_described(obj)} {what}", index, answered=answered)


def _response(review: JSONObject, first: JSONMapping, version: str, uid: str) -> JSONMapping:
    """The response of a successful review. As upstream, a v1beta1 review is not checked for version, kind and uid."""

    def fail(why: str) -> NoReturn:
        raise refused(first, _MALFORMED, f"failed: {why}")

    response: JSONObject | None = review.get("response")
    expected = {"apiVersion": f"{_GROUP}/{version}", "kind": _KIND}
    if version == "v1" and (review.get("apiVersion"), review.get("kind")) != tuple(expected.values()):
        fail(f"expected webhook response of {_described(expected)}, got {_described(review)}")
    if response is None:
        fail("no response provided")
    if version == "v1" and (response.get("uid") or "") != uid:
        fail(f"expected response.uid={quote(uid)}, got {quote(response.get('uid') or '')}")
    result = response.get("result") or {}
    if (status := result.get("status") or "") != "Success":
        fail(result.get("message") or f"response.result.status was '{status}', not 'Success'")
    return response


def _checked(old: JSONObject, new: Any, api_version: str, index: int) -> JSONObject:
    """The converted object, with all metadata but labels and annotations taken from `old`, with which it shares parts."""

    def fail(what: str) -> NoReturn:
        raise refused(old, _INVALID, f"returned invalid {what}", index)

    if new is None:
        raise ReviewError(_INVALID, "unexpected end of JSON input", index)
    if not isinstance(new, dict):
        why = f"json: cannot unmarshal {json_kind(new)} into Go value of type map[string]interface {{}}"
        raise ReviewError(_INVALID, why, index)
    if not _described(new).partition(", Kind=")[2]:
        quoted = codec.encode_json(new).decode()
        raise ReviewError(_INVALID, f"Object 'Kind' is missing in '{quoted[:_MAX_QUOTED]}'", index)
    found = _text(new, "apiVersion")
    if found != api_version:
        fail(f"object at index 0: invalid groupVersion (expected {api_version}, received {found})")
    if new["kind"] != old["kind"]:
        fail(f"object at index 0: invalid kind (expected {old['kind']}, received {new['kind']})")
    theirs = new.get("metadata")
    named = theirs if isinstance(theirs, dict) else {}
    for member, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = _text(old["metadata"], member), _text(named, member)
        if before != after:
            fail(f"object: must have the same {word}: {before} != {after}")
    if not isinstance(theirs, dict):
        # Reached for objects without a name, namespace and uid, which pass the comparison.
        missing = "metadata" not in new
        fail("metadata: " + ("missing metadata in converted object" if missing else _of_type("metadata", theirs)))
    metadata = dict(old["metadata"])
    for member in ("labels", "annotations"):
        metadata.pop(member, None)
        if theirs.get(member) is not None:
            problem = _strings_problem(member, theirs[member], old["metadata"].get(member))
            if problem:
                fail(f"metadata: {problem}")
            metadata[member] = theirs[member]
    new["metadata"] = metadata
    return new


def _strings_problem(member: str, value: Any, old: Any) -> str:
    """What is wrong with labels or annotations; '' if nothing is. Unchanged ones are not validated again."""
    if not isinstance(value, dict):
        return _of_type(f"metadata.{member}", value)
    for key, text in value.items():
        if not isinstance(text, str):
            return f"metadata.{member}[{key}] must be a string, but is {_go_type(text)} in converted object"
    if value == (old or {}):
        return ""
    if member == "labels":
        problems = validate_labels(value, Path("metadata").child("labels"))
    else:
        problems = validate_annotations(value, Path("metadata").child("annotation"))
    texts = list(dict.fromkeys(map(str, problems)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


def _of_type(what: str, value: Any) -> str:
    return f"invalid {what} of type {_go_type(value)} in converted object"


def _go_type(value: Any) -> str:
    return _GO_TYPES[type(value)]


def _text(obj: JSONMapping, member: str) -> str:
    value = obj.get(member)
    return value if isinstance(value, str) else ""


def _described(obj: JSONMapping) -> str:
    """Version and kind as Go prints them: `stable.example.com/v1, Kind=CronTab`. Both are empty for a malformed version."""
    try:
        group, version = parse_group_version(_text(obj, "apiVersion"))
    except ValueError:
        return "/, Kind="
    return f"{group}/{version}, Kind={_text(obj, 'kind')}"
