"""The filter for the front page: `/` for browsers, which are the clients that name text/html in Accept. Others get the index.

It runs between authentication and authorization, and authorizes the request itself, since a person who is denied needs a page
that says what to do, and not a Status. The page shows what discovery shows, so it needs the permission to `get /apis`; users
without it get a page with status 403 and no groups. kube-apiserver has no front page.
"""

from __future__ import annotations

from aggserver.authorization.attributes import Attributes
from aggserver.authorization.delegating import Authorizer
from aggserver.endpoints.installer import Installer
from aggserver.endpoints.request import AnyResponse, Filter, Handler, Request, Response
from aggserver.publish import front_page

__all__ = ["for_browsers"]

_HTML = b"text/html; charset=utf-8"
_HEADERS = (
    (b"content-security-policy", front_page.POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"vary", b"Accept"),
)


def for_browsers(installer: Installer, authorizer: Authorizer, version: str) -> Filter:
    """The filter. version: of the server, shown on the page."""

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            if request.path != "/" or request.method not in ("GET", "HEAD") or not _wants_html(request):
                return await next_handler(request)
            decision = await authorizer.authorize(Attributes(request.user, "get", path="/apis"))
            if not decision.allowed:
                return Response(403, front_page.refusal(request.user.name), _HTML, list(_HEADERS))
            return Response(200, front_page.page(installer.groups(), version, request.user.name), _HTML, list(_HEADERS))

        return handler

    return wrap


def _wants_html(request: Request) -> bool:
    ranges = [part.partition(";")[0].strip().lower() for part in request.header(b"accept").split(",")]
    return "text/html" in ranges
