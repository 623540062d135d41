"""NamespaceLifecycle: rejects creations in a namespace that does not exist or is terminating.

Updates in a missing namespace are rejected too. Deletions are always allowed, so that a namespace can be emptied, except those of
the namespaces that every cluster needs. `Namespaces` is the source of the namespaces: this server's own without a cluster,
otherwise the hosting cluster's.
Source: k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle/admission.go, v0.36.3.
"""

from __future__ import annotations

from typing import Protocol

from aggserver.admission.chain import CREATE, DELETE, Attributes, forbidden
from aggserver.meta import errors
from aggserver.meta.errors import Cause
from aggserver.meta.json_types import JSONObject

__all__ = ["NamespaceLifecycle", "Namespaces"]


_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
# Always allowed: the answer must not reveal whether the namespace exists.
_ACCESS_REVIEWS = ("authorization.k8s.io", "localsubjectaccessreviews")


class Namespaces(Protocol):
    async def phase(self, name: str) -> str | None:
        """Active or Terminating; None if there is no such namespace. Raises StatusError if it can't be looked up."""


class NamespaceLifecycle:
    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        await self._check(attributes, obj)
        return False

    async def _check(self, attributes: Attributes, obj: JSONObject | None) -> None:
        namespace, resource = attributes.namespace, attributes.resource
        if not resource.group and resource.resource == "namespaces":
            if attributes.operation == DELETE and attributes.name in _IMMORTAL:
                raise errors.forbidden("", "namespaces", attributes.name, "this namespace may not be deleted")
            return
        if not namespace or attributes.operation == DELETE or (resource.group, resource.resource) == _ACCESS_REVIEWS:
            return
        phase = await self._namespaces.phase(namespace)
        if phase is None:
            raise errors.not_found("", "namespaces", namespace)
        if phase == "Terminating" and attributes.operation == CREATE:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            error = forbidden(attributes, obj, why)
            error.causes = (Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"),)
            raise error
