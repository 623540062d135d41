"""The patterns of `re` in the package, and whether matching one can take longer than in proportion to the text.

A matcher that goes back tries all ways in which a pattern can take a text, so the time is linear if there is only one way, up to
a constant number. Two kinds of patterns have more: where two repeats in a row take the same characters, the border between them
can be anywhere (quadratic), and where a repeat takes the same text in one round or two, there are two ways for each part of the
text (exponential). Both show in the automaton of a pattern: there are two states, and a text that leads from the first to itself,
from the first to the second, and from the second to itself; or there are two ways from one state to the next.

A search tries each place of the text, as if the pattern had `.*` in front of it. After a repeat at the end of a pattern nothing
can fail any more, unless the whole text must match.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]  # no public module has the parser
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

ROOT = Path(__file__).parents[2]

FUNCTIONS = frozenset({"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
_SEARCHES = FUNCTIONS - {"compile", "match", "fullmatch"}
# Functions of ours that compile a pattern, with the method they match by.
_MAKERS = {"_pattern": "fullmatch"}
# Copies that stand for a repeat with a limit: enough to see whether two rounds can be told apart.
_COPIES = 2
# A repeat up to this often counts as no repeat: it costs at most a constant.
_FEW = 300


@dataclass(frozen=True)
class Use:
    """A pattern and how it is matched. place: file and name, for people. methods: match, fullmatch, search and others."""

    place: str
    pattern: str | bytes
    flags: int
    methods: frozenset[str]

    @property
    def is_search(self) -> bool:
        return bool(self.methods & _SEARCHES)

    @property
    def is_whole(self) -> bool:
        """Whether something can fail at the end of the pattern."""
        return "fullmatch" in self.methods


# --- reading the package ---


def uses() -> Iterator[Use]:
    """All patterns of `re` in the package. Raises if one is made in a way that this can't follow."""
    sources = {path: path.read_text() for path in sorted((ROOT / "aggserver").rglob("*.py"))}
    public = _methods("\n".join(sources.values()))
    for path, source in sources.items():
        if "re." not in source:
            continue
        tree = ast.parse(source)
        if any(isinstance(node, ast.ImportFrom) and node.module == "re" for node in ast.walk(tree)):
            raise AssertionError(f"{path}: import re as a whole, so that its uses can be found")
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_of_re(node)]
        if not calls:
            continue
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        # A name with an underscore is used in its own module only.
        yield from _of_module(path, tree, module.__dict__, {**public, **_methods(source)})


def _is_of_re(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in _MAKERS
    is_re = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "re"
    return is_re and function.attr in FUNCTIONS


def _methods(source: str) -> Mapping[str, frozenset[str]]:
    """name -> the methods that are called on it anywhere in the package."""
    found: dict[str, set[str]] = {}
    for name, method in re.findall(r"(\w+)\.(match|search|fullmatch|sub|subn|split|findall|finditer)\b", source):
        found.setdefault(name, set()).add(method)
    return {name: frozenset(methods) for name, methods in found.items()}


def _of_module(path: Path, tree: ast.Module, names: dict[str, Any], methods: Mapping[str, frozenset[str]]) -> Iterator[Use]:
    for node, owner, wanted in _placed(tree):
        call_name = node.func.attr if isinstance(node.func, ast.Attribute) else _MAKERS[node.func.id]  # type: ignore[attr-defined]
        called = (
            frozenset({wanted or call_name})
            if (wanted or call_name) != "compile"
            else methods.get(owner.split(".")[-1], frozenset())
        )
        place = f"{path.relative_to(ROOT)}: {owner}"
        try:
            pattern = eval(ast.unparse(node.args[0]), dict(names))
            flags = sum(int(eval(ast.unparse(each), dict(names))) for each in _flags(node, call_name))
        except NameError as error:
            raise AssertionError(f"{place}: the pattern can't be told before it runs: {error}") from None
        yield Use(place, pattern, flags, called or frozenset({"match", "fullmatch"}))


def _flags(call: ast.Call, function: str) -> list[ast.expr]:
    """The expressions of a call's flags: re.compile's second argument, any other's keyword."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    return named + (call.args[1:2] if function in ("compile",) or isinstance(call.func, ast.Name) else [])


def _placed(tree: ast.Module) -> Iterator[tuple[ast.Call, str, str]]:
    """(call, the name it is assigned to, or the function it is in; the method that is taken of it at once, '' if none)."""

    def walk(node: ast.AST, owner: str, wanted: str) -> Iterator[tuple[ast.Call, str, str]]:
        if isinstance(node, ast.FunctionDef) and node.name in _MAKERS:
            return  # its callers are looked at
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            owner = node.targets[0].id
        elif isinstance(node, ast.FunctionDef):
            owner = node.name
        if isinstance(node, ast.Call) and _is_of_re(node):
            yield node, owner, wanted
        inner = node.attr if isinstance(node, ast.Attribute) else ""
        for child in ast.iter_child_nodes(node):
            yield from walk(child, owner, inner if isinstance(child, ast.Call) and inner in FUNCTIONS else "")

    yield from walk(tree, "", "")


# --- the automaton ---


@dataclass
class _Automaton:
    """Each state takes one character. masks: the characters it takes, as bits.

    follows: state -> state -> the characters that lead there. repeats: the states in repeats. is_double: two repeats, one in the
    other, lead from a state to the same state.
    """

    alphabet: list[str]
    masks: list[int] = field(default_factory=list)
    follows: list[dict[int, int]] = field(default_factory=list)
    repeats: set[int] = field(default_factory=set)
    is_double: bool = False

    def add(self, mask: int) -> int:
        self.masks.append(mask)
        self.follows.append({})
        return len(self.masks) - 1

    def join(self, lasts: dict[int, int], firsts: dict[int, int]) -> None:
        """lasts: state -> the characters that may come next. firsts: state -> the characters by which it is entered."""
        for last, allowed in lasts.items():
            for first, entering in firsts.items():
                mask = entering & allowed & self.masks[first]
                if mask:
                    self.is_double |= bool(self.follows[last].get(first, 0) & mask)
                    self.follows[last][first] = self.follows[last].get(first, 0) | mask


@dataclass
class _Part:
    """firsts, lasts: as in `_Automaton.join`. empty: the characters before which the part may be left out; 0 if it can't be."""

    firsts: dict[int, int]
    lasts: dict[int, int]
    empty: int


class Unreadable(Exception):
    """The pattern has something that the automaton has not: a reference back, a condition."""


def is_ambiguous(use: Use) -> bool:
    """Whether there are the more ways in which the pattern can take a text, the longer it is. Raises Unreadable."""
    made = _automaton(use)
    if made.is_double:
        return True
    cycles = sorted(made.repeats)
    for first in cycles:
        reached = _reachable(made, first)
        if any(second != first and second in reached and _are_two_ways(made, first, second) for second in cycles):
            return True
    return False


def _automaton(use: Use) -> _Automaton:
    pattern = use.pattern.decode("latin-1") if isinstance(use.pattern, bytes) else use.pattern
    tree = parser.parse(pattern, use.flags)
    automaton = _Automaton(_alphabet(pattern))
    reader = _Reader(automaton, tree.state.flags & (re.IGNORECASE | re.DOTALL | re.ASCII))
    items = list(tree)
    if not use.is_whole:
        items = reader.without_end(items)
    everything = (1 << len(automaton.alphabet)) - 1
    whole = reader.sequence(items)
    if use.is_search:
        state = automaton.add(everything)
        automaton.repeats.add(state)
        automaton.join({state: everything}, {state: everything})
        automaton.join({state: everything}, whole.firsts)
    return automaton


def _alphabet(pattern: str) -> list[str]:
    """Characters that stand for all: those of the pattern with their neighbours, those of ASCII, and some beyond."""
    near = {chr(ord(char) + step) for char in pattern for step in (-1, 0, 1) if 0 <= ord(char) + step < 0x110000}
    return sorted(near | {chr(code) for code in range(128)} | set("\x85\xa0µé٣\u2028\ufeff\U0001f600"))


def _reachable(made: _Automaton, start: int) -> set[int]:
    seen, waiting = {start}, [start]
    while waiting:
        for state in made.follows[waiting.pop()]:
            if state not in seen:
                seen.add(state)
                waiting.append(state)
    return seen


def _are_two_ways(made: _Automaton, first: int, second: int) -> bool:
    """Whether a text leads from first to first, from first to second and from second to second."""
    wanted = (first, second, second)
    seen, waiting = set(), [(first, first, second)]
    while waiting:
        one, two, three = waiting.pop()
        for a, mask_a in made.follows[one].items():
            for b, mask_b in made.follows[two].items():
                both = mask_a & mask_b
                if not both:
                    continue
                for c, mask_c in made.follows[three].items():
                    if not both & mask_c:
                        continue
                    found = (a, b, c)
                    if found == wanted:
                        return True
                    if found not in seen:
                        seen.add(found)
                        waiting.append(found)
    return False


class _Reader:
    def __init__(self, automaton: _Automaton, flags: int) -> None:
        self._made = automaton
        self._all = (1 << len(automaton.alphabet)) - 1
        self._flags = flags

    def without_end(self, items: list[Any]) -> list[Any]:
        """The items without the repeats at their end that can't fail any more."""
        if not items:
            return items
        op, given = items[-1]
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            low, _, inner = given
            if not low:
                return self.without_end(items[:-1])
            return [*items[:-1], (op, (low, low, self.without_end(list(inner)) if low == 1 else inner))]
        if op is ops.SUBPATTERN:
            inner = self.without_end(list(given[3]))
            return [*items[:-1], (op, (*given[:3], inner))] if inner else self.without_end(items[:-1])
        if op is ops.BRANCH:
            return [*items[:-1], (op, (given[0], [self.without_end(list(each)) for each in given[1]]))]
        return items

    def sequence(self, items: Any) -> _Part:
        whole = _Part({}, {}, self._all)
        for op, given in items:
            whole = self._joined(whole, self._item(op, given))
        return whole

    def _joined(self, left: _Part, right: _Part) -> _Part:
        self._made.join(left.lasts, right.firsts)
        firsts = dict(left.firsts)
        for state, mask in right.firsts.items():
            if left.empty & mask:
                firsts[state] = firsts.get(state, 0) | (mask & left.empty)
        lasts = dict(right.lasts)
        for state, mask in left.lasts.items():
            if right.empty & mask:
                lasts[state] = lasts.get(state, 0) | (mask & right.empty)
        return _Part(firsts, lasts, left.empty & right.empty)

    def _item(self, op: Any, given: Any) -> _Part:
        if op in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN):
            mask = self._mask(op, given)
            state = self._made.add(mask)
            return _Part({state: mask}, {state: self._all}, 0)
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            return self._repeat(*given, possessive=op is ops.POSSESSIVE_REPEAT)
        if op is ops.SUBPATTERN:
            return self.sequence(given[3])
        if op is ops.ATOMIC_GROUP:
            return self.sequence(given)
        if op is ops.BRANCH:
            parts = [self.sequence(each) for each in given[1]]
            empty = 0
            for each in parts:
                empty |= each.empty
            return _Part(_merged(each.firsts for each in parts), _merged(each.lasts for each in parts), empty)
        if op in (ops.AT, ops.ASSERT, ops.ASSERT_NOT):
            return _Part({}, {}, self._all)  # takes no character
        raise Unreadable(str(op))

    def _repeat(self, low: int, high: int, inner: Any, *, possessive: bool) -> _Part:
        is_endless = high is ops.MAXREPEAT or high > _FEW
        whole = self.sequence([])
        for _ in range(min(low, _COPIES) - (1 if is_endless and low else 0)):
            whole = self._joined(whole, self.sequence(inner))
        if is_endless:
            before = len(self._made.masks)
            loop = self.sequence(inner)
            self._made.join(loop.lasts, loop.firsts)
            self._made.repeats.update(range(before, len(self._made.masks)))
            taken = 0
            for mask in loop.firsts.values():
                taken |= mask
            left = self._all & ~taken if possessive else self._all
            lasts = {state: mask & left for state, mask in loop.lasts.items()}
            return self._joined(whole, _Part(loop.firsts, lasts, 0 if low else left))
        if high > low:
            optional = self.sequence(inner)
            whole = self._joined(whole, _Part(optional.firsts, optional.lasts, self._all))
        return whole

    def _mask(self, op: Any, given: Any) -> int:
        if op is ops.IN:
            text = "[" + "".join(map(_class_item, given)) + "]"
        elif op is ops.ANY:
            text = "."
        else:
            text = ("[^" if op is ops.NOT_LITERAL else "[") + _escaped(given) + "]"
        takes = re.compile(text, self._flags).match
        return sum(1 << at for at, char in enumerate(self._made.alphabet) if takes(char))


def _merged(maps: Any) -> dict[int, int]:
    merged: dict[int, int] = {}
    for each in maps:
        for state, mask in each.items():
            merged[state] = merged.get(state, 0) | mask
    return merged


_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}


def _class_item(item: Any) -> str:
    op, given = item
    if op is ops.NEGATE:
        return "^"
    if op is ops.RANGE:
        return f"{_escaped(given[0])}-{_escaped(given[1])}"
    return _CATEGORIES[given] if op is ops.CATEGORY else _escaped(given)


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"
