"""PodDisruptionBudgets: what their status says, and that evictions and drains respect it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from aggserver.controllers import disruption
from aggserver.controllers.disruption import DisruptionController
from aggserver.controllers.disruption_status import decided, failed, needs_scale, scaled
from aggserver.controllers.pod_facts import Pod
from aggserver.controllers.pod_index import PodIndex
from aggserver.kinds.served import Kinds
from aggserver.meta import times
from tests.fakes.asgi import Client
from tests.fakes.server import NOW, LocalServer

CORE, APPS = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default"
BUDGETS, PODS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets", f"{CORE}/pods"
TIME = times.format_time(NOW)


def pods(healthy: int, others: int = 0, **more: Any) -> list[Pod]:
    made = [Pod("ns", f"p{number}", f"u{number}", {}, is_ready=True, **more) for number in range(healthy)]
    return made + [Pod("ns", f"o{number}", f"v{number}", {}) for number in range(others)]


CASES: dict[str, tuple[dict[str, Any], list[Pod], int, tuple[int, int, int, int]]] = {
    # name: (spec, Pods, what their controllers want, (healthy, desired, expected, allowed))
    "so many available": ({"minAvailable": 2}, pods(3), 0, (3, 2, 3, 1)),
    "too few": ({"minAvailable": 4}, pods(3), 0, (3, 4, 3, 0)),
    "not ready ones": ({"minAvailable": 1}, pods(2, 2), 0, (2, 1, 4, 1)),
    "no Pods": ({"minAvailable": 0}, [], 0, (0, 0, 0, 0)),
    "a percentage available": ({"minAvailable": "28%"}, pods(4), 10, (4, 3, 10, 1)),
    "so many unavailable": ({"maxUnavailable": 1}, pods(5), 5, (5, 4, 5, 1)),
    "more unavailable than there are": ({"maxUnavailable": 9}, pods(5), 5, (5, 0, 5, 5)),
    "a percentage unavailable": ({"maxUnavailable": "30%"}, pods(10), 10, (10, 7, 10, 3)),
    "rounded up": ({"maxUnavailable": "31%"}, pods(10), 10, (10, 6, 10, 4)),
    "nothing said": ({}, pods(2), 0, (2, 0, 0, 0)),
    "terminating": ({"minAvailable": 1}, pods(2, is_terminating=True), 0, (0, 1, 2, 0)),
}


def budget(status: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"generation": 3}, "spec": spec, "status": status or {}}


@pytest.mark.parametrize("name", CASES)
def test_status(name: str) -> None:
    spec, members, scale, wanted = CASES[name]
    status, recheck, late = decided(budget(**spec), members, scale, NOW)
    numbers = tuple(status[each] for each in ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"))
    assert (numbers, recheck, late, status["observedGeneration"]) == (wanted, None, (), 3)
    reason = "SufficientPods" if wanted[3] else "InsufficientPods"
    (condition,) = status["conditions"]
    assert condition == {
        "type": "DisruptionAllowed",
        "status": str(wanted[3] > 0),
        "reason": reason,
        "message": "",
        "observedGeneration": 3,
        "lastTransitionTime": TIME,
    }


def test_evicted_pods_count_as_gone_for_two_minutes() -> None:
    at = {name: times.format_time(NOW - age) for name, age in (("p0", 30), ("p1", 200), ("gone", 1))}
    status, recheck, late = decided(budget({"disruptedPods": at}, minAvailable=1), pods(3), 0, NOW)
    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (2, 1)
    assert (status["disruptedPods"], recheck, late) == ({"p0": at["p0"]}, 90.0, ("p1",))


def test_the_time_of_the_condition_is_that_of_its_state() -> None:
    before = decided(budget(minAvailable=1), pods(3), 0, NOW - 100).status
    same = decided(budget(before, minAvailable=2), pods(3), 0, NOW).status
    other = decided(budget(before, minAvailable=3), pods(3), 0, NOW).status
    times_of = [each["conditions"][0]["lastTransitionTime"] for each in (before, same, other)]
    assert times_of == [times.format_time(NOW - 100), times.format_time(NOW - 100), TIME]


def test_one_that_failed() -> None:
    before = decided(budget(minAvailable=1), pods(3), 0, NOW).status
    status = failed(budget(before), "why", NOW)
    assert (status["disruptionsAllowed"], status["currentHealthy"]) == (0, 3)
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "SyncFailed", "why")


@pytest.mark.parametrize(("value", "total", "wanted"), [(3, 10, 3), ("0%", 10, 0), ("1%", 10, 1), ("100%", 7, 7), ("150%", 2, 3)])
def test_numbers_and_percentages(value: Any, total: int, wanted: int) -> None:
    assert scaled(value, total) == wanted


@pytest.mark.parametrize("value", ["3", "x%", "", "1.5%"])
def test_texts_that_are_no_percentages(value: str) -> None:
    with pytest.raises(ValueError, match="is not a percentage"):
        scaled(value, 1)


def test_whose_scale_is_asked_for() -> None:
    asked = [needs_scale(spec) for spec in ({"minAvailable": 1}, {"minAvailable": "1%"}, {"maxUnavailable": 1}, {})]
    assert asked == [False, True, True, False]


# --- the controller ---


@pytest.fixture
async def controller(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DisruptionController]:
    monkeypatch.setattr(disruption, "_WAIT", 0.0)  # timers are not fired
    kinds = Kinds(server.environment, server.engine.admission)
    server.engine.installer.install([("built-in kinds", kinds.served())])
    server.run()
    index = PodIndex(partial(kinds.store, "", "pods"), server.timers.call_later)
    made = DisruptionController(server.engine.installer, server.storage, index, server.clock, server.timers.call_later)
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    kinds.end_watches()


async def post(client: Client, path: str, version: str, kind: str, name: str, spec: Any, **metadata: Any) -> Any:
    answer = await client.post(path, {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec})
    assert answer.status == 201, answer.body
    return answer.json()


async def ready(client: Client, name: str, owner: Any = None) -> None:
    owners = [{**{each: owner[each] for each in ("apiVersion", "kind")}, "controller": True}] if owner else []
    for each in owners:
        each |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    await post(client, PODS, "v1", "Pod", name, spec, labels={"a": "b"}, ownerReferences=owners)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert (await client.merge(f"{PODS}/{name}/status", {"status": status})).status == 200


async def budget_of(client: Client, **spec: Any) -> None:
    selector = {"matchLabels": {"a": "b"}}
    await post(client, BUDGETS, "policy/v1", "PodDisruptionBudget", "pdb", {"selector": selector, **spec})


async def becomes(client: Client, wanted: Any, *members: str) -> Any:
    """Wait until the budget's status has these values."""
    members = members or ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")
    for _ in range(1500):
        status = (await client.get(f"{BUDGETS}/pdb")).json().get("status") or {}
        found = tuple(status.get(each) for each in members)
        if found == wanted:
            return status
        await asyncio.sleep(0)
    assert found == wanted
    return None


async def evict(client: Client, name: str) -> int:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return (await client.post(f"{PODS}/{name}/eviction", body)).status


@pytest.mark.usefixtures("controller")
async def test_evictions_respect_it(client: Client) -> None:
    for name in ("one", "two"):
        await ready(client, name)
    await budget_of(client, minAvailable=1)
    await becomes(client, (2, 1, 2, 1))
    assert [await evict(client, "one"), await evict(client, "two")] == [201, 429]
    await becomes(client, (1, 1, 2, 0))
    await client.delete(f"{PODS}/one", {"gracePeriodSeconds": 0})
    await becomes(client, (1, 1, 1, 0))
    await ready(client, "three")
    await becomes(client, (2, 1, 2, 1))
    assert await evict(client, "two") == 201


@pytest.mark.usefixtures("controller")
async def test_what_a_deployment_wants(client: Client) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "replicas": 4}
    owner = await post(client, f"{APPS}/deployments", "apps/v1", "Deployment", "web", spec)
    reference = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    replica_set = await post(client, f"{APPS}/replicasets", "apps/v1", "ReplicaSet", "web-1", spec, ownerReferences=[reference])
    await client.merge(f"{APPS}/deployments/web", {"spec": {"replicas": 10}})
    for name in ("one", "two"):
        await ready(client, name, replica_set)
    await budget_of(client, maxUnavailable="90%")
    await becomes(client, (2, 1, 10, 1))


@pytest.mark.usefixtures("controller")
async def test_what_a_custom_resource_wants(client: Client, server: LocalServer) -> None:
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    for name, more in (("crews", {"subresources": {"scale": paths}}), ("bands", {})):
        each = {"plural": name, "singular": name[:-1], "kind": name[:-1].title(), "listKind": f"{name[:-1].title()}List"}
        spec = {"group": "example.com", "scope": "Namespaced", "names": each, "versions": [{**version, **more}]}
        metadata = {"name": f"{name}.example.com"}
        crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}
        server.serve(crd)
    base = "/apis/example.com/v1/namespaces/default"
    crew = await post(client, f"{base}/crews", "example.com/v1", "Crew", "mine", {"size": 5})
    await ready(client, "one", crew)
    await budget_of(client, minAvailable="20%")
    await becomes(client, (1, 1, 5, 0))
    band = await post(client, f"{base}/bands", "example.com/v1", "Band", "mine", {})
    await ready(client, "two", band)
    status = await becomes(client, (0, 5), "disruptionsAllowed", "expectedPods")
    for _ in range(1500):
        status = (await client.get(f"{BUDGETS}/pdb")).json()["status"]
        if status["conditions"][0]["reason"] == "SyncFailed":
            break
        await asyncio.sleep(0)
    assert status["conditions"][0]["message"] == "bands.example.com does not implement the scale subresource"


@pytest.mark.usefixtures("controller")
async def test_pods_without_a_controller(client: Client) -> None:
    await ready(client, "one")
    await budget_of(client, maxUnavailable=1)
    await becomes(client, (1, 0, 0, 0))
    events = (await client.get(f"{CORE}/events")).json()["items"]
    selector = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"
    assert [event["reason"] for event in events] == ["UnmanagedPods"]
    assert f"(selector: {selector})" in events[0]["message"]


@pytest.mark.usefixtures("controller")
async def test_a_pod_that_was_to_be_disrupted_and_was_not(client: Client, server: LocalServer) -> None:
    await ready(client, "one")
    target = {"type": "DisruptionTarget", "status": "True", "reason": "X", "lastTransitionTime": TIME}
    conditions = (await client.get(f"{PODS}/one")).json()["status"]["conditions"]
    await client.merge(f"{PODS}/one/status", {"status": {"conditions": [*conditions, target]}})
    for _ in range(1500):
        if 120.0 in server.timers.seconds:
            break
        await asyncio.sleep(0)
    server.clock.advance(121)
    server.timers.fire(120.0)
    for _ in range(1500):
        found = (await client.get(f"{PODS}/one")).json()["status"]["conditions"]
        if [each["status"] for each in found if each["type"] == "DisruptionTarget"] == ["False"]:
            return
        await asyncio.sleep(0)
    raise AssertionError(found)
