"""Rules of schemas: answers of kube-apiserver (tests/cases), what may stay, and schemas that mean ill.

Those about x-kubernetes-validations are in tests/schema.
"""

from __future__ import annotations

import time
from pathlib import Path as File
from typing import Any

import pytest
import yaml

from aggserver.apiextensions import schema_rules, validation
from aggserver.apiextensions.schema_rules import SchemaOptions, unrecognized_formats
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.schema import internal
from aggserver.schema.constructs import Strictness
from aggserver.schema.rules import UPSTREAM, RuleOptions
from tests.waiting import HANG_SECONDS

CASES = yaml.safe_load((File(__file__).parents[1] / "cases" / "crd_schemas.yaml").read_text())
STRICT = SchemaOptions(structural=True, pruned_defaults=True, strict=Strictness(), rule_options=UPSTREAM)


def errors(schema: JSONObject, *, status: bool = False, options: SchemaOptions = STRICT) -> list[str]:
    return [str(error) for error in schema_rules.validate(schema, Path("s"), status=status, unchanged=False, options=options)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_schema(case: JSONObject) -> None:
    assert errors(case["schema"]) == case["errors"]


def changed(rule: str, before: str) -> list[str]:
    """The errors of a definition of two versions, with one rule in v1, that had another one there before."""
    versions = []
    for text in (before, rule):
        schema = {"type": "array", "items": {"type": "number"}, "x-kubernetes-validations": [{"rule": text}]}
        v1 = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": around(schema)}}
        versions.append([v1, {**v1, "name": "v2", "storage": False, "schema": {"openAPIV3Schema": around({"type": "string"})}}])
    old, new = (crd({}, versions=each) for each in versions)
    return [str(error) for error in validation.validate_update(new, old)]


EXPENSIVE = "self.all(a, self.all(b, a == b))"
LIMITS = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
)
TOO_MUCH = f"exceeds budget by factor of more than 100x {LIMITS}"
AT = "spec.versions[0].schema.openAPIV3Schema"
OF_ONE = f"{AT}.properties[a].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost {TOO_MUCH}"
OF_ALL = [
    f"{AT}.properties[a].x-kubernetes-validations[0].rule: Forbidden: "
    "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
    f"{AT}: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema {TOO_MUCH}",
]


def test_limits_of_changed_rules() -> None:
    assert changed("self.size() > 1", EXPENSIVE) == []
    assert changed(EXPENSIVE, "self.size() > 1") == [OF_ONE, *OF_ALL]
    # Of a schema that stays what it is only the sum is limited.
    assert changed(EXPENSIVE, EXPENSIVE) == OF_ALL


def test_a_limit_of_ones_own() -> None:
    schema = {"type": "array", "items": {"type": "number"}, "maxItems": 2400, "x-kubernetes-validations": [{"rule": EXPENSIVE}]}
    for budget, factor in ((1, "2.9x"), (2, "1.440600x")):
        (error,) = validation.validate(crd(around(schema)), RuleOptions(budget=budget))
        assert error.detail == f"estimated rule cost exceeds budget by factor of {factor} {LIMITS}"
    assert validation.validate(crd(around(schema)), RuleOptions(budget=3)) == []


def test_rules_that_see_labels() -> None:
    schema = {**around({"type": "string"}), "x-kubernetes-validations": [{"rule": "'a' in self.metadata.labels"}]}
    assert len(validation.validate(crd(schema))) == 1
    assert validation.validate(crd(schema), RuleOptions(sees_labels=True)) == []


def test_root_with_status() -> None:
    assert errors({"type": "object", "required": ["a"], "properties": {}}, status=True) == []
    (error,) = errors({"type": "object", "maxProperties": 1, "anyOf": []}, status=True)
    assert error.startswith('s: Invalid value: {"ID":"","Schema":"","Ref":null,"Description":"","Type":"object",')
    assert error.endswith(
        "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
        "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
        "XValidations] fields are allowed at the root of the schema if the status subresource is enabled"
    )


def crd(schema: JSONObject, **spec: Any) -> JSONObject:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.b.example"},
        "spec": {
            "group": "b.example",
            "scope": "Cluster",
            "names": {"plural": "as", "kind": "A"},
            "versions": [version],
            **spec,
        },
    }


def around(schema: JSONObject) -> JSONObject:
    return {"type": "object", "properties": {"a": schema}}


LIST_OF_OBJECTS = {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}}
# What an older server accepted.
STORED: dict[str, tuple[JSONObject, JSONObject]] = {
    "a type of its own": (around({"type": "text"}), {}),
    "a set of objects": (around(LIST_OF_OBJECTS | {"x-kubernetes-list-type": "set"}), {}),
    "an optional key": (
        around(LIST_OF_OBJECTS | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
        {},
    ),
    "a set of nulls": (
        around({"type": "array", "items": {"type": "string", "nullable": True}, "x-kubernetes-list-type": "set"}),
        {},
    ),
    "a default with a field of its own": (around({"type": "object", "properties": {}, "default": {"b": 1}}), {}),
    "no structure": ({"properties": {"a": {"allOf": [{"type": "string"}]}}}, {"preserveUnknownFields": True}),
}


@pytest.mark.parametrize(("schema", "spec"), STORED.values(), ids=STORED)
def test_what_was_accepted_stays(schema: JSONObject, spec: JSONObject) -> None:
    stored = crd(schema, **spec)
    assert validation.validate(stored) != []
    assert validation.validate_update(stored, stored) == []
    # What was right before stays so.
    assert validation.validate_update(stored, crd({"type": "object"})) != []


def test_structure_is_asked_for_where_something_rests_on_it() -> None:
    loose: JSONObject = {"properties": {"a": {}}}
    before = crd(loose, preserveUnknownFields=True)
    after = crd({"properties": {"a": {}, "b": {"x-kubernetes-int-or-string": True}}}, preserveUnknownFields=True)
    assert validation.validate_update(before, before) == []
    assert validation.validate_update(after, before) != []
    assert validation.validate_update(crd(loose), before) != []


def test_unrecognized_formats() -> None:
    schema = {"properties": {"a": {"type": "string", "format": "date-time"}, "b": {"type": "object", "format": "date"}}}
    assert unrecognized_formats(crd(schema)["spec"]) == ["date"]
    two = [{"name": name, "schema": {"openAPIV3Schema": schema}} for name in ("v1", "v2")]
    assert unrecognized_formats({"versions": two}) == ["date"]


def test_text_of_a_schema() -> None:
    text = internal.text({"type": "object", "maximum": 1, "items": [{}], "additionalProperties": {"type": "string"}})
    assert '"Type":"object"' in text
    assert '"Maximum":1,' in text
    assert '"AdditionalProperties":{"Allows":true,"Schema":{"ID":"",' in text
    assert '"Items":{"Schema":null,"JSONSchemas":[{"ID":"",' in text


def deep(levels: int) -> JSONObject:
    schema: JSONObject = {"type": "string"}
    for _ in range(levels):
        schema = around(schema)
    return schema


ILL: dict[str, tuple[JSONObject, bool]] = {
    "a thousand levels": (deep(1000), False),
    "ninety levels": (deep(90), True),
    "ten thousand properties": ({"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(10_000)}}, True),
    "a pattern that backtracks": (around({"type": "string", "pattern": "(a+)+$" * 20}), True),
    "a pattern that explodes": (around({"type": "string", "pattern": "((a{1,100}){1,100}){1,100}"}), False),
    "a large enum": (around({"type": "string", "enum": ["x" * 100] * 30_000}), True),
}


@pytest.mark.parametrize(("schema", "is_good"), ILL.values(), ids=ILL)
def test_ill_will_is_answered(schema: JSONObject, is_good: bool) -> None:
    began = time.process_time()
    assert (validation.validate(crd(schema)) == []) is is_good
    assert time.process_time() - began < HANG_SECONDS  # for ever, where something grows without bounds
