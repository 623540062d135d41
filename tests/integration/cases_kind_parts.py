"""Cases for `test_same_kinds.py`: Ingresses, and the parts of Pods that have endpoints of their own."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import JSON_PATCH, MERGE_PATCH, Ask, Cases
from tests.integration.kinds import minimal, on

__all__ = ["CASES"]

_INGRESS, _POD = "networking.k8s.io/ingresses", "core/pods"
_SERVICE = {"service": {"name": "s", "port": {"number": 80}}}


def _ingress(metadata: Any = None, **spec: Any) -> Ask:
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "$name", **(metadata or {})},
        "spec": spec,
    }
    return on("POST", _INGRESS, body, query="dryRun=All")


def _path(**path: Any) -> Ask:
    return _ingress(rules=[{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": _SERVICE, **path}]}}])


def _backend(**backend: Any) -> Ask:
    return _ingress(defaultBackend=backend)


def _added(*containers: Any) -> Ask:
    return on("PATCH", _POD, {"spec": {"ephemeralContainers": list(containers)}}, kind=MERGE_PATCH, below="ephemeralcontainers")


def _resized(**resources: Any) -> Ask:
    change = [{"op": "replace", "path": "/spec/containers/0/resources", "value": resources}]
    return on("PATCH", _POD, change, kind=JSON_PATCH, below="resize", pick=_outcome)


def _outcome(body: Any) -> Any:
    """Of a Pod only the resources, since kube-apiserver shows more of a resize."""
    return body["spec"]["containers"][0]["resources"] if body.get("kind") == "Pod" else body


_DEBUG = {"name": "d", "image": "i"}
_HAD = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "example.com/x": "1"}}

CASES: Cases = {
    "ingress-rules": [
        _ingress(),
        _ingress(rules=[{"host": "1.2.3.4"}, {"host": "*.example.com"}, {"host": "*"}, {"host": "A_b"}, {"http": {"paths": []}}]),
        _ingress(defaultBackend=_SERVICE, tls=[{"hosts": ["a", "*.b", "c*", "D"], "secretName": "A_"}]),
        _ingress({"annotations": {"kubernetes.io/ingress.class": "a"}}, defaultBackend=_SERVICE, ingressClassName="b"),
        _ingress(defaultBackend=_SERVICE, ingressClassName="A_"),
        _path(),
        _path(path=""),
        _path(path="a"),
        _path(path="//a/../b%2f/.."),
        _path(path="a", pathType="ImplementationSpecific"),
        _path(path="", pathType="ImplementationSpecific"),
        _path(pathType="Other"),
        _path(pathType=None),
        _path(backend={}),
        _backend(),
        _backend(service={"name": "s"}),
        _backend(service={"name": "S", "port": {"name": "a", "number": 1}}),
        _backend(service={"name": "", "port": {"name": "A_B"}}),
        _backend(service={"name": "s", "port": {"number": 70000}}),
        _backend(resource={"kind": "", "name": "a/b"}),
        _backend(resource={"apiGroup": "A_", "kind": "K", "name": "n"}),
        _backend(resource={"kind": "K", "name": "n"}, **_SERVICE),
    ],
    "pod-ephemeral-rules": [
        on("POST", _POD, minimal(_POD), compared=False),
        _added({"name": "c", "image": "i"}),
        _added({"name": "D", "image": ""}),
        _added({**_DEBUG, "targetContainerName": "x", "ports": [{"containerPort": 1}], "resources": {"limits": {"cpu": "1"}}}),
        _added(_DEBUG),
        _added(),
        _added(_DEBUG, {**_DEBUG, "name": "e"}),
        on("DELETE", _POD, query="gracePeriodSeconds=0", compared=False),
    ],
    "pod-resize-rules": [
        on(
            "POST",
            _POD,
            minimal(
                _POD, spec={"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i", "resources": _HAD}]}
            ),
            compared=False,
        ),
        _resized(requests={"cpu": "3", "memory": "1Gi"}, limits=_HAD["limits"]),
        _resized(requests={"cpu": "1"}, limits=_HAD["limits"]),
        _resized(requests={**_HAD["requests"], "example.com/x": "1"}, limits={"cpu": "2"}),
        _resized(requests=_HAD["requests"], limits={"cpu": "2", "example.com/x": "2"}),
        _resized(requests={"cpu": "2", "memory": "1Gi"}, limits=_HAD["limits"]),
        on("DELETE", _POD, query="gracePeriodSeconds=0", compared=False),
    ],
}
