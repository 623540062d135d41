"""Additions: what single admission plugins of kube-apiserver add to objects, where that needs at most the name of a class.

Pure. Source: k8s.io/kubernetes plugin/pkg/admission/{priority,defaulttolerationseconds,nodetaint,storage/storageclass,
storage/storageobjectinuseprotection,network/defaultingressclass,podtopologylabels}, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = [
    "CRITICAL",
    "add_topology",
    "keep_priority",
    "protect_attributes_class",
    "protect_claim",
    "protect_volume",
    "set_ingress_class",
    "set_priority",
    "set_storage_class",
    "taint_node",
    "tolerate_some_time",
]

CRITICAL: Mapping[str, JSONMapping] = {
    "system-cluster-critical": {"value": 2_000_000_000, "preemptionPolicy": "PreemptLowerPriority"},
    "system-node-critical": {"value": 2_000_001_000, "preemptionPolicy": "PreemptLowerPriority"},
}
"""The PriorityClasses that every cluster has, by name, with the members that Pods get."""

_EXECUTING = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS = 300
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def keep_priority(pod: JSONObject, old: JSONMapping) -> None:
    """Keep the priority of a Pod whose update has left it out."""
    for name in ("priority", "preemptionPolicy"):
        if name not in pod["spec"] and name in old["spec"]:
            pod["spec"][name] = old["spec"][name]


def set_priority(pod: JSONObject, chosen: JSONMapping | None) -> str:
    """Set the priority of a new Pod. chosen: the PriorityClass that it names, or the global default.

    Returns why the Pod is refused, '' if it is not: it has another priority than its class.
    """
    spec = pod["spec"]
    given: JSONMapping = chosen or CRITICAL.get(spec.get("priorityClassName", ""), {})
    if "metadata" in given:
        spec["priorityClassName"] = given["metadata"]["name"]
    value, policy = given.get("value", 0), given.get("preemptionPolicy", "PreemptLowerPriority")
    end = "must not be provided in pod spec; priority admission controller computed"
    if spec.get("priority", value) != value:
        return f"the integer value of priority ({spec['priority']}) {end} {value} from the given PriorityClass name"
    if spec.get("preemptionPolicy", policy) != policy:
        return (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) {end} {policy} from the given PriorityClass name"
        )
    spec["priority"], spec["preemptionPolicy"] = value, policy
    return ""


def tolerate_some_time(pod: JSONObject) -> None:
    """Let a Pod stay five minutes on a node that is not ready or can't be reached, unless it says otherwise."""
    given = pod["spec"].get("tolerations") or []
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
        for key in _EXECUTING
        if not any(_tolerates(each, key) for each in given)
    ]
    if added:
        pod["spec"]["tolerations"] = [*given, *added]


def _tolerates(toleration: JSONMapping, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def taint_node(node: JSONObject) -> None:
    """Mark a new Node as not ready, so that nothing is scheduled to it before it is."""
    given = node["spec"].get("taints") or []
    if not any((each.get("key"), each.get("effect")) == (_NOT_READY["key"], _NOT_READY["effect"]) for each in given):
        node["spec"]["taints"] = [*given, dict(_NOT_READY)]


def protect_claim(claim: JSONObject) -> None:
    _finalize(claim, "kubernetes.io/pvc-protection")


def protect_volume(volume: JSONObject) -> None:
    _finalize(volume, "kubernetes.io/pv-protection")


def protect_attributes_class(made: JSONObject) -> None:
    _finalize(made, "kubernetes.io/vac-protection")


def _finalize(obj: JSONObject, finalizer: str) -> None:
    given = obj["metadata"].get("finalizers") or []
    if finalizer not in given:
        obj["metadata"]["finalizers"] = [*given, finalizer]


def set_storage_class(claim: JSONObject, default: str) -> None:
    """default: the name of the default StorageClass, '' for none."""
    annotated = "volume.beta.kubernetes.io/storage-class" in (claim["metadata"].get("annotations") or {})
    if default and "storageClassName" not in claim["spec"] and not annotated:
        claim["spec"]["storageClassName"] = default


def set_ingress_class(ingress: JSONObject, default: str) -> None:
    """default: the name of the default IngressClass, '' for none."""
    annotated = "kubernetes.io/ingress.class" in (ingress["metadata"].get("annotations") or {})
    if default and "ingressClassName" not in ingress["spec"] and not annotated:
        ingress["spec"]["ingressClassName"] = default


def add_topology(obj: JSONObject, node: JSONMapping) -> None:
    """Give a Pod, or the Binding of one, the labels that tell the zone and region of its Node."""
    labels = node["metadata"].get("labels") or {}
    if found := {name: labels[name] for name in _TOPOLOGY if name in labels}:
        obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), **found}
