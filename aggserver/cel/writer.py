"""The text of a Python function, written line by line, with the cost of what it does.

A cost is charged where it arises and written before the next line that may raise an error, so that what was spent is known
whatever happens, and yet sums are added up here. There are two forms of a function: the quick one gives up at the first error
and calls the other, which catches errors. Knows nothing of expressions. Called by `generator.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Caught", "Code", "Writer"]

# Python takes 20 loops and tries within each other and 100 levels of indentation.
_DEEPEST_BLOCK, _DEEPEST_LINE = 12, 50


class Code(NamedTuple):
    """An expression of Python that costs nothing to look at: a variable, a constant."""

    text: str
    kind: str = ""
    """The Python type that it is sure to have, if that is known."""


@dataclass(slots=True)
class _Line:
    indent: int
    text: str


@dataclass(slots=True)
class Caught:
    """Lines whose errors are caught. Only at their end it is known whether there can be any."""

    lines: list[_Line]
    start: int
    indent: int
    is_risky: bool = False

    def put_before(self, text: str) -> None:
        self.lines.insert(self.start, _Line(self.indent, text))


class Writer:
    def __init__(self, *, catches: bool) -> None:
        self.catches = catches
        self.constant_names: dict[str, Any] = {}
        """By name, the values that the text can't spell."""
        self._from_activation: dict[str, str] = {}
        self._openings: list[_Line] = []
        self._lines: list[_Line] = []
        self._functions: list[_Line] = []
        self._indent = 2
        self._blocks = 1
        self._charged = 0
        # Lines that may raise an error.
        self._risks = 0
        self._last = 0

    @property
    def is_deep(self) -> bool:
        """Whether what comes next had better become a function of its own."""
        return self._blocks > _DEEPEST_BLOCK or self._indent > _DEEPEST_LINE

    def text(self) -> str:
        """The whole: `evaluate(activation, limit)`; in the quick form it calls `catching(activation, limit)`."""
        gives_up = [] if self.catches else [_Line(1, "except EvaluationError:"), _Line(2, "return catching(activation, limit)")]
        body, functions = self._lines, self._functions
        if functions:
            # Python's compiler goes through all variables of the function around each: there are few around these.
            functions = [*functions, _Line(1, "def body():"), _Line(2, "nonlocal cost, budget"), *body]
            body = [_Line(2, "return body()")]
        lines = [
            _Line(0, "def evaluate(activation, limit):"),
            _Line(1, "cost = 0"),
            _Line(1, "budget = limit"),
            *self._openings,
            *functions,
            _Line(1, "try:"),
            *body,
            *gives_up,
            _Line(1, "except CELError as error:"),
            _Line(2, "raise finished(error, cost, budget) from None"),
        ]
        return "\n".join(" " * line.indent + line.text for line in lines)

    def charge(self, cost: int) -> None:
        self._charged += cost

    def settle(self) -> None:
        """Write what is charged: before the way forks."""
        if self._charged:
            self.line(f"cost += {self._charged}")
            self._charged = 0

    def line(self, *texts: str) -> None:
        self._lines += [_Line(self._indent, text) for text in texts]

    def risk(self, *texts: str) -> None:
        """Lines that may raise an error."""
        self.settle()
        self._risks += 1
        self.line(*texts)

    def temp(self, prefix: str = "t") -> str:
        """A new name."""
        self._last += 1
        return f"{prefix}{self._last}"

    def constant(self, value: Any) -> str:
        if value is None or isinstance(value, bool) or type(value) is int:
            return f"({value})"
        name = self.temp("k")
        self.constant_names[name] = value
        return name

    def from_activation(self, name: str) -> str:
        """The variable for one of the activation's, MISSING if that lacks it."""
        if name not in self._from_activation:
            code = self._from_activation[name] = self.temp("a")
            self._openings.append(_Line(1, f"{code} = activation.get({self.constant(name)}, MISSING)"))
        return self._from_activation[name]

    def set(self, text: str, kind: str = "") -> Code:
        """A variable for what raises nothing."""
        name = self.temp()
        self.line(f"{name} = {text}")
        return Code(name, kind)

    def risk_set(self, text: str, kind: str = "") -> Code:
        name = self.temp()
        self.risk(f"{name} = {text}")
        return Code(name, kind)

    @contextmanager
    def block(self, header: str, *, counts: bool = False) -> Iterator[None]:
        """Lines under a header; `counts` for loops."""
        self.line(header)
        self._indent += 1
        self._blocks += counts
        yield
        self.settle()
        self._indent -= 1
        self._blocks -= counts

    @contextmanager
    def caught(self, *statements: str) -> Iterator[Caught]:
        """Lines of which an EvaluationError, `error`, is caught by the statements, if any may raise one and this form catches."""
        caught = Caught(self._lines, len(self._lines), self._indent)
        risks = self._risks
        self._indent += 1
        self._blocks += self.catches
        yield caught
        self.settle()
        self._indent -= 1
        self._blocks -= self.catches
        caught.is_risky = self.catches and self._risks > risks
        if caught.is_risky:
            caught.put_before("try:")
            self.line("except EvaluationError as error:", *(f" {statement}" for statement in statements))
        else:
            for line in self._lines[caught.start :]:
                line.indent -= 1

    @contextmanager
    def function(self, parameters: str) -> Iterator[str]:
        """A function beside the others, of which the call is given; the lines within must end with a return."""
        name = self.temp("f")
        self.settle()
        outside = self._lines, self._indent, self._blocks
        self._lines, self._indent, self._blocks = [], 2, 0
        yield f"{name}({parameters})"
        self._functions += [_Line(1, f"def {name}({parameters}):"), _Line(2, "nonlocal cost, budget"), *self._lines]
        self._lines, self._indent, self._blocks = outside
