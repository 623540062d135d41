"""Needs: the rights in the hosting cluster that an App declares for the server's account (`App.needs`), as rules of RBAC.

Pure. Constrained impersonation (KEP-5284, on by default since Kubernetes 1.36) has two rights: `impersonate:user-info` on the
parts of a user, and `impersonate-on:user-info:VERB` on what is done as that user; so with `serviceaccount` for service accounts.
The keys of extra fields are subresources of `userextras`, and a rule of RBAC can't name all of these but by `*`.
Source: k8s.io/apiserver pkg/endpoints/filters/impersonation/mode.go, k8s.io/kubernetes pkg/apis/rbac/v1/evaluation_helpers.go
(ResourceMatches), v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aggserver.meta.json_types import JSONObject

__all__ = ["MODES", "USERS_GROUP", "Need", "impersonated", "impersonation_rules", "rules"]

# Of users, and of service accounts.
MODES = ("user-info", "serviceaccount")
USERS_GROUP = "authentication.k8s.io"


@dataclass(frozen=True, slots=True)
class Need:
    """Verbs on one resource. group: '' for Kubernetes' core. subresource: '' for the resource itself. namespace: '' for all, and
    for resources in none. names: of objects, empty for all. as_user: done with the rights of users, as `Request.host` does.
    place: file and line of the declaration.
    """

    group: str
    resource: str
    subresource: str
    verbs: tuple[str, ...]
    namespace: str = ""
    names: tuple[str, ...] = ()
    as_user: bool = False
    place: str = ""

    @property
    def in_rules(self) -> str:
        """As rules of RBAC name the resource."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def __str__(self) -> str:
        """As in messages: `deployments.apps/scale`."""
        group = f".{self.group}" if self.group else ""
        return f"{self.resource}{group}" + (f"/{self.subresource}" if self.subresource else "")


def impersonated(mode: str, verb: str) -> str:
    """The verb for doing something as another user."""
    return f"impersonate-on:{mode}:{verb}"


def rules(needs: Iterable[Need]) -> dict[str, list[JSONObject]]:
    """The rules of a role for these needs, by namespace: '' for a ClusterRole."""
    found: dict[str, dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]]] = {}
    for need in needs:
        verbs = tuple(impersonated(mode, verb) for mode in MODES for verb in need.verbs) if need.as_user else need.verbs
        resources = found.setdefault(need.namespace, {}).setdefault((need.group, verbs, need.names), [])
        if need.in_rules not in resources:
            resources.append(need.in_rules)
    return {
        namespace: [_rule(group, resources, verbs, names) for (group, verbs, names), resources in of_namespace.items()]
        for namespace, of_namespace in found.items()
    }


def impersonation_rules() -> list[JSONObject]:
    """Of a ClusterRole: any user and any service account, for what `rules` allows to be done as one."""
    return [
        _rule(USERS_GROUP, ["*"], ["impersonate:user-info"]),
        _rule(USERS_GROUP, ["serviceaccounts"], ["impersonate:serviceaccount"]),
    ]


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> JSONObject:
    rule: JSONObject = {"apiGroups": [group], "resources": [*resources], "verbs": [*verbs]}
    return rule | ({"resourceNames": [*names]} if names else {})
