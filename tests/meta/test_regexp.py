"""Patterns: Go's syntax, meaning and words."""

from __future__ import annotations

import pytest

from aggserver.meta.regexp import PatternError, finder, matcher

MATCHES = {
    "anywhere": ("b", "abc", True),
    "nothing": ("", "", True),
    "anchored": ("^a$", "a\n", False),
    "the end": (r"a\z", "a", True),
    "digits are ASCII": (r"^\d$", "٣", False),
    "letters of any script": (r"^\pL+$", "é", True),
    "a character is not a byte": ("^.$", "☃", True),
    "long texts": ("a$", "b" * 100 + "a", True),
    "case": ("(?i)^ABC$", "abc", True),
    "names": ("(?P<first>a)(?<second>b)", "ab", True),
}


@pytest.mark.parametrize("name", MATCHES)
def test_matches(name: str) -> None:
    pattern, text, expected = MATCHES[name]
    assert matcher(pattern)(text) is expected


# The words of Go's regexp.Compile.
REFUSED = {
    "[a": "missing closing ]: `[a`",
    "(a": "missing closing ): `(a`",
    "a)": "unexpected ): `a)`",
    "*a": "missing argument to repetition operator: `*`",
    "a**": "invalid nested repetition operator: `**`",
    "a{1001}": "invalid repeat count: `{1001}`",
    "(?=a)": "invalid or unsupported Perl syntax: `(?=`",
    r"(a)\1": r"invalid escape sequence: `\1`",
    "\\": "trailing backslash at end of expression: ``",
    "(?P<a": "invalid named capture: `(?P<a`",
    "[b-a]": "invalid character class range: `b-a`",
    r"\C": r"invalid escape sequence: `\C`",
    r"\Z": r"invalid escape sequence: `\Z`",
    "[[:foo:]]": "invalid character class range: `[:foo:]`",
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_refused(pattern: str) -> None:
    with pytest.raises(PatternError) as error:
        matcher(pattern)
    assert str(error.value) == f"error parsing regexp: {REFUSED[pattern]}"


FINDINGS = {
    "all": ("b+", "abbcb", -1, ["bb", "b"]),
    "some": ("b", "bbb", 2, ["b", "b"]),
    "none wanted": ("b", "bbb", 0, []),
    "nothing": ("x", "abc", -1, []),
    "empty ones, but not behind a match": ("a*", "baaau", -1, ["", "aaa", ""]),
    "not within a character": ("", "é", -1, ["", ""]),
    "characters": (".", "é☃", -1, ["é", "☃"]),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_finder(name: str) -> None:
    pattern, text, count, expected = FINDINGS[name]
    assert finder(pattern)(text, count) == expected
