from __future__ import annotations

from collections.abc import Iterator
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
    "floats": ({"a": 2.5, "b": 1e21, "c": 1234567.5, "d": 1e-7}, "a: 2.5\nb: 1e+21\nc: 1.2345675e+06\nd: 1e-07\n"),
    "times and empty text are quoted": ({"a": "2026-01-02T03:04:05Z", "b": ""}, 'a: "2026-01-02T03:04:05Z"\nb: ""\n'),
    "a leap day of the year 0": ({"a": "0000-02-29", "b": "1900-02-29"}, 'a: "0000-02-29"\nb: 1900-02-29\n'),
    "what looks like a time and is none": (
        {"a": "2026-02-30", "b": "2026-13-01T00:00:00Z"},
        "a: 2026-02-30\nb: 2026-13-01T00:00:00Z\n",
    ),
    "a long number": ({"a": "1" * 50, "b": "0x" + "f" * 50}, f'a: "{"1" * 50}"\nb: 0x{"f" * 50}\n'),
    "base 60": ({"a": "1:30", "b": "1:60"}, 'a: "1:30"\nb: 1:60\n'),
    "signs of YAML": ({"a": "a: b", "b": "- x", "c": "#x", "d": "it's: so"}, "a: 'a: b'\nb: '- x'\nc: '#x'\nd: 'it''s: so'\n"),
    "signs of YAML that need no quotes": ({"a": "a:b", "b": "-x", "c": "x#y", "d": "it's"}, "a: a:b\nb: -x\nc: x#y\nd: it's\n"),
    "escapes": ({"a": '\t\r"', "b": "\x85\U0001f600"}, 'a: "\\t\\r\\""\nb: "\\N\\U0001F600"\n'),
    "natural order": ({"a10": 1, "a2": 2, "_": 3, "B": 4, "a": 5, "a02": 6}, "_: 3\nB: 4\na: 5\na2: 2\na02: 6\na10: 1\n"),
    "lists in lists": ({"a": [[1, [2, 3]], [], [{}]]}, "a:\n- - 1\n  - - 2\n    - 3\n- []\n- - {}\n"),
    "text without an end of line": ({"a": "x\ny", "b": ["x\n\n"]}, "a: |-\n  x\n  y\nb:\n- |+\n  x\n\n"),
    "text that begins with a space": ({"a": " x\ny\n"}, "a: |2\n   x\n  y\n"),
    "text that no block can show": ({"a": "x \ny", "b": "x\n "}, 'a: "x \\ny"\nb: "x\\n "\n'),
    "keys of several lines": ({"a\nb": {"c": [1]}}, "? |-\n  a\n  b\n: c:\n  - 1\n"),
    "long keys": ({"k" * 129: [{"a": "x"}]}, f"? {'k' * 129}\n: - a: x\n"),
    "long lines": (
        {"a": "word " * 17 + "end", "b": {"c": "it's: " + "word " * 17 + "end"}},
        f"a: {'word ' * 15}word\n  word end\nb:\n  c: 'it''s: {'word ' * 13}word\n    {'word ' * 3}end'\n",
    ),
    "long lines in double quotes": ({"a": "\t" + "word  " * 14 + "end"}, f'a: "\\t{"word  " * 12}word\n  \\ word  end"\n'),
    "several long lines": (
        {"a": {"b": "abc " * 50 + "end"}},
        f"a:\n  b: {'abc ' * 19}abc\n    {'abc ' * 19}abc\n    {'abc ' * 10}end\n",
    ),
    "text alone": ("a: b", "'a: b'\n"),
    "nothing": (None, "null\n"),
}


@pytest.mark.parametrize(("value", "wanted"), FORMS.values(), ids=FORMS)
def test_form(value: Any, wanted: str) -> None:
    assert yaml_output.encode(value) == wanted.encode()


def test_what_appears_twice_is_written_twice() -> None:
    shared = {"x": 1}
    assert yaml_output.encode({"a": shared, "b": shared}) == b"a:\n  x: 1\nb:\n  x: 1\n"


def test_a_list_is_asked_for_its_items_as_they_are_due() -> None:
    given: list[int] = []

    def items() -> Iterator[Any]:
        for number in range(2000):
            given.append(number)
            yield {"name": f"item-{number}", "text": "x" * 100}

    pieces = yaml_output.pieces({"a": 1, "items": items(), "kind": "List"})
    first = next(pieces)
    assert first.startswith(b"a: 1\nitems:\n- name: item-0\n")
    assert len(given) < 400
    whole = first + b"".join(pieces)
    assert yaml_text.decode(whole)[0] == {
        "a": 1,
        "items": [{"name": f"item-{number}", "text": "x" * 100} for number in range(2000)],
        "kind": "List",
    }


def test_an_iterator_without_items_is_an_empty_list() -> None:
    assert yaml_output.encode({"items": iter(())}) == b"items: []\n"


@pytest.mark.parametrize(
    "value",
    [["x" * 100] * 5000, [1] * 200_000, {f"k{n}": {"a": [None]} for n in range(20_000)}],
    ids=["texts", "numbers", "maps"],
)
def test_pieces_are_small(value: Any) -> None:
    sizes = [len(piece) for piece in yaml_output.pieces(value)]
    assert len(sizes) > 10
    assert max(sizes) < 64 * 1024
