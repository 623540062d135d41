"""Replicas: a client for each kube-apiserver of the hosting cluster, which may have several behind one address.

Needed to find out whether each of them has applied a change of an APIService or a webhook configuration, which each does at a
time of its own. Their addresses are the endpoints of the Service `default/kubernetes`, which kube-apiservers keep up to date
themselves: one that has ended disappears after some 15 seconds. Clients outside of the cluster may be unable to reach these, and
a cluster may publish none. Then a flag gives their URLs; without it, only the one known address is used.
Source: k8s.io/kubernetes pkg/controlplane/reconcilers/{lease,endpointsadapter}.go, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from aggserver.cluster import Cluster, ClusterError
from aggserver.cluster.client import ClusterClient
from aggserver.cluster.configuration import ClientCredentials, ConfigurationSource, InClusterSource, KubeconfigSource

__all__ = ["Connect", "Replicas", "connect_each", "endpoints"]

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
OF_KUBERNETES = {"labelSelector": "kubernetes.io/service-name=kubernetes"}

# A name in the certificate of each kube-apiserver, for the clients in pods.
NAME_IN_CLUSTER = "kubernetes.default.svc"

GRANT = (
    "grant this server's service account {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list]} in "
    "namespace default, or give --kube-apiservers"
)

# Makes a client for a URL. Raises ConfigurationError.
Connect = Callable[[str], Awaitable[Cluster]]


def endpoints(slices: Sequence[Mapping[str, Any]]) -> list[str]:
    """The sorted URLs of the ready endpoints of EndpointSlices."""
    found = set()
    for each in slices:
        ports = [port["port"] for port in each.get("ports") or () if port.get("name") == "https" and port.get("port")]
        for endpoint in each.get("endpoints") or ():
            # As the API documents it, an unknown condition counts as ready.
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                found |= {_url(address, port) for address in endpoint.get("addresses") or () for port in ports}
    return sorted(found)


def _url(address: str, port: int) -> str:
    return f"https://{f'[{address}]' if ':' in address else address}:{port}"


def connect_each(cluster: Cluster, kubeconfig: str, urls: Sequence[str], user_agent: str) -> Replicas:
    """The clients for all kube-apiservers. Sends nothing yet.

    cluster: the client for the kubeconfig, or if that is '', for the cluster of this pod. urls: of all kube-apiservers; if empty,
    they are read from the cluster's endpoints.
    """

    async def connect(url: str) -> ClusterClient:
        source = _AtReplica(kubeconfig, url)
        return ClusterClient(source, await source.load(), user_agent)

    return Replicas(cluster, connect, urls)


class Replicas:
    """A client for each kube-apiserver. Keeps them between calls, since a new connection takes longer than a request."""

    def __init__(self, cluster: Cluster, connect: Connect, urls: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self._connect = connect
        self._urls = [url.rstrip("/") for url in urls]
        self._clients: dict[str, Cluster] = {}
        self._lock = asyncio.Lock()

    async def clusters(self) -> Sequence[Cluster]:
        """A client for each kube-apiserver there is now; at least one. They are valid until the next call, or `close`.

        Raises ClusterError, Unreachable and ConfigurationError.
        """
        async with self._lock:
            urls = self._urls or await self._published()
            for url in self._clients.keys() - set(urls):
                await self._clients.pop(url).close()
            for url in urls:
                if url not in self._clients:
                    self._clients[url] = await self._connect(url)
            return [self._clients[url] for url in urls] or [self._cluster]

    async def close(self) -> None:
        async with self._lock:
            for url in list(self._clients):
                await self._clients.pop(url).close()

    async def _published(self) -> list[str]:
        try:
            found = await self._cluster.request("GET", SLICES, query=OF_KUBERNETES)
        except ClusterError as error:
            if error.code == 403:
                raise ClusterError(error.code, error.reason, f"{error.message}; {GRANT}") from error
            raise
        return endpoints(found.get("items") or ())


class _AtReplica:
    """The credentials of the kubeconfig, or of the pod, for another URL. A `ConfigurationSource`."""

    def __init__(self, kubeconfig: str, url: str) -> None:
        self._source: ConfigurationSource = KubeconfigSource(kubeconfig) if kubeconfig else InClusterSource()
        self._name = "" if kubeconfig else NAME_IN_CLUSTER
        self._url = url

    async def load(self) -> ClientCredentials:
        found = await self._source.load()
        # The certificate need not have the address of a single kube-apiserver, but has the address that all share.
        name = found.server_name or self._name or urlsplit(found.server).hostname or ""
        return replace(found, server=self._url, server_name=name)

    def changed(self) -> bool:
        return self._source.changed()
