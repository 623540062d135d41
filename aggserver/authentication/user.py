"""UserInfo: who a request comes from, as the authenticators found and the authorizer asks.

Pure. Source: k8s.io/apiserver pkg/authentication/user/user.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

__all__ = ["ALL_AUTHENTICATED", "ALL_UNAUTHENTICATED", "ANONYMOUS", "PRIVILEGED_GROUP", "UserInfo"]

PRIVILEGED_GROUP = "system:masters"
ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A name, an opaque uid, groups and extra (key to values); all may be empty but the name."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def authenticated(self) -> UserInfo:
        """The same user with `system:authenticated` among the groups, once."""
        if ALL_AUTHENTICATED in self.groups or ALL_UNAUTHENTICATED in self.groups:
            return self
        return replace(self, groups=(*self.groups, ALL_AUTHENTICATED))


ANONYMOUS = UserInfo("system:anonymous", groups=(ALL_UNAUTHENTICATED,))
