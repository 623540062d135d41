"""The ClusterRoles for users of an App's resources: view, edit and admin, aggregated into Kubernetes' roles of these names.

view reads objects and what is below them, such as a log; never a secret of the App, since such a thing has no place in an API.
edit writes as well, and calls actions. The status is written by whoever runs the App: only admin may, besides.
Pure. Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go (viewRules, editRules), v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from aggserver.meta.json_types import JSONObject
from aggserver.publish.discovery import APIResource

__all__ = ["LEVELS", "Offered", "rules"]

# (group, resource)
Offered = tuple[str, APIResource]

_READS = frozenset({"get", "list", "watch"})
# Into which of Kubernetes' roles each role goes. Its own `edit` contains `view`, and `admin` contains `edit`.
LEVELS: Mapping[str, Sequence[str]] = {"view": ("view",), "edit": ("edit", "admin"), "admin": ("admin",)}


def rules(level: str, offered: Iterable[Offered]) -> list[JSONObject]:
    """The rules of one level: resources of a group with the same verbs are in one rule."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for group, resource in offered:
        name = resource.info.resource
        names = {name: resource.verbs} | {f"{name}/{each.name}": each.verbs for each in resource.subresources}
        for name, verbs in names.items():
            allowed = tuple(verb for verb in _ordered(verbs) if _is_allowed(level, name, verb))
            if allowed:
                found.setdefault((group, allowed), []).append(name)
    return [{"apiGroups": [group], "resources": sorted(set(names)), "verbs": [*verbs]} for (group, verbs), names in found.items()]


def _is_allowed(level: str, name: str, verb: str) -> bool:
    if verb in _READS or level == "admin":
        return True
    return level == "edit" and not name.endswith("/status")


def _ordered(verbs: Iterable[str]) -> list[str]:
    """Reads first, as people write them."""
    order = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    return sorted(set(verbs), key=lambda verb: order.index(verb) if verb in order else len(order))
