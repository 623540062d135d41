"""Spans reach a collector; one that hangs, or is not there, costs no request anything and fills no memory."""

from __future__ import annotations

import os
import socket
import threading

from aggserver.tracing import export, record
from aggserver.tracing.export import Exporter
from aggserver.tracing.tracer import Span, Tracer
from tests.tracing.collector import collecting

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_trace_arrives() -> None:
    with collecting() as collector:
        exporter = Exporter(collector.endpoint, "1.0", "one")
        tracer = Tracer(1_000_000, os.urandom, exporter.export)
        made = record.begin()
        tracer.start(made, f"00-{TRACE}-{SPAN}-01", trusted=False)
        record.note("Handler", record.now())
        tracer.finish(made, "GET /x", {"http.status_code": 200})
        exporter.close()
        request, handler = collector.arrived.get(timeout=10), collector.arrived.get(timeout=10)
    assert (request.service, request.name, request.parent) == ("aggserver", "GET /x", "")
    assert request.attributes == {"http.status_code": 200}
    assert request.links == [(TRACE, SPAN)]
    assert (handler.name, handler.trace, handler.parent) == ("Handler", request.trace, request.span)


def test_a_collector_that_hangs(monkeypatch) -> None:
    monkeypatch.setattr(export, "END_SECONDS", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        exporter = Exporter(f"127.0.0.1:{silent.getsockname()[1]}", "1.0", "one")
        span = Span("x", TRACE, SPAN, "", 1, 2)
        exporter.export([span] * (2 * export.QUEUE))
        exporter.close()
    assert [thread.name for thread in threading.enumerate() if thread.name == "tracing-close"] == []
