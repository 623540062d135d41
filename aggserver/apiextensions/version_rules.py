"""Validation of the parts of a version: schema, subresources, columns, selectable fields, deprecation.

Pure. `validation.py` passes the path, since upstream's internal type has parts that all versions share at the top.
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, pkg/apis/apiextensions/v1/conversion.go,
pkg/apiserver/schema/cel/validation.go (ValidFieldPath), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aggserver.apiextensions import schema_rules
from aggserver.apiextensions.manifest import member
from aggserver.apiextensions.schema_rules import SchemaOptions, schema_of
from aggserver.meta.field import FieldError, Path, duplicate, invalid, required, too_many
from aggserver.meta.json_types import JSONMapping
from aggserver.schema import constructs, internal, invariants
from aggserver.scheme.types import lookup

__all__ = ["Facets", "deprecation_warning", "internal_text", "validate", "validate_common"]

Errors = Iterator[FieldError]

_MAX_SELECTABLE_FIELDS = 8
_MAX_DEPRECATION_WARNING = 256  # in bytes, although the error says characters
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


@dataclass(frozen=True, slots=True)
class Facets:
    """Which parts of a version are validated at one path."""

    subresources: bool
    schema: bool
    columns: bool
    selectable_fields: bool

    @classmethod
    def in_common(cls, versions: Sequence[JSONMapping]) -> Facets:
        """The parts that are equal in all versions, which are validated once, at the top."""

        def same(read: Callable[[JSONMapping], Any]) -> bool:
            return all(read(version) == read(versions[0]) for version in versions)

        return cls(
            # Without a default, since Go distinguishes an empty object from a missing one.
            same(lambda version: version.get("subresources")),
            same(lambda version: version.get("schema")),
            same(lambda version: member(version, "additionalPrinterColumns", [])),
            same(lambda version: member(version, "selectableFields", [])),
        )

    def others(self) -> Facets:
        """The other parts, which are validated in each version."""
        return Facets(not self.subresources, not self.schema, not self.columns, not self.selectable_fields)


def validate(version: JSONMapping, path: Path, which: Facets, options: SchemaOptions, old: JSONMapping | None) -> Errors:
    """Validate the parts `which` of a version. old: the previous spec."""
    schema = schema_of(version)
    if which.schema and schema is not None:
        at = path.child("schema", "openAPIV3Schema")
        unchanged = any(schema_of(before) == schema for before in _before(version, old))
        yield from schema_rules.validate(schema, at, status=_has_status(version), unchanged=unchanged, options=options)
    yield from _subresources(version, path, which)
    if which.selectable_fields and member(version, "selectableFields", []):
        if not which.schema or schema is None:
            # Upstream's text, which says the opposite of what it means.
            why = "may only be set when `version.schema.openAPIV3Schema` is not included"
            yield invalid(path.child("selectableFields"), "", why)
        else:
            yield from _selectable_fields(version, schema, path, old)


def validate_common(
    versions: Sequence[JSONMapping], path: Path, which: Facets, options: SchemaOptions, old: JSONMapping | None
) -> Errors:
    """Validate the parts `which` that all versions share, at the top of the internal type."""
    version, schema = versions[0], schema_of(versions[0])
    if which.schema and schema is not None:
        at, status = path.child("validation", "openAPIV3Schema"), any(map(_has_status, versions))
        unchanged = any(schema_of(before) == schema for before in _before(version, old))
        yield from schema_rules.validate(schema, at, status=status, unchanged=unchanged, options=options)
    yield from _subresources(version, path, which)
    if which.selectable_fields and member(version, "selectableFields", []):
        # As upstream, selectable fields that all versions share are refused if the schema is not shared, and the reverse, so that
        # definitions that work here also work in a cluster.
        if not which.schema or version.get("schema") is None:
            yield invalid(path.child("selectableFields"), "", "may only be set when validations.schema is included")
        else:
            yield from _selectable_fields(version, schema, path, old)


def internal_text(versions: Sequence[JSONMapping]) -> str:
    """The versions as errors show upstream's internal type, without the parts that all versions share."""
    common = Facets.in_common(versions)
    return f"[{','.join(_internal_text(version, common) for version in versions)}]"


def _internal_text(version: JSONMapping, common: Facets) -> str:
    shared = {
        "schema": common.schema,
        "subresources": common.subresources,
        "additionalPrinterColumns": common.columns,
        "selectableFields": common.selectable_fields,
    }
    return internal.text_of({name: value for name, value in version.items() if not shared.get(name)}, _VERSION)


_VERSION = lookup("apiextensions/v1.CustomResourceDefinitionVersion")


def _has_status(version: JSONMapping) -> bool:
    return member(version, "subresources", {}).get("status") is not None


def _subresources(version: JSONMapping, path: Path, which: Facets) -> Errors:
    if which.subresources:
        yield from _scale(member(version, "subresources", {}).get("scale"), path.child("subresources"))
    if which.columns:
        for index, column in enumerate(member(version, "additionalPrinterColumns", [])):
            yield from _column(column, path.child("additionalPrinterColumns").index(index))


def _scale(scale: JSONMapping | None, path: Path) -> Errors:
    if scale is None:
        return
    rules = (
        ("specReplicasPath", (".spec.",), "should be a json path under .spec"),
        ("statusReplicasPath", (".status.",), "should be a json path under .status"),
        ("labelSelectorPath", (".spec.", ".status."), "should be a json path under either .spec or .status"),
    )
    for name, roots, why in rules:
        text, at = member(scale, name, ""), path.child("scale", name)
        if not text:
            if name != "labelSelectorPath":
                yield required(at)
        elif not text.startswith("."):
            yield invalid(at, text, "must be a simple json path starting with .")
        elif not text.startswith(roots):
            yield invalid(at, text, why)


def _column(column: JSONMapping, path: Path) -> Errors:
    kind, form, text = member(column, "type", ""), member(column, "format", ""), member(column, "jsonPath", "")
    types, formats = f"must be one of {','.join(_COLUMN_TYPES)}", f"must be one of {','.join(_COLUMN_FORMATS)}"
    if not member(column, "name", ""):
        yield required(path.child("name"))
    if not kind:
        yield required(path.child("type"), types)
    elif kind not in _COLUMN_TYPES:
        yield invalid(path.child("type"), kind, types)
    if form and form not in _COLUMN_FORMATS:
        yield invalid(path.child("format"), form, formats)
    if not text:
        yield required(path.child("JSONPath"))
    elif not text.startswith("."):
        yield invalid(path.child("JSONPath"), text, "must be a simple json path starting with .")


def _selectable_fields(version: JSONMapping, schema: JSONMapping | None, path: Path, old: JSONMapping | None) -> Errors:
    unsupported = invariants.unsupported(schema) if schema is not None else ""
    if unsupported:
        # As upstream, nothing else is checked, since there is no structural schema.
        yield invalid(path.child("schema.openAPIV3Schema"), "", unsupported)
        return
    fields, path = member(version, "selectableFields", []), path.child("selectableFields")
    seen: set[Path] = set()
    for index, entry in enumerate(fields):
        at, text = path.index(index).child("jsonPath"), member(entry, "jsonPath", "")
        if not text:
            yield required(at)
            continue
        try:
            field, node = constructs.find_field(text, schema or {}, brackets=False)
        except ValueError as error:
            yield invalid(at, text, f"is an invalid path: {error}")
            continue
        yield from _selectable_field(node, at, text)
        if field in seen:
            yield duplicate(at, text)
        seen.add(field)
    if len(seen) > _MAX_SELECTABLE_FIELDS and not _had_as_many(version, old):
        yield too_many(path, len(seen), _MAX_SELECTABLE_FIELDS)


def _selectable_field(node: JSONMapping | None, path: Path, text: str) -> Errors:
    if f"{text}.".startswith(".metadata."):
        yield invalid(path, text, "must not point to fields in metadata")
    if node is None or node.get("type") not in ("string", "boolean", "integer"):
        why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
        yield invalid(path, text, why)


def _had_as_many(version: JSONMapping, old: JSONMapping | None) -> bool:
    """Whether the version had the same selectable fields before, which remain valid even if they exceed the limit."""
    fields = member(version, "selectableFields", [])
    return any(member(each, "selectableFields", []) == fields for each in _before(version, old))


def _before(version: JSONMapping, old: JSONMapping | None) -> list[JSONMapping]:
    """The previous version of that name, in a list; empty if it is new."""
    return [each for each in member(old or {}, "versions", []) if each.get("name") == version.get("name")]


def deprecation_warning(version: JSONMapping, path: Path) -> Errors:
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not member(version, "deprecated", False):
        yield invalid(path, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > _MAX_DEPRECATION_WARNING:
        yield invalid(path, text, f"must be <= {_MAX_DEPRECATION_WARNING} characters long")
    if not text:
        yield invalid(path, text, "must not be an empty string")
    for index, char in enumerate(text):
        if not char.isprintable():
            at = len(text[:index].encode())
            why = f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
            yield invalid(path, text, why)
            return
