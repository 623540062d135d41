"""Cases for `test_same_policies.py` about built-in kinds: those served in two versions, and the merging of Go's types."""

from __future__ import annotations

from typing import Any

from aggserver.meta.json_types import JSONObject
from tests.integration.cases_policies import makes, patches, says
from tests.integration.comparison import MERGE_PATCH, Ask, ask
from tests.integration.policy_sides import PolicyCase

__all__ = ["CASES"]


def _of(group: str, version: str, resource: str, operations: tuple[str, ...] = ("CREATE",), **more: Any) -> JSONObject:
    rule = {"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": [*operations]}
    return {"matchConstraints": {"resourceRules": [rule], **more}}


def _kept(path: str, body: JSONObject) -> list[Ask]:
    """What is stored, and whether it goes again."""
    return [ask("POST", path, body), ask("GET", f"{path}/$name"), ask("DELETE", f"{path}/$name")]


def _scaler(version: str, **spec: Any) -> list[Ask]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    body = {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "$name"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 5, **spec},
    }
    return _kept(f"/apis/autoscaling/{version}/namespaces/$namespace/horizontalpodautoscalers", body)


def _event(**more: Any) -> list[Ask]:
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "$name"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "$namespace"},
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "reportingController": "example.com/tester",
        "reportingInstance": "tester-1",
        "action": "Trying",
        "reason": "Tried",
        "type": "Normal",
        **more,
    }
    return _kept("/apis/events.k8s.io/v1/namespaces/$namespace/events", body)


def _core_event() -> list[Ask]:
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "$name"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "$namespace"},
        "reason": "Tried",
        "message": "hello",
    }
    return _kept("/api/v1/namespaces/$namespace/events", body)


def _deployment() -> list[Ask]:
    pod = {
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
    }
    labels = {"app": "a"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "$name"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return _kept("/apis/apps/v1/namespaces/$namespace/deployments", body)


def _pod_spec(inner: str) -> str:
    at = "Object.spec.template.spec"
    return f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {at}{{{inner.replace('@', at)}}}}}}}}}"


_OLDER, _NEWER = (_of("autoscaling", version, "horizontalpodautoscalers") for version in ("v1", "v2"))
_CORE, _DELETED = _of("", "v1", "events"), _of("", "v1", "events", ("DELETE",))
_EXACT = {"matchPolicy": "Exact"}
_DEPLOYMENTS = _of("apps", "v1", "deployments")
_USE = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
_METRICS = [{"type": "Resource", "resource": _USE}]
_LOW = "object == null || object.spec.targetCPUUtilizationPercentage < 50"

CASES: dict[str, PolicyCase] = {
    "older scaler refuses": PolicyCase(_scaler("v2", metrics=_METRICS)[:1], validating={"v": {**says(_LOW), **_OLDER}}),
    "older scaler allows": PolicyCase(
        _scaler("v2", metrics=_METRICS), validating={"v": {**says(_LOW.replace("50", "70")), **_OLDER}}
    ),
    "newer scaler refuses": PolicyCase(
        _scaler("v1")[:1], validating={"v": {**says("size(object.spec.metrics) > 1", message="few"), **_NEWER}}
    ),
    "older scaler exactly": PolicyCase(
        _scaler("v2"), validating={"v": {**says("false"), **_of("autoscaling", "v1", "horizontalpodautoscalers", **_EXACT)}}
    ),
    "older scaler changed": PolicyCase(
        _scaler("v2")[:1],
        mutating={"m": {**makes("Object{spec: Object.spec{targetCPUUtilizationPercentage: 33}}"), **_OLDER}},
    ),
    "core event refuses": PolicyCase(
        _event()[:1], validating={"v": {**says("object.involvedObject.name != 'p'", message="p"), **_CORE}}
    ),
    "core event's deletion": PolicyCase(
        _event(), validating={"v": {**says("object != null || oldObject.involvedObject.name != 'p'", message="p"), **_DELETED}}
    ),
    "core event excluded": PolicyCase(
        _event(),
        validating={
            "v": {
                **says("false"),
                **_of("events.k8s.io", "v1", "events", excludeResourceRules=_CORE["matchConstraints"]["resourceRules"]),
            }
        },
    ),
    "core event bound": PolicyCase(
        _event()[:1],
        validating={
            "v": {
                **says("false", message="no"),
                **_of("*", "*", "events"),
                "bindings": [{"matchResources": {**_CORE["matchConstraints"]}}],
            }
        },
    ),
    "newer scaler changed": PolicyCase(
        _scaler("v1")[:1], mutating={"m": {**makes("Object{spec: Object.spec{minReplicas: 2}}"), **_NEWER}}
    ),
    "scaler changed as it is": PolicyCase(
        _scaler("v1"),
        mutating={"m": {**makes("Object{spec: Object.spec{targetCPUUtilizationPercentage: 33}}"), **_OLDER}},
    ),
    "core event changed": PolicyCase(
        _event()[:1], mutating={"m": {**patches("[JSONPatch{op: 'add', path: '/message', value: 'changed'}]"), **_CORE}}
    ),
    "new event changed": PolicyCase(
        _core_event()[:1],
        mutating={
            "m": {
                **patches("[JSONPatch{op: 'add', path: '/note', value: 'changed'}]"),
                **_of("events.k8s.io", "v1", "events"),
            }
        },
    ),
    "scale changed": PolicyCase(
        [
            *_deployment()[:1],
            ask(
                "PATCH",
                "/apis/apps/v1/namespaces/$namespace/deployments/$name/scale",
                {"spec": {"replicas": 1}},
                kind=MERGE_PATCH,
            ),
            *_deployment()[2:],
        ],
        mutating={
            "m": {
                **patches("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 0}]"),
                **_of("apps", "v1", "deployments/scale", ("UPDATE",)),
            }
        },
    ),
    "container added": PolicyCase(
        _deployment(), mutating={"m": {**makes(_pod_spec("containers: [@.containers{name: 'd', image: 'j'}]")), **_DEPLOYMENTS}}
    ),
    "variable added": PolicyCase(
        _deployment(),
        mutating={
            "m": {
                **makes(_pod_spec("containers: [@.containers{name: 'c', env: [@.containers.env{name: 'B', value: '2'}]}]")),
                **_DEPLOYMENTS,
            }
        },
    ),
    "toleration added": PolicyCase(
        _deployment()[:1], mutating={"m": {**makes(_pod_spec("tolerations: [@.tolerations{key: 'b'}]")), **_DEPLOYMENTS}}
    ),
}
