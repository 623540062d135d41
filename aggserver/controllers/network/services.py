"""What the spec of a Service says of its endpoints.

Pure. Source: k8s.io/endpointslice utils.go (FindPort), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aggserver.controllers.pod_facts import NamedPort
from aggserver.meta.json_types import JSONObject

__all__ = ["ServicePort", "has_endpoints", "is_headless", "ports_at"]


class ServicePort(NamedTuple):
    """A port of a Service, as it is at a Pod."""

    name: str
    port: int
    protocol: str
    app_protocol: str | None


def has_endpoints(service: JSONObject) -> bool:
    """Whether the endpoints of a Service are those of the Pods that it selects."""
    spec = service["spec"]
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def is_headless(service: JSONObject) -> bool:
    return service["spec"].get("clusterIP") in (None, "", "None")


def ports_at(service: JSONObject, named_ports: Sequence[NamedPort]) -> tuple[ServicePort, ...]:
    """The ports of a Service at a Pod with these named ports, without those that the Pod does not have."""
    named: dict[tuple[str, str], int] = {}
    for each in named_ports:
        named.setdefault((each.name, each.protocol), each.port)
    found = []
    for port in service["spec"].get("ports") or ():
        target, protocol = port.get("targetPort"), port.get("protocol") or "TCP"
        number = target if isinstance(target, int) else named.get((target, protocol))
        if number is not None:
            found.append(ServicePort(port.get("name") or "", number, protocol, port.get("appProtocol")))
    return tuple(found)
