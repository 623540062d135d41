"""Rules of what a version of a definition has: subresources, columns, selectable fields, its deprecation.

Pure. Called by `validation.py`, which says at which path: upstream's internal type has at the top what all versions share.
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, pkg/apis/apiextensions/v1/conversion.go,
pkg/apiserver/schema/cel/validation.go (ValidFieldPath), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aggserver.apiextensions.manifest import member
from aggserver.meta.field import FieldError, Path, duplicate, invalid, required, too_many
from aggserver.schema import structural
from aggserver.schema.structural import Structural

__all__ = ["Facets", "deprecation_warning", "schema_of", "validate"]

JSONObject = Mapping[str, Any]
Errors = Iterator[FieldError]

_MAX_SELECTABLE_FIELDS = 8
_MAX_DEPRECATION_WARNING = 256  # bytes, in spite of the text
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
# As upstream says it, who means the opposite.
_VERSION_SCHEMA = "`version.schema.openAPIV3Schema` is not included"


def schema_of(version: JSONObject) -> Any:
    """openAPIV3Schema; None where there is none."""
    return member(version, "schema", {}).get("openAPIV3Schema")


@dataclass(frozen=True, slots=True)
class Facets:
    """Some of what a version has; which of it is judged at one place."""

    subresources: bool
    schema: bool
    columns: bool
    selectable_fields: bool

    @classmethod
    def in_common(cls, versions: Sequence[JSONObject]) -> Facets:
        """What is equal in all versions, and judged at the top, once."""

        def same(read: Callable[[JSONObject], Any]) -> bool:
            return all(read(version) == read(versions[0]) for version in versions)

        return cls(
            same(lambda version: member(version, "subresources", {})),
            same(schema_of),
            same(lambda version: member(version, "additionalPrinterColumns", [])),
            same(lambda version: member(version, "selectableFields", [])),
        )

    def others(self) -> Facets:
        """What is judged at each version instead."""
        return Facets(not self.subresources, not self.schema, not self.columns, not self.selectable_fields)


def validate(version: JSONObject, path: Path, which: Facets, old: JSONObject | None) -> Errors:
    """The rules of those facets of a version that `which` has."""
    if which.subresources:
        yield from _scale(member(version, "subresources", {}).get("scale"), path.child("subresources"))
    if which.columns:
        for index, column in enumerate(member(version, "additionalPrinterColumns", [])):
            yield from _column(column, path.child("additionalPrinterColumns").index(index))
    if which.selectable_fields:
        schema = schema_of(version) if which.schema else None
        yield from _selectable_fields(version, schema, path.child("selectableFields"), old)


def _scale(scale: JSONObject | None, path: Path) -> Errors:
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


def _column(column: JSONObject, path: Path) -> Errors:
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


def _selectable_fields(version: JSONObject, schema: Any, path: Path, old: JSONObject | None) -> Errors:
    """schema: where it is judged at the same place as the fields.

    Upstream refuses fields that all versions share where the schema is not shared too, and the other way round. So does this:
    what works here shall work in a cluster.
    """
    fields = member(version, "selectableFields", [])
    if not fields:
        return
    if schema is None:
        which = "validations.schema is included" if path.text == "spec.selectableFields" else _VERSION_SCHEMA
        yield invalid(path, "", f"may only be set when {which}")
        return
    compiled = structural.compile(schema)
    seen: set[str] = set()
    for index, entry in enumerate(fields):
        at, text = path.index(index).child("jsonPath"), member(entry, "jsonPath", "")
        if not text:
            yield required(at)
            continue
        try:
            steps, node = _find_field(text, compiled)
        except ValueError as error:
            yield invalid(at, text, f"is an invalid path: {error}")
            continue
        yield from _selectable_field(steps, node, at, text)
        if str(steps) in seen:
            yield duplicate(at, text)
        seen.add(str(steps))
    if len(seen) > _MAX_SELECTABLE_FIELDS and not _had_as_many(version, old):
        yield too_many(path, len(seen), _MAX_SELECTABLE_FIELDS)


def _selectable_field(steps: Sequence[str], node: Structural | None, path: Path, text: str) -> Errors:
    if steps[0] == "metadata":
        yield invalid(path, text, "must not point to fields in metadata")
    if node is None or node.type not in ("string", "boolean", "integer"):
        why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
        yield invalid(path, text, why)


def _had_as_many(version: JSONObject, old: JSONObject | None) -> bool:
    """Definitions from before the limit keep what they have, as long as they leave it alone."""
    fields = member(version, "selectableFields", [])
    before = [each for each in member(old or {}, "versions", []) if each.get("name") == version.get("name")]
    return any(member(each, "selectableFields", []) == fields for each in before)


def _find_field(text: str, node: Structural | None) -> tuple[list[str], Structural | None]:
    """The steps of a path like `.spec.color`, and the schema there. Raises ValueError with upstream's text."""
    steps: list[str] = []
    if "[" in text:
        raise ValueError("array notation is not allowed")
    head, *names = text.split(".")
    if head:
        raise ValueError(f"expected [ or . but got: {head}")
    for name in names:
        if not name:
            raise ValueError("unexpected end of JSON path" if name is names[-1] else "does not refer to a valid field")
        if node is None or (node.properties and name not in node.properties):
            raise ValueError("does not refer to a valid field")
        if not node.properties and node.additional_properties is None:
            raise ValueError("does not refer to a valid field")
        node = node.properties[name] if node.properties else node.values
        steps.append(name)
    return steps, node


def deprecation_warning(version: JSONObject, path: Path) -> Errors:
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
