"""Header blocks of requests as scopes; which of them are malformed: RFC 9113, 8.2 and 8.3."""

from __future__ import annotations

import pytest

from aggserver.server.http2.request_head import scope_of

GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"a:1"), (b":path", b"/")]


def test_a_scope() -> None:
    block = [*GET[:3], (b":path", b"/a%20b/c?watch=1&x=%20"), (b"host", b"other"), (b"accept", b"*/*")]
    assert scope_of(block) == {
        "method": "GET",
        "path": "/a b/c",
        "raw_path": b"/a%20b/c",
        "query_string": b"watch=1&x=%20",
        "headers": [(b"host", b"a:1"), (b"accept", b"*/*")],
    }


def test_a_host_without_authority() -> None:
    scope = scope_of([GET[0], GET[1], GET[3], (b"host", b"other")])
    assert scope is not None
    assert scope["headers"] == [(b"host", b"other")]


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
}


@pytest.mark.parametrize("block", MALFORMED.values(), ids=MALFORMED)
def test_malformed_requests(block: list[tuple[bytes, bytes]]) -> None:
    assert scope_of(block) is None


def test_te_may_say_trailers() -> None:
    assert scope_of([*GET, (b"te", b"trailers")]) is not None
