"""`--pods=run` and `--pods=pending` on a server in memory, with the garbage collector beside it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from aggserver.controllers.pods.runner import PodRunner
from aggserver.controllers.workloads import controller
from aggserver.controllers.workloads.controller import WorkloadController
from aggserver.controllers.workloads.plan import Plan
from aggserver.controllers.workloads.replicas import replicas
from aggserver.kinds.served import Kinds
from aggserver.registry.stored import StoredObject
from tests.fakes.asgi import Client
from tests.fakes.clock import settled
from tests.fakes.server import LocalServer

APPS, BATCH, CORE = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default", "/api/v1/namespaces/default"
PODS = f"{CORE}/pods"
SPEC = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
SELECTING = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


@pytest.fixture(params=["run"])
def mode(request: pytest.FixtureRequest) -> str:
    """The value of `--pods`, or `run 30` for Pods of Jobs that run for 30 seconds."""
    return str(request.param)


@pytest.fixture(autouse=True)
async def running(server: LocalServer, mode: str) -> AsyncIterator[None]:
    # Names that are generated must differ, since the timers that would try again are not fired.
    environment = replace(server.environment, random=random.Random(1).randrange)
    kinds = Kinds(environment, server.engine.admission)
    server.engine.installer.install([("built-in kinds", kinds.served())])
    server.run()
    installer, storage, clock = server.engine.installer, server.storage, server.clock
    runner = PodRunner(installer, storage, clock, float(mode.removeprefix("run") or 0)) if mode != "pending" else None
    if runner is not None:
        await runner.make_node()
    pods_are_run = runner.sync if runner is not None else None
    task = asyncio.create_task(WorkloadController(installer, storage, clock, pods_are_run, server.timers.call_later).run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    kinds.end_watches()


async def post(client: Client, path: str, kind: str, name: str, spec: Any, **metadata: Any) -> Any:
    version = "v1" if path.startswith("/api/") else path.split("/")[2] + "/v1"
    answer = await client.post(path, {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec})
    assert answer.status == 201, answer.body
    return answer.json()


async def comes(client: Client, path: str, **status: Any) -> Any:
    """The object at a path, once its status has these members."""
    for _ in range(300):
        answer = await client.get(path)
        if answer.status == 200:
            obj = answer.json()
            if obj.get("status", {}).items() >= status.items():
                return obj
        await asyncio.sleep(0)
    raise AssertionError(answer.json())


async def pods(client: Client, count: int) -> list[Any]:
    for _ in range(300):
        items: list[Any] = (await client.get(PODS)).json()["items"]
        if len(items) == count:
            return items
        await asyncio.sleep(0)
    raise AssertionError(items)


async def test_a_pod(client: Client) -> None:
    await post(client, PODS, "Pod", "one", SPEC)
    pod = await comes(client, f"{PODS}/one", phase="Running")
    assert pod["spec"]["nodeName"] == "aggserver"
    node = (await client.get("/api/v1/nodes/aggserver")).json()
    assert [(entry["type"], entry["status"]) for entry in node["status"]["conditions"]] == [("Ready", "True")]
    assert "taints" not in node["spec"]
    deleted = (await client.delete(f"{PODS}/one")).json()
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 30
    await pods(client, 0)


async def test_a_deleted_pod_is_not_ready_before_it_is_gone(client: Client) -> None:
    """As the kubelet has it, for those who wait for that."""
    await post(client, PODS, "Pod", "one", SPEC, finalizers=["example.com/mine"])
    await comes(client, f"{PODS}/one", phase="Running")
    await client.delete(f"{PODS}/one")
    pod = await comes(client, f"{PODS}/one", phase="Succeeded")
    assert {each["type"]: each["status"] for each in pod["status"]["conditions"]}["Ready"] == "False"
    await client.merge(f"{PODS}/one", {"metadata": {"finalizers": None}})
    await pods(client, 0)


async def test_a_pod_that_others_schedule(client: Client) -> None:
    await post(client, PODS, "Pod", "mine", {**SPEC, "schedulerName": "mine"})
    await post(client, PODS, "Pod", "gated", {**SPEC, "schedulingGates": [{"name": "example.com/gate"}]})
    await post(client, PODS, "Pod", "one", SPEC)
    await comes(client, f"{PODS}/one", phase="Running")
    for name in ("mine", "gated"):
        pod = (await client.get(f"{PODS}/{name}")).json()
        assert (pod["spec"].get("nodeName"), pod["status"]["phase"]) == (None, "Pending")
    target = {"apiVersion": "v1", "kind": "Node", "name": "other"}
    await client.post(
        f"{PODS}/mine/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "mine"}, "target": target}
    )
    assert (await comes(client, f"{PODS}/mine", phase="Running"))["spec"]["nodeName"] == "other"


async def test_a_deployment(client: Client) -> None:
    await post(client, f"{APPS}/deployments", "Deployment", "web", {**SELECTING, "replicas": 2})
    web = await comes(client, f"{APPS}/deployments/web", availableReplicas=2, updatedReplicas=2, replicas=2, observedGeneration=1)
    assert web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    first = {pod["metadata"]["uid"] for pod in await pods(client, 2)}
    changed = {"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}}
    await client.merge(f"{APPS}/deployments/web", changed)
    await comes(client, f"{APPS}/deployments/web", availableReplicas=3, updatedReplicas=3, replicas=3)
    second = await pods(client, 3)
    assert first.isdisjoint(pod["metadata"]["uid"] for pod in second)
    assert {pod["spec"]["containers"][0]["image"] for pod in second} == {"j"}
    # The collector takes what belongs to it.
    await client.delete(f"{APPS}/deployments/web", {"propagationPolicy": "Background"})
    await pods(client, 0)
    assert (await client.get(f"{APPS}/replicasets")).json()["items"] == []


async def test_a_deleted_pod_is_replaced(client: Client) -> None:
    await post(client, f"{APPS}/replicasets", "ReplicaSet", "web", {**SELECTING, "replicas": 1})
    await comes(client, f"{APPS}/replicasets/web", readyReplicas=1)
    (pod,) = await pods(client, 1)
    await client.delete(f"{PODS}/{pod['metadata']['name']}")
    for _ in range(300):
        now = [each["metadata"]["name"] for each in (await client.get(PODS)).json()["items"]]
        if len(now) == 1 and now != [pod["metadata"]["name"]]:
            break
        await asyncio.sleep(0)
    assert len(now) == 1


async def test_a_stateful_set(client: Client) -> None:
    await post(client, f"{APPS}/statefulsets", "StatefulSet", "db", {**SELECTING, "serviceName": "db", "replicas": 2})
    made = await comes(client, f"{APPS}/statefulsets/db", readyReplicas=2, updatedReplicas=2)
    assert made["status"]["currentRevision"] == made["status"]["updateRevision"]
    assert [pod["metadata"]["name"] for pod in await pods(client, 2)] == ["db-0", "db-1"]
    await client.merge(f"{APPS}/statefulsets/db", {"spec": {"replicas": 1}})
    assert [pod["metadata"]["name"] for pod in await pods(client, 1)] == ["db-0"]


async def test_a_daemon_set(client: Client) -> None:
    await post(client, f"{APPS}/daemonsets", "DaemonSet", "agent", SELECTING)
    await comes(client, f"{APPS}/daemonsets/agent", numberReady=1, desiredNumberScheduled=1, updatedNumberScheduled=1)


async def test_a_job(client: Client) -> None:
    template = {"spec": {**SPEC, "restartPolicy": "Never"}}
    await post(client, f"{BATCH}/jobs", "Job", "hi", {"template": template, "completions": 3, "parallelism": 2})
    done = await comes(client, f"{BATCH}/jobs/hi", succeeded=3)
    assert ("Complete", "True") in [(entry["type"], entry["status"]) for entry in done["status"]["conditions"]]
    assert {pod["status"]["phase"] for pod in await pods(client, 3)} == {"Succeeded"}
    assert (await client.get(f"{BATCH}/jobs/hi")).json()["status"].get("active") is None


async def test_the_pods_of_others_are_not_read(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        await post(client, PODS, "Pod", f"other-{number}", SPEC)
        await comes(client, f"{PODS}/other-{number}", phase="Running")
    read: list[str] = []
    decoded = StoredObject.decoded

    def counted(self: StoredObject) -> Any:
        read.append(self.key)
        return decoded(self)

    monkeypatch.setattr(StoredObject, "decoded", counted)
    await post(client, f"{APPS}/replicasets", "ReplicaSet", "three", {"replicas": 3, **SELECTING})
    await comes(client, f"{APPS}/replicasets/three", readyReplicas=3)
    assert not [key for key in read if "/other-" in key]


async def until(client: Client, path: str, holds: Callable[[Any], bool]) -> Any:
    """The answer to a get of a path, once it is as it should be."""
    for _ in range(300):
        answer = (await client.get(path)).json()
        if holds(answer):
            return answer
        await asyncio.sleep(0)
    raise AssertionError(answer)


def controllers(pod: Any) -> list[str]:
    return [f"{each['kind']}/{each['name']}" for each in pod["metadata"].get("ownerReferences", ()) if each.get("controller")]


CONTROLLERS: dict[str, tuple[str, str, Any]] = {
    # kind: (path, apiVersion, spec)
    "ReplicationController": (f"{CORE}/replicationcontrollers", "v1", {"selector": {"a": "b"}, "template": TEMPLATE}),
    "ReplicaSet": (f"{APPS}/replicasets", "apps/v1", SELECTING),
}


@pytest.mark.parametrize("kind", CONTROLLERS)
async def test_pods_are_adopted_and_released(client: Client, kind: str) -> None:
    path, _, spec = CONTROLLERS[kind]
    await post(client, PODS, "Pod", "mine", SPEC, labels={"a": "b"})
    await post(client, PODS, "Pod", "other", SPEC, labels={"a": "c"})
    await comes(client, f"{PODS}/mine", phase="Running")
    await post(client, path, kind, "web", {**spec, "replicas": 2})
    await comes(client, f"{path}/web", replicas=2, readyReplicas=2, fullyLabeledReplicas=2, availableReplicas=2)
    items = await pods(client, 3)
    assert {pod["metadata"]["name"]: controllers(pod) for pod in items if pod["metadata"]["name"] in ("mine", "other")} == {
        "mine": [f"{kind}/web"],
        "other": [],
    }
    # One that was adopted is let go, and replaced.
    await client.merge(f"{PODS}/mine", {"metadata": {"labels": {"a": "z"}}})
    items = await pods(client, 4)
    assert [controllers(pod) for pod in items if pod["metadata"]["name"] == "mine"] == [[]]
    # One too many is deleted.
    await client.merge(f"{PODS}/mine", {"metadata": {"labels": {"a": "b"}}})
    await pods(client, 3)
    await client.merge(f"{path}/web/scale", {"spec": {"replicas": 1}})
    await comes(client, f"{path}/web", replicas=1, observedGeneration=2)


async def test_a_workload_that_is_being_deleted_adopts_nothing(client: Client) -> None:
    path = f"{APPS}/replicasets"
    await post(client, path, "ReplicaSet", "web", {**SELECTING, "replicas": 0}, finalizers=["example.com/mine"])
    await comes(client, f"{path}/web", observedGeneration=1)
    await client.delete(f"{path}/web")
    await post(client, PODS, "Pod", "free", SPEC, labels={"a": "b"})
    await comes(client, f"{PODS}/free", phase="Running")
    (pod,) = await pods(client, 1)
    assert controllers(pod) == []


async def test_a_deployment_adopts_its_former_replica_sets(client: Client) -> None:
    await post(client, f"{APPS}/deployments", "Deployment", "web", {**SELECTING, "replicas": 1})
    await comes(client, f"{APPS}/deployments/web", availableReplicas=1)
    await client.delete(f"{APPS}/deployments/web", {"propagationPolicy": "Orphan"})
    sets = f"{APPS}/replicasets"
    await until(client, sets, lambda found: [controllers(each) for each in found["items"]] == [[]])
    await post(client, f"{APPS}/deployments", "Deployment", "again", {**SELECTING, "replicas": 1})
    found = await until(client, sets, lambda found: controllers(found["items"][0]) == ["Deployment/again"])
    assert len(found["items"]) == 1


@pytest.mark.parametrize("mode", ["pending"], indirect=True)
async def test_pods_that_nobody_runs(client: Client) -> None:
    await post(client, f"{APPS}/deployments", "Deployment", "web", {**SELECTING, "replicas": 2})
    web = await comes(client, f"{APPS}/deployments/web", replicas=2, updatedReplicas=2, unavailableReplicas=2)
    assert {entry["type"]: entry["status"] for entry in web["status"]["conditions"]}["Available"] == "False"
    assert {pod["status"]["phase"] for pod in await pods(client, 2)} == {"Pending"}
    assert (await client.get("/api/v1/nodes")).json()["items"] == []
    await client.delete(f"{APPS}/deployments/web")
    await pods(client, 0)
    await post(client, f"{APPS}/daemonsets", "DaemonSet", "agent", SELECTING)
    await comes(client, f"{APPS}/daemonsets/agent", desiredNumberScheduled=0, observedGeneration=1)
    taints = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
    await client.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}, "spec": taints})
    # The taint of a new node goes when it is ready.
    ready = {"type": "Ready", "status": "True"}
    await client.merge("/api/v1/nodes/one/status", {"status": {"conditions": [ready]}})
    await comes(client, f"{APPS}/daemonsets/agent", desiredNumberScheduled=1, currentNumberScheduled=1)
    await client.delete("/api/v1/nodes/one")
    await comes(client, f"{APPS}/daemonsets/agent", desiredNumberScheduled=0)


@pytest.mark.parametrize("mode", ["run 30"], indirect=True)
async def test_a_job_whose_pods_take_a_while(client: Client, server: LocalServer) -> None:
    template = {"spec": {**SPEC, "restartPolicy": "Never"}}
    await post(client, f"{BATCH}/jobs", "Job", "hi", {"template": template})
    await comes(client, f"{BATCH}/jobs/hi", active=1, ready=1, terminating=0)
    server.clock.now += 30
    server.timers.fire(30)
    await comes(client, f"{BATCH}/jobs/hi", succeeded=1)


@pytest.mark.parametrize("mode", ["run 30"], indirect=True)
async def test_a_job_with_a_deadline(client: Client, server: LocalServer) -> None:
    template = {"spec": {**SPEC, "restartPolicy": "Never"}}
    await post(client, f"{BATCH}/jobs", "Job", "hi", {"template": template, "activeDeadlineSeconds": 5})
    await comes(client, f"{BATCH}/jobs/hi", active=1, ready=1)
    server.clock.now += 5
    server.timers.fire(5)
    failed = await comes(client, f"{BATCH}/jobs/hi", ready=0)
    assert [entry["reason"] for entry in failed["status"]["conditions"]] == ["DeadlineExceeded", "DeadlineExceeded"]
    await pods(client, 0)


HISTORIES: dict[str, tuple[str, Any]] = {
    # kind: (path, what its status has when a rollout is done)
    "StatefulSet": (f"{APPS}/statefulsets", {"updatedReplicas": 1, "readyReplicas": 1}),
    "DaemonSet": (f"{APPS}/daemonsets", {"updatedNumberScheduled": 1, "numberReady": 1}),
}


@pytest.mark.parametrize("kind", HISTORIES)
async def test_history(client: Client, kind: str) -> None:
    path, done = HISTORIES[kind]
    await post(client, path, kind, "web", {**SELECTING, "revisionHistoryLimit": 1})
    await comes(client, f"{path}/web", **done, observedGeneration=1)

    async def revisions(*numbers: int) -> Any:
        found = await until(
            client,
            f"{APPS}/controllerrevisions",
            lambda found: sorted(each["revision"] for each in found["items"]) == [*numbers],
        )
        return sorted(found["items"], key=lambda each: each["revision"])

    (first,) = await revisions(1)
    assert controllers(first) == [f"{kind}/web"]
    images = iter("jkl")
    for generation, numbers in ((2, (1, 2)), (3, (2, 3))):
        await client.merge(
            f"{path}/web", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": next(images)}]}}}}
        )
        await comes(client, f"{path}/web", **done, observedGeneration=generation)
        second, _ = await revisions(*numbers)
    # Back to the one before: it has the highest number then, and no new one is made.
    strategic = {"content_type": "application/strategic-merge-patch+json"}
    answer = await client.request("PATCH", f"{path}/web", second["data"], **strategic)
    assert answer.status == 200
    _, back = await revisions(3, 4)
    assert back["metadata"]["uid"] == second["metadata"]["uid"]
    await until(client, PODS, lambda found: [each["spec"]["containers"][0]["image"] for each in found["items"]] == ["j"])
    if kind == "StatefulSet":
        web = await comes(client, f"{path}/web", **done, observedGeneration=4)
        assert web["status"]["currentRevision"] == web["status"]["updateRevision"] == back["metadata"]["name"]


async def test_pods_that_are_refused(client: Client) -> None:
    """The condition says why; so does an Event."""
    template = {"metadata": {**TEMPLATE["metadata"], "finalizers": ["not a name!"]}, "spec": SPEC}
    path = f"{APPS}/replicasets"
    await post(client, path, "ReplicaSet", "web", {**SELECTING, "replicas": 1, "template": template})
    refused = await until(client, f"{path}/web", lambda found: "conditions" in found["status"])
    (condition,) = refused["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
    found = await until(client, f"{CORE}/events", lambda found: found["items"])
    assert found["items"][0]["message"] == f"Error creating: {condition['message']}"


async def test_changes_of_many_pods_are_gathered(client: Client, server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan reads all Pods of a workload: one for each change of a Pod would take time for their square."""
    plans = list[int]()

    def counted(owner: Any, found: list[Any], now: float) -> Plan:
        plans.append(len(found))
        return replicas(owner, found, now)

    monkeypatch.setattr(controller, "_FEW", 10)
    monkeypatch.setattr(controller, "replicas", counted)
    await post(client, f"{APPS}/replicasets", "ReplicaSet", "web", {**SELECTING, "replicas": 40})
    await comes(client, f"{APPS}/replicasets/web", readyReplicas=40)
    await settled()
    before = len(plans)
    for each in await pods(client, 40):
        await client.merge(f"{PODS}/{each['metadata']['name']}", {"metadata": {"annotations": {"a": "b"}}})
        await settled()
    assert len(plans) == before
    server.timers.fire(40 * 0.0001)
    await settled()
    assert len(plans) == before + 1
