"""OwnerReferencesPermissionEnforcement: whoever sets an owner must be allowed to do what the garbage collector then does.

An object whose owner is deleted is deleted, so whoever changes its owners must be allowed to delete it. An owner whose dependents
block its deletion waits for them, so whoever sets blockOwnerDeletion must be allowed to set finalizers on the owner.
Source: k8s.io/kubernetes plugin/pkg/admission/gc/gc_admission.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aggserver.admission.chain import CREATE, DELETE, Attributes
from aggserver.admission.policy.evaluating import Authorize
from aggserver.admission.policy.validating import name_of
from aggserver.cel.library.authz import Check, Decision
from aggserver.meta import errors
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo

__all__ = ["FindResources", "OwnerReferencesPermissionEnforcement"]

# (apiVersion, kind) -> the resources with such objects. Raises LookupError, with upstream's text, if there are none.
FindResources = Callable[[str, str], Awaitable[Sequence[ResourceInfo]]]

_FINALIZE_ANYTHING = Check(None, "update", group="*", resource="*", subresource="finalizers", name="*")


class OwnerReferencesPermissionEnforcement:
    """The plugin, which is off by default. authorize: answers checks for the user of a request."""

    name = "OwnerReferencesPermissionEnforcement"

    def __init__(self, authorize: Authorize, find_resources: FindResources) -> None:
        self._authorize = authorize
        self._find_resources = find_resources

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if attributes.operation == DELETE or obj is None:
            return
        owners, before = _owners(obj), _owners(old)
        if owners == before:
            return
        if attributes.operation != CREATE:
            await self._check_deletion(attributes, obj)
        blocking = _newly_blocking(owners, before)
        if not blocking or (await self._authorize(attributes, _FINALIZE_ANYTHING)).allowed:
            return
        for owner in blocking:
            await self._check_owner(attributes, obj, owner)

    async def _check_deletion(self, attributes: Attributes, obj: JSONObject) -> None:
        info = attributes.resource
        check = Check(
            None,
            "delete",
            group=info.group,
            resource=info.resource,
            subresource=attributes.subresource,
            namespace=attributes.namespace,
            name=attributes.name,
        )
        decision = await self._authorize(attributes, check)
        if not decision.allowed:
            raise _forbidden(attributes, obj, f"cannot set an ownerRef on a resource you can't delete: {_reasons(decision)}")

    async def _check_owner(self, attributes: Attributes, obj: JSONObject, owner: Mapping[str, Any]) -> None:
        version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
        try:
            resources = await self._find_resources(version, kind)
        except LookupError as error:
            why = (
                f"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind {kind}"
            )
            raise _forbidden(attributes, obj, f"{why}: {error.args[0]}") from None
        for info in resources:
            check = Check(
                None,
                "update",
                group=info.group,
                resource=info.resource,
                subresource="finalizers",
                namespace=attributes.namespace if info.namespaced else "",
                name=owner.get("name") or "",
            )
            decision = await self._authorize(attributes, check)
            if not decision.allowed:
                why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
                raise _forbidden(attributes, obj, f"{why}: {_reasons(decision)}")


def _owners(obj: JSONObject | None) -> list[Mapping[str, Any]]:
    return [] if obj is None else obj["metadata"].get("ownerReferences") or []


def _newly_blocking(owners: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The owner references that block the deletion of their owner, and did not before."""
    known = {owner.get("uid"): bool(owner.get("blockOwnerDeletion")) for owner in before}
    return [owner for owner in owners if owner.get("blockOwnerDeletion") and not known.get(owner.get("uid"))]


def _reasons(decision: Decision) -> str:
    return f"{decision.reason}, {decision.error or '<nil>'}"


def _forbidden(attributes: Attributes, obj: JSONObject, why: str) -> StatusError:
    info = attributes.resource
    return errors.forbidden(info.group, info.resource, name_of(attributes, obj), why)
