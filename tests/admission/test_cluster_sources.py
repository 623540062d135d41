from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from aggserver.admission.chain import CREATE, Attributes
from aggserver.admission.cluster_sources import GUARD_LABEL, ClusterSources, Readiness
from aggserver.authentication.user import UserInfo
from aggserver.cluster import Unreachable
from aggserver.cluster.pacing import Sleep
from aggserver.meta.errors import StatusError
from aggserver.meta.resource import ResourceInfo
from tests.fakes.clock import FakeClock, until
from tests.fakes.cluster import FakeCluster, status

CRONTABS = ResourceInfo("stable.example.com", "v1", "crontabs", "CronTab", "CronTabList", namespaced=True)
ATTRIBUTES = Attributes(CREATE, UserInfo("alice"), CRONTABS, "", "CronTab", CRONTABS.api_version, "team", "a", dry_run=False)
ALL = frozenset(
    {
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
    }
)
REGISTRATION = "/apis/admissionregistration.k8s.io"
WEBHOOKS = f"{REGISTRATION}/v1/validatingwebhookconfigurations"
NAMESPACES = "/api/v1/namespaces"
POLICIES = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"


@dataclass
class Served:
    """What a cluster says that it serves of admissionregistration.k8s.io, by version. It may change."""

    versions: dict[str, tuple[str, ...]]

    def document(self, version: str) -> dict[str, Any]:
        if version not in self.versions:
            raise status(404, "NotFound", "the server could not find the requested resource")
        return {"resources": [{"name": name} for name in self.versions[version]]}


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


class Pauses:
    """Sleeps that last until the test ends them."""

    def __init__(self) -> None:
        self.asleep = 0
        self._over = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.asleep += 1
        await self._over.wait()

    def end(self) -> None:
        self._over.set()
        self._over = asyncio.Event()


VALIDATING = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")


def cluster_with(**versions: tuple[str, ...]) -> tuple[FakeCluster, Served]:
    cluster, served = FakeCluster(), Served(versions)
    for version in ("v1", "v1beta1", "v1alpha1"):
        cluster.on("GET", f"{REGISTRATION}/{version}", lambda _, version=version: served.document(version))
    return cluster, served


@asynccontextmanager
async def running(
    cluster: FakeCluster, plugins: frozenset[str] = ALL, sleep: Sleep = no_pause, clock: FakeClock | None = None
) -> AsyncIterator[ClusterSources]:
    sources = ClusterSources(cluster, plugins, sleep=sleep, clock=clock or FakeClock())
    task = asyncio.create_task(sources.run())
    try:
        yield sources
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def made(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


async def test_what_is_listed_and_watched() -> None:
    cluster, _ = cluster_with(v1=(*VALIDATING, *POLICIES))
    await cluster.put(WEBHOOKS, made("one"))
    await cluster.put(NAMESPACES, made("team"))
    quota = {"metadata": {"name": "q", "namespace": "team"}}
    await cluster.put("/api/v1/resourcequotas", quota)
    await cluster.put(f"{REGISTRATION}/v1/validatingadmissionpolicybindings", made("binding"))
    async with running(cluster) as sources:
        await until(lambda: sources.healthy() is None)
        await sources.known()
        assert sources.rules.validating_webhooks.get("", "one")
        assert sources.namespaces.get("", "team")
        assert sources.quotas.get("team", "q")
        assert sources.rules.validating_policy_bindings.get("", "binding")
        assert len(sources.rules.mutating_policies) == 0
        await cluster.put(WEBHOOKS, made("two"))
        await until(lambda: sources.rules.validating_webhooks.get("", "two"))
        await cluster.remove(WEBHOOKS, "one")
        await until(lambda: len(sources.rules.validating_webhooks) == 1)
        await cluster.remove("/api/v1/resourcequotas", "q")
        await until(lambda: not sources.quotas.within("team"))


async def test_the_guard_of_adoption_is_for_the_host_alone() -> None:
    cluster, _ = cluster_with(v1=(*VALIDATING, *POLICIES))
    guard = {"metadata": {"name": "guard", "labels": {GUARD_LABEL: "true"}}}
    await cluster.put(WEBHOOKS, made("one"))
    await cluster.put(WEBHOOKS, guard)
    async with running(cluster) as sources:
        await until(lambda: sources.healthy() is None)
        await cluster.put(WEBHOOKS, guard)
        await cluster.put(WEBHOOKS, made("two"))
        await until(lambda: sources.rules.validating_webhooks.get("", "two"))
        assert {each["metadata"]["name"] for each in sources.rules.validating_webhooks} == {"one", "two"}


async def test_only_what_the_plugins_need() -> None:
    cluster, _ = cluster_with(v1=(*VALIDATING, *POLICIES))
    async with running(cluster, frozenset({"ValidatingAdmissionWebhook"})) as sources:
        await until(lambda: sources.healthy() is None)
    assert {path for method, path in cluster.calls} == {WEBHOOKS, NAMESPACES}


async def test_the_latest_version_that_is_served() -> None:
    cluster, _ = cluster_with(v1=VALIDATING, v1beta1=POLICIES, v1alpha1=POLICIES)
    await cluster.put(f"{REGISTRATION}/v1beta1/{POLICIES[0]}", made("policy"))
    async with running(cluster) as sources:
        await until(lambda: sources.healthy() is None)
        assert sources.rules.mutating_policies.get("", "policy")


async def test_a_kind_that_comes_with_an_upgrade() -> None:
    cluster, served = cluster_with(v1=VALIDATING)
    pauses = Pauses()
    async with running(cluster, sleep=pauses.sleep) as sources:
        await until(lambda: sources.healthy() is None)
        await until(lambda: pauses.asleep == 2)
        served.versions["v1"] = (*VALIDATING, *POLICIES)
        await cluster.put(f"{REGISTRATION}/v1/{POLICIES[0]}", made("policy"))
        pauses.end()
        await until(lambda: sources.rules.mutating_policies.get("", "policy"))


async def test_a_version_that_goes_with_an_upgrade() -> None:
    cluster, served = cluster_with(v1=VALIDATING, v1beta1=POLICIES)
    old, new = (f"{REGISTRATION}/{version}/{POLICIES[0]}" for version in ("v1beta1", "v1"))
    await cluster.put(old, made("stays"))
    await cluster.put(old, made("goes"))
    await cluster.put(new, made("stays", spec={}))
    async with running(cluster) as sources:
        policies = sources.rules.mutating_policies
        await until(lambda: len(policies) == 2)
        served.versions = {"v1": (*VALIDATING, *POLICIES)}
        cluster.fail("WATCH", old, status(404, "NotFound", "the server could not find the requested resource"))
        await cluster.end_watches()
        await until(lambda: len(policies) == 1)
        assert (policies.get("", "stays") or {}).get("spec") == {}


async def test_a_cluster_that_is_away_is_logged_once_for_all_watches(caplog: pytest.LogCaptureFixture) -> None:
    """Each watch keeps its own reason for readiness, and is silent when it works again: the cluster tells of that too."""
    caplog.set_level("INFO")
    cluster, _ = cluster_with(v1=(*VALIDATING, *POLICIES))
    for path in (WEBHOOKS, f"{REGISTRATION}/v1/{POLICIES[0]}"):
        for why in ("closed", "refused"):
            cluster.fail("GET", path, Unreachable(f"{path}: {why}", why=why), times=2)
    async with running(cluster) as sources:
        await until(lambda: len(caplog.messages) == 2)
        assert "refused" in (sources.healthy() or "")
        await until(lambda: sources.healthy() is None)
        for path in (WEBHOOKS, f"{REGISTRATION}/v1/{POLICIES[0]}"):
            await cluster.put(path, made("new"))
        await until(lambda: len(caplog.messages) == 3)
    assert [message.split("; ")[0].split(", ")[0] for message in caplog.messages] == [
        "https://fake.test:6443 can't be reached: closed",
        f"{WEBHOOKS}: refused",
        "https://fake.test:6443 answers again",
    ]
    assert caplog.messages[2].endswith("watches that go on: 2")


async def test_a_watch_that_ends_before_it_has_begun_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    cluster, _ = cluster_with(v1=(*VALIDATING, *POLICIES))
    cluster.fail("GET", f"{REGISTRATION}/v1", Unreachable("refused"), times=1000)
    async with running(cluster):
        await until(lambda: caplog.messages)
    cluster.outage.lost("another", "S", "refused", "")
    cluster.outage.reached("another", "S")
    assert caplog.messages[-1].endswith("watches that go on: 1")


async def test_a_missing_right_is_named(caplog: pytest.LogCaptureFixture) -> None:
    cluster, _ = cluster_with(v1=(*VALIDATING, *POLICIES))
    cluster.fail("GET", WEBHOOKS, status(403, "Forbidden", "no"), times=1000)
    async with running(cluster) as sources:
        expected = (
            "validatingwebhookconfigurations.admissionregistration.k8s.io: 403 Forbidden: no; "
            "grant this server's service account {apiGroups: ['admissionregistration.k8s.io'], "
            "resources: [validatingwebhookconfigurations], "
            "verbs: [get, list, watch]} (cluster-access.yaml)"
        )
        await until(lambda: sources.healthy() == f"waiting for {expected}")
    assert caplog.messages == [f"watch of {expected.replace(': 403', ' failed: 403', 1)}"]


async def test_before_the_first_attempt() -> None:
    sources = ClusterSources(FakeCluster(), frozenset({"ResourceQuota"}))
    assert sources.healthy() == "waiting for namespaces: not listed yet; resourcequotas: not listed yet"
    assert sources.warning() is None


async def test_the_last_known_state_holds(caplog: pytest.LogCaptureFixture) -> None:
    cluster, _ = cluster_with(v1=(*VALIDATING, *POLICIES))
    await cluster.put(WEBHOOKS, made("one"))
    async with running(cluster) as sources:
        await until(lambda: sources.healthy() is None and cluster.watches == 8)
        cluster.fail("WATCH", WEBHOOKS, Unreachable("connection refused"), times=1000)
        await cluster.end_watches()
        await until(sources.warning)
        assert sources.healthy() is None
        assert sources.warning() == (
            "going on with what was last known of validatingwebhookconfigurations.admissionregistration.k8s.io: "
            "connection refused"
        )
        assert sources.rules.validating_webhooks.get("", "one")
    assert "can't be reached: connection refused; watches keep what was last known" in caplog.text


async def test_a_state_that_was_not_followed_for_long_is_not_ready() -> None:
    cluster, _ = cluster_with(v1=(*VALIDATING, *POLICIES))
    clock = FakeClock()
    async with running(cluster, clock=clock) as sources:
        await until(lambda: sources.healthy() is None and cluster.watches == 8)
        clock.advance(3600)
        assert sources.healthy() is None, "nothing has failed"
        cluster.fail("WATCH", NAMESPACES, Unreachable("connection refused"), times=10)
        await cluster.put(NAMESPACES, made("one"))
        await until(lambda: sources.namespaces.get("", "one"))
        await cluster.end_watches()
        await until(sources.warning)
        clock.advance(300)
        assert sources.healthy() is None
        clock.advance(1)
        assert sources.healthy() == "namespaces: not followed for 301 s: connection refused"
        await until(lambda: cluster.watches == 16)
        await cluster.put(NAMESPACES, made("two"))
        await until(lambda: sources.healthy() is None)


async def test_writes_wait_until_all_is_known() -> None:
    cluster, _ = cluster_with(v1=(*VALIDATING, *POLICIES))
    async with running(cluster) as sources:
        assert sources.healthy()
        plugin = Readiness(sources)
        assert plugin.concerns(ATTRIBUTES)
        assert await plugin.mutate(ATTRIBUTES, {"metadata": {}}, None) is False
        assert sources.healthy() is None
        assert not plugin.concerns(ATTRIBUTES)


async def test_writes_are_refused_until_all_is_known() -> None:
    plugin = Readiness(ClusterSources(FakeCluster(), ALL), wait_seconds=0)
    with pytest.raises(StatusError) as refusal:
        await plugin.mutate(ATTRIBUTES, {"metadata": {}}, None)
    assert refusal.value.code == 403
    assert refusal.value.message == 'crontabs.stable.example.com "a" is forbidden: not yet ready to handle request'
