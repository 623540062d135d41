"""Publishes the server's address in the Endpoints and EndpointSlice of the Service `kubernetes`, as in a cluster.

As upstream, the server writes them itself. If it listens on the loopback, whose address is not valid for an endpoint, the address
of an interface is published.
Source: k8s.io/kubernetes pkg/controlplane/controller/kubernetesservice, pkg/controlplane/reconcilers/{lease,endpointsadapter}.go,
v1.36.3; k8s.io/apimachinery pkg/util/net/interface.go (ResolveBindAddress), v0.36.3.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Callable

from aggserver.informers.informer import CONTROLLER
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, DeleteOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store

__all__ = ["advertised", "publish", "server_endpoints"]

_NAME, _NAMESPACE = "kubernetes", "default"
_WRITE = WriteOptions(field_manager="kube-apiserver")
# An address for documentation. Nothing is sent there: the kernel only chooses the interface by which packets would leave.
_SOMEWHERE = ("192.0.2.1", 9)


def advertised(bind_address: str) -> str:
    """The address by which others reach the server; '' if it is not known, and no endpoints are to be published."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(bind_address)
        if not (address.is_loopback or address.is_unspecified):
            return str(address)
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(_SOMEWHERE)
        found: str = probe.getsockname()[0]
        return "" if ipaddress.ip_address(found).is_loopback else found
    return ""


def server_endpoints(address: str, port: int) -> tuple[JSONObject, JSONObject]:
    """The wanted Endpoints and EndpointSlice."""
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": _NAME,
            "namespace": _NAMESPACE,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
    }
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": _NAME, "namespace": _NAMESPACE, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": f"IPv{ipaddress.ip_address(address).version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": ports,
    }
    return endpoints, slice_


async def publish(store: Callable[[str, str], Store], address: str, port: int) -> None:
    """Write both objects, if they are missing or differ. store: returns the store of (group, resource). Raises StatusError."""
    endpoints, slice_ = server_endpoints(address, port)
    await _ensure(store("", "endpoints"), endpoints)
    await _ensure(store("discovery.k8s.io", "endpointslices"), slice_)


async def _ensure(store: Store, wanted: JSONObject) -> None:
    store.strategy.conform(wanted)
    members = {name: value for name, value in wanted.items() if name != "metadata"}
    labels = wanted["metadata"]["labels"]

    async def corrected(obj: JSONObject) -> JSONObject:
        metadata = {**obj["metadata"], "labels": {**(obj["metadata"].get("labels") or {}), **labels}}
        return {**obj, **members, "metadata": metadata}

    context = Context(CONTROLLER, _NAMESPACE)
    request = WriteRequest(context, _WRITE)
    try:
        found = await store.find(context, _NAME)
        if found is not None and found.decoded().get("addressType") == wanted.get("addressType"):
            await store.update(request, _NAME, corrected)  # stores nothing if nothing has changed
            return
        if found is not None:
            await store.delete(context, _NAME, DeleteOptions())  # addressType can't be changed
    except StatusError as error:
        if error.code != 404:
            raise
    try:
        await store.create(request, wanted)
    except StatusError as error:
        if error.reason != "AlreadyExists":  # another server of the store was quicker
            raise
