"""Cases for `test_same_kinds.py`: what an update of a built-in kind may change, and in which words others are refused."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Ask, Cases, ask
from tests.integration.kinds import minimal, on

__all__ = ["CASES"]

_SPACE = "/api/v1/namespaces/$name"
_CONDITION = {"type": "Own", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}


def _namespace(**members: Any) -> Any:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$name"}, **members}


def _space_status(method: str, body: Any, kind: str = "application/json") -> Ask:
    return ask(method, f"{_SPACE}/status", body, kind=kind)


_NAMESPACES: Cases = {
    "namespace-status-without-phase": [
        ask("POST", "/api/v1/namespaces", _namespace(), compared=False),
        _space_status("PUT", _namespace(status={"conditions": [_CONDITION]})),
        _space_status("PUT", _namespace(status={"phase": ""})),
        _space_status("PUT", _namespace(status=None)),
        _space_status("PUT", _namespace()),
        _space_status("PATCH", {"status": {"phase": None, "conditions": [_CONDITION]}}, MERGE_PATCH),
        _space_status("PATCH", {"status": None}, MERGE_PATCH),
        _space_status("PATCH", [{"op": "remove", "path": "/status/phase"}], JSON_PATCH),
        _space_status("PATCH", _namespace(status={"conditions": [_CONDITION]}), APPLY_PATCH),
        _space_status("PATCH", {"status": {"phase": "Other"}}, MERGE_PATCH),
        ask("DELETE", _SPACE, compared=False),
    ],
}

_POD = "core/pods"
_GATED = {"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}]}


def _pod(**spec: Any) -> Ask:
    base = minimal(_POD)
    return on("POST", _POD, {**base, "spec": {**base["spec"], **spec}}, compared=False)


def _spec(which: str, **members: Any) -> Ask:
    """A change of the spec. Upstream's text goes on with what differs."""
    return on("PATCH", which, {"spec": members}, kind=MERGE_PATCH, pick=_without_difference)


def _without_difference(body: Any) -> Any:
    if body.get("kind") != "Status":
        return body
    causes = [{**each, "message": each["message"].partition("\n")[0]} for each in body.get("details", {}).get("causes", ())]
    return {**body, "message": body["message"].partition("\n")[0], "details": {**body.get("details", {}), "causes": causes}}


def _affinity(*zones: str, **more: Any) -> Any:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]} for zone in zones]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}, **more}


_PREFERRED = [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]
_NEAR = {
    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}]
}
_TOLERATIONS = [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}]
_END = on("DELETE", _POD, compared=False)

_PODS: Cases = {
    "pod-gated-node-selector": [
        _pod(**_GATED, nodeSelector={"a": "b"}),
        _spec(_POD, nodeSelector={"c": "d"}),
        _spec(_POD, nodeSelector={"c": "e"}),
        _spec(_POD, nodeSelector=None),
        _spec(_POD, schedulingGates=[_GATED["schedulingGates"][1]], nodeSelector={"e": "f"}),
        _spec(_POD, schedulingGates=None, nodeSelector={"g": "h"}),
        _spec(_POD, nodeSelector={"i": "j"}),
        _END,
    ],
    "pod-gated-affinity": [
        _pod(**_GATED),
        _spec(_POD, affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": _PREFERRED}}),
        _spec(_POD, affinity=_affinity("a")),
        _spec(_POD, affinity=_affinity("a", "b")),
        _spec(_POD, affinity=_affinity("c", "b")),
        _spec(_POD, affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": None}}),
        _spec(_POD, affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}),
        _spec(_POD, affinity=None),
        _spec(_POD, affinity={"podAffinity": _NEAR}),
        _END,
    ],
    "pod-affinity": [
        _pod(),
        _spec(_POD, affinity=_affinity("a")),
        _spec(_POD, affinity={"podAffinity": _NEAR}),
        _spec(_POD, nodeSelector={"a": "b"}),
        _END,
    ],
    "pod-gates": [
        _pod(schedulingGates=_GATED["schedulingGates"][:1]),
        _spec(_POD, **_GATED),
        _spec(_POD, schedulingGates=None),
        _spec(_POD, schedulingGates=_GATED["schedulingGates"][:1]),
        _END,
    ],
    "pod-tolerations": [
        _pod(tolerations=_TOLERATIONS),
        _spec(_POD, tolerations=[*_TOLERATIONS, {"key": "x", "operator": "Exists"}]),
        _spec(_POD, tolerations=[{**_TOLERATIONS[0], "tolerationSeconds": 9}, {"key": "x", "operator": "Exists"}]),
        _spec(_POD, tolerations=None),
        _END,
    ],
    "pod-grace": [_pod(terminationGracePeriodSeconds=30), _spec(_POD, terminationGracePeriodSeconds=1), _END],
    "pod-deadline": [
        _pod(),
        _spec(_POD, activeDeadlineSeconds=50),
        _spec(_POD, activeDeadlineSeconds=40),
        _spec(_POD, activeDeadlineSeconds=60),
        _spec(_POD, activeDeadlineSeconds=None),
        _spec(_POD, activeDeadlineSeconds=60, nodeName="n"),
        _END,
    ],
    "pod-containers": [
        _pod(),
        _spec(_POD, containers=[{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]),
        _spec(_POD, containers=[{"name": "c", "image": "i", "env": []}]),
        _spec(_POD, containers=[{"name": "c", "image": "i", "env": [{"name": "A"}]}]),
        _spec(_POD, containers=[{"name": "c", "image": " i"}]),
        _END,
    ],
    "pod-mirror-annotation": [
        _pod(),
        on("PATCH", _POD, {"metadata": {"annotations": {"kubernetes.io/config.mirror": "a"}}}, kind=MERGE_PATCH),
        on("PATCH", _POD, {"metadata": {"annotations": {"kubernetes.io/config.mirror": "a"}}}, kind=MERGE_PATCH, below="status"),
        _END,
    ],
}

CASES: Cases = _NAMESPACES | _PODS
