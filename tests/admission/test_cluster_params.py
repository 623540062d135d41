from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggserver.admission.cluster_params import RECHECK_SECONDS, SWEEP_SECONDS, ClusterParams
from aggserver.admission.sources import Collection
from tests.fakes.clock import settled, until
from tests.fakes.cluster import FakeCluster, status
from tests.waiting import HANG_SECONDS

GROUP = "/apis/rules.example.com/v1"
LIMITS = f"{GROUP}/limits"
KIND = ("rules.example.com/v1", "Limit")


def made(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **where}, **more}


def document(*, namespaced: bool = True) -> dict[str, Any]:
    names = ("limits/status", "limits", "others")
    return {
        "resources": [
            {"name": name, "kind": "Other" if name == "others" else "Limit", "namespaced": namespaced} for name in names
        ]
    }


class Pauses:
    """Sleeps of each length last until the test ends them."""

    def __init__(self) -> None:
        self._over: dict[float, asyncio.Event] = {}

    async def sleep(self, seconds: float) -> None:
        await self._over.setdefault(seconds, asyncio.Event()).wait()

    def end(self, seconds: float) -> None:
        self._over.pop(seconds).set()


@asynccontextmanager
async def running(
    cluster: FakeCluster, *policies: dict[str, Any], pauses: Pauses | None = None, wait_seconds: float = HANG_SECONDS
) -> AsyncIterator[tuple[ClusterParams, Collection]]:
    known = Collection()
    for policy in policies:
        known.put(policy)
    params = ClusterParams(cluster, [known], sleep=(pauses or Pauses()).sleep, wait_seconds=wait_seconds)
    task = asyncio.create_task(params.run())
    await settled()
    try:
        yield params, known
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_they_are_followed_from_the_first_request() -> None:
    cluster = FakeCluster()
    cluster.on("GET", GROUP, lambda _: document())
    await cluster.put(LIMITS, made("one", "team"))
    async with running(cluster) as (all_params, _):
        assert cluster.calls == []
        params = await all_params.find(*KIND)
        assert params is not None
        assert (params.is_known, params.namespaced) == (True, True)
        assert params.get("team", "one") == {**made("one", "team"), "metadata": {**params.within("team")["one"]["metadata"]}}
        await cluster.put(LIMITS, made("two", "team"))
        await until(lambda: params.get("team", "two"))
        assert await all_params.find(*KIND) is params
        assert cluster.calls == [("GET", GROUP), ("GET", LIMITS)]


async def test_cluster_scoped_ones() -> None:
    cluster = FakeCluster()
    cluster.on("GET", "/api/v1", lambda _: {"resources": [{"name": "namespaces", "kind": "Namespace", "namespaced": False}]})
    await cluster.put("/api/v1/namespaces", made("team"))
    async with running(cluster) as (all_params, _):
        params = await all_params.find("v1", "Namespace")
        assert params is not None
        assert not params.namespaced
        assert params.get("", "team")


@pytest.mark.parametrize("answer", [{"resources": []}, status(404, "NotFound", "no such version")], ids=["kind", "version"])
async def test_a_kind_that_is_not_served_yet(answer: Any) -> None:
    cluster, pauses = FakeCluster(), Pauses()
    answers = [answer]

    def discover(_: Any) -> dict[str, Any]:
        if isinstance(answers[-1], Exception):
            raise answers[-1]
        found: dict[str, Any] = answers[-1]
        return found

    cluster.on("GET", GROUP, discover)
    async with running(cluster, pauses=pauses) as (all_params, _):
        assert await all_params.find(*KIND) is None
        answers.append(document())
        await cluster.put(LIMITS, made("one", "team"))
        await settled()
        pauses.end(RECHECK_SECONDS)
        await settled()
        params = await all_params.find(*KIND)
        assert params is not None
        assert params.get("team", "one")


async def test_those_that_can_not_be_read() -> None:
    cluster = FakeCluster()
    cluster.on("GET", GROUP, lambda _: document())
    cluster.fail("GET", LIMITS, status(403, "Forbidden", "no"), times=1000)
    async with running(cluster, wait_seconds=0) as (all_params, _):
        params = await all_params.find(*KIND)
        assert params is not None
        assert not params.is_known
        await until(lambda: "403" in (all_params.warning() or ""))
        assert all_params.warning() == (
            "params of policies: Limit.rules.example.com: 403 Forbidden: no; grant this server's service account list and watch "
            "on the resource of kind Limit in API group 'rules.example.com', which a policy names as its paramKind"
        )


async def test_they_are_dropped_when_no_policy_names_them() -> None:
    cluster, pauses = FakeCluster(), Pauses()
    cluster.on("GET", GROUP, lambda _: document())
    policy = made("policy", spec={"paramKind": {"apiVersion": KIND[0], "kind": KIND[1]}})
    async with running(cluster, policy, made("without", spec={}), pauses=pauses) as (all_params, policies):
        first = await all_params.find(*KIND)
        pauses.end(SWEEP_SECONDS)
        await settled()
        assert await all_params.find(*KIND) is first
        policies.remove("", "policy")
        pauses.end(SWEEP_SECONDS)
        await settled()
        assert all_params._params == {}
        assert await all_params.find(*KIND) is not first


async def test_an_answer_that_is_no_discovery_document(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    cluster.on("GET", GROUP, lambda _: {"items": []})
    async with running(cluster, wait_seconds=0) as (all_params, _):
        params = await all_params.find(*KIND)
        assert params is not None
        assert not params.is_known
        await until(lambda: "params of policies: 'resources'" in caplog.text)
        cluster.on("GET", GROUP, lambda _: document())
        await cluster.put(LIMITS, made("one", "team"))
        await all_params.find(*KIND)
        await settled()
        found = await all_params.find(*KIND)
        assert found is not None
        assert found.get("team", "one")
