"""Manifest: checks that JSON has the form of a CustomResourceDefinition, i.e. the right members and types.

`scheme/tables/apiextensions_v1.txt` has the members and their types. `problems` finds everything that upstream's decoder would
refuse, not only the first error; `prune` drops what the decoder would drop. The meaning of members is checked by `validation.py`,
which relies on the form, as does `definition.py`.

Pure. Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/{types,types_jsonschema}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggserver.meta.field import FieldError, Path, not_supported, type_invalid
from aggserver.meta.json_types import JSONObject
from aggserver.schema import structural
from aggserver.scheme import form
from aggserver.scheme.types import lookup

__all__ = ["API_VERSION", "KIND", "TYPE", "default_names", "member", "problems", "prune"]

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "CustomResourceDefinition"


TYPE = lookup("apiextensions/v1.CustomResourceDefinition")


def member(obj: Mapping[str, Any], name: str, default: Any) -> Any:
    """`obj[name]`, or `default` if it is missing or null."""
    value = obj.get(name)
    return default if value is None else value


def default_names(names: Mapping[str, Any]) -> JSONObject:
    """`spec.names` with upstream's defaults and without nulls."""
    filled = {name: value for name, value in names.items() if value is not None}
    kind = filled.get("kind", "")
    if not filled.get("singular"):
        filled["singular"] = kind.lower()
    if not filled.get("listKind"):
        filled["listKind"] = f"{kind}List" if kind else ""
    return filled


def problems(manifest: Any) -> list[FieldError]:
    """The errors of all members with a wrong type. Accepts any JSON value; unknown members are ignored."""
    if not isinstance(manifest, dict):
        return [type_invalid(Path(), manifest, "must be an object")]
    found = list(form.problems(manifest, TYPE, Path(), {structural.SCHEMA: structural.problems}))
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        value = manifest.get(name)
        if value != wanted and (value is None or isinstance(value, str)):
            found.append(not_supported(Path(name), value or "", [wanted]))
    return found + _metadata_problems(manifest.get("metadata"))


def _metadata_problems(metadata: Any) -> list[FieldError]:
    """The errors of the metadata that is used here: the name and the annotations."""
    path = Path("metadata")
    if metadata is None:
        return []
    if not isinstance(metadata, dict):
        return [type_invalid(path, metadata, "must be an object")]
    members = lookup("meta/v1.ObjectMeta").members
    return [
        error
        for name in ("name", "annotations")
        for error in form.problems(metadata.get(name), members[name].type, path.child(name))
    ]


def prune(manifest: JSONObject) -> list[str]:
    """Drop unknown members, and empty ones that Go omits when encoding. Mutates `manifest`.

    Returns the paths of unknown members, in the order of the manifest. `problems` must find nothing; metadata is not changed.
    """
    return form.prune(manifest, TYPE)
