"""Generation: Python source for one schema, and the functions that come of it.

A compiler of this package names constants, adds functions line by line, and asks for them by name at the end. Text from a schema
never gets into the source: it is bound as a constant, so that no name of a property can be mistaken for code.
Called by `pruning.py` and `defaulting.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Module"]


class Module:
    """Source under way. `known` are objects that the source may use by name, in every module alike."""

    def __init__(self, **known: Any) -> None:
        self._names: dict[str, Any] = known
        self._lines: list[str] = []
        self._constants: dict[str, str] = {}

    def bind(self, prefix: str, value: Any) -> str:
        """A new name for `value`."""
        name = f"{prefix}_{len(self._names)}"
        self._names[name] = value
        return name

    def constant(self, value: Any) -> str:
        """The name of a JSON value or a set of strings; equal ones have one name."""
        # Python takes 1, 1.0 and True for one key; their texts differ.
        text = repr(sorted(value) if isinstance(value, frozenset) else value)
        key = f"{type(value).__name__} {text}"
        if key not in self._constants:
            self._constants[key] = self.bind("constant", value)
        return self._constants[key]

    def function(self, prefix: str, body: Iterable[str], arguments: str = "x") -> str:
        """Adds a function of these arguments; returns its name. `body`: its lines, indented from the first level."""
        name = self.bind(prefix, None)
        self._lines.append(f"def {name}({arguments}):")
        self._lines.extend("  " + line for line in body)
        return name

    def build(self) -> dict[str, Any]:
        """Runs the source; the names of its functions and constants."""
        code = compile("\n".join(self._lines), "<generated from a schema>", "exec")
        exec(code, self._names)  # noqa: S102  -- our own text; see above
        return self._names
