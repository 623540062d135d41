r"""Kubernetes' JSONPath: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`, `.metadata.labels.example\.com/tier`.

It differs from every other JSONPath, and its quirks are kept, since definitions rely on them. A path is compiled to a list of
steps, each a function from nodes to nodes; a path of plain names is walked directly. Missing members yield no result. It is used
for printer columns and selectable fields. Steps like `..` can visit a node many times, and further steps multiply this, so the
nodes visited are counted and limited. Pure.
Source: k8s.io/client-go util/jsonpath (parser.go, jsonpath.go), third_party/forked/golang/template/funcs.go, v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

__all__ = ["Budget", "JSONPath", "JSONPathError", "compile"]

# The most nodes that paths may visit in one object. Upstream has no limit, and five steps `..` in an object that is nested 100
# levels deep visit hundreds of millions. This many take some 40 ms; a path to a member of each of 60,000 items visits as many.
_MOST_NODES = 200_000
# The cost of printing a found value, in nodes: this many for each node in it, and one for so many characters of its strings.
_PRINTED_NODE = 4
_PRINTED_CHARACTERS = 16

_DICT_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_TERMINATORS = frozenset(" \t\r\n.,[]$@{}")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_NUMERIC_ESCAPE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})")


class JSONPathError(ValueError):
    """The path can't be parsed. Its text is upstream's."""


class _EvaluationError(Exception):
    """Upstream's evaluation fails here, and the result is empty."""


class _ExhaustedError(Exception):
    """The paths would visit more than _MOST_NODES."""


class Budget:
    """The nodes that all paths together may still visit in one object, at first _MOST_NODES."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST_NODES

    def spent(self, nodes: list[Any]) -> list[Any]:
        """Pay for nodes and return them: those that a step is given, and those that it makes of one of them.

        Raises _ExhaustedError.
        """
        self._pay(len(nodes))
        return nodes

    def covers(self, value: Any) -> bool:
        """Pay for a value that is to be printed. Returns whether the budget was enough."""
        inside = [value]
        try:
            while inside:
                node = inside.pop()
                if isinstance(node, str):
                    self._pay(len(node) // _PRINTED_CHARACTERS)
                elif isinstance(node, dict | list):
                    self._pay(_PRINTED_NODE * len(node))
                    inside += node
                    inside += node.values() if isinstance(node, dict) else ()
        except _ExhaustedError:
            return False
        return True

    def _pay(self, nodes: int) -> None:
        self._left -= nodes
        # What costs nothing always succeeds, so that short plain values are shown even if another path exhausted the budget.
        if self._left < 0 < nodes:
            raise _ExhaustedError


_Step = Callable[[list[Any], Budget], list[Any]]


class JSONPath:
    """A compiled path, see `compile`; `str()` is its source."""

    __slots__ = ("_names", "_steps", "_text")

    def __init__(self, text: str, steps: Sequence[_Step | str]) -> None:
        """steps: a string is the name of a member."""
        self._text = text
        self._names = tuple(step for step in steps if isinstance(step, str))
        self._steps: tuple[_Step, ...] = ()
        if len(self._names) < len(steps):
            self._steps = tuple(_member(step) if isinstance(step, str) else step for step in steps)

    def find(self, obj: Any, budget: Budget | None = None) -> list[Any]:
        """The values at the path, in order; they are shared with `obj`. budget: for several paths in one object.

        The result is also empty if upstream's evaluation fails, e.g. for an index out of bounds or a comparison of unlike types,
        and if the budget is exhausted.
        """
        if not self._steps:
            return self._walk(obj)
        nodes = [obj]
        budget = budget or Budget()
        try:
            for step in self._steps:
                nodes = step(budget.spent(nodes), budget)
        except (_EvaluationError, _ExhaustedError):
            return []
        return nodes

    @property
    def may_revisit(self) -> bool:
        """Whether it may visit many more nodes than an object has: it has several `..`, or a union. May be True needlessly."""
        return self._text.count("..") > 1 or "," in self._text

    def _walk(self, obj: Any) -> list[Any]:
        for name in self._names:
            if not isinstance(obj, dict) or name not in obj:
                return []
            obj = obj[name]
        return [obj]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"JSONPath({self._text!r})"


# It hides the built-in, as re.compile does, since it is always called with its module's name.
def compile(path: str) -> JSONPath:  # noqa: A001
    """Compile `.spec.x` or `{.spec.x}`. Raises JSONPathError.

    Only the first part of a template counts; further parts must be well-formed.
    """
    parts = _parse(path if path.startswith("{") else f"{{{path}}}")
    return JSONPath(path, parts[0])


def _parse(text: str) -> list[list[_Step | str]]:
    """The steps of each part of a template: of each `{...}`, and of each text between these."""
    parts: list[list[_Step | str]] = []
    position = 0
    while position < len(text):
        opening = text.find("{", position)
        if opening != position:
            end = len(text) if opening < 0 else opening
            parts.append([_literal(text[position:end])])
            position = end
        else:
            parser = _Parser(text, position + 1)
            parts.append(parser.parse())
            position = parser.position
    return parts


class _Parser:
    """Parses the steps of one action, from after its `{` to after its `}`."""

    def __init__(self, text: str, position: int) -> None:
        self.position = position
        self._text = text
        self._steps: list[_Step | str] = []
        self._descended = False  # whether the last step is a `..`

    def parse(self) -> list[_Step | str]:
        while not self._text.startswith("}", self.position):
            descended, self._descended = self._descended, False
            if self._text.startswith("[?(", self.position):
                self._filter()
            elif self._text.startswith("..", self.position):
                self._recursion(descended)
            else:
                self._element(descended)
        self.position += 1
        return self._steps

    def _element(self, descended: bool) -> None:
        char = self._text[self.position : self.position + 1]
        if char in ("", "\r", "\n"):
            raise JSONPathError("unclosed action")
        if char in " @$":
            self.position += 1
            # These add no step, so a `..` before them is still the last one.
            self._descended = descended
        elif char == "[":
            self._array()
        elif char in "\"'":
            self._quoted(char)
        elif char == ".":
            self.position += 1
            self._field()
        elif char in "+-" or char.isdecimal():
            self._number()
        elif char == "_" or char.isalpha():
            self._identifier()
        else:
            raise JSONPathError(f"unrecognized character in action: U+{ord(char):04X} '{char}'")

    def _recursion(self, descended: bool) -> None:
        if descended:
            raise JSONPathError("invalid multiple recursive descent")
        self._steps.append(_descendants)
        self._descended = True
        self.position += 2
        follows = self._text[self.position : self.position + 1]
        if follows == "_" or follows.isalpha() or follows.isdecimal():
            self._descended = False
            self._field()

    def _field(self) -> None:
        start = self.position
        while self.position < len(self._text) and self._text[self.position] not in _TERMINATORS:
            # A character after a backslash is part of the name.
            self.position += 2 if self._text[self.position] == "\\" else 1
        self.position = min(self.position, len(self._text))
        name = self._text[start : self.position]
        self._steps.append(_members if name == "*" else name.replace("\\", ""))

    def _word(self, characters: Callable[[str], bool]) -> str:
        start = self.position
        while self.position < len(self._text) and characters(self._text[self.position]):
            self.position += 1
        return self._text[start : self.position]

    def _identifier(self) -> None:
        word = self._word(lambda char: char not in _TERMINATORS)
        if word in ("true", "false"):
            self._steps.append(_literal(word == "true"))
        else:
            self._steps.append(_unknown_identifier)

    def _number(self) -> None:
        sign = self._text[self.position] if self._text[self.position] in "+-" else ""
        self.position += len(sign)
        text = sign + self._word(lambda char: char == "." or char.isdecimal())
        try:
            self._steps.append(_literal(float(text) if "." in text else int(text)))
        except ValueError:
            raise JSONPathError(f"cannot parse number {text}") from None

    def _quoted(self, quote: str) -> None:
        start = self.position
        self.position += 1
        while True:
            char = self._text[self.position : self.position + 1]
            if char in ("", "\n"):
                raise JSONPathError("unterminated quoted string")
            self.position += 1
            if char == quote and self._text[self.position - 2] != "\\":
                break
        self._steps.append(_literal(_unquote(self._text[start : self.position])))

    def _array(self) -> None:
        end = self._text.find("]", self.position)
        line_end = self._text.find("\n", self.position)
        if end < 0 or 0 <= line_end < end:
            raise JSONPathError("unterminated array")
        text = self._text[self.position + 1 : end]
        self.position = end + 1
        if text == "*":
            text = ":"
        if "," in text:
            self._steps.append(_union([_action(f"[{part.strip(' ')}]") for part in text.split(",")]))
        elif key := _DICT_KEY.fullmatch(text):
            self._steps.extend(_action(f".{key[1]}"))
        else:
            self._steps.append(_parse_slice(text))

    def _filter(self) -> None:
        start = self.position + 3
        position = start
        quote, closed = "", False
        while True:
            char = self._text[position : position + 1]
            if char in ("", "\n"):
                raise JSONPathError("unterminated filter")
            position += 1
            if char in "\"'":
                if not quote:
                    quote = char
                elif char == quote and self._text[position - 2] != "\\":
                    closed = True
            elif char == ")" and bool(quote) == closed:
                break
        if self._text[position : position + 1] != "]":
            raise JSONPathError("unclosed array expect ]")
        self.position = position + 1
        text = self._text[start : position - 1]
        comparison = _COMPARISON.fullmatch(text)
        if comparison is None:
            self._steps.append(_existence(_compiled(_action(text))))
        else:
            left, operator, right = comparison.groups()
            self._steps.append(_comparison(_compiled(_action(left)), operator, _compiled(_action(right))))


def _action(text: str) -> list[_Step | str]:
    return _parse(f"{{{text}}}")[0]


def _compiled(steps: Sequence[_Step | str]) -> _Step:
    functions = [_member(step) if isinstance(step, str) else step for step in steps]

    def run(nodes: list[Any], budget: Budget) -> list[Any]:
        for function in functions:
            nodes = function(budget.spent(nodes), budget)
        return nodes

    return run


def _unquote(text: str) -> str:
    quote, inner = text[0], text[1:-1]
    out = []
    position = 0
    while position < len(inner):
        char = inner[position]
        position += 1
        if char == "\\":
            char, position = _unescape(text, inner, position, quote)
        out.append(char)
    return "".join(out)


def _unescape(text: str, inner: str, position: int, quote: str) -> tuple[str, int]:
    char = inner[position : position + 1]
    if char in _ESCAPES:
        return _ESCAPES[char], position + 1
    if char and char == quote:
        return quote, position + 1
    match = _NUMERIC_ESCAPE.match(inner, position)
    if match is not None:
        *hexadecimal, octal = match.groups()
        code = int(octal, 8) if octal else int(next(filter(None, hexadecimal)), 16)
        # Valid are code points except surrogates, and in octal only bytes.
        if (code < 0xD800 or 0xE000 <= code <= 0x10FFFF) and (not octal or code <= 0xFF):
            return chr(code), match.end()
    raise JSONPathError(f"unquote string {text} error invalid syntax")


@dataclass(frozen=True, slots=True)
class _Slice:
    """`[start:end:step]`, None if omitted. single: for `[start]`, whose end is the next index."""

    start: int | None
    end: int | None
    step: int | None
    single: bool

    def __call__(self, nodes: list[Any], budget: Budget) -> list[Any]:
        found: list[Any] = []
        for node in nodes:
            if node is None:
                continue
            if not isinstance(node, list):
                raise _EvaluationError
            found += budget.spent(self._part(node))
        return found

    def _part(self, items: list[Any]) -> list[Any]:
        size = len(items)
        start = self.start or 0
        end = size if self.end is None else self.end
        start += size if start < 0 else 0
        end += size if end < 0 or (end == 0 and self.single) else 0
        if start == end:
            return []
        # Upstream refuses ranges that Python would shorten.
        if not (0 <= start < size and 0 <= end <= size and start <= end):
            raise _EvaluationError
        if self.step is not None and self.step <= 0:
            raise _EvaluationError
        return items[start : end : self.step or 1]


def _parse_slice(text: str) -> _Slice:
    match = _SLICE.fullmatch(text)
    if match is None:
        raise JSONPathError(f"invalid array index {text}")
    numbers: list[int | None] = []
    for part in match.groups():
        digits = (part or "").removeprefix(":")
        if digits == "-" or len(digits) > 18:
            raise JSONPathError(f"array index {digits} is not a number")
        numbers.append(int(digits) if digits else None)
    start, end, step = numbers
    single = match[2] is None
    return _Slice(start, (start or 0) + 1 if single else end, step, single)


def _member(name: str) -> _Step:
    def run(nodes: list[Any], budget: Budget) -> list[Any]:
        return [node[name] for node in nodes if isinstance(node, dict) and name in node]

    return run


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(node.values())
    if isinstance(node, list):
        return node
    # In Go, a string is a sequence of bytes.
    return list(node.encode()) if isinstance(node, str) else []


def _members(nodes: list[Any], budget: Budget) -> list[Any]:
    found: list[Any] = []
    for node in nodes:
        found += budget.spent(_children(node))
    return found


def _descendants(nodes: list[Any], budget: Budget) -> list[Any]:
    """All nodes that have children, parents before children."""
    found: list[Any] = []
    for node in nodes:
        children = budget.spent(_children(node))
        if children:
            found.append(node)
            found += _descendants(children, budget)
    return found


def _literal(value: Any) -> _Step:
    def run(nodes: list[Any], budget: Budget) -> list[Any]:
        # Upstream yields a text once, however many nodes there are, but numbers and booleans for each node.
        return [value] if isinstance(value, str) else [value] * len(nodes)

    return run


def _unknown_identifier(nodes: list[Any], budget: Budget) -> NoReturn:
    # `range` and `end` are only for templates; any other identifier is an error upstream too.
    raise _EvaluationError


def _union(parts: Sequence[Sequence[_Step | str]]) -> _Step:
    functions = [_compiled(part) for part in parts]

    def run(nodes: list[Any], budget: Budget) -> list[Any]:
        return [found for function in functions for found in function(nodes, budget)]

    return run


def _elements(nodes: list[Any], budget: Budget) -> list[Any]:
    if not all(isinstance(node, list) for node in nodes):
        raise _EvaluationError
    elements: list[Any] = []
    for node in nodes:
        elements += budget.spent(node)
    return elements


def _existence(condition: _Step) -> _Step:
    def exists(element: Any, budget: Budget) -> bool:
        try:
            return bool(condition([element], budget))
        except _EvaluationError:
            return False

    return lambda nodes, budget: [element for element in _elements(nodes, budget) if exists(element, budget)]


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


def _comparison(left: _Step, operator: str, right: _Step) -> _Step:
    def holds(element: Any, budget: Budget) -> bool:
        lefts = left([element], budget)
        if not lefts:
            return False
        if len(lefts) > 1:
            raise _EvaluationError
        rights = right([element], budget)
        if len(rights) > 1:
            raise _EvaluationError
        return bool(rights) and _compare(lefts[0], operator, rights[0])

    return lambda nodes, budget: [element for element in _elements(nodes, budget) if holds(element, budget)]


def _compare(left: Any, operator: str, right: Any) -> bool:
    compare = _OPERATORS.get(operator)
    # Only values of the same type compare, where integers and floats differ; booleans have no order.
    if compare is None or type(left) is not type(right) or not isinstance(left, str | int | float):
        raise _EvaluationError
    if isinstance(left, bool) and operator not in ("==", "!="):
        raise _EvaluationError
    return compare(left, right)
