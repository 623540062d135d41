"""Impersonation: acting as another user by headers (`kubectl --as`), if the requesting user is allowed to.

The requesting user needs the verb `impersonate` for each part of the other user: name, uid, every group, every extra value.
kube-apiserver handles the impersonation of requests through the aggregator; this is for requests that reach this server directly.
Source: k8s.io/apiserver pkg/endpoints/filters/impersonation, v0.36.3: only its legacy mode, which upstream keeps.
The constrained modes (`impersonate:user-info` and so on, beta) grant nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aggserver.authentication.requestheader import Headers, text_of, unescape_key
from aggserver.authentication.user import ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, UserInfo
from aggserver.authorization.attributes import Attributes, forbidden
from aggserver.authorization.delegating import Authorizer
from aggserver.endpoints.access import require
from aggserver.meta import errors
from aggserver.meta.golang import quote
from aggserver.meta.names import dns1123_label, dns1123_subdomain

__all__ = ["impersonate"]

PREFIX = b"impersonate-"
USER, UID, GROUP = b"impersonate-user", b"impersonate-uid", b"impersonate-group"
EXTRA_PREFIX = b"impersonate-extra-"

SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class WantedIdentity:
    """The user to impersonate, as the headers describe it, without the groups that are added later."""

    name: str
    uid: str
    groups: tuple[str, ...]
    extra: Mapping[str, tuple[str, ...]]


async def impersonate(headers: Headers, user: UserInfo, authorizer: Authorizer) -> tuple[UserInfo, Headers]:
    """(the impersonated user, or `user` without such headers; the other headers). Raises StatusError: 400, 403."""
    if not any(name.startswith(PREFIX) for name, _ in headers):
        return user, headers
    wanted = _wanted(headers)
    if wanted is None:
        return user, headers
    for attributes in _permissions(wanted, user):
        try:
            await require(authorizer, attributes)
        except errors.StatusError as error:
            if error.code == 403:
                raise
            # An authorizer that can't decide denies, as upstream.
            raise forbidden(attributes, error.message) from error
    rest = [pair for pair in headers if pair[0] not in (USER, UID, GROUP) and not pair[0].startswith(EXTRA_PREFIX)]
    return UserInfo(wanted.name, wanted.uid, _with_fixed_groups(wanted), wanted.extra), rest


def _wanted(headers: Headers) -> WantedIdentity | None:
    """The user that the headers describe; None if they describe none. Raises 400 for parts of a user without a name."""
    name = next((text_of(value) for key, value in headers if key == USER), "")
    uid = next((text_of(value) for key, value in headers if key == UID), "")
    groups = tuple(text_of(value) for key, value in headers if key == GROUP)
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in headers:
        if key.startswith(EXTRA_PREFIX):
            extra_key = unescape_key(key[len(EXTRA_PREFIX) :])
            extra[extra_key] = (*extra.get(extra_key, ()), text_of(value))
    if name:
        return WantedIdentity(name, uid, groups, extra)
    if not uid and not groups and not extra:
        return None
    parts = [f"uid {quote(uid)}"] if uid else []
    parts += [f"group {quote(group)}" for group in groups]
    parts += [f"extra {quote(key)}" for key in extra]
    raise errors.bad_request(f"requested {', '.join(parts)} without impersonating a user name")


def _permissions(wanted: WantedIdentity, user: UserInfo) -> Iterator[Attributes]:
    """The permissions that are needed, in upstream's order: name, uid, groups, extra."""
    account = _service_account(wanted.name)
    if account is not None:
        yield Attributes(user, "impersonate", "", "v1", "serviceaccounts", "", *account)
    else:
        yield Attributes(user, "impersonate", "", "v1", "users", name=wanted.name)
    if wanted.uid:
        yield Attributes(user, "impersonate", "authentication.k8s.io", "v1", "uids", name=wanted.uid)
    for group in wanted.groups:
        yield Attributes(user, "impersonate", "", "v1", "groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield Attributes(user, "impersonate", "authentication.k8s.io", "v1", "userextras", key, name=value)


def _service_account(name: str) -> tuple[str, str] | None:
    """(namespace, name) if the user name is a service account's, else None."""
    if not name.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, separator, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    if not separator or dns1123_label(namespace) or dns1123_subdomain(account):
        return None
    return namespace, account


def _with_fixed_groups(wanted: WantedIdentity) -> tuple[str, ...]:
    """The requested groups, and those that the user always has. Requested groups replace those of a ServiceAccount."""
    groups = wanted.groups
    account = _service_account(wanted.name)
    if account is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    if wanted.name == ANONYMOUS.name:
        return groups if ALL_UNAUTHENTICATED in groups else (*groups, ALL_UNAUTHENTICATED)
    if ALL_AUTHENTICATED in groups or ALL_UNAUTHENTICATED in groups:
        return groups
    return (*groups, ALL_AUTHENTICATED)
