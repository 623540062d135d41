"""Bad input: whatever the text is, an expression, an error with its place, or a value or error within the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggserver.cel import conversions, times
from aggserver.cel.checker import Environment, check
from aggserver.cel.cost import estimate
from aggserver.cel.errors import CompileError
from aggserver.cel.program import ProgramError, compile_program
from aggserver.cel.types import DYN, INT, STRING, list_of, map_of
from aggserver.cel.values import CELError, CostExceeded, Duration, EvaluationError, Uint
from tests.cel.environment import ENVIRONMENT, Sizes
from tests.cel.expressions import PIECES, Expressions, mutated

_TIME = times.parse_timestamp("2024-02-29T12:34:56.789Z")
_VARIABLES = {
    "s": "héllo wörld",
    "i": 3,
    "u": Uint(4),
    "f": 2.5,
    "b": True,
    "by": b"b\xfftes",
    "t": _TIME,
    "du": Duration(90 * 10**9),
    "l": ["a", "bb", "ccc"],
    "li": [3, 1, 2],
    "ll": [[1, 2], [], [3]],
    "m": {"x": 1},
    "ms": {"x": "y"},
    "a.b.c": 11,
    "d": {"k": 1, "n": None, "l": [1, "two", 3.0], "s": "text"},
    "ld": [1, "x", None, 2.5, True, [1]],
    "o": {
        "a": 5,
        "b": "name",
        "l": ["p", "qq"],
        "m": {"k": "v"},
        "p": {"x": 7, "t": _TIME},
        "d": "5%",
        "lo": [{"k": "one", "v": [1, 2]}, {"k": "two"}],
    },
}
_BUDGET = 20_000
_MAP = Environment({"m": map_of(DYN, STRING)})
_RANDOMS = st.integers(0, 2**64).map(Random)


def _outcome(source: str) -> str:
    """What it comes to: an error that says what is wrong, or how the evaluation ended. Anything else is raised."""
    try:
        checked = check(source, ENVIRONMENT)
    except CompileError as error:
        return _placed(str(error), source)
    least, most = estimate(checked, Sizes())
    assert 0 <= least <= most or least == 0, source
    try:
        value, cost = compile_program(checked)(_VARIABLES, _BUDGET)
    except ProgramError as error:
        return str(error)
    except CostExceeded as error:
        return str(error)
    except CELError as error:
        said, cost = str(error), error.cost
    else:
        said = type(value).__name__
    assert cost <= _BUDGET, source
    return said


def _placed(error: str, source: str) -> str:
    assert error.startswith("ERROR: <input>:"), source
    return error


@given(_RANDOMS)
def test_any_expression_ends(random: Random) -> None:
    _outcome(Expressions(random, wrong=0.1).expression(random.randint(1, 4)))


@given(_RANDOMS)
def test_what_is_nearly_an_expression_ends(random: Random) -> None:
    _outcome(mutated(random, Expressions(random, wrong=0.05).expression(2)))


@given(st.one_of(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.text(max_size=40), st.binary(max_size=40)))
def test_any_text_ends(source: str | bytes) -> None:
    _outcome(source if isinstance(source, str) else source.decode("utf-8", "surrogateescape"))


_TOO_DEEP = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
_TOO_DEEP_TREE = "ERROR: <input>:-1:0: max recursion depth exceeded"
_ENDLESS = "ERROR: <input>:-1:0: error recovery token lookahead limit exceeded: 256"


def _nested(count: int, open_: str, inner: str, close: str) -> str:
    return open_ * count + inner + close * count


def _macros(macro: str, count: int, last: str) -> str:
    return "".join(f"li.{macro}(x{number}, " for number in range(count)) + last + ")" * count


HOSTILE: Mapping[str, tuple[Callable[[], str], str]] = {
    "parentheses": (lambda: _nested(1000, "(", "1", ")"), _TOO_DEEP),
    "brackets": (lambda: _nested(1000, "[", "1", "]"), _TOO_DEEP),
    "braces": (lambda: _nested(1000, "{1: ", "1", "}"), _TOO_DEEP),
    "parentheses that don't end": (lambda: "(" * 1000, _TOO_DEEP),
    "not": (lambda: "!" * 1000 + "true", "bool"),
    "minus": (lambda: "-" * 1001 + "i", "int"),
    "members": (lambda: "d" + ".a" * 1000, _TOO_DEEP_TREE),
    "indexes": (lambda: "d" + "[0]" * 1000, _TOO_DEEP_TREE),
    "optional members": (lambda: "d" + ".?a" * 1000, _TOO_DEEP_TREE),
    "conditionals": (lambda: "b ? 1 : " * 1000 + "2", _TOO_DEEP),
    "terms": (lambda: " && ".join(["b"] * 10_000), "bool"),
    "all within all": (lambda: _macros("all", 50, "true"), str(CostExceeded())),
    "exists within exists": (lambda: _macros("exists", 50, "1 / 0 > 0"), str(CostExceeded())),
    "map within map": (lambda: _macros("map", 50, "1"), str(CostExceeded())),
    "macros too deep": (lambda: _macros("all", 250, "true"), _TOO_DEEP),
    "100 KB of a string": (lambda: f"'{'x' * 99_998}'", "str"),
    "100 KB of names": (lambda: "a " * 50_000, _ENDLESS),
    "100 KB of numbers in a list": (lambda: f"[{','.join('1' * 49_999)}]", "list"),
    "100 KB of white space": (lambda: " " * 99_999 + "1", "int"),
    "more than 100 KB": (lambda: " " * 100_000 + "1", "expression code point size exceeds limit: size: 100001, limit 100000"),
    "a comment that is all": (lambda: "//" + "x" * 90_000, "mismatched input '<EOF>'"),
    "a large int": (lambda: "9" * 5000, "invalid int literal"),
    "a large int in a conversion": (lambda: f"int('{'9' * 50_000}')", "type conversion error from 'string' to 'int'"),
    "a large hexadecimal int": (lambda: "0x" + "f" * 5000, "invalid int literal"),
    "a large uint": (lambda: "9" * 5000 + "u", "invalid uint literal"),
    "a large double": (lambda: "1e400", "invalid double literal"),
    "a large exponent": (lambda: "1e" + "9" * 5000, "invalid double literal"),
    "a double with many digits": (lambda: "0." + "1" * 50_000, "float"),
    "bytes with many escapes": (lambda: "b'" + "\\x00" * 20_000 + "'", "bytes"),
    "a lone surrogate": (lambda: "'\ud800'", "str"),
    "a lone surrogate outside of strings": (lambda: "a\udfff", "token recognition error"),
    "a lone surrogate as bytes": (lambda: "b'\ud800'", "bytes"),
    "what is no UTF-8": (lambda: b"'\xff\xfe'".decode("utf-8", "surrogateescape"), "str"),
    "NUL": (lambda: "1 + \x00", "token recognition error at: '\x00'"),
    "NUL in a string": (lambda: "'\x00'", "str"),
    "a pattern that repeats": (lambda: "s.matches('" + "(" * 500 + "a" + "){1000}" * 500 + "')", "invalid matches argument"),
    "a format of many clauses": (lambda: "'" + "%s" * 30_000 + "'.format([s])", "index 1 out of range"),
    "a range": (lambda: "lists.range(9223372036854775807)", str(CostExceeded())),
    "a depth of flattening": (lambda: "ll.flatten(9223372036854775807)", str(CostExceeded())),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile(case: str) -> None:
    source, expected = HOSTILE[case]
    assert expected in _outcome(source())


# Each round costs a few units, by upstream's figures that count neither.
UNCOUNTED = {
    "what is within others is compared": "lists.range(1000).all(i, lo == lo)",
    "what is within others is looked for": "lists.range(1000).all(i, lo in [lo])",
    "what is of any type is compared": "lists.range(1000).all(i, dyn(lo) == dyn(lo))",
    "texts grow by replacing": "lists.range(1000).map(i, 'a'.replace('a', s)).size() > 0",
    "texts grow by formatting": "lists.range(1000).map(i, '%s'.format([s])).size() > 0",
    "lists grow by flattening": "lists.range(1000).map(i, [lo, lo].flatten()).size() > 0",
}


@pytest.mark.parametrize("case", UNCOUNTED)
def test_what_costs_do_not_count_is_bounded(case: str) -> None:
    declared = Environment({"lo": list_of(list_of(INT)), "s": STRING})
    program = compile_program(check(UNCOUNTED[case], declared))
    small, large = ({"lo": [[1]] * size, "s": "x" * size * 100} for size in (1, 2000))
    assert program(small, 100_000)[0] is True
    with pytest.raises(CostExceeded):
        program(large, 100_000)


def test_keys_that_python_mixes_up_are_found_at_once() -> None:
    class Entries(dict[Any, Any]):
        def __iter__(self) -> NoReturn:
            raise AssertionError

    program = compile_program(check("m[1] == 'one' && m[1u] == 'one' && !(true in m) && false in m && m[?0] != m[?1]", _MAP))
    assert program({"m": Entries({1: "one", False: "no"})}, 100)[0] is True


LONG_NUMBERS = ("1" * 300_000 + "!", "0x" + "1" * 300_000 + "!", "." + "1" * 300_000 + "!", "1e" + "1" * 300_000 + "!")


@pytest.mark.parametrize("text", LONG_NUMBERS, ids=lambda text: text[:3])
def test_texts_that_are_nearly_numbers(text: str) -> None:
    """As long as a field may be: with a pattern that goes back, they take minutes."""
    with pytest.raises(EvaluationError, match="type conversion error from 'string' to 'double'"):
        conversions.to_double(text)


def test_calls_in_a_row_are_bounded() -> None:
    """Each is a level of the tree; thousands would exceed what Python can walk."""
    nested = "s"
    for _ in range(230):
        nested = f"s.replace({nested}{'.trim()' * 7}, 'a')"
    for source in ("s" + ".trim()" * 508, nested + ".trim()" * 500, " && ".join(["s.trim().trim() == s"] * 400)):
        checked = check(source, ENVIRONMENT)
        estimate(checked)
        compile_program(checked)
    with pytest.raises(CompileError, match="max recursion depth exceeded"):
        check("s" + ".trim()" * 4096, ENVIRONMENT)
