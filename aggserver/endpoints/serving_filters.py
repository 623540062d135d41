"""The filters of flags about connections and browsers: HSTS, GOAWAY by chance, and CORS.

Source: k8s.io/apiserver pkg/server/filters/{hsts,goaway,cors}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aggserver.endpoints.request import AnyResponse, Filter, Handler, Request, Response
from aggserver.meta import regexp

__all__ = ["cross_origin", "outermost"]

_METHODS = b"POST, GET, OPTIONS, PUT, DELETE, PATCH"
_HEADERS = b"Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since"
# The longest origin that is matched: more than any scheme, host and port.
_MAX_ORIGIN = 1024


def outermost(hsts: Sequence[str], goaway_chance: float, chance: Callable[[], float]) -> dict[str, Filter]:
    """The filters before all others: none unless a flag asks for one. hsts: directives. chance: a number from [0, 1)."""
    filters: dict[str, Filter] = {}
    if hsts:
        filters["hsts"] = _hsts("; ".join(hsts).encode())
    if goaway_chance:
        filters["goaway"] = _goaway(goaway_chance, chance)
    return filters


def _hsts(directives: bytes) -> Filter:
    header = (b"strict-transport-security", directives)

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            request.added_headers.append(header)
            return await next_handler(request)

        return handler

    return wrap


def _goaway(share: float, chance: Callable[[], float]) -> Filter:
    """Ends a share of HTTP/2 connections after their response, so that clients spread over several servers again."""

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            if request.http_version == "2" and chance() < share:
                request.last_of_connection = True
            return await next_handler(request)

        return handler

    return wrap


def cross_origin(patterns: Sequence[str]) -> dict[str, Filter]:
    """The filter before authentication that lets pages of other origins read responses; none without patterns.

    patterns: regular expressions of Go, checked already, matched anywhere in the origin in time linear in it.
    """
    if not patterns:
        return {}
    matchers = [regexp.matcher(pattern) for pattern in patterns]

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            origin = request.header(b"origin")
            if not origin or len(origin) > _MAX_ORIGIN or not any(matches(origin) for matches in matchers):
                return await next_handler(request)
            request.added_headers += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-allow-methods", _METHODS),
                (b"access-control-allow-headers", _HEADERS),
                (b"access-control-expose-headers", b"Date"),
                (b"access-control-allow-credentials", b"true"),
            ]
            if request.method == "OPTIONS":
                return Response(204, b"", b"")
            return await next_handler(request)

        return handler

    return {"cors": wrap}
