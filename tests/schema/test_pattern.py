from __future__ import annotations

import pytest

from aggserver.schema import pattern

# As Go 1.26's regexp.Compile has it.
CASES = {
    "^[a-z]+$": "",
    r"\pN(?P<n>a)(?<m>b)": "",
    r"a\Q+\E": "",
    "(?=a)b": "invalid or unsupported Perl syntax: `(?=`",
    "(?i": "invalid or unsupported Perl syntax: `(?i`",
    "[a": "missing closing ]: `[a`",
    "(a": "missing closing ): `(a`",
    "a)": "unexpected ): `a)`",
    "a**": "invalid nested repetition operator: `**`",
    "x{0,1000}{0,1000}": "invalid nested repetition operator: `{0,1000}{0,1000}`",
    "a{1001}": "invalid repeat count: `{1001}`",
    "((a{100}){100}){100}": "invalid repeat count: `{100}`",
    "*a": "missing argument to repetition operator: `*`",
    r"\1": r"invalid escape sequence: `\1`",
    r"\C": r"invalid escape sequence: `\C`",
    r"\\C": "",
    r"\p{Foo}": r"invalid character class range: `\p{Foo}`",
    "[z-a]": "invalid character class range: `z-a`",
    "(?P<>a)": "invalid named capture: `(?P<>`",
    "a\\": "trailing backslash at end of expression: ``",
}


@pytest.mark.parametrize(("text", "why"), CASES.items(), ids=CASES)
def test_error(text: str, why: str) -> None:
    assert pattern.error(text) == (f"error parsing regexp: {why}" if why else "")
