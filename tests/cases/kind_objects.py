"""Objects of the built-in kinds, as they are sent (kinds/given.yaml), and as kube-apiserver returns them (kinds/created.yaml).

Also objects with a status (kinds/shown.yaml), and their rows in tables (kinds/tables.yaml); and objects of which it warns
(kinds/warned.yaml, kinds/warnings.yaml), and others with members that it checks (kinds/checked.yaml).

Read by tests/kinds, and by tests/integration, which ask kube-apiserver.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

__all__ = [
    "CREATED",
    "NOW",
    "TABLES",
    "WARNINGS",
    "api_version",
    "checked",
    "created",
    "given",
    "is_namespaced",
    "shown",
    "tables",
    "warned",
    "warnings",
    "without_ages",
]

_FOLDER = Path(__file__).with_name("kinds")
CREATED = _FOLDER / "created.yaml"
TABLES = _FOLDER / "tables.yaml"
WARNINGS = _FOLDER / "warnings.yaml"
# In place of the time at which an object was created.
NOW = "2000-01-01T00:00:00Z"

# Of the packages of Go types that do not have the name of their group.
_SUFFIXES = {
    **dict.fromkeys(
        ("certificates", "coordination", "discovery", "events", "networking", "node", "resource", "scheduling", "storage"),
        ".k8s.io",
    ),
    "apiregistration": ".k8s.io",
    "flowcontrol": ".apiserver.k8s.io",
    "rbac": ".authorization.k8s.io",
}
_LONG_AGO = re.compile(r"\b\d+y(\d+d)?|\b\d{3,}d\b")
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
        *("DeviceClass", "APIService", "FlowSchema", "PriorityLevelConfiguration", "IPAddress", "ServiceCIDR"),
        "VolumeAttributesClass",
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
    return _whole("given.yaml")


def shown() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The same of objects that are shown in tables. Those that are being deleted have a member `deleted`."""
    return _whole("shown.yaml")


def warned() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The same of objects of which kube-apiserver warns."""
    return _whole("warned.yaml")


def warnings() -> dict[str, dict[str, list[str]]]:
    """What it warns of, by type and name."""
    found: dict[str, dict[str, list[str]]] = _read("warnings.yaml")
    return found


def checked() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The same of more objects whose members are checked."""
    return _whole("checked.yaml")


def _whole(file: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for type_name, objects in _read(file).items():
        place = {"namespace": "default"} if is_namespaced(type_name) else {}
        for name, obj in objects.items():
            head = {"apiVersion": api_version(type_name), "kind": type_name.partition(".")[2]}
            metadata = {"name": name, **place, **obj.get("metadata", {})}
            yield type_name, name, copy.deepcopy({**head, **obj, "metadata": metadata})


def created() -> dict[tuple[str, str], dict[str, Any]]:
    """The answers, by type and name."""
    answers = _read("created.yaml")
    return {(type_name, name): answer for type_name, objects in answers.items() for name, answer in objects.items()}


def tables() -> dict[str, Any]:
    """By type: columns (name, type, format, priority), and the cells and conditions of rows by name."""
    found: dict[str, Any] = _read("tables.yaml")
    return found


def without_ages(cells: list[Any], columns: list[list[Any]]) -> list[Any]:
    """Cells of a row without what differs from request to request: ages since the creation, or since 2024 or earlier."""
    return [
        "AGE" if name in ("Age", "Created At") else _LONG_AGO.sub("AGE", cell) if isinstance(cell, str) else cell
        for cell, (name, *_) in zip(cells, columns, strict=True)
    ]


def _read(name: str) -> Any:
    return yaml.load((_FOLDER / name).read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
