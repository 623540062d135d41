"""Status: the errors that the server responds with.

Every refusal is a `StatusError`, which has exactly the content of a `meta/v1 Status`. The functions below are apimachinery's
constructors with the same texts, so that clients can match on reason, code or text. Errors are raised anywhere; filters turn them
into responses, and a watch turns them into its ERROR event.
Pure. Source: k8s.io/apimachinery pkg/api/errors/errors.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aggserver.errors import AggserverError
from aggserver.meta.field import FieldError, first_that_fit
from aggserver.meta.golang import quote

__all__ = [
    "Cause",
    "ObjectTooLarge",
    "StatusError",
    "already_exists",
    "apply_conflict",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "generate_name_conflict",
    "internal_error",
    "invalid",
    "method_not_allowed",
    "method_not_supported",
    "no_consumer",
    "no_route",
    "not_acceptable",
    "not_found",
    "patch_rejected",
    "qualified",
    "request_entity_too_large",
    "service_unavailable",
    "timeout",
    "too_large_resource_version",
    "unauthorized",
    "unsupported_media_type",
]


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `details.causes`. `reason` is the JSON name (Go's field is Type). Empty members are omitted."""

    reason: str
    message: str
    field: str = ""

    def as_json(self) -> dict[str, str]:
        members = (("reason", self.reason), ("message", self.message), ("field", self.field))
        return {key: value for key, value in members if value}


class StatusError(AggserverError):
    """An error of a request, as clients see it.

    code: the HTTP status. reason: machine-readable. retry_after: seconds, also sent as a Retry-After header. name, group and
    kind are members of `details`; kind is mostly the plural of the resource, as upstream.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        name: str = "",
        group: str = "",
        kind: str = "",
        causes: Sequence[Cause] = (),
        retry_after: int = 0,
        continue_token: str = "",
        bare_details: bool = False,
    ) -> None:
        super().__init__(message)
        self.bare_details = bare_details
        self.code = code
        self.reason = reason
        self.message = message
        self.name = name
        self.group = group
        self.kind = kind
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.continue_token = continue_token

    def status(self) -> dict[str, Any]:
        """The `meta/v1 Status` object, ready to encode, without empty members, as with Go's omitempty."""
        members = (("name", self.name), ("group", self.group), ("kind", self.kind))
        details: dict[str, Any] = {key: value for key, value in members if value}
        if self.causes:
            details["causes"] = [cause.as_json() for cause in self.causes]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        metadata = {"continue": self.continue_token} if self.continue_token else {}
        out: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"}
        if self.message:
            out["message"] = self.message
        if self.reason:
            out["reason"] = self.reason
        if details or self.bare_details:
            out["details"] = details
        out["code"] = self.code
        return out


def qualified(resource: str, group: str) -> str:
    """`crontabs.stable.example.com`, or the bare resource (or kind) for the core group."""
    return f"{resource}.{group}" if group else resource


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, resource: str, name: str, why: str) -> StatusError:
    """403 for a resource request. why: the text after `is forbidden: `."""
    what = qualified(resource, group)
    if not resource and not group:
        message = f"forbidden: {why}"
    elif name:
        message = f"{what} {quote(name)} is forbidden: {why}"
    else:
        message = f"{what} is forbidden: {why}"
    return StatusError(403, "Forbidden", message, name=name, group=group, kind=resource, bare_details=True)


def not_found(group: str, resource: str, name: str) -> StatusError:
    return StatusError(
        404, "NotFound", f"{qualified(resource, group)} {quote(name)} not found", name=name, group=group, kind=resource
    )


def method_not_allowed() -> StatusError:
    """405 where upstream has no route with this method; `method_not_supported` is for a handler that does not support a verb."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, bare_details=True)


def no_route() -> StatusError:
    """404 for a path that upstream has no route for, below a group and version that it serves by routes."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", bare_details=True)


def method_not_supported(group: str, resource: str, verb: str) -> StatusError:
    return StatusError(
        405,
        "MethodNotAllowed",
        f"{verb} is not supported on resources of kind {quote(qualified(resource, group))}",
        group=group,
        kind=resource,
    )


def not_acceptable(message: str) -> StatusError:
    return StatusError(406, "NotAcceptable", message)


def already_exists(group: str, resource: str, name: str) -> StatusError:
    return StatusError(
        409, "AlreadyExists", f"{qualified(resource, group)} {quote(name)} already exists", name=name, group=group, kind=resource
    )


def generate_name_conflict(group: str, resource: str, name: str) -> StatusError:
    """409 when eight generated names were all in use; the client may retry after a second."""
    what = f"{qualified(resource, group)} {quote(name)}"
    message = f"{what} already exists, the server was not able to generate a unique name for the object"
    return StatusError(409, "AlreadyExists", message, name=name, group=group, kind=resource, retry_after=1)


def conflict(group: str, resource: str, name: str, why: str) -> StatusError:
    return StatusError(
        409,
        "Conflict",
        f"Operation cannot be fulfilled on {qualified(resource, group)} {quote(name)}: {why}",
        name=name,
        group=group,
        kind=resource,
    )


def apply_conflict(message: str, causes: Sequence[Cause]) -> StatusError:
    """409 of a server-side apply: one cause, with reason FieldManagerConflict, for each contested field."""
    return StatusError(409, "Conflict", message, causes=causes)


def expired(message: str, continue_token: str = "") -> StatusError:
    """410 for a revision that is no longer kept. continue_token: with it the client can list the rest at the newest one."""
    return StatusError(410, "Expired", message, continue_token=continue_token)


def request_entity_too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


class ObjectTooLarge(StatusError):
    """413 for an object that is, or would become, larger than allowed, with the same text as for a body that is too large.

    limit: in bytes of JSON. Clients recognize it by code and reason (apimachinery's IsRequestEntityTooLargeError).
    """

    def __init__(self, limit: int) -> None:
        refusal = request_entity_too_large(f"limit is {limit}")
        super().__init__(refusal.code, refusal.reason, refusal.message)


def unsupported_media_type(message: str) -> StatusError:
    return StatusError(415, "UnsupportedMediaType", message)


def no_consumer() -> StatusError:
    """415 for a patch of a built-in kind in a media type that upstream's route does not take."""
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", bare_details=True)


_MORE_ERRORS = "further errors are omitted"


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422 with all field errors; the message leaves out repeated texts, the causes don't.

    If there are too many, only the first that fit are included.
    """
    shown = first_that_fit(map(str, errors))
    texts = list(dict.fromkeys(shown))
    if len(shown) < len(errors):
        texts.append(_MORE_ERRORS)
    if not texts:
        message = f"{qualified(kind, group)} {quote(name)} is invalid"
    elif len(texts) == 1:
        message = f"{qualified(kind, group)} {quote(name)} is invalid: {texts[0]}"
    else:
        message = f"{qualified(kind, group)} {quote(name)} is invalid: [{', '.join(texts)}]"
    causes = [Cause(error.reason, error.body(), error.field) for error in errors[: len(shown)]]
    return StatusError(422, "Invalid", message, name=name, group=group, kind=kind, causes=causes)


def patch_rejected() -> StatusError:
    """422 for a JSON patch that does not apply. Upstream loses the reason, so the text is always the same."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", bare_details=True)


def too_many_requests() -> StatusError:
    return StatusError(429, "TooManyRequests", "Too many requests: please try again later", retry_after=1)


def internal_error(message: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", causes=[Cause("", message)])


def service_unavailable(message: str, retry_after: int = 0) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message, retry_after=retry_after)


def timeout(message: str, retry_after: int = 0) -> StatusError:
    return StatusError(504, "Timeout", f"Timeout: {message}", retry_after=retry_after)


def too_large_resource_version(wanted: int, current: int) -> StatusError:
    """504: the client asks for a newer revision than this server has; it should retry."""
    error = timeout(f"Too large resource version: {wanted}, current: {current}", retry_after=1)
    error.causes = (Cause("ResourceVersionTooLarge", "Too large resource version"),)
    return error
