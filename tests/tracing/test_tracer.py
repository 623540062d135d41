"""Which requests are traced, under which ids, and which part is within which."""

from __future__ import annotations

import pytest

from aggserver.tracing import record
from aggserver.tracing.record import Part
from aggserver.tracing.tracer import Tracer, nested, parse_traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {
    "sampled": (f"00-{TRACE}-{SPAN}-01", (TRACE, SPAN, True)),
    "not sampled": (f"00-{TRACE}-{SPAN}-00", (TRACE, SPAN, False)),
    "other flags": (f"00-{TRACE}-{SPAN}-fe", (TRACE, SPAN, False)),
    "a later version with more": (f"01-{TRACE}-{SPAN}-01-more", (TRACE, SPAN, True)),
    "version 0 with more": (f"00-{TRACE}-{SPAN}-01-more", None),
    "the version that is none": (f"ff-{TRACE}-{SPAN}-01", None),
    "upper case": (f"00-{TRACE.upper()}-{SPAN}-01", None),
    "no trace": (f"00-{'0' * 32}-{SPAN}-01", None),
    "no span": (f"00-{TRACE}-{'0' * 16}-01", None),
    "short": (f"00-{TRACE}-{SPAN[1:]}-01", None),
    "long": (f"01-{TRACE}-{SPAN}-01-" + "x" * 200, None),
    "empty": ("", None),
    "digits of another script": (f"00-{TRACE}-{SPAN}-0\u0661", None),
}


@pytest.mark.parametrize(("header", "expected"), HEADERS.values(), ids=HEADERS)
def test_what_a_traceparent_says(header: str, expected: tuple[str, str, bool] | None) -> None:
    assert parse_traceparent(header) == expected


RANDOM = bytes(range(1, 17))  # its lower half is 0x090a..., a bit more than 3.5 % of all
CASES = {
    "sampled, trusted": (f"00-{TRACE}-{SPAN}-01", True, 0, (TRACE, SPAN, True, None)),
    "not sampled, trusted": (f"00-{TRACE}-{SPAN}-00", True, 1_000_000, (TRACE, SPAN, False, None)),
    "sampled, not trusted": (f"00-{TRACE}-{SPAN}-01", False, 0, (RANDOM.hex(), "", False, (TRACE, SPAN))),
    "not sampled, not trusted": (f"00-{TRACE}-{SPAN}-00", False, 1_000_000, (RANDOM.hex(), "", True, (TRACE, SPAN))),
    "without one, all": ("", True, 1_000_000, (RANDOM.hex(), "", True, None)),
    "without one, above the rate": ("", True, 35_000, (RANDOM.hex(), "", False, None)),
    "without one, below the rate": ("", True, 36_000, (RANDOM.hex(), "", True, None)),
    "an invalid one, trusted": ("00-x", True, 0, (RANDOM.hex(), "", False, None)),
}


@pytest.mark.parametrize(("header", "trusted", "rate", "expected"), CASES.values(), ids=CASES)
def test_whose_trace_is_followed(header: str, trusted: bool, rate: int, expected: tuple) -> None:
    made = record.begin()
    Tracer(rate, lambda size: RANDOM[:size], lambda spans: None).start(made, header, trusted=trusted)
    assert made.trace is not None
    assert (made.trace.trace, made.trace.parent, made.trace.sampled, made.trace.linked) == expected


def test_ids_are_never_zero() -> None:
    made = record.begin()
    Tracer(0, bytes, lambda spans: None).start(made, "", trusted=True)
    assert made.trace is not None
    assert int(made.trace.trace, 16)
    assert int(made.trace.span, 16)


def test_parts_become_spans() -> None:
    exported: list = []
    numbers = iter(range(1, 100))
    tracer = Tracer(0, lambda size: next(numbers).to_bytes(size, "big"), exported.extend)
    made = record.begin()
    tracer.start(made, f"00-{TRACE}-{SPAN}-01", trusted=True)
    started = record.now()
    header, span = record.outgoing()
    assert header == f"00-{TRACE}-{span}-01"
    record.note("Webhook", started, "a.example.com", span)
    record.note("Handler", started)
    tracer.finish(made, "POST /x", {"http.status_code": 201})
    request, handler, webhook = exported
    assert (request.name, request.trace, request.parent, request.server) == ("POST /x", TRACE, SPAN, True)
    assert (handler.name, handler.parent) == ("Handler", request.span)
    assert (webhook.span, webhook.parent, webhook.attributes) == (span, handler.span, {"detail": "a.example.com"})
    assert request.start <= handler.start <= webhook.end <= handler.end <= request.end


def test_what_is_not_sampled_is_not_exported() -> None:
    exported: list = []
    tracer = Tracer(0, lambda size: RANDOM[:size], exported.extend)
    made = record.begin()
    tracer.start(made, f"00-{TRACE}-{SPAN}-00", trusted=True)
    assert record.outgoing()[0].startswith(f"00-{TRACE}-")
    assert record.outgoing()[0].endswith("-00")
    tracer.finish(made, "GET /x", {})
    assert exported == []


def test_calls_of_others_contain_nothing() -> None:
    numbers = iter("cdefghij")
    parts = [
        Part("one", 1.0, 5.0, span="a"),
        Part("two", 2.0, 3.0, span="b"),  # at the same time
        Part("admission", 0.5, 5.5),
        Part("check", 6.0, 7.0),
        Part("handler", 0.0, 8.0),
    ]
    found = {part.name: (part.span, parent) for part, parent in nested(parts, numbers.__next__)}
    handler, admission = found["handler"][0], found["admission"][0]
    assert found == {
        "handler": (handler, ""),
        "admission": (admission, handler),
        "one": ("a", admission),
        "two": ("b", admission),
        "check": (found["check"][0], handler),
    }


def test_parts_are_bounded() -> None:
    made = record.begin()
    for _ in range(record.MAX_PARTS + 5):
        record.note("part", 0.0)
    assert len(made.parts) == record.MAX_PARTS
