"""The check of informers by tables. The history (revision: what happened): 2 create a, 3 update a, 4 update a, 5 delete a,
6 create a anew, 7 update a.
"""

from __future__ import annotations

import pytest

from tests.history.checker import check
from tests.history.informers import InformerRecording, check_informer
from tests.history.recording import Key, Object, Opened, Recording, Selection, Told, shown_at
from tests.history.test_checker import note, write
from tests.history.truth import Truth

A = Key("notes", "default", "a")
STATES = {number: note(A, number, "uid-1" if number < 6 else "uid-2", "sales", f"w{number}") for number in (2, 3, 4, 6, 7)}
GONE = shown_at(STATES[4], 5)

LIST = None
Entries = list[tuple[str, Object] | tuple[str, Object, Object] | None]

RIGHT: dict[str, Entries] = {
    "everything": [
        LIST,
        ("add", STATES[2]),
        ("update", STATES[3], STATES[2]),
        ("update", STATES[4], STATES[3]),
        ("delete", GONE),
        ("add", STATES[6]),
        ("update", STATES[7], STATES[6]),
    ],
    "begun late": [LIST, ("add", STATES[4]), ("delete", GONE), ("add", STATES[6]), ("update", STATES[7], STATES[6])],
    "listed after a pause": [
        LIST,
        ("add", STATES[2]),
        LIST,
        ("update", STATES[4], STATES[2]),
        ("delete", GONE),
        ("add", STATES[6]),
        ("update", STATES[7]),
    ],
    "listed after a deletion": [LIST, ("add", STATES[3]), LIST, ("delete", STATES[3]), ("add", STATES[6]), ("update", STATES[7])],
    "listed after another took its place": [LIST, ("add", STATES[3]), LIST, ("update", STATES[7], STATES[3])],
    "told again by a list": [LIST, ("add", STATES[7]), LIST, ("update", STATES[7], STATES[7])],
}

WRONG: dict[str, tuple[Entries, str]] = {
    "a missed update": ([LIST, ("add", STATES[2]), ("update", STATES[4])], "missed MODIFIED at 3"),
    "a missed deletion": ([LIST, ("add", STATES[4]), ("update", STATES[6])], "missed DELETED at 5"),
    "a deletion as by a list without one": ([LIST, ("add", STATES[4]), ("delete", STATES[4])], "missed DELETED at 5"),
    "more missed than lists explain": (
        [LIST, ("add", STATES[2]), LIST, ("update", STATES[4]), ("update", STATES[6])],
        "missed DELETED at 5, and 1 lists",
    ),
    "told again without a list": ([LIST, ("add", STATES[7]), ("update", STATES[7])], "told again, and was not listed again"),
    "told backwards": ([LIST, ("add", STATES[3]), LIST, ("update", STATES[2])], "there is no such change after 3"),
    "added twice": ([LIST, ("add", STATES[2]), ("add", STATES[3])], "was there already"),
    "updated before it was added": ([LIST, ("update", STATES[2])], "was not there"),
    "deleted after it was gone": ([LIST, ("add", STATES[4]), ("delete", GONE), ("delete", GONE)], "was not there"),
    "deleted with the wrong content": ([LIST, ("add", STATES[4]), ("delete", shown_at(STATES[3], 5))], "there is no such change"),
    "the wrong old object": ([LIST, ("add", STATES[2]), ("update", STATES[3], STATES[4])], "the old object is"),
    "what never was": ([LIST, ("add", note(A, 2, "uid-9", "sales", "w2"))], "there is no such change after the beginning"),
    "not at the end": ([LIST, ("add", STATES[6])], "its view has"),
    "missing at the end": ([LIST], "its view has no notes/default/a"),
}


def history(*happened: tuple[int, str, Object]) -> Truth:
    """(revision, verb, the object after it or as it was deleted)."""
    writes = [
        write(number, verb, A, None, uid=obj["metadata"]["uid"]) if verb == "delete" else write(number, verb, A, obj)
        for number, verb, obj in happened
    ]
    types = {"create": "ADDED", "patch": "MODIFIED", "delete": "DELETED"}
    told = [Told(types[verb], obj) for _, verb, obj in happened]
    verdict = check(writes, [Recording("the witness", Selection("notes"), True, [Opened(1, 1), *told])])
    assert not verdict.faults, str(verdict)
    return verdict.truth


@pytest.fixture(scope="module")
def truth() -> Truth:
    verbs = {2: "create", 3: "patch", 4: "patch", 6: "create", 7: "patch"}
    happened = {number: (number, verb, STATES[number]) for number, verb in verbs.items()} | {5: (5, "delete", GONE)}
    return history(*(happened[number] for number in sorted(happened)))


def recorded(entries: Entries) -> InformerRecording:
    recording = InformerRecording("an informer", "notes", items=[STATES[7]])
    for entry in entries:
        if entry is None:
            recording.lists += 1
        else:
            recording.told(*entry)
    return recording


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, truth: Truth) -> None:
    assert check_informer(truth, recorded(RIGHT[name])) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str, truth: Truth) -> None:
    entries, text = WRONG[name]
    faults = check_informer(truth, recorded(entries))
    assert any(text in fault for fault in faults), faults


def test_a_wrong_store(truth: Truth) -> None:
    recording = recorded(RIGHT["everything"])
    recording.items = [STATES[6]]
    assert ["its store has" in fault for fault in check_informer(truth, recording)] == [True]


@pytest.mark.parametrize(("listed", "count"), [(True, 0), (False, 1)])
def test_a_deletion_learnt_of_by_a_list_may_be_any(listed: bool, count: int) -> None:
    states = [note(A, number, f"uid-{number}", "sales", f"w{number}") for number in (2, 4, 6)]
    gone = [shown_at(states[0], 3), shown_at(states[1], 5)]
    made = [(2, "create", states[0]), (3, "delete", gone[0]), (4, "create", states[1]), (5, "delete", gone[1])]
    deletion = [LIST, ("delete", states[0])] if listed else [("delete", gone[0])]
    recording = recorded([LIST, ("add", states[0]), *deletion, ("add", states[2])])
    recording.items = [states[2]]
    assert len(check_informer(history(*made, (6, "create", states[2])), recording)) == count
