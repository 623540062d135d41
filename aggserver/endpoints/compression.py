"""gzip for large answers, as upstream: only above 128 KiB, only where the client asks, at the quickest level, in a thread.

Called by `endpoints/filters.py`. Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/writers.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterable

__all__ = ["HEADERS", "MIN_BYTES", "accepts", "packed", "packed_whole"]

# Of a body, more than which is packed.
MIN_BYTES = 128 * 1024
HEADERS = [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]

_LEVEL = 1
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


def accepts(accept_encoding: str) -> bool:
    # The bare word only, as upstream: with a weight it may be a refusal.
    return any(part.strip() == "gzip" for part in accept_encoding.split(","))


async def packed_whole(pieces: Iterable[bytes]) -> bytes:
    """What is there already, in one go."""
    return await asyncio.get_running_loop().run_in_executor(None, _gzip, pieces)


def _gzip(pieces: Iterable[bytes]) -> bytes:
    # zlib lets go of the interpreter lock while it works, so that other requests go on.
    packer = _packer()
    return b"".join([*map(packer.compress, pieces), packer.flush()])


def _packer() -> zlib._Compress:
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)


async def packed(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What is being made, piece by piece, as one gzip stream."""
    loop = asyncio.get_running_loop()
    packer = _packer()
    waiting: list[bytes] = []
    async for piece in pieces:
        waiting.append(piece)
        # The way to the thread and back takes as long as packing some KB.
        if sum(map(len, waiting)) >= MIN_BYTES:
            yield await loop.run_in_executor(None, packer.compress, b"".join(waiting))
            waiting.clear()
    yield packer.compress(b"".join(waiting)) + packer.flush()
