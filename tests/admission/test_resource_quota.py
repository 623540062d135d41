"""The plugin against an API server in memory. With a real one: tests/integration/test_quota.py."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from typing import Any

import pytest

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes
from aggserver.admission.resource_quota import CONFLICTS, FAILURES, ClusterQuotas, ResourceQuota
from aggserver.admission.sources import Collection
from aggserver.authentication.user import UserInfo
from aggserver.cluster import Unreachable
from aggserver.meta.errors import StatusError
from aggserver.meta.resource import ResourceInfo
from tests.fakes.clock import settled, until
from tests.fakes.cluster import FakeCluster, status

CRONTABS = ResourceInfo("stable.example.com", "v1", "crontabs", "CronTab", "CronTabList", namespaced=True)
COUNT = "count/crontabs.stable.example.com"
PATH = "/api/v1/namespaces/team/resourcequotas/"
BASE = Attributes(CREATE, UserInfo("alice"), CRONTABS, "", "CronTab", CRONTABS.api_version, "team", "a", dry_run=False)
OBJECT: dict[str, Any] = {"metadata": {"name": "a"}}


class Host:
    """A cluster with quotas. `stored` is what it has, `known` what this server's watch has delivered."""

    def __init__(self, **quotas: tuple[str, str]) -> None:
        """quotas: by name, (hard, used)."""
        self.cluster = FakeCluster()
        self.known = Collection()
        self.stored: dict[str, dict[str, Any]] = {}
        self.version = 100
        for name, (hard, used) in quotas.items():
            self.stored[name] = {
                "metadata": {"name": name, "namespace": "team", "resourceVersion": "100"},
                "spec": {"hard": {COUNT: hard}},
                "status": {"hard": {COUNT: hard}, "used": {COUNT: used}},
            }
            self.deliver(name)
            self.cluster.on("PUT", f"{PATH}{name}/status", self.write)
            self.cluster.on("GET", f"{PATH}{name}", lambda _, name=name: self.read(name))

    def deliver(self, name: str) -> None:
        self.known.put(copy.deepcopy(self.stored[name]))

    def read(self, name: str) -> dict[str, Any]:
        if name not in self.stored:
            raise status(404, "NotFound", f'resourcequotas "{name}" not found')
        return copy.deepcopy(self.stored[name])

    def write(self, quota: dict[str, Any]) -> dict[str, Any]:
        name = quota["metadata"]["name"]
        if quota["metadata"]["resourceVersion"] != self.read(name)["metadata"]["resourceVersion"]:
            raise status(409, "Conflict", "the object has been modified")
        self.stored[name] = copy.deepcopy(quota)
        self.count(name, quota["status"]["used"][COUNT])
        return self.read(name)

    def count(self, name: str, used: str) -> None:
        """As another client changes it."""
        self.version += 1
        self.stored[name]["metadata"]["resourceVersion"] = str(self.version)
        self.stored[name]["status"]["used"] = {COUNT: used}

    def used(self, name: str = "q") -> str:
        return str(self.stored[name]["status"]["used"][COUNT])

    @property
    def writes(self) -> int:
        return [method for method, _ in self.cluster.calls].count("PUT")


async def refused(plugin: ResourceQuota, attributes: Attributes = BASE) -> tuple[int, str]:
    with pytest.raises(StatusError) as refusal:
        await plugin.validate(attributes, OBJECT, None)
    return refusal.value.code, refusal.value.message


def exceeded(name: str, used: str, hard: str, quota: str = "q") -> tuple[int, str]:
    return (
        403,
        f'crontabs.stable.example.com "{name}" is forbidden: exceeded quota: {quota}, requested: {COUNT}=1, '
        f"used: {COUNT}={used}, limited: {COUNT}={hard}",
    )


async def test_creations_are_counted_until_the_quota_is_used_up() -> None:
    host = Host(q=("2", "0"))
    plugin = ResourceQuota(ClusterQuotas(host.cluster), host.known)
    await plugin.validate(BASE, OBJECT, None)
    await plugin.validate(BASE, OBJECT, None)
    assert await refused(plugin) == exceeded("a", "2", "2")
    assert (host.used(), host.writes) == ("2", 2)


NOT_COUNTED: dict[str, Attributes] = {
    "an update": replace(BASE, operation=UPDATE),
    "a deletion": replace(BASE, operation=DELETE),
    "a subresource": replace(BASE, subresource="status"),
    "in another namespace": replace(BASE, namespace="other"),
    "a cluster-scoped object": replace(BASE, namespace=""),
    "another kind": replace(BASE, resource=replace(CRONTABS, resource="shirts")),
}


@pytest.mark.parametrize("case", NOT_COUNTED)
async def test_what_is_not_counted(case: str) -> None:
    host = Host(q=("0", "0"))
    await ResourceQuota(ClusterQuotas(host.cluster), host.known).validate(NOT_COUNTED[case], OBJECT, None)
    assert host.cluster.calls == []


async def test_a_dry_run_is_checked_and_not_counted() -> None:
    host = Host(q=("1", "0"))
    plugin = ResourceQuota(ClusterQuotas(host.cluster), host.known)
    dry = replace(BASE, dry_run=True)
    await plugin.validate(dry, OBJECT, None)
    await plugin.validate(dry, OBJECT, None)
    assert (host.used(), host.writes) == ("0", 0)
    await plugin.validate(BASE, OBJECT, None)
    assert await refused(plugin, dry) == exceeded("a", "1", "1")


async def test_creations_side_by_side_share_a_write() -> None:
    host = Host(q=("30", "0"))
    plugin = ResourceQuota(ClusterQuotas(host.cluster), host.known)
    answers = await asyncio.gather(
        *(plugin.validate(replace(BASE, name=str(number)), OBJECT, None) for number in range(40)), return_exceptions=True
    )
    refusals = [answer for answer in answers if isinstance(answer, StatusError)]
    assert len(refusals) == 10
    assert {refusal.message for refusal in refusals} == {exceeded(str(number), "30", "30")[1] for number in range(30, 40)}
    assert (host.used(), host.writes) == ("30", 1)


async def test_those_that_come_during_a_write_share_the_next() -> None:
    host = Host(q=("30", "0"))
    plugin = ResourceQuota(ClusterQuotas(host.cluster), host.known)
    first = asyncio.create_task(plugin.validate(BASE, OBJECT, None))
    await until(lambda: host.cluster.calls)
    await asyncio.gather(*(plugin.validate(BASE, OBJECT, None) for _ in range(9)))
    await first
    assert (host.used(), host.writes) == ("10", 2)


async def test_all_quotas_of_the_namespace_count() -> None:
    host = Host(a=("5", "0"), b=("2", "1"))
    plugin = ResourceQuota(ClusterQuotas(host.cluster), host.known)
    await plugin.validate(BASE, OBJECT, None)
    assert await refused(plugin) == exceeded("a", "2", "2", quota="b")
    assert (host.used("a"), host.used("b"), host.writes) == ("1", "2", 2)


async def test_a_lost_race_starts_from_what_the_other_wrote() -> None:
    """Another replica, or kube-controller-manager, has written the usage, and the watch has not delivered it yet."""
    host = Host(q=("5", "0"))
    host.count("q", "3")
    plugin = ResourceQuota(ClusterQuotas(host.cluster), host.known)
    await plugin.validate(BASE, OBJECT, None)
    assert (host.used(), host.writes) == ("4", 2)
    host.count("q", "5")
    assert await refused(plugin) == exceeded("a", "5", "5")
    assert host.used() == "5"


async def test_only_the_quota_that_lost_is_written_again() -> None:
    host = Host(a=("5", "0"), b=("5", "0"))
    host.count("b", "2")
    await ResourceQuota(ClusterQuotas(host.cluster), host.known).validate(BASE, OBJECT, None)
    assert (host.used("a"), host.used("b"), host.writes) == ("1", "3", 3)


async def test_two_replicas_never_permit_more_than_the_quota() -> None:
    host = Host(q=("25", "0"))
    other = Collection()
    other.put(copy.deepcopy(host.stored["q"]))
    replicas = [ResourceQuota(ClusterQuotas(host.cluster), each) for each in (host.known, other)]
    answers = await asyncio.gather(
        *(replicas[number % 2].validate(BASE, OBJECT, None) for number in range(40)), return_exceptions=True
    )
    assert answers.count(None) == 25
    assert host.used() == "25"


@pytest.mark.parametrize("replicas", [1, 3])
async def test_a_hundred_side_by_side(replicas: int) -> None:
    """Also if the watch delivers what the quota was before, again and again."""
    host = Host(q=("10", "0"))
    before = copy.deepcopy(host.stored["q"])
    known = [Collection() for _ in range(replicas)]
    for each in known:
        each.put(copy.deepcopy(before))
    plugins = [ResourceQuota(ClusterQuotas(host.cluster), each) for each in known]

    async def late() -> None:
        for _ in range(50):
            known[0].put(copy.deepcopy(before))
            await asyncio.sleep(0)

    asked = (plugins[number % replicas].validate(BASE, OBJECT, None) for number in range(100))
    *answers, _ = await asyncio.gather(*asked, late(), return_exceptions=True)
    assert answers.count(None) == 10
    assert host.used() == "10"


async def test_a_race_that_is_always_lost() -> None:
    host = Host(q=("5", "0"))
    conflict = status(409, "Conflict", "the object has been modified")
    host.cluster.fail("PUT", f"{PATH}q/status", conflict, times=CONFLICTS)
    assert await refused(ResourceQuota(ClusterQuotas(host.cluster), host.known)) == (409, "the object has been modified")
    assert host.writes == CONFLICTS


async def test_a_quota_that_is_deleted_meanwhile() -> None:
    host = Host(q=("5", "0"))
    del host.stored["q"]
    await ResourceQuota(ClusterQuotas(host.cluster), host.known).validate(BASE, OBJECT, None)
    assert len(host.known) == 0


FAILED: dict[str, tuple[Exception, tuple[int, str]]] = {
    "unreachable": (
        Unreachable("connection refused"),
        (500, "Internal error occurred: usage of resource quota q could not be written: connection refused"),
    ),
    "not permitted": (
        status(403, "Forbidden", "no"),
        (500, "Internal error occurred: usage of resource quota q could not be written: 403 Forbidden: no"),
    ),
    "overloaded": (status(429, "TooManyRequests", "later"), (429, "later")),
}


@pytest.mark.parametrize("case", FAILED)
async def test_usage_that_can_not_be_written(case: str, caplog: pytest.LogCaptureFixture) -> None:
    failure, expected = FAILED[case]
    host = Host(q=("5", "0"))
    host.cluster.fail("PUT", f"{PATH}q/status", failure, times=FAILURES)
    assert await refused(ResourceQuota(ClusterQuotas(host.cluster), host.known)) == expected
    assert host.writes == FAILURES
    assert ("resources: [resourcequotas/status], verbs: [update]" in caplog.text) is (case == "not permitted")


async def test_a_failure_is_tried_again() -> None:
    host = Host(q=("5", "0"))
    host.cluster.fail("PUT", f"{PATH}q/status", Unreachable("reset", broken=True), times=FAILURES - 1)
    await ResourceQuota(ClusterQuotas(host.cluster), host.known).validate(BASE, OBJECT, None)
    assert host.used() == "1"


async def test_the_deadline(caplog: pytest.LogCaptureFixture) -> None:
    host = Host(q=("5", "0"))
    plugin = ResourceQuota(ClusterQuotas(host.cluster), host.known, deadline_seconds=0)
    assert await refused(plugin) == (500, "Internal error occurred: resource quota evaluation timed out")
    await settled()
    assert host.used() == "0"
    assert caplog.text == ""


async def test_a_request_that_is_given_up_is_not_counted() -> None:
    host = Host(q=("5", "0"))
    plugin = ResourceQuota(ClusterQuotas(host.cluster), host.known)
    first = asyncio.create_task(plugin.validate(BASE, OBJECT, None))
    await until(lambda: host.cluster.calls)
    second = asyncio.create_task(plugin.validate(BASE, OBJECT, None))
    await asyncio.sleep(0)
    second.cancel()
    await first
    await settled()
    assert host.used() == "1"
