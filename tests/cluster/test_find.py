"""Reading what need not be there."""

from __future__ import annotations

import pytest

from aggserver.cluster import ClusterError, find
from tests.fakes.cluster import FakeCluster, status

COLLECTION = "/api/v1/namespaces/ns/configmaps"


async def test_find() -> None:
    cluster = FakeCluster()
    assert await find(cluster, f"{COLLECTION}/a") is None
    made = await cluster.request("POST", COLLECTION, body={"metadata": {"name": "a"}})
    assert await find(cluster, f"{COLLECTION}/a") == made
    cluster.fail("GET", f"{COLLECTION}/a", status(403, "Forbidden"))
    with pytest.raises(ClusterError, match="403"):
        await find(cluster, f"{COLLECTION}/a")
