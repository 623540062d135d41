"""The documentation as a site: links to code, and that each page is in the navigation. `make docs` checks all the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.site.links import rewritten

DOCS = Path(__file__).parents[1] / "docs"
REPOSITORY = "https://git.example.com/aggserver/"

LINKS = {
    # name: (page, link, on the site)
    "code": ("a.md", "[x](../aggserver/cli.py)", "[x](https://git.example.com/aggserver/blob/main/aggserver/cli.py)"),
    "a folder": ("a.md", "[`x`](../aggserver)", "[`x`](https://git.example.com/aggserver/tree/main/aggserver)"),
    "an anchor": (
        "a.md",
        "[x](../README.md#two-commands)",
        "[x](https://git.example.com/aggserver/blob/main/README.md#two-commands)",
    ),
    "of a page in a folder": ("in/a.md", "[x](../../README.md)", "[x](https://git.example.com/aggserver/blob/main/README.md)"),
    "between pages": ("in/a.md", "[x](../cel.md)", "[x](../cel.md)"),
    "beside": ("a.md", "[x](cel.md)", "[x](cel.md)"),
    "to nothing": ("a.md", "[x](../aggserver/none.py)", "[x](../aggserver/none.py)"),
    "out of the repository": ("a.md", "[x](../../etc/passwd)", "[x](../../etc/passwd)"),
}


@pytest.mark.parametrize("name", LINKS)
def test_links_to_files_outside_of_the_pages(name: str) -> None:
    page, given, expected = LINKS[name]
    assert rewritten(f"See {given}.", page, REPOSITORY) == f"See {expected}."


def test_without_a_repository_they_are_text() -> None:
    assert rewritten("See [`cli.py`](../aggserver/cli.py).", "a.md", "") == "See `cli.py`."


class _Loader(yaml.SafeLoader):
    pass


_Loader.add_multi_constructor("", lambda loader, suffix, node: None)


def _pages(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in _pages(part)]


def test_each_page_is_in_the_navigation_once() -> None:
    config = yaml.load((DOCS.parent / "mkdocs.yml").read_text(), _Loader)
    assert sorted(_pages(config["nav"])) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
