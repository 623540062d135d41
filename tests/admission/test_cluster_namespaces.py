from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.cluster_namespaces import ClusterNamespaces
from aggserver.admission.sources import Collection
from aggserver.cluster import Unreachable
from aggserver.meta.errors import StatusError
from tests.fakes.cluster import FakeCluster, status

PATH = "/api/v1/namespaces"


def namespace(name: str, phase: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, **({"status": {"phase": phase}} if phase else {})}


async def test_what_is_known_is_not_asked_for() -> None:
    cluster, known = FakeCluster(), Collection()
    for one in (namespace("a", "Active"), namespace("b", "Terminating"), namespace("c")):
        known.put(one)
    namespaces = ClusterNamespaces(cluster, known)
    assert [await namespaces.phase(name) for name in "abc"] == ["Active", "Terminating", "Active"]
    known.put(namespace("a", "Terminating"))
    assert await namespaces.phase("a") == "Terminating"
    assert await namespaces.get("c") == namespace("c")
    assert cluster.calls == []


async def test_one_that_is_new_is_asked_for() -> None:
    """A namespace can be used immediately after its creation, before the watch delivers it."""
    cluster = FakeCluster()
    cluster.objects[PATH] = {"new": namespace("new", "Active")}
    namespaces = ClusterNamespaces(cluster, Collection())
    assert await namespaces.phase("new") == "Active"
    assert await namespaces.phase("none") is None
    assert cluster.calls == [("GET", f"{PATH}/new"), ("GET", f"{PATH}/none")]


LIVE: dict[str, tuple[Exception, int, str]] = {
    "refused": (
        status(403, "Forbidden", "no"),
        500,
        "Internal error occurred: namespace new could not be looked up: 403 Forbidden: no",
    ),
    "unreachable": (Unreachable("time-out"), 503, "namespace new could not be looked up: time-out"),
}


@pytest.mark.parametrize("case", LIVE)
async def test_a_look_that_fails(case: str) -> None:
    failure, code, message = LIVE[case]
    cluster = FakeCluster()
    cluster.fail("GET", f"{PATH}/new", failure)
    with pytest.raises(StatusError) as refusal:
        await ClusterNamespaces(cluster, Collection()).phase("new")
    assert (refusal.value.code, refusal.value.message) == (code, message)
