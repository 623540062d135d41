from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggserver.apiextensions.api_service import ADOPTED, Service, api_service, ownership
from aggserver.apiextensions.registration import Registrar
from aggserver.cluster import Unreachable
from tests.fakes.clock import FakeClock, settled, until
from tests.fakes.cluster import FakeCluster, status

PATH = "/apis/apiregistration.k8s.io/v1/apiservices"
SERVICE = Service("agg", "aggserver", 443)


@asynccontextmanager
async def running(cluster: FakeCluster) -> AsyncIterator[tuple[Registrar, FakeClock]]:
    clock = FakeClock()
    registrar = Registrar(cluster, SERVICE, clock=clock, sleep=clock.sleep, random=lambda: 0.0)
    task = asyncio.create_task(registrar.run())
    try:
        yield registrar, clock
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def writes(cluster: FakeCluster) -> list[tuple[str, str]]:
    return [(method, path.removeprefix(PATH).removeprefix("/")) for method, path in cluster.calls if method != "GET"]


def foreign(name: str, **changes: Any) -> dict[str, Any]:
    version, _, group = name.partition(".")
    obj = api_service(group, version, 100, SERVICE, b"ca")
    obj["metadata"] |= changes.pop("metadata", {})
    obj["spec"] |= changes
    return obj


ADOPTION = {"labels": {"app.kubernetes.io/managed-by": "aggserver-adoption"}}
AUTO_MANAGED = {"labels": {"kube-aggregator.kubernetes.io/automanaged": "true"}}


@pytest.mark.parametrize(
    ("found", "whose"),
    [
        pytest.param(foreign("v1.a.io"), "", id="ours"),
        pytest.param(
            foreign("v1.a.io", metadata=AUTO_MANAGED, service=None),
            "kube-apiserver's own, for a CustomResourceDefinition of the cluster",
            id="of a CRD",
        ),
        pytest.param(
            foreign("v1.apps", metadata={"labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"}}, service=None),
            "served by kube-apiserver itself",
            id="built in",
        ),
        pytest.param(foreign("v1.a.io", service=None), "served by kube-apiserver itself", id="local"),
        pytest.param(
            foreign("v1.a.io", service={"namespace": "other", "name": "aggserver", "port": 443}),
            "served by the Service other/aggserver",
            id="another installation",
        ),
        pytest.param(foreign("v1.a.io", metadata=ADOPTION), ADOPTED, id="adopted"),
        pytest.param(
            foreign("v1.a.io", metadata={"labels": None}),
            "made by hand: it names this server but has no label app.kubernetes.io/managed-by=aggserver",
            id="by hand",
        ),
    ],
)
def test_ownership(found: dict[str, Any], whose: str) -> None:
    assert ownership(found, SERVICE) == whose


async def test_adopted_group_versions_are_left_alone_silently(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    for name in ("v1.a.io", "v1.b.io"):
        await cluster.put(PATH, foreign(name, metadata=ADOPTION))
    async with running(cluster) as (registrar, _):
        registrar.want([("a.io", "v1"), ("c.io", "v1")], b"new")
        await until(lambda: "v1.c.io" in cluster.objects[PATH])
        await settled()
    assert writes(cluster) == [("POST", "")]
    assert lines(caplog) == []


async def test_makes_what_is_missing() -> None:
    cluster = FakeCluster()
    async with running(cluster) as (registrar, _):
        registrar.want([("a.io", "v1alpha1"), ("a.io", "v1"), ("b.io", "v2"), ("a.io", "v1beta1"), ("a.io", "v2")], b"PEM")
        await until(lambda: len(cluster.objects.get(PATH, {})) == 5)
    made = cluster.objects[PATH]
    assert {name: obj["spec"]["versionPriority"] for name, obj in made.items()} == {
        "v2.a.io": 100,
        "v1.a.io": 99,
        "v1beta1.a.io": 98,
        "v1alpha1.a.io": 97,
        "v2.b.io": 100,
    }
    spec = made["v1.a.io"]["spec"]
    assert spec["service"] == {"namespace": "agg", "name": "aggserver", "port": 443}
    assert (spec["group"], spec["version"], spec["groupPriorityMinimum"]) == ("a.io", "v1", 1000)
    assert base64.b64decode(spec["caBundle"]) == b"PEM"
    assert made["v1.a.io"]["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "aggserver"}


async def test_touches_nothing_before_it_is_told_what_is_served() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, foreign("v1.a.io"))
    async with running(cluster):
        await until(lambda: cluster.watches)
        await cluster.put(PATH, foreign("v1.b.io"))
        await until(lambda: True)
    assert writes(cluster) == []


async def test_mends_drift_and_rotates_the_ca() -> None:
    cluster = FakeCluster()
    async with running(cluster) as (registrar, _):
        registrar.want([("a.io", "v1")], b"one")
        await until(lambda: cluster.watches and "v1.a.io" in cluster.objects[PATH])
        edited = cluster.objects[PATH]["v1.a.io"]
        await cluster.put(PATH, {**edited, "spec": {**edited["spec"], "versionPriority": 5}})
        await until(lambda: cluster.objects[PATH]["v1.a.io"]["spec"]["versionPriority"] == 100)
        registrar.want([("a.io", "v1")], b"two")
        await until(lambda: base64.b64decode(cluster.objects[PATH]["v1.a.io"]["spec"]["caBundle"]) == b"two")
        await cluster.remove(PATH, "v1.a.io")
        await until(lambda: "v1.a.io" in cluster.objects[PATH])
    assert writes(cluster) == [("POST", ""), ("PUT", "v1.a.io"), ("PUT", "v1.a.io"), ("POST", "")]


async def test_status_and_labels_of_others_survive_an_update() -> None:
    cluster = FakeCluster()
    ours = foreign("v1.a.io", versionPriority=7)
    ours["metadata"]["labels"]["team"] = "x"
    ours["status"] = {"conditions": []}
    await cluster.put(PATH, ours)
    async with running(cluster) as (registrar, _):
        registrar.want([("a.io", "v1")], b"ca")
        await until(lambda: cluster.objects[PATH]["v1.a.io"]["spec"]["versionPriority"] == 100)
    after = cluster.objects[PATH]["v1.a.io"]
    assert after["metadata"]["labels"]["team"] == "x"
    assert after["status"] == {"conditions": []}


async def test_removes_its_own_that_are_no_longer_served_and_no_others() -> None:
    cluster = FakeCluster()
    others = [
        foreign("v1.crd.io", metadata=AUTO_MANAGED, service=None),
        foreign("v1.core.io", service=None),
        foreign("v1.else.io", service={"namespace": "other", "name": "aggserver"}),
        foreign("v1.hand.io", metadata={"labels": {}}),
    ]
    for obj in [foreign("v1.a.io"), *others]:
        await cluster.put(PATH, obj)
    async with running(cluster) as (registrar, _):
        registrar.want([], b"ca")
        await until(lambda: "v1.a.io" not in cluster.objects[PATH])
    assert sorted(cluster.objects[PATH]) == ["v1.core.io", "v1.crd.io", "v1.else.io", "v1.hand.io"]
    assert writes(cluster) == [("DELETE", "v1.a.io")]


async def test_what_is_not_ours_is_reported_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, foreign("v1.a.io", metadata=AUTO_MANAGED, service=None))
    async with running(cluster) as (registrar, _):
        registrar.want([("a.io", "v1"), ("b.io", "v1")], b"ca")
        await until(lambda: "v1.b.io" in cluster.objects[PATH])
        await until(lambda: cluster.watches)
        await cluster.put(PATH, foreign("v1.a.io", metadata={**AUTO_MANAGED, "annotations": {"a": "b"}}, service=None))
        registrar.want([("a.io", "v1"), ("b.io", "v1")], b"ca")
        line = "APIService v1.a.io is left alone: it is kube-apiserver's own, for a CustomResourceDefinition of the cluster"
        await until(lambda: lines(caplog))
        assert lines(caplog) == [line]
        await cluster.remove(PATH, "v1.a.io")
        await until(lambda: "v1.a.io" in cluster.objects[PATH])
        assert ownership(cluster.objects[PATH]["v1.a.io"], SERVICE) == ""
        assert lines(caplog) == [line]


@pytest.mark.parametrize(
    ("method", "error", "line"),
    [
        pytest.param(
            "POST",
            status(403, "Forbidden", 'User "x" cannot create resource "apiservices"'),
            'APIService v1.a.io can\'t be created: User "x" cannot create resource "apiservices"; grant get, list, watch, '
            "create, update and delete on apiservices.apiregistration.k8s.io to this server's service account (a ClusterRole and "
            "a ClusterRoleBinding), or create the APIServices by hand",
            id="may not write",
        ),
        pytest.param(
            "GET",
            status(403, "Forbidden", "no"),
            "APIServices can't be watched: no; grant get, list, watch, create, update and delete on "
            "apiservices.apiregistration.k8s.io to this server's service account (a ClusterRole and a ClusterRoleBinding), or "
            "create the APIServices by hand",
            id="may not read",
        ),
        pytest.param(
            "GET",
            Unreachable("gone", why="refused"),
            "https://fake.test:6443 can't be reached: refused; watches keep what was last known, and try again",
            id="no answer to the watch, of which the cluster tells for all",
        ),
        pytest.param("POST", Unreachable("gone"), "APIService v1.a.io can't be created: gone", id="no answer"),
        pytest.param(
            "POST",
            status(422, "Invalid", "spec.group: Invalid value"),
            "APIService v1.a.io can't be created: 422 Invalid: spec.group: Invalid value",
            id="refused",
        ),
    ],
)
async def test_refusals_are_one_line_and_tried_again(
    caplog: pytest.LogCaptureFixture, method: str, error: Any, line: str
) -> None:
    cluster = FakeCluster()
    cluster.fail(method, PATH, error, times=3)
    async with running(cluster) as (registrar, clock):
        registrar.want([("a.io", "v1")], b"ca")
        await until(lambda: "v1.a.io" in cluster.objects.get(PATH, {}))
        assert clock.slept == pytest.approx([0.8, 1.6, 3.2])
    assert lines(caplog) == [line]


async def test_two_replicas_lose_nothing_to_each_other(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    async with running(cluster) as (first, _), running(cluster) as (second, _clock):
        for registrar in (first, second):
            registrar.want([("a.io", "v1"), ("b.io", "v1")], b"ca")
        await until(lambda: len(cluster.objects.get(PATH, {})) == 2)
        first.want([("a.io", "v1")], b"new")
        second.want([("a.io", "v1")], b"new")
        await until(lambda: sorted(cluster.objects[PATH]) == ["v1.a.io"])
        await until(lambda: base64.b64decode(cluster.objects[PATH]["v1.a.io"]["spec"]["caBundle"]) == b"new")
    assert lines(caplog) == []
