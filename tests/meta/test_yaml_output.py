from __future__ import annotations

from typing import Any

import pytest

from aggserver.meta import yaml_output, yaml_text

# As sigs.k8s.io/yaml v1.6.0 would be understood: each of these is text, and must stay so.
AMBIGUOUS = ["1e3", "y", "N", "no", "on", "0x1f", "0b1", "017", "1_000", "null", "~", "true", ".5", "+.inf", "-1", "12e03"]
AWKWARD = [
    "",
    " ",
    "a: b",
    "- x",
    "#x",
    " lead",
    "trail ",
    "\t",
    "1:30",
    "2020-01-01",
    "{",
    "é",
    "\u2028",
    "x\ny\n",
    "a\n  b",
    "\n",
]


@pytest.mark.parametrize("text", AMBIGUOUS + AWKWARD)
def test_text_stays_text(text: str) -> None:
    assert yaml_text.decode(yaml_output.encode({"a": [text], text: 1}))[0] == {"a": [text], text: 1}


FORMS: dict[str, tuple[Any, str]] = {
    "keys are sorted": ({"b": 1, "a": {"d": None, "c": True}}, "a:\n  c: true\n  d: null\nb: 1\n"),
    "lists are not indented": ({"a": [{"x": 1, "y": 2}, "z"]}, 'a:\n- x: 1\n  "y": 2\n- z\n'),
    "several lines are literal": ({"a": "x\ny\n"}, "a: |\n  x\n  y\n"),
    "empty": ({"a": {}, "b": []}, "a: {}\nb: []\n"),
    "quotes only where needed": ({"a": "5", "b": "five"}, 'a: "5"\nb: five\n'),
    "floats": ({"a": 2.5}, "a: 2.5\n"),
}


@pytest.mark.parametrize(("value", "wanted"), FORMS.values(), ids=FORMS)
def test_form(value: Any, wanted: str) -> None:
    assert yaml_output.encode(value) == wanted.encode()


def test_what_appears_twice_is_written_twice() -> None:
    shared = {"x": 1}
    assert yaml_output.encode({"a": shared, "b": shared}) == b"a:\n  x: 1\nb:\n  x: 1\n"
