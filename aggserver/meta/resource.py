"""ResourceInfo: the names of a resource in one of its versions.

Everything that names a resource is derived from it: the scope that handlers see, the attributes that admission sees, the
strategy, the paths and the errors. Pure.
Source: k8s.io/apimachinery pkg/runtime/schema/group_version.go (GroupVersionResource, GroupVersionKind), v0.36.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from aggserver.meta.versions import api_version

__all__ = ["ResourceInfo"]


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """group: '' for the core group. resource: the plural name. list_kind: '' if it can't be listed."""

    group: str
    version: str
    resource: str
    kind: str
    list_kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return api_version(self.group, self.version)
