"""What is refused of an object by the tables. (That it is what kube-apiserver refuses: test_tables.py.)"""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.scheme.types import lookup
from aggserver.scheme.validation import validate

CONTAINER = {"name": "a", "image": "b"}

CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "nothing": ("core/v1.Pod", {"spec": {"containers": [CONTAINER]}}, []),
    "no containers": ("core/v1.Pod", {"spec": {"containers": None}}, ["spec.containers: Required value"]),
    "members of items": (
        "core/v1.Pod",
        {"spec": {"containers": [CONTAINER, {"name": "", "imagePullPolicy": "X", "ports": [{"containerPort": 70000}]}]}},
        [
            "spec.containers[1].name: Required value",
            "spec.containers[1].image: Required value",
            "spec.containers[1].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            'spec.containers[1].imagePullPolicy: Unsupported value: "X": supported values: "Always", "IfNotPresent", "Never"',
        ],
    ),
    "in a template": (
        "apps/v1.Deployment",
        {"spec": {"replicas": -1, "template": {"spec": {"containers": []}}}},
        [
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "spec.selector: Required value",
            "spec.template.spec.containers: Required value",
        ],
    ),
    "an empty pointer is there": (
        "apps/v1.ReplicaSet",
        {"spec": {"selector": {}, "template": {"spec": {"containers": [CONTAINER]}}}},
        [],
    ),
    "with a detail": ("apps/v1.ControllerRevision", {"data": None, "revision": 1}, ["data: Required value: data is mandatory"]),
    "an empty JSON object is there": ("apps/v1.ControllerRevision", {"data": {}, "revision": 1}, []),
    "a value that must be one of some": (
        "rbac/v1.ClusterRoleBinding",
        {"subjects": [{"kind": "", "name": "a"}], "roleRef": {"kind": "ClusterRole", "name": "b"}},
        ['subjects[0].kind: Unsupported value: "": supported values: "ServiceAccount", "User", "Group"'],
    ),
    "a port with a name": (
        "core/v1.Service",
        {"spec": {"ports": [{"port": 1, "targetPort": "x"}, {"port": 2, "targetPort": 0}]}},
        [],
    ),
    "a port that is none": (
        "core/v1.Service",
        {"spec": {"ports": [{"port": 0, "targetPort": -1}], "type": "X"}},
        [
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.ports[0].targetPort: Invalid value: -1: must be between 1 and 65535, inclusive",
            'spec.type: Unsupported value: "X": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
        ],
    ),
    "a status is not looked at": ("core/v1.Service", {"spec": {}, "status": {"conditions": [{}]}}, []),
    "a kind without checks": ("core/v1.ConfigMap", {"data": {"a": "b"}}, []),
}


@pytest.mark.parametrize("name", CASES)
def test_validate(name: str) -> None:
    of, obj, wanted = CASES[name]
    assert list(map(str, validate({"metadata": {}, **obj}, lookup(of)))) == wanted
