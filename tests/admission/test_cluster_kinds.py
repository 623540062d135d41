from __future__ import annotations

import pytest

from aggserver.admission.cluster_kinds import KEEP_SECONDS, ClusterKinds
from aggserver.cluster import Unreachable
from aggserver.meta.resource import ResourceInfo
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster, status

APPS = {
    "resources": [
        {"name": "deployments", "kind": "Deployment", "namespaced": True},
        {"name": "deployments/scale", "kind": "Scale", "namespaced": True},
        {"name": "deployments/status", "kind": "Deployment", "namespaced": True},
    ]
}


async def test_found_and_remembered() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    cluster.on("GET", "/apis/apps/v1", lambda _: APPS)
    kinds = ClusterKinds(cluster, clock)
    for _ in range(2):
        assert await kinds.find("apps/v1", "Deployment") == [
            ResourceInfo("apps", "v1", "deployments", "Deployment", "", namespaced=True)
        ]
    assert len(cluster.calls) == 1
    clock.advance(KEEP_SECONDS)
    await kinds.find("apps/v1", "Deployment")
    assert len(cluster.calls) == 2


@pytest.mark.parametrize(
    ("api_version", "failure", "text"),
    [
        ("apps/v1", None, 'no matches for kind "Ghost" in version "apps/v1"'),
        ("v1", status(404, "NotFound", "no"), 'no matches for kind "Ghost" in version "v1"'),
        ("v1", Unreachable("connection refused"), "connection refused"),
    ],
)
async def test_not_found(api_version: str, failure: Exception | None, text: str) -> None:
    cluster = FakeCluster()
    cluster.on("GET", "/apis/apps/v1", lambda _: APPS)
    if failure is not None:
        cluster.fail("GET", "/api/v1", failure)
    with pytest.raises(LookupError, match=f"^{text}$"):
        await ClusterKinds(cluster).find(api_version, "Ghost")
