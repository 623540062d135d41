"""AccountTokens: the user of a bearer token, for a server that signs the tokens of ServiceAccounts itself.

A signature is verified once. Later requests with the token only check the time and the present state of the objects that it is
bound to: a token is refused as soon as its ServiceAccount is deleted, while kube-apiserver accepts it for up to ten seconds more.
Source: k8s.io/kubernetes pkg/serviceaccount/jwt.go, pkg/kubeapiserver/authenticator/config.go, v1.36.3.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aggserver.authentication import jws
from aggserver.authentication.jws import SignatureError, VerifyingKey
from aggserver.authentication.service_accounts import (
    LEGACY_ISSUER,
    Claims,
    InvalidToken,
    Name,
    check_objects,
    check_times,
    common_audiences,
    read_claims,
)
from aggserver.authentication.tokens import TokenError
from aggserver.authentication.user import UserInfo
from aggserver.meta.json_types import JSONObject

__all__ = ["AccountTokens", "Find", "FoundAccount"]

# Verified tokens that are remembered, at some 2 KB each.
KEPT_TOKENS = 4096

_UNKNOWN = "invalid bearer token"


class FoundAccount(Protocol):
    """A stored object."""

    @property
    def revision(self) -> int: ...
    def decoded(self) -> JSONObject: ...


# Finds an object; None if there is none.
Find = Callable[[Name], Awaitable[FoundAccount | None]]


@dataclass(slots=True)
class _Verified:
    """A token whose signature is verified.

    approved: the revisions of its objects at the last successful check, which need not be checked again; empty if one of them
    is being deleted, since then the token becomes invalid as time passes.
    """

    claims: Claims
    user: UserInfo
    names: Sequence[Name]
    approved: tuple[int, ...] = ()


class AccountTokens:
    """Finds the user of a token. keys: to verify signatures. issuers: whose tokens are accepted. audiences: of this server.

    clock: seconds since the epoch.
    """

    def __init__(
        self,
        keys: Sequence[VerifyingKey],
        issuers: Sequence[str],
        audiences: Sequence[str],
        find: Find,
        clock: Callable[[], float],
    ) -> None:
        self._keys = tuple(keys)
        self._issuers = frozenset((*issuers, LEGACY_ISSUER))
        self._audiences = tuple(audiences)
        self._find = find
        self._clock = clock
        # As in TokenReviewer, keys are keyed hashes: they reveal no tokens, and nobody can make two tokens with the same key.
        self._secret = secrets.token_bytes(32)
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    async def review(self, text: str, audiences: Sequence[str] = ()) -> tuple[UserInfo, tuple[str, ...]]:
        """The token's user, and those of the given audiences that the token has. Without audiences, the server's are used.

        Raises TokenError.
        """
        try:
            known = self._of(text)
            common = common_audiences(known.claims.audiences, self._audiences, audiences or self._audiences)
            await self._check(known, text)
        except InvalidToken as error:
            raise TokenError(f"[{_UNKNOWN}, {error}]") from None
        return known.user, common

    def _of(self, text: str) -> _Verified:
        """The verified token. Raises TokenError for another issuer, InvalidToken if none of the keys has signed it."""
        key = hmac.digest(self._secret, text.encode("utf-8", "surrogatepass"), "sha256")
        known = self._verified.get(key)
        if known is not None:
            self._verified.move_to_end(key)
            return known
        token = jws.read(text)
        issuer = token.claims.get("iss") if token is not None else None
        if token is None or not isinstance(issuer, str) or issuer not in self._issuers:
            raise TokenError(_UNKNOWN)
        try:
            jws.verified(token, self._keys)
        except SignatureError as error:
            raise InvalidToken(str(error)) from None
        claims = read_claims(token.claims)
        known = self._verified[key] = _Verified(claims, claims.user(), claims.objects())
        if len(self._verified) > KEPT_TOKENS:
            self._verified.popitem(last=False)
        return known

    async def _check(self, known: _Verified, text: str) -> None:
        now = self._clock()
        check_times(known.claims, now)
        found = [await self._find(name) for name in known.names]
        revisions = tuple(obj.revision if obj is not None else 0 for obj in found)
        if revisions == known.approved:
            return
        objects: Mapping[Name, JSONObject | None] = {
            name: obj.decoded() if obj is not None else None for name, obj in zip(known.names, found, strict=True)
        }
        check_objects(known.claims, text, objects, now)
        if not any(obj is not None and obj["metadata"].get("deletionTimestamp") for obj in objects.values()):
            known.approved = revisions
