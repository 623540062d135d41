"""What Go writes of an object that it has read."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.scheme.kinds import KINDS
from aggserver.scheme.rewriting import rewrite
from aggserver.scheme.types import lookup

# name: (type, object, what is written of it)
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "structs, and what tags do not let omit": (
        "core/v1.Pod",
        {"spec": {"containers": [{"name": "a", "image": ""}]}},
        {"spec": {"containers": [{"name": "a", "resources": {}}]}, "status": {}},
    ),
    "what is required and missing": (
        "apps/v1.Deployment",
        {},
        {
            "spec": {"selector": None, "template": {"metadata": {}, "spec": {"containers": None}}, "strategy": {}},
            "status": {},
        },
    ),
    "zeros of pointers stay": (
        "apps/v1.Deployment",
        {"spec": {"replicas": 0, "paused": False, "selector": {}}},
        {
            "spec": {
                "replicas": 0,
                "selector": {},
                "template": {"metadata": {}, "spec": {"containers": None}},
                "strategy": {},
            },
            "status": {},
        },
    ),
    "quantities": (
        "core/v1.LimitRange",
        {"spec": {"limits": [{"type": "Pod", "max": {"cpu": 0.5, "memory": "1.5Gi", "x": None, "y": 2, "z": " 1024Ki "}}]}},
        {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "500m", "memory": "1536Mi", "x": "0", "y": "2", "z": "1Mi"}}]}},
    ),
    "integers or strings": (
        "core/v1.Service",
        {"spec": {"ports": [{"port": 1}, {"port": 2, "targetPort": "web"}, {"port": 3, "targetPort": 4}]}},
        {
            "spec": {
                "ports": [{"port": 1, "targetPort": 0}, {"port": 2, "targetPort": "web"}, {"port": 3, "targetPort": 4}],
            },
            "status": {"loadBalancer": {}},
        },
    ),
    "times": (
        "core/v1.Event",
        {"firstTimestamp": "2026-01-02T03:04:05.678+01:00", "eventTime": "2026-01-02T03:04:05.678000+01:00"},
        {
            "involvedObject": {},
            "source": {},
            "firstTimestamp": "2026-01-02T02:04:05Z",
            "lastTimestamp": None,
            "eventTime": "2026-01-02T02:04:05.678000Z",
            "reportingComponent": "",
            "reportingInstance": "",
        },
    ),
    "bytes": ("core/v1.Secret", {"data": {"a": "YR==", "b": None, "c": "YW\nJj"}}, {"data": {"a": "YQ==", "b": "", "c": "YWJj"}}),
    "nulls in lists": (
        "core/v1.Pod",
        {"spec": {"containers": [None], "imagePullSecrets": [None], "schedulingGates": []}},
        {"spec": {"containers": [{"name": "", "resources": {}}], "imagePullSecrets": [{}]}, "status": {}},
    ),
    "an empty list that is not omitted": ("rbac/v1.Role", {"rules": []}, {"rules": None}),
    "any JSON": ("apps/v1.ControllerRevision", {"data": {"a": None}}, {"data": {"a": None}, "revision": 0}),
    "its own metadata, and that of a template": (
        "core/v1.PodTemplate",
        {
            "metadata": {"name": "a", "labels": {}},
            "template": {"metadata": {"name": "b", "labels": {}}, "spec": {"containers": []}},
        },
        {"metadata": {"name": "a", "labels": {}}, "template": {"metadata": {"name": "b"}, "spec": {"containers": None}}},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rewrite(name: str) -> None:
    of, obj, wanted = CASES[name]
    assert rewrite(obj, lookup(of)) == []
    assert obj == wanted
    assert rewrite(obj, lookup(of)) == []
    assert obj == wanted


def test_unknown_members_are_told_in_the_order_of_the_object() -> None:
    container = {"b": 1, "env": [{"name": "e", "c": 1}], "name": "n", "a": 1}
    obj = {
        "x.y": 1,
        "status": {"z": None},
        "spec": {"template": {"spec": {"containers": [{}, container]}, "metadata": {"q": 1}}},
        "a": 1,
    }
    wanted = [
        "x.y",
        "status.z",
        "spec.template.spec.containers[1].b",
        "spec.template.spec.containers[1].env[0].c",
        "spec.template.spec.containers[1].a",
        "spec.template.metadata.q",
        "a",
    ]
    assert rewrite(obj, lookup("apps/v1.Deployment")) == wanted


def test_members_are_in_gos_order() -> None:
    obj = {"type": "Opaque", "data": {}, "metadata": {}, "immutable": False, "apiVersion": "v1", "kind": "Secret"}
    assert rewrite(obj, lookup("core/v1.Secret")) == []
    assert list(obj.items()) == [
        ("kind", "Secret"),
        ("apiVersion", "v1"),
        ("metadata", {}),
        ("immutable", False),
        ("type", "Opaque"),
    ]


@pytest.mark.parametrize("name", KINDS)
def test_what_is_written_is_written_as_it_is(name: str) -> None:
    obj: dict[str, Any] = {"kind": "K", "apiVersion": "v"}
    assert rewrite(obj, lookup(name)) == []
    written = dict(obj)
    assert rewrite(obj, lookup(name)) == []
    assert obj == written
