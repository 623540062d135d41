"""The metadata of objects and embedded resources: coercion to the type ObjectMeta, and validation of embedded resources.

Upstream decodes metadata into a Go struct and encodes it again, which drops unknown fields and empty members. Here the same is
done to the JSON object. Metadata that does not fit the type can't be decoded: a request with it is refused, and a stored object
loses it.

Pure. Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/objectmeta/{coerce,algorithm,validation}.go and
k8s.io/apimachinery pkg/apis/meta/v1/types.go, v0.36.3.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from aggserver.meta import field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONObject
from aggserver.meta.names import dns1035_label, path_segment_name
from aggserver.meta.times import format_time, parse_time
from aggserver.meta.versions import parse_group_version
from aggserver.schema.structural import Structural
from aggserver.scheme import object_meta
from aggserver.scheme.types import lookup

__all__ = [
    "drop_malformed_resources",
    "is_clean",
    "is_well_formed",
    "malformed_resource",
    "prune_object_meta",
    "validate_resource",
    "validate_resources",
]

_MEMBERS = lookup("meta/v1.ObjectMeta").members
_FIELDS = frozenset(_MEMBERS)
# The members of ObjectMeta that are lists of structs, with the names of the structs' members.
_ENTRIES = {
    name: frozenset(member.type.element.members)
    for name, member in _MEMBERS.items()
    if member.type.kind == "list" and member.type.element is not None and member.type.element.kind == "struct"
}
_STRING_MAPS = frozenset(name for name, member in _MEMBERS.items() if member.type.kind == "map")
_TIMES = frozenset(name for name, member in _MEMBERS.items() if member.type.kind == "time")
# Values that Go omits when encoding. A grace period of 0 is not omitted, since the field is a pointer.
_NOTHING: tuple[Any, ...] = (None, "", {}, [])
_PLAIN_TIME = len("2006-01-02T15:04:05Z")


def prune_object_meta(metadata: JSONObject) -> list[str]:
    """Drop unknown fields, and members that are null or empty, or a generation of 0; write times in UTC and to the second.

    Mutates `metadata`. Returns the paths of the unknown fields, sorted by key.
    """
    if is_clean(metadata):
        return []
    found: list[str] = []
    for key in sorted(metadata):
        value = metadata[key]
        if key not in _FIELDS:
            found.append(f"metadata.{key}")
            del metadata[key]
        elif value in _NOTHING or (key == "generation" and value == 0):
            del metadata[key]
        elif key in _STRING_MAPS and isinstance(value, dict):
            # Go decodes null in a map of strings to an empty string.
            value.update((name, "") for name, text in value.items() if text is None)
        elif key in _TIMES:
            metadata[key] = _plain_time(value)
        elif key in _ENTRIES and isinstance(value, list):
            for index, entry in enumerate(value):
                if isinstance(entry, dict):
                    found.extend(_prune_entry(entry, _ENTRIES[key], f"metadata.{key}[{index}]"))
    return found


def is_clean(metadata: JSONObject) -> bool:
    """Whether `prune_object_meta` would leave it unchanged."""
    for key, value in metadata.items():
        if key not in _FIELDS or value in _NOTHING:
            return False
        if key in _STRING_MAPS:
            if isinstance(value, dict) and None in value.values():
                return False
        elif key in _ENTRIES:
            known = _ENTRIES[key]
            if isinstance(value, list) and not all(_is_clean_entry(entry, known) for entry in value):
                return False
        elif (key == "generation" and value == 0) or (key in _TIMES and not _is_plain_time(value)):
            return False
    return True


def _prune_entry(entry: JSONObject, known: frozenset[str], path: str) -> list[str]:
    unknown = sorted(entry.keys() - known)
    for key in unknown:
        del entry[key]
    for key in [key for key, value in entry.items() if value is None]:
        del entry[key]
    if "time" in entry:
        entry["time"] = _plain_time(entry["time"])
    return [f"{path}.{key}" for key in unknown]


def _is_clean_entry(entry: Any, known: frozenset[str]) -> bool:
    if not isinstance(entry, dict):
        return True
    return entry.keys() <= known and None not in entry.values() and ("time" not in entry or _is_plain_time(entry["time"]))


def _plain_time(text: Any) -> Any:
    """A time as Go writes it. Any other value is returned unchanged; validation refuses it."""
    with suppress(ValueError):
        if isinstance(text, str):
            return format_time(parse_time(text))
    return text


def _is_plain_time(text: Any) -> bool:
    # Among the forms of RFC 3339, only UTC times in whole seconds have this length and end.
    return isinstance(text, str) and len(text) == _PLAIN_TIME and text[-1] == "Z"


# --- embedded resources ---


def is_well_formed(resource: JSONObject) -> bool:
    """Whether kind, apiVersion and metadata of an embedded resource can be decoded, and pruning does not change the metadata."""
    if not isinstance(resource.get("kind", ""), str) or not isinstance(resource.get("apiVersion", ""), str):
        return False
    if "metadata" not in resource:
        return True
    metadata = resource["metadata"]
    return isinstance(metadata, dict) and is_clean(metadata) and not object_meta.type_error(metadata)


def malformed_resource(value: Any, node: Structural | None, path: Path | None = None) -> FieldError | None:
    """The error of the first embedded resource whose kind, apiVersion or metadata can't be decoded; None if there is none."""
    at = path or Path()
    if node is None:
        return None
    if isinstance(value, list):
        found = (malformed_resource(item, node.items, at.index(index)) for index, item in enumerate(value))
        return next((error for error in found if error), None)
    if not isinstance(value, dict):
        return None
    for key in sorted(value):
        error = None
        if node.x_embedded_resource and key in ("apiVersion", "kind") and not isinstance(value[key], str):
            return field.invalid(at.child(key), value[key], "must be a string")
        if node.x_embedded_resource and key == "metadata" and (why := object_meta.type_error(value[key])):
            return field.invalid(at.child(key), value[key], why)
        if key in node.properties:
            error = malformed_resource(value[key], node.properties[key], at.child(key))
        elif node.values is not None:
            error = malformed_resource(value[key], node.values, at.key(key))
        if error:
            return error
    return None


def drop_malformed_resources(value: Any, node: Structural | None) -> None:
    """Drop the members that `malformed_resource` would report, so that stored objects can always be read. Mutates `value`."""
    if node is None:
        return
    if isinstance(value, list):
        for item in value:
            drop_malformed_resources(item, node.items)
    elif isinstance(value, dict):
        if node.x_embedded_resource:
            for key in ("apiVersion", "kind"):
                if not isinstance(value.get(key, ""), str):
                    del value[key]
            if isinstance(value.get("metadata"), dict):
                object_meta.drop_malformed(value["metadata"])
        for key, member in value.items():
            drop_malformed_resources(member, node.properties.get(key, node.values))


def validate_resources(value: Any, node: Structural | None, path: Path | None = None) -> list[FieldError]:
    """All errors in kind, apiVersion and metadata of the embedded resources in a value."""
    at = path or Path()
    if node is None:
        return []
    problems = []
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                problems += validate_resources(item, node.items, at.index(index))
    elif isinstance(value, dict):
        if node.x_embedded_resource:
            problems += validate_resource(value, at)
        for key in sorted(value):
            if not isinstance(value[key], dict | list):
                continue
            if key in node.properties:
                problems += validate_resources(value[key], node.properties[key], at.child(key))
            elif node.values is not None:
                problems += validate_resources(value[key], node.values, at.key(key))
    return problems


def validate_resource(resource: JSONObject, path: Path | None = None) -> list[FieldError]:
    """The errors of one embedded resource: apiVersion and kind must be present and valid, metadata valid if present."""
    at = path or Path()
    problems = [field.required(at.child(key)) for key in ("apiVersion", "kind") if key not in resource]
    for key, rule in (("apiVersion", _api_version_error), ("kind", _kind_error)):
        if key in resource and (why := rule(resource[key])):
            problems.append(field.invalid(at.child(key), resource[key], why))
    if "metadata" in resource:
        metadata = resource["metadata"]
        if why := object_meta.type_error(metadata):
            return [*problems, field.invalid(at.child("metadata"), metadata, why)]
        # No name is required, and a namespace is allowed.
        named = {**(metadata or {}), "name": (metadata or {}).get("name") or "fakename"}
        namespaced = bool(named.get("namespace"))
        problems += object_meta.validate_object_meta(
            named, at.child("metadata"), namespaced=namespaced, name_rule=path_segment_name
        )
    return problems


def _api_version_error(value: Any) -> str:
    if not isinstance(value, str):
        return "must be a string"
    if not value:
        return "must not be empty"
    try:
        parse_group_version(value)
    except ValueError as error:
        return str(error)
    return ""


def _kind_error(value: Any) -> str:
    if not isinstance(value, str):
        return "must be a string"
    if not value:
        return "must not be empty"
    problems = dns1035_label(value.lower())
    return "may have mixed case, but should otherwise match: " + ",".join(problems) if problems else ""
