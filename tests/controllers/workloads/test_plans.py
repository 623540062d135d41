"""What the controllers of workloads would do: by tables of what there is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.controllers.workloads.daemon_sets import daemon_set, node_of
from aggserver.controllers.workloads.deployments import HASH_LABEL, REVISION, deployment
from aggserver.controllers.workloads.jobs import job
from aggserver.controllers.workloads.plan import Plan
from aggserver.controllers.workloads.replicas import replicas
from aggserver.controllers.workloads.stateful_sets import stateful_set
from aggserver.meta import times

NOW, EARLIER = "2026-01-02T03:04:05Z", "2026-01-02T03:00:00Z"
SECONDS = times.parse_time(NOW)
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
OTHER = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "j"}]}}


def owner(kind: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "default", "uid": "1", "generation": 3}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, **spec}
    if kind == "Deployment":
        spec.setdefault("progressDeadlineSeconds", 600)
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "status": {}}


def pod(name: str, *, ready: bool = True, phase: str = "Running", labels: Any = None, **metadata: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": EARLIER}]
    metadata = {"name": name, "namespace": "default", "labels": {"a": "b", **(labels or {})}, **metadata}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": "node"},
        "status": {"phase": phase, "conditions": conditions},
    }


def replica_set(name: str, revision: int, template: Any = TEMPLATE, wanted: int = 1, **status: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": {REVISION: str(revision)}}
    return {"kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": wanted, "template": template}, "status": status}


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"].get("name") or each["metadata"]["generateName"] for each in objects]


def steps(plan: Plan) -> tuple[list[str], list[str], list[tuple[str, int]]]:
    return names(plan.create), names(plan.delete), [(each["metadata"]["name"], replicas) for each, replicas in plan.scale]


def counts(plan: Plan) -> dict[str, Any]:
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
    count, pods, wanted, status = SETS[name]
    plan = replicas(owner("ReplicaSet", replicas=count), pods, SECONDS)
    assert steps(plan)[:2] == wanted
    assert counts(plan) == {**status, "terminatingReplicas": int(name == "one that is being deleted")}
    assert plan.status["observedGeneration"] == 3


def test_a_replication_controller() -> None:
    given = owner("ReplicationController", replicas=1, selector={"a": "b"})
    plan = replicas({**given, "apiVersion": "v1"}, [], SECONDS)
    (made,) = plan.create
    assert (made["metadata"]["generateName"], made["metadata"]["ownerReferences"][0]["apiVersion"]) == ("web-", "v1")


def test_pods_that_were_not_ready_for_long_are_not_available() -> None:
    young = pod("b")
    young["status"]["conditions"][0]["lastTransitionTime"] = NOW
    plan = replicas(owner("ReplicaSet", replicas=2, minReadySeconds=30), [pod("a"), young], SECONDS)
    assert (plan.status["readyReplicas"], plan.status["availableReplicas"], plan.again) == (2, 1, 30)
    plan = replicas(owner("ReplicaSet", replicas=2, minReadySeconds=30), [pod("a"), young], SECONDS + 30)
    assert (plan.status["availableReplicas"], plan.again) == (2, None)


def test_the_first_pods_to_go() -> None:
    cheap = pod("cheap", annotations={"controller.kubernetes.io/pod-deletion-cost": "-5"}, creationTimestamp=EARLIER)
    free, pending = pod("free", phase="Pending", ready=False), pod("pending", phase="Pending", ready=False)
    free["spec"] = {}
    pods = [
        pod("old", creationTimestamp=EARLIER),
        pod("new", creationTimestamp=NOW),
        cheap,
        pod("not", ready=False),
        pending,
        free,
    ]
    plan = replicas(owner("ReplicaSet", replicas=0), pods, SECONDS)
    assert names(plan.delete) == ["free", "pending", "not", "cheap", "new", "old"]


def test_a_failure_is_a_condition_until_it_is_over() -> None:
    given = owner("ReplicaSet", replicas=1)
    plan = replicas(given, [], SECONDS)
    assert plan.failed is not None
    given["status"] = plan.failed("FailedCreate", "exceeded quota")
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
    assert given["status"]["conditions"] == [{**failure, "lastTransitionTime": NOW}]
    again = replicas(given, [], SECONDS + 9)
    assert again.failed is not None
    assert again.failed("FailedCreate", "another")["conditions"] == given["status"]["conditions"]
    assert again.status["conditions"] is None
    web = deployment(owner("Deployment"), [{**replica_set("new", 1), "status": {"conditions": [failure]}}], SECONDS).status
    assert web["conditions"][-1] == {**failure, "lastTransitionTime": NOW, "lastUpdateTime": NOW}
    assert [entry["type"] for entry in deployment({**owner("Deployment"), "status": web}, [], SECONDS).status["conditions"]] == [
        "Available",
        "Progressing",
    ]


def test_a_pod_of_a_template() -> None:
    (made,) = replicas(owner("ReplicaSet"), [], SECONDS).create
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}
    owners = [{**reference, "controller": True, "blockOwnerDeletion": True}]
    assert made["metadata"] == {"namespace": "default", "generateName": "web-", "labels": {"a": "b"}, "ownerReferences": owners}
    assert made["spec"] == TEMPLATE["spec"]
    assert made["spec"] is not TEMPLATE["spec"]


MANY = 2**31 - 1
GREEDY: dict[str, Callable[[], Plan]] = {
    "ReplicaSet": lambda: replicas(owner("ReplicaSet", replicas=MANY), [], SECONDS),
    "StatefulSet": lambda: stateful(owner("StatefulSet", replicas=MANY, podManagementPolicy="Parallel"), []),
    "Job": lambda: job(owner("Job", parallelism=MANY, completions=MANY), [], SECONDS),
    "Job with indexes": lambda: job(owner("Job", parallelism=MANY, completions=MANY, completionMode="Indexed"), [], SECONDS),
}


@pytest.mark.parametrize("name", GREEDY)
def test_a_plan_has_few_pods_however_many_are_wanted(name: str) -> None:
    assert sum(each["kind"] == "Pod" for each in GREEDY[name]().create) == 500


@pytest.mark.parametrize(("known", "more"), [(1, 500), (2000, 2000), (6000, 5000)])
def test_a_plan_has_more_pods_the_more_it_has_read(known: int, more: int) -> None:
    """A plan reads all Pods that there are. With as many new ones each time, all plans together read few of them twice."""
    there = [pod("one")] * known
    for plan in (
        replicas(owner("ReplicaSet", replicas=MANY), there, SECONDS),
        job(owner("Job", parallelism=MANY, completions=MANY), there, SECONDS),
        stateful(owner("StatefulSet", replicas=MANY, podManagementPolicy="Parallel"), there),
    ):
        assert sum(each["kind"] == "Pod" for each in plan.create) == more


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


def _up(count: int) -> dict[str, int]:
    return dict.fromkeys(UP, count)


ROLLOUTS: dict[str, tuple[Any, Any, list[dict[str, Any]], list[tuple[str, int]]]] = {
    # name: (maxSurge, maxUnavailable, ReplicaSets for 10 replicas, which are scaled)
    "the new one grows by the surge": (
        3,
        2,
        [replica_set("old", 1, OTHER, 10, **_up(10)), replica_set("new", 2, wanted=0)],
        [("new", 3)],
    ),
    "an old one shrinks by what may be missing": (
        3,
        2,
        [replica_set("old", 1, OTHER, 10, **_up(10)), replica_set("new", 2, wanted=3)],
        [("old", 8)],
    ),
    "the new one takes their place": (
        3,
        2,
        [replica_set("old", 1, OTHER, 8, **_up(8)), replica_set("new", 2, wanted=3)],
        [("new", 5)],
    ),
    "nothing more can be done": (3, 2, [replica_set("old", 1, OTHER, 8, **_up(8)), replica_set("new", 2, wanted=5)], []),
    "what is not available goes first": (
        "30%",
        "20%",
        [
            replica_set("worse", 1, {**OTHER, "x": 1}, 4),
            replica_set("old", 2, OTHER, 8, **_up(8)),
            replica_set("new", 3, wanted=1),
        ],
        [("worse", 0)],
    ),
    "without either, one may be missing": (
        0,
        0,
        [replica_set("old", 1, OTHER, 10, **_up(10)), replica_set("new", 2, wanted=0)],
        [("old", 9)],
    ),
    "the new one has too many": (3, 2, [replica_set("new", 2, wanted=12, **_up(12))], [("new", 10)]),
}


@pytest.mark.parametrize("name", ROLLOUTS)
def test_a_step_of_a_rollout(name: str) -> None:
    surge, unavailable, sets, scaled = ROLLOUTS[name]
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    plan = deployment(owner("Deployment", replicas=10, strategy=strategy), sets, SECONDS)
    assert steps(plan)[2] == scaled


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_deployment(name: str) -> None:
    spec, sets, (created, deleted, scaled) = DEPLOYMENTS[name]
    plan = deployment(owner("Deployment", **spec), sets, SECONDS)
    assert (len(plan.create), *steps(plan)[1:]) == (created, deleted, scaled)


def desired(each: dict[str, Any], count: int, most: int) -> dict[str, Any]:
    each["metadata"]["annotations"] |= {f"{OF_DEPLOYMENT}desired-replicas": str(count), f"{OF_DEPLOYMENT}max-replicas": str(most)}
    return each


RESIZED: dict[str, tuple[int, list[dict[str, Any]], dict[str, int]]] = {
    # name: (replicas, ReplicaSets of a Deployment that had 10 with a surge of 3, the new replicas of those that are scaled)
    "more, by share": (20, [replica_set("old", 1, OTHER, 8, **_up(8)), replica_set("new", 2, wanted=5)], {"old": 14, "new": 9}),
    "fewer, by share": (5, [replica_set("old", 1, OTHER, 8, **_up(8)), replica_set("new", 2, wanted=5)], {"old": 5, "new": 3}),
    "none": (0, [replica_set("old", 1, OTHER, 8, **_up(8)), replica_set("new", 2, wanted=5)], {"old": 0, "new": 0}),
    "one alone": (20, [replica_set("new", 1, wanted=10, **_up(10))], {"new": 20}),
}


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("name", RESIZED)
def test_other_replicas_in_the_middle_of_a_rollout(name: str, paused: bool) -> None:
    count, sets, scaled = RESIZED[name]
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    known = [desired(each, 10, 13) for each in copy.deepcopy(sets)]
    plan = deployment(owner("Deployment", replicas=count, strategy=strategy, paused=paused), known, SECONDS)
    assert {each["metadata"]["name"]: replicas for each, replicas in plan.scale} == scaled
    told = {each["metadata"]["name"]: added for each, added in plan.annotate if each["kind"] == "ReplicaSet"}
    assert {name: added[f"{OF_DEPLOYMENT}desired-replicas"] for name, added in told.items()} == dict.fromkeys(scaled, str(count))


def test_a_new_replica_set() -> None:
    web = owner("Deployment", replicas=2)
    web["metadata"]["annotations"] = {"kubernetes.io/change-cause": "why", REVISION: "4"}
    plan = deployment(web, [replica_set("old", 4, OTHER)], SECONDS)
    (made,) = plan.create
    digest = made["metadata"]["labels"][HASH_LABEL]
    assert made["metadata"]["name"] == f"web-{digest}"
    replicas = {f"{OF_DEPLOYMENT}desired-replicas": "2", f"{OF_DEPLOYMENT}max-replicas": "3"}
    assert made["metadata"]["annotations"] == {"kubernetes.io/change-cause": "why", REVISION: "5", **replicas}
    assert made["spec"]["selector"] == {"matchLabels": {"a": "b", HASH_LABEL: digest}}
    assert made["spec"]["template"]["metadata"]["labels"] == {"a": "b", HASH_LABEL: digest}
    assert plan.annotate == [(web, {REVISION: "5"})]
    # It is known again by its template.
    made["metadata"]["uid"] = "2"
    assert deployment(web, [made, replica_set("old", 4, OTHER)], SECONDS).create == []


def test_back_to_an_older_revision() -> None:
    web, back = owner("Deployment"), replica_set("a", 1)
    plan = deployment(web, [back, replica_set("b", 2, OTHER)], SECONDS)
    replicas = {f"{OF_DEPLOYMENT}desired-replicas": "1", f"{OF_DEPLOYMENT}max-replicas": "2"}
    in_use = {REVISION: "3", f"{OF_DEPLOYMENT}revision-history": "1", **replicas}
    assert plan.annotate == [(web, {REVISION: "3"}), (back, in_use)]


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
    plan = deployment(owner("Deployment"), [back, replica_set("b", 10**2100, OTHER)], SECONDS)
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
    (made,) = deployment(owner("Deployment", replicas=5, strategy=strategy), [], SECONDS).create
    assert made["metadata"]["annotations"][f"{OF_DEPLOYMENT}max-replicas"] == most


@pytest.mark.parametrize(("manager", "made"), [("example.com/mine", 0), ("kubernetes.io/job-controller", 1)])
def test_a_job_that_another_manages_is_left_alone(manager: str, made: int) -> None:
    plan = job(owner("Job", managedBy=manager), [], SECONDS)
    assert (len(plan.create), bool(plan.status)) == (made, bool(made))


def test_conditions_of_a_deployment() -> None:
    web = owner("Deployment", replicas=2)
    before = deployment(web, [replica_set("new", 1, wanted=2)], times.parse_time(EARLIER)).status
    assert [(entry["type"], entry["status"], entry["reason"]) for entry in before["conditions"]] == [
        ("Progressing", "True", "FoundNewReplicaSet"),
        ("Available", "False", "MinimumReplicasUnavailable"),
    ]
    up = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    after = deployment({**web, "status": before}, [replica_set("new", 1, wanted=2, **up)], SECONDS).status
    assert [(entry["reason"], entry["lastTransitionTime"], entry["lastUpdateTime"]) for entry in after["conditions"]] == [
        ("MinimumReplicasAvailable", NOW, NOW),
        ("NewReplicaSetAvailable", EARLIER, NOW),
    ]
    assert after["updatedReplicas"] == after["replicas"] == after["availableReplicas"] == 2
    assert after["unavailableReplicas"] is None


UPDATED = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "message": 'ReplicaSet "new" is progressing.'}
READY = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
PROGRESS: dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]], tuple[str, str, str], float | None]] = {
    # name: (spec, status besides Progressing since 245 s, sets, (status, reason, lastUpdateTime), seconds until the next plan)
    "created": ({}, {}, [], ("True", "NewReplicaSetCreated", NOW), 601),
    "waiting": ({}, {}, [replica_set("new", 1)], ("True", "ReplicaSetUpdated", EARLIER), 356),
    "a Pod": ({}, {}, [replica_set("new", 1, replicas=1)], ("True", "ReplicaSetUpdated", NOW), 601),
    "fewer old Pods": (
        {},
        {"replicas": 2},
        [replica_set("new", 2), replica_set("old", 1, OTHER, replicas=1)],
        ("True", "ReplicaSetUpdated", NOW),
        601,
    ),
    "too late": (
        {"progressDeadlineSeconds": 244},
        {},
        [replica_set("new", 1)],
        ("False", "ProgressDeadlineExceeded", NOW),
        None,
    ),
    "just in time": (
        {"progressDeadlineSeconds": 245},
        {},
        [replica_set("new", 1)],
        ("True", "ReplicaSetUpdated", EARLIER),
        1,
    ),
    "a Pod that is too late": (
        {"progressDeadlineSeconds": 1},
        {},
        [replica_set("new", 1, replicas=1)],
        ("True", "ReplicaSetUpdated", NOW),
        2,
    ),
    "complete": (
        {"progressDeadlineSeconds": 1},
        READY,
        [replica_set("new", 1, **UP)],
        ("True", "NewReplicaSetAvailable", NOW),
        None,
    ),
    "paused": ({"paused": True}, {}, [replica_set("new", 1)], ("Unknown", "DeploymentPaused", NOW), None),
}


@pytest.mark.parametrize("name", PROGRESS)
def test_the_progress_of_a_deployment(name: str) -> None:
    spec, status, sets, wanted, again = PROGRESS[name]
    web = owner("Deployment", **spec)
    web["status"] = {**status, "conditions": [{**UPDATED, "lastTransitionTime": EARLIER, "lastUpdateTime": EARLIER}]}
    plan = deployment(web, sets, SECONDS)
    (found,) = (each for each in plan.status["conditions"] if each["type"] == "Progressing")
    assert (found["status"], found["reason"], found["lastUpdateTime"]) == wanted
    assert found["lastTransitionTime"] == (EARLIER if found["status"] == "True" else NOW)
    assert plan.again == again


ENDED: dict[str, tuple[dict[str, Any], str, str]] = {
    # name: (spec, the reason that the condition has, and the one that it has then)
    "it stays late": ({}, "ProgressDeadlineExceeded", "ProgressDeadlineExceeded"),
    "it is late although it is paused": ({"paused": True}, "ProgressDeadlineExceeded", "ProgressDeadlineExceeded"),
    "it stays complete, whatever its Pods do": ({}, "NewReplicaSetAvailable", "NewReplicaSetAvailable"),
    "it goes on": ({}, "DeploymentPaused", "DeploymentResumed"),
}


@pytest.mark.parametrize("name", ENDED)
def test_progress_that_has_ended(name: str) -> None:
    spec, reason, then = ENDED[name]
    web = owner("Deployment", **spec)
    entry = {
        "type": "Progressing",
        "status": "Unknown",
        "reason": reason,
        "lastTransitionTime": EARLIER,
        "lastUpdateTime": EARLIER,
    }
    web["status"] = {"replicas": 1, "updatedReplicas": 1, "conditions": [entry]}
    plan = deployment(web, [replica_set("new", 1, replicas=1)], SECONDS)
    assert {each["type"]: each["reason"] for each in plan.status["conditions"]}["Progressing"] == then
    assert plan.again == (601 if then == "DeploymentResumed" else None)


@pytest.mark.parametrize("given", [None, 2**31 - 1])
def test_a_deployment_without_a_deadline_does_not_tell_its_progress(given: int | None) -> None:
    web = owner("Deployment", progressDeadlineSeconds=given)
    if given is None:
        del web["spec"]["progressDeadlineSeconds"]
    web["status"] = {"conditions": [{**UPDATED, "lastTransitionTime": EARLIER, "lastUpdateTime": EARLIER}]}
    assert [each["type"] for each in deployment(web, [replica_set("new", 1)], SECONDS).status["conditions"]] == ["Available"]


# --- StatefulSets and DaemonSets ---


def stateful(given: dict[str, Any], pods: list[dict[str, Any]], claims: Any = None, revisions: Any = ()) -> Plan:
    """The plan for a StatefulSet that has the revision of its template, unless others are given."""
    known = revisions or stateful_set(given, pods, [], claims or {}, SECONDS).create[:1]
    return stateful_set(given, pods, known, claims or {}, SECONDS)


def daemon(given: dict[str, Any], pods: list[dict[str, Any]], *nodes: dict[str, Any]) -> Plan:
    known = daemon_set(given, pods, [], {}, SECONDS).create
    return daemon_set(given, pods, known, nodes or [NODE], SECONDS)


NODE: dict[str, Any] = {"metadata": {"name": "node"}}


def revision_of(kind: str) -> dict[str, str]:
    plan = daemon(owner(kind), []) if kind == "DaemonSet" else stateful(owner(kind), [])
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
    assert steps(stateful(owner("StatefulSet", **spec), pods))[:2] == wanted


def test_claims_of_a_stateful_set() -> None:
    templates = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    db = owner("StatefulSet", serviceName="db", volumeClaimTemplates=templates)
    claim, made = stateful(db, []).create
    assert (claim["kind"], claim["metadata"]["name"], claim["spec"]) == (
        "PersistentVolumeClaim",
        "data-web-0",
        templates[0]["spec"],
    )
    assert made["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("web-0", "db")
    assert names(stateful(db, [], {"data-web-0": []}).create) == ["web-0"]


def test_revisions_of_a_stateful_set() -> None:
    db = owner("StatefulSet")
    first = stateful(db, [pod("web-0", labels=STATEFUL)]).status
    assert first["currentRevision"] == first["updateRevision"] == STATEFUL["controller-revision-hash"]
    (made,) = stateful_set(db, [pod("web-0", labels=STATEFUL)], [], {}, SECONDS).create
    db["status"], db["spec"]["template"] = first, OTHER
    second = stateful(db, [pod("web-0", labels=STATEFUL)], revisions=[made]).status
    assert second["currentRevision"] == first["currentRevision"] != second["updateRevision"]
    assert (second["currentReplicas"], second["updatedReplicas"]) == (1, None)


def test_pods_below_the_partition_are_of_the_current_revision() -> None:
    db = owner("StatefulSet", replicas=2, podManagementPolicy="Parallel", updateStrategy={"rollingUpdate": {"partition": 1}})
    (first,) = [each for each in stateful_set(db, [], [], {}, SECONDS).create if each["kind"] == "ControllerRevision"]
    db["status"], db["spec"]["template"] = {"currentRevision": first["metadata"]["name"]}, OTHER
    second, old, new = stateful_set(db, [], [first], {}, SECONDS).create
    assert (second["kind"], second["revision"]) == ("ControllerRevision", 2)
    assert [each["spec"]["containers"][0]["image"] for each in (old, new)] == ["i", "j"]
    assert [each["metadata"]["labels"]["controller-revision-hash"] for each in (old, new)] == [
        first["metadata"]["name"],
        second["metadata"]["name"],
    ]


@pytest.mark.parametrize("update", [False, True])
def test_an_update_waits_for_the_pods_that_it_has_made(update: bool) -> None:
    new = pod("web-1", ready=update, labels=STATEFUL)
    plan = stateful(owner("StatefulSet", replicas=2, podManagementPolicy="Parallel"), [pod("web-0"), new])
    assert names(plan.delete) == (["web-0"] if update else [])


def test_daemon_set() -> None:
    agent, labels = owner("DaemonSet"), revision_of("DaemonSet")
    (made,) = daemon(agent, []).create
    assert node_of(made) == "node"
    assert "nodeName" not in made["spec"]
    done = daemon(agent, [pod("a", labels=labels)])
    assert steps(done) == ([], [], [])
    assert counts(done) == {
        "desiredNumberScheduled": 1,
        "currentNumberScheduled": 1,
        "numberMisscheduled": 0,
        "numberReady": 1,
        "numberAvailable": 1,
        "updatedNumberScheduled": 1,
    }
    assert names(daemon(agent, [pod("a")]).delete) == ["a"]
    assert daemon(owner("DaemonSet", updateStrategy={"type": "OnDelete"}), [pod("a")]).delete == []


def node(name: str, *, labels: Any = None, taints: Any = ()) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": list(taints)}}


NODES = {
    "plain": node("plain"),
    "gpu": node("gpu", labels={"gpu": "yes"}),
    "new": node("new", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
    "cordoned": node("cordoned", taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
    "unreachable": node("unreachable", taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
    "mine": node("mine", taints=[{"key": "mine", "value": "x", "effect": "NoExecute"}]),
    "better not": node("better not", taints=[{"key": "mine", "value": "x", "effect": "PreferNoSchedule"}]),
}
PLACES: dict[str, tuple[dict[str, Any], set[str]]] = {
    # name: (of the template's spec, the nodes with a Pod)
    "all": ({"tolerations": [{"operator": "Exists"}]}, {*NODES}),
    "those without taints": ({}, {"plain", "gpu", "cordoned", "unreachable", "better not"}),
    "one that is tolerated": (
        {"tolerations": [{"key": "mine", "value": "x"}]},
        {"plain", "gpu", "cordoned", "unreachable", "better not", "mine"},
    ),
    "with a label": ({"nodeSelector": {"gpu": "yes"}}, {"gpu"}),
    "none": ({"nodeSelector": {"gpu": "no"}}, set()),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_nodes_of_a_daemon_set(name: str) -> None:
    given, wanted = PLACES[name]
    agent = owner("DaemonSet", template={**TEMPLATE, "spec": {**TEMPLATE["spec"], **given}})
    plan = daemon(agent, [], *NODES.values())
    assert {node_of(each) for each in plan.create} == wanted
    assert plan.status["desiredNumberScheduled"] == len(wanted)


def test_a_daemon_set_updates_as_many_nodes_as_may_be_unavailable() -> None:
    agent = owner("DaemonSet", updateStrategy={"rollingUpdate": {"maxUnavailable": "50%"}})
    nodes = [node(str(number)) for number in range(4)]
    pods = [pod(f"p{number}", ready=number != 3) for number in range(4)]
    for number, each in enumerate(pods):
        each["spec"]["nodeName"] = str(number)
    assert names(daemon(agent, pods, *nodes).delete) == ["p3", "p0"]
    lost = daemon(agent, pods, *nodes[:1])
    assert names(lost.delete) == ["p1", "p2", "p3"]  # the update begins when they are gone
    assert lost.status["numberMisscheduled"] == 0  # only of nodes that there are


# --- ControllerRevisions ---


def revised(kind: str, template: Any, revisions: list[dict[str, Any]], pods: Any = (), **spec: Any) -> Plan:
    given = owner(kind, template=template, **spec)
    if kind == "StatefulSet":
        return stateful_set(given, list(pods), revisions, {}, SECONDS)
    return daemon_set(given, list(pods), revisions, [NODE], SECONDS)


def new_revisions(plan: Plan) -> list[dict[str, Any]]:
    return [each for each in plan.create if each["kind"] == "ControllerRevision"]


KINDS = ["StatefulSet", "DaemonSet"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_revision_has_what_brings_the_template_back(kind: str) -> None:
    (made,) = new_revisions(revised(kind, TEMPLATE, []))
    assert made["revision"] == 1
    assert made["data"] == {"spec": {"template": {**TEMPLATE, "$patch": "replace"}}}
    assert list(made["data"]["spec"]["template"]) == ["$patch", "metadata", "spec"]
    metadata = made["metadata"]
    label = "controller.kubernetes.io/hash" if kind == "StatefulSet" else "controller-revision-hash"
    assert metadata["labels"] == {"a": "b", label: metadata["name"].removeprefix("web-")}
    assert metadata["ownerReferences"][0]["controller"] is True
    # Once it is there, it is found.
    assert new_revisions(revised(kind, TEMPLATE, [made])) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_rollback_gives_the_former_revision_the_highest_number(kind: str) -> None:
    (first,) = new_revisions(revised(kind, TEMPLATE, []))
    (second,) = new_revisions(revised(kind, OTHER, [first]))
    assert second["revision"] == 2
    plan = revised(kind, TEMPLATE, [first, second])
    assert new_revisions(plan) == []
    assert plan.renumber == [(first, 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_history_is_limited_to_what_no_pod_needs(kind: str) -> None:
    revisions: list[dict[str, Any]] = []
    for image in "klmn":
        template = {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": image}]}}
        revisions += new_revisions(revised(kind, template, revisions))
    metadata = revisions[0]["metadata"]
    digest = metadata["name"] if kind == "StatefulSet" else metadata["name"].removeprefix("web-")
    old = pod("web-0", labels={"controller-revision-hash": digest})
    plan = revised(kind, template, revisions, [old], revisionHistoryLimit=1)
    assert [each["revision"] for each in plan.delete if each["kind"] == "ControllerRevision"] == [2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_taken_name_of_a_revision(kind: str) -> None:
    (made,) = new_revisions(revised(kind, TEMPLATE, []))
    given = owner(kind)
    given["status"] = {"collisionCount": 1}
    plan = stateful_set(given, [], [], {}, SECONDS) if kind == "StatefulSet" else daemon_set(given, [], [], [NODE], SECONDS)
    assert new_revisions(plan)[0]["metadata"]["name"] != made["metadata"]["name"]


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
    plan = job(owner("Job", **spec), pods, SECONDS)
    assert (len(plan.create), len(plan.delete)) == (created, deleted)
    assert [(entry["type"], entry["status"]) for entry in plan.status["conditions"] or ()] == conditions
    assert plan.status["startTime"] == (None if spec.get("suspend") else NOW)
    assert ("completionTime" in plan.status) == (name == "complete")


DEADLINES: dict[str, tuple[dict[str, Any], dict[str, Any], str | None, float | None]] = {
    # name: (of the spec, the status, the reason of the condition Failed, the seconds until the next plan)
    "it begins": ({}, {}, None, 60),
    "before": ({}, {"startTime": "2026-01-02T03:03:06Z"}, None, 1),
    "after": ({}, {"startTime": "2026-01-02T03:03:05Z"}, "DeadlineExceeded", None),
    "suspended": ({"suspend": True}, {"startTime": EARLIER}, None, None),
    "resumed": ({}, {"startTime": EARLIER, "conditions": [{"type": "Suspended", "status": "True"}]}, None, 60),
}


@pytest.mark.parametrize("name", DEADLINES)
def test_the_deadline_of_a_job(name: str) -> None:
    spec, status, reason, again = DEADLINES[name]
    hi = owner("Job", activeDeadlineSeconds=60, **spec)
    hi["status"] = status
    plan = job(hi, [pod("a")], SECONDS)
    failed = next((entry["reason"] for entry in plan.status["conditions"] or () if entry["type"] == "Failed"), None)
    assert (failed, plan.again, len(plan.delete)) == (reason, again, int(bool(reason or spec)))
    assert plan.status["failed"] == (1 if reason else None)
    assert plan.status.get("startTime", "kept") == {"resumed": NOW, "it begins": NOW, "suspended": None}.get(name, "kept")


def test_an_indexed_job() -> None:
    spec = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
    present = pod("a", annotations={"batch.kubernetes.io/job-completion-index": "1"})
    made = job(owner("Job", **spec), [present], SECONDS).create
    assert [each["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for each in made] == ["0", "2"]
    assert names(made) == ["web-0-", "web-2-"]
    assert [each["spec"]["hostname"] for each in made] == ["web-0", "web-2"]
    label = "metadata.labels['batch.kubernetes.io/job-completion-index']"
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": label}}}
    assert made[0]["spec"]["containers"] == [{"name": "c", "image": "i", "env": [variable]}]
    assert "env" not in TEMPLATE["spec"]["containers"][0]


def test_counts_of_a_job_never_sink() -> None:
    """kube-apiserver refuses that of a status, and so does this server."""
    hi = owner("Job", completions=4)
    hi["status"] = {"succeeded": 2, "failed": 1}
    plan = job(hi, [pod("a", **DONE)], SECONDS)
    assert (plan.status["succeeded"], plan.status["failed"], len(plan.create)) == (2, 1, 1)


def test_a_job_that_is_suspended_with_all_that_it_needs_is_not_complete() -> None:
    plan = job(owner("Job", completions=1, suspend=True), [pod("a", **DONE)], SECONDS)
    assert "completionTime" not in plan.status


def test_a_job_that_is_over_stays_so() -> None:
    hi = owner("Job")
    hi["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert job(hi, [], SECONDS) == Plan()


@pytest.mark.parametrize("kind", ["ReplicaSet", "Job"])
def test_a_plan_has_no_copies_of_a_template(kind: str) -> None:
    """Hundreds of a large one would fill the memory."""
    given = owner(kind, replicas=500, parallelism=500, completions=500)
    plan = replicas(given, [], SECONDS) if kind == "ReplicaSet" else job(given, [], SECONDS)
    assert len(plan.create) == 500
    assert {id(each["spec"]["containers"]) for each in plan.create} == {id(TEMPLATE["spec"]["containers"])}
