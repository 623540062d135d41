"""The parser: trees, what it says of texts that are no expressions, and its limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggserver.cel.ast import Comprehension, Expr, children, walk
from aggserver.cel.errors import CompileError
from aggserver.cel.parser import parse
from tests.cel.environment import cases, show
from tests.cel.expressions import PIECES


@pytest.mark.parametrize(("rule", "source", "tree"), cases("parsing"))
def test_tree(rule: str, source: str, tree: str) -> None:
    assert show(parse(source)) == tree, rule


@pytest.mark.parametrize(("rule", "source", "error"), cases("syntax"))
def test_syntax_error(rule: str, source: str, error: str) -> None:
    with pytest.raises(CompileError) as raised:
        parse(source)
    assert str(raised.value) == error, rule


@pytest.mark.parametrize("source", [source for _, source, _ in cases("parsing")])
def test_ids_are_unique(source: str) -> None:
    ids = [expr.id for expr in walk(parse(source))]
    assert len(ids) == len(set(ids))


def test_children_are_in_the_order_of_the_source() -> None:
    tree = parse("{a: [b, c.d], e: f(g)}.h(i)[j]")
    offsets = [expr.offset for expr in walk(tree) if not children(expr)]
    assert offsets == sorted(offsets)


MACROS = {
    "l.all(x, x)": "all",
    "l.existsOne(i, x, x)": "exists_one",
    "l.map(x, x, x)": "map",
    "m.transformMapEntry(k, v, {v: k})": "transformMapEntry",
    "l.sortBy(x, x)": "bind",
    "o.optFlatMap(x, x)": "bind",
}


@pytest.mark.parametrize("source", MACROS)
def test_comprehensions_know_their_macro(source: str) -> None:
    found = [expr.macro for expr in walk(parse(source)) if isinstance(expr, Comprehension)]
    assert found[0] == MACROS[source]


TOO_DEEP = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
TOO_DEEP_TREE = "ERROR: <input>:-1:0: max recursion depth exceeded"

# The deepest that is let through, one more, and what is said of that.
LIMITS = {
    "parentheses": ("(" * 249 + "1" + ")" * 249, "(" * 250 + "1" + ")" * 250, TOO_DEEP),
    "lists": ("[" * 249 + "1" + "]" * 249, "[" * 250 + "1" + "]" * 250, TOO_DEEP),
    "calls": ("f(" * 249 + "1" + ")" * 249, "f(" * 250 + "1" + ")" * 250, TOO_DEEP),
    "sums": ("+".join("1" * 251), "+".join("1" * 252), TOO_DEEP_TREE),
    "a deep term before a flat one": (f"({'+'.join('1' * 250)} && 1) + 1", f"({'+'.join('1' * 251)} && 1) + 1", TOO_DEEP_TREE),
    "a deep side before a flat one": (f"({'+'.join('1' * 250)} || 1) + 1", f"({'+'.join('1' * 251)} || 1) + 1", TOO_DEEP_TREE),
    "relations": ("==".join("1" * 251), "==".join("1" * 252), TOO_DEEP_TREE),
    "selections": ("a" + ".b" * 250, "a" + ".b" * 251, TOO_DEEP_TREE),
    "indexes": ("a" + "[0]" * 250, "a" + "[0]" * 251, TOO_DEEP_TREE),
    "size": (
        f'"{"x" * 99_998}"',
        f'"{"x" * 99_999}"',
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000",
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_limit(limit: str) -> None:
    fits, exceeds, error = LIMITS[limit]
    parse(fits)
    with pytest.raises(CompileError) as raised:
        parse(exceeds)
    assert str(raised.value) == error


def _depth(expr: Expr) -> int:
    return 1 + max(map(_depth, children(expr)), default=0)


def test_many_terms_make_a_shallow_tree() -> None:
    assert _depth(parse("||".join("a" * 3000))) == 13


# What is long but no expression ends, with as much as upstream says of it.
GARBAGE = {
    "nothing but bad characters": ("#" * 500, "1 more errors were truncated"),
    "names upon names": ("a " * 40_000, "error recovery token lookahead limit exceeded: 256"),
    "closing brackets": (") " * 40_000, "error recovery token lookahead limit exceeded: 256"),
    "lists that don't end": ("[1," * 3_000, TOO_DEEP),
    "a mistake met again after it": ("{. 1} !", "extraneous input '!' expecting <EOF>"),
    "a mistake in each term": ("(1 2)+" * 100 + "1", "error recovery attempt limit exceeded: 30"),
    "a string that doesn't end": ('"' + "a" * 90_000, "token recognition error"),
    "digits": ("1" * 90_000, "invalid int literal"),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage(kind: str) -> None:
    source, expected = GARBAGE[kind]
    with pytest.raises(CompileError) as raised:
        parse(source)
    assert expected in str(raised.value)
    assert str(raised.value).count("ERROR") <= 101


def test_leading_zeros_and_signs_do_not_overflow() -> None:
    assert show(parse("0" * 10_000 + "7")).startswith("7#")
    assert show(parse("-0x8000000000000000")).startswith("-9223372036854775808#")


def _error(source: str) -> str | None:
    try:
        parse(source)
    except CompileError as error:
        return str(error)
    return None


@given(st.one_of(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.text(max_size=30)))
def test_any_text_is_an_expression_or_an_error_with_a_place(source: str) -> None:
    error = _error(source)
    assert error is None or error.startswith("ERROR: <input>:")
