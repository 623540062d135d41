"""Defaults: whether those of a schema are values that it would take.

Called when a definition is checked. Pure.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/defaulting/{validation,surroundingobject}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aggserver.meta import codec, field
from aggserver.meta.field import FieldError, Path
from aggserver.schema.object_meta import malformed_resource, validate_resources
from aggserver.schema.pruning import drop_unknown
from aggserver.schema.rules import OBJECT_LIMIT, UPSTREAM, RuleOptions, compile_validator
from aggserver.schema.structural import TYPE_META, Structural
from aggserver.schema.validation import validate

__all__ = ["validate_defaults"]

# Builds the resource around a value that stands somewhere in its kind, apiVersion or metadata.
_Surround = Callable[[Any], dict[str, Any]]


def validate_defaults(
    root: Structural, path: Path, *, pruned: bool = True, rule_options: RuleOptions = UPSTREAM
) -> list[FieldError]:
    """Every default that would not be taken; `path` is that of the schema.

    pruned: they must not have fields that pruning drops; a definition that had such a default before may keep it.
    """
    root = root if root.x_embedded_resource else replace(root, x_embedded_resource=True)
    return _Check(rule_options, pruned=pruned).node(root, path, root, _resource, inside=False)


def _resource(value: Any) -> dict[str, Any]:
    return {"kind": "Validation", "apiVersion": "validation/v1", **value}


class _Check:
    def __init__(self, rule_options: RuleOptions, *, pruned: bool) -> None:
        self._rule_options = rule_options
        self._pruned = pruned
        # Of what rules may cost, for all defaults together.
        self._left = OBJECT_LIMIT * rule_options.budget

    def node(self, node: Structural, path: Path, root: Structural, surround: _Surround, *, inside: bool) -> list[FieldError]:
        """root: the resource that `node` is a part of. inside: in its kind, apiVersion or metadata."""
        if self._left < 0:
            return []
        if node.x_embedded_resource:
            inside, surround, root = False, _resource, node
        problems = []
        if node.default is not None:
            at = path.child("default")
            problems += self._in_metadata(node, at, root, surround) if inside else self._value(node, at, root)
        if node.items is not None:
            problems += self.node(node.items, path.child("items"), root, lambda item: surround([item]), inside=inside)
        for name in sorted(node.properties):
            meta = inside or (node.x_embedded_resource and name in TYPE_META)
            problems += self.node(
                node.properties[name],
                path.child("properties").key(name),
                root,
                lambda member, name=name: surround({name: member}),  # type: ignore[misc]
                inside=meta,
            )
        return problems

    def _in_metadata(self, node: Structural, at: Path, root: Structural, surround: _Surround) -> list[FieldError]:
        """A default there is tried in a resource that has nothing else."""
        resource = surround(node.default)
        malformed = malformed_resource(resource, root)
        problems = [malformed] if malformed else validate_resources(resource, root)
        if problems:
            shown = [str(problem) for problem in problems]
            why = shown[0] if len(shown) == 1 else f"[{', '.join(dict.fromkeys(shown))}]"
            return [field.invalid(at, node.default, f"must result in valid metadata: {why}")]
        return validate(node.default, node.schema, at) or self._by_rules(node, at, root)

    def _value(self, node: Structural, at: Path, root: Structural) -> list[FieldError]:
        problems = []
        if self._pruned and not codec.same(drop_unknown(node.default, node), node.default):
            problems.append(field.invalid(at, node.default, "must not have unknown fields"))
        malformed = malformed_resource(node.default, node, at)
        if malformed:
            return [*problems, malformed]
        return problems + (
            validate_resources(node.default, node, at)
            or validate(node.default, node.schema, at)
            or self._by_rules(node, at, root)
        )

    def _by_rules(self, node: Structural, at: Path, root: Structural) -> list[FieldError]:
        rules = compile_validator(node, self._rule_options, is_resource=node is root)
        if rules is None:
            return []
        problems, self._left = rules.validate_default(node.default, at, self._left)
        return problems
