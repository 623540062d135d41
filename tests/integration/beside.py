"""What leads kube-apiserver to a server of another project, on this machine, whose answers are compared with ours."""

from __future__ import annotations

from typing import Any

__all__ = ["api_service", "service"]


def service(name: str, namespace: str, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }


def api_service(version: str, group: str, service: dict[str, Any], group_priority: int, version_priority: int) -> dict[str, Any]:
    metadata, (port,) = service["metadata"], service["spec"]["ports"]
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group,
            "version": version,
            "service": {**metadata, **port},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": group_priority,
            "versionPriority": version_priority,
        },
    }
