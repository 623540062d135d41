"""Bootstrap rules: what RBAC's default roles and bindings of a new cluster allow each group.

A server without a cluster has no RBAC. It applies the cluster roles that every client depends on: `cluster-admin`,
`system:discovery`, `system:basic-user` (reviews of oneself) and `system:public-info-viewer` (health and version).
`StandaloneAuthorizer` decides by them, and SelfSubjectRulesReview lists them. Pure.
Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go, pkg/apis/rbac/v1/evaluation_helpers.go,
v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aggserver.authentication.user import ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, PRIVILEGED_GROUP, UserInfo
from aggserver.authorization.attributes import Attributes

__all__ = ["Rule", "rules_for"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A PolicyRule: verbs on resources of API groups, or on paths. `*` matches all; a path may end with it."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def allows(self, attributes: Attributes) -> bool:
        if not _has(self.verbs, attributes.verb):
            return False
        if not attributes.resource:
            return any(_covers(path, attributes.path) for path in self.paths)
        subresource = attributes.subresource
        resource = f"{attributes.resource}/{subresource}" if subresource else attributes.resource
        return _has(self.groups, attributes.group) and _has(self.resources, resource)


_CLUSTER_ADMIN = (Rule(("*",), ("*",), ("*",)), Rule(("*",), paths=("*",)))
_DISCOVERY = (
    Rule(
        ("get",),
        paths=(
            *("/api", "/api/*", "/apis", "/apis/*"),
            *("/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/"),
        ),
    ),
)
_BASIC_USER = (
    Rule(("create",), ("authorization.k8s.io",), ("selfsubjectaccessreviews", "selfsubjectrulesreviews")),
    Rule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",)),
)
_PUBLIC_INFO_VIEWER = (Rule(("get",), paths=("/healthz", "/livez", "/readyz", "/version", "/version/")),)

# The rules of each group. Upstream binds these roles to no other subject.
_BOUND: Mapping[str, tuple[Rule, ...]] = {
    PRIVILEGED_GROUP: _CLUSTER_ADMIN,
    ALL_AUTHENTICATED: (*_DISCOVERY, *_BASIC_USER, *_PUBLIC_INFO_VIEWER),
    ALL_UNAUTHENTICATED: _PUBLIC_INFO_VIEWER,
}


def rules_for(user: UserInfo) -> list[Rule]:
    """The rules of all groups of the user. They hold in every namespace."""
    return [rule for group in user.groups for rule in _BOUND.get(group, ())]


def _has(known: tuple[str, ...], wanted: str) -> bool:
    return "*" in known or wanted in known


def _covers(path: str, wanted: str) -> bool:
    return wanted == path or (path.endswith("*") and wanted.startswith(path.rstrip("*")))
