from __future__ import annotations

import pytest

from aggserver.adoption.records.record import Copied, Phase, Record, decode, digest, encode, none_left
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


def test_a_digest_depends_on_keys_and_revisions() -> None:
    pairs = [("/g/r/a", 1), ("/g/r/b", 23)]
    others = [[], pairs[:1], [("/g/r/a", 12), ("/g/r/b", 3)], [("/g/r/a", 1), ("/g/r/c", 23)]]
    assert len({digest(each) for each in [pairs, *others]}) == 5


def test_once_the_leftovers_are_removed_every_object_here_is_newer_than_what_the_host_has() -> None:
    left = none_left(40)
    assert (left.host_revision, left.count, left.own_revision, left.size) == (40, 0, 0, 0)
    assert left.digest == digest([])
