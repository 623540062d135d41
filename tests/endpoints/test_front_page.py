"""The front page: which clients get it, who may see its content, and that texts of definitions are escaped."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aggserver.authentication.user import ANONYMOUS, UserInfo
from aggserver.authorization.delegating import Authorizer
from aggserver.endpoints.front_page import for_browsers
from aggserver.endpoints.request import Request, Response
from aggserver.meta.resource import ResourceInfo
from aggserver.publish import front_page
from aggserver.publish.discovery import APIGroup, APIGroupVersion, APIResource
from tests.fakes.definitions import CRONTABS
from tests.fakes.server import ADMIN, ALICE, LocalServer

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def ask(
    server: LocalServer,
    *,
    user: UserInfo = ADMIN,
    accept: str = BROWSER,
    path: str = "/",
    method: str = "GET",
    authorizer: Authorizer | None = None,
) -> Response | None:
    """The response of the filter; None if it has passed the request on."""

    async def on(_: Request) -> Any:
        return None

    async def receive() -> Any:
        raise AssertionError

    scope = {"method": method, "path": path, "query_string": b"", "headers": [(b"accept", accept.encode())], "http_version": "2"}
    request = Request(scope, receive)
    request.user = user
    found = await for_browsers(server.engine.installer, authorizer or server.rules, "0.1")(on)(request)
    assert found is None or isinstance(found, Response)
    return found


def text(answer: Response | None) -> str:
    assert answer is not None
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


async def test_a_browser_sees_what_is_served(server: LocalServer) -> None:
    server.serve(CRONTABS)
    answer = await ask(server)
    shown = text(answer)
    assert answer is not None
    assert (answer.status, answer.content_type) == (200, b"text/html; charset=utf-8")
    assert "<td>CronTab</td>" in shown
    assert "kubectl get crontabs" in shown
    assert 'href="/apis/apiextensions.k8s.io/v1/customresourcedefinitions"' in shown
    assert dict(answer.headers)[b"content-security-policy"] == front_page.POLICY
    # The page loads nothing and runs no scripts.
    assert not re.search(r"<script|src=|https?://|@import|url\(|\bon\w+=", shown)


@pytest.mark.parametrize("user", [ANONYMOUS, UserInfo("nobody")])
async def test_who_may_not_see_it_is_told_how(server: LocalServer, user: UserInfo) -> None:
    server.serve(CRONTABS)
    server.rules.asked.clear()
    answer = await ask(server, user=user)
    assert answer is not None
    assert answer.status == 403
    assert "kubectl proxy" in text(answer)
    assert not re.search("crontab|stable.example.com|customresourcedefinitions|apiextensions", text(answer), re.IGNORECASE)
    assert [(asked.user, asked.verb, asked.path) for asked in server.rules.asked] == [(user, "get", "/apis")]


async def test_who_may_read_discovery_may_see_it(server: LocalServer) -> None:
    """Every authenticated user may, such as one with a client certificate of the server's CA."""
    answer = await ask(server, user=ALICE)
    assert answer is not None
    assert answer.status == 200


@pytest.mark.parametrize(
    "said",
    [
        {"accept": ""},
        {"accept": "*/*"},
        {"accept": "application/json, */*"},
        {"accept": "text/htmlx"},
        {"path": "/apis"},
        {"path": "/index.html"},
        {"method": "POST"},
    ],
)
async def test_everything_else_goes_on(server: LocalServer, said: dict[str, str]) -> None:
    assert await ask(server, user=ANONYMOUS, **said) is None  # type: ignore[arg-type]


def test_what_others_wrote_is_text() -> None:
    evil = "<script>alert('1')</script>\"&"
    resource = APIResource(
        ResourceInfo(evil, evil, evil, evil, evil, namespaced=True), ("list",), singular=evil, short_names=(evil,)
    )
    page = front_page.page([APIGroup(evil, (APIGroupVersion(evil, evil, (resource,)),))], evil, evil).decode()
    assert "<script" not in page
    assert '"&"' not in page
    assert "&lt;script&gt;" in page
    assert "<script" not in front_page.refusal(evil).decode()
