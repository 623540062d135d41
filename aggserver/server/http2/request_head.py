"""The header block of an HTTP/2 request, as the request's own part of an ASGI scope, and that of trailers. Pure.

Source: RFC 9113, 8.1 to 8.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from aggserver.server.http2.header_block import Field

__all__ = ["RequestHead", "are_trailers", "request_head"]

# Names are lower case in HTTP/2: 8.2.1.
_NAME = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-z]+").fullmatch
_LENGTH = re.compile(rb"[0-9]{1,18}").fullmatch
_PSEUDO = frozenset({b":method", b":scheme", b":authority", b":path"})
# Headers of a connection rather than a request, which HTTP/2 forbids: 8.2.2.
_CONNECTION_SPECIFIC = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_TE_VALUES = frozenset({b"", b"trailers"})

# Names and methods that most requests have, which need not be looked at letter by letter. No name here has a rule of its own.
_USUAL_NAMES = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"audit-id",
        b"authorization",
        b"content-type",
        b"kubectl-command",
        b"kubectl-session",
        b"user-agent",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"x-forwarded-uri",
        b"x-remote-group",
        b"x-remote-uid",
        b"x-remote-user",
    }
)
_USUAL_METHODS = {name.encode(): name for name in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")}


class RequestHead(NamedTuple):
    """scope: method, path, raw_path, query_string and headers. length: the Content-Length, None if there is none."""

    scope: dict[str, Any]
    length: int | None


def request_head(fields: Sequence[Field]) -> RequestHead | None:
    """None for a malformed request, and for CONNECT, which has no path."""
    pseudo: dict[bytes, bytes] = {}
    headers: list[tuple[bytes, bytes]] = []
    length: int | None = None
    if not _have_safe_values(fields):
        return None
    for name, value, _ in fields:
        if name in _USUAL_NAMES:
            headers.append((name, value))
        elif name in _PSEUDO:
            if headers or name in pseudo:
                return None
            pseudo[name] = value
        elif name == b"host" and b":authority" in pseudo:
            continue  # the same thing twice: 8.3.1
        elif name == b"content-length":
            if not _LENGTH(value) or (length is not None and int(value) != length):
                return None
            length = int(value)
            headers.append((name, value))
        elif not _is_allowed(name, value):
            return None
        else:
            headers.append((name, value))
    method, target, authority = pseudo.get(b":method", b""), pseudo.get(b":path", b""), pseudo.get(b":authority")
    text = _USUAL_METHODS.get(method)
    if text is None:
        if not _NAME(method.lower()):
            return None
        text = method.decode()
    if not target.startswith((b"/", b"*")) or not target.isascii() or b":scheme" not in pseudo:
        return None
    if authority is not None:
        headers.insert(0, (b"host", authority))
    path, _, query = target.partition(b"?")
    scope = {
        "method": text,
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "headers": headers,
    }
    return RequestHead(scope, length)


def are_trailers(fields: Sequence[Field]) -> bool:
    """Whether the fields may follow a request's body: there are no pseudo-headers among them."""
    return _have_safe_values(fields) and all(_is_allowed(name, value) for name, value, _ in fields)


def _is_allowed(name: bytes, value: bytes) -> bool:
    """Whether it is a header, but no pseudo-header, that a request may have."""
    return bool(_NAME(name)) and name not in _CONNECTION_SPECIFIC and (name != b"te" or value in _TE_VALUES)


def _have_safe_values(fields: Sequence[Field]) -> bool:
    """Whether no value has a NUL or a line end: 8.2.1."""
    values = b"".join([value for _, value, _ in fields])
    return b"\n" not in values and b"\r" not in values and b"\x00" not in values
