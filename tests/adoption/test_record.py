from __future__ import annotations

import pytest

from aggserver.adoption.record import Copied, Phase, Record, decode, encode
from aggserver.meta import codec

RECORDS = {
    "that waits": Record(
        "crontabs.stable.example.com",
        {"crontabs.stable.example.com": "u-1"},
        [("stable.example.com", "v1")],
        Phase.WAITING,
        shared=False,
        since="2026-01-02T03:04:05Z",
        reason="it shares v1 with shirts.stable.example.com, which does not match",
    ),
    "of two, moved": Record(
        "crontabs.stable.example.com",
        {"shirts.stable.example.com": "u-2", "crontabs.stable.example.com": "u-1"},
        [("stable.example.com", "v1"), ("stable.example.com", "v1beta1")],
        Phase.ADOPTED,
        shared=False,
        since="2026-01-02T03:04:05Z",
        through_api=True,
        copied={"crontabs.stable.example.com": Copied(17, 3, "abc", 21, 4096)},
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_comes_back_from_the_journal(name: str) -> None:
    record = RECORDS[name]
    assert decode(codec.decode_stored(codec.encode_json(encode(record)))) == record


def test_definitions_are_in_order() -> None:
    assert RECORDS["of two, moved"].definitions == ["crontabs.stable.example.com", "shirts.stable.example.com"]


def test_the_next_phase_forgets_the_reason() -> None:
    waiting = RECORDS["that waits"]
    copying = waiting.at(Phase.COPYING, "2026-01-02T03:05:00Z")
    assert (copying.phase, copying.reason, copying.since) == (Phase.COPYING, "", "2026-01-02T03:05:00Z")
