"""Discovery: which groups, versions and resources there are, as clients ask for it.

Two forms of the same knowledge: the old one, a document for each group and version, and the aggregated one, all in one document.
Field sets, order of fields and what is left out are Go's, so that a client can't tell the difference; order of the entries is the
caller's, and says which version is preferred.
Pure. Called by `endpoints/discovery.py`; the installer fills the dataclasses. Source: k8s.io/apiextensions-apiserver
pkg/apiserver/customresource_discovery_controller.go, k8s.io/apiserver pkg/endpoints/discovery, v0.36.3.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from aggserver.meta.json_types import JSONObject

__all__ = [
    "CUSTOM_RESOURCE_VERBS",
    "SUBRESOURCE_VERBS",
    "TERMINATING_VERBS",
    "APIGroup",
    "APIGroupVersion",
    "APIResource",
    "APISubresource",
    "api_group",
    "api_group_discovery_list",
    "api_group_list",
    "api_resource_list",
    "api_versions",
    "storage_version_hash",
]

# In upstream's order, which is the one that `kubectl api-resources -o wide` shows.
CUSTOM_RESOURCE_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
# While the definition goes away its objects are to be looked at and removed. Nothing is created then, as upstream; what is
# there can still be changed, which is not listed, because finalizers could not be taken off else.
TERMINATING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
# Of /status and /scale.
SUBRESOURCE_VERBS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class APISubresource:
    """`name` without the resource's. Group and version are its kind's, where they aren't the resource's (a Scale's aren't)."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class APIResource:
    """One resource of a version. `storage_version_hash` is empty where what is stored is not known."""

    name: str
    singular: str
    namespaced: bool
    kind: str
    list_kind: str
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version_hash: str = ""
    subresources: tuple[APISubresource, ...] = ()


@dataclass(frozen=True, slots=True)
class APIGroupVersion:
    """`group` is empty for the core group. `stale`: what is known of it is not current."""

    group: str
    version: str
    resources: tuple[APIResource, ...]
    stale: bool = False

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class APIGroup:
    """Versions in the order of preference, never empty."""

    name: str
    versions: tuple[APIGroupVersion, ...]


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """Tells clients that storage has changed; of the version that is stored, whichever is served."""
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def api_versions(groups: Sequence[APIGroup], server_address: str = "") -> JSONObject:
    """APIVersions, the answer of /api: the versions of the core group. `server_address` is host and port, or empty."""
    return {
        "kind": "APIVersions",
        "versions": [version.version for group in groups if not group.name for version in group.versions],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def api_group_list(groups: Sequence[APIGroup]) -> JSONObject:
    """APIGroupList, the answer of /apis. The core group is not one of them."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group) for group in groups if group.name]}


def api_group(group: APIGroup) -> JSONObject:
    """APIGroup, the answer of /apis/<group>."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}


def _group(group: APIGroup) -> JSONObject:
    versions = [{"groupVersion": version.group_version, "version": version.version} for version in group.versions]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def api_resource_list(version: APIGroupVersion) -> JSONObject:
    """APIResourceList, the answer of /apis/<group>/<version> and /api/v1."""
    resources: list[JSONObject] = []
    for resource in version.resources:
        resources.append(_resource(resource))
        resources.extend(_subresource(resource, subresource) for subresource in resource.subresources)
    # The core group's list has no apiVersion, for the sake of clients of 1.1.
    api_version = {"apiVersion": "v1"} if version.group else {}
    return {"kind": "APIResourceList", **api_version, "groupVersion": version.group_version, "resources": resources}


def _resource(resource: APIResource) -> JSONObject:
    out: JSONObject = {
        "name": resource.name,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    }
    _add_names(resource, out)
    if resource.storage_version_hash:
        out["storageVersionHash"] = resource.storage_version_hash
    return out


def _subresource(resource: APIResource, subresource: APISubresource) -> JSONObject:
    out: JSONObject = {
        "name": f"{resource.name}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    if subresource.version:
        out["group"] = subresource.group
        out["version"] = subresource.version
    return {**out, "kind": subresource.kind, "verbs": subresource.verbs}


def _add_names(resource: APIResource, out: JSONObject) -> None:
    if resource.short_names:
        out["shortNames"] = resource.short_names
    if resource.categories:
        out["categories"] = resource.categories


def api_group_discovery_list(groups: Sequence[APIGroup], core: bool) -> JSONObject:
    """APIGroupDiscoveryList v2: everything at once. /api has the core group (`core`), /apis the others."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_group_discovery(group) for group in groups if (not group.name) == core],
    }


def _group_discovery(group: APIGroup) -> JSONObject:
    return {
        "metadata": {"name": group.name} if group.name else {},
        "versions": [
            {
                "version": version.version,
                "resources": [
                    _resource_discovery(version, resource) for resource in sorted(version.resources, key=lambda item: item.name)
                ],
                "freshness": "Stale" if version.stale else "Current",
            }
            for version in group.versions
        ],
    }


def _resource_discovery(version: APIGroupVersion, resource: APIResource) -> JSONObject:
    out: JSONObject = {
        "resource": resource.name,
        # Clients before 0.26.4 panic where it is missing.
        "responseKind": {"group": version.group, "version": version.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    }
    _add_names(resource, out)
    if resource.subresources:
        out["subresources"] = [_subresource_discovery(version, subresource) for subresource in resource.subresources]
    return out


def _subresource_discovery(version: APIGroupVersion, subresource: APISubresource) -> JSONObject:
    owner = subresource if subresource.version else version
    return {
        "subresource": subresource.name,
        "responseKind": {"group": owner.group, "version": owner.version, "kind": subresource.kind},
        "verbs": subresource.verbs,
    }
