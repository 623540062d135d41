"""Defaults: what kube-apiserver adds to an object of a built-in kind after decoding it.

The defaults are data by Go type (`default_values.py`), and a few functions for those that depend on other members
(`default_rules.py`). Both are applied along the types of `scheme/`, so that the entry for a PodSpec applies to the templates of
all kinds. For each type a function is compiled at its first use, which visits only members that can change; types without any,
such as a label selector, cost nothing.
What is set later, when an object is created or admitted, is in `creation.py`.
Pure. Source: k8s.io/kubernetes pkg/apis/*/*/{defaults,zz_generated.defaults,conversion}.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from aggserver.kinds.default_rules import RULES
from aggserver.kinds.default_values import VALUES
from aggserver.meta import quantity
from aggserver.meta.json_types import JSONObject, json_copy
from aggserver.meta.quantity import Quantity
from aggserver.scheme.types import Type, lookup

__all__ = ["set_defaults"]

_Set = Callable[[Any], None]

# Decimal places of an amount, as a power of ten.
_MILLI = -3


def set_defaults(obj: JSONObject, type_name: str) -> None:
    """Set the defaults of an object in place. It must be as Go writes it (`scheme.rewriting.rewrite`).

    type_name: in the tables of `scheme/`, such as `apps/v1.Deployment`. Of metadata, only the labels of a Namespace, Job or
    ReplicationController can change.
    """
    _setter(type_name)(obj)


@cache
def _setter(type_name: str) -> _Set:
    return _compiled(lookup(type_name)) or (lambda obj: None)


@cache
def _compiled(of: Type) -> _Set | None:
    """The function for values of a type; None if it would change nothing. (None of these types contains itself.)"""
    if of.kind == "struct":
        return _of_struct(of)
    if of.name == "v1.ResourceList":
        return _round_up
    return None if of.element is None else _of_elements(of.kind, _compiled(of.element))


def _of_elements(kind: str, inner: _Set | None) -> _Set | None:
    if inner is None:
        return None
    change = inner

    def change_list(items: list[Any]) -> None:
        for item in items:
            change(item)

    def change_map(items: Mapping[str, Any]) -> None:
        for item in items.values():
            change(item)

    return change_list if kind == "list" else change_map


def _of_struct(of: Type) -> _Set | None:
    values, rule = _entry(VALUES, of) or {}, _entry(RULES, of)
    missing = {name: value for name, value in values.items() if of.members[name].pointer}
    empty = {name: value for name, value in values.items() if not of.members[name].pointer}
    inner = [(name, change) for name, each in of.members.items() if (change := _compiled(each.type)) is not None]
    if not (values or rule or inner):
        return None

    def set_members(obj: JSONObject) -> None:
        if rule is not None:
            rule(obj)
        for name, value in missing.items():
            if obj.get(name) is None:
                obj[name] = json_copy(value)
        for name, value in empty.items():
            if not obj.get(name):
                obj[name] = json_copy(value)
        for name, descend in inner:
            found = obj.get(name)
            if found is not None:
                descend(found)

    return set_members


def _entry(table: Mapping[str, Any], of: Type) -> Any:
    """The entry of a table for a type. Types are looked up by their short names first, which lack the group."""
    return next((table[name] for name in _FULL_NAMES.get(of.name, ()) if name in table and lookup(name) is of), None)


def _full_names() -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name in sorted({*VALUES, *RULES}):
        names.setdefault(name.rpartition("/")[2], []).append(name)
    return names


_FULL_NAMES = _full_names()


def _round_up(resources: dict[str, Any]) -> None:
    """Round amounts up to three decimal places, the most that resources can have."""
    for name, written in resources.items():
        # Only amounts written in these forms can have more decimal places.
        if written[-1:] in ("u", "n") or "e-" in written or "E-" in written:
            number = quantity.parse(written)
            if number.scale < _MILLI:
                whole = -(-abs(number.value) // 10 ** (_MILLI - number.scale))
                resources[name] = quantity.text(Quantity(whole * number.sign(), _MILLI), written)
