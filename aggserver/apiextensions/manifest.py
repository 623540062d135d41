"""Manifest: has this JSON the form of a CustomResourceDefinition?

One table says which members there are and of which types. `problems` finds what upstream's decoder would refuse, all of it and
not only the first; `prune` drops what it would drop. What the members mean is for `validation.py`; both it and `definition.py`
rely on the form.
Pure. Called by those two, and by the CRD API for bodies (`prune`).
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/{types,types_jsonschema}.go, v0.36.3.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aggserver.meta.field import FieldError, Path, not_supported, type_invalid
from aggserver.schema import internal, structural

__all__ = ["API_VERSION", "KIND", "default_names", "member", "problems", "prune"]

JSONObject = dict[str, Any]

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "CustomResourceDefinition"


@dataclass(frozen=True, slots=True)
class _Schema:
    """An openAPIV3Schema, which is `structural`'s to judge."""


# A dict is an object with these members, a list a list of one thing, bytes are base64; None is anything at all.
_Form = type | Mapping[str, Any] | list[Any] | _Schema | None

_NAMES: _Form = {"plural": str, "singular": str, "shortNames": [str], "kind": str, "listKind": str, "categories": [str]}
_COLUMN: _Form = {"name": str, "type": str, "format": str, "description": str, "priority": int, "jsonPath": str}
_SCALE: _Form = {"specReplicasPath": str, "statusReplicasPath": str, "labelSelectorPath": str}
_VERSION: _Form = {
    "name": str,
    "served": bool,
    "storage": bool,
    "deprecated": bool,
    "deprecationWarning": str,
    "schema": {"openAPIV3Schema": _Schema()},
    "subresources": {"status": {}, "scale": _SCALE},
    "additionalPrinterColumns": [_COLUMN],
    "selectableFields": [{"jsonPath": str}],
}
_SERVICE: _Form = {"namespace": str, "name": str, "path": str, "port": int}
_WEBHOOK: _Form = {
    "clientConfig": {"url": str, "service": _SERVICE, "caBundle": bytes},
    "conversionReviewVersions": [str],
}
_CONDITION: _Form = {
    **dict.fromkeys(("type", "status", "lastTransitionTime", "reason", "message"), str),
    "observedGeneration": int,
}
_DEFINITION: _Form = {
    "apiVersion": str,
    "kind": str,
    # Metadata has rules of its own, wherever objects are written.
    "metadata": None,
    "spec": {
        "group": str,
        "names": _NAMES,
        "scope": str,
        "versions": [_VERSION],
        "conversion": {"strategy": str, "webhook": _WEBHOOK},
        "preserveUnknownFields": bool,
    },
    "status": {"conditions": [_CONDITION], "acceptedNames": _NAMES, "storedVersions": [str], "observedGeneration": int},
}

# Where Go has no omitempty, or a pointer.
_WRITTEN_WHEN_EMPTY = frozenset(
    {
        *("group", "scope", "plural", "kind", "versions", "strategy", "conversionReviewVersions", "name", "served", "storage"),
        *("type", "status", "conditions", "storedVersions", "specReplicasPath", "statusReplicasPath", "namespace", "jsonPath"),
        *("deprecationWarning", "labelSelectorPath", "url", "path"),
    }
)

_RULE_WRITTEN_WHEN_EMPTY = frozenset({"rule", "reason"})

_WORDS = {str: "a string", bool: "a boolean", int: "an integer"}


def member(obj: Mapping[str, Any], name: str, default: Any) -> Any:
    """`obj[name]`, or `default` where it is missing or null."""
    value = obj.get(name)
    return default if value is None else value


def default_names(names: Mapping[str, Any]) -> JSONObject:
    """`spec.names` with upstream's defaults, without nulls; what is not given is missing."""
    filled = {name: value for name, value in names.items() if value is not None}
    kind = filled.get("kind", "")
    if not filled.get("singular"):
        filled["singular"] = kind.lower()
    if not filled.get("listKind"):
        filled["listKind"] = f"{kind}List" if kind else ""
    return filled


def problems(manifest: Any) -> list[FieldError]:
    """Every member of a wrong type, with its path. Takes any JSON value; members that it doesn't know, it passes over."""
    if not isinstance(manifest, Mapping):
        return [type_invalid(Path(), manifest, "must be an object")]
    found = list(_problems(manifest, _DEFINITION, Path()))
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        value = manifest.get(name)
        if value != wanted and (value is None or isinstance(value, str)):
            found.append(not_supported(Path(name), value or "", [wanted]))
    return found + _metadata_problems(manifest.get("metadata"))


def _metadata_problems(metadata: Any) -> list[FieldError]:
    """Of what is read here: the name and the annotations."""
    path = Path("metadata")
    found = list(_problems(metadata, {"name": str, "annotations": {}}, path))
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    if isinstance(annotations, Mapping):
        for key, value in annotations.items():
            found += _problems(value, str, path.child("annotations").key(key))
    return found


def _problems(value: Any, form: _Form, path: Path) -> Iterator[FieldError]:
    if value is None or form is None:
        return
    if isinstance(form, _Schema):
        yield from structural.problems(value, path)
    elif form is bytes:
        if not _is_base64(value):
            yield type_invalid(path, value, "must be base64")
    elif isinstance(form, type):
        # JSON's true is no number, whatever Python says.
        if not isinstance(value, form) or (isinstance(value, bool) and form is not bool):
            yield type_invalid(path, value, f"must be {_WORDS[form]}")
    elif isinstance(form, list):
        yield from _list_problems(value, form[0], path)
    elif not isinstance(value, Mapping):
        yield type_invalid(path, value, "must be an object")
    else:
        for name, inner in form.items():
            yield from _problems(value.get(name), inner, path.child(name))


def _is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
    except ValueError:
        return False


def _list_problems(value: Any, form: _Form, path: Path) -> Iterator[FieldError]:
    if not isinstance(value, list):
        yield type_invalid(path, value, "must be a list")
        return
    for index, item in enumerate(value):
        if item is None:
            yield type_invalid(path.index(index), None, "must not be null")
        yield from _problems(item, form, path.index(index))


def prune(manifest: JSONObject) -> list[str]:
    """Drops the members that the type doesn't know, and those that say nothing, as Go writes the type. Mutates.

    Returns the unknown paths, in the order of the manifest. Relies on `problems` finding nothing; metadata is left as it is.
    """
    return list(_prune(manifest, _DEFINITION, ""))


def _prune(value: Any, form: _Form, path: str) -> Iterator[str]:
    if isinstance(form, _Schema):
        yield from _prune_schema(value, path)
    elif isinstance(form, list):
        for index, item in enumerate(value):
            yield from _prune(item, form[0], f"{path}[{index}]")
    elif isinstance(form, Mapping):
        for name, member in list(value.items()):
            at = f"{path}.{name}" if path else name
            if name not in form:
                del value[name]
                yield at
            elif member is None or (name not in _WRITTEN_WHEN_EMPTY and (member in ("", []) or member is False)):
                del value[name]
            else:
                yield from _prune(member, form[name], at)


def _prune_schema(schema: JSONObject, path: str) -> Iterator[str]:
    for name, value in list(schema.items()):
        at = f"{path}.{name}"
        if name not in structural.KNOWN:
            del schema[name]
            yield at
        elif internal.is_omitted(name, value):
            del schema[name]
        elif name == structural.VALIDATIONS:
            for index, rule in enumerate(value):
                yield from _prune_rule(rule, f"{at}[{index}]")
        elif name in structural.SUBSCHEMAS:
            yield from _prune_subschemas(value, at, are_named=name in structural.NAMED_SUBSCHEMAS)


def _prune_rule(rule: JSONObject, path: str) -> Iterator[str]:
    for name, value in list(rule.items()):
        if name not in structural.KNOWN_IN_RULES:
            del rule[name]
            yield f"{path}.{name}"
        elif value is None or (value == "" and name not in _RULE_WRITTEN_WHEN_EMPTY):
            del rule[name]


def _prune_subschemas(value: Any, path: str, *, are_named: bool) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            if not structural.is_plain(item):
                yield from _prune_schema(item, f"{path}[{index}]")
    elif are_named:
        for key, item in value.items():
            if structural.is_plain(item):
                continue
            value[key] = {} if item is None else item
            if isinstance(value[key], dict):
                yield from _prune_schema(value[key], f"{path}.{key}")
    elif isinstance(value, dict):
        yield from _prune_schema(value, path)
