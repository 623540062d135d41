"""Which fields an expression needs."""

from __future__ import annotations

import pytest

from aggserver.cel.checker import Environment, check
from aggserver.cel.types import DYN
from aggserver.conversion.needed_fields import needed_fields

CASES = {
    "1": [],
    "self": [],
    "self.a": [".a"],
    "self.a.b + self.c": [".a.b", ".c"],
    "self.a.split(',')[0]": [".a"],
    "self.m['x.y'].z": ['.m["x.y"].z'],
    "self.l[0].a": [".l"],
    "self.x__dash__y": [".x-y"],
    "self.__in__": [".in"],
    "has(self.a)": [],
    "has(self.a.b)": [".a"],
    "has(self.a) ? self.a : 'x'": [],
    "self.a ? self.b : self.c": [".a"],
    "self.a || self.b": [],
    "self.a && self.b": [],
    "self.?a": [],
    "self.a.?b": [".a"],
    "self.?a.orValue(self.b)": [],
    "self.l.map(x, x + self.a)": [".l"],
    "self.l.exists(x, x.a == self.b)": [".l"],
    "[self.a, dyn({'k': self.b})]": [".a", ".b"],
    "self.?a.optMap(x, x + self.b)": [],
}


@pytest.mark.parametrize("text", CASES)
def test_needed_fields(text: str) -> None:
    checked = check(text, Environment({"self": DYN}))
    assert list(map(str, needed_fields(checked.expr))) == CASES[text]
