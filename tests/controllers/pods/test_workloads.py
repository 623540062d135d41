"""What the controllers of workloads would do: by tables of what there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aggserver.controllers.pods import running as running_pods
from aggserver.controllers.pods import workloads
from aggserver.controllers.pods.workloads import HASH_LABEL, REVISION, WorkloadPlan

NOW, EARLIER = "2026-01-02T03:04:05Z", "2026-01-02T03:00:00Z"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
OTHER = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "j"}]}}


def owner(kind: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "default", "uid": "1", "generation": 3}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, **spec}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "status": {}}


def pod(name: str, *, ready: bool = True, phase: str = "Running", labels: Any = None, **metadata: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    metadata = {"name": name, "namespace": "default", "labels": {"a": "b", **(labels or {})}, **metadata}
    return {"kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": phase, "conditions": conditions}}


def replica_set(name: str, revision: int, template: Any = TEMPLATE, wanted: int = 1, **status: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": {REVISION: str(revision)}}
    return {"kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": wanted, "template": template}, "status": status}


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"].get("name") or each["metadata"]["generateName"] for each in objects]


def steps(plan: WorkloadPlan) -> tuple[list[str], list[str], list[tuple[str, int]]]:
    return names(plan.create), names(plan.delete), [(each["metadata"]["name"], replicas) for each, replicas in plan.scale]


def counts(plan: WorkloadPlan) -> dict[str, Any]:
    return {name: value for name, value in plan.status.items() if isinstance(value, int) and name != "observedGeneration"}


# --- ReplicaSets ---


def _counted(ready: int) -> dict[str, int]:
    return dict.fromkeys(("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"), ready)


SETS: dict[str, tuple[int, list[dict[str, Any]], tuple[list[str], list[str]], dict[str, int]]] = {
    # name: (replicas, pods, (created, deleted), the numbers of the status)
    "none": (2, [], (["web-", "web-"], []), {"replicas": 0}),
    "enough": (1, [pod("a")], ([], []), _counted(1)),
    "one that is not ready": (1, [pod("a", ready=False)], ([], []), {"replicas": 1, "fullyLabeledReplicas": 1}),
    "one that is being deleted": (1, [pod("a", deletionTimestamp=NOW)], (["web-"], []), {"replicas": 0}),
    "one that has ended": (1, [pod("a", phase="Failed", ready=False)], (["web-"], []), {"replicas": 0}),
    "too many": (
        1,
        [pod("a", creationTimestamp=EARLIER), pod("b", creationTimestamp=NOW)],
        ([], ["b"]),
        _counted(2),
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_replica_set(name: str) -> None:
    replicas, pods, wanted, status = SETS[name]
    plan = workloads.replica_set(owner("ReplicaSet", replicas=replicas), pods)
    assert steps(plan)[:2] == wanted
    assert counts(plan) == status
    assert plan.status["observedGeneration"] == 3


def test_a_pod_of_a_template() -> None:
    (made,) = workloads.replica_set(owner("ReplicaSet"), []).create
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}
    owners = [{**reference, "controller": True, "blockOwnerDeletion": True}]
    assert made["metadata"] == {"namespace": "default", "generateName": "web-", "labels": {"a": "b"}, "ownerReferences": owners}
    assert made["spec"] == TEMPLATE["spec"]
    assert made["spec"] is not TEMPLATE["spec"]


MANY = 2**31 - 1
GREEDY: dict[str, Callable[[], WorkloadPlan]] = {
    "ReplicaSet": lambda: workloads.replica_set(owner("ReplicaSet", replicas=MANY), []),
    "StatefulSet": lambda: workloads.stateful_set(owner("StatefulSet", replicas=MANY, podManagementPolicy="Parallel"), [], []),
    "Job": lambda: workloads.job(owner("Job", parallelism=MANY, completions=MANY), [], NOW),
    "Job with indexes": lambda: workloads.job(
        owner("Job", parallelism=MANY, completions=MANY, completionMode="Indexed"), [], NOW
    ),
}


@pytest.mark.parametrize("name", GREEDY)
def test_a_plan_has_few_pods_however_many_are_wanted(name: str) -> None:
    assert len(GREEDY[name]().create) == 500


# --- Deployments ---

RECREATE = {"strategy": {"type": "Recreate"}}
UP = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}
DEPLOYMENTS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[int, list[str], list[tuple[str, int]]]]] = {
    # name: (spec, ReplicaSets, (how many are created, which are deleted, which are scaled))
    "the first": ({}, [], (1, [], [])),
    "done": ({}, [replica_set("new", 1, **UP)], (0, [], [])),
    "scaled": ({"replicas": 3}, [replica_set("new", 1, **UP)], (0, [], [("new", 3)])),
    "another template": ({}, [replica_set("old", 1, OTHER, **UP)], (1, [], [])),
    "a new one that is not up": ({}, [replica_set("old", 1, OTHER, **UP), replica_set("new", 2)], (0, [], [])),
    "a new one that is up": ({}, [replica_set("old", 1, OTHER, **UP), replica_set("new", 2, **UP)], (0, [], [("old", 0)])),
    "recreated: first the old one": (RECREATE, [replica_set("old", 1, OTHER, **UP)], (1, [], [("old", 0)])),
    "recreated: then the new one": (
        RECREATE,
        [replica_set("old", 1, OTHER, 0), replica_set("new", 2, wanted=0)],
        (0, [], [("new", 1)]),
    ),
    "paused": ({"paused": True, "replicas": 2}, [replica_set("old", 1, OTHER, **UP)], (0, [], [("old", 2)])),
    "paused before the first": ({"paused": True}, [], (0, [], [])),
    "history": (
        {"revisionHistoryLimit": 1},
        [replica_set("a", 1, OTHER, 0), replica_set("b", 2, {**OTHER, "x": 1}, 0), replica_set("new", 3, **UP)],
        (0, ["a"], []),
    ),
}


OF_DEPLOYMENT = "deployment.kubernetes.io/"


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_deployment(name: str) -> None:
    spec, sets, (created, deleted, scaled) = DEPLOYMENTS[name]
    plan = workloads.deployment(owner("Deployment", **spec), sets, NOW)
    assert (len(plan.create), *steps(plan)[1:]) == (created, deleted, scaled)


def test_a_new_replica_set() -> None:
    deployment = owner("Deployment", replicas=2)
    deployment["metadata"]["annotations"] = {"kubernetes.io/change-cause": "why", REVISION: "4"}
    plan = workloads.deployment(deployment, [replica_set("old", 4, OTHER)], NOW)
    (made,) = plan.create
    digest = made["metadata"]["labels"][HASH_LABEL]
    assert made["metadata"]["name"] == f"web-{digest}"
    replicas = {f"{OF_DEPLOYMENT}desired-replicas": "2", f"{OF_DEPLOYMENT}max-replicas": "3"}
    assert made["metadata"]["annotations"] == {"kubernetes.io/change-cause": "why", REVISION: "5", **replicas}
    assert made["spec"]["selector"] == {"matchLabels": {"a": "b", HASH_LABEL: digest}}
    assert made["spec"]["template"]["metadata"]["labels"] == {"a": "b", HASH_LABEL: digest}
    assert plan.annotate == [(deployment, {REVISION: "5"})]
    # It is known again by its template.
    made["metadata"]["uid"] = "2"
    assert workloads.deployment(deployment, [made, replica_set("old", 4, OTHER)], NOW).create == []


def test_back_to_an_older_revision() -> None:
    deployment, back = owner("Deployment"), replica_set("a", 1)
    plan = workloads.deployment(deployment, [back, replica_set("b", 2, OTHER)], NOW)
    replicas = {f"{OF_DEPLOYMENT}desired-replicas": "1", f"{OF_DEPLOYMENT}max-replicas": "2"}
    in_use = {REVISION: "3", f"{OF_DEPLOYMENT}revision-history": "1", **replicas}
    assert plan.annotate == [(deployment, {REVISION: "3"}), (back, in_use)]


@pytest.mark.parametrize(
    ("passed", "revision", "then"),
    [
        pytest.param("", "7", "7", id="the first"),
        pytest.param("1,3", "7", "1,3,7", id="one more"),
        pytest.param(",".join(["10"] * 666), "17", ",".join([*["10"] * 666, "17"]), id="2000 characters"),
        pytest.param(",".join(["10"] * 666), "117", ",".join([*["10"] * 665, "117"]), id="2001"),
        pytest.param(f"1,{'2' * 1997}", "345", "345", id="a long one"),
        pytest.param("1", "2" * 2001, "1", id="too long by itself"),
    ],
)
def test_the_revisions_that_a_replica_set_had(passed: str, revision: str, then: str) -> None:
    back = replica_set("a", 1)
    back["metadata"]["annotations"] = {REVISION: revision, f"{OF_DEPLOYMENT}revision-history": passed}
    plan = workloads.deployment(owner("Deployment"), [back, replica_set("b", 10**2100, OTHER)], NOW)
    annotations = {**back["metadata"]["annotations"], **plan.annotate[-1][1]}
    assert annotations[f"{OF_DEPLOYMENT}revision-history"] == then


@pytest.mark.parametrize(
    ("strategy", "most"),
    [
        ({"type": "Recreate"}, "5"),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3}}, "8"),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "30%"}}, "7"),
    ],
    ids=["recreated", "a number", "a share"],
)
def test_the_most_replicas_of_a_rollout(strategy: dict[str, Any], most: str) -> None:
    (made,) = workloads.deployment(owner("Deployment", replicas=5, strategy=strategy), [], NOW).create
    assert made["metadata"]["annotations"][f"{OF_DEPLOYMENT}max-replicas"] == most


@pytest.mark.parametrize(("manager", "made"), [("example.com/mine", 0), ("kubernetes.io/job-controller", 1)])
def test_a_job_that_another_manages_is_left_alone(manager: str, made: int) -> None:
    plan = workloads.job(owner("Job", managedBy=manager), [], NOW)
    assert (len(plan.create), bool(plan.status)) == (made, bool(made))


def test_conditions_of_a_deployment() -> None:
    deployment = owner("Deployment", replicas=2)
    before = workloads.deployment(deployment, [replica_set("new", 1, wanted=2)], EARLIER).status
    assert [(entry["type"], entry["status"], entry["reason"]) for entry in before["conditions"]] == [
        ("Available", "False", "MinimumReplicasUnavailable"),
        ("Progressing", "True", "ReplicaSetUpdated"),
    ]
    up = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    after = workloads.deployment({**deployment, "status": before}, [replica_set("new", 1, wanted=2, **up)], NOW).status
    assert [(entry["reason"], entry["lastTransitionTime"], entry["lastUpdateTime"]) for entry in after["conditions"]] == [
        ("MinimumReplicasAvailable", NOW, NOW),
        ("NewReplicaSetAvailable", EARLIER, NOW),
    ]
    assert after["updatedReplicas"] == after["replicas"] == after["availableReplicas"] == 2
    assert after["unavailableReplicas"] is None


# --- StatefulSets and DaemonSets ---


def revision_of(kind: str) -> dict[str, str]:
    plan = workloads.daemon_set(owner(kind), [], "node") if kind == "DaemonSet" else workloads.stateful_set(owner(kind), [], [])
    return {"controller-revision-hash": plan.create[-1]["metadata"]["labels"]["controller-revision-hash"]}


STATEFUL = revision_of("StatefulSet")
STATEFUL_SETS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[list[str], list[str]]]] = {
    # name: (spec, pods, (created, deleted))
    "the first alone": ({"replicas": 2}, [], (["web-0"], [])),
    "all at once": ({"replicas": 2, "podManagementPolicy": "Parallel"}, [], (["web-0", "web-1"], [])),
    "the next when it is ready": ({"replicas": 2}, [pod("web-0", labels=STATEFUL)], (["web-1"], [])),
    "not before": ({"replicas": 2}, [pod("web-0", ready=False, labels=STATEFUL)], ([], [])),
    "from another number": ({"ordinals": {"start": 5}}, [], (["web-5"], [])),
    "too many": ({"replicas": 0}, [pod("web-0", labels=STATEFUL), pod("web-10"), pod("web-9")], ([], ["web-10"])),
    "an old one": ({"replicas": 2}, [pod("web-0"), pod("web-1")], ([], ["web-1"])),
    "an old one below the partition": (
        {"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}},
        [pod("web-0"), pod("web-1", labels=STATEFUL)],
        ([], []),
    ),
    "an old one that its user deletes": ({"updateStrategy": {"type": "OnDelete"}}, [pod("web-0")], ([], [])),
}


@pytest.mark.parametrize("name", STATEFUL_SETS)
def test_stateful_set(name: str) -> None:
    spec, pods, wanted = STATEFUL_SETS[name]
    assert steps(workloads.stateful_set(owner("StatefulSet", **spec), pods, []))[:2] == wanted


def test_claims_of_a_stateful_set() -> None:
    templates = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    stateful = owner("StatefulSet", serviceName="db", volumeClaimTemplates=templates)
    claim, made = workloads.stateful_set(stateful, [], []).create
    assert (claim["kind"], claim["metadata"]["name"], claim["spec"]) == (
        "PersistentVolumeClaim",
        "data-web-0",
        templates[0]["spec"],
    )
    assert made["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("web-0", "db")
    assert names(workloads.stateful_set(stateful, [], ["data-web-0"]).create) == ["web-0"]


def test_revisions_of_a_stateful_set() -> None:
    stateful = owner("StatefulSet")
    first = workloads.stateful_set(stateful, [pod("web-0", labels=STATEFUL)], []).status
    assert first["currentRevision"] == first["updateRevision"] == STATEFUL["controller-revision-hash"]
    stateful["status"], stateful["spec"]["template"] = first, OTHER
    second = workloads.stateful_set(stateful, [pod("web-0", labels=STATEFUL)], []).status
    assert second["currentRevision"] == first["currentRevision"] != second["updateRevision"]
    assert (second["currentReplicas"], second["updatedReplicas"]) == (1, None)


def test_daemon_set() -> None:
    daemon, labels = owner("DaemonSet"), revision_of("DaemonSet")
    (made,) = workloads.daemon_set(daemon, [], "node").create
    assert made["spec"]["nodeName"] == "node"
    done = workloads.daemon_set(daemon, [pod("a", labels=labels)], "node")
    assert steps(done) == ([], [], [])
    assert counts(done) == {
        "desiredNumberScheduled": 1,
        "currentNumberScheduled": 1,
        "numberMisscheduled": 0,
        "numberReady": 1,
        "numberAvailable": 1,
        "updatedNumberScheduled": 1,
    }
    assert names(workloads.daemon_set(daemon, [pod("a")], "node").delete) == ["a"]
    assert workloads.daemon_set(owner("DaemonSet", updateStrategy={"type": "OnDelete"}), [pod("a")], "node").delete == []


# --- Jobs ---

DONE, FAILED = {"phase": "Succeeded", "ready": False}, {"phase": "Failed", "ready": False}
JOBS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[int, int], list[tuple[str, str]]]] = {
    # name: (spec, pods, (how many are created, how many deleted), conditions)
    "begun": ({"completions": 1}, [], (1, 0), []),
    "running": ({"completions": 1}, [pod("a")], (0, 0), []),
    "complete": ({"completions": 1}, [pod("a", **DONE)], (0, 0), [("SuccessCriteriaMet", "True"), ("Complete", "True")]),
    "in parallel": ({"completions": 5, "parallelism": 3}, [pod("a"), pod("b", **DONE)], (2, 0), []),
    "no more than are needed": ({"completions": 2, "parallelism": 3}, [pod("b", **DONE)], (1, 0), []),
    "without a number": ({"parallelism": 2}, [], (2, 0), []),
    "suspended": ({"suspend": True}, [pod("a")], (0, 1), [("Suspended", "True")]),
    "failed once": ({"completions": 1}, [pod("a", **FAILED)], (1, 0), []),
    "failed": ({"backoffLimit": 0}, [pod("a", **FAILED), pod("b")], (0, 1), [("FailureTarget", "True"), ("Failed", "True")]),
}


@pytest.mark.parametrize("name", JOBS)
def test_job(name: str) -> None:
    spec, pods, (created, deleted), conditions = JOBS[name]
    plan = workloads.job(owner("Job", **spec), pods, NOW)
    assert (len(plan.create), len(plan.delete)) == (created, deleted)
    assert [(entry["type"], entry["status"]) for entry in plan.status["conditions"]] == conditions
    assert ("startTime" in plan.status) == (not spec.get("suspend"))
    assert ("completionTime" in plan.status) == (name == "complete")


def test_an_indexed_job() -> None:
    spec = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
    present = pod("a", annotations={"batch.kubernetes.io/job-completion-index": "1"})
    made = workloads.job(owner("Job", **spec), [present], NOW).create
    assert [each["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for each in made] == ["0", "2"]
    assert names(made) == ["web-0-", "web-2-"]


def test_counts_of_a_job_never_sink() -> None:
    """kube-apiserver refuses that of a status, and so does this server."""
    job = owner("Job", completions=4)
    job["status"] = {"succeeded": 2, "failed": 1}
    plan = workloads.job(job, [pod("a", **DONE)], NOW)
    assert (plan.status["succeeded"], plan.status["failed"], len(plan.create)) == (2, 1, 1)


def test_a_job_that_is_suspended_with_all_that_it_needs_is_not_complete() -> None:
    plan = workloads.job(owner("Job", completions=1, suspend=True), [pod("a", **DONE)], NOW)
    assert "completionTime" not in plan.status


def test_a_job_that_is_over_stays_so() -> None:
    job = owner("Job")
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert workloads.job(job, [], NOW) == WorkloadPlan()


# --- Pods ---


def bound(**spec: Any) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": EARLIER}
    return {
        "metadata": {"name": "a", "uid": "1"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
        "status": {"phase": "Pending", "conditions": [scheduled], "qosClass": "BestEffort"},
    }


def test_a_running_pod() -> None:
    status = running_pods.running(bound(initContainers=[{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]), NOW)
    assert (status["phase"], status["qosClass"], status["startTime"]) == ("Running", "BestEffort", NOW)
    conditions = {entry["type"]: (entry["status"], entry["lastTransitionTime"]) for entry in status["conditions"]}
    assert conditions["PodScheduled"] == ("True", EARLIER)
    assert conditions["Ready"] == conditions["ContainersReady"] == conditions["Initialized"] == ("True", NOW)
    (container,) = status["containerStatuses"]
    assert (container["ready"], container["state"]) == (True, {"running": {"startedAt": NOW}})
    assert [next(iter(each["state"])) for each in status["initContainerStatuses"]] == ["terminated", "running"]


def test_readiness_gates() -> None:
    waiting = bound(readinessGates=[{"conditionType": "example.com/up"}])

    def ready(pod: dict[str, Any]) -> str:
        return next(entry["status"] for entry in running_pods.running(pod, NOW)["conditions"] if entry["type"] == "Ready")

    assert ready(waiting) == "False"
    waiting["status"]["conditions"].append({"type": "example.com/up", "status": "True"})
    assert ready(waiting) == "True"


def test_a_completed_pod() -> None:
    pod = bound()
    status = running_pods.completed({**pod, "status": running_pods.running(pod, EARLIER)}, NOW)
    assert status["phase"] == "Succeeded"
    (container,) = status["containerStatuses"]
    assert container["state"]["terminated"] == {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": EARLIER,
        "finishedAt": NOW,
    }
    ready = next(entry for entry in status["conditions"] if entry["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")


@pytest.mark.parametrize("kind", ["ReplicaSet", "Job"])
def test_a_plan_has_no_copies_of_a_template(kind: str) -> None:
    """Hundreds of a large one would fill the memory."""
    given = owner(kind, replicas=500, parallelism=500, completions=500)
    plan = workloads.replica_set(given, []) if kind == "ReplicaSet" else workloads.job(given, [], NOW)
    assert len(plan.create) == 500
    assert {id(each["spec"]["containers"]) for each in plan.create} == {id(TEMPLATE["spec"]["containers"])}
