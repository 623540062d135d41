"""Compilation of the expressions in x-kubernetes-validations.

A rule that does not compile has an error, with upstream's message, instead of a program: a new definition is refused for it; with
a definition that is stored already, every validated object gets the error. Rules are compiled when a definition is validated
(`rule_costs.py`), which needs their costs too, and when a version first validates an object (`rule_validation.py`). This module
imports CEL, so a server imports it only when it meets the first rule (`lazy_rules.py`). Pure.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/compilation.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aggserver.cel import cost
from aggserver.cel.checker import Checked, Environment, check
from aggserver.cel.errors import CompileError
from aggserver.cel.program import Program, ProgramError, prepare_program
from aggserver.cel.types import BOOL, STRING, Type, optional_of
from aggserver.meta.field import Path
from aggserver.schema import constructs
from aggserver.schema.decl_type import Declarations, DeclType

__all__ = ["CompiledRule", "SchemaExpression", "compile_rules"]


@dataclass(frozen=True, slots=True)
class SchemaExpression:
    """A rule or a messageExpression: an `error`, or a function that makes the program; neither if there is no expression."""

    make_program: Callable[[], Program] | None = None
    error: str = ""
    checked: Checked | None = None
    declarations: Declarations | None = None

    def program(self) -> Program | None:
        """None if it has an error, or if there is no expression."""
        return None if self.make_program is None else self.make_program()

    def max_cost(self) -> int:
        """The maximum estimated cost of one evaluation; 0 if it was not compiled."""
        if self.checked is None or self.declarations is None:
            return 0
        return cost.estimate(self.checked, self.declarations).max

    @property
    def uses_old_self(self) -> bool:
        return self.checked is not None and "oldSelf" in self.checked.references.values()


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """rule: as written in the definition. message: its messageExpression. field_path: its parsed fieldPath, empty if none."""

    rule: Mapping[str, Any]
    expression: SchemaExpression
    message: SchemaExpression = SchemaExpression()
    field_path: Path = Path()  # noqa: RUF009  -- immutable


def compile_rules(rules: list[Mapping[str, Any]], declared: DeclType) -> list[CompiledRule]:
    """Compile the rules of a node, in their order. declared: the node's type. An empty rule is not compiled."""
    declarations = Declarations(declared)
    return [_compile(rule, declared, declarations) for rule in rules]


def _compile(rule: Mapping[str, Any], declared: DeclType, declarations: Declarations) -> CompiledRule:
    text, message = rule.get("rule") or "", rule.get("messageExpression") or ""
    if not text.strip():
        return CompiledRule(rule, SchemaExpression())
    self_type = declarations.type
    old_self = optional_of(self_type) if rule.get("optionalOldSelf") else self_type
    environment = Environment({"self": self_type, "oldSelf": old_self}, declarations)
    expression = _expression(text, BOOL, "cel expression must evaluate to a bool", environment, declarations)
    if expression.error:
        return CompiledRule(rule, expression)
    compiled = SchemaExpression()
    if message:
        prefix = "messageExpression "
        compiled = _expression(message, STRING, f"{prefix}must evaluate to a string", environment, declarations, prefix)
    field_path = Path() if compiled.error else _field_path(rule.get("fieldPath") or "", declared)
    return CompiledRule(rule, expression, compiled, field_path)


def _field_path(text: str, declared: DeclType) -> Path:
    try:
        return constructs.find_field(text, declared.node.schema)[0]
    except ValueError:
        # Only a stored definition can have an invalid path, since validation refuses it; errors are then reported at the node.
        return Path()


def _expression(
    text: str, type_: Type, wanted: str, environment: Environment, declarations: Declarations, prefix: str = ""
) -> SchemaExpression:
    try:
        checked = check(text, environment)
    except CompileError as why:
        return SchemaExpression(error=f"{prefix}compilation failed: {why}")
    if checked.type != type_:
        return SchemaExpression(error=wanted)
    try:
        make_program = prepare_program(checked, declarations)
    except ProgramError as why:
        # Keep the checked expression, which shows whether oldSelf is used; its cost is not known.
        return SchemaExpression(error=f"{prefix or 'program '}instantiation failed: {why}", checked=checked)
    return SchemaExpression(make_program, checked=checked, declarations=declarations)
