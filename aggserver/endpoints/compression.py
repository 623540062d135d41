"""gzip for large responses, as upstream: above 128 KiB, if the client accepts it, at the fastest level. It runs in a thread.

Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/writers.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

__all__ = ["HEADERS", "MIN_BYTES", "accepts", "compress_pieces", "compress_whole"]

# Bodies above this size are compressed.
MIN_BYTES = 128 * 1024
HEADERS = [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]

_LEVEL = 1
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


def accepts(accept_encoding: str) -> bool:
    """Whether an Accept-Encoding header has gzip. As upstream, not if it has a weight, even one above 0."""
    return any(part.strip() == "gzip" for part in accept_encoding.split(","))


async def compress_whole(body: bytes) -> bytes:
    """Compress a complete body in one call."""
    return await asyncio.get_running_loop().run_in_executor(None, _gzip, body)


def _gzip(body: bytes) -> bytes:
    # zlib releases the interpreter lock while it works, so that other requests go on.
    compressor = _compressor()
    return compressor.compress(body) + compressor.flush()


def _compressor() -> zlib._Compress:
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)


async def compress_pieces(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Compress a body while its pieces are generated, as one gzip stream."""
    loop = asyncio.get_running_loop()
    compressor = _compressor()
    waiting: list[bytes] = []
    async for piece in pieces:
        waiting.append(piece)
        # Gather pieces, since handing them to a thread and back takes as long as compressing some KB.
        if sum(map(len, waiting)) >= MIN_BYTES:
            packed = await loop.run_in_executor(None, compressor.compress, b"".join(waiting))
            waiting.clear()
            if packed:
                yield packed
    yield compressor.compress(b"".join(waiting)) + compressor.flush()
