"""Comparing and merging in plain form, and removing: lists that have an item twice, errors, and what stays."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.merge import fieldset, removing
from aggserver.merge.atom import Atom, ListType, MapType
from aggserver.merge.comparing import plain_compare
from aggserver.merge.merging import plain_merge
from aggserver.merge.typed import TypedError

STRING = Atom("string")
SET = Atom(list=ListType(STRING, associative=True))
ITEM = Atom(map=MapType({"name": STRING, "color": STRING}))
PARTS = Atom(list=ListType(ITEM, associative=True, keys=("name",)))
ATOMIC = Atom(map=MapType({"name": STRING}, atomic=True))
OBJECT = Atom(map=MapType({"name": STRING, "set": SET, "parts": PARTS, "whole": ATOMIC}))
WHOLE = {"name": "x", "set": ["a", "b"], "parts": [{"name": "a", "color": "x"}], "whole": {"name": "y"}}
A, NAME = 'v:"a"', 'k:{"name":"a"}'

# name: (before, after, removed, modified, added), of the set.
TWICE: dict[str, tuple[list[str], list[str], *tuple[dict[str, Any], ...]]] = {
    "one goes": (["a", "a"], ["a"], {A: {}}, {}, {A: {}}),
    "one comes": (["a"], ["a", "a"], {A: {}}, {}, {A: {}}),
    "both go": (["a", "a"], [], {A: {}}, {}, {}),
    "both come": ([], ["a", "a"], {}, {}, {A: {}}),
    "both stay": (["a", "a"], ["a", "a"], {}, {}, {}),
    "a third comes": (["a", "a"], ["a", "a", "a"], {}, {A: {}}, {}),
}


@pytest.mark.parametrize("name", TWICE)
def test_items_that_are_there_twice_are_owned_as_a_whole(name: str) -> None:
    before, after, *expected = TWICE[name]
    found = plain_compare({"set": [*before, "b"]}, {"set": [*after, "b"]}, OBJECT)
    wanted = [{"f:set": fields} if fields else {} for fields in expected]
    assert [fieldset.ordered(each) for each in (found.removed, found.modified, found.added)] == wanted


def test_both_errors_are_told() -> None:
    shown = ["expected string, got &value.valueUnstructured{Value:%d}" % number for number in (1, 2)]  # noqa: UP031
    text = f"errors:\n  .name: lhs: {shown[0]}\n  .name: rhs: {shown[1]}"
    for do in (plain_compare, plain_merge):
        with pytest.raises(TypedError) as caught:
            do({"name": 1}, {"name": 2}, OBJECT)
        assert str(caught.value) == text


def test_items_that_are_no_items_are_told_by_their_place() -> None:
    with pytest.raises(TypedError) as caught:
        plain_merge({"parts": [{"name": "a"}, {"color": "x"}]}, {"parts": []}, OBJECT)
    assert "element 1: " in str(caught.value)
    assert "name" in str(caught.value)


MERGED: dict[str, tuple[Any, Any, Any]] = {
    "what is there twice stays": ({"set": ["a", "a"]}, {"set": ["b"]}, {"set": ["a", "a", "b"]}),
    "what is there twice becomes what is applied": (
        {"parts": [{"name": "a", "color": "x"}, {"name": "a"}]},
        {"parts": [{"name": "a"}]},
        {"parts": [{"name": "a"}]},
    ),
}


@pytest.mark.parametrize("name", MERGED)
def test_merged(name: str) -> None:
    live, applied, merged = MERGED[name]
    assert plain_merge(live, applied, OBJECT) == merged


def test_an_applied_list_has_an_item_once() -> None:
    with pytest.raises(TypedError) as caught:
        plain_merge({"set": ["a"]}, {"set": ["b", "b"], "parts": [{"name": "a"}, {"name": "a"}]}, OBJECT)
    texts = ('.set: duplicate entries for key [="b"]', '.parts: duplicate entries for key [name="a"]')
    assert sorted(str(caught.value).removeprefix("errors:").split("\n  ")) == sorted(["", *texts])


def test_what_is_not_in_the_set_stays_itself() -> None:
    for value, atom in ((["a"], SET), ({"name": "x"}, OBJECT), ([{"name": "a"}], PARTS)):
        assert removing.remove(value, {}, atom) is value


# name: (set, what stays of a value)
REMOVED: dict[str, tuple[dict[str, Any], Any]] = {
    "a field": ({"f:name": {}}, {"set": ["a", "b"], "parts": [{"name": "a", "color": "x"}], "whole": {"name": "y"}}),
    "what is not there": ({"f:other": {}}, WHOLE),
    "an item of a set": ({"f:set": {A: {}}}, WHOLE | {"set": ["b"]}),
    "all items": ({"f:parts": {NAME: {}}}, WHOLE | {"parts": None}),
    "a field of an item": ({"f:parts": {NAME: {"f:color": {}}}}, WHOLE | {"parts": [{"name": "a"}]}),
    "in what is atomic": ({"f:whole": {"f:name": {}}}, WHOLE | {"whole": None}),
    "below a scalar": ({"f:name": {"f:y": {}}}, WHOLE),
    "everything": ({"f:name": {}, "f:set": {}, "f:parts": {}, "f:whole": {}}, None),
}


@pytest.mark.parametrize("name", REMOVED)
def test_removed(name: str) -> None:
    fields, left = REMOVED[name]
    assert removing.remove(WHOLE, fields, OBJECT) == left


def test_who_owned_a_part_of_what_became_atomic_owns_it_whole() -> None:
    fields = {"f:name": {}, "f:whole": {"f:name": {}}, "f:parts": {NAME: {".": {}, "f:color": {}}}}
    assert removing.reconcile(fields, OBJECT) == {**fields, "f:whole": {}}
    left = {"f:name": {}, "f:parts": fields["f:parts"]}
    assert removing.reconcile(left, OBJECT) is left
