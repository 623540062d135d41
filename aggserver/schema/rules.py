"""Rules: x-kubernetes-validations, as those know them who have a schema and don't know yet whether there are any in it.

What judges rules (`rule_validation.py`, `rule_costs.py`, and CEL below them) would take a sixth of a server's start, and most
definitions have none: it is imported here, and in `apiextensions/schema_rules.py`, when the first rule is met. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from aggserver.meta.field import FieldError
from aggserver.schema.structural import VALIDATIONS, Structural

if TYPE_CHECKING:
    from aggserver.schema.rule_validation import RuleValidator

__all__ = ["OBJECT_LIMIT", "UPSTREAM", "OutOfPatienceError", "RuleFindings", "RuleOptions", "compile_validator", "rules_length"]

# Units of cost, of all evaluations for one object.
OBJECT_LIMIT = 10_000_000


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """What rules may do beyond upstream's. sees_labels: the metadata of resources has labels and annotations for them.

    budget: a factor of the limits of cost.
    """

    sees_labels: bool = False
    budget: int = 1


UPSTREAM = RuleOptions()


class RuleFindings(NamedTuple):
    """warnings: the texts of errors at values that an update has not changed."""

    errors: list[FieldError]
    warnings: list[str]


class OutOfPatienceError(Exception):
    """The rules take longer than the caller would wait. There are no findings then."""


def rules_length(schema: Mapping[str, Any]) -> int:
    """Characters of a node's expressions. To compile them takes some 10 us for each."""
    rules = schema.get(VALIDATIONS) or ()
    return sum(len(rule.get("rule") or "") + len(rule.get("messageExpression") or "") for rule in rules)


def compile_validator(structural: Structural, options: RuleOptions, *, is_resource: bool = True) -> RuleValidator | None:
    """None if there is no rule in the schema. is_resource: the schema is that of a resource."""
    if not _has_rules(structural):
        return None
    from aggserver.schema.rule_validation import compile_tree

    return compile_tree(structural, options, is_resource=is_resource)


def _has_rules(node: Structural) -> bool:
    if node.schema.get(VALIDATIONS):
        return True
    below = (*node.properties.values(), node.items, node.values)
    return any(child is not None and _has_rules(child) for child in below)
