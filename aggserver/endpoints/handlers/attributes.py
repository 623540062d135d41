"""The admission chain of a resource, bound to the attributes of one request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from aggserver.admission.chain import Attributes, BoundChain, OneVersion
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.request import Request

__all__ = ["bound"]


def bound(scope: ResourceScope, request: Request, operation: str, options: Mapping[str, Any], *, dry_run: bool) -> BoundChain:
    """operation: what the verb implies; an apply is an UPDATE here, though it may create. options: as the client sent them."""
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
        objects=scope.objects or OneVersion(scope.conform),
        deadline=request.allotted.when() or math.inf,
    )
    return scope.admission.bind(attributes)
