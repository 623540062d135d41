"""Formats: texts that Go's parsers take and refuse, and which formats mean anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from aggserver.schema.formats import FORMATS, effective

TABLE = yaml.safe_load((Path(__file__).parents[1] / "cases" / "formats.yaml").read_text())


@pytest.mark.parametrize("name", TABLE)
def test_format(name: str) -> None:
    is_valid = FORMATS[name.replace("-", "")]
    assert [text for text in TABLE[name].get("good", ()) if not is_valid(text)] == []
    assert [text for text in TABLE[name].get("bad", ()) if is_valid(text)] == []


def test_every_format_is_in_the_table() -> None:
    assert {name.replace("-", "") for name in [*TABLE, "datetime"]} == FORMATS.keys()


MEANING = {
    "a format of strings": ("date-time", ("string",), "date-time"),
    "without a type": ("ipv4", (), "ipv4"),
    "of int-or-string": ("ipv4", ("integer", "string"), "ipv4"),
    "unheard of": ("colour", ("string",), ""),
    "of integers": ("int32", ("integer",), "int32"),
    "of integers, for numbers": ("int32", ("number",), ""),
    "of integers, for strings": ("int32", ("string",), ""),
    "of strings, for integers": ("ipv4", ("integer",), ""),
    "of numbers": ("double", ("number",), "double"),
    "for a type that has none": ("date", ("object",), ""),
    "none": ("", ("string",), ""),
}


@pytest.mark.parametrize("name", MEANING)
def test_meaning(name: str) -> None:
    format_, types, expected = MEANING[name]
    assert effective(format_, types) == expected


# Texts as long as a body allows, which take minutes if any part of them is read again for each of its characters.
LONG = {
    "digits without a unit": ("duration", "1" * 300_000, False),
    "digits and spaces without a unit": ("duration", "1 " * 150_000, False),
    "many digits with a unit": ("duration", "1" * 300_000 + "wk", False),
    "many lengths": ("duration", "1ms" * 100_000, True),
    "many lengths as Scala writes them": ("duration", "1 day " * 50_000, True),
    "comments": ("email", "name " + "(c) " * 70_000 + "<a@b>", True),
    "words": ("email", "name " * 60_000 + "<a@b>", True),
    "a group": ("email", "name: " + "a@b, " * 60_000 + ";", False),
    "nested comments": ("email", "a@b" + "(" * 100_000 + ")" * 100_000, True),
}


@pytest.mark.parametrize(("name", "text", "is_valid"), LONG.values(), ids=LONG)
def test_long_texts(name: str, text: str, is_valid: bool) -> None:
    assert FORMATS[name](text) is is_valid
