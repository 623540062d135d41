"""What discovery says; the wanted documents are those of kube-apiserver v1.36.3."""

from __future__ import annotations

import json
from typing import Any

from aggserver.meta.resource import ResourceInfo
from aggserver.publish import discovery
from aggserver.publish.discovery import APIGroup, APIGroupVersion, APIResource, APISubresource

VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]

ITCHES = APIResource(
    ResourceInfo("stable.example.com", "v1", "itches", "Itch", "ItchList", namespaced=False),
    discovery.CUSTOM_RESOURCE_VERBS,
    singular="itch",
    storage_version_hash=discovery.storage_version_hash("stable.example.com", "v1", "Itch"),
)
CRONTABS = APIResource(
    ResourceInfo("stable.example.com", "v1", "crontabs", "CronTab", "CronTabList", namespaced=True),
    discovery.CUSTOM_RESOURCE_VERBS,
    singular="crontab",
    short_names=("ct",),
    categories=("all",),
    storage_version_hash=discovery.storage_version_hash("stable.example.com", "v1", "CronTab"),
    subresources=(
        APISubresource("status", "CronTab", discovery.SUBRESOURCE_VERBS),
        APISubresource("scale", "Scale", discovery.SUBRESOURCE_VERBS, "autoscaling", "v1"),
    ),
)
V1 = APIGroupVersion("stable.example.com", "v1", (CRONTABS, ITCHES))
STABLE = APIGroup("stable.example.com", (V1, APIGroupVersion("stable.example.com", "v1beta1", (ITCHES,))))
NAMESPACES = APIResource(
    ResourceInfo("", "v1", "namespaces", "Namespace", "NamespaceList", namespaced=False), ("get",), singular="namespace"
)
CORE = APIGroup("", (APIGroupVersion("", "v1", (NAMESPACES,)),))

GROUP = {
    "name": "stable.example.com",
    "versions": [
        {"groupVersion": "stable.example.com/v1", "version": "v1"},
        {"groupVersion": "stable.example.com/v1beta1", "version": "v1beta1"},
    ],
    "preferredVersion": {"groupVersion": "stable.example.com/v1", "version": "v1"},
}


def plain(tree: Any) -> Any:
    return json.loads(json.dumps(tree))


def test_api_versions() -> None:
    assert discovery.api_versions([CORE, STABLE]) == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    }


def test_groups() -> None:
    assert discovery.api_group_list([CORE, STABLE]) == {"kind": "APIGroupList", "apiVersion": "v1", "groups": [GROUP]}
    assert discovery.api_group(STABLE) == {"kind": "APIGroup", "apiVersion": "v1", **GROUP}


def test_resource_list() -> None:
    found = discovery.api_resource_list(V1)
    assert plain(found) == {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "stable.example.com/v1",
        "resources": [
            {
                "name": "crontabs",
                "singularName": "crontab",
                "namespaced": True,
                "kind": "CronTab",
                "verbs": VERBS,
                "shortNames": ["ct"],
                "categories": ["all"],
                "storageVersionHash": "EdX2FP+L0js=",
            },
            {
                "name": "crontabs/status",
                "singularName": "",
                "namespaced": True,
                "kind": "CronTab",
                "verbs": ["get", "patch", "update"],
            },
            {
                "name": "crontabs/scale",
                "singularName": "",
                "namespaced": True,
                "group": "autoscaling",
                "version": "v1",
                "kind": "Scale",
                "verbs": ["get", "patch", "update"],
            },
            {
                "name": "itches",
                "singularName": "itch",
                "namespaced": False,
                "kind": "Itch",
                "verbs": VERBS,
                "storageVersionHash": "OJOLh2QiPgE=",
            },
        ],
    }
    assert list(found["resources"][2]) == ["name", "singularName", "namespaced", "group", "version", "kind", "verbs"]


def test_core_resource_list_has_no_api_version() -> None:
    found = discovery.api_resource_list(CORE.versions[0])
    assert "apiVersion" not in found
    assert found["groupVersion"] == "v1"


def test_aggregated() -> None:
    found = plain(discovery.api_group_discovery_list([CORE, STABLE], core=False))
    gvk = {"group": "stable.example.com", "version": "v1"}
    assert (found["kind"], found["apiVersion"], found["metadata"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2", {})
    [group] = found["items"]
    assert group["metadata"] == {"name": "stable.example.com"}
    assert [(version["version"], version["freshness"]) for version in group["versions"]] == [
        ("v1", "Current"),
        ("v1beta1", "Current"),
    ]
    assert group["versions"][0]["resources"] == [
        {
            "resource": "crontabs",
            "responseKind": {**gvk, "kind": "CronTab"},
            "scope": "Namespaced",
            "singularResource": "crontab",
            "verbs": VERBS,
            "shortNames": ["ct"],
            "categories": ["all"],
            "subresources": [
                {"subresource": "status", "responseKind": {**gvk, "kind": "CronTab"}, "verbs": ["get", "patch", "update"]},
                {
                    "subresource": "scale",
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                    "verbs": ["get", "patch", "update"],
                },
            ],
        },
        {
            "resource": "itches",
            "responseKind": {**gvk, "kind": "Itch"},
            "scope": "Cluster",
            "singularResource": "itch",
            "verbs": VERBS,
        },
    ]


def test_aggregated_core_has_no_name() -> None:
    [group] = discovery.api_group_discovery_list([CORE, STABLE], core=True)["items"]
    assert group["metadata"] == {}
    assert group["versions"][0]["resources"][0]["responseKind"] == {"group": "", "version": "v1", "kind": "Namespace"}


def test_resources_are_sorted_in_the_aggregated_form_only() -> None:
    version = APIGroupVersion("g.example.com", "v1", (ITCHES, CRONTABS))
    group = APIGroup("g.example.com", (version,))
    aggregated = discovery.api_group_discovery_list([group], core=False)["items"][0]["versions"][0]["resources"]
    assert [resource["resource"] for resource in aggregated] == ["crontabs", "itches"]
    assert discovery.api_resource_list(version)["resources"][0]["name"] == "itches"
