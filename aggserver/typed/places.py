"""Places: the file and line of a class or of one of its fields, for error messages. Reads the source, and only for an error."""

from __future__ import annotations

import ast
import inspect
import os
import textwrap

__all__ = ["place_of"]


def place_of(cls: type | None, field: str) -> str:
    """`module.py:12`; without the line, or only the module, where the source does not have it. field: '' for the class itself."""
    if cls is None:
        return "?"
    for each in cls.__mro__:
        # A field may be of a base class.
        if found := _place_in(each, field):
            return found
    return _place_in(cls, "") or cls.__module__


def _place_in(cls: type, field: str) -> str:
    """'' if the source of the class is not there, or does not have the field."""
    try:
        lines, start = inspect.getsourcelines(cls)
        file = inspect.getsourcefile(cls)
        [node] = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, SyntaxError, TypeError, ValueError):
        return ""
    line = _line(node, field)
    return f"{os.path.basename(file or cls.__module__)}:{start + line - 1}" if line else ""


def _line(node: ast.stmt, field: str) -> int:
    """The line of a field, or of the class itself, from 1 on; 0 if the class has no such field."""
    if not isinstance(node, ast.ClassDef):
        return 0
    if not field:
        return node.lineno
    for each in node.body:
        targets = [each.target] if isinstance(each, ast.AnnAssign) else each.targets if isinstance(each, ast.Assign) else []
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        # A computed field is a function.
        if field in names or (isinstance(each, ast.FunctionDef) and each.name == field):
            return each.lineno
    return 0
