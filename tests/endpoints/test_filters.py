"""The chain of filters, from an ASGI scope to ASGI messages: headers of every response, and requests that filters reject."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from aggserver.authentication.delegating import AuthenticationConfig, Authenticator
from aggserver.authentication.user import UserInfo
from aggserver.endpoints import filters
from aggserver.endpoints.request import ASGIResponse, LongBody, Request, Response, StreamResponse
from aggserver.meta import errors
from aggserver.options import Options
from tests.fakes.asgi import Client, Exchange
from tests.fakes.clock import settled, until
from tests.fakes.server import ADMIN, ALICE, LocalServer


def always(server: LocalServer, outcome: Any) -> None:
    """An application whose handler always has this outcome: a response to return, or an error to raise."""

    async def handler(request: Request) -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    server.handler = handler


# --- the headers of every response ---


async def test_headers(server: LocalServer, client: Client) -> None:
    always(server, Response(200, LongBody(3, lambda: [b"a", b"", b"bc"])))
    answer = await client.get("/x")
    assert answer.body == b"abc"
    assert answer.headers == [
        (b"audit-id", b"audit-1"),
        (b"cache-control", b"no-cache, private"),
        (b"content-type", b"application/json"),
        (b"content-length", b"3"),
    ]


async def test_an_answer_may_say_how_long_it_keeps(server: LocalServer, client: Client) -> None:
    always(server, Response(200, b"", headers=[(b"cache-control", b"public")]))
    assert [value for key, value in (await client.get("/x")).headers if key == b"cache-control"] == [b"public"]


@pytest.mark.parametrize("given", ["mine", "grün"])
async def test_an_audit_id_is_kept(client: Client, given: str) -> None:
    answer = await client.get("/version", headers={"Audit-ID": given})
    assert (b"audit-id", given.encode("latin-1")) in answer.headers


async def test_other_applications_get_the_headers_too(server: LocalServer, client: Client) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"ok"})

    always(server, ASGIResponse(app))
    answer = await client.get("/x")
    assert (answer.header("audit-id"), answer.header("content-type"), answer.body) == ("audit-1", "text/plain", b"ok")
    assert answer.header("cache-control") == "no-cache, private"


# --- warnings ---


WARNINGS: dict[str, tuple[list[str], list[str]]] = {
    # name: (texts, headers)
    "plain": (["a", "b"], ['299 - "a"', '299 - "b"']),
    "each once": (["a", "b", "a"], ['299 - "a"', '299 - "b"']),
    "escaped": (['unknown field "a\\b"'], ['299 - "unknown field \\"a\\\\b\\""']),
    "not of ASCII": (["größer"], ['299 - "größer"']),
    "with control characters": (["a\nb", "a\r\nSet-Cookie: x", "a\x7f", "c"], ['299 - "c"']),
    "empty": ([""], []),
    "just short enough": (["a" * 4096], [f'299 - "{"a" * 4096}"']),
    "too long": (["a" * 4096, "b"], [f'299 - "{"a" * 256}"', '299 - "b"']),
    "too many": (
        [f"{number:02}" + "a" * 300 for number in range(20)],
        [f'299 - "{number:02}{"a" * 254}"' for number in range(16)],
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(name: str) -> None:
    texts, headers = WARNINGS[name]
    assert [value.decode() for value in filters.warning_values(texts)] == headers


def test_no_more_warnings_are_looked_at_than_there_is_room_for() -> None:
    """As many as an object of 3 MB can cause give the same as the first few."""
    looked = itertools.count()
    texts = (f"w{next(looked)}" for _ in range(300_000))
    values = filters.warning_values(texts)
    assert values == filters.warning_values([f"w{number}" for number in range(5000)])
    assert next(looked) < 5000


async def test_warnings_are_sent_with_errors_too(server: LocalServer, client: Client) -> None:
    async def handler(request: Request) -> Any:
        request.warnings.append("careful")
        raise errors.bad_request("no")

    server.handler = handler
    answer = await client.get("/x")
    assert (answer.status, answer.warnings) == (400, ['299 - "careful"'])


# --- errors ---


async def test_retry_after(server: LocalServer, client: Client) -> None:
    always(server, errors.service_unavailable("later", 7))
    answer = await client.get("/x")
    assert (answer.status, answer.header("retry-after"), answer.json()["details"]) == (503, "7", {"retryAfterSeconds": 7})


async def test_a_panic_is_one_requests_own(server: LocalServer, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    handler = server.handler
    always(server, ZeroDivisionError("secret"))
    with caplog.at_level(logging.ERROR, "aggserver.requests"):
        answer = await client.get("/x")
    assert answer.status == 500
    assert b"secret" not in answer.body
    assert answer.json()["reason"] == "InternalError"
    assert "This request caused apiserver to panic. Look in the logs for details." in answer.message
    assert "GET /x audit-id=audit-1" in caplog.text
    assert "secret" in caplog.text
    server.handler = handler
    assert (await client.get("/version")).status == 200


async def test_an_error_among_tasks(server: LocalServer, client: Client) -> None:
    always(server, ExceptionGroup("several", [ExceptionGroup("more", [errors.bad_request("no")])]))
    answer = await client.get("/x")
    assert (answer.status, answer.message) == (400, "no")


class Chunks:
    """A stream of the given chunks. An exception among them is raised at its place."""

    def __init__(self, *parts: Any) -> None:
        self._parts = iter(parts)
        self.closed = False

    def __aiter__(self) -> Chunks:
        return self

    async def __anext__(self) -> bytes:
        part = next(self._parts, None)
        if part is None:
            raise StopAsyncIteration
        if isinstance(part, Exception):
            raise part
        if part is Ellipsis:
            await asyncio.get_running_loop().create_future()
        return bytes(part)

    async def aclose(self) -> None:
        self.closed = True


async def test_a_stream(server: LocalServer, client: Client) -> None:
    chunks = Chunks(b"a", b"b")
    always(server, StreamResponse(chunks))
    answer = await client.get("/x")
    assert (answer.status, answer.body, answer.header("content-length"), chunks.closed) == (200, b"ab", "", True)


async def test_a_stream_that_fails_ends(server: LocalServer, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    chunks = Chunks(b"a", ZeroDivisionError("secret"))
    always(server, StreamResponse(chunks))
    answer = await client.get("/x")
    assert (answer.status, answer.body, chunks.closed) == (200, b"a", True)
    assert "stream failed: /x audit-id=audit-1" in caplog.text


async def test_the_head_goes_out_before_anything_happens(server: LocalServer, client: Client) -> None:
    chunks = Chunks(...)
    always(server, StreamResponse(chunks))
    async with client.watch("/x") as stream:
        assert stream.status == 200
        assert not chunks.closed
    assert chunks.closed


async def test_a_server_that_gives_up_closes_its_streams(server: LocalServer, client: Client) -> None:
    chunks = Chunks(...)
    always(server, StreamResponse(chunks))
    exchange = client.send("GET", "/x")
    await exchange.start()
    await settled()
    exchange.task.cancel()
    await asyncio.gather(exchange.task, return_exceptions=True)
    assert chunks.closed


# --- responses that are generated while they are sent ---


def long_body(made: list[int], count: int = 20) -> Iterator[bytes]:
    for number in range(count):
        made.append(number)
        yield b"x" * 50_000


async def test_what_fails_before_anything_is_out_is_told(server: LocalServer, client: Client) -> None:
    def failing() -> Iterator[bytes]:
        yield b"x"
        raise ZeroDivisionError

    always(server, Response(200, LongBody(None, failing)))
    answer = await client.get("/x")
    assert (answer.status, answer.json()["reason"]) == (500, "InternalError")


async def test_what_fails_half_way_is_broken_off(server: LocalServer, client: Client) -> None:
    def failing() -> Iterator[bytes]:
        yield from long_body([])
        raise ZeroDivisionError

    always(server, Response(200, LongBody(None, failing)))
    exchange = client.send("GET", "/x")
    with pytest.raises(ZeroDivisionError):
        await exchange.task
    await exchange.start()
    assert exchange.status == 200
    assert await anext_to_last(exchange) is None


async def anext_to_last(exchange: Exchange) -> Any:
    """None makes a body without an end."""
    last: Any = {}
    while last is not None and last.get("more_body", True):
        last = await exchange.message()
    return last


async def test_nothing_is_made_for_a_client_that_is_gone(server: LocalServer, client: Client) -> None:
    made: list[int] = []
    always(server, Response(200, LongBody(None, lambda: long_body(made))))
    exchange = client.send("GET", "/x")
    exchange.taking.clear()
    await until(lambda: made)
    await settled()
    before = len(made)
    assert before < 10
    exchange.disconnect()
    await settled()
    exchange.taking.set()
    await exchange.task
    assert len(made) <= before + 1


# --- other scopes ---


async def test_lifespan_is_not_ours(server: LocalServer) -> None:
    async def never(*_: Any) -> Any:
        raise AssertionError

    await server.app({"type": "lifespan"}, never, never)


# --- deadline ---


async def forever(request: Request) -> Any:
    await asyncio.get_running_loop().create_future()


async def test_a_request_that_takes_too_long(server: LocalServer, client: Client) -> None:
    server.handler = forever
    answer = await client.get("/x?timeout=1ns")
    assert (answer.status, answer.json()["reason"]) == (504, "Timeout")
    assert answer.message == "Timeout: request did not complete within the allotted timeout"
    assert answer.header("content-type") == "text/plain; charset=utf-8"
    assert list(answer.json()) == ["metadata", "status", "message", "reason", "details", "code"]


@pytest.mark.parametrize("query", ["", "?timeout=0s", "?timeout=5h", "?timeout=-1s"])
async def test_the_servers_own_limit_is_the_longest(query: str) -> None:
    server = LocalServer(timeout=1e-9)
    await server.start()
    server.handler = forever
    assert (await server.client().get(f"/x{query}")).status == 504
    await server.stop()


@pytest.mark.parametrize("body", [b"{}", LongBody(2, lambda: [b"{", b"}"])], ids=["there", "joined"])
async def test_an_answer_that_is_not_taken_in_time_is_broken_off(body: Any) -> None:
    server = LocalServer(timeout=1e-9, reading=1)
    await server.start()
    server.rules.allowed = {("alice", "get", "/x")}
    always(server, Response(200, body))
    client = server.client(ALICE)
    for _ in range(2):
        exchange = client.send("GET", "/x")
        exchange.taking.clear()
        await exchange.task
        # The request ended without a complete response, which resets the stream, and is not in flight any more.
        assert await exchange.message() is None
    await server.stop()


async def test_each_of_many_requests_has_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, passed = asyncio.get_running_loop(), 0.0
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + passed)
    server = LocalServer(timeout=3600)
    await server.start()
    first_may_end = asyncio.Event()

    async def waiting(request: Request) -> Any:
        await (first_may_end.wait() if request.path == "/first" else forever(request))
        return Response(200, b"{}")

    server.handler = waiting
    exchanges = []
    for path in ("/first", "/second", "/third"):
        exchanges.append(server.client().send("GET", path))
        await settled()
        passed += 600
    first, second, third = exchanges
    first_may_end.set()
    await first.task
    passed = 3600 + 599
    await settled()
    assert (second.task.done(), third.task.done()) == (False, False)
    passed = 3600 + 601
    await second.task
    assert not third.task.done()
    passed = 3600 + 1201
    await third.task
    fourth = server.client().send("GET", "/fourth")
    await settled()
    passed += 3601
    await fourth.task
    assert [(await each.message())["status"] for each in (*exchanges, fourth)] == [200, 504, 504, 504]
    await server.stop()


LIMITS = {
    # ?timeout=: error
    "5": 'time: missing unit in duration "5"',
    "x": 'time: invalid duration "x"',
    "1y": 'time: unknown unit "y" in duration "1y"',
}


@pytest.mark.parametrize("text", LIMITS)
async def test_limits_that_are_none(client: Client, text: str) -> None:
    answer = await client.get(f"/version?timeout={text}")
    assert (answer.status, answer.message) == (400, f"invalid timeout specified in the request URL - {LIMITS[text]}")


async def test_the_limit_is_none_of_a_watch(client: Client) -> None:
    async with client.watch("/api/v1/namespaces?watch=1&timeout=1ns") as watch:
        assert (await watch.event())["object"]["metadata"]["name"] == "default"


async def test_somebody_elses_timeout_is_a_panic(server: LocalServer, client: Client) -> None:
    always(server, TimeoutError("of a connection"))
    assert (await client.get("/x")).status == 500


# --- authentication and authorization ---


async def test_unauthorized(server: LocalServer) -> None:
    answer = await Client(server.app, "a certificate of nobody's").get("/version")  # type: ignore[arg-type]
    assert answer.status == 401
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }
    assert answer.header("connection") == "close"


@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_a_connection_from_before_the_cas_were_known_ends(server: LocalServer, version: str) -> None:
    waits = True
    authenticator = Authenticator(AuthenticationConfig(), waiting=lambda: "the ConfigMap" if waits else None)
    client = Client(server.engine.asgi(authenticator, server.rules, Options(command="serve")), None)
    headers = {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}
    answer = await client.get("/apis", http_version=version, headers=headers)
    assert (answer.status, answer.json()["reason"], answer.header("retry-after")) == (503, "ServiceUnavailable", "1")
    assert answer.header("connection") == "close"
    assert (await client.get("/apis")).status == 503
    assert (await client.get("/readyz", headers=headers)).status == 200
    assert (await client.get("/readyz/ping", headers=headers)).status == 403
    waits = False
    assert (await client.get("/apis", headers=headers)).message == 'forbidden: User "system:anonymous" cannot get path "/apis"'


PROXIED_ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))  # from the aggregator's headers
LAST_OF_CONNECTION: dict[str, tuple[Any, str, str, bool]] = {
    # name: (user, HTTP version, path, whether the connection ends with the response)
    "nobody, over HTTP/2": (None, "2", "/healthz", True),
    "nobody, and refused": (None, "2", "/apis/stable.example.com/v1/crontabs", True),
    "nobody, over HTTP/1.1": (None, "1.1", "/healthz", False),
    "somebody": (ALICE, "2", "/healthz", False),
    "somebody who is refused": (ALICE, "2", "/apis/stable.example.com/v1/crontabs", False),
    "nobody behind the aggregator, which is for others too": (PROXIED_ANONYMOUS, "2", "/healthz", False),
    "bad credentials": ("a certificate of nobody's", "2", "/version", True),
}


@pytest.mark.parametrize("name", LAST_OF_CONNECTION)
async def test_connections_of_nobody_end(server: LocalServer, name: str) -> None:
    user, version, path, ends = LAST_OF_CONNECTION[name]
    answer = await Client(server.app, user).get(path, http_version=version)
    assert (answer.header("connection") == "close") == ends


async def test_impersonating_nobody_ends_no_connection(client: Client) -> None:
    answer = await client.get("/version", http_version="2", headers={"Impersonate-User": "system:anonymous"})
    assert answer.header("connection") != "close"


async def test_forbidden(client: Client) -> None:
    answer = await client.as_user(ALICE).get("/apis/stable.example.com/v1/namespaces/default/crontabs/one")
    assert answer.status == 403
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'crontabs.stable.example.com "one" is forbidden: User "alice" cannot get resource "crontabs" '
        'in API group "stable.example.com" in the namespace "default"',
        "reason": "Forbidden",
        "details": {"name": "one", "group": "stable.example.com", "kind": "crontabs"},
        "code": 403,
    }
    assert answer.header("x-content-type-options") == "nosniff"


async def test_forbidden_path(client: Client) -> None:
    answer = await client.as_user(None).get("/a<b>")
    assert (answer.status, answer.message) == (
        403,
        'forbidden: User "system:anonymous" cannot get path "/a&lt;b&gt;"',
    )


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
async def test_probes_need_no_permission(client: Client, path: str) -> None:
    answer = await client.as_user(None).get(path)
    assert (answer.status, answer.body) == (200, b"ok")


async def test_impersonation(server: LocalServer, client: Client) -> None:
    headers = {"Impersonate-User": "bob", "Impersonate-Group": "team"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    refused = await client.as_user(ALICE).post(path, review, headers=headers)
    assert refused.message == (
        'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster scope'
    )
    server.rules.allowed = {
        ("alice", "impersonate", "users"),
        ("alice", "impersonate", "groups"),
        ("bob", "create", "selfsubjectreviews"),
    }
    answer = await client.as_user(ALICE).post(path, review, headers=headers)
    assert (answer.status, answer.json()["status"]["userInfo"]) == (
        201,
        {"username": "bob", "groups": ["team", "system:authenticated"]},
    )


# --- in flight ---


class Held:
    """A handler that holds requests until the test releases them."""

    def __init__(self) -> None:
        self.inside = 0
        self._go = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        self.inside += 1
        await self._go.wait()
        return Response(200, b"{}")

    def release(self) -> None:
        self._go.set()


@pytest.mark.parametrize(("reading", "mutating", "method"), [(1, 0, "GET"), (0, 1, "POST")])
async def test_too_many_at_once(reading: int, mutating: int, method: str) -> None:
    server = LocalServer(reading=reading, mutating=mutating)
    await server.start()
    server.rules.allowed = {("alice", "list", "things"), ("alice", "create", "things")}
    server.handler = held = Held()
    client = server.client(ALICE)
    path = "/apis/g.example.com/v1/things"
    first = client.send(method, path)
    await until(lambda: held.inside == 1)
    refused = await client.request(method, path)
    assert (refused.status, refused.body) == (429, b"Too many requests, please try again later.\n")
    assert refused.header("content-type") == "text/plain; charset=utf-8"
    assert refused.header("retry-after") == "1"
    # Other kinds of requests, watches and administrators are not limited.
    other = client.send("POST" if method == "GET" else "GET", path)
    admin = client.as_user(ADMIN).send(method, path)
    await until(lambda: held.inside == 3)
    held.release()
    for exchange in (first, other, admin):
        await exchange.task
    assert (await client.request(method, path)).status == 200
    await server.stop()


async def test_a_request_counts_until_its_answer_has_been_taken() -> None:
    server = LocalServer(reading=1)
    await server.start()
    server.rules.allowed = {("alice", "get", "/x")}
    client = server.client(ALICE)
    made: list[int] = []
    always(server, Response(200, LongBody(None, lambda: long_body(made))))
    slow = client.send("GET", "/x")
    slow.taking.clear()
    await until(lambda: made)
    await settled()
    assert not slow.pending
    assert (await client.get("/x")).status == 429
    slow.taking.set()
    await slow.task
    assert (await client.get("/x")).status == 200
    await server.stop()


async def test_watches_do_not_count() -> None:
    server = LocalServer(reading=1)
    await server.start()
    client = server.client()
    server.rules.allowed = {("alice", "watch", "namespaces"), ("alice", "list", "namespaces")}
    client = client.as_user(ALICE)
    async with client.watch("/api/v1/namespaces?watch=1"), client.watch("/api/v1/namespaces?watch=1"):
        assert (await client.get("/api/v1/namespaces")).status == 200
    await server.stop()


async def test_a_request_that_is_given_up_makes_room() -> None:
    server = LocalServer(reading=1)
    await server.start()
    server.rules.allowed = {("alice", "get", "/x")}
    server.handler = held = Held()
    client = server.client(ALICE)
    exchange = client.send("GET", "/x")
    await until(lambda: held.inside == 1)
    exchange.task.cancel()
    await asyncio.gather(exchange.task, return_exceptions=True)
    held.release()
    assert (await client.get("/x")).status == 200
    await server.stop()


# --- the chain ---


async def _gets(client: Client, path: str, **headers: str) -> int:
    return (await client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})).status


async def _is_refused_alice(server: LocalServer) -> bool:
    return await _gets(server.client(ALICE), "/api/v1/namespaces") == 403


async def _is_refused_whom_an_administrator_acts_for(server: LocalServer) -> bool:
    return await _gets(server.client(ADMIN), "/api/v1/namespaces", impersonate_user="alice") == 403


async def _is_refused_a_bad_certificate(server: LocalServer) -> bool:
    client = Client(server.app, "a certificate of nobody's")  # type: ignore[arg-type]
    return await _gets(client, "/healthz") == 401


async def _ends_in_time(server: LocalServer) -> bool:
    return await _gets(server.client(), "/version?timeout=x") == 400


async def _knows_what_is_asked(server: LocalServer) -> bool:
    return await _gets(server.client(), "/api/v1/namespaces/default") == 200


async def _has_bounds(server: LocalServer) -> bool:
    server.rules.allowed = {("alice", "get", "/x")}
    server.handler = held = Held()
    client = server.client(ALICE)
    first = client.send("GET", "/x")
    await until(lambda: held.inside == 1)
    second = client.send("GET", "/x")
    await settled()
    refused = held.inside == 1
    held.release()
    for exchange in (first, second):
        await exchange.task
    return refused


async def _says_what_it_is(server: LocalServer) -> bool:
    return await _gets(server.client(), "/statusz") == 200


# Name of a filter -> a check that fails without it.
MISSED = {
    "request_info": _knows_what_is_asked,
    "deadline": _ends_in_time,
    "authentication": _is_refused_a_bad_certificate,
    "impersonation": _is_refused_whom_an_administrator_acts_for,
    "in_flight": _has_bounds,
    "authorization": _is_refused_alice,
    "debugging": _says_what_it_is,
}


@pytest.mark.parametrize("name", MISSED)
async def test_every_filter_is_missed(name: str) -> None:
    for without in ("", name):
        server = LocalServer(reading=1, without=without)
        await server.start()
        try:
            assert await MISSED[name](server) is not bool(without)
        finally:
            await server.stop()


def test_every_filter_is_known_here(server: LocalServer) -> None:
    assert list(server.filters) == list(MISSED)
