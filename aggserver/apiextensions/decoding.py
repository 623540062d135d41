"""Decoding: what Go's decoder says of a definition with a member of a wrong JSON type.

`json: cannot unmarshal string into Go struct field CustomResourceValidation.spec.versions.schema.openAPIV3Schema of type
v1.JSONSchemaProps`: the struct that has the member, the path without indexes and keys, the type it should have; of several the
first as written. So the table here is of Go's types by Go's names. What fits them may still lack the form that others rely on
(a null in a list, for one): `manifest.problems` says that, and says it of files, where all is told at once.
Pure. Called for bodies of the CRD API. Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/{types,types_jsonschema,
marshal}.go, v0.36.3; encoding/json.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aggserver.meta.golang import INT64_MAX, INT64_MIN, json_kind, to_json
from aggserver.schema.structural import is_plain

__all__ = ["decode_error"]


def _all(wanted: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, wanted)


# Struct -> member -> Go's type. A `v1.` type that is no struct here is a string by another name.
_STRUCTS: Mapping[str, Mapping[str, str]] = {
    "v1.CustomResourceDefinition": {"spec": "v1.CustomResourceDefinitionSpec", "status": "v1.CustomResourceDefinitionStatus"},
    "v1.CustomResourceDefinitionSpec": {
        "group": "string",
        "names": "v1.CustomResourceDefinitionNames",
        "scope": "v1.ResourceScope",
        "versions": "[]v1.CustomResourceDefinitionVersion",
        "conversion": "v1.CustomResourceConversion",
        "preserveUnknownFields": "bool",
    },
    "v1.CustomResourceDefinitionNames": {
        **_all("string", "plural", "singular", "kind", "listKind"),
        **_all("[]string", "shortNames", "categories"),
    },
    "v1.CustomResourceDefinitionVersion": {
        **_all("string", "name", "deprecationWarning"),
        **_all("bool", "served", "storage", "deprecated"),
        "schema": "v1.CustomResourceValidation",
        "subresources": "v1.CustomResourceSubresources",
        "additionalPrinterColumns": "[]v1.CustomResourceColumnDefinition",
        "selectableFields": "[]v1.SelectableField",
    },
    "v1.CustomResourceValidation": {"openAPIV3Schema": "v1.JSONSchemaProps"},
    "v1.CustomResourceSubresources": {
        "status": "v1.CustomResourceSubresourceStatus",
        "scale": "v1.CustomResourceSubresourceScale",
    },
    "v1.CustomResourceSubresourceStatus": {},
    "v1.CustomResourceSubresourceScale": _all("string", "specReplicasPath", "statusReplicasPath", "labelSelectorPath"),
    "v1.CustomResourceColumnDefinition": {
        **_all("string", "name", "type", "format", "description", "jsonPath"),
        "priority": "int32",
    },
    "v1.SelectableField": {"jsonPath": "string"},
    "v1.CustomResourceConversion": {"strategy": "v1.ConversionStrategyType", "webhook": "v1.WebhookConversion"},
    "v1.WebhookConversion": {"clientConfig": "v1.WebhookClientConfig", "conversionReviewVersions": "[]string"},
    "v1.WebhookClientConfig": {"url": "string", "service": "v1.ServiceReference", "caBundle": "[]uint8"},
    "v1.ServiceReference": {**_all("string", "namespace", "name", "path"), "port": "int32"},
    "v1.CustomResourceDefinitionStatus": {
        "conditions": "[]v1.CustomResourceDefinitionCondition",
        "acceptedNames": "v1.CustomResourceDefinitionNames",
        "storedVersions": "[]string",
        "observedGeneration": "int64",
    },
    "v1.CustomResourceDefinitionCondition": {
        "type": "v1.CustomResourceDefinitionConditionType",
        "status": "v1.ConditionStatus",
        **_all("string", "reason", "message"),
        "observedGeneration": "int64",
    },
    "v1.JSONSchemaProps": {
        **_all("string", "id", "$ref", "description", "type", "format", "title", "pattern"),
        **_all("string", "x-kubernetes-list-type", "x-kubernetes-map-type"),
        "$schema": "v1.JSONSchemaURL",
        **_all("float64", "maximum", "minimum", "multipleOf"),
        **_all("int64", "maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"),
        **_all("bool", "exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable"),
        **_all("bool", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
        **_all("[]string", "required", "x-kubernetes-list-map-keys"),
        **_all("[]v1.JSONSchemaProps", "allOf", "oneOf", "anyOf"),
        **_all("map[string]v1.JSONSchemaProps", "properties", "patternProperties"),
        **_all("v1.JSONSchemaPropsOrBool", "additionalProperties", "additionalItems"),
        "definitions": "v1.JSONSchemaDefinitions",
        "dependencies": "v1.JSONSchemaDependencies",
        "enum": "[]v1.JSON",
        "externalDocs": "v1.ExternalDocumentation",
        "items": "v1.JSONSchemaPropsOrArray",
        "not": "v1.JSONSchemaProps",
        "x-kubernetes-validations": "v1.ValidationRules",
    },
    "v1.ExternalDocumentation": _all("string", "description", "url"),
    "v1.ValidationRule": {
        **_all("string", "rule", "message", "messageExpression", "fieldPath"),
        "reason": "v1.FieldValueErrorReason",
        "optionalOldSelf": "bool",
    },
}

# Go's names for lists and maps.
_NAMED = {
    "v1.ValidationRules": "[]v1.ValidationRule",
    "v1.JSONSchemaDefinitions": "map[string]v1.JSONSchemaProps",
    "v1.JSONSchemaDependencies": "map[string]v1.JSONSchemaPropsOrStringArray",
}

# What decodes itself: by the kind of the JSON the type that it has then; what is of another kind is passed over.
_EITHER: Mapping[str, Mapping[str, str]] = {
    "v1.JSON": {},
    "v1.JSONSchemaPropsOrBool": {"object": "v1.JSONSchemaProps", "bool": "bool"},
    "v1.JSONSchemaPropsOrArray": {"object": "v1.JSONSchemaProps", "array": "[]v1.JSONSchemaProps"},
    "v1.JSONSchemaPropsOrStringArray": {"object": "v1.JSONSchemaProps", "array": "[]string"},
}

_LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (INT64_MIN, INT64_MAX)}
_KINDS = {"bool": "bool", "float64": "number", "int32": "number", "int64": "number"}


def decode_error(obj: Mapping[str, Any]) -> str:
    """Go's text for the first misfit in a definition, '' if there is none. Metadata is not looked at."""
    return next(_misfits(obj, "v1.CustomResourceDefinition", ""), "")


def _misfits_within(values: Iterable[Any], wanted: str, where: str) -> Iterator[str]:
    if wanted == "v1.JSON":  # anything
        return
    for value in values:
        if wanted != "v1.JSONSchemaProps" or not is_plain(value):
            yield from _misfits(value, wanted, where)


def _kind_of(form: str) -> str:
    if form.startswith("map[") or form in _STRUCTS:
        return "object"
    if form.startswith("[]") and form != "[]uint8":  # bytes are base64
        return "array"
    return _KINDS.get(form, "string")


def _misfits(value: Any, wanted: str, where: str) -> Iterator[str]:
    """where: the struct and the path, as `JSONSchemaProps.spec.versions.schema.openAPIV3Schema.type`; '' at the root."""
    if value is None:
        return
    kind, form = json_kind(value), _NAMED.get(wanted, wanted)
    if form in _EITHER:
        if kind in _EITHER[form]:
            yield from _misfits(value, _EITHER[form][kind], where)
        elif form == "v1.JSONSchemaPropsOrBool":
            yield "boolean or JSON schema expected"
    elif kind != _kind_of(form):
        yield f"json: cannot unmarshal {kind} into Go struct field {where} of type {wanted}"
    elif kind == "array":
        yield from _misfits_within(value, form.removeprefix("[]"), where)
    elif form.startswith("map[string]"):
        yield from _misfits_within(value.values(), form.removeprefix("map[string]"), where)
    elif form in _STRUCTS:
        path = where.partition(".")[2]
        for name, member in value.items():
            if name in _STRUCTS[form]:
                yield from _misfits(member, _STRUCTS[form][name], ".".join(filter(None, (form[3:], path, name))))
    elif form in _LIMITS:
        low, high = _LIMITS[form]
        if not (isinstance(value, int) and low <= value <= high):
            yield f"json: cannot unmarshal number {to_json(value)} into Go struct field {where} of type {wanted}"
