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


_PORT = "json: cannot unmarshal {} into Go struct field ServicePort.spec.ports.targetPort of type int32"
_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_MICRO = 'parsing time "{0}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{1}" as "{2}"'

# Types that read their JSON themselves: (type, object, error), as kube-apiserver has them.
OWN_JSON: dict[str, tuple[str, dict[str, Any], str]] = {
    "a boolean is no port": ("core/v1.Service", {"spec": {"ports": [{"targetPort": True}]}}, _PORT.format("bool")),
    "a fraction is no port": ("core/v1.Service", {"spec": {"ports": [{"targetPort": 1.5}]}}, _PORT.format("number 1.5")),
    "too large for a port": ("core/v1.Service", {"spec": {"ports": [{"targetPort": 2**40}]}}, _PORT.format(f"number {2**40}")),
    "an object is no port": ("core/v1.Service", {"spec": {"ports": [{"targetPort": {}}]}}, _PORT.format("object")),
    "a text is a port": ("core/v1.Service", {"spec": {"ports": [{"targetPort": "x"}]}}, ""),
    "a text is no quantity": ("core/v1.Pod", {"spec": {"overhead": {"cpu": "x"}}}, _QUANTITY),
    "an object is no quantity": ("core/v1.Pod", {"spec": {"overhead": {"cpu": {}}}}, _QUANTITY),
    "a number is a quantity": ("core/v1.Pod", {"spec": {"overhead": {"cpu": 0.5, "memory": 1}}}, ""),
    "no base64": ("core/v1.Secret", {"data": {"a": "x"}}, "illegal base64 data at input byte 0"),
    "padding too early": ("core/v1.Secret", {"data": {"a": "YWJ=Y"}}, "illegal base64 data at input byte 4"),
    "text after the padding": ("core/v1.Secret", {"data": {"a": "YW==YQ"}}, "illegal base64 data at input byte 4"),
    "half of the padding": ("core/v1.Secret", {"data": {"a": "YQ="}}, "illegal base64 data at input byte 3"),
    "base64 that is cut off": ("core/v1.Secret", {"data": {"a": "YWJjZ"}}, "illegal base64 data at input byte 4"),
    "base64 in lines": ("core/v1.Secret", {"data": {"a": "YW\r\nJj"}}, ""),
    "a time without a fraction": (
        "coordination/v1.Lease",
        {"spec": {"renewTime": "2026-01-02T03:04:05Z"}},
        _MICRO.format("2026-01-02T03:04:05Z", "Z", ".000000"),
    ),
    "no time": ("coordination/v1.Lease", {"spec": {"renewTime": "x"}}, _MICRO.format("x", "x", "2006")),
    "such an error ends decoding": (
        "coordination/v1.Lease",
        {"spec": {"holderIdentity": 1, "renewTime": "x"}},
        _MICRO.format("x", "x", "2006"),
    ),
}


@pytest.mark.parametrize("name", OWN_JSON)
def test_types_that_read_their_own_json(name: str) -> None:
    of, obj, error = OWN_JSON[name]
    assert decoding.decode_error(obj, lookup(of)) == error
