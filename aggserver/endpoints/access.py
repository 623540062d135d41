"""Access: makes the authorizer's attributes of a request, and a 403 of a denial.

Most requests need one permission; impersonation, an apply that creates an object and an unsafe delete need more.
Source: k8s.io/apiserver pkg/endpoints/filters/authorization.go, v0.36.3.
"""

from __future__ import annotations

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes, forbidden
from aggserver.authorization.delegating import Authorizer
from aggserver.endpoints.request_info import RequestInfo

__all__ = ["attributes_of", "require"]


def attributes_of(info: RequestInfo, user: UserInfo) -> Attributes:
    """The attributes of the request itself, without the further permissions that it may need."""
    if not info.is_resource_request:
        return Attributes(user, info.verb, path=info.path)
    return Attributes(
        user,
        info.verb,
        info.group,
        info.version,
        info.resource,
        info.subresource,
        info.namespace,
        info.name,
        info.path,
        info.field_selector,
        info.label_selector,
    )


async def require(authorizer: Authorizer, attributes: Attributes) -> None:
    """Return if the request is allowed. Raises StatusError: 403 with the authorizer's reason, 500 if it could not decide."""
    decision = await authorizer.authorize(attributes)
    if not decision.allowed:
        raise forbidden(attributes, decision.reason)
