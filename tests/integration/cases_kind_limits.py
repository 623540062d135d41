"""Cases for `test_same_kinds.py`: LimitRanges, each in a namespace of its own, so that kube-apiserver looks them up at once."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import JSON_PATCH, MERGE_PATCH, Ask, Cases, ask

__all__ = ["CASES", "claim", "gone", "inside", "opened", "pod"]


def inside(method: str, resource: str, body: Any = None, name: str = "", below: str = "", **more: Any) -> Ask:
    """A request in the namespace of the case, which has its name."""
    query = more.pop("query", "")
    path = "/".join(filter(None, ("/api/v1/namespaces/$name", resource, name, below)))
    return ask(method, f"{path}?{query}" if query else path, body, **more)


def opened() -> list[Ask]:
    """The namespace of the case, with an account for its Pods."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$name"}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
    return [
        ask("POST", "/api/v1/namespaces", namespace, compared=False),
        inside("POST", "serviceaccounts", account, compared=False),
    ]


def gone() -> Ask:
    return ask("DELETE", "/api/v1/namespaces/$name", compared=False)


def pod(name: str = "p", *containers: Any, **spec: Any) -> Any:
    made = [{"name": f"c{index}", "image": "example.com/i", "resources": each} for index, each in enumerate(containers or ({},))]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": made, "serviceAccountName": "a", "automountServiceAccountToken": False, **spec},
    }


def claim(storage: str, name: str = "c", **spec: Any) -> Any:
    requests = {"resources": {"requests": {"storage": storage}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], **requests, **spec},
    }


def _range(*limits: Any, name: str = "l", **more: Any) -> Ask:
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": list(limits)}}
    return inside("POST", "limitranges", body, **more)


def _resources(requests: Any = None, limits: Any = None) -> Any:
    return {name: value for name, value in (("requests", requests), ("limits", limits)) if value is not None}


def _init(**resources: Any) -> Any:
    return {"name": "first", "image": "example.com/i", "resources": resources}


_CPU = {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}}
_FULL = {
    "type": "Container",
    "min": {"cpu": "50m", "memory": "100Mi"},
    "max": {"cpu": "500m", "memory": "500Mi"},
    "default": {"cpu": "0.1", "memory": "200Mi"},
    "defaultRequest": {"cpu": "100m", "memory": "200Mi"},
}


def _pods(*bodies: Any) -> list[Ask]:
    return [inside("POST", "pods", body) for body in bodies]


CASES: Cases = {
    "limits-defaults": [
        *opened(),
        _range(_CPU),
        *_pods(
            pod("none"),
            pod("some", _resources({"cpu": "0.2"}), _resources(None, {"cpu": "300m", "memory": "1Gi"}), {}),
            pod("first", {}, initContainers=[_init()]),
            pod("all", _resources({"cpu": "1"}, {"cpu": "2"})),
        ),
        inside("PATCH", "pods", {"metadata": {"labels": {"b": "c"}}}, "none", kind=MERGE_PATCH),
        inside("POST", "pods", pod("dry"), query="dryRun=All"),
        inside("DELETE", "limitranges", None, "l", compared=False),
        gone(),
    ],
    "limits-several-defaults": [
        *opened(),
        _range(_FULL),
        *_pods(pod("none"), pod("some", _resources({"memory": "150Mi"}, {"cpu": "300m", "memory": "0.4Gi"}))),
        gone(),
    ],
    "limits-container": [
        *opened(),
        _range(
            {
                "type": "Container",
                "min": {"cpu": "50m"},
                "max": {"cpu": "500m"},
                "default": {"cpu": "100m"},
                "defaultRequest": {"cpu": "100m"},
            }
        ),
        *_pods(
            pod("low", _resources({"cpu": "10m"})),
            pod("lower", _resources({"cpu": "10m"}, {"cpu": "20m"})),
            pod("high", _resources({"cpu": "100m"}, {"cpu": "600m"})),
            pod("higher", _resources({"cpu": "600m"}, {"cpu": "700m"})),
            pod("second", {}, _resources({"cpu": "1m"})),
            pod("first", {}, initContainers=[_init(limits={"cpu": "2"}, requests={"cpu": "100m"})]),
            pod("edge", _resources({"cpu": "50m"}, {"cpu": "0.5"})),
            pod("both", _resources({"cpu": "10m"}, {"cpu": "1"})),
            {**pod("x"), "metadata": {"generateName": "generated-"}, "spec": pod("x", _resources({"cpu": "1m"}))["spec"]},
        ),
        gone(),
    ],
    "limits-ratio": [
        *opened(),
        _range({"type": "Container", "maxLimitRequestRatio": {"memory": "1.5"}}),
        *_pods(
            pod("none"),
            pod("request", _resources({"memory": "1Gi"})),
            pod("limit", _resources({"memory": "0"}, {"memory": "1Gi"})),
            pod("far", _resources({"memory": "1Gi"}, {"memory": "2Gi"})),
            pod("third", _resources({"memory": "3"}, {"memory": "5"})),
            pod("near", _resources({"memory": "1Gi"}, {"memory": "1.5Gi"})),
        ),
        gone(),
    ],
    "limits-pod": [
        *opened(),
        _range({"type": "Pod", "min": {"cpu": "100m"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "4"}}),
        *_pods(
            pod("low", _resources({"cpu": "30m"}, {"cpu": "100m"}), _resources({"cpu": "20m"}, {"cpu": "100m"})),
            pod("high", _resources({"cpu": "500m"}, {"cpu": "600m"}), _resources({"cpu": "500m"}, {"cpu": "600m"})),
            pod(
                "first",
                _resources({"cpu": "500m"}, {"cpu": "600m"}),
                initContainers=[_init(**_resources({"cpu": "1"}, {"cpu": "2"}))],
            ),
            pod("ratio", _resources({"cpu": "100m"}, {"cpu": "500m"})),
            pod("fits", _resources({"cpu": "50m"}, {"cpu": "100m"}), _resources({"cpu": "50m"}, {"cpu": "100m"})),
            pod("whole", {}, resources=_resources({"cpu": "200m"}, {"cpu": "400m"})),
            pod("wholly", {}, resources=_resources({"cpu": "2"}, {"cpu": "2"})),
        ),
        gone(),
    ],
    "limits-claim": [
        *opened(),
        _range({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}}),
        inside("POST", "persistentvolumeclaims", claim("100Mi")),
        inside("POST", "persistentvolumeclaims", claim("11Gi")),
        inside("POST", "persistentvolumeclaims", claim("10Gi")),
        inside("PATCH", "persistentvolumeclaims", {"metadata": {"labels": {"a": "b"}}}, "c", kind=MERGE_PATCH),
        *_pods(pod("free")),
        gone(),
    ],
    "limits-resize": [
        *opened(),
        *_pods(pod("p", _resources({"cpu": "100m"}, {"cpu": "200m"}))),
        _range({"type": "Container", "max": {"cpu": "300m"}}),
        *(
            inside(
                "PATCH",
                "pods",
                {"spec": {"containers": [{"name": "c0", "resources": {"limits": {"cpu": cpu}}}]}},
                "p",
                "resize",
                kind="application/strategic-merge-patch+json",
            )
            for cpu in ("400m", "250m")
        ),
        gone(),
    ],
    "limits-invalid": [
        *opened(),
        *(
            _range(*limits)
            for limits in (
                [{"type": "Other", "max": {"cpu": "1"}}],
                [{"type": "example.com/Other", "max": {"cpu": "1"}}],
                [{"type": "", "max": {"cpu": "1"}}],
                [{"type": "a b", "max": {"cpu": "1"}}],
                [{"type": "Pod", "max": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "1"}}],
                [{"type": "Pod", "default": {"cpu": "1"}}],
                [{"type": "Pod", "defaultRequest": {"cpu": "1"}}],
                [{"type": "PersistentVolumeClaim", "default": {"storage": "1Gi"}}],
                [{"type": "PersistentVolumeClaim", "max": {"other": "1Gi"}}],
                [{"type": "Container", "max": {"pods": "1"}}],
                [{"type": "Container", "max": {"storage": "1"}}],
                [{"type": "Container", "max": {"requests.example.com/gpu": "1"}}],
                [{"type": "Container", "max": {"a b": "1"}}],
                [{"type": "Container", "max": {"hugepages-2Mi": "2Mi"}}],
                [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}],
                [{"type": "Container", "min": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}],
                [{"type": "Container", "max": {"cpu": "2"}, "defaultRequest": {"cpu": "3"}}],
                [{"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "3"}}],
                [{"type": "Container", "default": {"cpu": "2"}, "min": {"cpu": "3"}, "defaultRequest": {"cpu": "3"}}],
                [{"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "1"}}],
                [{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}],
                [{"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}],
                [{"type": "Container", "default": {"example.com/gpu": "2"}, "defaultRequest": {"example.com/gpu": "1"}}],
                [{"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}],
            )
        ),
        gone(),
    ],
    "limits-changed": [
        *opened(),
        _range(_CPU),
        inside("PATCH", "limitranges", {"spec": {"limits": [{"type": "Container", "min": {"cpu": "1"}}]}}, "l", kind=MERGE_PATCH),
        inside("PATCH", "limitranges", {"spec": {"limits": [{"type": "Pod", "default": {"cpu": "1"}}]}}, "l", kind=MERGE_PATCH),
        inside("PATCH", "limitranges", [{"op": "remove", "path": "/spec/limits"}], "l", kind=JSON_PATCH),
        gone(),
    ],
}
