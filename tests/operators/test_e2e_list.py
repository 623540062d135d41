"""The list of end-to-end specs is whole. `make operators` runs them, on both servers."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.operators import e2e_suite

LISTED = e2e_suite.listed()


def test_each_spec_is_listed_once_below_its_area() -> None:
    read = yaml.safe_load(e2e_suite.LIST.read_text())
    names = [name for part in read.values() for listed in part.values() for name in listed]
    assert len(names) == len(set(names)) == len(LISTED.all)
    assert all(name.startswith(f"[{area}]") for area, listed in read["passing"].items() for name in listed)
    assert all(re.match(r"\[sig-[a-z-]+\] ", name) for name in names)


# A list with less has lost something.
AT_LEAST = 250


def test_nothing_is_lost() -> None:
    assert len(LISTED.all) >= AT_LEAST


@pytest.mark.parametrize(
    ("name", "matches", "others"),
    [
        (
            "[sig-a] b (c) should $d",
            "Kubernetes e2e suite [sig-a] b (c) should $d",
            "Kubernetes e2e suite [sig-a] b (c) should $d e",
        ),
        ("[sig-a] b.c", "suite [sig-a] b.c", "suite [sig-a] bxc"),
        ("[sig-a] b", "[sig-a] b", "[sig-a] [sig-a] bb"),
    ],
)
def test_a_pattern_matches_one_spec(name: str, matches: str, others: str) -> None:
    pattern = e2e_suite.pattern([name, "other"])
    assert re.search(pattern, matches)
    assert not re.search(pattern, others)
