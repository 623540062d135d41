"""Request: headers, query and body of an ASGI scope. RequestInfo: the resource, verb and name of a URL and method."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.endpoints.request import Request
from aggserver.endpoints.request_info import parse
from aggserver.meta.errors import StatusError


def request(*messages: Any, query: bytes = b"", headers: Any = ()) -> Request:
    waiting = iter(messages)

    async def receive() -> Any:
        return next(waiting)

    return Request({"path": "/", "query_string": query, "headers": list(headers), "http_version": "1.1"}, receive)


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_parts_is_read_once() -> None:
    asked = request(part(b"ab", True), part(b"", True), part(b"c"))
    assert await asked.body() == b"abc"
    assert await asked.body() == b"abc"


BODIES: dict[str, tuple[list[Any], list[Any], int, int]] = {
    # name: (messages, headers, code, messages that are left); the limit is 3 bytes, and up to 12 are received
    "declared": ([part(b"abc", True), part(b"d")], [(b"content-length", b"4")], 413, 0),
    "declared as far too large": ([part(b"abc", True)], [(b"content-length", b"13")], 413, 1),
    "not sent before it is asked for": ([part(b"abcd")], [(b"content-length", b"4"), (b"expect", b"100-continue")], 413, 1),
    "undeclared": ([part(b"ab", True), part(b"cd", True), part(b"", False)], [], 413, 0),
    "far too large": ([part(b"abcdef", True), part(b"ghijkl", True), part(b"m", True), part(b"n", False)], [], 413, 1),
    "declared too low": ([part(b"abcd")], [(b"content-length", b"1")], 413, 0),
    "given up": ([part(b"ab", True), {"type": "http.disconnect"}], [], 400, 0),
    "given up when it is too large": ([part(b"abcd", True), {"type": "http.disconnect"}], [], 400, 0),
}


@pytest.mark.parametrize("name", BODIES)
async def test_refused_bodies(name: str) -> None:
    messages, headers, code, left = BODIES[name]
    waiting = list(messages)
    asked = request(headers=headers)

    async def receive() -> Any:
        return waiting.pop(0)

    asked.receive = receive
    with pytest.raises(StatusError) as refused:
        await asked.body(3)
    assert (refused.value.code, len(waiting)) == (code, left)


async def test_a_body_of_just_the_limit() -> None:
    assert await request(part(b"abc"), headers=[(b"content-length", b"3")]).body(3) == b"abc"


def test_query() -> None:
    asked = request(query=b"a=1&a=2&b=&c=%C3%A9+x&d")
    assert asked.query == {"a": "1", "b": "", "c": "é x", "d": ""}
    assert asked.query_all["a"] == ["1", "2"]
    assert request().query == {}


def test_headers() -> None:
    asked = request(headers=[(b"x", b"1"), (b"x", b"2"), (b"y", "é".encode("latin-1"))])
    assert (asked.header(b"x"), asked.header(b"y"), asked.header(b"z")) == ("1", "é", "")


INFOS: dict[tuple[str, str], dict[str, Any]] = {
    # (method, target): the expected fields
    ("GET", "/"): {"verb": "get", "is_resource_request": False},
    ("GET", "/version"): {"verb": "get", "is_resource_request": False},
    ("OPTIONS", "/apis"): {"verb": "options", "is_resource_request": False},
    ("GET", "/apis/g"): {"is_resource_request": False},
    ("GET", "/apis/g/v1"): {"is_resource_request": False},
    ("GET", "/api/v1"): {"is_resource_request": False},
    ("GET", "/other/g/v1/foos"): {"is_resource_request": False},
    ("GET", "/apis/g/v1/watch"): {"is_resource_request": False},
    ("GET", "/apis/g/v1/foos"): {"verb": "list", "group": "g", "version": "v1", "resource": "foos"},
    ("HEAD", "/apis/g/v1/foos/x"): {"verb": "get", "resource": "foos", "name": "x"},
    ("GET", "/apis/g/v1/foos?watch"): {"verb": "watch"},
    ("GET", "/apis/g/v1/foos?watch=0"): {"verb": "list"},
    ("GET", "/apis/g/v1/foos?watch=False"): {"verb": "list"},
    ("GET", "/apis/g/v1/foos/x?watch=1"): {"verb": "get", "name": "x"},
    ("GET", "/apis/g/v1/namespaces/n/foos"): {"verb": "list", "namespace": "n", "resource": "foos"},
    ("GET", "/apis/g/v1/namespaces/n/foos/x/status"): {"verb": "get", "name": "x", "subresource": "status"},
    ("GET", "/apis/g/v1/namespaces/n/foos/x/a/b"): {"resource": "foos", "name": "x", "subresource": "a"},
    ("PUT", "/apis/g/v1/foos/x"): {"verb": "update"},
    ("PATCH", "/apis/g/v1/foos/x"): {"verb": "patch"},
    ("POST", "/apis/g/v1/foos"): {"verb": "create"},
    ("DELETE", "/apis/g/v1/foos/x"): {"verb": "delete"},
    ("DELETE", "/apis/g/v1/foos?labelSelector=a"): {"verb": "deletecollection", "label_selector": "a"},
    ("TRACE", "/apis/g/v1/foos"): {"verb": ""},
    ("GET", "/api/v1/namespaces"): {"verb": "list", "resource": "namespaces", "namespace": ""},
    ("GET", "/api/v1/namespaces/n"): {"verb": "get", "resource": "namespaces", "namespace": "n", "name": "n"},
    ("PUT", "/api/v1/namespaces/n/finalize"): {"verb": "update", "resource": "namespaces", "subresource": "finalize"},
    ("GET", "/api/v1/namespaces/n/pods"): {"verb": "list", "resource": "pods", "namespace": "n"},
    ("GET", "/apis/g/v1/watch/foos/x"): {"verb": "watch", "resource": "foos", "name": "x"},
    ("GET", "/apis/g/v1/watch/namespaces/n/foos?fieldSelector=a%3Db"): {"verb": "watch", "field_selector": ""},
    ("GET", "/apis/g/v1/foos?fieldSelector=metadata.name%3Dx"): {
        "verb": "list",
        "name": "x",
        "field_selector": "metadata.name=x",
    },
    ("GET", "/apis/g/v1/foos?fieldSelector=metadata.name%3D.."): {"verb": "list", "name": ""},
    ("GET", "/apis/g/v1/foos/x?fieldSelector=a%3Db"): {"verb": "get", "field_selector": ""},
}


@pytest.mark.parametrize(("method", "target"), INFOS)
def test_request_info(method: str, target: str) -> None:
    path, _, query = target.partition("?")
    found = parse(method, path, request(query=query.encode()).query)
    wanted = INFOS[method, target]
    assert {name: getattr(found, name) for name in wanted} == wanted
    assert found.is_resource_request == wanted.get("is_resource_request", True)
    assert found.path == path
