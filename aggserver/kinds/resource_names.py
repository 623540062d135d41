"""Names of resources that are limited: which are standard, and which go with a scope of a ResourceQuota.

Pure. Source: k8s.io/kubernetes pkg/apis/core/helper/helpers.go, pkg/apis/core/validation/validation.go, v1.36.3, also for error
texts.
"""

from __future__ import annotations

from collections.abc import Iterator

from aggserver.kinds.resources import is_huge_pages
from aggserver.meta.field import FieldError, Path, invalid
from aggserver.meta.names import qualified_name

__all__ = [
    "INTEGERS",
    "SCOPES",
    "container_resource_problems",
    "goes_with_scope",
    "is_extended",
    "is_native",
    "is_standard_quota",
    "may_overcommit",
    "quota_resource_problems",
    "resource_problems",
]

_REQUESTS = "requests."
_IN_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
# Resources that are counted.
INTEGERS = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_IN_QUOTAS = INTEGERS | _IN_CONTAINERS | {f"{which}.{name}" for which in ("requests", "limits") for name in _IN_CONTAINERS}
_IN_QUOTAS |= {"requests.storage"}
_STANDARD = _IN_QUOTAS | {"storage"}
_OF_PODS = frozenset({"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
_OF_SCOPES = {
    "BestEffort": frozenset({"pods"}),
    "CrossNamespacePodAffinity": _OF_PODS,
    "NotBestEffort": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "Terminating": _OF_PODS,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
SCOPES = frozenset(_OF_SCOPES)


def is_native(name: str) -> bool:
    """Whether the name is Kubernetes' own: without a domain, or in kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether it is a resource of others, such as nvidia.com/gpu."""
    return not is_native(name) and not name.startswith(_REQUESTS) and not qualified_name(_REQUESTS + name)


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)


def is_standard_quota(name: str) -> bool:
    return name in _IN_QUOTAS or _is_huge_pages_quota(name)


def _is_huge_pages_quota(name: str) -> bool:
    return is_huge_pages(name) or name.startswith("requests.hugepages-")


def goes_with_scope(name: str, scope: str) -> bool:
    """Whether a quota with the scope may limit a standard resource. Any may with a scope that does not exist."""
    of_scope = _OF_SCOPES.get(scope)
    return of_scope is None or name in of_scope


def resource_problems(name: str, path: Path) -> Iterator[FieldError]:
    problems = qualified_name(name)
    yield from (invalid(path, name, text) for text in problems)
    if not problems and "/" not in name and name not in _STANDARD and not _is_huge_pages_quota(name):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def container_resource_problems(name: str, path: Path) -> Iterator[FieldError]:
    yield from resource_problems(name, path)
    if "/" not in name:
        if name not in _IN_CONTAINERS and not is_huge_pages(name):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def quota_resource_problems(name: str, path: Path) -> Iterator[FieldError]:
    yield from resource_problems(name, path)
    if "/" not in name and not is_standard_quota(name):
        yield invalid(path, name, "must be a standard resource for quota")
