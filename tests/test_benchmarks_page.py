"""docs/benchmarks.md is honest: figures have their commit, and what falls short of its aim is listed as such."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.page import TABLES
from benchmarks.sizing import PAGE as SIZING

PAGE = (Path(__file__).parents[1] / "docs" / "benchmarks.md").read_text()
SHORT = "What falls short of its aim, and what was tried"
SECTIONS = {"": PAGE.partition("\n## ")[0]} | dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


class Row(NamedTuple):
    section: str
    head: list[str]
    cells: list[str]


def rows() -> Iterator[Row]:
    """Of all tables that compare aggserver with something."""
    for section, text in SECTIONS.items():
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            head, _, *others = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
            if "aggserver" in head or "server" in head:
                yield from (Row(section, head, cells) for cells in others)


def test_there_is_something_to_look_at() -> None:
    measured = {
        "",
        "With etcd on both sides",
        "Growth",
        "Definitions",
        "Rules",
        "Conversion",
        "Admission",
        "Adoption",
        "Full lists",
        "Selectors",
        "Fairness",
    }
    assert {row.section for row in rows()} == measured


@pytest.mark.parametrize("section", sorted({row.section for row in rows()}))
def test_figures_name_their_commit(section: str) -> None:
    assert re.search(r"Commit `[0-9a-f]{7,}`, \d{4}-\d\d-\d\d", SECTIONS[section])


def test_one_command_measures_every_table_that_a_command_writes() -> None:
    written = re.findall(r"<!-- [^:]*: written by python -m (.*) --write-docs -->", PAGE + SIZING.read_text())
    assert sorted(written) == sorted(" ".join(command) for command in TABLES.values())


def shortfalls() -> Iterator[tuple[str, str]]:
    """(the work, the factor that is not in bold) of every row whose aim is said, in its table or under a heading."""
    for row in rows():
        if "factor" in row.head:
            factors = [row.cells[row.head.index("factor")]]
        elif row.section == "Growth" and row.cells[1] == "aggserver":
            factors = [cell for name, cell in zip(row.head, row.cells, strict=True) if name.startswith(("memory", "start"))]
        elif row.section == "Fairness" and row.cells[1] == "aggserver":
            factors = [row.cells[row.head.index("times")]]
        else:
            continue
        yield from ((row.cells[0].partition(",")[0], factor) for factor in factors if "**" not in factor)


def test_what_falls_short_is_listed_and_nothing_else() -> None:
    """A list that is older than its figures fails too."""
    listed = re.findall(r"^- \*\*(.*?)\*\*.*?\((\S+), aim ", SECTIONS[SHORT], re.MULTILINE)
    assert set(listed) == set(shortfalls())


def test_compiling_a_rule_is_listed_with_its_span() -> None:
    factors = [float(row.cells[-1].strip("*x")) for row in rows() if "compilation: cel-go" in row.head]
    span = f"takes {1 / max(factors):.1f} to {1 / min(factors):.1f} times as long as cel-go's"
    assert max(factors) < 1
    assert f"- **compiling a rule** {span}" in SECTIONS[SHORT]
