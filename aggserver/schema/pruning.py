"""Pruning: drop the fields of a value that its structural schema does not name, and the nulls that it does not allow.

Runs on request bodies, on objects read from storage in another shape and on answers of conversions, always before defaulting.
Never fails, never adds. Most objects are clean already: a check made for the schema (`cleanness.py`) looks at them, and the
rare object that fails it goes through `prune`, the plain form of the rules, which also finds the paths. Metadata has a type of
its own, whatever the schema says of it (`object_meta.py`).
Pure. Called by `compiled.py`, for the handlers and the store. Source: k8s.io/apiextensions-apiserver
pkg/apiserver/schema/{pruning/algorithm,defaulting/prunenulls,objectmeta/algorithm}.go and
pkg/apiserver/customresource_handler.go (unstructuredSchemaCoercer), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aggserver.meta import codec
from aggserver.meta.field import Path, with_room
from aggserver.meta.json_types import JSONObject
from aggserver.schema.cleanness import compile_check, loses_null
from aggserver.schema.object_meta import malformed_resource, prune_object_meta
from aggserver.schema.structural import TYPE_META, Structural

__all__ = ["MalformedError", "Pruner", "compile_pruner", "drop_unknown", "prune", "prune_object_meta", "type_resources"]

Pruner = Callable[[JSONObject], list[str]]
"""Mutates an object at its root; returns the dropped paths (`spec.foo`, `spec.list[0].bar`). Its own metadata stays as it is.

Raises MalformedError.
"""


class MalformedError(ValueError):
    """An embedded resource's kind, apiVersion or metadata can't be decoded; `str()` says where and why."""


def compile_pruner(structural: Structural) -> Pruner:
    """`prune` for one schema, quick for clean objects."""
    is_clean = compile_check(structural)

    def pruner(obj: JSONObject) -> list[str]:
        return [] if is_clean(obj) else prune(obj, structural)

    return pruner


def prune(obj: JSONObject, structural: Structural) -> list[str]:
    """Prunes an object at its root: apiVersion, kind and metadata stay, and so they do in embedded resources.

    Returns the dropped paths in upstream's order: sorted, then those from within metadata of embedded resources, sorted. Nulls go
    without being told: clients send them for nothing all the time. Raises MalformedError.
    """
    found: list[Path] = []
    embedded: list[Path] = []
    _prune(obj, replace(structural, x_embedded_resource=True), Path(), found)
    _drop_nulls(obj, structural, is_resource=True)
    # As in the clean check, the root's own kind, apiVersion and metadata are somebody else's.
    members = {key: member for key, member in obj.items() if key not in TYPE_META}
    malformed = malformed_resource(members, replace(structural, x_embedded_resource=False))
    if malformed:
        raise MalformedError(str(malformed))
    _prune_embedded(obj, replace(structural, x_embedded_resource=False), Path(), embedded, is_resource=True)
    return _told(found) + _told(embedded)


def _told(paths: list[Path]) -> list[str]:
    """Sorted; of very many, those that were found first."""
    return sorted(with_room(path.text for path in paths))


def drop_unknown(value: Any, node: Structural) -> Any:
    """A copy of any value without what its schema doesn't know; nulls and metadata stay as they are."""
    copy = codec.decode_stored(codec.encode_json(value))
    _prune(copy, node, Path(), [])
    return copy


def type_resources(value: Any, node: Structural | None) -> None:
    """Leaves of the metadata of embedded resources what its type keeps; what is no object stays. Mutates `value`."""
    _prune_embedded(value, node, Path(), [])


def _prune(value: Any, node: Structural | None, path: Path, found: list[Path]) -> None:
    """The mode in which unknown fields go. Under a node of None nothing is known."""
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
    # Lists in lists that no schema knows may be as deep as a body can be: without recursion.
    waiting = [(items, path)]
    while waiting:
        some, at = waiting.pop()
        for index, item in enumerate(some):
            if isinstance(item, dict):
                _prune_fields(item, _NOTHING, at.index(index), found)
            elif isinstance(item, list):
                waiting.append((item, at.index(index)))


def _skip(value: Any, node: Structural | None, path: Path, found: list[Path]) -> None:
    """The mode in which unknown fields stay: what properties name is pruned again, items of lists are not."""
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
    """Drops null members that are neither nullable nor have a default to take their place. Items of lists stay, null or not."""
    if node is None:
        return
    if isinstance(value, list):
        for item in value:
            _drop_nulls(item, node.items)
    elif isinstance(value, dict):
        for key, member in list(value.items()):
            child = node.properties.get(key, node.values)
            if member is None and loses_null(child):
                del value[key]
            elif key not in TYPE_META or not (is_resource or node.x_embedded_resource):
                # Metadata drops its own nulls; kind and apiVersion are texts.
                _drop_nulls(member, child)


def _prune_embedded(value: Any, node: Structural | None, path: Path, found: list[Path], *, is_resource: bool = False) -> None:
    """Types the metadata of embedded resources. The root's is the caller's."""
    if node is None:
        return
    if isinstance(value, dict):
        is_resource = is_resource or node.x_embedded_resource
        if node.x_embedded_resource and isinstance(value.get("metadata", ""), dict | None):
            # Null becomes metadata that says nothing.
            metadata = value["metadata"] = value["metadata"] or {}
            found.extend(map(path.child, prune_object_meta(metadata)))
        for key, member in value.items():
            if is_resource and key in TYPE_META:
                continue
            # Here, and only here, keys of a map are written in brackets.
            if key in node.properties:
                _prune_embedded(member, node.properties[key], path.child(key), found)
            else:
                _prune_embedded(member, node.values, path.key(key), found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _prune_embedded(item, node.items, path.index(index), found)


_NOTHING = Structural()
