"""AdmissionReview: the request to a webhook, the rules for its response, and the errors that follow from it.

The requests of v1 and v1beta1 are the same. A v1 response is checked for uid, kind and presence of a patch, a v1beta1 one is not.
Pure.
Source: k8s.io/apiserver pkg/admission/plugin/webhook/{request/admissionreview,errors/statuserror}.go, pkg/util/webhook/error.go;
k8s.io/apimachinery pkg/runtime/serializer/json/json.go, pkg/runtime/serializer/versioning/versioning.go, v0.36.3.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aggserver.admission.chain import CREATE, DELETE, Attributes, Target
from aggserver.authentication.user import UserInfo
from aggserver.meta import codec, errors, versions
from aggserver.meta.errors import Cause, StatusError
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.scheme.decoding import NO_TYPE_META, decode_error, type_meta_error
from aggserver.scheme.types import lookup

__all__ = [
    "Answer",
    "InvalidAnswer",
    "UnreadableAnswer",
    "body",
    "denial",
    "dry_run_unsupported",
    "encoded",
    "failure",
    "read",
    "version_of",
    "why_failed",
]

_GROUP = "admission.k8s.io"
_KIND = "AdmissionReview"
_KNOWN = ("v1", "v1beta1")
_TYPES = {version: lookup(f"admission/{version}.{_KIND}") for version in _KNOWN}

JSON_PATCH = "JSONPatch"
_WRITE_OPTIONS = ("dryRun", "fieldManager", "fieldValidation")


class UnreadableAnswer(ValueError):
    """The answer is no AdmissionReview of the request's version. The text is that of upstream's client."""


class InvalidAnswer(ValueError):
    """The answer is an AdmissionReview, but not a valid response to the request."""


# --- what is asked ---


def version_of(known: Sequence[str]) -> str:
    """The first version in a webhook's admissionReviewVersions that can be sent. Raises ValueError if there is none."""
    for version in known:
        if version in _KNOWN:
            return version
    raise ValueError("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


def encoded(obj: JSONObject | None, target: Target) -> bytes:
    """An object as it is sent: `null` if there is none."""
    return b"null" if obj is None else codec.encode_json({"kind": target.kind, "apiVersion": target.api_version, **obj})


def body(version: str, uid: str, attributes: Attributes, target: Target, obj: bytes, old: bytes) -> bytes:
    """The AdmissionReview to send. version: from `version_of`. target: named by the webhook's rule. obj, old: encoded for it."""
    requested = Target.requested(attributes)
    request: JSONObject = {
        "uid": uid,
        "kind": _kind(target),
        "resource": _resource(target),
        "requestKind": _kind(requested),
        "requestResource": _resource(requested),
        "operation": attributes.operation,
        "userInfo": _user(attributes.user),
        "dryRun": attributes.dry_run,
        "options": _options(attributes),
    }
    optional = (
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("name", attributes.name),
        ("namespace", attributes.namespace),
    )
    request |= {key: value for key, value in optional if value}
    head = codec.encode_json({"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": request})
    return b"".join((head[:-2], b',"object":', obj, b',"oldObject":', old, b"}}"))


def _kind(target: Target) -> JSONObject:
    group, version = versions.parse_group_version(target.api_version)
    return {"group": group, "version": version, "kind": target.kind}


def _resource(target: Target) -> JSONObject:
    return {"group": target.group, "version": target.version, "resource": target.resource}


def _user(user: UserInfo) -> JSONObject:
    found: JSONObject = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in found.items() if value}


def _options(attributes: Attributes) -> JSONObject:
    given = attributes.options
    if attributes.operation == DELETE:
        members = lookup("meta/v1.DeleteOptions").members
        found = {key: value for key, value in given.items() if key in members and not members[key].is_omitted(value)}
        kind = "DeleteOptions"
    else:
        found = {key: given[key] for key in _WRITE_OPTIONS if given.get(key)}
        kind = "CreateOptions" if attributes.operation == CREATE else "UpdateOptions"
    return {**found, "kind": kind, "apiVersion": "meta.k8s.io/v1"}


# --- what is answered ---


@dataclass(frozen=True, slots=True)
class Answer:
    """A webhook's response. patch: JSON, empty if there is none. result: the Status of a refusal, if the webhook has sent one."""

    allowed: bool
    patch: bytes = b""
    patch_type: str = ""
    result: JSONObject | None = None
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)


def read(answer: bytes, version: str, uid: str, *, mutating: bool) -> Answer:
    """Decode and check an answer. version, uid: of the request. Raises UnreadableAnswer and InvalidAnswer."""
    review = _decoded(answer, version)
    response = review.get("response")
    if response is None:
        raise InvalidAnswer("webhook response was absent")
    patch, patch_type = _base64(response.get("patch") or ""), response.get("patchType")
    if version == "v1":
        _check(review, response, uid)
        _check_patch(patch, patch_type, mutating=mutating)
    elif patch:
        patch_type = JSON_PATCH  # upstream ignores the patchType of a v1beta1 response
    return Answer(
        allowed=response.get("allowed") or False,
        patch=patch if mutating else b"",
        patch_type=(patch_type or "") if mutating else "",
        result=response.get("status"),
        warnings=tuple(text or "" for text in response.get("warnings") or ()),
        audit_annotations={key: value or "" for key, value in (response.get("auditAnnotations") or {}).items()},
    )


def _check(review: JSONObject, response: JSONObject, uid: str) -> None:
    given = response.get("uid") or ""
    if given != uid:
        raise InvalidAnswer(f"expected response.uid={quote(uid)}, got {quote(given)}")
    kind = (review.get("apiVersion") or "", review.get("kind") or "")
    if kind != (f"{_GROUP}/v1", _KIND):
        raise InvalidAnswer(f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got {kind[0] or '/'}, Kind={kind[1]}")


def _check_patch(patch: bytes, patch_type: str | None, *, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise InvalidAnswer("validating webhook may not return response.patch")
        if patch_type is not None:
            raise InvalidAnswer("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise InvalidAnswer("webhook returned response.patch but not response.patchType")
    elif not patch and patch_type is not None:
        raise InvalidAnswer("webhook returned response.patchType but not response.patch")
    elif patch_type == "":
        raise InvalidAnswer('webhook returned invalid response.patchType of ""')


def _decoded(answer: bytes, version: str) -> JSONObject:
    """The answer as Go decodes it: its apiVersion and kind may be missing, and unknown members are dropped."""
    try:
        review = codec.decode_json(answer) if answer.lstrip().startswith(b"{") else codec.decode_yaml(answer)
        review = {} if review is None else review
    except codec.DecodeError as error:
        raise UnreadableAnswer(NO_TYPE_META + str(error)) from None
    if problem := type_meta_error(review):
        raise UnreadableAnswer(problem)
    _check_type(review.get("apiVersion") or "", review.get("kind") or "", version)
    if problem := decode_error(review, _TYPES[version]):
        raise UnreadableAnswer(problem)
    found: JSONObject = review
    return found


def _check_type(api_version: str, kind: str, version: str) -> None:
    """Raises UnreadableAnswer for an object that can't become the expected review."""
    group, _, given = api_version.rpartition("/")
    if not group and not given:
        group, given = _GROUP, version
    if (api_version, kind) == ("v1", "Status"):
        raise UnreadableAnswer(f"converting (v1.Status) to ({version}.{_KIND}): unknown conversion")
    if (group, kind or _KIND) != (_GROUP, _KIND) or given not in _KNOWN:
        scheme = 'in scheme "pkg/runtime/scheme.go:111"'
        raise UnreadableAnswer(f"no kind {quote(kind or _KIND)} is registered for version {quote(api_version)} {scheme}")
    if given != version:
        raise UnreadableAnswer(f"converting ({given}.{_KIND}) to ({version}.{_KIND}): unknown conversion")


def _base64(text: str) -> bytes:
    try:
        return binascii.a2b_base64(re.sub("[\r\n]", "", text), strict_mode=True)
    except ValueError:  # also for characters beyond ASCII
        wrong = re.search(r"[^A-Za-z0-9+/=\r\n]", text)
        raise UnreadableAnswer(f"illegal base64 data at input byte {wrong.start() if wrong else len(text) // 4 * 4}") from None


# --- refusals ---


def denial(webhook: str, result: JSONObject | None) -> StatusError:
    """The error of a request that the webhook does not allow. result: its Status, if any; a code below 400 becomes 400."""
    given = result or {}
    who = f"admission webhook {quote(webhook)} denied the request"
    message, reason = given.get("message") or "", given.get("reason") or ""
    text = message or reason
    details = given.get("details")
    members = details or {}
    return StatusError(
        max(given.get("code") or 0, 400),
        reason,
        f"{who}: {text}" if text else f"{who} without explanation",
        name=members.get("name") or "",
        group=members.get("group") or "",
        kind=members.get("kind") or "",
        causes=[_cause(cause or {}) for cause in members.get("causes") or ()],
        retry_after=members.get("retryAfterSeconds") or 0,
        bare_details=details is not None,
    )


def _cause(cause: Mapping[str, Any]) -> Cause:
    return Cause(cause.get("reason") or "", cause.get("message") or "", cause.get("field") or "")


def failure(webhook: str, reason: str) -> StatusError:
    """The error of a request whose webhook could not be called, or gave no valid answer."""
    return errors.internal_error(why_failed(webhook, reason))


def why_failed(webhook: str, reason: str) -> str:
    return f"failed calling webhook {quote(webhook)}: {reason}"


def dry_run_unsupported(webhook: str) -> StatusError:
    return errors.bad_request(f"admission webhook {quote(webhook)} does not support dry run")
