"""UserInfo: the user a request comes from, as authentication found it.

Pure. Source: k8s.io/apiserver pkg/authentication/user/user.go, v0.36.3; k8s.io/kubernetes pkg/auth/nodeidentifier, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aggserver.meta.json_types import JSONObject

__all__ = ["ALL_AUTHENTICATED", "ALL_UNAUTHENTICATED", "ANONYMOUS", "PRIVILEGED_GROUP", "UserInfo", "node_name"]

PRIVILEGED_GROUP = "system:masters"
ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"
_NODE_PREFIX, _NODE_GROUP = "system:node:", "system:nodes"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A name, an opaque UID, groups, and extra fields (key to values). Only the name is always set."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self) -> JSONObject:
        """The user as UserInfo of authentication.k8s.io/v1, without empty members."""
        info: JSONObject = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info

    def authenticated(self) -> UserInfo:
        """The same user with `system:authenticated` added to the groups, unless it is already there."""
        if ALL_AUTHENTICATED in self.groups or ALL_UNAUTHENTICATED in self.groups:
            return self
        return replace(self, groups=(*self.groups, ALL_AUTHENTICATED))


ANONYMOUS = UserInfo("system:anonymous", groups=(ALL_UNAUTHENTICATED,))


def node_name(user: UserInfo) -> str | None:
    """The name of the Node whose kubelet the user is, which may be ''; None for other users."""
    if not user.name.startswith(_NODE_PREFIX) or _NODE_GROUP not in user.groups:
        return None
    return user.name[len(_NODE_PREFIX) :]
