"""What quotas count of the built-in kinds; `tests/integration/test_same_quotas.py` asks kube-apiserver the same."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from aggserver.kinds.quota_usage import Evaluators, counted_resource

NOW = datetime.fromisoformat("2026-01-01T00:01:00Z").timestamp()
EVALUATORS = Evaluators(lambda: NOW)


def usage(resource: str, obj: Any, group: str = "") -> dict[str, str]:
    evaluator = EVALUATORS.of(group, resource)
    assert evaluator is not None
    return dict(evaluator.measure({"metadata": {}, **obj}).usage)


def scopes(resource: str, obj: Any) -> dict[str, tuple[str, ...]]:
    evaluator = EVALUATORS.of("", resource)
    assert evaluator is not None
    return dict(evaluator.measure({"metadata": {}, **obj}).scopes)


def of(requests: Any = None, limits: Any = None, **more: Any) -> Any:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def pod(*containers: Any, status: Any = None, metadata: Any = None, **spec: Any) -> Any:
    return {"spec": {"containers": list(containers), **spec}, "status": status or {}, "metadata": metadata or {}}


_DELETED = {"deletionTimestamp": "2026-01-01T00:00:30Z"}
_COUNTED = {"count/pods": "1"}
_ALIVE = {**_COUNTED, "pods": "1"}

PODS: dict[str, tuple[Any, dict[str, str]]] = {
    "nothing": (pod(of()), _ALIVE),
    "two": (
        pod(of({"cpu": "1"}, {"memory": "1Gi"}), of({"cpu": "500m"}, {"memory": "1Gi"})),
        {**_ALIVE, "cpu": "1500m", "requests.cpu": "1500m", "limits.memory": "2Gi"},
    ),
    "storage": (
        pod(of({"ephemeral-storage": "1Gi"}, {"ephemeral-storage": "2Gi"})),
        {
            **_ALIVE,
            "ephemeral-storage": "1Gi",
            "requests.ephemeral-storage": "1Gi",
            "limits.ephemeral-storage": "2Gi",
        },
    ),
    "first": (
        pod(of({"cpu": "1"}), initContainers=[of({"cpu": "3"}), of({"cpu": "1"}, restartPolicy="Always")]),
        {**_ALIVE, "cpu": "3", "requests.cpu": "3"},
    ),
    "whole": (
        pod(of({"cpu": "1"}), resources={"requests": {"cpu": "4"}, "limits": {"cpu": "5"}}),
        {**_ALIVE, "cpu": "4", "requests.cpu": "4", "limits.cpu": "5"},
    ),
    "overhead": (
        pod(of({"cpu": "1"}, {"memory": "1Gi"}), overhead={"cpu": "250m", "memory": "1Gi"}),
        {
            **_ALIVE,
            "cpu": "1250m",
            "requests.cpu": "1250m",
            "memory": "1Gi",
            "requests.memory": "1Gi",
            "limits.memory": "2Gi",
        },
    ),
    "extended": (
        pod(of({"nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi", "kubernetes.io/x": "1"}, {"nvidia.com/gpu": "2"})),
        {**_ALIVE, "requests.nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi"},
    ),
    "ended": (pod(of({"cpu": "1"}), status={"phase": "Succeeded"}), _COUNTED),
    "failed": (pod(of({"cpu": "1"}), status={"phase": "Failed"}), _COUNTED),
    "being deleted": (pod(of(), metadata={**_DELETED, "deletionGracePeriodSeconds": 30}), _ALIVE),
    "should be gone": (pod(of(), metadata={**_DELETED, "deletionGracePeriodSeconds": 29}), _COUNTED),
    "resized": (
        pod(
            of({"cpu": "1"}, {"cpu": "2"}),
            status={"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}}]},
        ),
        {**_ALIVE, "cpu": "3", "requests.cpu": "3", "limits.cpu": "4"},
    ),
    "granted": (
        pod(
            of({"cpu": "1"}),
            status={"containerStatuses": [{"name": "c", "resources": {}, "allocatedResources": {"cpu": "2"}}]},
        ),
        {**_ALIVE, "cpu": "2", "requests.cpu": "2"},
    ),
    "infeasible": (
        pod(
            of({"cpu": "9"}),
            status={
                "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
            },
        ),
        {**_ALIVE, "cpu": "1", "requests.cpu": "1"},
    ),
}


@pytest.mark.parametrize("name", PODS)
def test_pods(name: str) -> None:
    obj, expected = PODS[name]
    assert usage("pods", obj) == expected


def test_scopes_of_pods() -> None:
    assert scopes("pods", pod(of())) == {"NotTerminating": (), "BestEffort": (), "PriorityClass": ()}
    some = pod(of({"cpu": "1"}), activeDeadlineSeconds=0, priorityClassName="high")
    assert scopes("pods", some) == {"Terminating": (), "NotBestEffort": (), "PriorityClass": ("high",)}


@pytest.mark.parametrize(
    ("term", "expected"),
    [({"namespaces": ["a"]}, True), ({"namespaceSelector": {}}, True), ({"namespaces": []}, False), ({}, False)],
)
def test_affinity_to_other_namespaces(term: Any, expected: bool) -> None:
    weighted = {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    for affinity in ({"podAffinity": weighted}, {"podAntiAffinity": required}):
        assert ("CrossNamespacePodAffinity" in scopes("pods", pod(of(), affinity=affinity))) is expected


def test_what_containers_must_give() -> None:
    evaluator = EVALUATORS.of("", "pods")
    assert evaluator is not None
    names = ["pods", "limits.memory", "requests.cpu", "requests.ephemeral-storage"]
    first, second = {**of({"cpu": "1"}), "name": "a"}, {**of(None, {"memory": "1"}), "name": "b"}
    said = evaluator.constraints(names, pod(first, second, initContainers=[{"name": "i"}]))
    assert said == "must specify limits.memory for: a,i; requests.cpu for: b,i"
    assert evaluator.constraints(names, pod(of({"cpu": "1"}, {"memory": "1"}))) == ""
    assert evaluator.constraints(names, pod(first, second, resources={"requests": {"cpu": "1"}})) == ""
    assert evaluator.constraints(["pods", "requests.ephemeral-storage"], pod(first)) == ""


SERVICES: dict[str, tuple[Any, dict[str, str]]] = {
    "inside": ({"type": "ClusterIP", "ports": [{}]}, {}),
    "node ports": ({"type": "NodePort", "ports": [{}, {}]}, {"services.nodeports": "2"}),
    "balanced": ({"type": "LoadBalancer", "ports": [{}]}, {"services.nodeports": "1", "services.loadbalancers": "1"}),
    "balanced without node ports": (
        {"type": "LoadBalancer", "ports": [{}, {}], "allocateLoadBalancerNodePorts": False},
        {"services.loadbalancers": "1"},
    ),
    "balanced with one": (
        {"type": "LoadBalancer", "ports": [{}, {"nodePort": 30001}], "allocateLoadBalancerNodePorts": False},
        {"services.nodeports": "1", "services.loadbalancers": "1"},
    ),
}


@pytest.mark.parametrize("name", SERVICES)
def test_services(name: str) -> None:
    spec, expected = SERVICES[name]
    assert usage("services", {"spec": spec}) == {"count/services": "1", "services": "1", **expected}


def _claim(storage: str, status: Any = None, metadata: Any = None, **spec: Any) -> Any:
    return {
        "spec": {"resources": {"requests": {"storage": storage}}, **spec},
        "status": status or {},
        "metadata": metadata or {},
    }


_CLAIM = {"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1"}


def _in_class(name: str, storage: str) -> dict[str, str]:
    end = f"{name}.storageclass.storage.k8s.io"
    return {**_CLAIM, "requests.storage": storage, f"{end}/persistentvolumeclaims": "1", f"{end}/requests.storage": storage}


CLAIMS: dict[str, tuple[Any, dict[str, str]]] = {
    "plain": (_claim("1Gi"), {**_CLAIM, "requests.storage": "1Gi"}),
    "fraction": (_claim("1500m"), {**_CLAIM, "requests.storage": "2"}),
    "class": (_claim("1Gi", storageClassName="gold"), _in_class("gold", "1Gi")),
    "annotated": (
        _claim("1Gi", None, {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}, storageClassName="gold"),
        _in_class("old", "1Gi"),
    ),
    "grown": (_claim("1Gi", {"allocatedResources": {"storage": "2Gi"}}), {**_CLAIM, "requests.storage": "2Gi"}),
    "shrunk": (_claim("3Gi", {"allocatedResources": {"storage": "2Gi"}}), {**_CLAIM, "requests.storage": "3Gi"}),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claims(name: str) -> None:
    obj, expected = CLAIMS[name]
    assert usage("persistentvolumeclaims", obj) == expected


def test_classes_of_claims() -> None:
    assert scopes("persistentvolumeclaims", _claim("1")) == {"VolumeAttributesClass": ()}
    status = {"currentVolumeAttributesClassName": "a", "modifyVolumeStatus": {"targetVolumeAttributesClassName": "c"}}
    found = scopes("persistentvolumeclaims", _claim("1", status, volumeAttributesClassName="b"))
    assert found == {"VolumeAttributesClass": ("a", "b", "c")}


def test_claims_of_devices() -> None:
    requests = [
        {"exactly": {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 2}},
        {"exactly": {"deviceClassName": "b", "allocationMode": "All"}},
        {
            "firstAvailable": [
                {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 3},
                {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 1},
            ]
        },
    ]
    found = usage("resourceclaims", {"spec": {"devices": {"requests": requests}}}, "resource.k8s.io")
    assert found == {
        "count/resourceclaims.resource.k8s.io": "1",
        "a.deviceclass.resource.k8s.io/devices": "5",
        "b.deviceclass.resource.k8s.io/devices": "32",
    }


# The resource, whether the object is new, the subresource: whether the usage may change.
HANDLED: list[tuple[str, bool, str, bool]] = [
    ("pods", True, "", True),
    ("pods", False, "", False),
    ("pods", False, "status", False),
    ("pods", False, "resize", True),
    ("pods", True, "binding", False),
    ("services", False, "", True),
    ("services", False, "status", False),
    ("persistentvolumeclaims", False, "", True),
    ("persistentvolumeclaims", False, "status", True),
    ("secrets", True, "", True),
    ("secrets", False, "", False),
]


@pytest.mark.parametrize(("resource", "is_new", "subresource", "expected"), HANDLED)
def test_what_is_handled(resource: str, is_new: bool, subresource: str, expected: bool) -> None:
    evaluator, obj = EVALUATORS.of("", resource), {"spec": {}}
    assert evaluator is not None
    assert evaluator.handles("CREATE" if is_new else "UPDATE", subresource, obj, None if is_new else obj) is expected


def test_a_pod_that_gets_a_deadline_is_handled() -> None:
    evaluator = EVALUATORS.of("", "pods")
    assert evaluator is not None
    assert evaluator.handles("UPDATE", "", {"spec": {"activeDeadlineSeconds": 3}}, {"spec": {}})


def test_no_evaluator_is_made_for_what_nobody_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota may have forty thousand such names, and each write below it looks at them."""
    made = list[str]()
    monkeypatch.setattr(Evaluators, "of", lambda self, group, resource: made.append(resource))
    names = [f"count/things{number}.example.com" for number in range(100)]
    EVALUATORS.of_quota([*names, "count/widgets.example.com"], lambda group, resource: resource == "widgets")
    assert made == ["widgets"]


def test_which_resources_a_quota_needs() -> None:
    def everything(group: str, resource: str) -> bool:
        return True

    names = ["pods", "secrets", "count/deployments.apps", "count/events", "x.storageclass.storage.k8s.io/other"]
    found = EVALUATORS.of_quota(names, everything)
    assert found.keys() == {("", "pods"), ("", "secrets"), ("apps", "deployments")}
    gold = "gold.storageclass.storage.k8s.io/requests.storage"
    assert EVALUATORS.of_quota([gold, "services.nodeports"], everything).keys() == {
        ("", "persistentvolumeclaims"),
        ("", "services"),
    }
    assert EVALUATORS.of_quota(names, lambda group, resource: group == "apps").keys() == {("apps", "deployments")}
    assert counted_resource("count/a.b.c") == ("b.c", "a")
    assert EVALUATORS.of("", "events") is None
