"""Validation of the expressions in webhook configurations and policies: they must compile, and have the wanted type.

Unlike the rules of a definition they have no limit of estimated cost; what one may cost is limited when it is evaluated.
Pure. Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go, v1.36.3; k8s.io/apiserver
pkg/admission/plugin/cel/compile.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aggserver.admission.policy.environment import APPLY_CONFIGURATION, JSON_PATCH
from aggserver.admission.policy.expressions import Compiler, Expression
from aggserver.cel.types import BOOL, NULL, STRING, list_of
from aggserver.meta.field import FieldError, Path, internal_error, invalid

__all__ = ["Expressions", "length_of_expressions"]

_PATCHES = {"ApplyConfiguration": APPLY_CONFIGURATION, "JSONPatch": list_of(JSON_PATCH)}
_MEMBERS = frozenset({"expression", "messageExpression", "valueExpression"})


class Expressions:
    """Of one policy, or of one webhook. Each method returns the errors of an expression at `path`; variables come first.

    has_params: whether the policy has a paramKind. has_variables: whether expressions may name `variables`.
    """

    def __init__(self, *, has_params: bool = False, has_variables: bool = False) -> None:
        self._compiler = Compiler(has_params=has_params, has_variables=has_variables)

    def variable(self, name: str, source: str, path: Path) -> Iterator[FieldError]:
        self._compiler.variable(name, source)
        return _errors(self._compiler.variables[name], source, path)

    def condition(self, source: str, path: Path) -> Iterator[FieldError]:
        """A match condition, or a validation."""
        return _errors(self._compiler.expression(source, (BOOL,)), source, path)

    def message(self, source: str, path: Path) -> Iterator[FieldError]:
        """A messageExpression, which does not see the authorizer."""
        return _errors(self._compiler.expression(source, (STRING,), has_authorizer=False), source, path)

    def annotation(self, source: str, shown: str, path: Path) -> Iterator[FieldError]:
        """shown: the value as the errors have it."""
        return _errors(self._compiler.expression(source, (STRING, NULL)), shown, path)

    def mutation(self, source: str, patch_type: str, path: Path) -> Iterator[FieldError]:
        """patch_type: ApplyConfiguration or JSONPatch."""
        return _errors(self._compiler.expression(source, (_PATCHES[patch_type],), makes_patches=True), source, path)


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
