"""Workloads, their history and CronJobs: kube-controller-manager and `aggserver dev --pods=pending` come to the same end.

The same kubectl commands are given to both servers, neither of which has a kubelet. After each step both must show the same:
status, ControllerRevisions, and what Pods are made of. Hashes in names differ.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.cluster import Kubectl
from tests.controlplane.plane import CONTROLLERS, ControlPlane
from tests.integration.server import Standalone, eventually, running

_OF_WORKLOADS = tuple(
    f"{name}-controller"
    for name in ("replicationcontroller", "replicaset", "deployment", "statefulset", "daemonset", "job", "cronjob")
)
_HASH = re.compile(r"[-=][bcdfghjklmnpqrstvwxz2456789]{5,10}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_KINDS = "rc,rs,deployments,statefulsets,daemonsets,jobs,cronjobs,controllerrevisions,pods,pvc"


def _workload(kind: str, name: str, spec: dict[str, Any], version: str = "apps/v1") -> dict[str, Any]:
    labels = {"app": name}
    pod = {"containers": [{"name": "c", "image": "i"}]}
    whole: dict[str, Any] = {"template": {"metadata": {"labels": labels}, "spec": pod}, **spec}
    if kind == "Job":
        whole["template"] = {"spec": {**pod, "restartPolicy": "Never"}}
    elif kind == "CronJob":
        whole = {"jobTemplate": {"spec": {"template": {"spec": {**pod, "restartPolicy": "Never"}}}}, **spec}
    else:
        whole["selector"] = labels if kind == "ReplicationController" else {"matchLabels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": whole}


WORKLOADS = [
    _workload("ReplicationController", "rc", {"replicas": 2}, "v1"),
    _workload("ReplicaSet", "rs", {"replicas": 2, "minReadySeconds": 5}),
    _workload("Deployment", "web", {"replicas": 4}),
    _workload("StatefulSet", "db", {"replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel"}),
    _workload("StatefulSet", "ordered", {"replicas": 2, "serviceName": "db"}),
    _workload("DaemonSet", "agent", {}),
    _workload("Job", "indexed", {"completions": 3, "parallelism": 2, "completionMode": "Indexed"}, "batch/v1"),
    _workload("Job", "idle", {"suspend": True}, "batch/v1"),
    _workload("Job", "late", {"activeDeadlineSeconds": 1}, "batch/v1"),
    _workload("CronJob", "never", {"schedule": "0 0 31 2 *"}, "batch/v1"),
]


def _placed(kind: str, name: str, operator: str) -> dict[str, Any]:
    """A workload whose Pods require nodes with a label, or without it."""
    made = _workload(kind, name, {})
    term = {"matchExpressions": [{"key": "zone", "operator": operator}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod = {**made["spec"]["template"]["spec"], "affinity": {"nodeAffinity": affinity}}
    made["spec"]["template"] = {**made["spec"]["template"], "spec": pod}
    return made


_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
_KEPT = {
    "replicas": 2,
    "serviceName": "db",
    "podManagementPolicy": "Parallel",
    "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": _CLAIM}],
}
_EXITS = {"operator": "In", "values": [3]}
_INDEXED = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
POLICIES = [
    _workload("Deployment", "stuck", {"replicas": 1, "progressDeadlineSeconds": 1}),
    _workload("Deployment", "paused", {"replicas": 1, "paused": True}),
    _workload(
        "DaemonSet",
        "surging",
        {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
    ),
    _placed("DaemonSet", "placed", "Exists"),
    _workload("StatefulSet", "scaled", {**_KEPT, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}),
    _workload("StatefulSet", "deleted", {**_KEPT, "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}),
    _workload("StatefulSet", "kept", _KEPT),
    _placed("DaemonSet", "elsewhere", "DoesNotExist"),
    _workload(
        "Job",
        "fails",
        {
            "completions": 2,
            "parallelism": 2,
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {"action": "FailJob", "onExitCodes": _EXITS},
                ]
            },
        },
        "batch/v1",
    ),
    _workload("Job", "leads", {**_INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "1"}]}}, "batch/v1"),
    _workload("Job", "each", {**_INDEXED, "backoffLimitPerIndex": 0}, "batch/v1"),
]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kubectl, Kubectl]]:
    server = Standalone(tmp_path_factory.mktemp("workloads") / "data", "--pods=pending")
    with ControlPlane(obtain(os.environ, print), controllers=(*CONTROLLERS, *_OF_WORKLOADS)) as plane, running(server):
        yield plane.kubectl, partial(plane.kubectl, user=server.kubeconfig)


def _plain(text: str) -> str:
    return _HASH.sub("-HASH", _TIME.sub("TIME", text))


def _shown(obj: dict[str, Any]) -> Any:
    """What is compared of an object."""
    metadata = obj["metadata"]
    own = {name: value for name, value in (metadata.get("labels") or {}).items() if "uid" not in name and "hash" not in name}
    found = {"labels": own, "annotations": metadata.get("annotations"), "controllers": len(metadata.get("ownerReferences") or ())}
    if obj["kind"] == "Pod":
        members = ("affinity", "hostname", "subdomain", "tolerations")
        found["containers"] = [(each["image"], each.get("env")) for each in obj["spec"]["containers"]]
        return found | {name: obj["spec"].get(name) for name in members} | {"phase": obj["status"]["phase"]}
    more = {name: obj.get(name) for name in ("status", "revision", "data")}
    return found | more | {"generation": metadata.get("generation"), "replicas": (obj.get("spec") or {}).get("replicas")}


def _state(kubectl: Kubectl) -> list[tuple[str, str, str]]:
    items = json.loads(kubectl("get", _KINDS, "-o", "json").stdout)["items"]
    shown = [(each["kind"], each["metadata"]["name"], json.dumps(_shown(each), sort_keys=True)) for each in items]
    # Names that are generated have five random characters, or a hash before them.
    return sorted((kind, _plain(name), _plain(text)) for kind, name, text in shown)


def _same(sides: tuple[Kubectl, Kubectl], what: str, ready: Callable[[list[tuple[str, str, str]]], bool] = bool) -> None:
    """Wait until both sides show the same, which `ready` accepts."""
    last: list[Any] = []

    def probe() -> bool:
        last[:] = map(_state, sides)
        return last[0] == last[1] and ready(last[0])

    try:
        eventually(probe, what)
    except AssertionError:
        theirs, ours = (set(state) for state in last)
        assert sorted(theirs - ours) == sorted(ours - theirs), what
        raise


def _both(sides: tuple[Kubectl, Kubectl], *arguments: str, **more: Any) -> None:
    """Give a command to both, which must print the same."""
    theirs, ours = (_plain(kubectl(*arguments, **more).stdout) for kubectl in sides)
    assert theirs == ours


def _has(*texts: str) -> Callable[[list[tuple[str, str, str]]], bool]:
    return lambda state: all(any(text in shown for _, _, shown in state) for text in texts)


ROLLED = ("deployment/web", "statefulset/db", "daemonset/agent")


def test_workloads(sides: tuple[Kubectl, Kubectl]) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}}
    for kubectl in sides:
        kubectl("create", "-f", "-", input=json.dumps(node))
        kubectl("taint", "nodes", "one", "node.kubernetes.io/not-ready-")
    _both(sides, "create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": WORKLOADS}))
    _same(sides, "new workloads", _has("DeadlineExceeded", "JobSuspended", '"currentNumberScheduled": 1'))
    for name in ROLLED:
        _both(sides, "set", "image", name, "c=j")
    _same(sides, "another image", _has('"image": "j"', '"revision": 2'))
    for name in ROLLED:
        _both(sides, "rollout", "history", name)
        _both(sides, "rollout", "history", name, "--revision=1")
        _both(sides, "rollout", "undo", name)
    _same(sides, "back to the first image", _has('"revision": 3', "deployment.kubernetes.io/revision-history"))
    for name in ROLLED:
        _both(sides, "rollout", "history", name)
        _both(sides, "rollout", "status", name, "--watch=false")
    _both(sides, "scale", "rc/rc", "--replicas=3")
    _both(sides, "scale", "deployment/web", "--replicas=2")
    _both(sides, "patch", "job", "idle", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    _same(sides, "other numbers", _has("JobResumed"))
    for kubectl in sides:
        first = kubectl("get", "pods", "--selector=app=rs", "-o", "name").stdout.split()[0]
        kubectl("label", first, "app=free", "--overwrite")
    _same(sides, "a Pod that is released", _has('"app": "free"'))
    free = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine", "labels": {"app": "rc"}}}
    for kubectl in sides:
        kubectl("create", "-f", "-", input=json.dumps(free | {"spec": {"containers": [{"name": "c", "image": "i"}]}}))
    _same(sides, "a Pod too many")
    events = ("get", "events", "--field-selector=involvedObject.kind=CronJob", "-o", "jsonpath={.items[*].message}")
    eventually(lambda: sides[0](*events).stdout, "an Event about the schedule that never comes")
    _both(sides, *events)


def _end_pod(sides: tuple[Kubectl, Kubectl], selector: str, phase: str, code: int) -> None:
    """Write the status of a Pod as a kubelet would that has run it."""
    ended = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": phase, "containerStatuses": [{**ended, "state": {"terminated": {"exitCode": code}}}]}
    for kubectl in sides:
        name = kubectl("get", "pods", f"--selector={selector}", "-o", "name").stdout.split()[0]
        kubectl("patch", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))


def test_policies(sides: tuple[Kubectl, Kubectl]) -> None:
    """Jobs that end by their policies, Deployments that are late or paused, DaemonSets that surge or require some nodes."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "two", "labels": {"zone": "a"}}}
    for kubectl in sides:
        kubectl("create", "-f", "-", input=json.dumps(node))
        kubectl("taint", "nodes", "two", "node.kubernetes.io/not-ready-")
    _both(sides, "create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": POLICIES}))
    _same(sides, "new workloads with policies", _has("ProgressDeadlineExceeded", "DeploymentPaused"))
    _end_pod(sides, "job-name=fails", "Failed", 3)
    _end_pod(sides, "job-name=leads,batch.kubernetes.io/job-completion-index=1", "Succeeded", 0)
    _end_pod(sides, "job-name=each,batch.kubernetes.io/job-completion-index=2", "Failed", 1)
    _end_pod(sides, "job-name=each,batch.kubernetes.io/job-completion-index=0", "Succeeded", 0)
    _same(sides, "Pods that have ended", _has("PodFailurePolicy", "Matched rules at index 0", '"failedIndexes": "2"'))
    _end_pod(sides, "job-name=each,batch.kubernetes.io/job-completion-index=1", "Succeeded", 0)
    _both(sides, "rollout", "resume", "deployment/paused")
    _both(sides, "set", "image", "daemonset/surging", "c=j")
    for name in ("scaled", "deleted", "kept"):
        _both(sides, "scale", f"statefulset/{name}", "--replicas=1")
    _both(sides, "delete", "statefulset/deleted")
    _same(sides, "failed indexes and a Pod beside an old one", _has("Job has failed indexes", "ReplicaSetUpdated"))
