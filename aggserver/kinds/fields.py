"""Selectable fields of the built-in kinds: the values that a field selector compares with, read from an object in the requested
version.

Pure. Source: k8s.io/kubernetes pkg/registry/*/*/strategy.go (ToSelectableFields), v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aggserver.kinds.catalog import BuiltInKind
from aggserver.meta.json_types import JSONObject
from aggserver.registry.nested import go_text

__all__ = ["field_reader", "names"]


def names(kind: BuiltInKind) -> frozenset[str]:
    """The names that a field selector may have, beside those of metadata."""
    return frozenset(_parsed(entry)[0] for entry in kind.fields)


def field_reader(kinds: Iterable[BuiltInKind]) -> Callable[[JSONObject], Mapping[str, str]]:
    """A function that reads the selectable fields of an object in any of the given versions; it returns the fields of all."""
    parsed = [_parsed(entry) for kind in kinds for entry in kind.fields]

    def read(obj: JSONObject) -> dict[str, str]:
        return {name: _read(obj, paths) or zero for name, paths, zero in parsed}

    return read


def _parsed(entry: str) -> tuple[str, tuple[tuple[str, ...], ...], str]:
    named, _, zero = entry.partition("=")
    name, elsewhere, paths = named.partition("@")
    found = paths.split("|") if elsewhere else [name]
    return name, tuple(tuple(path.split(".")) for path in found if path), zero


def _read(obj: JSONObject, paths: tuple[tuple[str, ...], ...]) -> str:
    """The first value that is not empty, as text; '' if there is none."""
    for path in paths:
        value: Any = obj
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value:
            return go_text(value)
    return ""
