"""`aggserver cel`: what it says of expressions, definitions and objects, and how it ends."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aggserver.cli import main

DEFINITION = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: another}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fleets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: fleets, kind: Fleet}
  versions:
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object}}
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - rule: self.replicas <= self.maxReplicas
              messageExpression: '"at most %d".format([self.maxReplicas])'
            properties:
              replicas: {type: integer, default: 1}
              maxReplicas: {type: integer}
              since: {type: string, format: date-time}
              ships:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                maxItems: 20
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string, maxLength: 63}
                    guns:
                      type: integer
                      x-kubernetes-validations:
                      - {rule: self >= oldSelf, message: a ship keeps its guns}
              routes:
                type: object
                additionalProperties: {type: string}
              a.b: {type: string}
          status:
            type: object
            properties:
              phase: {type: string}
"""
FLEET = """\
{"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "north", "labels": {"team": "a"}}, "spec": {"replicas": 3,
 "maxReplicas": 5, "since": "2020-01-01T00:00:00Z", "ships": [{"name": "ada", "guns": 3}, {"name": "bob", "guns": 1}],
 "routes": {"x": "home", "y.z": "away"}, "a.b": "dotted"}}
"""
FILES = {
    "crd.yaml": DEFINITION,
    "labels.yaml": DEFINITION.replace(
        "        type: object\n        properties",
        """        type: object
        x-kubernetes-validations:
        - rule: self.metadata.labels['team'] == 'b'
        properties""",
    ),
    "dear.yaml": DEFINITION.replace("self.replicas <= self.maxReplicas", "self.routes.all(a, self.routes.all(b, a != b))"),
    "untyped.yaml": DEFINITION.replace("type: object\n            x-kube", "x-kube"),
    "no-group.yaml": DEFINITION.replace("  group: example.com\n", ""),
    "other.yaml": "apiVersion: example.com/v1\nkind: Other\n",
    "fleet.json": FLEET,
    "two.yaml": f"kind: Other\n---\n{FLEET}",
    "many.json": FLEET.replace('"replicas": 3', '"replicas": 9'),
    "old.json": FLEET.replace('"guns": 1', '"guns": 2'),
    "wrong.json": FLEET.replace('"replicas": 3', '"replicas": "3"'),
    "unknown.json": FLEET.replace('"a.b"', '"junk"'),
    "broken.json": "{",
    "v2.json": FLEET.replace("/v1", "/v2"),
}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`aggserver cel` with these arguments, in a folder of FILES: its exit status, and what went to the two outputs."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["cel", *arguments])
        return status, *capsys.readouterr()

    return run


AT = ("--definition", "crd.yaml", "--at")
FLEET_AND_OLD = ("--object", "fleet.json", "--old-object", "old.json")
LABELS = ("self.metadata.labels", "--definition", "crd.yaml", "--object", "fleet.json")
LITTLE = "less than 0.1% of the limit of 10,000,000"
# Arguments, the exit status, and the lines that are printed: what, two spaces and more, and its value.
EXPRESSIONS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "value": (('"a" + "b"',), 0, 'type string; estimated cost 1; value "ab"; actual cost 1'),
    "false": (("1 > 2",), 1, "type bool; estimated cost 1; value false; actual cost 1"),
    "it fails": (("1 / 0 == 1",), 1, "type bool; estimated cost 2; error division by zero; actual cost 2"),
    "a type": (("type(1)",), 0, 'type type(int); estimated cost 1; value "int"; actual cost 0'),
    "time": (('duration("90s")',), 0, 'type duration; estimated cost 1; value "90s"; actual cost 0'),
    "bytes": (('b"ab"',), 0, 'type bytes; estimated cost 0; value "YWI="; actual cost 0'),
    "no number of JSON": (("[1.0 / 0.0, 2.5]",), 0, 'type list(double); estimated cost 11; value ["+Inf", 2.5]; actual cost 11'),
    "keys": (("{1: 2u}",), 0, 'type map(int, uint); estimated cost 30; value {"1": 2}; actual cost 0'),
    "optional": (("optional.of(1)",), 0, 'type optional_type(int); estimated cost 1; value "optional(1)"; actual cost 1'),
    "minus": (("--", "-1 + 2"), 0, "type int; estimated cost 1; value 1; actual cost 1"),
    "no program": (('int("x")',), 1, "type conversion error from 'string' to 'int'"),
    "self is unknown": (("self.a",), 0, "type dyn; estimated cost 1; value not known without --object"),
    "the old self is unknown": (
        ("self == oldSelf", "--object", "fleet.json"),
        0,
        "type bool; estimated cost unbounded; value not known without --old-object",
    ),
    "object": (("self.spec.replicas", "--object", "fleet.json"), 0, "type dyn; estimated cost 1; value 3; actual cost 3"),
    "old object": (
        ("self.kind == oldSelf.kind", *FLEET_AND_OLD),
        0,
        "type bool; estimated cost unbounded; value true; actual cost 5",
    ),
    "the object of the kind": (
        ("self.spec.maxReplicas", "--definition", "crd.yaml", "--object", "two.yaml"),
        0,
        f"type int; estimated cost 3, {LITTLE}; value 5; actual cost 3",
    ),
    "items": (
        ("self.name.size() == 3", *AT, ".spec.ships[]", "--object", "fleet.json"),
        0,
        f"type bool; estimated cost 4 x 20 = 80, {LITTLE}; at .spec.ships[0]; value true; actual cost 4; "
        "at .spec.ships[1]; value true; actual cost 4",
    ),
    "older selves of items": (
        ("self >= oldSelf", *AT, ".spec.ships[].guns", *FLEET_AND_OLD),
        1,
        f"type bool; estimated cost 3 x 20 = 60, {LITTLE}; at .spec.ships[0].guns; value true; actual cost 3; "
        "at .spec.ships[1].guns; value false; actual cost 3",
    ),
    "values of a map": (
        ("self == 'away'", *AT, ".spec.routes[]", "--object", "fleet.json"),
        1,
        "type bool; estimated cost 2 x 1,048,576 = 2,097,152, 21.0% of the limit of 10,000,000; at .spec.routes.x; value false; "
        'actual cost 2; at .spec.routes["y.z"]; value true; actual cost 2',
    ),
    "a dotted name": (
        ("self", *AT, '.spec["a.b"]', "--object", "fleet.json"),
        0,
        f'type string; estimated cost 1, {LITTLE}; at .spec["a.b"]; value "dotted"; actual cost 1',
    ),
    "nothing there": (
        ("self", *AT, ".status.phase", "--object", "fleet.json"),
        0,
        f"type string; estimated cost 1, {LITTLE}; value none: there is nothing at that place",
    ),
    "too dear": (
        ("self.all(a, self.all(b, self[a] == self[b]))", *AT, ".spec.routes"),
        1,
        "type bool; estimated cost 48,640,051,073,699,027, more than 100x the limit of 10,000,000; "
        "value not known without --object",
    ),
    "a higher limit": (
        ("self == 'away'", *AT, ".spec.routes[]", "--rules-budget", "10"),
        0,
        "type bool; estimated cost 2 x 1,048,576 = 2,097,152, 2.1% of the limit of 100,000,000; value not known without --object",
    ),
    "labels": (
        (*LABELS, "--rules-see-labels"),
        0,
        f'type map(string, string); estimated cost 3, {LITTLE}; value {{"team": "a"}}; actual cost 3',
    ),
    "no labels": (LABELS, 1, "ERROR: <input>:1:14: undefined field 'labels'; | self.metadata.labels; | .............^"),
    "an old object that is wrong": (
        ("oldSelf.spec.replicas", "--definition", "crd.yaml", "--object", "fleet.json", "--old-object", "wrong.json"),
        1,
        'error: wrong.json: spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"',
    ),
    "an object that is wrong": (
        ("self.spec.replicas", "--definition", "crd.yaml", "--object", "wrong.json"),
        1,
        'error: wrong.json: spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"',
    ),
}


@pytest.mark.parametrize(("arguments", "status", "lines"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_an_expression(run: Run, arguments: tuple[str, ...], status: int, lines: str) -> None:
    done = run(*arguments)
    assert done == (status, done[1], "")
    assert "; ".join(" ".join(line.split()) for line in done[1].splitlines()) == lines


HEAD = "fleets.example.com v1beta1\nno rules\n\n"
TABLE = """\
fleets.example.com v1
PLACE               COST         LIMIT           RULE
.spec               5            less than 0.1%  self.replicas <= self.maxReplicas
.spec               13           less than 0.1%  message: "at most %d".format([self.maxReplicas])
.spec.ships[].guns  3 x 20 = 60  less than 0.1%  self >= oldSelf
all                 78           less than 0.1%
"""
# Arguments behind --definition, the exit status, and what is printed at the end.
DEFINITIONS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "right": (("crd.yaml",), 0, HEAD + TABLE),
    "one version": (("crd.yaml", "--version", "v1"), 0, TABLE),
    "a valid object": (("crd.yaml", "--object", "fleet.json"), 0, f"{TABLE}\nfleet.json is valid\n"),
    "an invalid object": (
        ("crd.yaml", "--object", "many.json"),
        1,
        f"{TABLE}\nerror: many.json: spec: Invalid value: at most 5\n",
    ),
    "an update": (
        ("crd.yaml", *FLEET_AND_OLD),
        1,
        "\nerror: fleet.json: spec.ships[1].guns: Invalid value: 1: a ship keeps its guns\n",
    ),
    "what stays as it was": (
        ("crd.yaml", "--object", "many.json", "--old-object", "many.json"),
        0,
        "\nwarning: many.json: spec: Invalid value: at most 5\nmany.json is valid\n",
    ),
    "unknown fields": (
        ("crd.yaml", "--object", "unknown.json"),
        0,
        '\nwarning: unknown.json: unknown field "spec.junk"\nunknown.json is valid\n',
    ),
    "it does not compile": (
        ("labels.yaml", "--object", "fleet.json"),
        1,
        "\nerror: labels.yaml: v1: spec.versions[1].schema.openAPIV3Schema.x-kubernetes-validations[0].rule: compilation failed: "
        "ERROR: <input>:1:14: undefined field 'labels'\n | self.metadata.labels['team'] == 'b'\n | .............^\n",
    ),
    "labels": (
        ("labels.yaml", "--object", "fleet.json", "--rules-see-labels"),
        1,
        "\nerror: fleet.json: <nil>: Invalid value: failed rule: self.metadata.labels['team'] == 'b'\n",
    ),
    "too dear": (
        ("dear.yaml",),
        1,
        "\nerror: dear.yaml: v1: spec.versions[1].schema.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule "
        "cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x (try simplifying the rule, or adding "
        "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)\n",
    ),
    "a higher limit": (("dear.yaml", "--rules-budget", "1000000"), 0, "  0.8%\n"),
    "no types": (
        ("untyped.yaml",),
        1,
        "\nerror: untyped.yaml: v1: spec.versions[1].schema.openAPIV3Schema.properties[spec].type: Required value: must not be "
        "empty for specified object fields\n",
    ),
}


@pytest.mark.parametrize(("arguments", "status", "end"), DEFINITIONS.values(), ids=DEFINITIONS)
def test_a_definition(run: Run, arguments: tuple[str, ...], status: int, end: str) -> None:
    done = run("--definition", *arguments)
    assert done == (status, done[1], "")
    assert done[1].endswith(end)


MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "no place": (
        ("self", *AT, "spec"),
        '--at spec: a place is written as .spec.items[].name, a member with a dot in its name as .spec["a.b"]',
    ),
    "no such place": (("self", *AT, ".spec.x"), "--at .spec.x: fleets.example.com v1 declares nothing there"),
    "no such version": (("self", *AT, ".spec", "--version", "v3"), "fleets.example.com has no version v3"),
    "the object's version": (("--definition", "crd.yaml", "--object", "v2.json"), "fleets.example.com has no version v2"),
    "no JSON": (("self", "--object", "broken.json"), "broken.json: yaml: line 1: did not find expected node content"),
    "no file": (("self", "--object", "none.json"), "none.json: No such file or directory"),
    "no definition": (("--definition", "other.yaml"), "other.yaml: has no CustomResourceDefinition"),
    "half a definition": (("--definition", "no-group.yaml"), "no-group.yaml: spec.group: Required value"),
    "no object": (("--definition", "crd.yaml", "--object", "other.yaml"), "other.yaml: has no Fleet of example.com"),
    "nothing at all": ((), "cel: an expression or --definition is required"),
}


@pytest.mark.parametrize(("arguments", "text"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake(run: Run, arguments: tuple[str, ...], text: str) -> None:
    assert run(*arguments) == (2, "", f"aggserver: {text}\n")


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FLEET.encode())))
    assert run("self.metadata.name", "--object", "-")[1].splitlines()[2] == 'value           "north"'


def said(run: Run, *arguments: str) -> Any:
    return json.loads(run(*arguments, "-o", "json")[1])


def test_json_of_an_expression(run: Run) -> None:
    assert said(run, "self.guns", *AT, ".spec.ships[]", "--object", "fleet.json") == {
        "ok": True,
        "type": "int",
        "estimatedCost": 2,
        "cardinality": 20,
        "estimatedTotal": 40,
        "limit": 10_000_000,
        "results": [
            {"place": ".spec.ships[0]", "value": 3, "cost": 2},
            {"place": ".spec.ships[1]", "value": 1, "cost": 2},
        ],
    }
    assert said(run, "1 +")["error"].startswith("ERROR: <input>:1:4: Syntax error")


def test_json_of_a_definition(run: Run) -> None:
    found = said(run, "--definition", "crd.yaml", "--version", "v1", "--object", "many.json")
    assert (found["ok"], found["definition"]) == (False, "fleets.example.com")
    [version] = found["versions"]
    assert version["rules"][-1] == {
        "place": ".spec.ships[].guns",
        "rule": "self >= oldSelf",
        "estimatedCost": 3,
        "cardinality": 20,
        "estimatedTotal": 60,
        "limit": 10_000_000,
    }
    assert (version["estimatedTotal"], version["limit"], version["errors"]) == (78, 100_000_000, [])
    assert found["object"] == {
        "file": "many.json",
        "errors": [{"field": "spec", "reason": "FieldValueInvalid", "message": "Invalid value: at most 5"}],
        "warnings": [],
    }
