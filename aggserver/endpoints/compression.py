"""gzip for large answers, as upstream: only above 128 KiB, only where the client asks, at the quickest level, in a thread.

Called by `endpoints/filters.py`. Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/writers.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable

from aggserver.endpoints.request import LongBody

__all__ = ["compressed"]

_MIN_BYTES = 128 * 1024
_LEVEL = 1
_GZIP_WINDOW = 16 + zlib.MAX_WBITS

Headers = list[tuple[bytes, bytes]]


async def compressed(body: bytes | LongBody, accept_encoding: str) -> tuple[bytes | LongBody, Headers]:
    """The body to send and the headers that tell of it."""
    size, pieces = (len(body), (body,)) if isinstance(body, bytes) else (body.size, body.pieces())
    if size <= _MIN_BYTES or not _accepts(accept_encoding):
        return body, []
    packed = await asyncio.get_running_loop().run_in_executor(None, _gzip, pieces)
    return packed, [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]


def _accepts(header: str) -> bool:
    # The bare word only, as upstream: with a weight it may be a refusal.
    return any(part.strip() == "gzip" for part in header.split(","))


def _gzip(pieces: Iterable[bytes]) -> bytes:
    # zlib lets go of the interpreter lock while it works, so that other requests go on.
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    return b"".join([*map(packer.compress, pieces), packer.flush()])
