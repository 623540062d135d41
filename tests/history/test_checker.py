"""The checker by tables: histories that are right, and the same with one thing wrong, which it must find.

The history of all cases (revision: what happened) has two objects, `a` and `b`, and a label that moves between teams:
2 create a (sales), 3 create b (support), 4 a to support, 5 delete b, 6 create b anew (sales), 7 status of a, 8 delete a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.history.checker import check
from tests.history.recording import (
    ACKNOWLEDGED,
    REFUSED,
    UNKNOWN,
    Bookmark,
    Cut,
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
    shown_at,
)

A, B = Key("notes", "default", "a"), Key("notes", "default", "b")
ALL = Selection("notes")
SALES = Selection("notes", label=("team", "sales"))
NAMES = Selection("notes", metadata_only=True)
EXPIRED = Failed(410, "Expired")


def note(key: Key, revision: int, uid: str, team: str, marker: str, status: str = "") -> Object:
    metadata = {
        "name": key.name,
        "namespace": key.namespace,
        "uid": uid,
        "resourceVersion": str(revision),
        "labels": {"team": team},
    }
    return {"metadata": metadata, "spec": {"marker": marker}} | ({"status": {"marker": status}} if status else {})


A2 = note(A, 2, "uid-1", "sales", "w2")
B3 = note(B, 3, "uid-2", "support", "w3")
A4 = note(A, 4, "uid-1", "support", "w4")
B5 = shown_at(B3, 5)
B6 = note(B, 6, "uid-3", "sales", "w6")
B6_AGAIN = note(B, 6, "uid-2", "sales", "w6")
A7 = note(A, 7, "uid-1", "support", "w4", "w7")
A8 = shown_at(A7, 8)


def write(number: int, verb: str, key: Key, obj: Object | None, **more: Any) -> Write:
    """Sent at tick 10 * number, done at 10 * number + 5."""
    wanted = {"spec": {"marker": f"w{number}"}} if verb in ("create", "patch") else {}
    values: dict[str, Any] = {"outcome": ACKNOWLEDGED, "sent": 10 * number, "done": 10 * number + 5, "wanted": wanted} | more
    return Write("writer", verb, key, f"w{number}", object=obj, **values)


WRITES = {
    2: write(2, "create", A, A2),
    3: write(3, "create", B, B3),
    4: write(4, "patch", A, A4, base=2),
    5: write(5, "delete", B, None, uid="uid-2"),
    6: write(6, "create", B, B6),
    7: write(7, "update", A, A7, base=4, wanted={"status": {"marker": "w7"}}),
    8: write(8, "delete", A, None, uid="uid-1"),
}

EVENTS = [
    Told("ADDED", A2),
    Told("ADDED", B3),
    Told("MODIFIED", A4),
    Told("DELETED", B5),
    Told("ADDED", B6),
    Told("MODIFIED", A7),
    Told("DELETED", A8),
]
WITNESS = Recording("the witness", ALL, True, [Listed(1, [(1, [])]), Opened(2, 1), *EVENTS, Cut()])
TO_SALES = [Told("ADDED", A2), Told("DELETED", shown_at(A2, 4)), Told("ADDED", B6)]

# name: (selection, follows to the end, what the client saw)
Case = tuple[Selection, bool, Sequence[Entry]]
RIGHT: dict[str, Case] = {
    "a list and a watch": (ALL, True, [Listed(31, [(3, [A2, B3])], latest=True), Opened(32, 3), *EVENTS[2:]]),
    "a list of the past": (ALL, False, [Listed(90, [(4, [A4, B3])], exactly=4)]),
    "any list may be old": (ALL, False, [Listed(90, [(2, [A2])])]),
    "an empty list": (SALES, False, [Listed(90, [(5, [])], exactly=5)]),
    "a list in pages": (ALL, False, [Listed(36, [(4, [A4]), (4, [B3])])]),
    "entering and leaving a selection": (SALES, False, [Opened(1, 1), *TO_SALES]),
    "only metadata": (NAMES, False, [Opened(1, 3), Told("MODIFIED", {"metadata": A4["metadata"]})]),
    "bookmarks between": (SALES, True, [Opened(1, 4), Bookmark(5), TO_SALES[2], Bookmark(6), Bookmark(8)]),
    "a watch from where it stood": (ALL, True, [Opened(1, 1), *EVENTS[:3], Cut(), Opened(50, 4), *EVENTS[3:]]),
    "listed anew when told so": (
        ALL,
        False,
        [Opened(1, 1), EXPIRED, Cut(), Listed(90, [(6, [A4, B6])]), Opened(91, 6), EVENTS[5]],
    ),
    "the objects of now, marked": (
        ALL,
        True,
        [Opened(41, 0, marked=True, latest=True), Told("ADDED", A4), Told("ADDED", B3), Bookmark(4, True), *EVENTS[3:]],
    ),
    "changes among the objects of now": (
        ALL,
        True,
        [Opened(41, 0, marked=True), Told("ADDED", A4), Told("ADDED", B3), *EVENTS[3:5], Bookmark(6, True), *EVENTS[5:]],
    ),
    "the objects of now, not marked": (ALL, True, [Opened(41, 0), Told("ADDED", A4), Told("ADDED", B6), *EVENTS[5:], Cut()]),
    "no objects of now": (SALES, False, [Opened(41, 0), TO_SALES[2], Cut()]),
    "unmarked, and a bookmark": (SALES, True, [Opened(61, 0), Told("ADDED", B6), Bookmark(8)]),
    "unmarked, and broken off": (ALL, False, [Opened(61, 0), Told("ADDED", A4), Cut(), Opened(61, 0), Cut()]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    selection, follows, entries = RIGHT[name]
    verdict = check(list(WRITES.values()), [WITNESS, Recording("a client", selection, follows, list(entries))])
    assert not verdict.faults, str(verdict)
    assert len(verdict.truth.facts) == 7


# name: (selection, follows to the end, what the client saw, what the checker says)
WRONG: dict[str, tuple[Selection, bool, Sequence[Entry], str]] = {
    "a missed event": (ALL, False, [Opened(1, 1), EVENTS[0], EVENTS[2]], "missed ADDED of notes/default/b at 3"),
    "a missed event after a reconnect": (ALL, False, [Opened(1, 1), EVENTS[0], Cut(), Opened(9, 2), EVENTS[2]], "missed ADDED"),
    "a missed departure": (SALES, False, [Opened(1, 1), TO_SALES[0], TO_SALES[2]], "missed DELETED of notes/default/a at 4"),
    "a doubled event": (ALL, False, [Opened(1, 1), EVENTS[0], EVENTS[0]], "repeated or out of order"),
    "a repeated event after a reconnect": (ALL, False, [Opened(1, 1), EVENTS[0], Cut(), Opened(9, 2), EVENTS[0]], "repeated"),
    "reordered events": (ALL, False, [Opened(1, 1), EVENTS[1], EVENTS[0]], "missed ADDED of notes/default/a at 2"),
    "a wrong type": (ALL, False, [Opened(1, 3), Told("ADDED", A4)], "for it that is MODIFIED"),
    "an arrival told as a change": (SALES, False, [Opened(1, 1), Told("MODIFIED", A2)], "for it that is ADDED"),
    "an event of another selection": (SALES, False, [Opened(1, 2), Told("MODIFIED", A4)], "for it that is DELETED"),
    "an event of nobody's concern": (SALES, False, [Opened(1, 2), EVENTS[1]], "nothing changed for it there"),
    "stale content": (ALL, False, [Opened(1, 3), Told("MODIFIED", shown_at(A2, 4))], "but"),
    "a departure with the new content": (SALES, False, [Opened(1, 2), Told("DELETED", A4)], "wrong content"),
    "a deletion without its revision": (ALL, False, [Opened(1, 4), Told("DELETED", B3)], "repeated or out of order"),
    "a bookmark that runs ahead": (ALL, False, [Opened(1, 1), EVENTS[0], Bookmark(3), EVENTS[1]], "a bookmark ran ahead"),
    "a bookmark that runs back": (ALL, False, [Opened(1, 4), Bookmark(3)], "a bookmark of 3 while it stood at 4"),
    "a list that lacks an object": (ALL, False, [Listed(31, [(3, [B3])])], "lack notes/default/a"),
    "a list with a deleted object": (ALL, False, [Listed(51, [(5, [A4, B3])])], "have notes/default/b, which is not there"),
    "a list with old content": (ALL, False, [Listed(41, [(4, [A2, B3])])], "have notes/default/a as"),
    "a list out of order": (ALL, False, [Listed(31, [(3, [B3, A2])])], "has notes/default/a after notes/default/b"),
    "an object twice in a list": (ALL, False, [Listed(31, [(3, [A2, A2, B3])])], "has notes/default/a after notes/default/a"),
    "pages of two revisions": (ALL, False, [Listed(31, [(3, [A2]), (4, [B3])])], "at revisions 3 and 4"),
    "pages that are no snapshot": (ALL, False, [Listed(31, [(3, [A4]), (3, [B3])])], "have notes/default/a as"),
    "another revision than asked for": (ALL, False, [Listed(31, [(3, [A2, B3])], exactly=4)], "exactly 4 and got 3"),
    "a stale list": (ALL, False, [Listed(46, [(3, [A2, B3])], latest=True)], "asked for the latest and got 3"),
    "a list that goes back in time": (
        ALL,
        False,
        [Opened(1, 1), *EVENTS[:3], Listed(36, [(3, [A2, B3])], latest=True)],
        "asked for the latest and got 3",
    ),
    "stale objects of now": (
        ALL,
        False,
        [Opened(46, 0, marked=True, latest=True), Told("ADDED", A2), Told("ADDED", B3), Bookmark(3, True)],
        "asked for the latest and got 3",
    ),
    "an object of now is missing": (ALL, False, [Opened(1, 0, marked=True), Told("ADDED", A2), Bookmark(3, True)], "lack"),
    "an object of now too many": (
        ALL,
        False,
        [Opened(1, 0, marked=True), Told("ADDED", A4), Told("ADDED", B3), Bookmark(5, True)],
        "which is not there",
    ),
    "an object of now twice": (
        ALL,
        False,
        [Opened(1, 0, marked=True), Told("ADDED", A2), Told("ADDED", A2), Bookmark(2, True)],
        "ADDED of notes/default/a twice",
    ),
    "a change of what is not known": (
        ALL,
        False,
        [Opened(1, 0, marked=True), Told("MODIFIED", A4), Bookmark(4, True)],
        "did not know",
    ),
    "a bookmark among the objects of now": (
        ALL,
        False,
        [Opened(1, 0, marked=True), Told("ADDED", A2), Bookmark(2)],
        "wrong bookmark",
    ),
    "a mark that nobody asked for": (ALL, False, [Opened(1, 1), Bookmark(1, True)], "did not wait for it"),
    "a gap after unmarked objects": (
        ALL,
        False,
        [Opened(1, 0), Told("ADDED", A2), EVENTS[2], Cut()],
        "missed ADDED of notes/default/b",
    ),
    "unmarked objects that are not there": (ALL, False, [Opened(1, 0), Told("ADDED", A7), Bookmark(8)], "no state that ever was"),
    "watched on when told to list": (ALL, False, [Opened(1, 1), EXPIRED, Opened(9, 1)], "was told to list anew, and watched on"),
    "an error": (ALL, False, [Opened(1, 1), Failed(504, "Timeout", "Too large resource version: 9, current: 8")], "got an error"),
    "not at the end": (ALL, True, [Opened(1, 1), *EVENTS[:-1]], "but stands at 7"),
    "told of what never was": (ALL, False, [Opened(1, 1), Told("ADDED", note(A, 2, "uid-9", "sales", "w2"))], "revision 2 is"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    selection, follows, entries, text = WRONG[name]
    verdict = check(list(WRITES.values()), [WITNESS, Recording("a client", selection, follows, list(entries))])
    assert any(text in fault for fault in verdict.faults), str(verdict)
    assert any("a client" in fault for fault in verdict.faults), str(verdict)


# name: (writes in place of those of these numbers, what the witness saw in place of what it did, what the checker says)
CONTRADICTIONS: dict[str, tuple[dict[int, Write], dict[int, Entry | None], str]] = {
    "a lost create": ({}, {6: None}, "missed ADDED of notes/default/b at 6"),
    "a lost delete": ({}, {5: None, 6: None}, "acknowledged delete of notes/default/b by writer (w5) is not in the history"),
    "a deletion nobody was told of": ({}, {5: None}, "nobody was told of the deletion of uid uid-2"),
    "an acknowledged write at another revision": (
        {6: write(6, "create", B, note(B, 9, "uid-3", "sales", "w6"))},
        {},
        "was answered with revision 9, but is at 6",
    ),
    "two things at one revision": ({6: write(6, "create", B, note(B, 4, "uid-3", "sales", "w6"))}, {}, "revision 4 is"),
    "resurrected": ({6: write(6, "create", B, B6_AGAIN)}, {6: Told("ADDED", B6_AGAIN)}, "was deleted at 5 and is there again"),
    "a refused write took place": ({4: replace(WRITES[4], object=None, outcome=REFUSED)}, {}, "took place"),
    "nobody wrote that": ({4: replace(WRITES[4], object=None, marker="w0")}, {}, "which nobody asked for"),
    "nobody deleted that": ({5: replace(WRITES[5], key=A)}, {}, "was deleted, but nobody asked for that"),
    "a lost update": ({7: replace(WRITES[7], base=2)}, {}, "was made for revision 2, but replaced 4"),
    "a lost patch": (
        {4: replace(WRITES[4], wanted={"metadata": {"labels": {"team": "legal"}}})},
        {},
        "does not have what was sent",
    ),
    "a write that was overtaken": ({7: replace(WRITES[7], sent=90)}, {}, "but 8 was acknowledged before it was sent"),
    "a create over what is there": ({4: replace(WRITES[4], verb="create")}, {}, "found the object there"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions(name: str) -> None:
    writes, events, text = CONTRADICTIONS[name]
    entries = [events.get(number, event) for number, event in enumerate(EVENTS, start=2)]
    seen = [Opened(2, 1), *(entry for entry in entries if entry is not None)]
    verdict = check(list((WRITES | writes).values()), [Recording("the witness", ALL, True, seen)])
    assert any(text in fault for fault in verdict.faults), str(verdict)


def test_a_write_without_an_answer_is_there_or_not() -> None:
    unknown = replace(WRITES[4], object=None, outcome=UNKNOWN)
    never = write(9, "create", A, None, outcome=UNKNOWN)
    deleted = write(10, "delete", B, None, outcome=UNKNOWN)
    verdict = check([*(WRITES | {4: unknown}).values(), never, deleted], [WITNESS])
    assert not verdict.faults, str(verdict)


def test_of_deletions_without_an_answer_the_first_that_was_sent_was_it() -> None:
    late, early = (write(number, "delete", B, None, outcome=UNKNOWN) for number in (9, 5))
    verdict = check([*(WRITES | {5: late}).values(), early], [WITNESS])
    assert not verdict.faults, str(verdict)


def collected(number: int, key: Key, uid: str) -> Write:
    return write(number, "deletecollection", key, None, uid=uid, outcome=UNKNOWN)


def test_what_deletecollection_names_was_deleted_by_it_or_by_another() -> None:
    by_it = {5: collected(5, B, "uid-2")}
    verdict = check([*(WRITES | by_it).values(), collected(9, A, "uid-1")], [WITNESS])
    assert not verdict.faults, str(verdict)


def test_deletecollection_deletes_what_has_the_name_by_then() -> None:
    verdict = check(list((WRITES | {5: collected(5, B, "uid-2"), 8: collected(8, A, "uid-2")}).values()), [WITNESS])
    assert not verdict.faults, str(verdict)


def test_what_deletecollection_names_is_gone() -> None:
    verdict = check([*WRITES.values(), collected(9, B, "uid-3")], [WITNESS])
    assert any("says that uid uid-3 is gone, but nobody was told" in fault for fault in verdict.faults), str(verdict)


def test_a_write_without_an_answer_happens_once() -> None:
    again = note(A, 9, "uid-4", "sales", "w4")
    unknown = replace(WRITES[4], object=None, outcome=UNKNOWN)
    seen = Recording("the witness", ALL, True, [*WITNESS.entries[:-1], Told("ADDED", again)])
    verdict = check(list((WRITES | {4: unknown}).values()), [seen])
    assert any("took place twice, at 4 and 9" in fault for fault in verdict.faults), str(verdict)


def test_a_fault_names_the_client_the_entry_and_the_history_around_it() -> None:
    verdict = check(list(WRITES.values()), [WITNESS, Recording("a client", ALL, False, [Opened(1, 1), EVENTS[1]])])
    (fault,) = verdict.faults
    assert fault.startswith("a client, entry 1: missed ADDED of notes/default/a at 2")
    assert "    2 notes/default/a: uid uid-1 by w2\n    3 notes/default/b: uid uid-2 by w3" in fault
