"""Recordings across a move: only the revisions of copies are taken back to those of the writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.history.checker import check
from tests.history.informers import InformerRecording, check_informer
from tests.history.moved import Moved
from tests.history.recording import (
    ACKNOWLEDGED,
    Bookmark,
    Entry,
    Failed,
    Key,
    Listed,
    Object,
    Opened,
    Recording,
    Selection,
    Told,
    Write,
)

A, B = Key("notes", "default", "a"), Key("notes", "default", "b")
EXPIRED = Failed(410, "Expired")


def note(key: Key, revision: int, marker: str, **spec: Any) -> Object:
    metadata = {"name": key.name, "namespace": key.namespace, "uid": f"uid-{key.name}", "resourceVersion": str(revision)}
    return {"metadata": metadata, "spec": {"marker": marker, **spec}}


def write(number: int, verb: str, key: Key, obj: Object, base: int = 0) -> Write:
    wanted = {"spec": {"marker": f"w{number}"}}
    return Write("writer", verb, key, f"w{number}", ACKNOWLEDGED, 10 * number, 10 * number + 5, obj, base=base, wanted=wanted)


# The host has a at 2 and b at 3. The copies are at 11 and 12, the store went on at 20, where a is written at 21.
A2, B3, A21 = note(A, 2, "w1"), note(B, 3, "w2"), note(A, 21, "w3")
A11, B12 = note(A, 11, "w1"), note(B, 12, "w2")
WRITES = [write(1, "create", A, A2), write(2, "create", B, B3), write(3, "update", A, A21, base=11)]


def recording(*entries: Entry) -> Recording:
    return Recording("reflector", Selection("notes"), True, list(entries))


def entries(
    copies: Sequence[Object] = (A11, B12), told: Sequence[Entry] = (Told("MODIFIED", A21),), revision: int = 20
) -> list[Entry]:
    """A client that lists in the host and watches, is sent away by the move, and lists and watches anew."""
    return [
        Listed(11, [(2, [A2])], latest=True),
        Opened(12, 2),
        Told("ADDED", B3),
        EXPIRED,
        Listed(26, [(revision, copies)], latest=True),
        Opened(27, revision),
        *told,
    ]


def faults(seen: Recording, moves: int = 1) -> list[str]:
    moved = Moved(WRITES, [seen], [(A, A11)], moves)
    return [*moved.faults, *check(moved.writes, moved.recordings).faults]


def test_a_move_is_no_change() -> None:
    assert faults(recording(*entries())) == []


def test_a_watch_from_nothing_may_begin_with_copies() -> None:
    again: list[Entry] = [Opened(27, 0), Told("ADDED", A11), Told("ADDED", B12), Told("MODIFIED", A21), Bookmark(21)]
    assert faults(recording(*entries()[:4], *again)) == []


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (entries(copies=[A11]), "was deleted, but nobody asked for that"),
        (entries(copies=[A11, note(B, 12, "w2", color="red")]), "which nobody asked for"),
        (entries(told=[]), "was to follow to the end"),
        (entries(told=[Told("MODIFIED", B12), Told("MODIFIED", A21)]), "repeated or out of order"),
        (entries(copies=[A11, note(B, 1, "w2")]), "its revision went back"),
        (entries(copies=[A2, B3], revision=2), "asked for the latest and got 2"),
    ],
)
def test_what_a_move_does_not_explain(seen: list[Entry], words: str) -> None:
    found = faults(recording(*seen))
    assert any(words in fault for fault in found), found


def test_there_are_no_more_revisions_than_moves() -> None:
    found = faults(recording(*entries()), moves=0)
    assert any("after 0 moves" in fault for fault in found), found


def test_an_informer_is_told_of_copies_by_its_list() -> None:
    moved = Moved(WRITES, [recording(*entries())], [], 1)
    truth = check(moved.writes, moved.recordings).truth
    for lists, expected in ((2, 0), (1, 1)):
        informer = InformerRecording("informer", "notes", lists=1)
        informer.told("add", A2)
        informer.told("add", B3)
        informer.lists = lists
        informer.told("update", B12, B3)
        informer.told("update", A21, A2)
        informer.items = [A21, B12]
        assert len(check_informer(truth, moved.informer(informer))) == expected


def gone(*between: Entry, sent: int = 24) -> list[str]:
    """b is deleted while nobody watches, and is not in the list after the move; a is written at 17, and at 21."""
    a17, a21 = note(A, 17, "w4"), note(A, 21, "w3")
    writes = [
        *WRITES[:2],
        write(4, "update", A, a17, base=11),
        Write("writer", "delete", B, "w5", ACKNOWLEDGED, sent, sent + 1, uid="uid-b"),
        Write("writer", "update", A, "w3", ACKNOWLEDGED, 50, 55, a21, base=17, wanted={"spec": {"marker": "w3"}}),
    ]
    seen = recording(*entries()[:4], *between, Listed(56, [(22, [a21])], latest=True), Opened(57, 22), Bookmark(23))
    moved = Moved(writes, [seen], [(A, A11)], 1)
    return [*moved.faults, *check(moved.writes, moved.recordings).faults]


def test_what_went_while_nobody_watched_is_put_where_it_can_have_been() -> None:
    a17 = note(A, 17, "w4")
    assert gone() == []
    assert gone(Listed(47, [(17, [a17, B12])], latest=True), sent=48) == []
    assert gone(Listed(48, [(17, [a17])], latest=True), sent=46) != [], "it was deleted after a was written at 17"


def test_whoever_watched_must_have_been_told() -> None:
    watched: list[Entry] = [
        Listed(26, [(13, [A11, B12])], latest=True),
        Opened(27, 13),
        Told("MODIFIED", note(A, 17, "w4")),
        Bookmark(20),
    ]
    (fault,) = [fault for fault in gone(*watched, EXPIRED, sent=46) if "whoever watched" in fault]
    assert "went between 17 and 20" in fault
