"""Validation of ObjectMeta on create and update, and the errors of Go's decoder for members of a wrong type.

First comes `type_error`: a request is refused with 400, and `drop_malformed` drops such members of a stored object. Later the
object to be stored is checked by `validate_object_meta` or `validate_object_meta_update` (422). Nothing is defaulted here. Pure.
Source: k8s.io/apimachinery pkg/api/validation/objectmeta.go, pkg/apis/meta/v1/validation/validation.go, v0.36.3;
k8s.io/apiextensions-apiserver pkg/apiserver/schema/objectmeta/coerce.go; k8s.io/apiserver pkg/storage/names/generate.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from aggserver.meta import field
from aggserver.meta.field import FieldError, Path, RawJSON
from aggserver.meta.golang import quote, to_json
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import (
    NameRule,
    dns1035_label,
    dns1123_label,
    dns1123_subdomain,
    label_value,
    path_segment_name,
    qualified_name,
)
from aggserver.meta.times import format_time, parse_time
from aggserver.meta.versions import GroupVersionKind, parse_group_version
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.types import lookup

__all__ = [
    "NameRule",
    "are_too_long",
    "dns1035_label",
    "dns1123_label",
    "dns1123_subdomain",
    "drop_malformed",
    "generate_name",
    "label_value",
    "path_segment_name",
    "qualified_name",
    "type_error",
    "validate_annotations",
    "validate_labels",
    "validate_object_meta",
    "validate_object_meta_update",
]

_MAX_ANNOTATIONS_BYTES = 256 * 1024  # keys and values together
_MAX_MANAGER_BYTES = 128
_MAX_SUBRESOURCE_BYTES = 256

_MAX_GENERATED_BYTES = 63
_SUFFIX_LENGTH = 5
# Without vowels and similar characters, so that a suffix is never a word and can't be misread.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

_IMMUTABLE = "field is immutable"

_OBJECT_META, _OWNER_REFERENCE = lookup("meta/v1.ObjectMeta"), lookup("meta/v1.OwnerReference")


def generate_name(base: str, random: Callable[[int], int]) -> str:
    """`base`, cut to 58 bytes, and five random characters. random: called with n, returns an integer from 0 to n-1."""
    kept = base.encode()[: _MAX_GENERATED_BYTES - _SUFFIX_LENGTH].decode("utf-8", "ignore")
    return kept + "".join(_SUFFIX_ALPHABET[random(len(_SUFFIX_ALPHABET))] for _ in range(_SUFFIX_LENGTH))


# --- types ---


def type_error(metadata: Any, struct: str = "") -> str:
    """Go's error for metadata that does not fit the type ObjectMeta, '' if it fits. Unknown members are ignored.

    struct: Go's name of the object's type, if it has one. Metadata of custom resources is decoded separately; its first error is
    the first in alphabetical order, since upstream sorts the members.
    """
    if struct:
        return decode_error(metadata, _OBJECT_META, struct, "metadata")
    if not decode_error(metadata, _OBJECT_META):
        return ""
    return decode_error(orjson.loads(orjson.dumps(metadata, option=orjson.OPT_SORT_KEYS)), _OBJECT_META)


def drop_malformed(metadata: dict[str, Any]) -> None:
    """Drop members that don't fit the type, so that stored objects can always be read. Mutates `metadata`."""
    if type_error(metadata):
        for key in [key for key, value in metadata.items() if type_error({key: value})]:
            del metadata[key]


# --- values ---


def validate_object_meta(metadata: JSONMapping, path: Path, *, namespaced: bool, name_rule: NameRule) -> list[FieldError]:
    """Validate the metadata of a new object with its generated name. If a member has a wrong type, that is the only error."""
    malformed = type_error(metadata)
    if malformed:
        return [field.invalid(path, metadata, malformed)]
    return _validate_whole(metadata, path, _validate_members(metadata, path), namespaced=namespaced, name_rule=name_rule)


def validate_object_meta_update(
    new: JSONMapping, old: JSONMapping, path: Path, *, namespaced: bool
) -> tuple[list[FieldError], list[FieldError]]:
    """Validate the metadata of an update. old: the stored metadata.

    Returns the errors of the object on its own, as of `validate_object_meta`, and those of the update, which repeat some. Of the
    name, which can't change, only the form that a path needs is checked.
    """
    malformed = type_error(new)
    if malformed:
        problem = field.invalid(path, new, malformed)
        return [problem], [problem]
    members = _validate_members(new, path)
    whole = _validate_whole(new, path, members, namespaced=namespaced, name_rule=path_segment_name)
    return whole, _validate_change(new, old, path) + members[0] + members[1]


def _validate_whole(
    metadata: JSONMapping,
    path: Path,
    members: tuple[list[FieldError], list[FieldError]],
    *,
    namespaced: bool,
    name_rule: NameRule,
) -> list[FieldError]:
    """members: the result of `_validate_members`."""
    problems = []
    base = metadata.get("generateName")
    if base:
        problems += [field.invalid(path.child("generateName"), base, text) for text in name_rule(base, True)]
    name = metadata.get("name")
    if name:
        problems += [field.invalid(path.child("name"), name, text) for text in name_rule(name, False)]
    else:
        problems.append(field.required(path.child("name"), "name or generateName is required"))
    problems += _validate_namespace(metadata.get("namespace") or "", path, namespaced)
    generation = metadata.get("generation") or 0
    if generation < 0:
        problems.append(field.invalid(path.child("generation"), generation, "must be greater than or equal to 0"))
    problems += members[0]
    if finalizers := metadata.get("finalizers"):
        problems += _validate_finalizers(finalizers, path.child("finalizers"))
    return problems + members[1]


def _validate_members(metadata: JSONMapping, path: Path) -> tuple[list[FieldError], list[FieldError]]:
    """The errors of members that are judged alike in a new object and in an update: labels, annotations and ownerReferences; and
    managedFields.
    """
    problems: list[FieldError] = []
    if labels := metadata.get("labels"):
        problems += validate_labels(labels, path.child("labels"))
    if annotations := metadata.get("annotations"):
        problems += validate_annotations(annotations, path.child("annotations"))
    if references := metadata.get("ownerReferences"):
        problems += _validate_owner_references(references, path.child("ownerReferences"))
    entries = metadata.get("managedFields")
    return problems, _validate_managed_fields(entries, path.child("managedFields")) if entries else []


def _validate_change(new: JSONMapping, old: JSONMapping, path: Path) -> list[FieldError]:
    problems = []
    if old.get("deletionTimestamp"):
        problems += _validate_no_new_finalizers(new, old, path.child("finalizers"))
    if not new.get("resourceVersion"):
        problems.append(field.invalid(path.child("resourceVersion"), "", "must be specified for an update"))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        problems.append(field.invalid(path.child("generation"), new.get("generation") or 0, "must not be decremented"))
    return problems + _validate_unchanged(new, old, path)


def _validate_namespace(namespace: str, metadata: Path, namespaced: bool) -> list[FieldError]:
    """metadata: the path of all metadata."""
    if not namespaced:
        return [field.forbidden(metadata.child("namespace"), "not allowed on this type")] if namespace else []
    if not namespace:
        return [field.required(metadata.child("namespace"))]
    return [field.invalid(metadata.child("namespace"), namespace, text) for text in dns1123_label(namespace)]


def validate_labels(labels: Mapping[str, str], path: Path) -> list[FieldError]:
    """Validate keys and values of labels; all errors have `path` itself."""
    problems = []
    for key, value in labels.items():
        if texts := qualified_name(key):
            problems += [field.invalid(path, key, text) for text in texts]
        if texts := label_value(value or ""):
            problems += [field.invalid(path, value or "", text) for text in texts]
    return problems


def validate_annotations(annotations: Mapping[str, str], path: Path) -> list[FieldError]:
    problems = [field.invalid(path, key, text) for key in annotations for text in qualified_name(key.lower())]
    if are_too_long(annotations):
        problems.append(field.too_long(path, _MAX_ANNOTATIONS_BYTES))
    return problems


def are_too_long(annotations: Mapping[str, str | None]) -> bool:
    """Whether the total size of annotations is above the limit for an object."""
    return sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.items()) > _MAX_ANNOTATIONS_BYTES


def _validate_owner_references(references: Sequence[JSONMapping | None], path: Path) -> list[FieldError]:
    problems = []
    controller = ""
    for given in references:
        reference = given or {}
        problems += _validate_owner_reference(reference, path)
        if not reference.get("controller"):
            continue
        current = f"{reference.get('kind') or ''}/{reference.get('name') or ''}"
        if controller:
            text = "Only one reference can have Controller set to true. "
            text += f'Found "true" in references for {controller} and {current}'
            shown = RawJSON("[" + ",".join(_show_reference(each or {}) for each in references) + "]")
            problems.append(field.invalid(path, shown, text))
        else:
            controller = current
    return problems


def _validate_owner_reference(reference: JSONMapping, path: Path) -> list[FieldError]:
    api_version, kind, name, uid = ((reference.get(key) or "") for key in ("apiVersion", "kind", "name", "uid"))
    try:
        group, version = parse_group_version(api_version)
    except ValueError:
        group, version = "", ""
    problems = []
    if not version:
        problems.append(field.invalid(path.child("apiVersion"), api_version, "version must not be empty"))
    empty = [key for key, value in (("kind", kind), ("name", name), ("uid", uid)) if not value]
    problems += [field.invalid(path.child(key), "", "must not be empty") for key in empty]
    owner = GroupVersionKind(group, version, kind)
    if owner == GroupVersionKind("", "v1", "Event"):
        problems.append(field.invalid(path, RawJSON(_show_reference(reference)), f"{owner} is disallowed from being an owner"))
    return problems


def _show_reference(reference: JSONMapping) -> str:
    """An owner reference as JSON of Go's struct: in the struct's order, with the two pointers only if they are set."""
    given = ((member, reference.get(member.name)) for member in _OWNER_REFERENCE.members.values())
    shown = ((member.name, value if member.pointer else value or "") for member, value in given if not member.is_omitted(value))
    return "{" + ",".join(f"{to_json(name)}:{to_json(value)}" for name, value in shown) + "}"


def _validate_finalizers(finalizers: Sequence[str | None], path: Path) -> list[FieldError]:
    names = [name or "" for name in finalizers]
    problems = [field.invalid(path, name, text) for name in names for text in qualified_name(name)]
    if "orphan" in names and "foregroundDeletion" in names:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        problems.append(field.invalid(path, names, text))
    return problems


def _validate_managed_fields(entries: Sequence[JSONMapping | None], path: Path) -> list[FieldError]:
    problems = []
    for index, given in enumerate(entries):
        entry, place = given or {}, path.index(index)
        if (operation := entry.get("operation") or "") not in ("Apply", "Update"):
            problems.append(field.invalid(place.child("operation"), operation, "must be `Apply` or `Update`"))
        if (fields_type := entry.get("fieldsType") or "") not in ("", "FieldsV1"):
            problems.append(field.invalid(place.child("fieldsType"), fields_type, "must be `FieldsV1`"))
        if manager := entry.get("manager"):
            problems += _validate_manager(manager, place.child("manager"))
        subresource = entry.get("subresource")
        if subresource and len(subresource.encode()) > _MAX_SUBRESOURCE_BYTES:
            problems.append(field.too_long(place.child("subresource"), _MAX_SUBRESOURCE_BYTES))
    return problems


def _validate_manager(manager: str, path: Path) -> list[FieldError]:
    problems = []
    if len(manager.encode()) > _MAX_MANAGER_BYTES:
        problems.append(field.too_long(path, _MAX_MANAGER_BYTES))
    if not manager.isprintable():
        for index, char in enumerate(manager):
            if not char.isprintable():
                position = len(manager[:index].encode())
                problems.append(field.invalid(path, manager, f"invalid character U+{ord(char):04X} (at position {position})"))
    return problems


def _validate_no_new_finalizers(new: JSONMapping, old: JSONMapping, path: Path) -> list[FieldError]:
    extra = sorted({name or "" for name in new.get("finalizers") or ()} - set(old.get("finalizers") or ()))
    if not extra:
        return []
    shown = "[]string{" + ", ".join(map(quote, extra)) + "}"
    return [field.forbidden(path, f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}")]


def _validate_unchanged(new: JSONMapping, old: JSONMapping, path: Path) -> list[FieldError]:
    problems = []
    for key in ("name", "namespace", "uid"):
        value = new.get(key) or ""
        if value != (old.get(key) or ""):
            problems.append(field.invalid(path.child(key), value, _IMMUTABLE))
    for key in ("creationTimestamp", "deletionTimestamp"):
        value = new.get(key)
        # The same time may be written with another offset.
        if value != old.get(key) and (moment := _moment(value)) != _moment(old.get(key)):
            problems.append(field.invalid(path.child(key), moment, _IMMUTABLE))
    key = "deletionGracePeriodSeconds"
    if new.get(key) != old.get(key):
        problems.append(field.invalid(path.child(key), new.get(key), _IMMUTABLE))
    return problems


def _moment(text: str | None) -> str | None:
    return None if text is None else format_time(parse_time(text))
