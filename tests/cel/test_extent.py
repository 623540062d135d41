"""How large values are once they stand alone, though a list of CEL may have the same list in it many times."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.cel.checker import Environment, check
from aggserver.cel.extent import extent
from aggserver.cel.program import compile_program
from aggserver.cel.runtime_cost import weight
from aggserver.cel.types import DYN
from aggserver.cel.values import NONE, CostExceeded, Optional
from aggserver.meta import codec
from tests.fakes.work import instructions

MOST = 10_000
WITH_ITSELF: list[Any] = [1]
for _ in range(40):
    WITH_ITSELF = [WITH_ITSELF, WITH_ITSELF]
VALUES: dict[str, tuple[Any, int]] = {
    # name: (a value, its elements)
    "null": (None, 1),
    "a number": (12, 1),
    "a text": ("abc", 1),
    "a text beyond ASCII": ("äöü", 1),
    "a list": ([1, [2, "x"], {"k": [3]}], 8),
    "an object": ({"a": {}, "b": []}, 3),
    "an optional": (Optional(3), 1),
    "none": (NONE, 1),
}


@pytest.mark.parametrize("name", VALUES)
def test_extents(name: str) -> None:
    value, elements = VALUES[name]
    found = extent(value, MOST)
    assert found.elements == elements
    if not isinstance(value, Optional):
        # At least what it has as JSON, but for colons, the quotes of keys and the digits of numbers.
        assert 0 < found.bytes <= len(codec.encode_json(value)) + 2 * elements


LARGE = {
    "itself": WITH_ITSELF,
    "a long list": list(range(20_000)),
    "a long text": "x" * 20_000,
    "long keys": {"x" * 20_000: 1},
    "one text many times": ["x" * 100] * 1000,
    "one list many times": [[0] * 100] * 1000,
}


@pytest.mark.parametrize("name", LARGE)
def test_nothing_is_gone_through_beyond_the_bound(name: str) -> None:
    assert extent(LARGE[name], MOST).bytes > MOST
    assert instructions(lambda: extent(LARGE[name], MOST)) < 100 * MOST
    assert instructions(lambda: weight(WITH_ITSELF, MOST)) < 100 * MOST


def test_it_stops_at_a_number_of_elements() -> None:
    assert extent([0] * 5000, MOST**2, 100).elements > 100
    assert instructions(lambda: extent([[0] * 100] * 1000, MOST**2, 2000)) < 100_000


def test_what_is_in_a_value_is_opened() -> None:
    class Closed:
        inner = ["abc"] * 10

    assert extent([Closed()], MOST).elements == 2
    opened = extent([Closed()], MOST, opened=lambda value: value.inner if isinstance(value, Closed) else value)
    assert opened.elements == 12


ENDLESS = {
    "a comparison": "l4 == l4",
    "a format": "'%s'.format([l4])",
    "a search": "l4 in [l4]",
    "many texts": "'%s%s'.format([[text, text, text, text], [text]])",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_expressions_about_such_values_end(name: str) -> None:
    source = ENDLESS[name]
    for depth in (4, 3, 2):
        source = f"[l.map(x, l{depth - 1})].map(l{depth}, {source})[0]"
    source = f"[l.map(x, l)].map(l1, {source})[0]"
    program = compile_program(check(source, Environment({"l": DYN, "text": DYN})))
    given = {"l": list(range(1000)), "text": "x" * 1_000_000}
    with pytest.raises(CostExceeded):
        program(given, 1_000_000)
