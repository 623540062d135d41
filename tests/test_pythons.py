"""What differs between the Pythons that we run on, as far as any of them can check it; `make pythons` runs the tests on each."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from tests.kind.images import PYTHON_SUITES

REPOSITORY = Path(__file__).parents[1]


def test_nothing_is_raised_within_except_star() -> None:
    """In Debian 12's Python 3.11.2 it comes out in a group, which no `except` for it catches; later ones raise it as it is."""
    handled = 0
    for path in (REPOSITORY / "aggserver").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.TryStar):
                handled += 1
                raising = [each.lineno for handler in node.handlers for each in ast.walk(handler) if isinstance(each, ast.Raise)]
                assert raising == [], f"{path}: keep it, and raise it after the `try`"
    assert handled


def test_what_is_declared_is_what_is_tested() -> None:
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    classifiers = {found[1] for each in declared["classifiers"] if (found := re.search(r"Python :: (3\.\d+)$", each))}
    assert set(PYTHON_SUITES) - classifiers == set()
    assert declared["requires-python"] == f">={min(PYTHON_SUITES)}"
