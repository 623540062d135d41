"""Code generation: a Python module for one schema.

A compiler of this package binds constants, adds functions line by line, and gets the functions by name at the end. Text from a
schema never becomes part of the source: it is bound as a constant, so that a property's name can't be mistaken for code. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Module"]


class Module:
    """The source of a module being generated. known: objects that the source may use by name, the same in every module."""

    def __init__(self, **known: Any) -> None:
        self._names: dict[str, Any] = known
        self._lines: list[str] = []
        self._constants: dict[str, str] = {}

    def bind(self, prefix: str, value: Any) -> str:
        """Bind `value` to a new name, and return the name."""
        name = f"{prefix}_{len(self._names)}"
        self._names[name] = value
        return name

    def constant(self, value: Any) -> str:
        """The name of a JSON value or a set of strings; equal values share one name."""
        # Keyed by text, since 1, 1.0 and True are the same key in Python.
        text = repr(sorted(value) if isinstance(value, frozenset) else value)
        key = f"{type(value).__name__} {text}"
        if key not in self._constants:
            self._constants[key] = self.bind("constant", value)
        return self._constants[key]

    def function(self, prefix: str, body: Iterable[str], arguments: str = "x") -> str:
        """Add a function and return its name. body: its lines, without the indentation of the function."""
        name = self.bind(prefix, None)
        self._lines.append(f"def {name}({arguments}):")
        self._lines.extend("  " + line for line in body)
        return name

    def build(self) -> dict[str, Any]:
        """Run the source; return its functions and constants by name."""
        code = compile("\n".join(self._lines), "<generated from a schema>", "exec")
        exec(code, self._names)  # noqa: S102  -- our own text; see above
        return self._names
