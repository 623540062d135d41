"""Rule validation: evaluates the rules of a schema (x-kubernetes-validations) for an object.

Only nodes with rules are visited, and a node's rules are compiled when a value first gets there. A transition rule, which uses
oldSelf, needs an old value: members of objects are correlated by name, items of lists of type map by their keys. A rule that
fails is an error, or a warning if an update left the value unchanged. The cost of one expression and that of all for an object
are limited; evaluation ends when a limit is exceeded. That may take seconds, so a caller can set a lower limit (`patience`),
repeat in a thread if it is exceeded, and abandon the evaluation there (`is_given_up`).

Structural schemas have no rules below allOf. Pure.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/validation.go, k8s.io/apiserver pkg/apis/cel/config.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from aggserver.cel.program import Program
from aggserver.cel.values import NONE, CELError, CostExceeded, Optional
from aggserver.meta import codec, field
from aggserver.meta.field import OMITTED, FieldError, Path, quote
from aggserver.schema.compiled_rules import CompiledRule, SchemaExpression, compile_rules
from aggserver.schema.decl_type import DeclType, declare
from aggserver.schema.escaping import escape
from aggserver.schema.ratcheting import Correlation, MapList
from aggserver.schema.rules import OBJECT_LIMIT, OutOfPatienceError, RuleFindings, RuleOptions, rules_length
from aggserver.schema.structural import VALIDATIONS, Structural

__all__ = ["CALL_LIMIT", "RuleTree", "compile_tree"]

# The cost limit of one evaluation; `rules.OBJECT_LIMIT` is that of all evaluations for one object.
CALL_LIMIT = 1_000_000
# The longest result of a messageExpression, in bytes.
_LONGEST_MESSAGE = 5 * 1024

# Units of cost counted for compiling a character of a rule, where `patience` limits the work.
_COMPILING = 4
# Bytes of JSON of a large object. Larger ones take time to correlate and to visit, even if their rules cost little.
_LARGE = 128 * 1024
# Bytes of warnings that are collected: far more than fit into the headers of a response.
_MAX_WARNINGS = 64 * 1024

_OUT_OF_BUDGET = "running out of cost budget, no further validation rules will be run"


class RuleTree:
    """`rules.RuleValidator`."""

    def __init__(self, root: _Node, options: RuleOptions) -> None:
        self._root = root
        self._options = options

    def validate(
        self,
        obj: Any,
        old: Any = None,
        correlation: Correlation | None = None,
        *,
        patience: int | None = None,
        is_given_up: Callable[[], bool] | None = None,
    ) -> RuleFindings:
        if patience is not None and (_is_large(obj) or _is_large(old)):
            raise OutOfPatienceError
        budget = self._options.budget
        limits = (CALL_LIMIT * budget, OBJECT_LIMIT * budget) if patience is None else (patience, patience)
        walk = _Walk(*limits, correlation, pays_for_compiling=patience is not None, is_given_up=is_given_up)
        try:
            walk.visit(self._root, obj, old, None)
        except _StopError:
            if patience is not None:
                raise OutOfPatienceError from None
        return walk.findings

    def validate_default(self, value: Any, path: Path, left: int) -> tuple[list[FieldError], int]:
        remains = left
        for old in (value, None):
            walk = _Walk(CALL_LIMIT * self._options.budget, left, None)
            with suppress(_StopError):
                walk.visit(self._root, value, old, (None, Path.child, path.text))
            remains = min(remains, walk.left)
            if walk.findings.errors:
                break
        return walk.findings.errors, remains


def _is_large(obj: Any) -> bool:
    return len(codec.encode_json(obj)) > _LARGE


def compile_tree(structural: Structural, options: RuleOptions, *, is_resource: bool) -> RuleTree | None:
    """See `lazy_rules.compile_validator`, which imports this module only if there are rules."""
    root = _tree(structural, declare(structural, is_resource=is_resource, sees_labels=options.sees_labels), options)
    return None if root is None else RuleTree(root, options)


# --- compiled rules ---


# How a rule uses the old value: not at all, as a required value, or as an optional one.
_UNUSED, _REQUIRED, _OPTIONAL = range(3)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A compiled rule. name: its name in errors. program: None if there is an error instead."""

    program: Program | None
    message: Program | None
    old_self: int
    error: str
    name: str
    field_path: str
    rule: Mapping[str, Any]


class _Node:
    """A node that has rules, itself or below it."""

    __slots__ = ("_declared", "_rules", "has_rules", "has_type", "items", "properties", "structural", "values")

    def __init__(self, structural: Structural, declared: DeclType | None) -> None:
        self.structural = structural
        self.has_rules = bool(structural.schema.get(VALIDATIONS))
        self.properties: dict[str, _Node] = {}
        self.items: _Node | None = None
        self.values: _Node | None = None
        self.has_type = declared is not None
        self._declared = declared
        self._rules: list[_Rule] = []

    def compile_cost(self) -> int:
        """Units of cost counted for compiling the node's rules; 0 if they have been compiled."""
        return 0 if self._declared is None else rules_length(self.structural.schema) * _COMPILING

    def rules(self) -> list[_Rule]:
        """Compile the rules at the first call. Several threads may do so at the same time, with the same result."""
        declared = self._declared
        if declared is not None:
            compiled = compile_rules(self.structural.schema[VALIDATIONS], declared)
            # Keep only the programs, not the checked expressions.
            self._rules = [_prepare(rule) for rule in compiled if rule.expression != SchemaExpression()]
            self._declared = None
        return self._rules


def _tree(node: Structural, declared: DeclType | None, options: RuleOptions) -> _Node | None:
    """The tree of the nodes with rules; None if there are none, or if the node has no type for them."""
    if declared is None:
        return None
    made = _Node(node, declared)
    if node.items is not None:
        made.items = _tree(node.items, declared.element, options) or _untyped(node.items)
    if node.values is not None:
        made.values = _tree(node.values, declared.element, options) or _untyped(node.values)
    # Sorted; upstream's order is that of a Go map.
    for name, child in sorted(node.properties.items()):
        identifier = escape(name)
        if identifier is None:
            # Rules of the parent can't access it, but it may have rules itself.
            below = declare(child, is_resource=child.x_embedded_resource, sees_labels=options.sees_labels)
        else:
            below = declared.fields.get(identifier)
        if (inner := _tree(child, below, options)) is not None:
            made.properties[name] = inner
    return made if made.has_rules or made.properties or made.items or made.values else None


def _untyped(node: Structural) -> _Node | None:
    """A node whose rules can't be compiled, e.g. items of a type other than array in a definition stored before."""
    return _Node(node, None) if node.schema.get(VALIDATIONS) else None


def _prepare(compiled: CompiledRule) -> _Rule:
    rule = compiled.rule
    old_self = _UNUSED
    if compiled.expression.uses_old_self:
        old_self = _OPTIONAL if rule.get("optionalOldSelf") else _REQUIRED
    return _Rule(
        program=compiled.expression.program(),
        message=compiled.message.program(),
        old_self=old_self,
        error=compiled.expression.error,
        name=(rule.get("message") or rule["rule"]).strip(),
        field_path=compiled.field_path.text,
        rule=rule,
    )


# --- one object ---

# The place of a value: the parent's place, and the step from there; None for the root. Paths are made from it only for errors.
_Place: TypeAlias = "tuple[_Place, Callable[[Path, Any], Path], str | int] | None"


class _StopError(Exception):
    """A cost limit is exceeded, or nobody waits for the result any more."""


class _Limit(int):
    """A cost limit that also counts as exceeded once nobody waits for the result. Programs check it every few steps of a loop."""

    is_given_up: Callable[[], bool]

    @classmethod
    def of(cls, units: int, is_given_up: Callable[[], bool]) -> _Limit:
        made = cls(units)
        made.is_given_up = is_given_up
        return made

    def __sub__(self, units: int) -> _Limit:
        return self.of(int(self) - units, self.is_given_up)

    def __lt__(self, cost: int) -> bool:
        """Python calls this for `cost > limit` too."""
        return self.is_given_up() or int(self) < cost


class _Walk:
    """One pass over an object. limit: the cost limit of one evaluation. left: what is left of the limit for all evaluations."""

    def __init__(
        self,
        limit: int,
        left: int,
        correlation: Correlation | None,
        *,
        pays_for_compiling: bool = False,
        is_given_up: Callable[[], bool] | None = None,
    ) -> None:
        self.findings = RuleFindings([], [])
        self.left = left
        self._warned = 0
        self._limit = limit if is_given_up is None else _Limit.of(limit, is_given_up)
        self._correlation = correlation
        self._pays_for_compiling = pays_for_compiling

    def visit(self, node: _Node, value: Any, old: Any, place: _Place) -> None:
        """Evaluate the rules of a value and of all values in it; null is skipped. Raises _StopError."""
        if value is None:
            return
        if node.has_rules:
            self._evaluate(node, value, old, place)
        if isinstance(value, list):
            if node.items is not None:
                before = MapList(old, node.structural) if isinstance(old, list) else None
                for index, item in enumerate(value):
                    was = before.find(item) if before else None
                    self.visit(node.items, item, was, (place, Path.index, index))
        elif isinstance(value, dict):
            members = old if isinstance(old, dict) else {}
            if node.values is not None:
                for name in sorted(value):
                    self.visit(node.values, value[name], members.get(name), (place, Path.key, name))
            for name, child in node.properties.items():
                if name in value:
                    self.visit(child, value[name], members.get(name), (place, Path.child, name))

    def _evaluate(self, node: _Node, value: Any, old: Any, place: _Place) -> None:
        if self.left <= 0:
            self._stop(node, place, f"validation failed due to {_OUT_OF_BUDGET}")
        if not node.has_type:
            why = "failed to convert to declType for CEL validation rules"
            self._error(node, place, f"rule compiler initialization error: {why}")
            return
        if self._pays_for_compiling:
            self._pay(node, place, node.compile_cost())
        # Indexed by how a rule uses the old value.
        variables: list[Mapping[str, Any] | None] = [None, None, None]
        for rule in node.rules():
            if rule.program is None:
                self._error(node, place, f"rule compile error: {rule.error}")
                continue
            if old is None and rule.old_self == _REQUIRED:
                continue
            try:
                given = variables[rule.old_self]
                if given is None:
                    given = variables[rule.old_self] = _variables(rule.old_self, value, old)
                passes, cost = rule.program(given, self._limit)
            except CELError as error:
                self._pay(node, place, error.cost)
                self._no_value(node, place, rule, error)
                continue
            self._pay(node, place, cost)
            if not passes:
                self._failed(node, value, place, rule, given)

    def _pay(self, node: _Node, place: _Place, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            self._stop(node, place, f"validation failed due to {_OUT_OF_BUDGET}")

    def _no_value(self, node: _Node, place: _Place, rule: _Rule, error: CELError) -> None:
        why = str(error)
        if isinstance(error, CostExceeded):
            text = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._stop(node, place, f"'{why}': {text}: {rule.name}")
        if why.startswith("no such overload"):
            # E.g. for an int-or-string, which is dyn for the checker.
            text = "call arguments did not match a supported operator, function or macro signature for rule"
            self._error(node, place, f"'{why}': {text}: {rule.name}")
        else:
            self._error(node, place, f"{why} evaluating rule: {rule.name}")

    def _failed(self, node: _Node, value: Any, place: _Place, rule: _Rule, variables: Mapping[str, Any]) -> None:
        path = _path(place)
        if rule.field_path:
            path = path.child(rule.field_path)
        ratchets = rule.old_self == _UNUSED and self._is_unchanged(place)
        try:
            detail = self._message(rule, variables)
        except _StopError as stop:
            self._add(field.invalid(path, node.structural.type, str(stop)), ratchets)
            raise
        shown = OMITTED if node.structural.type in ("object", "array") else value
        self._add(_error_for(rule.rule.get("reason"), path, shown, detail), ratchets)

    def _message(self, rule: _Rule, variables: Mapping[str, Any]) -> str:
        """The message of a rule that failed. Raises _StopError with the error to report instead."""
        if rule.message is not None:
            text = ""
            exceeded = False
            try:
                text, cost = rule.message(variables, self._limit)
            except CELError as error:
                cost, exceeded = error.cost, isinstance(error, CostExceeded)
            if cost > self.left:
                raise _StopError(f"messageExpression evaluation failed due to {_OUT_OF_BUDGET}")
            if exceeded:
                why = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
                raise _StopError(f"{why}: {quote(rule.rule['messageExpression'])}")
            self.left -= cost
            text = text.strip()
            if text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE:
                return text
        return rule.name if rule.rule.get("message") else f"failed rule: {rule.name}"

    def _is_unchanged(self, place: _Place) -> bool:
        """Whether the value, or else the closest value around it that can be correlated, is unchanged."""
        if self._correlation is None:
            return False
        current, around = self._correlation, None
        for step in _steps(place):
            if around is None and step in ("apiVersion", "kind"):
                # A change of these can't be seen here, since both objects have been converted to the same version.
                return False
            below = current.index(step) if isinstance(step, int) else current.key(step)
            if below is None:
                break
            current, around = below, current
        return current.is_unchanged()

    def _error(self, node: _Node, place: _Place, text: str) -> None:
        self.findings.errors.append(field.invalid(_path(place), node.structural.type, text))

    def _stop(self, node: _Node, place: _Place, text: str) -> NoReturn:
        self._error(node, place, text)
        raise _StopError(text)

    def _add(self, error: FieldError, ratchets: bool) -> None:
        if ratchets:
            if self._warned < _MAX_WARNINGS:
                self.findings.warnings.append(text := str(error))
                self._warned += len(text)
        else:
            self.findings.errors.append(error)


def _variables(old_self: int, value: Any, old: Any) -> Mapping[str, Any]:
    if old_self == _UNUSED:
        return {"self": value}
    if old_self == _OPTIONAL:
        old = NONE if old is None else Optional(old)
    return {"self": value, "oldSelf": old}


def _path(place: _Place) -> Path:
    if place is None:
        return Path()
    parent, how, step = place
    return how(_path(parent), step)


def _steps(place: _Place) -> list[str | int]:
    steps = []
    while place is not None:
        place, _, step = place
        steps.append(step)
    return steps[::-1]


def _error_for(reason: str | None, path: Path, value: Any, detail: str) -> FieldError:
    match reason:
        case "FieldValueForbidden":
            return field.forbidden(path, detail)
        case "FieldValueRequired":
            return field.required(path, detail)
        case "FieldValueDuplicate":
            return field.duplicate(path, value)
        case _:
            return field.invalid(path, value, detail)
