"""Objects of the built-in kinds, as they are sent (kinds/given.yaml), and as kube-apiserver returns them (kinds/created.yaml).

Read by tests/kinds, and by tests/integration, which ask kube-apiserver.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

__all__ = ["CREATED", "NOW", "api_version", "created", "given", "is_namespaced"]

_FOLDER = Path(__file__).with_name("kinds")
CREATED = _FOLDER / "created.yaml"
# In place of the time at which an object was created.
NOW = "2000-01-01T00:00:00Z"

# Of the packages of Go types that do not have the name of their group.
_SUFFIXES = {
    **dict.fromkeys(
        ("certificates", "coordination", "discovery", "events", "networking", "node", "resource", "scheduling", "storage"),
        ".k8s.io",
    ),
    "apiregistration": ".k8s.io",
    "rbac": ".authorization.k8s.io",
}
_CLUSTER = frozenset(
    {
        *(
            "Namespace",
            "Node",
            "PersistentVolume",
            "IngressClass",
            "PriorityClass",
            "StorageClass",
            "VolumeAttachment",
            "CSIDriver",
        ),
        *("CSINode", "RuntimeClass", "ClusterRole", "ClusterRoleBinding", "CertificateSigningRequest", "ResourceSlice"),
        *("DeviceClass", "APIService"),
    }
)


def api_version(type_name: str) -> str:
    """type_name: with its package, as in `core/v1.Pod`."""
    group, _, version = type_name.partition(".")[0].partition("/")
    return version if group == "core" else f"{group}{_SUFFIXES.get(group, '')}/{version}"


def is_namespaced(type_name: str) -> bool:
    return type_name.partition(".")[2] not in _CLUSTER


def given() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Type, name of the case, and the object with its apiVersion, kind, name and namespace."""
    for type_name, objects in _read("given.yaml").items():
        place = {"namespace": "default"} if is_namespaced(type_name) else {}
        for name, obj in objects.items():
            head = {"apiVersion": api_version(type_name), "kind": type_name.partition(".")[2]}
            metadata = {"name": name, **place, **obj.get("metadata", {})}
            yield type_name, name, copy.deepcopy({**head, **obj, "metadata": metadata})


def created() -> dict[tuple[str, str], dict[str, Any]]:
    """The answers, by type and name."""
    answers = _read("created.yaml")
    return {(type_name, name): answer for type_name, objects in answers.items() for name, answer in objects.items()}


def _read(name: str) -> Any:
    return yaml.load((_FOLDER / name).read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
