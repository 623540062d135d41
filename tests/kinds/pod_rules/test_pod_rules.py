"""The rules of Pods and of workloads; `tests/integration/test_same_pods.py` asks kube-apiserver the same."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.catalog import KINDS
from aggserver.kinds.strategy import KindStrategy

_STRATEGIES = {kind.name: KindStrategy(kind) for kind in KINDS if kind.version == "v1"}
_CONTAINER = {"name": "c", "image": "i"}


def _made(kind: str, spec: Any, metadata: Any = None) -> Any:
    strategy = _STRATEGIES[kind]
    obj = {"apiVersion": strategy.kind.api_version, "kind": kind, "metadata": {"name": "a", "namespace": "n", **(metadata or {})}}
    obj["spec"] = spec
    strategy.conform(obj)
    return obj


def _template(spec: Any = None, **labels: str) -> Any:
    return {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER], **(spec or {})}}


def _containers(*containers: Any, **spec: Any) -> Any:
    return {"containers": [{**_CONTAINER, **each} for each in containers], **spec}


_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

# Kind, spec, and the fields that have errors.
CASES: dict[str, tuple[str, Any, list[str]]] = {
    "right": ("Pod", _containers({}), []),
    "names": (
        "Pod",
        _containers({"name": "a.b"}, {}, {}, initContainers=[_CONTAINER]),
        ["spec.containers[0].name", "spec.containers[2].name", "spec.initContainers[0].name"],
    ),
    "a mount of nothing": (
        "Pod",
        _containers({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
        ["spec.containers[0].volumeMounts[0].name"],
    ),
    "a mount of a wrong volume": (
        "Pod",
        _containers({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, volumes=[{"name": "v", "secret": {}}]),
        ["spec.volumes[0].secret.secretName", "spec.containers[0].volumeMounts[0].name"],
    ),
    "requests above limits": (
        "Pod",
        _containers({"resources": {"requests": {"cpu": "1001m"}, "limits": {"cpu": "1"}}}),
        ["spec.containers[0].resources.requests"],
    ),
    "a probe without a handler": ("Pod", _containers({"livenessProbe": {}}), ["spec.containers[0].livenessProbe"]),
    "a template": ("Deployment", {"selector": {"matchLabels": {"a": "b"}}, "template": _template(a="b")}, []),
    "other labels": (
        "Deployment",
        {"selector": {"matchLabels": {"a": "b"}}, "template": _template(a="c")},
        ["spec.template.metadata.labels"],
    ),
    "an empty selector": ("ReplicaSet", {"selector": {}, "template": _template(a="c")}, ["spec.selector"]),
    "no selector": ("Deployment", {"template": _template()}, ["spec.selector", "spec.template.metadata.labels"]),
    "a selector that can't be read": (
        "DaemonSet",
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}, "template": _template({"hostname": "A"})},
        ["spec.selector.matchExpressions[0].operator", "spec.template.spec.hostname"],
    ),
    "Pods that end": (
        "DaemonSet",
        {"selector": {"matchLabels": {"a": "b"}}, "template": _template({"restartPolicy": "Never"}, a="b")},
        ["spec.template.spec.restartPolicy"],
    ),
    "labels of a ReplicationController": (
        "ReplicationController",
        {"selector": {"a": "b"}, "template": _template(a="c")},
        ["spec.template.metadata.labels"],
    ),
    "the claims of a StatefulSet": (
        "StatefulSet",
        {
            "selector": {"matchLabels": {"a": "b"}},
            "serviceName": "s",
            "template": _template({**_containers({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}), "hostname": "A"}, a="b"),
            "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": _CLAIM}],
        },
        [],
    ),
    "a wrong claim of a StatefulSet": (
        "StatefulSet",
        {
            "selector": {"matchLabels": {"a": "b"}},
            "serviceName": "s",
            "template": _template(a="b"),
            "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {**_CLAIM, "accessModes": ["X"]}}],
        },
        ["spec.volumeClaimTemplates[0].spec.accessModes"],
    ),
    "a claim": ("PersistentVolumeClaim", _CLAIM, []),
    "an Ingress": ("Ingress", {"defaultBackend": {"service": {"name": "s", "port": {"name": "http"}}}}, []),
    "an Ingress without backends": (
        "Ingress",
        {"rules": [{"host": "10.0.0.1", "http": {"paths": [{"path": "a/../b", "pathType": "Exact"}]}}]},
        ["spec.rules[0].host", *["spec.rules[0].http.paths[0].path"] * 2, "spec.rules[0].http.paths[0].backend"],
    ),
    "an empty Ingress": ("Ingress", {}, ["spec"]),
    "a claim without a size": ("PersistentVolumeClaim", {"accessModes": ["ReadWriteOnce"]}, ["spec.resources[storage]"]),
}


@pytest.mark.parametrize(("kind", "spec", "wanted"), CASES.values(), ids=CASES)
def test_problems(kind: str, spec: Any, wanted: list[str]) -> None:
    obj = _made(kind, spec)
    assert [problem.field for problem in _STRATEGIES[kind].validate(obj).errors] == wanted


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_what_an_object_had_is_not_refused(kind: str) -> None:
    """It may have been stored before there was the rule."""
    wrong = _containers({"ports": [{"containerPort": 70000}]})
    template = {"selector": {"matchLabels": {"a": "b"}}, "template": _template(wrong, a="b")}
    old = _made(kind, wrong if kind == "Pod" else template)
    strategy = _STRATEGIES[kind]
    assert strategy.validate(old).errors
    assert strategy.validate_update(_made(kind, old["spec"], {"labels": {"x": "y"}}), old).errors == []
    spec = old["spec"] if kind == "Pod" else old["spec"]["template"]["spec"]
    worse = {**spec, "containers": [{**spec["containers"][0], "image": ""}]}
    new = _made(kind, worse if kind == "Pod" else {**template, "template": _template(worse, a="b")})
    assert {problem.field.rpartition(".")[2] for problem in strategy.validate_update(new, old).errors} == {"image"}


def test_many_parts() -> None:
    """A Pod may have as many as fit into a request; comparing all with all would take minutes."""
    number = 5_000
    container = {
        "ports": [{"containerPort": 1 + index, "name": f"p{index}", "hostPort": 1 + index} for index in range(number)],
        "volumeMounts": [{"name": f"v{index}", "mountPath": f"/{index}"} for index in range(number)],
        "env": [{"name": f"E{index}"} for index in range(number)],
    }
    volumes = [{"name": f"v{index}", "emptyDir": {}} for index in range(number)]
    claims = [{"name": f"r{index}", "resourceClaimName": "x"} for index in range(number)]
    spread = [{"maxSkew": 1, "topologyKey": f"t{index}", "whenUnsatisfiable": "DoNotSchedule"} for index in range(number)]
    container["resources"] = {"claims": [{"name": claim["name"]} for claim in claims]}
    spec = _containers(container, *({"name": f"c{index}"} for index in range(number // 10)))
    spec |= {"volumes": volumes, "resourceClaims": claims, "topologySpreadConstraints": spread}
    assert _STRATEGIES["Pod"].validate(_made("Pod", spec)).errors == []
