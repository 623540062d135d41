"""Admission attributes of a request. Called by the handlers that write."""

from __future__ import annotations

from aggserver.admission.chain import Attributes
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.request import Request

__all__ = ["of"]


def of(scope: ResourceScope, request: Request, operation: str, dry_run: bool, *, name: str = "") -> Attributes:
    return Attributes(
        operation=operation,
        user=request.user,
        group=scope.group,
        version=scope.version,
        resource=scope.resource,
        subresource=scope.subresource,
        kind=scope.kind,
        namespace=request.info.namespace,
        name=name or request.info.name,
        dry_run=dry_run,
    )
