"""Texts of YAML as kube-apiserver's protobuf of OpenAPI has them; test_same_openapi.py asks it for such texts."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.publish.gnostic_yaml import encode

TEXTS = {
    # text: as a value
    "plain": "plain",
    "a b": "a b",
    "yes": "yes",
    "-a": "-a",
    "a:b": "a:b",
    "a#b": "a#b",
    "<<": "<<",
    "2001-13-01": "2001-13-01",
    "12:30:45": "12:30:45",
    "é": "é",
    "": '""',
    "~": '"~"',
    "null": '"null"',
    "true": '"true"',
    "-.inf": '"-.inf"',
    "1": '"1"',
    "1_000": '"1_000"',
    "1.": '"1."',
    ".5": '".5"',
    "1e3": '"1e3"',
    "0x1f": '"0x1f"',
    "0o7": '"0o7"',
    "2001-01-01": '"2001-01-01"',
    "2001-1-1T1:1:1Z": '"2001-1-1T1:1:1Z"',
    "a\tb": '"a\\tb"',
    "😀": '"\\U0001F600"',
    "a \nb": '"a \\nb"',
    "- a": "'- a'",
    "a: b": "'a: b'",
    "a #b": "'a #b'",
    " a": "' a'",
    "a ": "'a '",
    "'a'": "'''a'''",
    "@a": "'@a'",
    "---": "'---'",
    "[a]": "'[a]'",
    "a\nb": "|-\n    a\n    b",
    "a\nb\n": "|\n    a\n    b",
    "a\n\n": "|+\n    a\n",
    " a\nb": "|4-\n     a\n    b",
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text: str) -> None:
    assert encode(text) == f"{TEXTS[text]}\n"


VALUES: dict[str, tuple[Any, str]] = {
    "numbers": ([1, 1.5, 1e21, -3], "- 1\n- 1.5\n- 1e+21\n- -3\n"),
    "words": ([True, None], "- true\n- null\n"),
    "nothing in it": ({"a": {}, "b": []}, "a: {}\nb: []\n"),
    "a list of objects": ([{"a": 1, "b": 2}], "- a: 1\n  b: 2\n"),
    "a list in a list": ([[1, 2]], "- - 1\n  - 2\n"),
    "a list in an object": ({"a": [1]}, "a:\n    - 1\n"),
    "an object in an object": ({"a": {"b": 1}}, "a:\n    b: 1\n"),
    "objects in lists in objects": ([{"a": {"b": [{"c": {"d": 1}}]}}], "- a:\n    b:\n        - c:\n            d: 1\n"),
    "lines in an object in a list": ([{"a": "b\nc"}], "- a: |-\n    b\n    c\n"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    value, text = VALUES[name]
    assert encode(value) == text


def test_long_lines_are_not_broken() -> None:
    assert encode("word " * 60 + "x") == "word " * 60 + "x\n"
