"""Round trips: what is named that does not come back; and the samples that are tried."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from aggserver.conversion.round_trips import round_trips
from aggserver.schema import structural
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.samples import samples
from tests.conversion.rules import CRON_TAB, CRON_TAB_RULES, GROUP, compiled, findings, schemas

PATTERN = "'^[a-z.]+:[0-9]+$'"
STRICT = {
    "v1beta1": f"{{hostPort: {{type: string, pattern: {PATTERN}}}}}",
    "v1": "{host: {type: string, pattern: '^[a-z.]+$'}, port: {type: string, pattern: '^[0-9]+$'}}",
}


def test_the_page_is_told_of_strings_without_a_port() -> None:
    assert findings(CRON_TAB_RULES, CRON_TAB) == [
        'v1beta1 to v1: fails: changes[1].value (set .port): index out of bounds: 1, for {"hostPort":"text"}',
        'v1 to v1beta1 and back: .host is changed, from "localhost:1234" to "localhost"',
        'v1 to v1beta1 and back: .port is changed, from "text" to "1234"',
    ]


def test_patterns_leave_what_is_really_lost() -> None:
    """A host without a port, which v1 allows, has no place in v1beta1."""
    assert findings(CRON_TAB_RULES, STRICT) == ["v1 to v1beta1 and back: .port is lost", "v1 to v1beta1 and back: .host is lost"]


CASES: dict[str, tuple[str, str, list[str]]] = {
    "nothing is lost by a move": ("{a: {type: string}}", "{b: {type: string}}", []),
    "a field that the other version has not": (
        "{a: {type: string}, s: {type: object, properties: {x: {type: integer}}}}",
        "{b: {type: string}}",
        ["v1 to v2 and back: .s is lost"],
    ),
    "a default that the other version adds": (
        "{a: {type: string}, n: {type: integer}}",
        "{b: {type: string}, n: {type: integer, default: 7}}",
        ["v1 to v2 and back: .n is added"],
    ),
    "in the items of a list": (
        "{a: {type: string}, l: {type: array, items: {type: object, properties: {x: {type: integer}, y: {type: integer}}}}}",
        "{b: {type: string}, l: {type: array, items: {type: object, properties: {x: {type: integer}}}}}",
        ["v1 to v2 and back: .l[].y is lost"],
    ),
    "a result that is not valid": (
        "{a: {type: string}, n: {type: integer}}",
        "{b: {type: string}, n: {type: integer, maximum: 5}}",
        ["v1 to v2: makes an invalid object: n: Invalid value: 8080: n in body should be less than or equal to 5"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_findings(name: str) -> None:
    one, other, wanted = CASES[name]
    move = "conversions: [{from: v1, to: v2, changes: [{move: .a, to: .b}]}]"
    assert findings(move, {"v1": one, "v2": other}) == wanted


def test_an_expensive_conversion_ends_the_trial() -> None:
    """Each conversion of a sample costs a third of a million here, and all samples together may cost ten."""
    fields = ", ".join(f"f{number}: {{type: string, maxLength: 10}}" for number in range(20))
    ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
    slow = f"{ten}.map(a, {ten}.map(b, {ten}.map(c, {ten}.map(d, a + b + c + d))))"
    there = {"from": "v1", "to": "v2", "changes": [{"set": ".f0", "value": f"string(size({slow}))"}]}
    text = json.dumps({"conversions": [there, {"from": "v2", "to": "v1"}]})
    versions = dict.fromkeys(("v1", "v2"), f"{{{fields}}}")
    assert 10 < round_trips((GROUP, "CronTab"), compiled(text, versions), schemas(versions)).tried < 60


# --- properties, on generated schemas ---


def generated(random_: random.Random, depth: int = 3) -> dict[str, Any]:
    kind = random_.choice(("string", "integer", "boolean", "number", "object", "object", "array", "map", "int-or-string"))
    if kind == "int-or-string":
        return {"x-kubernetes-int-or-string": True}
    if kind not in ("object", "array", "map") or not depth:
        return {"type": kind if kind not in ("object", "array", "map") else "string"}
    if kind == "array":
        return {"type": "array", "items": generated(random_, depth - 1)}
    if kind == "map":
        return {"type": "object", "additionalProperties": generated(random_, depth - 1)}
    names = random_.sample("abcdef", random_.randint(1, 4))
    required = [name for name in names if random_.random() < 0.3]
    properties = {name: generated(random_, depth - 1) for name in names}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


@pytest.mark.parametrize("seed", range(60))
def test_moves_and_saves_bring_everything_back(seed: int) -> None:
    """Each field of the one version is renamed, saved or carried over; then nothing is lost both ways."""
    random_ = random.Random(seed)
    fields = {f"f{index}": generated(random_) for index in range(random_.randint(1, 6))}
    changes, there = [], {}
    for name, schema in fields.items():
        match random_.choice(("move", "deep", "save", "carry")):
            case "move":
                changes.append({"move": f".{name}", "to": f".x{name}"})
                there[f"x{name}"] = schema
            case "deep":
                changes.append({"move": f".{name}", "to": f".deep.{name}"})
                there.setdefault("deep", {"type": "object", "properties": {}})["properties"][name] = schema
            case "save":
                changes.append({"save": f".{name}", "annotation": f"example.com/{name}"})
            case _:
                there[name] = schema
    versions = {"v1": json.dumps(fields), "v2": json.dumps(there)}
    text = json.dumps({"conversions": [{"from": "v1", "to": "v2", "changes": changes}]})
    of_version = schemas(versions)
    report = round_trips((GROUP, "CronTab"), compiled(text, versions), of_version)
    assert report.tried > 1
    assert list(map(str, report.findings)) == []


@pytest.mark.parametrize("seed", range(40))
def test_samples_are_the_same_each_time_and_mostly_valid(seed: int) -> None:
    schema = {"type": "object", "properties": {"spec": generated(random.Random(seed))}}
    of_schema = CompiledSchema(schema)
    made = list(samples(structural.compile(schema), 100))
    assert made == list(samples(structural.compile(schema), 100))
    assert made
    for sample in made:
        obj = {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, **sample}
        assert of_schema.conform(obj) == []
    assert not of_schema.on_create({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, **made[0]}).values
