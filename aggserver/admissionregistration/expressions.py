"""Validation of the expressions in webhook configurations and policies: they must compile, and have the wanted type.

Unlike the validation rules of a definition, they have no limit of estimated cost; their cost is limited when they are evaluated.
Pure. Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go, v1.36.3; k8s.io/apiserver
pkg/admission/plugin/cel/compile.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aggserver.meta.field import FieldError, Path, internal_error, invalid

# CEL is imported when the first expression is validated, since starting the server does not need it.
if TYPE_CHECKING:
    from aggserver.admission.policy.expressions import Expression
    from aggserver.cel.types import Type

__all__ = ["Expressions", "length_of_expressions"]

_MEMBERS = frozenset({"expression", "messageExpression", "valueExpression"})


class Expressions:
    """The expressions of one policy or webhook. Each method returns the errors of an expression at `path`; variables come first.

    has_params: whether the policy has a paramKind. has_variables: whether expressions may name `variables`.
    """

    def __init__(self, *, has_params: bool = False, has_variables: bool = False) -> None:
        from aggserver.admission.policy.expressions import Compiler
        from aggserver.cel import types

        self._compiler = Compiler(has_params=has_params, has_variables=has_variables)
        self._types = types

    def variable(self, name: str, source: str, path: Path) -> Iterator[FieldError]:
        self._compiler.variable(name, source)
        return _errors(self._compiler.variables[name], source, path)

    def condition(self, source: str, path: Path) -> Iterator[FieldError]:
        """A match condition, or a validation."""
        return _errors(self._compiler.expression(source, (self._types.BOOL,)), source, path)

    def message(self, source: str, path: Path) -> Iterator[FieldError]:
        """A messageExpression, which can't use the authorizer."""
        return _errors(self._compiler.expression(source, (self._types.STRING,), has_authorizer=False), source, path)

    def annotation(self, source: str, shown: str, path: Path) -> Iterator[FieldError]:
        """The valueExpression of an audit annotation. shown: its text in errors."""
        return _errors(self._compiler.expression(source, (self._types.STRING, self._types.NULL)), shown, path)

    def mutation(self, source: str, patch_type: str, path: Path) -> Iterator[FieldError]:
        """The expression of a mutation. patch_type: ApplyConfiguration or JSONPatch."""
        from aggserver.admission.policy.environment import APPLY_CONFIGURATION, JSON_PATCH

        wanted: Type = APPLY_CONFIGURATION if patch_type == "ApplyConfiguration" else self._types.list_of(JSON_PATCH)
        return _errors(self._compiler.expression(source, (wanted,), makes_patches=True), source, path)


def _errors(compiled: Expression, shown: str, path: Path) -> Iterator[FieldError]:
    if compiled.error.startswith("program instantiation failed"):
        yield internal_error(path, compiled.error)
    elif compiled.error:
        yield invalid(path, shown, compiled.error)


def length_of_expressions(content: Any) -> int:
    """The characters of all expressions in a spec or in a list of webhooks; compiling takes some 10 us for each."""
    if isinstance(content, list):
        return sum(map(length_of_expressions, content))
    if not isinstance(content, dict):
        return 0
    return sum(
        len(value) if name in _MEMBERS and isinstance(value, str) else length_of_expressions(value)
        for name, value in content.items()
    )
