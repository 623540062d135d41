"""docs/kubernetes-pages.md: each row names a test, and each test that it names exists, with the cases that it names."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sources import functions
from tests.test_layers import ROOT

PAGE = (ROOT / "docs" / "kubernetes-pages.md").read_text()
_REFERENCE = re.compile(r"`([\w/]+\.py)::(\w+)(?:\[([^\]`]+)\])?`")
_ROW = re.compile(r"^\| (.+) \|$")
_HEADINGS = ({"claim or command", "test"}, {"step", "test"})


def rows() -> Iterator[tuple[str, str]]:
    """The cells of each row that is neither a heading nor the title of a section."""
    for line in PAGE.splitlines():
        if row := _ROW.match(line):
            claim, shown = re.split(r"(?<!\\) \| ", row[1] + " ", maxsplit=1)
            if {claim, shown.strip()} not in _HEADINGS and not re.fullmatch(r"\*\*[^*]+\*\*", claim):
                yield claim, shown.strip()


def module_of(name: str) -> Path:
    """Of tests/integration, unless another folder of tests is named."""
    found = [path for path in (ROOT / "tests" / "integration" / name, ROOT / "tests" / name) if path.exists()]
    assert found, f"no module {name}"
    return found[0]


def cases(function: Any) -> set[str]:
    """The ids of its parameters, without those that pytest makes of other values than texts."""
    return {case for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize" for case in _ids(mark)}


def _ids(mark: Any) -> Iterable[str]:
    _, values = mark.args
    if mark.kwargs.get("ids") is not None:
        return [str(case) for case in mark.kwargs["ids"]]
    return [getattr(value, "id", None) or str(value) for value in values]


def test_each_row_names_a_test() -> None:
    found = list(rows())
    assert len(found) > 150
    assert [claim for claim, shown in found if not _REFERENCE.search(shown)] == []


def test_a_row_has_nothing_but_tests() -> None:
    """What is written in another form would not be looked up."""
    assert [shown for _, shown in rows() if re.sub(r",? ?", "", _REFERENCE.sub("", shown))] == []


@pytest.mark.parametrize("module", sorted({found[1] for found in _REFERENCE.finditer(PAGE)}))
def test_each_test_exists(module: str) -> None:
    path = module_of(module)
    named = [(found[2], found[3]) for found in _REFERENCE.finditer(PAGE) if found[1] == module]
    assert {function for function, _ in named} - functions(path) == set()
    for function, listed in named:
        if listed:
            made = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            assert set(listed.split(", ")) - cases(getattr(made, function)) == set(), function
