"""What users send is matched by RE2, by a scanner, or by a pattern of `re` that has one way only to take a text.

Python's `re` goes back: a pattern with two repeats that can take the same characters needs time quadratic in the text or worse,
and keeps the interpreter's lock meanwhile. Every pattern in the package is read here from the source, and its automaton is looked
at. For those that are ambiguous there must be a reason why no text makes them slow.
"""

from __future__ import annotations

import re

import pytest

from tests.growth.patterns import Unreadable, Use, is_ambiguous, uses

_OPERATORS = "it reads what the operator or the server itself has written, no requests"
# place: why the pattern is allowed though it is ambiguous, or more than an automaton can tell.
ALLOWED = {
    "aggserver/authentication/jws.py: _PEM": _OPERATORS,
    "aggserver/authentication/x509.py: PEM_CERTIFICATE": _OPERATORS,
    "aggserver/cel/declarations.py: _LINE": _OPERATORS,
    "aggserver/options/reading.py: SERVICE_LINK": _OPERATORS,
    "aggserver/testing/server.py: _READY": _OPERATORS,
    "aggserver/cel/lexer.py: _TOKEN": "each place has a token, so nothing is searched for; what is in quotes without an end is "
    "read again once for each kind of quotes, since the next quotes of the same kind would be its end",
    "aggserver/meta/duration.py: _LENGTH": "a match begins only where no digit precedes, and no repeat gives back",
    "aggserver/meta/jsonpath.py: _COMPARISON": "the last repeat takes any text, so the first way is taken",
    "aggserver/meta/regexp.py: _ANY_BYTE": "a match begins only where no backslash precedes",
    "aggserver/schema/constructs.py: _PARTS": "each place has a token, so nothing is searched for; only one quote has no end",
    "aggserver/schema/formats.py: _LEADING_ZEROS": "a match begins only where no digit precedes",
}


def test_every_pattern_is_linear_or_allowed() -> None:
    found = list(uses())
    assert len(found) > 100
    ambiguous = {use.place: use.pattern for use in found if not _is_linear(use)}
    assert ambiguous.keys() - ALLOWED.keys() == set(), "rewrite them with possessive repeats, as a scanner, or tell the reason"
    assert ALLOWED.keys() - ambiguous.keys() == set(), "these need no reason any more"


def _is_linear(use: Use) -> bool:
    try:
        return not is_ambiguous(use)
    except Unreadable:
        return False


FULL, MATCH, SEARCH = "fullmatch", "match", "search"
# (pattern, method, whether there are ever more ways)
AUTOMATA = {
    "one repeat": ("[0-9]+", FULL, False),
    "two repeats of the same": ("[0-9]+[0-9]*", FULL, True),
    "a missing point": (r"[0-9]+\.?[0-9]*", FULL, True),
    "a point": (r"[0-9]+\.[0-9]*", FULL, False),
    "far apart": ("a*(?:b?c?)*a*", FULL, True),
    "within a repeat": ("(?:a+)+", FULL, True),
    "within a repeat, told apart": ("(?:a+b)+", FULL, False),
    "the same in two branches": ("(?:a|b)*(?:b|c)*", FULL, True),
    "two ways of a round": ("(?:ab|a|b)*", FULL, True),
    "possessive": (r"[0-9]++\.?[0-9]*", FULL, False),
    "possessive and before another": ("[a-f]*+[0-9a-f]*", FULL, False),
    "possessive, and shared all the same": ("[a-f]*+[0-9]*[0-9a-f]*", FULL, True),
    "lazy": (".*?a.*?b", FULL, True),
    "classes that overlap": (r"\w+[-a]*", FULL, True),
    "classes that don't": (r"\w+[-.]*", FULL, False),
    "a limit": ("[0-9]{1,19}[0-9]*", FULL, False),
    "regardless of case": ("(?i)a*A*", FULL, True),
    "any character": ("(?s)a.*\\n*", FULL, True),
    "any character but line breaks": ("a.*\\n*", FULL, False),
    "a round in one or two": ("(?:a?b?)*", FULL, True),
    "nothing fails after the last": ("a*b*", MATCH, False),
    "something fails after the last": ("a*a*b", MATCH, True),
    "a search for a repeat": ("a+", SEARCH, False),
    "a search for what follows a repeat": ("a+b", SEARCH, True),
    "a search for quotes": ('"[^"]*"', SEARCH, False),
    "a search for brackets": (r"\[[^]]*\]", SEARCH, True),
}


@pytest.mark.parametrize(("pattern", "method", "ambiguous"), AUTOMATA.values(), ids=AUTOMATA)
def test_ambiguity(pattern: str, method: str, ambiguous: bool) -> None:
    assert is_ambiguous(Use("", pattern, 0, frozenset({method}))) is ambiguous


# The patterns of the tree that users could make quadratic or worse.
OLD = (
    r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)",
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+",
)


@pytest.mark.parametrize("pattern", OLD)
def test_what_was_slow_is_found(pattern: str) -> None:
    assert is_ambiguous(Use("", pattern, re.ASCII, frozenset({FULL})))
    assert is_ambiguous(Use("", r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)", 0, frozenset({"findall"})))
