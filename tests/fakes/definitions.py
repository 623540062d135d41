"""Definitions for tests, and their objects: CRONTABS has subresources and several versions, WIDGETS is cluster-scoped."""

from __future__ import annotations

import copy
from typing import Any

from aggserver.meta.json_types import JSONObject

GROUP = "stable.example.com"


def version(name: str, properties: JSONObject, **more: Any) -> JSONObject:
    schema = {"type": "object", "properties": properties}
    return {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}, **more}


def definition(plural: str, kind: str, *versions: JSONObject, scope: str = "Namespaced", **names: Any) -> JSONObject:
    """A CustomResourceDefinition as a client would send it. The first version is the storage version."""
    each = copy.deepcopy(list(versions))
    each[0]["storage"] = True
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List", **names},
            "versions": each,
        },
    }


_SPEC = {
    "type": "object",
    "properties": {
        "cronSpec": {"type": "string"},
        "image": {"type": "string"},
        "replicas": {"type": "integer"},
    },
}
_STATUS = {
    "type": "object",
    "properties": {"replicas": {"type": "integer"}, "labelSelector": {"type": "string"}, "note": {"type": "string"}},
}
_BOTH = {"spec": _SPEC, "status": _STATUS}
_SUBRESOURCES = {
    "status": {},
    "scale": {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.labelSelector",
    },
}

CRONTABS = definition(
    "crontabs",
    "CronTab",
    version(
        "v1",
        _BOTH,
        subresources=_SUBRESOURCES,
        additionalPrinterColumns=[
            {"name": "Spec", "type": "string", "jsonPath": ".spec.cronSpec"},
            {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
        ],
        selectableFields=[{"jsonPath": ".spec.image"}],
    ),
    version("v1beta1", {"spec": {**_SPEC, "properties": {"cronSpec": {"type": "string"}}}}, deprecated=True),
    version("v2alpha1", _BOTH, served=False),
    shortNames=["ct"],
)
"""Stored as v1, and also served as v1beta1, without image and replicas. v1 has subresources, columns and a selectable field."""

WIDGETS = definition(
    "widgets", "Widget", version("v1", {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}), scope="Cluster"
)
"""Cluster-scoped, without subresources."""

CRONTABS_PATH = f"/apis/{GROUP}/v1/namespaces/default/crontabs"
WIDGETS_PATH = f"/apis/{GROUP}/v1/widgets"


def crontab(name: str = "one", **spec: Any) -> JSONObject:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"cronSpec": "* * * * *", **spec},
    }


def widget(name: str = "one", **spec: Any) -> JSONObject:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1, **spec}}
