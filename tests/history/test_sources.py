"""What the check of informers over virtual resources finds, and what it lets pass."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.history.sources import Key, State, Told, check_told, logged, state_of

A: Key = ("default", "a")
ONE, TWO, THREE = (State("u1", generation, (f"v{generation}",)) for generation in (1, 2, 3))
NEW = State("u2", 1, ("v1",))
# a is made, changed twice, deleted and made anew.
ROWS = [("default", "a", *state[:2], *state[2]) for state in (ONE, TWO, THREE)]  # type: ignore[misc]
ROWS += [("default", "a", "u1", None), ("default", "a", "u2", 1, "v1")]
NEVER = State("u1", 2, ("other",))


def told(*each: tuple[str, State] | tuple[str, State, int]) -> list[Told]:
    return [Told(what, A, state, *lists) if lists else Told(what, A, state, 1) for what, state, *lists in each]


GOOD: dict[str, list[Told]] = {
    "everything": told(("add", ONE), ("update", TWO), ("update", THREE), ("delete", THREE), ("add", NEW)),
    "only some states": told(("add", ONE), ("update", THREE), ("delete", THREE), ("add", NEW)),
    "the end": told(("add", NEW)),
    "anew by a list": told(("add", ONE), ("update", TWO), ("update", NEW, 2)),
    "again by a list": told(("add", THREE), ("update", THREE, 2), ("delete", THREE), ("add", NEW)),
    "back by a list": told(("add", THREE), ("update", TWO, 2), ("delete", TWO), ("add", NEW)),
}
BAD: dict[str, tuple[list[Told], str]] = {
    "a state that never was": (told(("add", NEVER), ("delete", NEVER), ("add", NEW)), "never had this state"),
    "a deletion that never was": (told(("add", NEW), ("delete", NEW), ("add", NEW)), "has deleted nothing"),
    "a deletion of nothing": (told(("delete", THREE), ("add", NEW)), "what it did not have"),
    "added twice": (told(("add", ONE), ("add", NEW)), "had the object already"),
    "changed before it was there": (told(("update", NEW)), "did not have the object"),
    "back without a list": (told(("add", THREE), ("update", TWO), ("delete", TWO), ("add", NEW)), "went back"),
    "back after its end": (told(("add", THREE), ("delete", THREE), ("add", TWO), ("update", NEW)), "went back"),
    "the last change is missing": (told(("add", ONE), ("update", THREE)), "at the end it was told"),
    "nothing": ([], "at the end it was told None"),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_may_be(name: str) -> None:
    assert check_told(logged(ROWS), GOOD[name], {A: NEW}) == []


@pytest.mark.parametrize("name", BAD)
def test_what_may_not_be(name: str) -> None:
    seen, fault = BAD[name]
    assert [text for text in check_told(logged(ROWS), seen, {A: NEW}) if fault in text]


@pytest.mark.parametrize("held", [{}, {A: THREE}, {A: NEW, ("default", "b"): ONE}])
def test_what_is_held_at_the_end(held: dict[Key, State]) -> None:
    assert "at the end it holds" in check_told(logged(ROWS), GOOD["everything"], held)[0]


def test_the_state_of_an_object() -> None:
    metadata = {"name": "a", "namespace": "default", "uid": "u1", "generation": 2, "resourceVersion": "77"}
    fields: Sequence[str] = ("title", "state")
    assert state_of({"metadata": metadata, "title": "x"}, fields) == (A, State("u1", 2, ("x", None)))
