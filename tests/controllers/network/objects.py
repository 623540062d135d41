"""Services, Pods and slices for the tests of the controllers of endpoints."""

from __future__ import annotations

from typing import Any

from aggserver.controllers.pod_facts import NamedPort, Pod

__all__ = ["pod", "service", "slice_with", "subset"]


def service(**spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    base = {"selector": {"a": "b"}, "ports": ports, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "type": "ClusterIP"}
    metadata = {"name": "web", "namespace": "ns", "uid": "service-uid", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {**base, **spec}}


def pod(name: str, ip: str = "", **more: Any) -> Pod:
    ports = [NamedPort(*each) for each in more.pop("ports", ())]
    base = {"ips": (ip or f"10.1.0.{name}",), "is_ready": True, "node": "n1", "named_ports": tuple(ports)}
    return Pod("ns", name, f"uid-{name}", more.pop("labels", {"a": "b"}), **{**base, **more})


def subset(*addresses: str, ports: Any = (), **more: Any) -> dict[str, Any]:
    return {
        "addresses": [{"ip": ip} for ip in addresses],
        "ports": [{"name": f"p{each}", "port": each} for each in ports],
        **more,
    }


def slice_with(name: str, endpoints: list[Any], base: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A slice as it is stored. base: one that a plan creates."""
    stored = {key: value for key, value in base["metadata"].items() if key != "generateName"}
    return {**base, "metadata": {**stored, "name": name, "resourceVersion": "1", **metadata}, "endpoints": endpoints}
