"""What is told of problems: what is new, and not what persists."""

from __future__ import annotations

from aggserver.cluster.problems import Problems


def test_changes() -> None:
    problems = Problems()
    given = ["", "one", "one", "two", "", "", "two"]
    assert [problems.changed(problem) for problem in given] == [False, True, False, True, True, False, True]


def test_each_subject_has_its_own() -> None:
    problems = Problems()
    assert problems.changed("it is down", "a")
    assert problems.changed("it is down", "b")
    assert not problems.changed("it is down", "a")
    assert problems.changed("", "b")
    assert problems.subjects() == {"a"}
