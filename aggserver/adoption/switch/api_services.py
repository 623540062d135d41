"""APIServices of adopted group-versions: who owns each, and how it becomes this server's. Pure.

kube-apiserver's autoregister controller makes a local APIService for every group-version of its CRDs, and goes on to correct all
that have the label `kube-aggregator.kubernetes.io/automanaged`. Without the label it leaves an APIService alone, so that it can
name this server's Service. Once such an APIService is deleted, the controller makes a local one again.
Source: k8s.io/kube-aggregator pkg/controllers/autoregister, kubernetes pkg/controlplane/controller/crdregistration, v0.36.3.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from aggserver.apiextensions.api_service import (
    ADOPTION,
    AUTO_MANAGED_LABEL,
    FIRST_VERSION_PRIORITY,
    GROUP_PRIORITY,
    MANAGED_BY_LABEL,
    Service,
)
from aggserver.meta.json_types import JSONObject

__all__ = ["INSTALLATION", "OurService", "Owner", "deletion", "name_of", "owner", "to_us"]

# The annotation with the id of the installation that adopted the group-version.
INSTALLATION = "aggserver.io/installation"


_KIND: JSONObject = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}


class Owner(StrEnum):
    """The owner of an APIService. HOST: kube-apiserver; may be taken. OURS: this installation. OTHER: must be left alone."""

    HOST = "Host"
    OURS = "Ours"
    OTHER = "Other"


@dataclass(frozen=True, slots=True)
class OurService:
    """What an APIService of this server refers to. installation: the id of this installation. ca_bundle: PEM."""

    service: Service
    installation: str
    ca_bundle: bytes


def name_of(group_version: tuple[str, str]) -> str:
    """The name of the APIService of (group, version)."""
    group, version = group_version
    return f"{version}.{group}"


def owner(found: Mapping[str, Any], target: OurService) -> tuple[Owner, str]:
    """The owner of an APIService; for OTHER, also words that complete "it is ..."."""
    labels = found["metadata"].get("labels") or {}
    auto_managed = labels.get(AUTO_MANAGED_LABEL)
    if auto_managed == "true":
        # Even if it refers to a Service: kube-apiserver is about to correct that.
        return Owner.HOST, ""
    service = found["spec"].get("service")
    if auto_managed:
        return Owner.OTHER, "of a group that is built into kube-apiserver"
    if service is None:
        return Owner.OTHER, f"served by kube-apiserver, but somebody has removed its label {AUTO_MANAGED_LABEL}"
    if (service.get("namespace"), service.get("name")) != (target.service.namespace, target.service.name):
        return Owner.OTHER, f"served by the Service {service.get('namespace')}/{service.get('name')}"
    if labels.get(MANAGED_BY_LABEL) != ADOPTION:
        return Owner.OTHER, f"served by this server, but not adopted: it has no label {MANAGED_BY_LABEL}={ADOPTION}"
    installation = (found["metadata"].get("annotations") or {}).get(INSTALLATION, "")
    if installation != target.installation:
        return Owner.OTHER, f"adopted by the installation {installation!r}, and this one is {target.installation!r}"
    return Owner.OURS, ""


def to_us(found: Mapping[str, Any] | None, group_version: tuple[str, str], target: OurService) -> JSONObject:
    """The APIService that sends the group-version's requests to this server. found: the present one, None if there is none."""
    group, version = group_version
    metadata: Mapping[str, Any] = found["metadata"] if found is not None else {"name": name_of(group_version)}
    spec = found["spec"] if found is not None else {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != AUTO_MANAGED_LABEL}
    service = target.service
    return {
        **(found or _KIND),
        "metadata": {
            **metadata,
            "labels": labels | {MANAGED_BY_LABEL: ADOPTION},
            "annotations": {**(metadata.get("annotations") or {}), INSTALLATION: target.installation},
        },
        "spec": {
            "group": group,
            "version": version,
            # Keep kube-apiserver's values, so that the order of groups and versions in discovery stays the same.
            "groupPriorityMinimum": spec.get("groupPriorityMinimum", GROUP_PRIORITY),
            "versionPriority": spec.get("versionPriority", FIRST_VERSION_PRIORITY),
            "service": {"namespace": service.namespace, "name": service.name, "port": service.port},
            "caBundle": base64.b64encode(target.ca_bundle).decode(),
        },
    }


def deletion(found: Mapping[str, Any]) -> JSONObject:
    """The body of the request that deletes the APIService if nobody has changed it: kube-apiserver then makes its own.

    It is not changed to a local one: the aggregator would go on asking this server about discovery.
    """
    metadata = found["metadata"]
    preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
