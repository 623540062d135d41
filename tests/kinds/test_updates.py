"""What updates of Jobs, claims and Services may change, and what goes with a Service's type: by tables of changes."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.immutable import changed_immutables
from aggserver.kinds.kind_rules import kind_problems

_FIXED = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def _changed(type_name: str, spec: Any, change: Any, *, status: Any = None, before: Any = None, now: Any = None) -> list[str]:
    """before, now: the annotations."""
    shared = {"status": status or {}}
    old = {**shared, "metadata": {"annotations": before}, "spec": spec}
    new = {**shared, "metadata": {"annotations": now}, "spec": {**spec, **change}}
    return [str(problem) for problem in changed_immutables(type_name, new, old)]


JOBS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "completions": ({"completions": 3}, {"completions": 4}, ["spec.completions: Invalid value: 4: field is immutable"]),
    "completions of one that is indexed": (
        {"completions": 3, "parallelism": 3, "completionMode": "Indexed"},
        {"completions": 4},
        ["spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"],
    ),
    "completions in tandem": (
        {"completions": 3, "parallelism": 3, "completionMode": "Indexed"},
        {"completions": 4, "parallelism": 4},
        [],
    ),
    "success": ({}, {"successPolicy": {"rules": []}}, ['spec.successPolicy: Invalid value: {"rules":[]}: field is immutable']),
    "limits": ({}, {"parallelism": 3, "backoffLimit": 2, "activeDeadlineSeconds": 3, "suspend": True}, []),
}


@pytest.mark.parametrize("name", JOBS)
def test_jobs(name: str) -> None:
    spec, change, told = JOBS[name]
    assert _changed("batch/v1.Job", spec, change) == told


def _sized(size: str | None) -> dict[str, Any]:
    return {"resources": {"requests": {"storage": size}}}


_BOUND = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
_LESS = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
_ATTRIBUTES = {**_BOUND, "currentVolumeAttributesClassName": "x"}
_NOT_NIL = "is forbidden when status.currentVolumeAttributesClassName is not nil"

# The spec, its change, the status, the errors.
CLAIMS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]] = {
    "larger": (_sized("1Gi"), _sized("2Gi"), {}, [_FIXED]),
    "larger, bound": (_sized("1Gi"), _sized("2Gi"), _BOUND, []),
    "less again": (_sized("3Gi"), _sized("2Gi"), _BOUND, []),
    "too little": (_sized("3Gi"), _sized("1Gi"), _BOUND, [_LESS]),
    "volume": (_sized("1Gi"), {"volumeName": "v"}, {}, []),
    "another volume": ({**_sized("1Gi"), "volumeName": "v"}, {"volumeName": "w"}, {}, [_FIXED]),
    "class": (_sized("1Gi"), {"storageClassName": "a"}, {}, []),
    "another class": ({**_sized("1Gi"), "storageClassName": "a"}, {"storageClassName": "b"}, _BOUND, [_FIXED]),
    "mode": (
        {**_sized("1Gi"), "volumeMode": "Filesystem"},
        {"volumeMode": "Block"},
        {},
        [_FIXED, 'volumeMode: Invalid value: "Block": field is immutable'],
    ),
    "attributes": (_sized("1Gi"), {"volumeAttributesClassName": "x"}, _BOUND, []),
    "attributes, unbound": (_sized("1Gi"), {"volumeAttributesClassName": "x"}, {}, [_FIXED]),
    "no more attributes": (
        {**_sized("1Gi"), "volumeAttributesClassName": "x"},
        {"volumeAttributesClassName": None},
        _ATTRIBUTES,
        [f"spec.volumeAttributesClassName: Forbidden: update to nil {_NOT_NIL}"],
    ),
    "empty attributes": (
        {**_sized("1Gi"), "volumeAttributesClassName": "x"},
        {"volumeAttributesClassName": ""},
        _ATTRIBUTES,
        [f"spec.volumeAttributesClassName: Forbidden: update to empty string {_NOT_NIL}"],
    ),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claims(name: str) -> None:
    spec, change, status, told = CLAIMS[name]
    assert _changed("core/v1.PersistentVolumeClaim", spec, change, status=status) == told


@pytest.mark.parametrize(
    ("change", "now", "told"),
    [
        pytest.param({"storageClassName": "a"}, {_OLD_CLASS: "a"}, [], id="moves to the spec"),
        pytest.param({"storageClassName": "a"}, {}, [], id="moves, and leaves the annotation"),
        pytest.param({"storageClassName": "b"}, {_OLD_CLASS: "a"}, [_FIXED], id="another"),
        pytest.param(
            {}, {_OLD_CLASS: "b"}, [f'metadata.annotations.{_OLD_CLASS}: Invalid value: "b": field is immutable'], id="annotation"
        ),
    ],
)
def test_a_class_in_an_annotation(change: dict[str, Any], now: dict[str, str], told: list[str]) -> None:
    assert _changed("core/v1.PersistentVolumeClaim", _sized("1Gi"), change, before={_OLD_CLASS: "a"}, now=now) == told


_BALANCER = {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80}]}
_LOCAL = {**_BALANCER, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001}


@pytest.mark.parametrize(
    ("spec", "change", "told"),
    [
        pytest.param(
            {**_BALANCER, "loadBalancerClass": "a"},
            {"loadBalancerClass": "b"},
            ['spec.loadBalancerClass: Invalid value: "b": may not change once set'],
            id="class",
        ),
        pytest.param({**_BALANCER, "type": "NodePort"}, {"type": "LoadBalancer", "loadBalancerClass": "b"}, [], id="type"),
        pytest.param(
            _LOCAL, {"healthCheckNodePort": 30002}, ["spec.healthCheckNodePort: Forbidden: field is immutable"], id="port"
        ),
        pytest.param(_LOCAL, {"externalTrafficPolicy": "Cluster", "healthCheckNodePort": None}, [], id="no port any more"),
    ],
)
def test_changed_services(spec: dict[str, Any], change: dict[str, Any], told: list[str]) -> None:
    assert _changed("core/v1.Service", spec, change) == told


_PLAIN = {"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80}]}
_EXTERNAL = {"type": "ExternalName", "externalName": "example.com"}
_ONLY = "may only be used when `type` is 'LoadBalancer'"
_GO_PORT = '{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":1,"TargetPort":0,"NodePort":0}'

SERVICES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "plain": (_PLAIN, []),
    "no ports": ({**_PLAIN, "ports": []}, ["spec.ports: Required value"]),
    "headless without ports": ({"type": "ClusterIP", "clusterIPs": ["None"]}, []),
    "headless balancer": (
        {**_BALANCER, "clusterIPs": ["None"]},
        ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for LoadBalancer services"],
    ),
    "external": (_EXTERNAL, []),
    "external, fully qualified": ({**_EXTERNAL, "externalName": "example.com."}, []),
    "external with an address": (
        {**_EXTERNAL, "clusterIPs": ["10.0.0.1"]},
        ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
    ),
    "external without a name": ({**_EXTERNAL, "externalName": ""}, ["spec.externalName: Required value"]),
    "class": ({**_PLAIN, "loadBalancerClass": "a"}, [f"spec.loadBalancerClass: Forbidden: {_ONLY}"]),
    "ranges": ({**_PLAIN, "loadBalancerSourceRanges": ["10.0.0.0/8"]}, [f"spec.LoadBalancerSourceRanges: Forbidden: {_ONLY}"]),
    "node port": (
        {**_PLAIN, "ports": [{"port": 80, "nodePort": 30000}]},
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
    "policy": (
        {**_PLAIN, "externalTrafficPolicy": "Local"},
        ['spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services'],
    ),
    "policy of external addresses": ({**_PLAIN, "externalTrafficPolicy": "Local", "externalIPs": ["192.0.2.1"]}, []),
    "port for health": (
        {**_PLAIN, "healthCheckNodePort": 30000},
        [
            "spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and "
            "`externalTrafficPolicy` is 'Local'"
        ],
    ),
    "names of ports": (
        {**_PLAIN, "ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}, {"port": 3}]},
        ['spec.ports[1].name: Duplicate value: "a"', "spec.ports[2].name: Required value"],
    ),
    "ports": (
        {**_PLAIN, "ports": [{"port": 1, "name": "a", "protocol": "TCP"}, {"port": 1, "name": "b", "protocol": "TCP"}]},
        [f"spec.ports[1]: Duplicate value: {_GO_PORT}"],
    ),
    "ports of other protocols": (
        {**_PLAIN, "ports": [{"port": 1, "name": "a", "protocol": "TCP"}, {"port": 1, "name": "b", "protocol": "UDP"}]},
        [],
    ),
}


@pytest.mark.parametrize("name", SERVICES)
def test_services(name: str) -> None:
    spec, told = SERVICES[name]
    service = {"spec": spec}
    assert [str(problem) for problem in kind_problems("core/v1.Service", service)] == told
    assert kind_problems("core/v1.Service", service, service) == []
