"""docs/glossary.md: our own words are used where it says, and a class that others import has a name of its own."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import pytest

from tests.test_layers import ROOT

_ROWS = re.findall(r"^\| ([\w, ]+) \| .+ \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)[1:]

# Names that several modules have, and why.
SHARED = {
    "Attributes": "upstream's word in both: of a request for authorization, and for admission",
    "Authorizer": "the interface, and CEL's type of that name",
    "Column": "of a table that is served, and what users declare, which is a public name",
    "Conflict": "what a store says, and what users' functions raise, which is a public name",
    "Decision": "the interface's answer, and CEL's type of that name",
    "Environment": "CEL's word for what an expression may name, and what the stores of a server share",
    "Event": "a change in a store, and what users' watches tell, which is a public name",
    "FieldError": "the core's, and what users' hooks yield, which is a public name",
    "Finding": "what a check of conversions finds, and what `aggserver doctor` does",
    "Invalid": "CEL's invalid value, and what users' functions raise, which is a public name",
    "NotFound": "what a store says, and what users' functions raise, which is a public name",
    "Page": "of a store's list, and of a source's, which is a public name",
    "Quantity": "the number, and the type of users' fields, which is a public name",
    "Request": "the HTTP request, and what users' functions get, which is a public name",
    "Sample": "objects that a plan looks at, and a number of a metric, which is a public name",
    "Server": "the one that serves, and the one of the tests of others, whose name is public",
    "Unavailable": "what a store says, and what users' functions raise, which is a public name",
    "Type": "of CEL, and of Go",
}


@pytest.mark.parametrize(("words", "where"), _ROWS, ids=[words for words, _ in _ROWS])
def test_a_word_is_used_where_the_page_says(words: str, where: str) -> None:
    texts = [(ROOT / "docs" / link).read_text().lower() for link in re.findall(r"\]\(([^)]+)\)", where)]
    assert texts
    for word in words.split(", "):
        assert all(re.search(rf"\b{word}", text) for text in texts), word


def test_the_page_has_rows() -> None:
    assert len(_ROWS) > 15


def test_a_class_has_a_name_of_its_own() -> None:
    modules = defaultdict(set)
    for path in sorted((ROOT / "aggserver").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].add(str(path.relative_to(ROOT / "aggserver")))
    assert {name: where for name, where in modules.items() if len(where) > 1 and name not in SHARED} == {}
    assert {name for name in SHARED if len(modules[name]) < 2} == set(), "no longer shared"
