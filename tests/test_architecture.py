"""docs/architecture.md names what exists, and all that exists. Links of pages, and modules named in comments, exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_layers import LAYERS, PURE, ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
FOLDERS = set(re.findall(r"`([\w./-]+)/`", PAGE))


def top_level() -> Iterator[str]:
    """The folders of the repository. What is made there by tools is in .gitignore, as is .git itself here."""
    made = {".git", *re.findall(r"^/?([\w.-]+)/$", (ROOT / ".gitignore").read_text(), re.MULTILINE)}
    return (path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in made)


def packages() -> Iterator[str]:
    for path in (ROOT / "aggserver").rglob("*"):
        if path.is_dir() and any(path.glob("*.py")):
            yield path.relative_to(ROOT).as_posix()


def test_each_folder_is_named() -> None:
    assert {*top_level(), *packages()} - FOLDERS == set()


def test_each_named_folder_exists() -> None:
    assert {name for name in FOLDERS if not (ROOT / name).is_dir()} == set()


def test_each_named_file_exists() -> None:
    linked = {ROOT / "docs" / target for target in re.findall(r"\]\(([^)#:]+)\)", PAGE)}
    named = {ROOT / name for name in re.findall(r"`(tests/[\w./]+\.py)`", PAGE)}
    named |= {ROOT / "aggserver" / name for name in re.findall(r"`(?!tests/)([\w/]+\.py)`", PAGE)}
    assert {str(path) for path in linked | named if not path.exists()} == set()
    assert len(linked) > 20


def test_the_layers_are_those_of_the_contract() -> None:
    block = re.search(r"```text\n(__main__\n.*?)```", PAGE, re.DOTALL)
    assert block is not None
    assert block[1].splitlines() == [" | ".join(row) for row in LAYERS]


def test_the_pure_packages_are_those_of_the_contract() -> None:
    sentence = re.search(r"## What is pure\n\n(.*?) are pure", PAGE)
    assert sentence is not None
    packages = {name.removeprefix("aggserver.") for name in PURE if Path(ROOT / name.replace(".", "/")).is_dir()}
    assert set(re.findall(r"`(\w+)`", sentence[1])) == packages


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("certs/*.md")]), ids=lambda page: page.name
)
def test_links_lead_somewhere(page: Path) -> None:
    """Of all pages: files are moved more often than pages are read."""
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    assert {target for target in targets if not (page.parent / target).exists()} == set()


def test_comments_name_modules_that_exist() -> None:
    """`module.py` of the same package, or of another one: `package/module.py`."""
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "aggserver").rglob("*.py"))
        for name in re.findall(r"`([\w./]+\.py)`", path.read_text())
        if not any((folder / name).exists() for folder in path.parents if folder.is_relative_to(ROOT))
    ]
    assert missing == []
