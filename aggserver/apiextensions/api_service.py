"""APIServices, by which the cluster's aggregator sends requests for a group-version to this server, and who owns one. Pure.

Source: k8s.io/kube-aggregator pkg/controllers/autoregister, pkg/apis/apiregistration/validation, v0.36.3.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aggserver.meta.json_types import JSONObject

__all__ = [
    "ADOPTED",
    "ADOPTION",
    "API_SERVICES",
    "AUTO_MANAGED_LABEL",
    "FIRST_VERSION_PRIORITY",
    "GROUP_PRIORITY",
    "MANAGED_BY",
    "MANAGED_BY_LABEL",
    "Service",
    "api_service",
    "ownership",
]

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "aggserver"

# The value of that label on APIServices of adopted group-versions, which package `adoption` manages.
ADOPTION = "aggserver-adoption"

AUTO_MANAGED_LABEL = "kube-aggregator.kubernetes.io/automanaged"

# The result of `ownership` for those, which is not reported.
ADOPTED = "that of an adopted group-version"

# The same as kube-apiserver gives to groups of CRDs, so that ours sort among them in discovery.
GROUP_PRIORITY = 1000

# The priority of the preferred version of a group; further versions count down from it. CRDs have 100 too; the minimum is 1.
FIRST_VERSION_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class Service:
    """The Service in front of this server, as APIServices name it."""

    namespace: str
    name: str
    port: int = 443


def api_service(group: str, version: str, priority: int, service: Service, ca_bundle: bytes) -> JSONObject:
    """The desired APIService. ca_bundle: PEM."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}", "labels": {MANAGED_BY_LABEL: MANAGED_BY}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": GROUP_PRIORITY,
            "versionPriority": priority,
            "service": {"namespace": service.namespace, "name": service.name, "port": service.port},
            "caBundle": base64.b64encode(ca_bundle).decode(),
        },
    }


def ownership(found: Mapping[str, Any], service: Service) -> str:
    """'' if this server owns the APIService; otherwise the owner, to complete the sentence "it is ..."."""
    labels = found["metadata"].get("labels") or {}
    target = found["spec"].get("service")
    if labels.get(MANAGED_BY_LABEL) == ADOPTION:
        return ADOPTED
    if labels.get(AUTO_MANAGED_LABEL) == "true":
        return "kube-apiserver's own, for a CustomResourceDefinition of the cluster"
    # This includes built-in groups, whose label is `onstart`.
    if target is None or labels.get(AUTO_MANAGED_LABEL):
        return "served by kube-apiserver itself"
    if (target.get("namespace"), target.get("name")) != (service.namespace, service.name):
        return f"served by the Service {target.get('namespace')}/{target.get('name')}"
    if labels.get(MANAGED_BY_LABEL) != MANAGED_BY:
        return f"made by hand: it names this server but has no label {MANAGED_BY_LABEL}={MANAGED_BY}"
    return ""
