"""Go's words for a definition with members of a wrong JSON type."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.schema import structural
from aggserver.scheme import decoding
from aggserver.scheme.types import lookup

DEFINITION = lookup("apiextensions/v1.CustomResourceDefinition")

V = "spec.versions"
S = f"{V}.schema.openAPIV3Schema"


def decode_error(obj: dict[str, Any]) -> str:
    return decoding.decode_error(obj, DEFINITION)


def schema(**members: Any) -> dict[str, Any]:
    return {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": members}}}}]}}


# name: (definition, what is found, struct and path of the member, its type)
MISFITS = {
    "a struct": ({"spec": "x"}, "string", "CustomResourceDefinition.spec", "v1.CustomResourceDefinitionSpec"),
    "a list": ({"spec": {"versions": {}}}, "object", f"CustomResourceDefinitionSpec.{V}", "[]v1.CustomResourceDefinitionVersion"),
    "an item": (
        {"spec": {"versions": [{}, 1]}},
        "number",
        f"CustomResourceDefinitionSpec.{V}",
        "v1.CustomResourceDefinitionVersion",
    ),
    "a bool": ({"spec": {"versions": [{"served": "x"}]}}, "string", f"CustomResourceDefinitionVersion.{V}.served", "bool"),
    "a named string": ({"spec": {"scope": 1.5}}, "number", "CustomResourceDefinitionSpec.spec.scope", "v1.ResourceScope"),
    "a map": (schema(properties=[]), "array", f"JSONSchemaProps.{S}.properties.properties", "map[string]v1.JSONSchemaProps"),
    "a value of a map": (
        schema(properties={"b": True}),
        "bool",
        f"JSONSchemaProps.{S}.properties.properties",
        "v1.JSONSchemaProps",
    ),
    "no fraction": (schema(maxLength=1.5), "number 1.5", f"JSONSchemaProps.{S}.properties.maxLength", "int64"),
    "too large": (schema(minItems=2**63), f"number {2**63}", f"JSONSchemaProps.{S}.properties.minItems", "int64"),
    "not even a number": (schema(maxLength="x"), "string", f"JSONSchemaProps.{S}.properties.maxLength", "int64"),
    "true is no number": (schema(maximum=True), "bool", f"JSONSchemaProps.{S}.properties.maximum", "float64"),
    "inside of either": (
        schema(additionalProperties={"items": {"type": 1}}),
        "number",
        f"JSONSchemaProps.{S}.properties.additionalProperties.items.type",
        "string",
    ),
    "a named list": (
        schema(**{structural.VALIDATIONS: {}}),
        "object",
        f"JSONSchemaProps.{S}.properties.{structural.VALIDATIONS}",
        "v1.ValidationRules",
    ),
    "an item of a named list": (
        schema(**{structural.VALIDATIONS: [{"reason": 1}]}),
        "number",
        f"ValidationRule.{S}.properties.{structural.VALIDATIONS}.reason",
        "v1.FieldValueErrorReason",
    ),
    "bytes": (
        {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": []}}}}},
        "array",
        "WebhookClientConfig.spec.conversion.webhook.clientConfig.caBundle",
        "[]uint8",
    ),
    "the first as written": (
        {"spec": {"scope": 1, "group": 2}},
        "number",
        "CustomResourceDefinitionSpec.spec.scope",
        "v1.ResourceScope",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_misfit(name: str) -> None:
    obj, found, where, wanted = MISFITS[name]
    assert decode_error(obj) == f"json: cannot unmarshal {found} into Go struct field {where} of type {wanted}"


TIME = "status.conditions.lastTransitionTime"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, f"json: cannot unmarshal number into Go struct field CustomResourceDefinitionCondition.{TIME} of type string"),
        ("x", 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
    ],
)
def test_a_malformed_time_comes_before_all_else(value: object, text: str) -> None:
    assert decode_error({"spec": {"scope": 1}, "status": {"conditions": [{"lastTransitionTime": value}]}}) == text


def test_metadata() -> None:
    where = "ObjectMeta.metadata.labels of type string"
    assert decode_error({"metadata": {"labels": {"a": 1}}}) == f"json: cannot unmarshal number into Go struct field {where}"


def test_the_root() -> None:
    wanted = lookup("meta/v1.ObjectMeta")
    assert decoding.decode_error([], wanted) == "json: cannot unmarshal array into Go value of type v1.ObjectMeta"
    where = "CustomResourceDefinition.metadata of type v1.ObjectMeta"
    assert decode_error({"metadata": []}) == f"json: cannot unmarshal array into Go struct field {where}"
    assert decoding.decode_error([], wanted, "CustomResourceDefinition", "metadata") == decode_error({"metadata": []})


def test_neither_schema_nor_boolean() -> None:
    assert decode_error(schema(additionalProperties=[])) == "boolean or JSON schema expected"


FITTING = {
    "null": {"spec": None, "status": {"conditions": [None]}},
    "unknown members": {"spec": {"nonsense": 1}, "extra": []},
    "anything": schema(default=[1], enum=[{}, 1, "x"], example="x"),
    "either": schema(additionalProperties=False, items=[{}], dependencies={"a": ["b"], "c": {}}),
    "numbers": schema(maximum=1, minimum=0.5, maxLength=3),
}


@pytest.mark.parametrize("name", FITTING)
def test_fits(name: str) -> None:
    assert decode_error(FITTING[name]) == ""
