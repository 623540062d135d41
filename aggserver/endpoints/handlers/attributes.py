"""Admission for a request: the chain of its resource, bound to who asks for what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggserver.admission.chain import Attributes, BoundChain
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.request import Request

__all__ = ["bound"]


def bound(scope: ResourceScope, request: Request, operation: str, options: Mapping[str, Any], *, dry_run: bool) -> BoundChain:
    """operation: what the request is as far as its verb tells; an apply may create, too. options: as the client gave them."""
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
    )
    return scope.admission.bind(attributes)
