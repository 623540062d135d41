from __future__ import annotations

from dataclasses import replace

import pytest

from aggserver.adoption.families import Family, Wanted
from aggserver.adoption.records.record import Copied, Phase, Record, being_removed, none_left
from aggserver.adoption.steps import Step, fits, is_frozen, is_hidden, joined, next_step

V1, V2 = ("stable.example.com", "v1"), ("stable.example.com", "v2")
ADOPTED = Record("a.x", {"a.x": "u-a"}, [V1], Phase.ADOPTED, shared=False, since="", copied={"a.x": Copied(9, 3, "d", 12)})
FAMILY = Family("a.x", {"a.x": "u-a"}, [V1], Wanted.ADOPT)
KEPT = replace(FAMILY, wanted=Wanted.KEEP)
RELEASED = replace(FAMILY, wanted=Wanted.RELEASE)
COPYING, SWITCHING = ADOPTED.at(Phase.COPYING, ""), ADOPTED.at(Phase.SWITCHING, "")
GIVING_BACK, SWITCHING_BACK = ADOPTED.at(Phase.GIVING_BACK, ""), ADOPTED.at(Phase.SWITCHING_BACK, "")


@pytest.mark.parametrize(
    ("record", "family", "step"),
    [
        pytest.param(None, FAMILY, Step.BEGIN, id="a new family"),
        pytest.param(None, replace(FAMILY, obstacles=["no"]), None, id="a new one that can't be moved"),
        pytest.param(None, replace(FAMILY, deleted=["a.x"]), None, id="a new one that is being deleted"),
        pytest.param(None, RELEASED, None, id="one that was released"),
        pytest.param(COPYING, FAMILY, Step.MOVE, id="on its way"),
        pytest.param(COPYING, RELEASED, Step.BACK, id="on its way, and not wanted any more"),
        pytest.param(COPYING, replace(FAMILY, uids={"a.x": "u-2"}), Step.BACK, id="created anew on its way"),
        pytest.param(COPYING, replace(FAMILY, uids={"a.x": "u-a", "b.x": "u-b"}), Step.BACK, id="joined on its way"),
        pytest.param(SWITCHING, replace(FAMILY, group_versions=[V1, V2]), Step.BACK, id="another version on its way"),
        pytest.param(SWITCHING, replace(FAMILY, deleted=["a.x"]), Step.BACK, id="deleted on its way"),
        pytest.param(SWITCHING, replace(FAMILY, obstacles=["no"]), Step.BACK, id="something in the way of it"),
        pytest.param(ADOPTED, KEPT, None, id="adopted"),
        pytest.param(ADOPTED, replace(KEPT, obstacles=["no"]), None, id="adopted, with a problem"),
        pytest.param(ADOPTED, RELEASED, Step.RELEASE, id="to be released"),
        pytest.param(ADOPTED, replace(KEPT, deleted=["a.x"]), Step.EMPTY, id="deleted"),
        pytest.param(ADOPTED, replace(KEPT, uids={"a.x": "u-a", "b.x": "u-b"}), Step.JOIN, id="joined"),
        pytest.param(ADOPTED, replace(KEPT, group_versions=[V2]), Step.SWITCH, id="another version"),
        pytest.param(ADOPTED, replace(KEPT, uids={}, group_versions=[]), None, id="gone from the host"),
        pytest.param(ADOPTED, replace(KEPT, cleanup={"a.x": "now"}), Step.CLEAN, id="to be cleaned up"),
        pytest.param(ADOPTED, replace(KEPT, cleanup={"a.x": "answered"}), None, id="cleaned up already"),
        pytest.param(ADOPTED, replace(KEPT, opened=["a.x"]), Step.CLEAN, id="a cleanup that left its version"),
        pytest.param(GIVING_BACK, RELEASED, Step.RELEASE, id="a release that was interrupted"),
        pytest.param(GIVING_BACK, KEPT, Step.RESUME, id="a release that is not wanted any more"),
        pytest.param(SWITCHING_BACK, KEPT, Step.FINISH, id="the way back has an end"),
        pytest.param(SWITCHING_BACK, None, Step.FINISH, id="even if nothing is known of the family"),
    ],
)
def test_what_comes_next(record: Record | None, family: Family | None, step: Step | None) -> None:
    assert next_step(record, family, cleaned={"a.x": "answered"}) == step


def test_a_new_process_first_looks_after_what_is_adopted() -> None:
    assert next_step(ADOPTED, replace(KEPT, group_versions=[V2]), resumed=False) == Step.RESUME
    assert next_step(ADOPTED, RELEASED, resumed=False) == Step.RELEASE


def test_leftovers_that_are_removed_are_not_removed_again() -> None:
    clean = replace(ADOPTED, copied={"a.x": none_left(9)})
    assert next_step(clean, replace(KEPT, cleanup={"a.x": "now"})) is None


def test_a_removal_that_was_interrupted_goes_on() -> None:
    begun = replace(ADOPTED, copied={"a.x": being_removed(ADOPTED.copied["a.x"])})
    assert next_step(begun, replace(KEPT, cleanup={"a.x": "now"})) is Step.CLEAN


def test_a_move_of_an_unknown_family_does_not_fit() -> None:
    assert not fits(COPYING, None)


def test_what_must_not_be_written_or_read() -> None:
    records = [COPYING, SWITCHING, ADOPTED, GIVING_BACK, SWITCHING_BACK]
    assert [is_frozen(each) for each in records] == [False, True, False, True, True]
    assert [is_hidden(each) for each in records] == [False, False, False, False, True]
    assert not is_frozen(replace(SWITCHING, shared=True))


def test_of_a_definition_that_joins_the_host_has_no_objects() -> None:
    family = replace(KEPT, uids={"a.x": "u-a", "b.x": "u-b"}, group_versions=[V1, V2])
    record = joined(ADOPTED, family, 20)
    assert (record.uids, record.group_versions) == (family.uids, [V1, V2])
    assert record.copied == {**ADOPTED.copied, "b.x": none_left(20)}
    assert joined(replace(ADOPTED, shared=True, copied={}), family, 20).copied == {}
