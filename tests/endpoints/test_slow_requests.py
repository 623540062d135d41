"""The line of the log about a slow request."""

from __future__ import annotations

import logging

import pytest

from aggserver.endpoints.request import Request
from aggserver.endpoints.request_info import parse
from aggserver.endpoints.slow_requests import log_slow
from aggserver.tracing.record import Part, RequestRecord


def request() -> Request:
    path = "/apis/shop.example.com/v1/namespaces/a/shops/b"
    scope = {"method": "PUT", "path": path, "query_string": b"dryRun=All&token=x", "headers": [], "http_version": "2"}
    made = Request(scope, None)  # type: ignore[arg-type]
    made.info = parse("PUT", path, made.query)
    made.audit_id = "the-id"
    return made


def line(parts: list[Part], caplog: pytest.LogCaptureFixture) -> str:
    made = RequestRecord()
    made.parts = parts
    with caplog.at_level(logging.INFO, "aggserver.requests"):
        log_slow(request(), made, 200, 1.2034)
    return caplog.messages[-1]


def test_it_tells_the_steps_in_the_order_of_their_ends(caplog: pytest.LogCaptureFixture) -> None:
    parts = [
        Part("Authentication", 0.0, 0.0005),
        Part("Handler", 0.1, 1.2),
        Part("Webhook", 0.1, 1.1, "a.example.com"),
        Part("Storage", 1.1, 1.13),
    ]
    assert line(parts, caplog) == (
        "slow request: update /apis/shop.example.com/v1/namespaces/a/shops/b?dryRun=All by "
        '"system:anonymous": 200 in 1203 ms audit-id=the-id: Webhook a.example.com 1000 ms, Storage 30 ms, Handler 1100 ms'
    )


def test_without_steps(caplog: pytest.LogCaptureFixture) -> None:
    assert line([], caplog).endswith("audit-id=the-id: no part of it took long")


def test_steps_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    assert line([Part("Storage", 0.0, 0.5)] * 43, caplog).endswith("Storage 500 ms, and 3 more")
