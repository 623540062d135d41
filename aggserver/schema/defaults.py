"""Defaults of a schema: their validation against that schema, and their pruning.

A definition is refused if one of its defaults is not valid under its own schema. Unknown fields in the metadata of embedded
resources are no error: they are dropped before a default is validated, and before it is applied.
`validate_defaults` and `type_defaults` run when a definition is validated, `prune_defaults` when its schema is compiled. Pure.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/defaulting/{validation,prune,surroundingobject}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from aggserver.meta import codec, field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONObject
from aggserver.schema import structural
from aggserver.schema.lazy_rules import compile_validator
from aggserver.schema.object_meta import drop_malformed_resources, malformed_resource, validate_resources
from aggserver.schema.pruning import drop_unknown, type_resources
from aggserver.schema.rules import OBJECT_LIMIT, UPSTREAM, RuleOptions
from aggserver.schema.structural import TYPE_META, Structural
from aggserver.schema.validation import validate

__all__ = ["prune_defaults", "type_defaults", "validate_defaults"]

# Builds the resource around a value that is part of its kind, apiVersion or metadata.
_Surround = Callable[[Any], dict[str, Any]]


def validate_defaults(
    root: Structural, path: Path, *, pruned: bool = True, rule_options: RuleOptions = UPSTREAM
) -> list[FieldError]:
    """The errors of all invalid defaults. path: that of the schema.

    pruned: whether defaults must not have fields that pruning drops; a definition that had such a default before may keep it.
    """
    root = _as_resource(root)
    return _Check(rule_options, pruned=pruned).node(root, path, root, _resource, inside=False)


def prune_defaults(root: Structural) -> Structural:
    """The schema with its defaults pruned, each at its place in an object; a default may vanish entirely.

    The schema passed in is not changed; it is returned itself if none of its defaults changes.
    """
    return _pruned(root, _as_resource(root), (), inside=False)


def type_defaults(schema: Mapping[str, Any]) -> None:
    """Drop unknown metadata fields of embedded resources in defaults, a side effect of upstream's validation.

    schema: as written, without errors of `validate_defaults`; mutated if there is something to drop.
    """
    for node in _outside_metadata(_as_resource(structural.compile(schema))):
        if isinstance(node.default, dict | list):
            typed = _typed(node.default, node)
            if not codec.same(typed, node.default):
                cast(JSONObject, node.schema)["default"] = typed


def _outside_metadata(node: Structural) -> Iterator[Structural]:
    """The nodes whose defaults upstream validates on their own; those of a map's values are not among them."""
    yield node
    if node.items is not None:
        yield from _outside_metadata(node.items)
    skipped = TYPE_META if node.x_embedded_resource else ()
    for name, child in node.properties.items():
        yield from _outside_metadata(child) if name not in skipped else _resources_in(child)


def _resources_in(node: Structural) -> Iterator[Structural]:
    """The embedded resources in a resource's kind, apiVersion or metadata: only they have such nodes."""
    if node.x_embedded_resource:
        yield from _outside_metadata(node)
        return
    for child in (*node.properties.values(), node.items):
        if child is not None:
            yield from _resources_in(child)


def _as_resource(root: Structural) -> Structural:
    return root if root.x_embedded_resource else replace(root, x_embedded_resource=True)


# The path to a value from the root: names of members, and None for any item of a list.
_Steps = tuple[str | None, ...]
# Stands for all keys of a map.
_ANY_KEY = "*"


def _pruned(node: Structural, root: Structural, steps: _Steps, *, inside: bool) -> Structural:
    """As `prune_defaults`, for a node. inside: it is in the kind, apiVersion or metadata of a resource."""
    is_resource = node.x_embedded_resource or not steps
    inside = inside and not is_resource
    changed: dict[str, Any] = {}
    # Pruning changes scalars only in metadata.
    if steps and node.default is not None and (inside or isinstance(node.default, dict | list)):
        default = _prune_default(node.default, root, steps)
        if not codec.same(default, node.default):
            changed["default"] = default
    if node.values is not None:
        changed["additional_properties"] = _pruned(node.values, root, (*steps, _ANY_KEY), inside=inside)
    if node.items is not None:
        changed["items"] = _pruned(node.items, root, (*steps, None), inside=inside)
    if node.properties:
        changed["properties"] = {
            name: _pruned(child, root, (*steps, name), inside=inside or (is_resource and name in TYPE_META))
            for name, child in node.properties.items()
        }
    return replace(node, **changed) if any(getattr(node, name) != value for name, value in changed.items()) else node


def _prune_default(default: Any, root: Structural, steps: _Steps) -> Any:
    """Prune a default at its place in an otherwise empty object. None if nothing is left."""
    resource = default
    for step in reversed(steps):
        resource = [resource] if step is None else {step: resource}
    resource = codec.decode_stored(codec.encode_json(resource))
    drop_malformed_resources(resource, root)
    type_resources(resource, root)
    found = drop_unknown(resource, root)
    for step in steps:
        found = found[0] if step is None else found.get(step)
        if found is None:
            break
    return found


def _resource(value: Any) -> dict[str, Any]:
    return {"kind": "Validation", "apiVersion": "validation/v1", **value}


class _Check:
    def __init__(self, rule_options: RuleOptions, *, pruned: bool) -> None:
        self._rule_options = rule_options
        self._pruned = pruned
        # The remaining cost budget of rules, which all defaults share.
        self._left = OBJECT_LIMIT * rule_options.budget

    def node(self, node: Structural, path: Path, root: Structural, surround: _Surround, *, inside: bool) -> list[FieldError]:
        """The errors of all defaults of a node. root: the resource that `node` is part of. inside: it is in the resource's kind,
        apiVersion or metadata.
        """
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
        """Validate a default within metadata, in a resource that has nothing else."""
        resource = surround(node.default)
        malformed = malformed_resource(resource, root)
        if not malformed:
            resource = _typed(resource, root)
        problems = [malformed] if malformed else validate_resources(resource, root)
        if problems:
            shown = [str(problem) for problem in problems]
            why = shown[0] if len(shown) == 1 else f"[{', '.join(dict.fromkeys(shown))}]"
            return [field.invalid(at, node.default, f"must result in valid metadata: {why}")]
        return validate(node.default, node.schema, at) or self._by_rules(node, node.default, at, root)

    def _value(self, node: Structural, at: Path, root: Structural) -> list[FieldError]:
        malformed = malformed_resource(node.default, node, at)
        # Upstream looks for unknown fields in the original value, but its error shows the one with pruned metadata.
        value = node.default if malformed else _typed(node.default, node)
        problems = []
        if self._pruned and not codec.same(drop_unknown(node.default, node), node.default):
            problems.append(field.invalid(at, value, "must not have unknown fields"))
        if malformed:
            return [*problems, malformed]
        return problems + (
            validate_resources(value, node, at) or validate(value, node.schema, at) or self._by_rules(node, value, at, root)
        )

    def _by_rules(self, node: Structural, value: Any, at: Path, root: Structural) -> list[FieldError]:
        rules = compile_validator(node, self._rule_options, is_resource=node is root)
        if rules is None:
            return []
        problems, self._left = rules.validate_default(value, at, self._left)
        return problems


def _typed(value: Any, node: Structural) -> Any:
    """A copy of a well-formed value, with the metadata of its embedded resources pruned to the fields of ObjectMeta."""
    copy = codec.decode_stored(codec.encode_json(value))
    type_resources(copy, node)
    return copy
