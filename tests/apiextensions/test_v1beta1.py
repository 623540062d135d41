from __future__ import annotations

from typing import Any

import pytest

from aggserver.apiextensions.v1beta1 import StoredDefinitions

SCHEMA = {"openAPIV3Schema": {"type": "object"}}
CLIENT = {"url": "https://example.com/convert"}


def version(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "served": True, "storage": name == "v1", **more}


CASES = {
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
    "one version, in its old place": ({"version": "v1", "validation": SCHEMA}, {"versions": [version("v1", schema=SCHEMA)]}),
    "unknown fields were kept": (
        {"version": "v1", "versions": [version("v1")], "preserveUnknownFields": True},
        {"versions": [version("v1")], "preserveUnknownFields": True},
    ),
    "a webhook": (
        {
            "versions": [version("v1")],
            "conversion": {"strategy": "Webhook", "webhookClientConfig": CLIENT, "conversionReviewVersions": ["v1"]},
        },
        {
            "versions": [version("v1")],
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": CLIENT, "conversionReviewVersions": ["v1"]}},
        },
    ),
}


@pytest.mark.parametrize(("stored", "expected"), CASES.values(), ids=CASES)
async def test_to_v1(stored: dict[str, Any], expected: dict[str, Any]) -> None:
    obj = {"apiVersion": "apiextensions.k8s.io/v1beta1", "metadata": {"name": "a"}, "spec": stored}
    (converted,) = await StoredDefinitions().convert([obj], "apiextensions.k8s.io/v1")
    assert converted == {"apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "a"}, "spec": expected}
