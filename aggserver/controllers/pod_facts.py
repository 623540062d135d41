"""What controllers need to know of a Pod: about a kilobyte, where a decoded Pod has ten. Pods of one controller share parts.

Pure.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from aggserver.meta.json_types import JSONObject

__all__ = ["Controller", "NamedPort", "Pod", "controller_of", "pod_of"]


class NamedPort(NamedTuple):
    name: str
    protocol: str
    port: int


class Controller(NamedTuple):
    """The owner reference of an object's controller."""

    api_version: str
    kind: str
    name: str
    uid: str


class Pod(NamedTuple):
    """What is known of a Pod.

    ips: of its status. is_over: whether it has succeeded or failed. ready_since: the time of its condition Ready, RFC 3339, ''
    for none. named_ports: of its containers, then of its sidecars. claims: the names of PersistentVolumeClaims that it names.
    disrupted_since: the time of its condition DisruptionTarget, if that is True and not the kubelet's.
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    ips: tuple[str, ...] = ()
    is_ready: bool = False
    is_over: bool = False
    is_terminating: bool = False
    ready_since: str = ""
    node: str = ""
    hostname: str = ""
    subdomain: str = ""
    named_ports: tuple[NamedPort, ...] = ()
    controller: Controller | None = None
    claims: tuple[str, ...] = ()
    disrupted_since: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def pod_of(obj: JSONObject) -> Pod:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    ready, target = conditions.get("Ready") or {}, conditions.get("DisruptionTarget") or {}
    is_disrupted = target.get("status") == "True" and target.get("reason") != "TerminationByKubelet"
    # As kube-apiserver, podIPs has podIP, too; a client may have written only one of them.
    ips = [each.get("ip") or "" for each in status.get("podIPs") or ()] or [status.get("podIP") or ""]
    volumes = spec.get("volumes") or ()
    return Pod(
        namespace=sys.intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        ips=tuple(ip for ip in ips if ip),
        is_ready=ready.get("status") == "True",
        is_over=status.get("phase") in ("Succeeded", "Failed"),
        is_terminating="deletionTimestamp" in metadata,
        ready_since=ready.get("lastTransitionTime") or "",
        node=sys.intern(spec.get("nodeName") or ""),
        hostname=spec.get("hostname") or "",
        subdomain=spec.get("subdomain") or "",
        named_ports=_shared_ports(tuple(_named_ports(spec))),
        controller=_shared_controller(controller_of(metadata)),
        claims=tuple(each["persistentVolumeClaim"]["claimName"] for each in volumes if each.get("persistentVolumeClaim")),
        disrupted_since=(target.get("lastTransitionTime") or "") if is_disrupted else "",
    )


def controller_of(metadata: JSONObject) -> Controller | None:
    for each in metadata.get("ownerReferences") or ():
        if each.get("controller"):
            return Controller(each["apiVersion"], each["kind"], each["name"], each["uid"])
    return None


@lru_cache(maxsize=1000)
def _shared_controller(controller: Controller | None) -> Controller | None:
    return controller


@lru_cache(maxsize=1000)
def _shared_ports(ports: tuple[NamedPort, ...]) -> tuple[NamedPort, ...]:
    return ports


def _named_ports(spec: JSONObject) -> Iterator[NamedPort]:
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("name"):
                yield NamedPort(port["name"], port.get("protocol") or "TCP", port["containerPort"])
