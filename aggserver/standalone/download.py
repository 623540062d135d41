"""Download: a manifest from an http or https URL, as `kubectl apply -f URL` gets it.

By the proxies that the environment names, following redirects, with the system's CAs. Bounded in size and time. Called by
`seed.py`, which imports it when a URL is named.
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable

__all__ = ["DownloadError", "download"]

# Of one file. The largest bundles of definitions that projects publish have 3 to 4 MB.
MAX_BYTES = 32 * 1024 * 1024
# Seconds for all of it, and until the server says something. kubectl has no end.
TOTAL_SECONDS = 60.0
SILENCE_SECONDS = 15.0
_PIECE = 64 * 1024

_HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPRedirectHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.UnknownHandler,
)


class DownloadError(Exception):
    """The text says why, without the URL."""


def download(url: str, clock: Callable[[], float] = time.monotonic) -> bytes:
    """Raises DownloadError."""
    # No other schemes, to which a redirect might lead: not ftp, nor files of this machine.
    opener = urllib.request.OpenerDirector()
    for handler in _HANDLERS:
        opener.add_handler(handler())
    end = clock() + TOTAL_SECONDS
    try:
        with opener.open(url, timeout=SILENCE_SECONDS) as answer:
            return _read(answer, lambda: clock() > end)
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"the server answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise DownloadError(str(error.reason)) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DownloadError(str(error) or type(error).__name__) from None


def _read(answer: http.client.HTTPResponse, is_late: Callable[[], bool]) -> bytes:
    body = bytearray()
    while piece := answer.read1(_PIECE):
        body += piece
        if len(body) > MAX_BYTES:
            raise DownloadError(f"is larger than {MAX_BYTES // 2**20} MiB")
        if is_late():
            raise DownloadError(f"took longer than {TOTAL_SECONDS:g} s")
    return bytes(body)
