"""The way from a schema to the validator of its rules, which imports CEL only if a schema has rules.

Importing `rule_validation.py`, `rule_costs.py` and CEL would take a sixth of a server's start, and most definitions have no
rules. So they are imported here, and in `apiextensions/schema_rules.py`, when the first rule is met. Pure.
"""

from __future__ import annotations

from aggserver.schema.rules import RuleOptions, RuleValidator
from aggserver.schema.structural import VALIDATIONS, Structural

__all__ = ["compile_validator"]


def compile_validator(structural: Structural, options: RuleOptions, *, is_resource: bool = True) -> RuleValidator | None:
    """The validator of a schema's rules; None if it has none. is_resource: the schema is that of a resource."""
    if not _has_rules(structural):
        return None
    from aggserver.schema.rule_validation import compile_tree

    return compile_tree(structural, options, is_resource=is_resource)


def _has_rules(node: Structural) -> bool:
    if node.schema.get(VALIDATIONS):
        return True
    below = (*node.properties.values(), node.items, node.values)
    return any(child is not None and _has_rules(child) for child in below)
