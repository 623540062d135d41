"""NamespaceLifecycle: nothing is created in a namespace that is not there or is going away.

Updates in a missing namespace are refused too, deletions never are, so that a namespace can always be emptied; but the three
namespaces that every cluster has stay. Who knows the namespaces differs by mode (standalone: its own; in a cluster: the host's,
watched) and comes in as `Namespaces`.
Source: k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle/admission.go, v0.36.3.
"""

from __future__ import annotations

from typing import Any, Protocol

from aggserver.admission.chain import CREATE, DELETE, Attributes
from aggserver.meta import errors
from aggserver.meta.errors import Cause

__all__ = ["NamespaceLifecycle", "Namespaces"]


_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


class Namespaces(Protocol):
    async def phase(self, name: str) -> str | None:
        """Active or Terminating; None where there is no such namespace. Raises StatusError (503) while that can't be known."""


class NamespaceLifecycle:
    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces

    async def mutate(self, attributes: Attributes, obj: dict[str, Any] | None) -> None:
        namespace = attributes.namespace
        if not attributes.group and attributes.resource == "namespaces":
            if attributes.operation == DELETE and attributes.name in _IMMORTAL:
                raise errors.forbidden("", "namespaces", attributes.name, "this namespace may not be deleted")
            return
        if not namespace or attributes.operation == DELETE:
            return
        phase = await self._namespaces.phase(namespace)
        if phase is None:
            raise errors.not_found("", "namespaces", namespace)
        if phase == "Terminating" and attributes.operation == CREATE:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            error = errors.forbidden(attributes.group, attributes.resource, attributes.name or _name_of(obj), why)
            error.causes = (Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"),)
            raise error


def _name_of(obj: dict[str, Any] | None) -> str:
    """What stands for the name of an object that has none yet."""
    metadata = (obj or {}).get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or "Unknown"
