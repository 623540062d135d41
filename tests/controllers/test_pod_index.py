"""What is known of Pods, which of them a selector is asked about, and which selectors a Pod is asked about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.controllers import selector_index
from aggserver.controllers.pod_facts import Controller, NamedPort, Pod, pod_of
from aggserver.controllers.pod_index import PodIndex
from aggserver.controllers.selector_index import SelectorIndex
from aggserver.kinds.served import Kinds
from aggserver.meta.selectors import LabelSelector
from tests.fakes.asgi import Client
from tests.fakes.clock import CountedLoop, until
from tests.fakes.server import LocalServer

PODS = "/api/v1/namespaces/default/pods"


def test_what_is_known() -> None:
    obj = {
        "metadata": {
            "namespace": "ns",
            "name": "p",
            "uid": "u",
            "labels": {"a": "b"},
            "deletionTimestamp": "x",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "A", "name": "no", "uid": "1"},
                {"apiVersion": "apps/v1", "kind": "B", "name": "yes", "uid": "2", "controller": True},
            ],
        },
        "spec": {
            "nodeName": "n",
            "hostname": "h",
            "subdomain": "s",
            "containers": [{"ports": [{"name": "http", "containerPort": 80}, {"containerPort": 81}]}],
            "initContainers": [
                {"ports": [{"name": "not", "containerPort": 82}]},
                {"restartPolicy": "Always", "ports": [{"name": "side", "containerPort": 83, "protocol": "UDP"}]},
            ],
            "volumes": [{"persistentVolumeClaim": {"claimName": "c"}}, {"emptyDir": {}}],
        },
        "status": {
            "phase": "Failed",
            "podIP": "1.1.1.1",
            "podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}],
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "t"},
                {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "d"},
            ],
        },
    }
    assert pod_of(obj) == Pod(
        namespace="ns",
        name="p",
        uid="u",
        labels={"a": "b"},
        ips=("1.1.1.1", "::1"),
        is_ready=True,
        is_over=True,
        is_terminating=True,
        ready_since="t",
        node="n",
        hostname="h",
        subdomain="s",
        named_ports=(NamedPort("http", "TCP", 80), NamedPort("side", "UDP", 83)),
        controller=Controller("apps/v1", "B", "yes", "2"),
        claims=("c",),
        disrupted_since="d",
    )


def test_a_pod_that_has_just_been_made() -> None:
    obj = {"metadata": {"namespace": "ns", "name": "p", "uid": "u"}, "spec": {"containers": []}, "status": {"podIP": "1.1.1.1"}}
    assert pod_of(obj) == Pod("ns", "p", "u", {}, ips=("1.1.1.1",))


class Index:
    """The index of a server, which runs, and the changes that it told."""

    def __init__(self, server: LocalServer) -> None:
        kinds = Kinds(server.environment, server.engine.admission)
        server.engine.installer.install([("built-in kinds", kinds.served())])
        self.kinds = kinds
        self.pods = PodIndex(lambda: kinds.store("", "pods"), server.timers.call_later)
        self.told: list[tuple[Any, Any]] = []
        self.pods.listen(self._tell)

    async def _tell(self, before: Pod | None, after: Pod | None) -> None:
        self.told.append((before and before.name, after and after.name))

    def names(self, selector: str) -> list[str]:
        return sorted(pod.name for pod in self.pods.selected("default", LabelSelector.parse(selector)))


@pytest.fixture
async def index(server: LocalServer) -> AsyncIterator[Index]:
    made = Index(server)
    server.run()
    task = asyncio.create_task(made.pods.run())
    await made.pods.caught_up()
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    made.kinds.end_watches()


async def make(client: Client, name: str, labels: dict[str, str], **spec: Any) -> None:
    metadata = {"name": name, "labels": labels}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    assert (await client.post(PODS, pod)).status == 201


async def test_which_pods_are_asked(index: Index, client: Client) -> None:
    for number in range(4):
        await make(client, f"p{number}", {"app": "web", "number": str(number)})
    await make(client, "other", {"app": "other"})
    await until(lambda: len(index.told) == 5)
    assert index.names("app=web,number=2") == ["p2"]
    assert index.names("app=other") == ["other"]
    assert index.names("app=nothing") == []
    assert index.names("app!=web") == ["other", "p0", "p1", "p2", "p3"]
    assert index.names("") == index.names("app in (web,other)") == index.names("app!=web")


async def test_pods_that_change_and_go(index: Index, client: Client) -> None:
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    await make(client, "one", {"a": "1"}, volumes=[claim, {**claim, "name": "w"}])
    await until(lambda: index.told == [(None, "one")])
    assert [pod.name for pod in index.pods.users("default/c")] == ["one"]
    await client.merge(f"{PODS}/one", {"metadata": {"labels": {"a": "2"}}})
    await until(lambda: index.told[1:] == [("one", "one")])
    assert (index.names("a=1"), index.names("a=2")) == ([], ["one"])
    # What nobody asks for is not told.
    await client.merge(f"{PODS}/one", {"metadata": {"annotations": {"x": "y"}}})
    for _ in range(500):
        await asyncio.sleep(0)
    assert len(index.told) == 2
    await client.delete(f"{PODS}/one", {"gracePeriodSeconds": 0})
    await until(lambda: index.told[-1] == ("one", None))
    assert (index.names("a=2"), index.names(""), index.pods.users("default/c")) == ([], [], [])


def selectors(**texts: str) -> SelectorIndex:
    made = SelectorIndex()
    for name, text in texts.items():
        made.put(f"ns/{name}", LabelSelector.parse(text))
    return made


async def test_which_selectors_match() -> None:
    made = selectors(web="app=web", one="app=web,n=1", all="", other="app!=web", some="app in (web,x)")
    made.put("elsewhere/web", LabelSelector.parse("app=web"))
    assert sorted([key async for key in made.matching("ns", {"app": "web", "n": "1"})]) == [
        "ns/all",
        "ns/one",
        "ns/some",
        "ns/web",
    ]
    assert sorted([key async for key in made.matching("ns", {})]) == ["ns/all", "ns/other"]
    made.put("ns/web", LabelSelector.parse("app=x"))
    made.put("ns/all", None)
    assert sorted([key async for key in made.matching("ns", {"app": "web"})]) == ["ns/some"]
    assert sorted([key async for key in made.matching("ns", {"app": "x"})]) == ["ns/other", "ns/some", "ns/web"]
    assert made.get("ns/all") is None


async def test_selectors_with_a_common_label_are_told_apart_by_another() -> None:
    """So that a Pod is not asked about all of thousands of Services."""
    made = selectors(**{f"s{number}": f"app=web,number={number}" for number in range(1000)})
    asked = [key for places in made._at.values() for key in places if len(places) > 1]
    assert asked == []
    assert [key async for key in made.matching("ns", {"app": "web", "number": "7"})] == ["ns/s7"]


async def test_others_run_while_thousands_of_selectors_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector_index, "_AT_ONCE", 10)
    made = selectors(**{f"s{number}": "app=web" for number in range(100)})
    loop, found = CountedLoop(), []
    await asyncio.sleep(0)
    before = loop.turn
    async for key in made.matching("ns", {"app": "web"}):
        found.append(key)
        if len(found) == 50:
            made.put("ns/s99", None)  # gone meanwhile
    assert (len(found), loop.turn - before) == (99, 10)
    loop.stop()
