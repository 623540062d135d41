"""Random objects of the types in the tables: any members, zeros, nulls and empty lists among them."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

from aggserver.scheme.types import Type

__all__ = ["random_object"]

_VALUES: dict[str, tuple[Any, ...]] = {
    "string": ("", "a", "b.c/d", "ü"),
    "bool": (True, False),
    "int32": (0, 1, -1, 2**31 - 1, -(2**31)),
    "int64": (0, 7, -5, 2**53, -(2**63)),
    "float64": (0, 1, 0.5, -2.25),
    "quantity": ("0", "100m", "1.5Gi", "0.5", "1024Ki", 2, 0.25, "1e3", "-3", "12E", "0.1n"),
    "int-or-string": (0, 8080, "", "http", "25%", -1),
    "time": ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+01:30", "1969-12-31T23:59:59Z"),
    "micro-time": ("2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05.678901-02:00"),
    "bytes": tuple(base64.b64encode(each).decode() for each in (b"", b"a", bytes(range(70)))),
    "json": ({"a": [1, "b", None]}, {"c": {}}, {}),
}


def random_object(of: Type, random: Random, *, full: bool = False) -> dict[str, Any]:
    """An object with simple metadata. full: with all members, none of which is null. No struct contains one of its own type."""
    made = _struct(of, random, full, ())
    for name in ("kind", "apiVersion"):
        made.pop(name, None)
    if "metadata" in of.members:
        made["metadata"] = {"name": "n", "labels": {"a": ""}}
    return made


def _struct(of: Type, random: Random, full: bool, around: tuple[Type, ...]) -> dict[str, Any]:
    made = {}
    # Rather deep than broad: few members, except of the outermost structs.
    chance = 1.0 if full else 0.9 if len(around) < 2 else 0.4
    for name, member in of.members.items():
        # An object within an object has no protobuf field for its kind.
        if member.embedded == "TypeMeta." or not {*around, of}.isdisjoint(_inside(member.type)):
            continue
        if random.random() < chance:
            made[name] = None if not full and random.random() < 0.05 else _value(member.type, random, full, (*around, of))
    return made


def _inside(of: Type) -> list[Type]:
    """The structs of which a value of the type directly consists."""
    if of.element is not None:
        return _inside(of.element)
    if of.kind == "union":
        return [inner for member in of.members.values() for inner in _inside(member.type)]
    return [of]


def _value(of: Type, random: Random, full: bool, around: tuple[Type, ...]) -> Any:
    if of.enum and (full or random.random() < 0.5):
        return random.choice(of.enum)
    if of.kind in _VALUES:
        return random.choice(_VALUES[of.kind])
    if of.kind == "struct":
        return _struct(of, random, full, around)
    if of.kind == "union":
        return _value(random.choice(list(of.members.values())).type, random, full, around)
    assert of.element is not None
    count = 1 if full else random.choice((0, 1, 1, 2))
    items = [
        None if not full and of.element.kind != "time" and random.random() < 0.05 else _value(of.element, random, full, around)
        for _ in range(count)
    ]
    return items if of.kind == "list" else dict(zip(("k", "l"), items, strict=False))
