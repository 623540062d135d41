"""The admission chain of a resource, bound to the attributes of one request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggserver.admission.chain import Attributes, BoundChain
from aggserver.endpoints import access
from aggserver.endpoints.request import Request
from aggserver.endpoints.served import ResourceScope
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Admission

__all__ = ["allowed_to_create", "bound"]


def bound(scope: ResourceScope, request: Request, operation: str, options: Mapping[str, Any], *, dry_run: bool) -> BoundChain:
    """The admission chain for a request. operation: that of the verb; UPDATE for an apply or a PUT, though it may create.

    options: as the client sent them.
    """
    record = None if request.audit is None else request.audit.record
    attributes = Attributes(
        operation=operation,
        user=request.user,
        resource=scope.info,
        subresource=scope.subresource,
        kind=scope.kind,
        object_version=scope.object_version,
        namespace=request.info.namespace,
        name=request.info.name,
        dry_run=dry_run,
        options=options,
        warnings=request.warnings,
        audit_annotations={} if record is None else record.annotations,
        objects=scope.admitted,
        origin=request,
        audits_objects=record is not None and record.wants_request,
    )
    return scope.admission.bind(attributes)


def allowed_to_create(admission: Admission, request: Request) -> Admission:
    """Admission that also checks, for an apply or a PUT that creates the object, that the user may create it."""
    return _CreateAuthorized(admission, request)


class _CreateAuthorized:
    def __init__(self, admission: Admission, request: Request) -> None:
        self._admission = admission
        self._request = request

    @property
    def looks_at_objects(self) -> bool:
        return self._admission.looks_at_objects

    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        return await self._admission.mutate(obj, old)

    async def validate(self, obj: JSONObject | None, old: JSONObject | None) -> None:
        if old is None:
            request = self._request
            await access.require(request.authorizer, access.attributes_of(request.info, request.user)._replace(verb="create"))
        await self._admission.validate(obj, old)

    def failed(self) -> None:
        self._admission.failed()
