"""Header blocks of requests as scopes; which of them are malformed: RFC 9113, 8.2 and 8.3."""

from __future__ import annotations

import pytest

from aggserver.server.http2.request_head import RequestHead, are_trailers, request_head

GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"a:1"), (b":path", b"/")]


def head(block: list[tuple[bytes, bytes]]) -> RequestHead | None:
    return request_head([(name, value, False) for name, value in block])


def test_a_scope() -> None:
    block = [*GET[:3], (b":path", b"/a%20b/c?watch=1&x=%20"), (b"host", b"other"), (b"accept", b"*/*"), (b"x-any", b"1")]
    assert head(block) == (
        {
            "method": "GET",
            "path": "/a b/c",
            "raw_path": b"/a%20b/c",
            "query_string": b"watch=1&x=%20",
            "headers": [(b"host", b"a:1"), (b"accept", b"*/*"), (b"x-any", b"1")],
        },
        None,
    )


def test_a_host_without_authority() -> None:
    found = head([GET[0], GET[1], GET[3], (b"host", b"other")])
    assert found is not None
    assert found.scope["headers"] == [(b"host", b"other")]


def test_a_method_that_is_not_usual() -> None:
    found = head([(b":method", b"gEt"), *GET[1:]])
    assert found is not None
    assert found.scope["method"] == "gEt"


def test_a_length() -> None:
    found = head([*GET, (b"content-length", b"12"), (b"content-length", b"12")])
    assert found is not None
    assert found.length == 12


MALFORMED = {
    "no method": GET[1:],
    "no scheme": [GET[0], *GET[2:]],
    "no path": GET[:3],
    "empty path": [*GET[:3], (b":path", b"")],
    "a path without a slash": [*GET[:3], (b":path", b"a")],
    "a path beyond ASCII": [*GET[:3], (b":path", "/ä".encode())],
    "CONNECT": [(b":method", b"CONNECT"), GET[2]],
    "a method with a space": [(b":method", b"GE T"), *GET[1:]],
    "a pseudo-header twice": [*GET, GET[3]],
    "an unknown pseudo-header": [*GET, (b":protocol", b"websocket")],
    "a pseudo-header behind a header": [*GET[:3], (b"accept", b"*/*"), GET[3]],
    "a name in upper case": [*GET, (b"Accept", b"*/*")],
    "an empty name": [*GET, (b"", b"x")],
    "a name with a space": [*GET, (b"a b", b"x")],
    "a value with a line end": [*GET, (b"a", b"x\r\ny")],
    "a value with NUL": [*GET, (b"a", b"\x00")],
    "a header of connections": [*GET, (b"connection", b"close")],
    "transfer-encoding": [*GET, (b"transfer-encoding", b"chunked")],
    "te": [*GET, (b"te", b"gzip")],
    "a line end in a header that most have": [*GET, (b"accept", b"a\nb")],
    "a length that is no number": [*GET, (b"content-length", b"+1")],
    "a length that is empty": [*GET, (b"content-length", b"")],
    "a length that is too long": [*GET, (b"content-length", b"1" * 5000)],
    "two lengths": [*GET, (b"content-length", b"1"), (b"content-length", b"2")],
}


@pytest.mark.parametrize("block", MALFORMED.values(), ids=MALFORMED)
def test_malformed_requests(block: list[tuple[bytes, bytes]]) -> None:
    assert head(block) is None


def test_te_may_say_trailers() -> None:
    assert head([*GET, (b"te", b"trailers")]) is not None


@pytest.mark.parametrize(
    ("name", "value", "fine"),
    [
        (b"x-sum", b"1", True),
        (b":path", b"/", False),
        (b"X-Sum", b"1", False),
        (b"connection", b"close", False),
        (b"te", b"gzip", False),
        (b"x-sum", b"1\r\n", False),
    ],
)
def test_trailers(name: bytes, value: bytes, fine: bool) -> None:
    assert are_trailers([(b"x-first", b"", False), (name, value, False)]) is fine
