"""How client-go interprets a webhook's response: as a body, or as an error with client-go's text.

Pure. Source: k8s.io/client-go rest/{request,with_retry}.go (transformResponse, newUnstructuredResponseError, checkWait);
k8s.io/apimachinery pkg/api/errors/errors.go (NewGenericServerResponse), v0.36.3; Go's mime.ParseMediaType.
"""

from __future__ import annotations

import re

import orjson

from aggserver.errors import AggserverError
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject

__all__ = ["WebhookError", "failure", "retry_after"]

# The bytes of a body that client-go quotes in an error.
_MAX_QUOTED = 2048

_MESSAGES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_WORD = r"([!#$%&'*+.^_`|~0-9A-Za-z-]*)"
_MEDIA_TYPE = re.compile(rf"{_WORD}(/?){_WORD}(.*)", re.DOTALL)
_NOT_ACCEPTABLE = "the server was unable to respond with a content type that the client supports"


class WebhookError(AggserverError):
    """A call that gave no usable answer. The text is that of upstream's client.

    status: the Status that the webhook sent instead, if any. code: of HTTP, for metrics; 503 if there was no response.
    """

    def __init__(self, message: str, status: JSONObject | None = None, code: int = 503) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def failure(code: int, content_type: str, body: bytes) -> WebhookError | None:
    """The error that a response stands for; None if its body is an answer."""
    problem = _media_type_problem(content_type)
    if problem:
        return WebhookError(f"Internal error occurred: mime: {problem}", code=code)
    if not 200 <= code <= 206:
        status = _status(body)
        if status is not None:
            return WebhookError(str(status.get("message") or ""), status, status.get("code") or code)
        return WebhookError(_unstructured(code, content_type, body), None, code)
    if not body:
        kind = content_type or "application/json"
        return WebhookError(f"0-length response with status code: {code} and content type: {kind}", code=code)
    return None


def retry_after(code: int, header: str | None) -> int | None:
    """The seconds after which the call is to be repeated; None if it is not."""
    if code != 429 and code < 500:
        return None
    return int(header) if header is not None and re.fullmatch(r"[+-]?[0-9]{1,9}", header) else None


def _media_type_problem(content_type: str) -> str:
    """Why Go can't parse a media type; '' if it can. Its parameters are not checked."""
    found = _MEDIA_TYPE.match(content_type.partition(";")[0].strip())
    if not content_type or found is None:
        return ""
    first, slash, second, rest = found.groups()
    if not first:
        return "no media type"
    if not slash:
        return "expected slash after first token" if rest else ""
    if not second:
        return "expected token after slash"
    return "unexpected content after media subtype" if rest else ""


def _status(body: bytes) -> JSONObject | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(found, dict) or found.get("kind") != "Status" or found.get("apiVersion", "v1") != "v1":
        return None
    return found if found.get("status") == "Failure" else None


def _unstructured(code: int, content_type: str, body: bytes) -> str:
    text = "unknown"
    if not content_type or content_type.strip().lower().startswith("text/"):
        text = body[:_MAX_QUOTED].decode(errors="replace").strip()
    if code in _MESSAGES:
        return _MESSAGES[code]
    if code in (403, 415):
        return text
    if code == 406:
        return _NOT_ACCEPTABLE if text in ("", "unknown") else text
    if code >= 500:
        return f"an error on the server ({quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"
