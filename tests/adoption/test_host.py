from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggserver.adoption.families import kept
from aggserver.adoption.host import DEFINITIONS, Host, HostError
from aggserver.adoption.records.record import Phase, Record
from aggserver.adoption.switch.api_services import OurService
from aggserver.apiextensions.api_service import API_SERVICES, Service
from aggserver.cluster import ClusterError, Unreachable
from aggserver.meta.selectors import LabelSelector
from tests.fakes.clock import until
from tests.fakes.cluster import FakeCluster, status

TARGET = OurService(Service("aggserver-system", "aggserver"), "installation", b"")
RECORD = Record(
    "crontabs.x.io", {"crontabs.x.io": "uid-1"}, [("x.io", "v1")], Phase.ADOPTED, shared=False, since="2026-01-01T00:00:00Z"
)


def crd(labels: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    names = {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "metadata": {"name": "crontabs.x.io", "uid": "uid-1", "labels": dict(labels or {"adopt": "yes"}), **metadata},
        "spec": {
            "group": "x.io",
            "names": {**names, "shortNames": ["ct"]},
            "scope": "Namespaced",
            "versions": [version],
            "conversion": {"strategy": "None"},
        },
        "status": {
            "acceptedNames": names,
            "conditions": [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}],
        },
    }


@asynccontextmanager
async def following(cluster: FakeCluster, *records: Record) -> AsyncIterator[Host]:
    host = Host(cluster, LabelSelector.parse("adopt=yes"), TARGET, lambda: records, lambda: None)
    task = asyncio.create_task(host.run())
    try:
        yield host
    finally:
        task.cancel()


async def test_follows_definitions_and_api_services() -> None:
    cluster = FakeCluster()
    await cluster.put(DEFINITIONS, crd())
    async with following(cluster) as host:
        assert host.families() == []
        assert host.trouble() == "the host's definitions and APIServices have not been read yet"
        await until(lambda: not host.trouble() and host.definition("crontabs.x.io", "uid-1"))
        (family,) = host.families()
        assert (family.name, family.obstacles) == ("crontabs.x.io", [])
        service = {"namespace": "other", "name": "server"}
        await cluster.put(
            API_SERVICES, {"metadata": {"name": "v1.x.io"}, "spec": {"group": "x.io", "version": "v1", "service": service}}
        )
        await until(lambda: host.families()[0].obstacles)
        assert host.families()[0].obstacles == ["APIService v1.x.io is left alone: it is served by the Service other/server"]
        assert await host.ask({"x.io"}) == host.families()


async def test_a_host_that_is_away_is_logged_once_for_all(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    for path in (DEFINITIONS, API_SERVICES):
        cluster.fail("GET", path, Unreachable(f"{path}: refused", why="refused"))
    async with following(cluster) as host:
        await until(lambda: "CustomResourceDefinitions of the host" in host.trouble() and "APIServices of the" in host.trouble())
    assert caplog.messages == [
        "https://fake.test:6443 can't be reached: refused; watches keep what was last known, and try again"
    ]


async def test_what_is_asked_is_asked_of_one_group_only() -> None:
    """While clients wait, and a host may have hundreds of definitions."""
    cluster = FakeCluster()
    await cluster.put(DEFINITIONS, crd())
    other = crd()
    other["metadata"] = {**other["metadata"], "name": "crontabs.y.io", "uid": "uid-y"}
    other["spec"] = {**other["spec"], "group": "y.io"}
    await cluster.put(DEFINITIONS, other)
    async with following(cluster) as host:
        await until(lambda: not host.trouble() and host.definition("crontabs.y.io", "uid-y"))
        before = len(cluster.calls)
        # Neither is told by the watch yet.
        cluster.objects[DEFINITIONS]["shirts.x.io"] = {
            **crd(),
            "metadata": {**crd()["metadata"], "name": "shirts.x.io", "labels": {}},
        }
        service = {"namespace": "other", "name": "server"}
        cluster.objects[API_SERVICES] = {
            "v1.x.io": {"metadata": {"name": "v1.x.io"}, "spec": {"group": "x.io", "version": "v1", "service": service}}
        }
        x, y = await host.ask({"x.io"})
        assert (x.name, y.name, y.obstacles) == ("crontabs.x.io", "crontabs.y.io", [])
        assert x.definitions == ["crontabs.x.io", "shirts.x.io"]
        assert "APIService v1.x.io is left alone: it is served by the Service other/server" in x.obstacles
        assert sorted(cluster.calls[before:]) == [
            ("GET", DEFINITIONS),
            ("GET", f"{DEFINITIONS}/crontabs.x.io"),
            ("GET", f"{DEFINITIONS}/shirts.x.io"),
            ("GET", f"{API_SERVICES}/v1.x.io"),
        ]


async def test_a_definition_is_served_with_its_accepted_names() -> None:
    cluster = FakeCluster()
    await cluster.put(DEFINITIONS, crd())
    async with following(cluster) as host:
        await until(lambda: host.definition("crontabs.x.io", "uid-1"))
        first = host.definition("crontabs.x.io", "uid-1")
        assert first is not None
        assert first.names.short_names == ()
        passing = crd(resourceVersion=None)
        del passing["metadata"]["resourceVersion"]
        passing["status"]["acceptedNames"] = {**passing["status"]["acceptedNames"], "categories": ["aggserver-passing"]}
        await cluster.put(DEFINITIONS, passing)
        await until(lambda: "categories" in (host.crd("crontabs.x.io") or {})["status"]["acceptedNames"])
        await host.ask({"x.io"})
        assert host.definition("crontabs.x.io", "uid-1") is first, "the category that ends watches is not taken"
        assert host.definition("crontabs.x.io", "another") is None


async def test_a_definition_that_can_not_be_served_any_more_is_served_as_before() -> None:
    cluster = FakeCluster()
    await cluster.put(DEFINITIONS, crd())
    async with following(cluster, RECORD) as host:
        await until(lambda: host.definition("crontabs.x.io", "uid-1"))
        first = host.definition("crontabs.x.io", "uid-1")
        changed = crd()
        changed["spec"]["versions"][0]["storage"] = False
        await cluster.put(DEFINITIONS, changed)
        await until(lambda: not host.is_current("crontabs.x.io"))
        assert host.definition("crontabs.x.io", "uid-1") is first
        (family,) = host.families()
        assert family.obstacles[0].startswith("crontabs.x.io can't be served here as it is now: spec.versions: Invalid value")


async def test_only_selected_and_recorded_definitions_are_kept_whole() -> None:
    cluster = FakeCluster()
    await cluster.put(DEFINITIONS, crd(labels={"adopt": "no"}))
    async with following(cluster) as host:
        await until(lambda: host.crd("crontabs.x.io"))
        assert "schema" not in (host.crd("crontabs.x.io") or {})["spec"]["versions"][0]
        await until(lambda: not host.trouble())
        assert host.definition("crontabs.x.io", "uid-1") is None
    async with following(cluster, RECORD) as host:
        await until(lambda: host.definition("crontabs.x.io", "uid-1"))


async def test_kept_definitions_stand_in_until_the_host_answers() -> None:
    cluster = FakeCluster()
    cluster.fail("GET", DEFINITIONS, Unreachable("no answer"), times=100)
    async with following(cluster, RECORD) as host:
        await host.restore({"crontabs.x.io": dict(kept(crd(), whole=True))})
        assert host.definition("crontabs.x.io", "uid-1") is not None
        await until(lambda: "no answer" in host.trouble())
        assert host.trouble() == "CustomResourceDefinitions of the host can't be read: no answer"
        assert host.families() == []


async def finalizers(cluster: FakeCluster) -> list[str]:
    found = await cluster.request("GET", f"{DEFINITIONS}/crontabs.x.io")
    return list(found["metadata"].get("finalizers") or [])


async def test_the_finalizer_is_put_on_and_taken_off() -> None:
    cluster = FakeCluster()
    await cluster.put(DEFINITIONS, crd(finalizers=["another/one"]))
    host = Host(cluster, LabelSelector.parse(""), TARGET, lambda: (), lambda: None)
    await host.add_finalizer("crontabs.x.io")
    await host.add_finalizer("crontabs.x.io")
    assert await finalizers(cluster) == ["another/one", "aggserver.io/adopted"]
    await host.remove_finalizer("crontabs.x.io", "another uid")
    assert "aggserver.io/adopted" in await finalizers(cluster)
    await host.remove_finalizer("crontabs.x.io", "uid-1")
    await host.remove_finalizer("crontabs.x.io", "uid-1")
    assert await finalizers(cluster) == ["another/one"]
    patches = [body for (method, _), body in zip(cluster.calls, cluster.bodies, strict=True) if method == "PATCH"]
    assert [[each["op"] for each in patch] for patch in patches] == [["test", "test", "add"]] * 2
    await cluster.remove(DEFINITIONS, "crontabs.x.io")
    await host.remove_finalizer("crontabs.x.io", "uid-1")
    with pytest.raises(HostError, match="is not in the host any more"):
        await host.add_finalizer("crontabs.x.io")


async def test_a_change_of_somebody_else_is_not_lost() -> None:
    cluster = FakeCluster()
    await cluster.put(DEFINITIONS, crd())
    cluster.fail("PATCH", f"{DEFINITIONS}/crontabs.x.io", status(422, "Invalid", "the test failed"))
    await Host(cluster, LabelSelector.parse(""), TARGET, lambda: (), lambda: None).add_finalizer("crontabs.x.io")
    assert await finalizers(cluster) == ["aggserver.io/adopted"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(
            status(403, "Forbidden", 'admission webhook "a.b.c" denied the request: no'),
            'can\'t be put on crontabs.x.io: 403 Forbidden: admission webhook "a.b.c" denied the request: no',
            id="a webhook of the cluster",
        ),
        pytest.param(status(403, "Forbidden", "no"), "403 Forbidden: no; grant get, list, watch and patch on", id="no right"),
    ],
)
async def test_a_refused_finalizer(error: ClusterError, text: str) -> None:
    cluster = FakeCluster()
    await cluster.put(DEFINITIONS, crd())
    cluster.fail("PATCH", f"{DEFINITIONS}/crontabs.x.io", error)
    with pytest.raises(HostError) as refusal:
        await Host(cluster, LabelSelector.parse(""), TARGET, lambda: (), lambda: None).add_finalizer("crontabs.x.io")
    assert text in str(refusal.value)


async def test_no_finalizer_on_a_definition_that_is_being_deleted() -> None:
    cluster = FakeCluster()
    await cluster.put(DEFINITIONS, crd(deletionTimestamp="2026-01-01T00:00:00Z"))
    with pytest.raises(HostError, match="is being deleted"):
        await Host(cluster, LabelSelector.parse(""), TARGET, lambda: (), lambda: None).add_finalizer("crontabs.x.io")
