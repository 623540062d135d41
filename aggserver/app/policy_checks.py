"""Checks of the authorizer by the expressions of policies and webhooks: translates admission's checks to authorization's.

Source: k8s.io/apiserver pkg/cel/library/authz.go, pkg/authentication/serviceaccount/util.go, v0.36.3.
"""

from __future__ import annotations

from aggserver.admission.chain import Attributes
from aggserver.admission.policy.evaluating import Authorize
from aggserver.authentication.user import UserInfo
from aggserver.authorization import attributes as authorization
from aggserver.authorization.delegating import Authorizer
from aggserver.cel.library.authz import Check, Decision
from aggserver.meta.errors import StatusError

__all__ = ["policy_checks"]


def policy_checks(authorizer: Authorizer) -> Authorize:
    async def authorize(attributes: Attributes, check: Check) -> Decision:
        try:
            decision = await authorizer.authorize(_asked(attributes, check))
        except StatusError as error:
            return Decision(False, error=error.message)
        return Decision(decision.allowed, decision.reason)

    return authorize


def _asked(attributes: Attributes, check: Check) -> authorization.Attributes:
    user = attributes.user if check.service_account is None else _service_account(*check.service_account)
    if not check.resource:
        return authorization.Attributes(user, check.verb, path=check.path)
    return authorization.Attributes(
        user,
        check.verb,
        group=check.group,
        version="*",
        resource=check.resource,
        subresource=check.subresource,
        namespace=check.namespace,
        name=check.name,
        field_selector=check.field_selector,
        label_selector=check.label_selector,
    )


def _service_account(namespace: str, name: str) -> UserInfo:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return UserInfo(f"system:serviceaccount:{namespace}:{name}", groups=groups)
