"""Validation of a version's `schema`: its root, whether it is structural, its constructs, and its CEL rules.

Pure. `validation.py` passes the path, since upstream's internal type has a schema that all versions share at the top.
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go
(validateCustomResourceDefinitionValidation, validationOptions), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aggserver.apiextensions.manifest import member
from aggserver.meta.field import FieldError, Path, RawJSON, forbidden, invalid
from aggserver.meta.json_types import JSONMapping
from aggserver.schema import constructs, defaults, formats, internal, invariants, structural
from aggserver.schema.constructs import Strictness
from aggserver.schema.defaults import validate_defaults
from aggserver.schema.rules import RuleOptions, rules_length
from aggserver.schema.structural import EMBEDDED, INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, PRESERVE, VALIDATIONS

__all__ = [
    "SchemaOptions",
    "has_defaults",
    "is_structural",
    "length_of_rules",
    "schema_of",
    "schemas_of",
    "type_defaults",
    "unrecognized_formats",
    "validate",
]

Errors = Iterator[FieldError]

# The members allowed at the root of a schema with a status subresource: writes of the status are validated without the root.
_AT_ROOT_WITH_STATUS = (
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
)
_EXTENSIONS = (EMBEDDED, PRESERVE, INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, VALIDATIONS)


def schema_of(version: JSONMapping) -> Any:
    """The openAPIV3Schema of a version; None if there is none."""
    return member(version, "schema", {}).get("openAPIV3Schema")


def schemas_of(spec: JSONMapping) -> list[JSONMapping]:
    return [schema for version in member(spec, "versions", []) if (schema := schema_of(version)) is not None]


def length_of_rules(spec: JSONMapping) -> int:
    """Characters of all expressions in x-kubernetes-validations."""
    return sum(rules_length(node) for schema in schemas_of(spec) for node in internal.nodes(schema))


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """Which checks are made. structural: whether schemas must be structural. pruned_defaults: whether defaults must have only
    known fields. strict: which of the newer checks apply. rule_options: for x-kubernetes-validations.
    """

    structural: bool
    pruned_defaults: bool
    strict: Strictness
    rule_options: RuleOptions

    @classmethod
    def of(cls, spec: JSONMapping, old: JSONMapping | None, rule_options: RuleOptions) -> SchemaOptions:
        """The options for an update of `old`, which may have been accepted before some checks existed."""
        schemas = schemas_of(spec)
        structural = (
            not member(spec, "preserveUnknownFields", False)
            or old is None
            or all(is_structural(schema) for schema in schemas_of(old))
            or any(map(_needs_structure, schemas))
        )
        if old is None:
            return cls(structural, pruned_defaults=True, strict=Strictness(), rule_options=rule_options)
        before = schemas_of(old)
        return cls(structural, all(map(_has_pruned_defaults, before)), Strictness.of(before), rule_options)


def type_defaults(spec: JSONMapping) -> None:
    """Drop unknown metadata fields of embedded resources in defaults. Mutates `spec`, in which `validate` found no errors."""
    for schema in schemas_of(spec):
        if has_defaults(schema):
            defaults.type_defaults(schema)


def has_defaults(schema: JSONMapping) -> bool:
    return any(node.get("default") is not None for node in internal.nodes(schema))


def unrecognized_formats(spec: JSONMapping) -> list[str]:
    """The values of `format` that are unknown for their type, and so ignored; a schema that all versions share counts once."""
    schemas = schemas_of(spec)
    different = schemas[:1] if all(schema == schemas[0] for schema in schemas) else schemas
    found = []
    for schema in different:
        for node in internal.nodes(schema):
            name, type_ = member(node, "format", ""), member(node, "type", "")
            if name and not formats.is_known(name, (type_,) if type_ else ()):
                found.append(name)
    return found


def _needs_structure(schema: JSONMapping) -> bool:
    return any(node.get("default") is not None or any(map(node.get, _EXTENSIONS)) for node in internal.nodes(schema))


def is_structural(schema: JSONMapping) -> bool:
    return not invariants.unsupported(schema) and not invariants.violations(schema, Path())


def _has_pruned_defaults(schema: JSONMapping) -> bool:
    if not has_defaults(schema) or not is_structural(schema):
        return True
    tree = structural.compile(schema)
    return len(validate_defaults(tree, Path())) == len(validate_defaults(tree, Path(), pruned=False))


def validate(schema: JSONMapping, path: Path, *, status: bool, unchanged: bool, options: SchemaOptions) -> list[FieldError]:
    """The errors of a schema. path: of openAPIV3Schema. status: whether its version has a status subresource. unchanged: whether
    the schema existed before.
    """
    errors = [*_root(schema, path, status=status)]
    unsupported = invariants.unsupported(schema) if options.structural else ""
    violations = []
    if options.structural and not unsupported:
        violations = invariants.violations(schema, path)
        if not violations and has_defaults(schema):
            violations = validate_defaults(
                structural.compile(schema), path, pruned=options.pruned_defaults, rule_options=options.rule_options
            )
    in_nodes, faulty = constructs.violations(schema, path, options.strict)
    errors += [*violations, *in_nodes]
    if options.structural and not unsupported and not violations:
        errors += _rule_violations(schema, path, faulty, options.rule_options, unchanged=unchanged)
    if unsupported and not errors:
        errors.append(invalid(path, "", unsupported))
    return errors


def _rule_violations(
    schema: JSONMapping, path: Path, faulty: Collection[Path], options: RuleOptions, *, unchanged: bool
) -> list[FieldError]:
    if not any(node.get(VALIDATIONS) for node in internal.nodes(schema)):
        return []
    # Imported at the first rule, for the reason given in `schema/lazy_rules.py`.
    from aggserver.schema import rule_costs

    return rule_costs.violations(schema, path, faulty, options, unchanged=unchanged)


def _root(schema: JSONMapping, path: Path, *, status: bool) -> Errors:
    members: Sequence[str] = internal.set_members(schema) if status else ()
    for name in members:
        if name == "type":
            if schema["type"] != "object":
                why = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
                yield invalid(path.child("type"), schema["type"], why)
                break
        elif internal.go_name(name) not in _AT_ROOT_WITH_STATUS:
            allowed = f"[{' '.join(_AT_ROOT_WITH_STATUS)}]"
            why = f"only {allowed} fields are allowed at the root of the schema if the status subresource is enabled"
            yield invalid(path, RawJSON(internal.text(schema)), why)
            break
    if schema.get("nullable"):
        yield forbidden(path.child("nullable"), "nullable cannot be true at the root")
