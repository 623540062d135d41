"""Validation of a definition's rules: that they compile, and that their estimated costs are within the limits.

The maximum cost of one evaluation, times how often the rule can be evaluated in one object, has a limit, and so has the sum of
all rules of a schema. The figures are upstream's to the digit. Only structural schemas are checked. Pure.
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/{cel_validation,validation}.go
(ValidateCustomResourceDefinitionOpenAPISchema), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from aggserver.meta.field import FieldError, Path, RawJSON, forbidden, internal_error, invalid
from aggserver.meta.json_types import JSONMapping
from aggserver.schema import internal, structural
from aggserver.schema.compiled_rules import CompiledRule, compile_rules
from aggserver.schema.decl_type import MAX_REQUEST_SIZE, DeclType, declare
from aggserver.schema.escaping import escape
from aggserver.schema.rules import RuleOptions
from aggserver.schema.structural import EMBEDDED, LIST_TYPE, MAP_TYPE, VALIDATIONS

__all__ = ["MAX_EXPRESSION", "MAX_TOTAL", "violations"]

Errors = Iterator[FieldError]

# Limits for one expression and for all of a schema, in units of cost (about 50 ns), multiplied by the `budget` of the options.
MAX_EXPRESSION = 10_000_000
MAX_TOTAL = 100_000_000
# If the sum is too high, the errors name at most so many of the most expensive expressions, each of a hundredth of the limit or
# more.
_MOST_NAMED = 4

_MAX_UINT64 = 2**64 - 1


def violations(
    schema: JSONMapping, path: Path, faulty: Collection[Path], options: RuleOptions, *, unchanged: bool = False
) -> list[FieldError]:
    """The errors of the rules of a structural schema, in the order of `constructs.violations`.

    faulty: the paths of schemas that have other errors, themselves or below; the rules of these are not checked.
    unchanged: the schema has been accepted before, so the limit of single expressions, which may be newer, does not apply.
    """
    with_rules: set[int] = set()
    if not _find_rules(schema, with_rules):
        return []
    check = _Check(faulty, options, with_rules, unchanged=unchanged)
    return [*check.node(_Node(schema, path, options)), *check.total(path)]


def _find_rules(schema: JSONMapping, found: set[int]) -> bool:
    """Whether the schema, or one below it, has rules. found: collects the ids of all schemas for which this is true."""
    has = bool(schema.get(VALIDATIONS))
    for _, _, child in _children(schema):
        has |= _find_rules(child, found)
    if has:
        found.add(id(schema))
    return has


def _children(schema: JSONMapping) -> Iterator[tuple[str, str | None, JSONMapping]]:
    """(member, name of the property or None, schema) of each child. Value validations are left out: they can't have rules."""
    extra, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(extra, dict):
        yield "additionalProperties", None, extra
    for name, child in sorted((schema.get("properties") or {}).items()):
        yield "properties", name, child or {}
    if items is not None:
        yield "items", None, items


@dataclass
class _Node:
    """A schema with its context.

    name: the property's name; None for items and values of maps.
    cardinality: how many values of the schema one object can have; None if that is unlimited.
    uncorrelatable: the outermost schema on the path whose items or values can't be correlated with old ones; None if none.
    """

    schema: JSONMapping
    path: Path
    options: RuleOptions
    parent: _Node | None = None
    name: str | None = None
    cardinality: int | None = 1
    uncorrelatable: Path | None = None

    def below(self, with_rules: Collection[int]) -> Iterator[_Node]:
        """The children with rules. with_rules: ids of schemas, see `_find_rules`."""
        correlatable = {
            "additionalProperties": True,
            "properties": self.schema.get(MAP_TYPE) in (None, "atomic", "granular"),
            "items": self.schema.get(LIST_TYPE) == "map",
        }
        for member, name, schema in _children(self.schema):
            if id(schema) not in with_rules:
                continue
            at = self.path.child(member) if name is None else self.path.child(member).key(name)
            uncorrelatable = self.uncorrelatable or (None if correlatable[member] else self.path)
            yield _Node(schema, at, self.options, self, name, self._cardinality_below, uncorrelatable)

    @cached_property
    def _cardinality_below(self) -> int | None:
        get, each = self.schema.get, self.cardinality
        limit: int | None = 1
        if get("type") == "array":
            limit = get("maxItems")
        elif get("type") == "object" and get("additionalProperties") is not None:
            limit = get("maxProperties")
        return None if each is None or limit is None else _times(each, max(limit, 0))

    @cached_property
    def _has_type(self) -> bool:
        return bool(self.schema.get(VALIDATIONS)) or (self.parent is not None and self.parent._has_type)

    @cached_property
    def declared(self) -> DeclType | None:
        """The CEL type of `self` in the node's rules; None if there is none. To save time, it is taken from the parent's type."""
        parent = self.parent
        if parent is not None and parent._has_type:
            above = parent.declared
            if above is None:
                return None
            if self.name is None:
                return above.element
            found = above.fields.get(escape(self.name) or "")
            if found is not None:
                return found
        is_resource = parent is None or bool(self.schema.get(EMBEDDED))
        return declare(structural.compile(self.schema), is_resource=is_resource, sees_labels=self.options.sees_labels)


class _Check:
    def __init__(self, faulty: Collection[Path], options: RuleOptions, with_rules: Collection[int], *, unchanged: bool) -> None:
        self._faulty = faulty
        self._with_rules = with_rules
        self._unchanged = unchanged
        self._max_expression = MAX_EXPRESSION * options.budget
        self._max_total = MAX_TOTAL * options.budget
        self._costs: list[tuple[Path, int]] = []

    def node(self, node: _Node) -> Errors:
        for child in node.below(self._with_rules):
            yield from self.node(child)
        rules, at = node.schema.get(VALIDATIONS), node.path.child(VALIDATIONS)
        if not rules or node.path in self._faulty:
            return
        declared = node.declared
        if declared is None:
            why = "unable to convert structural schema to CEL declarations"
            what = f"internal error: failed to construct type information for {VALIDATIONS} rules"
            yield internal_error(at, f"{what}: {why}")
            return
        count = node.cardinality
        if count is None:
            # As many values as fit into a request, each followed by a comma.
            count = MAX_REQUEST_SIZE // (declared.min_size + 1)
        for index, rule in enumerate(compile_rules(rules, declared)):
            yield from self._rule(rule, at.index(index), count, node.uncorrelatable)

    def _rule(self, compiled: CompiledRule, path: Path, count: int, uncorrelatable: Path | None) -> Errors:
        rule, expression, message = compiled.rule, compiled.expression, compiled.message
        at = path.child("rule")
        yield from self._cost("estimated rule cost", at, _times(expression.max_cost(), count))
        if expression.error:
            yield invalid(at, RawJSON(internal.rule_text(rule)), expression.error)
        if message.error:
            yield invalid(path.child("messageExpression"), RawJSON(internal.rule_text(rule)), message.error)
        else:
            yield from self._cost("estimated messageExpression cost", path.child("messageExpression"), message.max_cost())
        if not expression.uses_old_self:
            if rule.get("optionalOldSelf") is not None:
                why = "may not be set if oldSelf is not used in rule"
                yield invalid(path.child("optionalOldSelf"), rule["optionalOldSelf"], why)
        elif uncorrelatable is not None:
            why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            yield invalid(at, rule["rule"], why)

    def _cost(self, name: str, path: Path, cost: int) -> Errors:
        self._costs.append((path, cost))
        if cost > self._max_expression and not self._unchanged:
            yield forbidden(path, _exceeds(name, cost, self._max_expression))

    def total(self, path: Path) -> Errors:
        """The errors of the sum of all costs, after all nodes have been visited."""
        total = min(sum(cost for _, cost in self._costs), _MAX_UINT64)
        if total <= self._max_total:
            return
        expensive = sorted(
            ((at, cost) for at, cost in self._costs if cost >= self._max_total // 100), key=lambda each: each[1], reverse=True
        )
        for at, _ in expensive[:_MOST_NAMED]:
            yield forbidden(at, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema")
        what = f"{VALIDATIONS} estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden(path, _exceeds(what, total, self._max_total))


def _times(cost: int, count: int) -> int:
    return min(cost * count, _MAX_UINT64)


def _exceeds(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    # Upstream avoids "1.0x", and large factors without meaning.
    text = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    limits = "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared"
    return f"{name} exceeds budget by factor of {text} (try simplifying the rule, or adding {limits})"
