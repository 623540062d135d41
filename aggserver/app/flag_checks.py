"""Flags whose values can't work, as only the cluster shows: a Service that is not there, URLs that no kube-apiserver has.

What is wrong in itself is refused at the start (`options`). These may also become right later, as when the Service is made after
the Deployment, so the server goes on, and says so: in the log once, and as a warning of the check `flags` at `/readyz`. Clients
that are led here already do not depend on them, so the check never fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from aggserver.apiextensions.registration import Service
from aggserver.cluster import Cluster, ClusterError, Unreachable, find
from aggserver.cluster.configuration import ConfigurationError
from aggserver.cluster.pacing import Sleep
from aggserver.cluster.problems import Problems
from aggserver.cluster.replicas import Replicas, connect_each

__all__ = ["FlagChecks"]

log = logging.getLogger(__name__)

# Between two looks, while a flag is wrong and otherwise.
SOON_SECONDS, LATER_SECONDS = 10.0, 120.0
ANSWER_SECONDS = 5.0

# An object that each cluster has, with a uid of its own, and that this server may read (manifests/cluster-access.yaml).
IDENTITY = "/api/v1/namespaces/kube-system"


class FlagChecks:
    """Looks again and again. service: the one that the flags name. urls: of --kube-apiservers; () if they are not given."""

    def __init__(self, cluster: Cluster, service: Service, kubeconfig: str, urls: Sequence[str], user_agent: str) -> None:
        self._cluster = cluster
        self._service = service
        self._replicas: Replicas | None = connect_each(cluster, kubeconfig, urls, user_agent) if urls else None
        self._problems = Problems()
        self._wrong: Sequence[str] = ()

    def warning(self) -> str | None:
        """Which flags can't work, and why; None if all can, as far as is known."""
        return "; ".join(self._wrong) or None

    async def run(self, sleep: Sleep = asyncio.sleep) -> None:
        """Look until cancelled."""
        try:
            while True:
                await self.look()
                await sleep(SOON_SECONDS if self._wrong else LATER_SECONDS)
        finally:
            if self._replicas is not None:
                await self._replicas.close()

    async def look(self) -> None:
        """Look once. While the cluster does not answer, or does not let this server look, what was known is kept."""
        try:
            self._wrong = [*await self._of_service(), *await self._of_kube_apiservers()]
        except (ClusterError, Unreachable):
            return
        if self._problems.changed("; ".join(self._wrong)):
            for each in self._wrong:
                log.warning("%s", each)
            if not self._wrong:
                log.info("all flags can work now")

    async def _of_service(self) -> list[str]:
        namespace, name, port = self._service.namespace, self._service.name, self._service.port
        found = await find(self._cluster, f"/api/v1/namespaces/{namespace}/services/{name}")
        if found is None:
            return [
                f"--service-name, --service-namespace: the cluster has no Service {namespace}/{name}, so no request reaches this "
                "server through it"
            ]
        ports = [each.get("port") for each in found["spec"].get("ports") or ()]
        if found["spec"].get("type") == "ExternalName" or port in ports:
            return []
        return [f"--service-port: the Service {namespace}/{name} has no port {port}, but {', '.join(map(str, ports)) or 'none'}"]

    async def _of_kube_apiservers(self) -> list[str]:
        if self._replicas is None:
            return []
        own = (await self._cluster.request("GET", IDENTITY, timeout=ANSWER_SECONDS))["metadata"]["uid"]
        try:
            clusters = await self._replicas.clusters()
        except ConfigurationError as error:
            return [f"--kube-apiservers: {error}"]
        found = await asyncio.gather(*(_trouble(each, own) for each in clusters))
        return [f"--kube-apiservers: {each}; no definition moves meanwhile" for each in found if each]


async def _trouble(cluster: Cluster, uid: str) -> str:
    """Why the URL of this client is none of a kube-apiserver of the cluster whose namespace has that uid; '' if it is."""
    try:
        found = await cluster.request("GET", IDENTITY, timeout=ANSWER_SECONDS)
    except Unreachable as error:
        return f"{cluster.server} does not answer: {error.why}"
    except ClusterError as error:
        return f"{cluster.server} does not know this server: {error}"
    return "" if found["metadata"]["uid"] == uid else f"{cluster.server} is a kube-apiserver of another cluster"
