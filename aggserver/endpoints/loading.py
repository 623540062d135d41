"""Loading: 503 in the place of 404 as long as this server can't tell what there is.

A 404 for a resource says that there is none. Clients, the aggregator and the garbage collector believe that: they forget the
objects of a resource whose definition was only not read yet. So until then the APIs and the documents about them get 503 with
Retry-After, which clients wait out. With adoption, it is the cluster that says which group-versions there are. Another server of
the same store may have adopted one a moment ago, and a kube-apiserver may still lead clients to one that was released.
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
    """missing: what has not been read yet, None once all is known.

    serves: whether this group and version are served; None if there are no others than those that this server knows. why_not: why
    some may not be, for a person.
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
    """Of a path below /apis/GROUP/VERSION."""
    parts = path.split("/", 4)
    return (parts[2], parts[3]) if len(parts) > 3 and parts[1] == "apis" and parts[2] and parts[3] else None
