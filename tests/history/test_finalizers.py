"""The checker on finalizers, by tables. The history (revision: what happened): 2 create a with two finalizers, 3 delete a, which
marks it, 4 take one finalizer away, 5 the other, which removes a, 6 create a anew, without finalizers.
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
    Key,
    Object,
    Opened,
    Recording,
    Selection,
    Told,
    Write,
    shown_at,
)
from tests.history.test_checker import note, write

A = Key("notes", "default", "a")
X, Y = "example.com/x", "example.com/y"


def state(revision: int, marker: str, *finalizers: str, deleted: str = "", uid: str = "uid-1", **more: Any) -> Object:
    obj = note(A, revision, uid, "sales", marker)
    metadata = dict(obj["metadata"], **more)
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    if deleted:
        metadata |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 0}
    return {**obj, "metadata": metadata}


MADE = state(2, "w2", X, Y)
MARKED = state(3, "w2", X, Y, deleted="10:00", generation=2)
HALF = state(4, "w4", Y, deleted="10:00", generation=2)
GONE = shown_at(HALF, 5)
ANEW = state(6, "w6", uid="uid-2")
CREATE = write(2, "create", A, MADE)
DELETE = write(3, "delete", A, MARKED, uid="uid-1")
PATCH = write(4, "patch", A, HALF, wanted={"metadata": {"uid": "uid-1", "finalizers": [Y]}})
FINALIZE = write(5, "finalize", A, None, uid="uid-1", outcome=UNKNOWN, wanted={"metadata": {"uid": "uid-1"}})
AGAIN = write(6, "create", A, ANEW)
WRITES = (CREATE, DELETE, PATCH, FINALIZE, AGAIN)
EVENTS = (Told("ADDED", MADE), Told("MODIFIED", MARKED), Told("MODIFIED", HALF), Told("DELETED", GONE), Told("ADDED", ANEW))


def faults(writes: Sequence[Write], events: Sequence[Told]) -> str:
    return "\n".join(check(writes, [Recording("the witness", Selection("notes"), True, [Opened(1, 1), *events])]).faults)


LATER = write(7, "delete", A, HALF, uid="uid-1", sent=46, done=48)
COLLECTED = write(3, "deletecollection", A, None, uid="uid-1", outcome=UNKNOWN)

RIGHT: dict[str, Sequence[Write]] = {
    "everything": WRITES,
    "deleted again while it was being deleted": (*WRITES, LATER),
    "deleted twice at once, and answered alike": (*WRITES, replace(DELETE, marker="w9")),
    "a delete without an answer": (CREATE, replace(DELETE, object=None, uid="", outcome=UNKNOWN), PATCH, FINALIZE, AGAIN),
    "marked by a deletecollection": (CREATE, COLLECTED, PATCH, FINALIZE, AGAIN),
    "a finalize without an answer": (CREATE, DELETE, PATCH, replace(FINALIZE, uid=""), AGAIN),
    "several finalizes": (*WRITES, replace(FINALIZE, marker="w9", sent=51)),
    "a finalize that was refused": (*WRITES, replace(FINALIZE, marker="w9", uid="", outcome=REFUSED)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    assert faults(RIGHT[name], EVENTS) == ""


def changed(number: int, **more: Any) -> Sequence[Told]:
    """The events with other metadata in one of them."""
    event = EVENTS[number]
    obj = {**event.object, "metadata": {**event.object["metadata"], **more}}
    return [*EVENTS[:number], Told(event.type, obj), *EVENTS[number + 1 :]]


def without(number: int, *names: str) -> Sequence[Told]:
    event = EVENTS[number]
    metadata = {name: value for name, value in event.object["metadata"].items() if name not in names}
    return [*EVENTS[:number], Told(event.type, {**event.object, "metadata": metadata}), *EVENTS[number + 1 :]]


SILENT = replace(DELETE, object=None, uid="", outcome=UNKNOWN)
UNANSWERED = replace(PATCH, object=None, outcome=UNKNOWN)
BARE = write(5, "delete", A, None, uid="uid-1")

# name: (writes, what the witness saw, what the checker says)
WRONG: dict[str, tuple[Sequence[Write], Sequence[Told], str]] = {
    "nobody asked for the mark": ((CREATE, PATCH, FINALIZE, AGAIN), EVENTS, "was marked as deleted, but nobody asked"),
    "a refused delete marked it": ((CREATE, replace(SILENT, outcome=REFUSED), PATCH, FINALIZE, AGAIN), EVENTS, "nobody asked"),
    "a mark that took something else along": (
        (CREATE, SILENT, *WRITES[2:]),
        changed(1, labels={}),
        "the mark of deletion changed",
    ),
    "an answer before the mark": ((*WRITES, replace(LATER, object=MADE)), EVENTS, "is marked, but nobody was told"),
    "an answer of another object": ((*WRITES, replace(LATER, uid="uid-2")), EVENTS, "uid uid-2 is marked, but nobody was told"),
    "no longer being deleted": (
        (CREATE, DELETE, UNANSWERED, FINALIZE, AGAIN),
        without(2, "deletionTimestamp"),
        "or no longer so, by a write that can't do that",
    ),
    "being deleted since another time": (
        (CREATE, DELETE, UNANSWERED, FINALIZE, AGAIN),
        changed(2, deletionTimestamp="11:00"),
        "by a write that can't do that",
    ),
    "marked by a write": ((CREATE, UNANSWERED, FINALIZE, AGAIN), (EVENTS[0], *EVENTS[2:]), "by a write that can't do that"),
    "a finalizer that came late": (
        (CREATE, DELETE, UNANSWERED, FINALIZE, AGAIN),
        changed(2, finalizers=["example.com/z"]),
        "got a finalizer while it was being deleted",
    ),
    "it stays without finalizers": (
        (CREATE, DELETE, replace(UNANSWERED, wanted={}), FINALIZE, AGAIN),
        without(2, "finalizers"),
        "has no finalizers, and is there",
    ),
    "removed by a delete with finalizers left": (
        (CREATE, DELETE, PATCH, BARE, AGAIN),
        EVENTS,
        f"with uid uid-1 was removed while it had {Y}",
    ),
    "removed without a mark": (
        (CREATE, FINALIZE, AGAIN),
        (EVENTS[0], Told("DELETED", shown_at(MADE, 5)), EVENTS[4]),
        f"was removed while it had {X}, {Y}",
    ),
    "a finalize that is not in the history": (
        (CREATE, DELETE, PATCH, FINALIZE),
        EVENTS[:3],
        "says that uid uid-1 is gone, but nobody was told",
    ),
    "a finalize of an object that is there": (
        (*WRITES, replace(FINALIZE, marker="w9", uid="uid-2", wanted={"metadata": {"uid": "uid-2"}})),
        EVENTS,
        "says that uid uid-2 is gone, but nobody was told",
    ),
    "an acknowledged mark that was overtaken": (
        (CREATE, DELETE, replace(PATCH, sent=90), replace(LATER, outcome=ACKNOWLEDGED), FINALIZE, AGAIN),
        EVENTS,
        "was acknowledged before it was sent",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    writes, events, text = WRONG[name]
    assert text in faults(writes, events)
