"""ClusterServices: the addresses of services in the hosting cluster, for webhooks.

A service is read when a webhook is called, and kept for some seconds. The last known address is used while the API server does
not answer. Connections go to the ClusterIP, like those of kube-apiserver without --enable-aggregator-routing.
Source: k8s.io/apiserver pkg/util/proxy/proxy.go (ResolveCluster), v0.36.3.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.answers import Answers
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.webhook.answers import WebhookError
from aggserver.webhook.config import ServiceReference

__all__ = ["ClusterServices"]

KEEP_SECONDS = 10.0
# Services whose addresses are kept. Clusters have some dozens of services with webhooks.
MAX_SERVICES = 1000

_TYPES_WITH_ADDRESS = ("ClusterIP", "NodePort", "LoadBalancer")


class ClusterServices:
    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._fresh: Answers[tuple[str, str], JSONObject] = Answers(MAX_SERVICES, clock)
        # By namespace and name, the least recently read first.
        self._last: dict[tuple[str, str], JSONObject] = {}

    async def resolve(self, service: ServiceReference) -> tuple[str, int]:
        key = service.namespace, service.name
        spec = await self._fresh.ask(key, lambda: self._read(*key))
        return _address(spec, service)

    async def _read(self, namespace: str, name: str) -> tuple[JSONObject, float]:
        """The spec of a service, and how long to keep it. Raises WebhookError."""
        key = namespace, name
        try:
            found = await self._cluster.request("GET", f"/api/v1/namespaces/{namespace}/services/{name}")
        except (ClusterError, Unreachable) as error:
            if isinstance(error, ClusterError) and error.code == 404:
                self._last.pop(key, None)
                raise WebhookError(f"service {quote(name)} not found") from error
            if key not in self._last:
                raise WebhookError(f"service {namespace}/{name} can't be read: {error}") from error
            return self._last[key], KEEP_SECONDS
        spec: JSONObject = found.get("spec") or {}
        self._last.pop(key, None)
        self._last[key] = spec
        if len(self._last) > MAX_SERVICES:
            del self._last[next(iter(self._last))]
        return spec, KEEP_SECONDS


def _address(spec: JSONObject, service: ServiceReference) -> tuple[str, int]:
    """Host and port of a service. Raises WebhookError with upstream's text."""
    kind, address = spec.get("type", "ClusterIP"), spec.get("clusterIP", "")
    if kind == "ExternalName":
        return str(spec.get("externalName", "")), service.port
    if kind not in _TYPES_WITH_ADDRESS:
        raise WebhookError(f"unsupported service type {quote(kind)}")
    if kind == "ClusterIP" and address == "None":
        raise WebhookError('cannot route to service with ClusterIP "None"')
    if all(port.get("port") != service.port for port in spec.get("ports") or ()):
        raise WebhookError(f"no service port {service.port} found for service {quote(service.name)}")
    return address, service.port
