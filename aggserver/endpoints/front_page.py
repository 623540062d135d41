"""The front page's filter: `/` for a browser, which is whoever names text/html in Accept. Everybody else goes on to the index.

It stands between authentication and authorization, and asks by itself, since a person is to be told what to do where a program
gets a Status. What is on the page is what discovery tells, so it is for those who may `get /apis`; others get a page with 403
that tells nothing. kube-apiserver has no such page. Called by `app/engine.py`.
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
    """version: the server's own."""

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
