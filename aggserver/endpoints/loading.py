"""Loading: responds with 503 instead of 404 while this server does not know yet which resources exist.

Clients, the aggregator and the garbage collector take a 404 to mean that a resource does not exist, and forget its objects, also
if only its definition was not read yet. So until all definitions are read, requests for the APIs and for the documents about them
get 503 with Retry-After, after which clients try again. With adoption, the host decides which group-versions exist: another
server of the same store may have adopted one a moment ago, and a kube-apiserver may still proxy one that was released.
Source: k8s.io/apiserver pkg/util/notfoundhandler, v0.36.3, which does so in kube-apiserver while its start is not complete.
"""

from __future__ import annotations

from collections.abc import Callable

from aggserver.endpoints.request import AnyResponse, Filter, Handler, Request
from aggserver.meta import errors

__all__ = ["loading"]

_PREFIXES = ("/apis/", "/openapi/")
_RETRY_SECONDS = 1


def loading(
    missing: Callable[[], str | None],
    serves: Callable[[str, str], bool] | None = None,
    why_not: Callable[[], str | None] = lambda: None,
) -> Filter:
    """missing: describes what has not been read yet; returns None after everything was read.

    serves: whether this (group, version) is served; None if all others don't exist. why_not: describes why some may not be
    served, None if there is no known reason.
    """

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            if request.path == "/apis" or request.path.startswith(_PREFIXES):
                if (why := missing()) is not None:
                    raise errors.service_unavailable(f"{why}; please try again", _RETRY_SECONDS)
                if serves is not None and (found := _group_version(request.path)) is not None and not serves(*found):
                    reason = why_not()
                    why = f"{found[0]}/{found[1]} is not served by this server now{f': {reason}' if reason else ''}"
                    raise errors.service_unavailable(f"{why}; please try again", _RETRY_SECONDS)
            return await next_handler(request)

        return handler

    return wrap


def _group_version(path: str) -> tuple[str, str] | None:
    """(group, version) of a path below /apis/GROUP/VERSION, None for other paths."""
    parts = path.split("/", 4)
    return (parts[2], parts[3]) if len(parts) > 3 and parts[1] == "apis" and parts[2] and parts[3] else None
