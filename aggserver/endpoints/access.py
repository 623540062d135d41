"""Access: from a request to the authorizer's question, and from its no to a 403.

`attributes_of` and `require` are called by the authorization filter, `require` also by impersonation and by handlers that need a
second permission (an update that creates).
Source: k8s.io/apiserver pkg/endpoints/filters/authorization.go, v0.36.3.
"""

from __future__ import annotations

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes, forbidden
from aggserver.authorization.delegating import Authorizer
from aggserver.endpoints.request_info import RequestInfo

__all__ = ["attributes_of", "require"]


def attributes_of(info: RequestInfo, user: UserInfo) -> Attributes:
    """What the request as a whole asks for."""
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
    """Returns where it is allowed. Raises StatusError: 403 with the question and the authorizer's reason, 500 without answer."""
    decision = await authorizer.authorize(attributes)
    if not decision.allowed:
        raise forbidden(attributes, decision.reason)
