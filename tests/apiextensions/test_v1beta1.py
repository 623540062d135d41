from __future__ import annotations

from typing import Any

import pytest

from aggserver.apiextensions import validation
from aggserver.apiextensions.v1beta1 import StoredDefinitions, to_v1

SCHEMA = {"openAPIV3Schema": {"type": "object"}}
CLIENT = {"url": "https://example.com/convert"}


def version(name: str = "v1", **more: Any) -> dict[str, Any]:
    return {"name": name, "served": True, "storage": name == "v1", **more}


STORED = {
    "what is alike goes to each version": (
        {
            "version": "v1",
            "versions": [version("v1"), version("v2")],
            "validation": SCHEMA,
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Age", "type": "date", "JSONPath": ".metadata.creationTimestamp"}],
            "selectableFields": [{"jsonPath": ".spec.a"}],
            "preserveUnknownFields": False,
            "conversion": {"strategy": "None"},
        },
        {
            "versions": [
                version(
                    name,
                    schema=SCHEMA,
                    subresources={"status": {}},
                    additionalPrinterColumns=[{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
                    selectableFields=[{"jsonPath": ".spec.a"}],
                )
                for name in ("v1", "v2")
            ],
            "conversion": {"strategy": "None"},
        },
    ),
    "what differs stays in its version": (
        {
            "version": "v1",
            "versions": [
                version("v1", schema=SCHEMA),
                version("v2", additionalPrinterColumns=[{"name": "A", "type": "string", "JSONPath": ".a"}]),
            ],
            "preserveUnknownFields": False,
        },
        {
            "versions": [
                version("v1", schema=SCHEMA),
                version("v2", additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": ".a"}]),
            ]
        },
    ),
    "one version, in its old place": (
        {"version": "v1", "validation": SCHEMA, "preserveUnknownFields": False},
        {"versions": [version("v1", schema=SCHEMA)]},
    ),
    "unknown fields were kept, if nothing else was said": (
        {"version": "v1", "versions": [version("v1")]},
        {"versions": [version("v1")], "preserveUnknownFields": True},
    ),
    "unknown fields were kept": (
        {"version": "v1", "versions": [version("v1")], "preserveUnknownFields": True},
        {"versions": [version("v1")], "preserveUnknownFields": True},
    ),
    "a webhook": (
        {
            "versions": [version("v1")],
            "preserveUnknownFields": False,
            "conversion": {"strategy": "Webhook", "webhookClientConfig": CLIENT, "conversionReviewVersions": ["v1"]},
        },
        {
            "versions": [version("v1")],
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": CLIENT, "conversionReviewVersions": ["v1"]}},
        },
    ),
}


@pytest.mark.parametrize(("stored", "expected"), STORED.values(), ids=STORED)
async def test_stored(stored: dict[str, Any], expected: dict[str, Any]) -> None:
    obj = {"apiVersion": "apiextensions.k8s.io/v1beta1", "metadata": {"name": "a"}, "spec": stored}
    (converted,) = await StoredDefinitions().convert([obj], "apiextensions.k8s.io/v1")
    assert converted == {"apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "a"}, "spec": expected}


PRESERVE = "x-kubernetes-preserve-unknown-fields"
HOST = {"type": "object", "properties": {"host": {"type": "string"}}}


def crd(**spec: Any) -> dict[str, Any]:
    names = {"plural": "crontabs", "singular": "crontab", "kind": "CronTab"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.example.com"},
        "spec": {"group": "example.com", "names": names, "preserveUnknownFields": False, **spec},
    }


MANIFESTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the old field version": (
        {"version": "v1", "validation": {"openAPIV3Schema": HOST}},
        {"versions": [version(schema={"openAPIV3Schema": HOST})]},
    ),
    "what is shared goes to each": (
        {
            "version": "v1",
            "versions": [version(), version("v2")],
            "validation": {"openAPIV3Schema": HOST},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Host", "type": "string", "JSONPath": ".host"}],
        },
        {
            "versions": [
                version(
                    name,
                    schema={"openAPIV3Schema": HOST},
                    subresources={"status": {}},
                    additionalPrinterColumns=[{"name": "Host", "type": "string", "jsonPath": ".host"}],
                )
                for name in ("v1", "v2")
            ]
        },
    ),
    "each its own": (
        {"versions": [version(schema={"openAPIV3Schema": HOST})], "scope": "Cluster"},
        {"versions": [version(schema={"openAPIV3Schema": HOST})], "scope": "Cluster"},
    ),
    "webhook": (
        {
            "version": "v1",
            "validation": {"openAPIV3Schema": HOST},
            "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://example.com"}},
        },
        {
            "versions": [version(schema={"openAPIV3Schema": HOST})],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "https://example.com"}, "conversionReviewVersions": ["v1beta1"]},
            },
        },
    ),
    "unknown fields are kept": (
        {
            "version": "v1",
            "validation": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "metadata": {"type": "object"},
                        "spec": {"type": "object", "properties": {"list": {"type": "array", "items": HOST}}},
                        "map": {"type": "object", "additionalProperties": {"type": "object"}},
                    },
                }
            },
            "preserveUnknownFields": None,
        },
        {
            "versions": [
                version(
                    schema={
                        "openAPIV3Schema": {
                            "type": "object",
                            PRESERVE: True,
                            "properties": {
                                "metadata": {"type": "object"},
                                "spec": {
                                    "type": "object",
                                    PRESERVE: True,
                                    "properties": {"list": {"type": "array", "items": {**HOST, PRESERVE: True}}},
                                },
                                "map": {"type": "object", "additionalProperties": {"type": "object", PRESERVE: True}},
                            },
                        }
                    }
                )
            ]
        },
    ),
    "no schema at all": (
        {"version": "v1", "preserveUnknownFields": True},
        {"versions": [version(schema={"openAPIV3Schema": {"type": "object", PRESERVE: True}})]},
    ),
}


@pytest.mark.parametrize(("spec", "wanted"), MANIFESTS.values(), ids=MANIFESTS)
def test_manifest(spec: dict[str, Any], wanted: dict[str, Any]) -> None:
    made = to_v1(crd(**spec))
    assert made["apiVersion"] == "apiextensions.k8s.io/v1"
    names = crd()["spec"]["names"]
    every = {"group": "example.com", "names": names, "scope": "Namespaced", "conversion": {"strategy": "None"}}
    assert made["spec"] == every | wanted
    assert validation.validate(made) == []


JUNK: tuple[Any, ...] = (
    None,
    5,
    {"kind": "CustomResourceDefinition"},
    crd() | {"apiVersion": "apiextensions.k8s.io/v1"},
    crd() | {"kind": "ConversionReview"},
)


@pytest.mark.parametrize("other", JUNK)
def test_others_stay_as_they_are(other: Any) -> None:
    assert to_v1(other) is other


WRONG: tuple[Any, ...] = (
    crd() | {"spec": 5},
    crd(versions=5),
    crd(versions=[5]),
    crd(versions=[version()], validation=5, preserveUnknownFields=True),
    crd(versions=[version()], validation={"openAPIV3Schema": 5}, preserveUnknownFields=True),
    crd(version="v1", additionalPrinterColumns=[5], conversion=5),
)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_form_is_told_of(wrong: Any) -> None:
    assert validation.validate(to_v1(wrong)) != []
