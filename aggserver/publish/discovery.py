"""Discovery: the documents that list groups, versions and resources.

There are two forms: the old one, a document for each group and version, and the aggregated one, a single document. The fields,
their order and their omission are Go's, so that clients see no difference from kube-apiserver; the order of entries is the
caller's, and determines the preferred version.
Pure. Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_discovery_controller.go, k8s.io/apiserver
pkg/endpoints/discovery, v0.36.3.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo

__all__ = [
    "BUILT_IN_VERBS",
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

# In upstream's order, which `kubectl api-resources -o wide` shows.
CUSTOM_RESOURCE_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
# The verbs of upstream's built-in kinds, in the order of discovery.
BUILT_IN_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
# While a definition is terminating, discovery lists only these verbs, as in upstream. Updates still work, because finalizers
# could not be removed otherwise.
TERMINATING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
# The verbs of /status and /scale.
SUBRESOURCE_VERBS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class APISubresource:
    """A subresource. name: without the resource's name. group, version: of its kind, if they differ from the resource's, as for
    Scale.
    """

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class APIResource:
    """One resource of a version. storage_version_hash: empty if the storage version is not known."""

    info: ResourceInfo
    verbs: tuple[str, ...]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version_hash: str = ""
    subresources: tuple[APISubresource, ...] = ()


@dataclass(frozen=True, slots=True)
class APIGroupVersion:
    """A version of a group with its resources. group: empty for the core group."""

    group: str
    version: str
    resources: tuple[APIResource, ...]

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class APIGroup:
    """A group. versions: in order of preference, never empty."""

    name: str
    versions: tuple[APIGroupVersion, ...]


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """A hash of the storage version, the same for all served versions. Clients notice by it that the storage version changed."""
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def api_versions(groups: Sequence[APIGroup]) -> JSONObject:
    """APIVersions, the answer of /api: the versions of the core group."""
    return {
        "kind": "APIVersions",
        "versions": [version.version for group in groups if not group.name for version in group.versions],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
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
        # What has subresources alone, such as the pods of custom metrics, is no resource of this group.
        if resource.verbs:
            resources.append(_resource(resource))
        resources.extend(_subresource(resource, subresource) for subresource in resource.subresources)
    # The core group's list has no apiVersion, for clients of version 1.1.
    api_version = {"apiVersion": "v1"} if version.group else {}
    return {"kind": "APIResourceList", **api_version, "groupVersion": version.group_version, "resources": resources}


def _resource(resource: APIResource) -> JSONObject:
    out: JSONObject = {
        "name": resource.info.resource,
        "singularName": resource.singular,
        "namespaced": resource.info.namespaced,
        "kind": resource.info.kind,
        "verbs": resource.verbs,
    }
    _add_names(resource, out)
    if resource.storage_version_hash:
        out["storageVersionHash"] = resource.storage_version_hash
    return out


def _subresource(resource: APIResource, subresource: APISubresource) -> JSONObject:
    out: JSONObject = {
        "name": f"{resource.info.resource}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.info.namespaced,
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
                    _resource_discovery(version, resource)
                    for resource in sorted(version.resources, key=lambda item: item.info.resource)
                ],
                "freshness": "Current",
            }
            for version in group.versions
        ],
    }


def _resource_discovery(version: APIGroupVersion, resource: APIResource) -> JSONObject:
    out: JSONObject = {
        "resource": resource.info.resource,
        # client-go before 0.26.4 panics if `responseKind` is missing.
        "responseKind": {"group": version.group, "version": version.version, "kind": resource.info.kind},
        "scope": "Namespaced" if resource.info.namespaced else "Cluster",
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
