"""ClusterNamespaces: the namespaces of the hosting cluster, kept up to date by a watch, for NamespaceLifecycle.

A namespace that the watch has not delivered yet is read directly, so that it can be used immediately after its creation.
Source: k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle/admission.go (live lookup on a miss), v0.36.3.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.reflector import Reflector
from aggserver.meta import errors

__all__ = ["ClusterNamespaces"]

log = logging.getLogger("aggserver.namespaces")

_PATH = "/api/v1/namespaces"


class ClusterNamespaces:
    """`run` is its task, `healthy` its readiness check."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._phases: dict[str, str] = {}
        self._loaded = False
        self._trouble = "they have not been listed yet"

    async def run(self) -> None:
        await Reflector(self._cluster, _PATH, {}, self._on_state, self._on_error).run()

    def healthy(self) -> str | None:
        return None if self._loaded else f"waiting for the cluster's namespaces: {self._trouble}"

    async def phase(self, name: str) -> str | None:
        if not self._loaded:
            raise errors.service_unavailable(f"not yet ready to handle request: {self.healthy()}", retry_after=1)
        known = self._phases.get(name)
        return known if known is not None else await self._live(name)

    async def _live(self, name: str) -> str | None:
        try:
            return _phase(await self._cluster.request("GET", f"{_PATH}/{name}"))
        except ClusterError as error:
            if error.code == 404:
                return None
            raise errors.internal_error(f"namespace {name} could not be looked up: {error}") from error
        except Unreachable as error:
            raise errors.service_unavailable(f"namespace {name} could not be looked up: {error}", retry_after=1) from error

    def _on_state(self, objects: Mapping[str, Mapping[str, Any]], changed: AbstractSet[str]) -> None:
        for name in changed:
            if name in objects:
                self._phases[name] = _phase(objects[name])
            else:
                self._phases.pop(name, None)
        self._loaded = True

    def _on_error(self, error: ClusterError | Unreachable | None) -> None:
        if error is not None and str(error) != self._trouble:
            self._trouble = str(error)
            log.warning("watch of the cluster's namespaces failed: %s", error)


def _phase(namespace: Mapping[str, Any]) -> str:
    status = namespace.get("status") or {}
    return str(status.get("phase", "Active"))
