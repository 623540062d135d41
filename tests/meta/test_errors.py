from typing import Any

import pytest

from aggserver.meta import errors, field
from aggserver.meta.errors import Cause, StatusError
from aggserver.meta.field import Path

REQUIRED = field.required(Path("a"))
INVALID = field.invalid(Path("b"), 1, "why")

MESSAGES: dict[str, tuple[StatusError, int, str, str]] = {
    "not found": (errors.not_found("g", "ps", "x"), 404, "NotFound", 'ps.g "x" not found'),
    "of the core group": (errors.not_found("", "ps", "x"), 404, "NotFound", 'ps "x" not found'),
    "name with quotes": (errors.not_found("g", "ps", 'x"'), 404, "NotFound", r'ps.g "x\"" not found'),
    "exists": (errors.already_exists("g", "ps", "x"), 409, "AlreadyExists", 'ps.g "x" already exists'),
    "generated name": (
        errors.generate_name_conflict("g", "ps", "x"),
        409,
        "AlreadyExists",
        'ps.g "x" already exists, the server was not able to generate a unique name for the object',
    ),
    "conflict": (errors.conflict("g", "ps", "x", "why"), 409, "Conflict", 'Operation cannot be fulfilled on ps.g "x": why'),
    "apply conflict": (errors.apply_conflict("why", [Cause("r", "m", ".f")]), 409, "Conflict", "why"),
    "forbidden object": (errors.forbidden("g", "ps", "x", "why"), 403, "Forbidden", 'ps.g "x" is forbidden: why'),
    "forbidden collection": (errors.forbidden("g", "ps", "", "why"), 403, "Forbidden", "ps.g is forbidden: why"),
    "forbidden path": (errors.forbidden("", "", "", "why"), 403, "Forbidden", "forbidden: why"),
    "method": (
        errors.method_not_supported("g", "ps", "patch"),
        405,
        "MethodNotAllowed",
        'patch is not supported on resources of kind "ps.g"',
    ),
    "one field": (errors.invalid("g", "K", "x", [REQUIRED]), 422, "Invalid", 'K.g "x" is invalid: a: Required value'),
    "many fields": (
        errors.invalid("g", "K", "x", [REQUIRED, INVALID, REQUIRED]),
        422,
        "Invalid",
        'K.g "x" is invalid: [a: Required value, b: Invalid value: 1: why]',
    ),
    "no fields": (errors.invalid("g", "K", "x", []), 422, "Invalid", 'K.g "x" is invalid'),
    "patch": (
        errors.patch_rejected(),
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    ),
    "expired": (errors.expired("why"), 410, "Expired", "why"),
    "too large": (
        errors.request_entity_too_large("limit is 3"),
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3",
    ),
    "internal": (errors.internal_error("why"), 500, "InternalError", "Internal error occurred: why"),
    "timeout": (errors.timeout("why"), 504, "Timeout", "Timeout: why"),
    "future revision": (
        errors.too_large_resource_version(5, 3),
        504,
        "Timeout",
        "Timeout: Too large resource version: 5, current: 3",
    ),
    "bad request": (errors.bad_request("why"), 400, "BadRequest", "why"),
    "not acceptable": (errors.not_acceptable("why"), 406, "NotAcceptable", "why"),
    "media type": (errors.unsupported_media_type("why"), 415, "UnsupportedMediaType", "why"),
    "media type of a patch": (errors.no_consumer(), 415, "UnsupportedMediaType", "415: Unsupported Media Type"),
    "unavailable": (errors.service_unavailable("why"), 503, "ServiceUnavailable", "why"),
    "too many requests": (errors.too_many_requests(), 429, "TooManyRequests", "Too many requests: please try again later"),
    "unauthorized": (errors.unauthorized(), 401, "Unauthorized", "Unauthorized"),
}


@pytest.mark.parametrize(("error", "code", "reason", "message"), MESSAGES.values(), ids=MESSAGES)
def test_message(error: StatusError, code: int, reason: str, message: str) -> None:
    assert (error.code, error.reason, str(error)) == (code, reason, message)
    assert error.status()["code"] == code


DETAILS: dict[str, tuple[StatusError, dict[str, Any]]] = {
    "object": (errors.not_found("g", "ps", "x"), {"name": "x", "group": "g", "kind": "ps"}),
    "every cause, repeated or not": (
        errors.invalid("g", "K", "x", [REQUIRED, REQUIRED]),
        {
            "name": "x",
            "group": "g",
            "kind": "K",
            "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "a"}] * 2,
        },
    ),
    "a cause without a reason": (errors.internal_error("why"), {"causes": [{"message": "why"}]}),
    "retry": (errors.service_unavailable("why", 3), {"retryAfterSeconds": 3}),
}


@pytest.mark.parametrize(("error", "details"), DETAILS.values(), ids=DETAILS)
def test_details(error: StatusError, details: dict[str, Any]) -> None:
    assert error.status()["details"] == details


@pytest.mark.parametrize("error", [errors.method_not_allowed(), errors.no_route(), errors.patch_rejected()], ids=str)
def test_details_that_are_there_though_they_say_nothing(error: StatusError) -> None:
    assert error.status()["details"] == {}


def test_status_of_an_expired_list_resumes() -> None:
    status = errors.expired("why", "token").status()
    assert status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": "token"},
        "status": "Failure",
        "message": "why",
        "reason": "Expired",
        "code": 410,
    }
