"""Pruning: drop the fields that a structural schema does not specify, and the nulls that it does not allow.

Runs on request bodies, on objects stored under another schema and on results of conversion, always before defaulting. Most
objects are clean already: code generated for the schema (`cleanness.py`) checks that, and only the rare object that is not goes
through `prune`, the plain form of the algorithm, which also finds the paths. Metadata is pruned by the type ObjectMeta, whatever
the schema says (`object_meta.py`).
Pure. Source: k8s.io/apiextensions-apiserver
pkg/apiserver/schema/{pruning/algorithm,defaulting/prunenulls,objectmeta/algorithm}.go and
pkg/apiserver/customresource_handler.go (unstructuredSchemaCoercer), v0.36.3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aggserver.meta import codec
from aggserver.meta.field import Path, first_that_fit
from aggserver.meta.json_types import JSONObject
from aggserver.schema.cleanness import compile_check, is_null_dropped
from aggserver.schema.object_meta import malformed_resource, prune_object_meta
from aggserver.schema.structural import TYPE_META, Structural

__all__ = ["MalformedError", "Pruner", "drop_unknown", "prune", "prune_object_meta", "type_resources"]


class MalformedError(ValueError):
    """The kind, apiVersion or metadata of an embedded resource can't be decoded; `str()` says where and why."""


class Pruner:
    """`prune` for one schema, with a fast check for clean objects. is_clean: whether it would leave an object unchanged, and no
    embedded resource in it is malformed.
    """

    def __init__(self, structural: Structural) -> None:
        self._structural = structural
        self.is_clean = compile_check(structural)

    def __call__(self, obj: JSONObject) -> list[str]:
        """Mutates a root object; returns the dropped paths (`spec.foo`, `spec.list[0].bar`). The object's own metadata is not
        changed. Raises MalformedError.
        """
        return [] if self.is_clean(obj) else prune(obj, self._structural)


def prune(obj: JSONObject, structural: Structural) -> list[str]:
    """Prune a root object. The apiVersion, kind and metadata of the object and of embedded resources are kept.

    Returns the dropped paths in upstream's order: sorted, then those within metadata of embedded resources, sorted. Dropped nulls
    are not reported, since clients send them all the time. Raises MalformedError.
    """
    found: list[Path] = []
    embedded: list[Path] = []
    _prune(obj, replace(structural, x_embedded_resource=True), Path(), found)
    _drop_nulls(obj, structural, is_resource=True)
    # As in the check for clean objects, the root's own kind, apiVersion and metadata are left to the caller.
    members = {key: member for key, member in obj.items() if key not in TYPE_META}
    malformed = malformed_resource(members, replace(structural, x_embedded_resource=False))
    if malformed:
        raise MalformedError(str(malformed))
    _prune_embedded(obj, replace(structural, x_embedded_resource=False), Path(), embedded, is_resource=True)
    return _first_sorted(found) + _first_sorted(embedded)


def _first_sorted(paths: list[Path]) -> list[str]:
    """Sort the paths. If there are very many, only those found first are returned."""
    return sorted(first_that_fit(path.text for path in paths))


def drop_unknown(value: Any, node: Structural) -> Any:
    """A copy of any value without unknown fields; nulls and metadata are kept."""
    copy = codec.decode_stored(codec.encode_json(value))
    _prune(copy, node, Path(), [])
    return copy


def type_resources(value: Any, node: Structural | None) -> None:
    """Prune the metadata of embedded resources to the fields of ObjectMeta, if it is an object. Mutates `value`."""
    _prune_embedded(value, node, Path(), [])


def _prune(value: Any, node: Structural | None, path: Path, found: list[Path]) -> None:
    """Prune a value whose unknown fields are dropped. If `node` is None, all fields are unknown."""
    if node is not None and node.x_preserve_unknown_fields:
        _skip(value, node, path, found)
    elif isinstance(value, dict):
        _prune_fields(value, node or _NOTHING, path, found)
    elif isinstance(value, list):
        _prune_items(value, node.items if node else None, path, found)


def _prune_fields(value: JSONObject, node: Structural, path: Path, found: list[Path]) -> None:
    for key in list(value):
        if node.x_embedded_resource and key in TYPE_META:
            continue
        at = path.child(key)
        if key in node.properties:
            _prune(value[key], node.properties[key], at, found)
        elif node.additional_properties is not None:
            _prune(value[key], node.values, at, found)
        else:
            del value[key]
            found.append(at)


def _prune_items(items: list[Any], node: Structural | None, path: Path, found: list[Path]) -> None:
    if node is not None:
        for index, item in enumerate(items):
            _prune(item, node, path.index(index), found)
        return
    # Without recursion, since unspecified lists may be nested as deep as a body can be.
    waiting = [(items, path)]
    while waiting:
        some, at = waiting.pop()
        for index, item in enumerate(some):
            if isinstance(item, dict):
                _prune_fields(item, _NOTHING, at.index(index), found)
            elif isinstance(item, list):
                waiting.append((item, at.index(index)))


def _skip(value: Any, node: Structural | None, path: Path, found: list[Path]) -> None:
    """Prune a value whose unknown fields are preserved: specified properties are pruned again, items of lists are not."""
    if node is None:
        return
    if isinstance(value, dict):
        for key, member in value.items():
            if node.x_embedded_resource and key in TYPE_META:
                continue
            at = path.child(key)
            if key in node.properties:
                _prune(member, node.properties[key], at, found)
            elif node.additional_properties is not None:
                _prune(member, node.values, at, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _skip(item, node.items, path.index(index), found)


def _drop_nulls(value: Any, node: Structural | None, *, is_resource: bool = False) -> None:
    """Drop null members that are not nullable and have no default to replace them. Null items of lists are kept."""
    if node is None:
        return
    if isinstance(value, list):
        for item in value:
            _drop_nulls(item, node.items)
    elif isinstance(value, dict):
        for key, member in list(value.items()):
            child = node.properties.get(key, node.values)
            if member is None and is_null_dropped(child):
                del value[key]
            elif key not in TYPE_META or not (is_resource or node.x_embedded_resource):
                # `prune_object_meta` drops nulls in metadata; kind and apiVersion are strings.
                _drop_nulls(member, child)


def _prune_embedded(value: Any, node: Structural | None, path: Path, found: list[Path], *, is_resource: bool = False) -> None:
    """Prune the metadata of embedded resources. That of the root is left to the caller."""
    if node is None:
        return
    if isinstance(value, dict):
        is_resource = is_resource or node.x_embedded_resource
        if node.x_embedded_resource and isinstance(value.get("metadata", ""), dict | None):
            # Null becomes empty metadata.
            metadata = value["metadata"] = value["metadata"] or {}
            found.extend(map(path.child, prune_object_meta(metadata)))
        for key, member in value.items():
            if is_resource and key in TYPE_META:
                continue
            # Upstream writes keys of a map in brackets only here.
            if key in node.properties:
                _prune_embedded(member, node.properties[key], path.child(key), found)
            else:
                _prune_embedded(member, node.values, path.key(key), found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _prune_embedded(item, node.items, path.index(index), found)


_NOTHING = Structural()
