"""ClusterNamespaces: the namespaces of the hosting cluster, for admission.

A namespace that the watch has not delivered yet is read directly, so that it can be used immediately after its creation.
Source: k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle/admission.go (live lookup on a miss), v0.36.3.
"""

from __future__ import annotations

from aggserver.admission.sources import Collection
from aggserver.cluster import Cluster, ClusterError, Unreachable, find
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject

__all__ = ["ClusterNamespaces"]


class ClusterNamespaces:
    """Finds namespaces. known: those that the watch has delivered."""

    def __init__(self, cluster: Cluster, known: Collection) -> None:
        self._cluster = cluster
        self._known = known

    async def phase(self, name: str) -> str | None:
        namespace = await self.get(name)
        return None if namespace is None else str((namespace.get("status") or {}).get("phase", "Active"))

    async def get(self, name: str) -> JSONObject | None:
        """The Namespace, None if there is no such. Raises StatusError if it can't be looked up."""
        known = self._known.get("", name)
        return known if known is not None else await self._live(name)

    async def _live(self, name: str) -> JSONObject | None:
        try:
            return await find(self._cluster, f"/api/v1/namespaces/{name}")
        except ClusterError as error:
            raise errors.internal_error(f"namespace {name} could not be looked up: {error}") from error
        except Unreachable as error:
            raise errors.service_unavailable(f"namespace {name} could not be looked up: {error}", retry_after=1) from error
