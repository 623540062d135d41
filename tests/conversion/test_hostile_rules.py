"""Rules and objects of any shape: the only errors are RulesError and ConversionError."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import pytest

from aggserver.conversion import rule_compilation, rules
from aggserver.conversion.converter import ConversionError
from aggserver.conversion.round_trips import round_trips
from aggserver.conversion.rules_converter import RulesConverter
from aggserver.meta.field import Path
from aggserver.schema.compiled import CompiledSchema

AT = Path("rules")
VERSIONS = ("v1", "v2")
MEMBERS = [
    *("hub", "conversions", "from", "to", "changes", "move", "set", "remove", "save", "restore", "each"),
    *("value", "when", "annotation", "other"),
]
SCALARS = [
    *("v1", "v2", "v9", ".a", ".b.c", ".l", '.m["k"]', ".metadata", "self.a", "has(self.a)", "1", "a/b", ""),
    *(None, 3, True, 1.5),
]
PATHS = [".a", ".b.c", ".b", ".l", ".m.k", ".m", ".i", ".metadata.labels.x", '.metadata.annotations["a/b"]', ".o", ".o.p.q"]
EXPRESSIONS = [
    *("self.a", "self.?a", "self.i", "self.l", "self.m", "self.b", "self.m['k']", "self", "self.l.map(x, x.n)"),
    *("'x'", "1", "1.5", "null", "b'x'", "uint(1)", "[1, 2]", "{'a': 'b'}", "{1: 2}", "duration('1s')", "ip('::1')", "type(1)"),
    *("dyn(self.i)", "dyn({1: 2})", "dyn(type(1))", "optional.none()", "timestamp('2026-01-01T00:00:00Z')"),
]
CONDITIONS = ["has(self.a)", "true", "self.i > 1", "dyn(self.a)"]
PROPERTIES: dict[str, Any] = {
    "a": {"type": "string"},
    "b": {"type": "object", "properties": {"c": {"type": "integer"}}},
    "l": {
        "type": "array",
        "maxItems": 5,
        "items": {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}},
    },
    "m": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "string", "maxLength": 9}},
    "i": {"x-kubernetes-int-or-string": True},
    "o": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


def anything(random_: random.Random, depth: int = 0) -> Any:
    kind = random_.random()
    if depth < 5 and kind < 0.3:
        return {random_.choice(MEMBERS): anything(random_, depth + 1) for _ in range(random_.randint(0, 4))}
    if depth < 5 and kind < 0.55:
        return [anything(random_, depth + 1) for _ in range(random_.randint(0, 3))]
    return random_.choice(SCALARS)


def change(random_: random.Random, depth: int = 0) -> dict[str, Any]:
    kind = random_.choice(["move", "set", "remove", "save", "restore", "each"])
    made: dict[str, Any] = {kind: random_.choice(PATHS)}
    if kind == "move" or (kind == "each" and random_.random() < 0.5):
        made["to"] = random_.choice(PATHS)
    if kind == "set":
        made["value"] = random_.choice(EXPRESSIONS)
    if kind in ("save", "restore"):
        made["annotation"] = random_.choice(["a/b", "c/d"])
    if kind == "each":
        made["changes"] = [change(random_, depth + 1) for _ in range(random_.randint(0, 2 - depth))]
    if kind in ("move", "set", "remove") and random_.random() < 0.3:
        made["when"] = random_.choice(CONDITIONS)
    return made


def schema(random_: random.Random) -> CompiledSchema:
    chosen = {name: property_ for name, property_ in PROPERTIES.items() if random_.random() < 0.85}
    return CompiledSchema({"type": "object", "properties": chosen})


def garbage(random_: random.Random, depth: int = 0) -> Any:
    """A value that need not fit any schema, as of an object that was stored under another one."""
    if depth > 2 or random_.random() < 0.5:
        return random_.choice([None, 1, "x", True, 1.5, [], {}])
    if random_.random() < 0.7:
        return {random_.choice("abclmnopqik"): garbage(random_, depth + 1) for _ in range(3)}
    return [garbage(random_, depth + 1) for _ in range(2)]


@pytest.mark.parametrize("seed", range(300))
def test_values_of_any_shape(seed: int) -> None:
    with suppress(rules.RulesError):
        rules.read(anything(random.Random(seed)), AT, VERSIONS)


@pytest.mark.parametrize("seed", range(300))
def test_changes_of_any_kind_on_objects_of_any_shape(seed: int) -> None:
    random_ = random.Random(seed)
    schemas = {version: schema(random_) for version in VERSIONS}
    there = {"from": "v1", "to": "v2", "changes": [change(random_) for _ in range(random_.randint(1, 2))]}
    given = {"conversions": [there, {"from": "v2", "to": "v1"}]}
    with suppress(rules.RulesError):
        structurals = {version: schema_.structural for version, schema_ in schemas.items()}
        compiled = rule_compilation.compile_rules(rules.read(given, AT, VERSIONS), structurals)
        round_trips(("example.com", "Thing"), compiled, schemas)
        converter = RulesConverter("things", compiled, schemas)
        for _ in range(20):
            obj = {name: garbage(random_) for name in PROPERTIES if random_.random() < 0.7}
            obj |= {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "uid": "1"}}
            with suppress(ConversionError):
                made = converter.at_once(obj, "example.com/v2")
                json.dumps(made)
                kept = {name: value for name, value in made["metadata"].items() if name not in ("labels", "annotations")}
                assert (made["apiVersion"], kept) == ("example.com/v2", {"name": "a", "uid": "1"})
