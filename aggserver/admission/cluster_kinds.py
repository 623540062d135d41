"""ClusterKinds: the resources that have objects of a kind, by the hosting cluster's discovery.

Source: k8s.io/client-go restmapper/discovery.go (DeferredDiscoveryRESTMapper), v0.36.3; upstream asks every 30 seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from aggserver.admission.followed import group_path
from aggserver.cluster import Cluster, ClusterError, Unreachable, find
from aggserver.cluster.answers import Answers
from aggserver.meta.resource import ResourceInfo
from aggserver.meta.versions import parse_group_version

__all__ = ["ClusterKinds", "discovered", "resources_of_kind"]

KEEP_SECONDS = 30.0
# Groups and versions, of which clusters have some hundred.
MAX_VERSIONS = 1000


class ClusterKinds:
    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._documents: Answers[str, Mapping[str, Any]] = Answers(MAX_VERSIONS, clock)

    async def find(self, api_version: str, kind: str) -> list[ResourceInfo]:
        """The resources of a kind. Raises LookupError, with upstream's text, if there are none or discovery fails."""

        async def ask() -> tuple[Mapping[str, Any], float]:
            return await discovered(self._cluster, api_version), KEEP_SECONDS

        try:
            found = resources_of_kind(await self._documents.ask(api_version, ask), api_version, kind)
        except (ClusterError, Unreachable) as error:
            raise LookupError(str(error)) from error
        if not found:
            raise LookupError(f'no matches for kind "{kind}" in version "{api_version}"')
        return found


async def discovered(cluster: Cluster, api_version: str) -> Mapping[str, Any]:
    """The discovery document of a version; without resources if the cluster does not serve it. Raises as Cluster.request."""
    document = await find(cluster, group_path(*parse_group_version(api_version)))
    return {"resources": []} if document is None else document


def resources_of_kind(document: Mapping[str, Any], api_version: str, kind: str) -> list[ResourceInfo]:
    """The resources of a discovery document that have objects of the kind, without subresources."""
    group, version = parse_group_version(api_version)
    return [
        ResourceInfo(group, version, entry["name"], kind, "", entry["namespaced"])
        for entry in document["resources"]
        if entry["kind"] == kind and "/" not in entry["name"]
    ]
