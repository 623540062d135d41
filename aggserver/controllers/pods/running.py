"""The status of Pods that are shown as running at once, though no node runs them, for `--pods=run`.

Pure. Source: k8s.io/kubernetes pkg/kubelet/status/generate.go, pkg/kubelet/kubelet_pods.go, v1.36.3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from aggserver.meta.json_types import JSONObject

__all__ = ["NODE_ADDRESS", "completed", "node", "node_status", "running"]

NODE_ADDRESS = "172.18.0.2"
# In the kubelet's order.
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_ROOM = {"cpu": "32", "memory": "256Gi", "pods": "10000", "ephemeral-storage": "1Ti"}


def running(pod: JSONObject, now: str) -> JSONObject:
    """The status of a Pod whose containers have just started. now: RFC 3339."""
    status, spec, uid = pod.get("status") or {}, pod["spec"], pod["metadata"]["uid"]
    address = _address(uid)
    gates = [gate["conditionType"] for gate in spec.get("readinessGates") or ()]
    is_ready = set(gates) <= {entry["type"] for entry in status.get("conditions") or () if entry["status"] == "True"}
    wanted = dict.fromkeys(_CONDITIONS, "True")
    wanted["Ready"] = "True" if is_ready else "False"
    found = {
        **status,
        "phase": "Running",
        "conditions": _conditions(status.get("conditions") or (), wanted, now),
        "hostIP": NODE_ADDRESS,
        "hostIPs": [{"ip": NODE_ADDRESS}],
        "podIP": NODE_ADDRESS if spec.get("hostNetwork") else address,
        "podIPs": [{"ip": NODE_ADDRESS if spec.get("hostNetwork") else address}],
        "startTime": status.get("startTime", now),
        "containerStatuses": [_container(each, uid, {"running": {"startedAt": now}}) for each in spec["containers"]],
    }
    if spec.get("initContainers"):
        found["initContainerStatuses"] = [
            _container(
                each, uid, {"running": {"startedAt": now}} if each.get("restartPolicy") == "Always" else _terminated(now, now)
            )
            for each in spec["initContainers"]
        ]
    return found


def completed(pod: JSONObject, now: str) -> JSONObject:
    """The status of a running Pod when its containers have ended without an error."""
    status, spec, uid = pod["status"], pod["spec"], pod["metadata"]["uid"]
    wanted = {"PodReadyToStartContainers": "False", "Ready": "False", "ContainersReady": "False"}
    ended = _terminated(status.get("startTime", now), now)
    return {
        **status,
        "phase": "Succeeded",
        "conditions": _conditions(status.get("conditions") or (), wanted, now, reason="PodCompleted"),
        "containerStatuses": [_container(each, uid, ended) for each in spec["containers"]],
    }


def node(name: str) -> JSONObject:
    """The node on which all Pods run."""
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}}


def node_status(name: str, now: str) -> JSONObject:
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "Pods run at once", **times}
    addresses = [{"type": "InternalIP", "address": NODE_ADDRESS}, {"type": "Hostname", "address": name}]
    return {"capacity": _ROOM, "allocatable": _ROOM, "conditions": [ready], "addresses": addresses, "phase": "Running"}


def _container(container: JSONObject, uid: str, state: JSONObject) -> JSONObject:
    is_running = "running" in state
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "containerID": f"aggserver://{uid}/{container['name']}",
        "lastState": {},
        "ready": is_running,
        "restartCount": 0,
        "started": is_running,
        "state": state,
    }


def _terminated(since: str, now: str) -> JSONObject:
    return {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": since, "finishedAt": now}}


def _conditions(before: Sequence[JSONObject], wanted: Mapping[str, str], now: str, reason: str = "") -> list[JSONObject]:
    entries = {entry["type"]: entry for entry in before}
    for name, status in wanted.items():
        old = entries.get(name, {})
        if old.get("status") != status:
            entries[name] = {"type": name, "status": status, "lastProbeTime": None, "lastTransitionTime": now}
            if status == "False" and reason:
                entries[name]["reason"] = reason
            elif status == "False":
                entries[name] |= {"reason": "ReadinessGatesNotReady", "message": "a readiness gate is not True"}
    return list(entries.values())


def _address(uid: str) -> str:
    digest = hashlib.sha256(uid.encode()).digest()
    return f"10.244.{digest[0]}.{digest[1] % 254 + 1}"
