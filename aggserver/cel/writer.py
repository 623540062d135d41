"""Writes the text of a Python function line by line, including its cost counting.

Costs are summed up here and written before the next line that may raise an error, so that the cost is right whatever happens.
There are two forms of a function: the quick one gives up at the first error and calls the other, which catches errors. This
module knows nothing of expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Caught", "Code", "CodeWriter"]

# Python allows 20 nested loops and tries, and 100 levels of indentation.
_DEEPEST_BLOCK, _DEEPEST_LINE = 12, 50


class Code(NamedTuple):
    """A Python expression without effects or cost: a variable or a constant."""

    text: str
    kind: str = ""
    """The name of its Python type, '' if not known for sure."""


@dataclass(slots=True)
class _Line:
    indent: int
    text: str


@dataclass(slots=True)
class Caught:
    """Lines whose errors are caught. Whether they can raise any is known only after the last one."""

    lines: list[_Line]
    start: int
    indent: int
    is_risky: bool = False

    def put_before(self, text: str) -> None:
        self.lines.insert(self.start, _Line(self.indent, text))


class CodeWriter:
    def __init__(self, *, catches: bool) -> None:
        self.catches = catches
        self.constant_names: dict[str, Any] = {}
        """Constants that can't be written as text, by name."""
        self._from_activation: dict[str, str] = {}
        self._openings: list[_Line] = []
        self._lines: list[_Line] = []
        self._functions: list[_Line] = []
        self._indent = 2
        self._blocks = 1
        self._charged = 0
        # The number of lines that may raise an error.
        self._risks = 0
        self._last = 0

    @property
    def is_deep(self) -> bool:
        """Whether the next part must become a function of its own, because of Python's limits on nesting."""
        return self._blocks > _DEEPEST_BLOCK or self._indent > _DEEPEST_LINE

    def text(self) -> str:
        """The function `evaluate(activation, limit)`; the quick form calls `catching(activation, limit)` on an error."""
        gives_up = [] if self.catches else [_Line(1, "except EvaluationError:"), _Line(2, "return catching(activation, limit)")]
        body, functions = self._lines, self._functions
        if functions:
            # For each inner function, Python's compiler visits all variables of the outer one; so the body is a function too.
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
        """Write the summed-up cost. Needed before each branch."""
        if self._charged:
            self.line(f"cost += {self._charged}")
            self._charged = 0

    def line(self, *texts: str) -> None:
        self._lines += [_Line(self._indent, text) for text in texts]

    def risk(self, *texts: str) -> None:
        """Write lines that may raise an error."""
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
        """The Python variable for a variable of the activation; its value is MISSING if the activation lacks it."""
        if name not in self._from_activation:
            code = self._from_activation[name] = self.temp("a")
            self._openings.append(_Line(1, f"{code} = activation.get({self.constant(name)}, MISSING)"))
        return self._from_activation[name]

    def set(self, text: str, kind: str = "") -> Code:
        """Assign an expression that raises nothing to a new variable."""
        name = self.temp()
        self.line(f"{name} = {text}")
        return Code(name, kind)

    def risk_set(self, text: str, kind: str = "") -> Code:
        name = self.temp()
        self.risk(f"{name} = {text}")
        return Code(name, kind)

    @contextmanager
    def block(self, header: str, *, counts: bool = False) -> Iterator[None]:
        """Indent lines under a header. counts: the block counts towards Python's limit, as loops do."""
        self.line(header)
        self._indent += 1
        self._blocks += counts
        yield
        self.settle()
        self._indent -= 1
        self._blocks -= counts

    @contextmanager
    def caught(self, *statements: str) -> Iterator[Caught]:
        """Wrap lines in a try whose handler for an EvaluationError, `error`, is the statements.

        The try is left out if no line may raise an error, or in the form that does not catch errors.
        """
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
        """Write an inner function; yields the code that calls it. The lines within must end with a return."""
        name = self.temp("f")
        self.settle()
        outside = self._lines, self._indent, self._blocks
        self._lines, self._indent, self._blocks = [], 2, 0
        yield f"{name}({parameters})"
        self._functions += [_Line(1, f"def {name}({parameters}):"), _Line(2, "nonlocal cost, budget"), *self._lines]
        self._lines, self._indent, self._blocks = outside
