"""Download: gets a manifest from an http or https URL, as `kubectl apply -f URL` does.

It uses the proxies of the environment, redirects and the system's CAs, and limits size and time. `manifests.py` imports it only
if a URL is given.
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from aggserver.errors import AggserverError

__all__ = ["DownloadError", "download"]

# The maximum size of a file. The largest bundles of definitions that projects publish have 3 to 4 MB.
MAX_BYTES = 32 * 1024 * 1024
# Timeouts in seconds: for the whole download, and for each wait for the server. kubectl has none.
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


class DownloadError(AggserverError):
    """The download failed. The text says why, without the URL."""


def download(url: str, clock: Callable[[], float] = time.monotonic) -> bytes:
    """The content of a URL. clock: monotonic, in seconds. Raises DownloadError."""
    # Without handlers for other schemes, since a redirect could lead to ftp or to local files.
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
