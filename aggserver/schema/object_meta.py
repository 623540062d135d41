"""Metadata of objects and of embedded resources: what the type ObjectMeta keeps of it.

Upstream decodes metadata into a Go struct and encodes it again: fields that the type doesn't know go, and so do members that say
nothing. Here the same is done to the JSON object. Values of a wrong type are left to validation.
Pure. Called by `pruning.py`, and by `apiextensions/serving.py` for the root's.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/objectmeta/coerce.go and k8s.io/apimachinery
pkg/apis/meta/v1/types.go, v0.36.3.
"""

from __future__ import annotations

from typing import Any

__all__ = ["is_clean", "prune_object_meta"]

JSONObject = dict[str, Any]

_FIELDS = frozenset(
    {"name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp"}
    | {"deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers"}
    | {"managedFields"}
)
_ENTRIES = {
    "ownerReferences": frozenset({"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"}),
    "managedFields": frozenset({"manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"}),
}
_STRING_MAPS = ("labels", "annotations")
# What Go leaves out when encoding. A grace period of 0 is not among it: the field is a pointer.
_NOTHING: tuple[Any, ...] = (None, "", {}, [])


def prune_object_meta(metadata: JSONObject, path: str = "metadata") -> list[str]:
    """Drops what the type doesn't know, and members that say nothing: null, empty, a generation of 0.

    Mutates `metadata`. Returns the paths of the unknown fields, sorted by key; `path` is that of `metadata` itself.
    """
    if is_clean(metadata):
        return []
    found: list[str] = []
    for key in sorted(metadata):
        value = metadata[key]
        if key not in _FIELDS:
            found.append(f"{path}.{key}")
            del metadata[key]
        elif value in _NOTHING or (key == "generation" and value == 0):
            del metadata[key]
        elif key in _STRING_MAPS and isinstance(value, dict):
            # A Go map takes null for its values' zero.
            value.update((name, "") for name, text in value.items() if text is None)
        elif key in _ENTRIES and isinstance(value, list):
            for index, entry in enumerate(value):
                if isinstance(entry, dict):
                    found.extend(_prune_entry(entry, _ENTRIES[key], f"{path}.{key}[{index}]"))
    return found


def is_clean(metadata: JSONObject) -> bool:
    """Whether `prune_object_meta` would leave it as it is."""
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
        elif key == "generation" and value == 0:
            return False
    return True


def _prune_entry(entry: JSONObject, known: frozenset[str], path: str) -> list[str]:
    unknown = sorted(entry.keys() - known)
    for key in unknown:
        del entry[key]
    for key in [key for key, value in entry.items() if value is None]:
        del entry[key]
    return [f"{path}.{key}" for key in unknown]


def _is_clean_entry(entry: Any, known: frozenset[str]) -> bool:
    return not isinstance(entry, dict) or (entry.keys() <= known and None not in entry.values())
