"""Compilation of conversion rules against the schemas of a definition's versions.

Every field must be in the schema of its version. A moved or computed value must fit the type of its new field; so must the fields
of both versions that no change names. In expressions, `self` is the object in the version that is converted from or, in `each`,
the item. They may read labels and annotations. Their estimated costs have the limits of validation rules. Pure.
Source of the estimates: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/cel_validation.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from aggserver.cel import cost
from aggserver.cel.checker import Environment, check
from aggserver.cel.errors import CompileError
from aggserver.cel.program import Program, ProgramError, compile_program
from aggserver.cel.types import BOOL, DYN, Type
from aggserver.conversion import rule_types, rules
from aggserver.conversion.field_path import FieldPath
from aggserver.conversion.needed_fields import needed_fields
from aggserver.conversion.rule_types import describe
from aggserver.conversion.rules import FieldChange, RuleKind, Rules, RulesError, VersionPair
from aggserver.meta import field
from aggserver.meta.field import FieldError, Path
from aggserver.schema.decl_type import MAX_REQUEST_SIZE, Declarations, DeclType, declare
from aggserver.schema.rule_costs import MAX_EXPRESSION, MAX_TOTAL
from aggserver.schema.structural import TYPE_META, Structural

__all__ = ["METADATA_KEPT", "Compiled", "ConversionPlan", "ConversionStep", "Cost", "RuleExpression", "compile_rules"]

# Surplus fields that are removed without the pruner; most definitions have fewer.
_MOST_SURPLUS = 50
# Errors for one conversion about fields whose types differ between the versions.
_MOST_NAMED = 10
METADATA_KEPT = 1
"""How many parts of `.metadata.annotations` are kept when the last annotation is removed: `.metadata`."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The estimated cost of one expression. estimate: of one evaluation. cardinality: the most evaluations for one object."""

    path: Path
    expression: str
    estimate: int
    cardinality: int

    @property
    def total(self) -> int:
        return self.estimate * self.cardinality


@dataclass(frozen=True, slots=True)
class RuleExpression:
    """A compiled expression. needs: fields of `self` without which it has no result."""

    program: Program
    needs: tuple[FieldPath, ...]


@dataclass(frozen=True, slots=True)
class ConversionStep:
    """A change that can be run. target: the schema of the field that it writes. kept: see `field_path.take`."""

    change: FieldChange
    target: Structural
    kept: int = 0
    value: RuleExpression | None = None
    when: RuleExpression | None = None
    steps: tuple[ConversionStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversionPlan:
    """A compiled conversion. surplus: fields to remove before pruning, since the other version does not have them; not all."""

    conversion: VersionPair
    steps: tuple[ConversionStep, ...]
    costs: tuple[Cost, ...]
    surplus: tuple[FieldPath, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiled:
    """Compiled rules. plans: all written and derived conversions, by (from, to)."""

    rules: Rules
    plans: Mapping[tuple[str, str], ConversionPlan]

    def route(self, from_: str, to: str) -> tuple[ConversionPlan, ...]:
        return tuple(self.plans[each.from_, each.to] for each in self.rules.route(from_, to))


def compile_rules(given: Rules, schemas: Mapping[str, Structural], budget: int = 1) -> Compiled:
    """Compile rules. schemas: of all versions, by name. budget: a factor for all cost limits. Raises RulesError."""
    plans: dict[tuple[str, str], ConversionPlan] = {}
    errors: list[FieldError] = []
    self_of = cache(lambda version: _Self.of(schemas[version], is_resource=True))
    for pair, conversion in given.conversions.items():
        compiler = _Compiler(conversion, budget)
        source, target = schemas[conversion.from_], schemas[conversion.to]
        steps = compiler.steps(conversion.changes, source, target, self_of(conversion.from_), is_resource=True)
        compiler.limit_total()
        surplus = (path for path in rule_types.surplus(source, target, FieldPath(())) if path.parts[0] not in TYPE_META)
        plans[pair] = ConversionPlan(conversion, steps, tuple(compiler.costs), tuple(islice(surplus, _MOST_SURPLUS)))
        # A derived conversion repeats the errors of the written one, at the same path.
        if not conversion.derived or not any(error.path.text.startswith(conversion.path.text) for error in errors):
            errors += compiler.errors
    if errors:
        raise RulesError(errors)
    return Compiled(given, plans)


@dataclass(frozen=True, slots=True)
class _Self:
    """The variable `self`. declarations: None without a schema. cardinality: its values in one object; None for no limit."""

    type: Type
    declarations: Declarations | None
    declared: DeclType | None
    cardinality: int | None = 1

    @classmethod
    def of(cls, node: Structural, *, is_resource: bool, cardinality: int | None = 1) -> _Self:
        declared = declare(node, is_resource=is_resource, sees_labels=True)
        declarations = None if declared is None else Declarations(declared)
        return cls(DYN if declarations is None else declarations.type, declarations, declared, cardinality)

    @property
    def environment(self) -> Environment:
        variables = {"self": self.type}
        return Environment(variables) if self.declarations is None else Environment(variables, self.declarations)

    @property
    def count(self) -> int:
        if self.cardinality is not None:
            return self.cardinality
        # As many as fit into a request, each followed by a comma.
        return MAX_REQUEST_SIZE // ((1 if self.declared is None else self.declared.min_size) + 1)


class _Compiler:
    """Compiles one conversion, and collects its errors and costs."""

    def __init__(self, conversion: VersionPair, budget: int) -> None:
        self.errors: list[FieldError] = []
        self.costs: list[Cost] = []
        self._conversion = conversion
        self._budget = budget

    def steps(
        self, changes: Sequence[FieldChange], source: Structural, target: Structural, self_: _Self, *, is_resource: bool
    ) -> tuple[ConversionStep, ...]:
        made = [self._step(change, source, target, self_, is_resource=is_resource) for change in changes]
        at = changes[0].path if changes and not is_resource else self._conversion.path
        covered = set(_covered(changes))
        if is_resource:
            covered |= {FieldPath((name,)) for name in TYPE_META}
        for found in islice(rule_types.differences(source, target, FieldPath(()), except_=covered), _MOST_NAMED):
            self._add(field.forbidden(at, self._disagreement(found)))
        return tuple(step for step in made if step is not None)

    def _disagreement(self, found: rule_types.Difference) -> str:
        from_, to = self._conversion.from_, self._conversion.to
        remedy = "use `each` for its items" if found.is_in_list else "move, set or remove it"
        return f"{found.where or 'self'} is {describe(found.source)} in {from_} and {describe(found.target)} in {to}: {remedy}"

    def _step(
        self, change: FieldChange, source: Structural, target: Structural, self_: _Self, *, is_resource: bool
    ) -> ConversionStep | None:
        found: dict[str, Structural] = {}
        member = change.kind.value
        in_target = change.kind in (RuleKind.SET, RuleKind.RESTORE)
        wanted = [(member, change.field, target if in_target else source)]
        if change.kind is RuleKind.MOVE or change.kind is RuleKind.EACH:
            wanted.append(("to", change.to or change.field, target))
        for name, path, root in wanted:
            try:
                found[name] = rule_types.find(path, root, is_resource=is_resource)
            except ValueError as error:
                version = self._conversion.to if root is target else self._conversion.from_
                self._add(field.invalid(change.path.child(name), str(path), f"in {version}, {error}"))
        if len(found) < len(wanted):
            return None
        kept = METADATA_KEPT if is_resource and change.field.parts[0] == "metadata" else 0
        kept = max(kept, rule_types.kept_parents(change.field, target))
        when = self._expression(change.when, change.path.child("when"), self_, None)
        match change.kind:
            case RuleKind.MOVE:
                self._compare(change, found[member], found["to"])
            case RuleKind.SET:
                value = self._expression(change.value, change.path.child("value"), self_, found[member])
                return ConversionStep(change, found[member], kept, value, when)
            case RuleKind.RESTORE:
                return ConversionStep(change, found[member], METADATA_KEPT)
            case RuleKind.EACH:
                return self._each(change, found[member], found["to"], self_, kept)
        return ConversionStep(change, found.get("to", rule_types.STRING), kept, None, when)

    def _compare(self, change: FieldChange, source: Structural, target: Structural) -> None:
        from_, to = self._conversion.from_, self._conversion.to
        for found in islice(rule_types.differences(source, target, FieldPath(())), _MOST_NAMED):
            types = f"{describe(found.source)} in {from_} and {describe(found.target)} in {to}"
            what = f"{change.field}{found.where} is {types}; use set"
            self._add(field.invalid(change.path.child("to"), str(change.to), what))

    def _each(
        self, change: FieldChange, source: Structural, target: Structural, self_: _Self, kept: int
    ) -> ConversionStep | None:
        at = change.path.child(change.kind.value)
        inner: list[Structural] = []
        for node, version in ((source, self._conversion.from_), (target, self._conversion.to)):
            below = node.items if node.type == "array" else node.values
            if below is None:
                self._add(field.invalid(at, str(change.field), f"must be a list or map with a schema in {version}"))
            else:
                inner.append(below)
        if len(inner) < 2:
            return None
        if source.type != target.type:
            why = f"is {describe(source)} in {self._conversion.from_} and {describe(target)} in {self._conversion.to}"
            self._add(field.invalid(at, str(change.field), why))
            return None
        limit = source.schema.get("maxItems" if source.type == "array" else "maxProperties")
        above = self_.cardinality
        cardinality = None if above is None or limit is None else above * max(limit, 0)
        item = _Self.of(inner[0], is_resource=inner[0].x_embedded_resource, cardinality=cardinality)
        steps = self.steps(change.changes, inner[0], inner[1], item, is_resource=False)
        return ConversionStep(change, target, kept, steps=steps)

    # --- expressions ---

    def _expression(self, text: str, path: Path, self_: _Self, node: Structural | None) -> RuleExpression | None:
        """Compile an expression, if there is one. node: the schema of the field for its result; None for a condition."""
        if not text:
            return None
        try:
            checked = check(text, self_.environment)
            program = compile_program(checked, self_.declarations)
        except (CompileError, ProgramError) as error:
            self._add(field.invalid(path, text, f"compilation failed: {error}"))
            return None
        if node is None and checked.type != BOOL and not checked.type.is_dyn:
            self._add(field.invalid(path, text, f"must evaluate to a bool, not to {checked.type}"))
        elif node is not None and not rule_types.accepts(node, checked.type):
            why = f"evaluates to {checked.type}, and the field is {describe(node)} in {self._conversion.to}"
            self._add(field.invalid(path, text, why))
        found = Cost(path, text, cost.estimate(checked, self_.declarations).max, self_.count)
        self.costs.append(found)
        if found.total > MAX_EXPRESSION * self._budget:
            self._add(field.forbidden(path, _exceeds("estimated cost", found.total, MAX_EXPRESSION * self._budget)))
        return RuleExpression(program, needed_fields(checked.expr))

    def limit_total(self) -> None:
        total, limit = sum(each.total for each in self.costs), MAX_TOTAL * self._budget
        if total > limit:
            what = f"estimated cost of the conversion from {self._conversion.from_} to {self._conversion.to}"
            self._add(field.forbidden(self._conversion.path, _exceeds(what, total, limit)))

    def _add(self, error: FieldError) -> None:
        if self._conversion.derived:
            way = f"(turned around, from {self._conversion.from_} to {self._conversion.to}) "
            error = FieldError(error.reason, error.path, error.value, way + error.detail)
        self.errors.append(error)


def _covered(changes: Sequence[FieldChange]) -> Iterator[FieldPath]:
    """The fields that are never copied unchanged."""
    for change in changes:
        if not change.when:
            yield from rules.taken(change)
            if change.kind is RuleKind.SET:
                yield change.field


def _exceeds(name: str, value: int, limit: int) -> str:
    factor = value / limit
    text = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    limits = "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared"
    return f"{name} exceeds budget by factor of {text} (try simplifying the expression, or adding {limits})"
