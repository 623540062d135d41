"""One line of the log for each request at the level debug: what it says, what it never says, and how long it may become."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.endpoints.request import Request, Response, StreamResponse
from aggserver.meta import errors
from tests.fakes.server import ADMIN, ALICE, LocalServer

SECRET = "s3cr3t"
SHOPS = "/apis/shop.example.com/v1/namespaces/a/shops"


class Endless:
    def __aiter__(self) -> Endless:
        return self

    async def __anext__(self) -> bytes:
        await asyncio.Event().wait()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        pass


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines, without the time that each took."""
    messages = [record.getMessage() for record in caplog.records if record.name == "aggserver.requests"]
    return [re.sub(r" in \d+ ms", "", message) for message in messages]


def outcome_of(server: LocalServer, outcome: Any) -> None:
    async def handler(request: Request) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    server.handler = handler


OK = Response(200, b"{}")
# name: (method, path with query, user, outcome of the handler, line)
LINES: Mapping[str, tuple[str, str, UserInfo | None, Any, str]] = {
    "a read": ("GET", f"{SHOPS}/x", ADMIN, OK, f'get {SHOPS}/x by "admin": 200'),
    "a list": (
        "GET",
        f"{SHOPS}?limit=5&labelSelector=a%3Db,c",
        ADMIN,
        OK,
        f'list {SHOPS}?labelSelector=a=b,c&limit=5 by "admin": 200',
    ),
    "a watch, as soon as it begins": (
        "GET",
        f"{SHOPS}?watch=1",
        ADMIN,
        StreamResponse(Endless()),
        f'watch {SHOPS}?watch=1 by "admin": 200',
    ),
    "a write that is not valid": (
        "POST",
        SHOPS,
        ADMIN,
        errors.StatusError(422, "Invalid", 'Shop "x" is invalid: spec.size: Invalid value: 5'),
        f'create {SHOPS} by "admin": 422: Shop "x" is invalid: spec.size: Invalid value: 5',
    ),
    "a write that is not allowed": (
        "DELETE",
        f"{SHOPS}/x",
        ALICE,
        OK,
        f'delete {SHOPS}/x by "alice": 403: shops.shop.example.com "x" is forbidden: '
        'User "alice" cannot delete resource "shops" in API group "shop.example.com" in the namespace "a"',
    ),
    "a text in the place of a Status": (
        "GET",
        "/other",
        ADMIN,
        Response(404, b"404 page not found\n"),
        'get /other by "admin": 404',
    ),
    "other parameters": ("GET", f"{SHOPS}?access_token={SECRET}&watch=0", ADMIN, OK, f'list {SHOPS}?watch=0 by "admin": 200'),
    "spaces and ends of lines in a path": (
        "GET",
        '/a by "x"\n200',
        ADMIN,
        OK,
        'get /a%20by%20%22x%22%0A200 by "admin": 200',
    ),
    "odd names of users": (
        "GET",
        "/a",
        UserInfo('x": 200\n', groups=ADMIN.groups),
        OK,
        'get /a by "x\\": 200\\n": 200',
    ),
}


@pytest.fixture
def at_debug(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger="aggserver.requests")
    return caplog


@pytest.mark.parametrize("name", LINES)
async def test_lines(server: LocalServer, at_debug: pytest.LogCaptureFixture, name: str) -> None:
    method, path, user, outcome, line = LINES[name]
    outcome_of(server, outcome)
    exchange = server.client(user).send(method, path)
    assert (await exchange.message() or {})["type"] == "http.response.start"
    assert told(at_debug) == [line]
    exchange.disconnect()
    await exchange.task
    assert told(at_debug) == [line]


# name: (method, path) of requests whose errors may quote a credential, or that carry one
CREDENTIALS = {
    "a Secret": ("POST", "/api/v1/namespaces/a/secrets"),
    "a TokenReview": ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
    "a request for a token": ("POST", "/api/v1/namespaces/a/serviceaccounts/b/token"),
}


@pytest.mark.parametrize("name", CREDENTIALS)
async def test_errors_about_credentials_have_their_reason_only(
    server: LocalServer, at_debug: pytest.LogCaptureFixture, name: str
) -> None:
    method, path = CREDENTIALS[name]
    outcome_of(server, errors.StatusError(422, "Invalid", f'data: Invalid value: "{SECRET}"'))
    assert (await server.client().request(method, path, {"data": SECRET})).message.count(SECRET) == 1
    assert told(at_debug) == [f'create {path} by "admin": 422: Invalid']


async def test_headers_and_bodies_are_not_logged(server: LocalServer, at_debug: pytest.LogCaptureFixture) -> None:
    outcome_of(server, errors.bad_request("no"))
    headers = {"Authorization": f"Bearer {SECRET}", "Cookie": SECRET, "User-Agent": SECRET, "Audit-ID": SECRET}
    await server.client().post(SHOPS, {"a": SECRET}, headers=headers)
    assert told(at_debug) == [f'create {SHOPS} by "admin": 400: no']


async def test_a_line_is_bounded(server: LocalServer, at_debug: pytest.LogCaptureFixture) -> None:
    outcome_of(server, errors.bad_request("m" * 100_000))
    user = UserInfo("\0" * 100_000, groups=ADMIN.groups)
    query = "&".join(f"{name}={chr(233) * 50_000}" for name in ("continue", "labelSelector", "fieldSelector", "x"))
    await server.client(user).get(f"/{chr(233) * 50_000}?{query}")
    (line,) = told(at_debug)
    assert len(line) < 8 * 1024
    assert line.endswith("m...")


async def test_nothing_is_logged_at_other_levels(server: LocalServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="aggserver.requests")
    await server.client().get("/version")
    assert told(caplog) == []
