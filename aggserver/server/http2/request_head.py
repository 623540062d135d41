"""The header block of an HTTP/2 request, as the request's own part of an ASGI scope. Pure.

Source: RFC 9113, 8.2 and 8.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

__all__ = ["scope_of"]

# Names are lower case in HTTP/2; values hold neither NUL nor line ends: RFC 9113, 8.2.1.
_NAME = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-z]+").fullmatch
_UNSAFE = re.compile(rb"[\x00\r\n]").search
_PSEUDO = frozenset({b":method", b":scheme", b":authority", b":path"})
# Headers of a connection rather than a request, which HTTP/2 forbids: 8.2.2.
_CONNECTION_SPECIFIC = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_TE_VALUES = frozenset({b"", b"trailers"})


def scope_of(block: Iterable[tuple[bytes, bytes]]) -> dict[str, Any] | None:
    """A scope with method, path, raw_path, query_string and headers; None for a malformed request, and for CONNECT, which has no
    path.
    """
    pseudo: dict[bytes, bytes] = {}
    headers: list[tuple[bytes, bytes]] = []
    for name, value in block:
        if name.startswith(b":"):
            if headers or name in pseudo or name not in _PSEUDO:
                return None
            pseudo[name] = value
        elif name in _CONNECTION_SPECIFIC or not _NAME(name) or (name == b"te" and value not in _TE_VALUES):
            return None
        else:
            headers.append((name, value))
        if _UNSAFE(value):
            return None
    method, target, authority = pseudo.get(b":method", b""), pseudo.get(b":path", b""), pseudo.get(b":authority")
    if not _NAME(method.lower()) or not target.isascii() or not target.startswith((b"/", b"*")) or b":scheme" not in pseudo:
        return None
    if authority is not None:
        headers = [(b"host", authority), *(pair for pair in headers if pair[0] != b"host")]
    path, _, query = target.partition(b"?")
    return {
        "method": method.decode(),
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "headers": headers,
    }
