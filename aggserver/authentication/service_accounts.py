"""ServiceAccounts: the claims of their tokens, what makes a token invalid, and the user that it stands for.

There are two kinds of tokens: those of TokenRequests, which expire, and may be bound to a Pod, a Secret or a Node; and those in
Secrets of type kubernetes.io/service-account-token, which are valid while the Secret has them. The caller verifies signatures.
Pure: the time and the objects are arguments. All times are seconds since the epoch. The texts are upstream's.
Source: k8s.io/kubernetes pkg/serviceaccount/{claims,legacy,jwt}.go, v1.36.3; k8s.io/apiserver
pkg/authentication/serviceaccount/util.go, v0.36.3; go-jose jwt/validation.go.
"""

from __future__ import annotations

import hmac
import math
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aggserver.authentication.user import UserInfo
from aggserver.authentication.x509 import CREDENTIAL_ID_KEY
from aggserver.meta import times
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject

__all__ = [
    "LEGACY_ISSUER",
    "Claims",
    "InvalidToken",
    "Name",
    "Ref",
    "check_objects",
    "check_times",
    "common_audiences",
    "group_names",
    "issued",
    "issued_in_secret",
    "read_claims",
    "user_name",
]

LEGACY_ISSUER = "kubernetes/serviceaccount"

# How far clocks may differ. A token remains valid for that time after it expired, and after the deletion of its objects.
LEEWAY_SECONDS = 60.0

_PREFIX = "system:serviceaccount"
_EXTRA = "authentication.kubernetes.io/"
_PRIVATE = "kubernetes.io"
_OF_SECRETS = f"{_PRIVATE}/serviceaccount/"
_INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
_BOUND_TO = ("pod", "secret", "node")


class InvalidToken(Exception):
    """The token is not valid. The text is for the client and the log; it never contains any part of the token's signature."""


class Ref(NamedTuple):
    """The name and UID of an object."""

    name: str
    uid: str


class Name(NamedTuple):
    """Names an object: its resource in the core group, its namespace ('' for a Node), its name."""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a token. secret_name: of the Secret that contains it; '' for a token of a TokenRequest.

    not_before and issued_at are -inf, and expires is inf, if the token does not have the claim.
    """

    namespace: str
    account: Ref
    audiences: tuple[str, ...] = ()
    pod: Ref | None = None
    secret: Ref | None = None
    node: Ref | None = None
    secret_name: str = ""
    token_id: str = ""
    not_before: float = -math.inf
    issued_at: float = -math.inf
    expires: float = math.inf

    def objects(self) -> list[Name]:
        """The objects that must exist, for `check_objects`."""
        names = [Name("serviceaccounts", self.namespace, self.account.name)]
        if self.secret is not None or self.secret_name:
            names.append(Name("secrets", self.namespace, self.secret.name if self.secret is not None else self.secret_name))
        if self.pod is not None:
            names.append(Name("pods", self.namespace, self.pod.name))
        elif self.node is not None:
            names.append(Name("nodes", "", self.node.name))
        return names

    def user(self) -> UserInfo:
        """The token's user, without the group system:authenticated."""
        extra: dict[str, tuple[str, ...]] = {}
        if self.pod is not None and self.pod.name and self.pod.uid:
            extra |= {f"{_EXTRA}pod-name": (self.pod.name,), f"{_EXTRA}pod-uid": (self.pod.uid,)}
        if self.token_id:
            extra[CREDENTIAL_ID_KEY] = (f"JTI={self.token_id}",)
        if self.node is not None and self.node.name:
            extra[f"{_EXTRA}node-name"] = (self.node.name,)
            if self.node.uid:
                extra[f"{_EXTRA}node-uid"] = (self.node.uid,)
        return UserInfo(user_name(self.namespace, self.account.name), self.account.uid, group_names(self.namespace), extra)


def user_name(namespace: str, name: str) -> str:
    return f"{_PREFIX}:{namespace}:{name}"


def group_names(namespace: str) -> tuple[str, ...]:
    return f"{_PREFIX}s", f"{_PREFIX}s:{namespace}"


def issued(
    issuer: str,
    namespace: str,
    account: Ref,
    bound: Mapping[str, Ref],
    audiences: Sequence[str],
    *,
    now: float,
    seconds: int,
    warn_after: int,
    token_id: str,
) -> JSONObject:
    """The claims of a new token. bound: the object it is bound to, by `pod`, `secret` or `node`; a Pod perhaps with its Node.

    seconds: how long it is valid. warn_after: seconds after which its use counts as stale; 0 for never.
    """
    start = int(now)
    private: JSONObject = {"namespace": namespace, "serviceaccount": _ref_claim(account)}
    private |= {kind: _ref_claim(bound[kind]) for kind in _BOUND_TO if kind in bound}
    if warn_after:
        private["warnafter"] = start + warn_after
    return {
        "aud": list(audiences),
        "exp": start + seconds,
        "iat": start,
        "iss": issuer,
        "jti": token_id,
        _PRIVATE: dict(sorted(private.items())),
        "nbf": start,
        "sub": user_name(namespace, account.name),
    }


def issued_in_secret(namespace: str, account: Ref, secret_name: str) -> JSONObject:
    """The claims of a token in a Secret."""
    return {
        "iss": LEGACY_ISSUER,
        f"{_OF_SECRETS}namespace": namespace,
        f"{_OF_SECRETS}secret.name": secret_name,
        f"{_OF_SECRETS}service-account.name": account.name,
        f"{_OF_SECRETS}service-account.uid": account.uid,
        "sub": user_name(namespace, account.name),
    }


def read_claims(claims: JSONObject) -> Claims:
    """Read the claims of a token of either kind. Raises InvalidToken for claims that are missing or have a wrong type."""
    return _in_secret(claims) if claims.get("iss") == LEGACY_ISSUER else _of_request(claims)


def _of_request(claims: JSONObject) -> Claims:
    private = claims.get(_PRIVATE) or {}
    if not isinstance(private, dict):
        raise _malformed()
    return Claims(
        _text(private, "namespace"),
        _ref(private, "serviceaccount") or Ref("", ""),
        _audiences(claims.get("aud")),
        _ref(private, "pod"),
        _ref(private, "secret"),
        _ref(private, "node"),
        token_id=_text(claims, "jti"),
        not_before=_moment(claims, "nbf", -math.inf),
        issued_at=_moment(claims, "iat", -math.inf),
        expires=_moment(claims, "exp", math.inf),
    )


def _in_secret(claims: JSONObject) -> Claims:
    subject = _text(claims, "sub")
    needed = {
        "namespace claim": _text(claims, f"{_OF_SECRETS}namespace"),
        "secretName claim": _text(claims, f"{_OF_SECRETS}secret.name"),
        "serviceAccountName claim": _text(claims, f"{_OF_SECRETS}service-account.name"),
        "serviceAccountUID claim": _text(claims, f"{_OF_SECRETS}service-account.uid"),
    }
    for what, value in {"sub claim": subject, **needed}.items():
        if not value:
            raise InvalidToken(f"{what} is missing")
    namespace, secret_name, name, uid = needed.values()
    if subject != user_name(namespace, name):
        raise InvalidToken("sub claim is invalid")
    return Claims(namespace, Ref(name, uid), _audiences(claims.get("aud")), secret_name=secret_name)


def common_audiences(of_token: Sequence[str], of_server: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """The token's audiences that are wanted. A token without audiences has the server's. Raises InvalidToken if none is."""
    named = of_token or of_server
    common = tuple(audience for audience in named if audience in wanted)
    if not common and of_server:
        given, target = (f"[{' '.join(map(quote, values))}]" for values in (named, wanted))
        raise InvalidToken(f"token audiences {given} is invalid for the target audiences {target}")
    return common


def check_times(claims: Claims, now: float) -> None:
    """Check the times of a token. Raises InvalidToken."""
    if now + LEEWAY_SECONDS < claims.not_before:
        raise InvalidToken("service account token is not valid yet")
    if now - LEEWAY_SECONDS > claims.expires:
        raise InvalidToken("service account token has expired")
    if now + LEEWAY_SECONDS < claims.issued_at:
        raise InvalidToken("service account token is issued in the future")


def check_objects(claims: Claims, text: str, objects: Mapping[Name, JSONObject | None], now: float) -> None:
    """Check a token's objects. text: the token. objects: by `Claims.objects`; None if one is missing. Raises InvalidToken."""
    if claims.secret_name:
        _check_of_secret(claims, text, *(objects[name] for name in claims.objects()))
        return
    name, *bound = claims.objects()
    account = objects[name]
    if account is None:
        raise InvalidToken(f"serviceaccounts {quote(name.name)} not found")
    if _uid(account) != claims.account.uid:
        raise InvalidToken(f"service account UID ({_uid(account)}) does not match claim ({claims.account.uid})")
    if _is_deleted(account, now):
        raise InvalidToken(f"service account {name.namespace}/{name.name} has been deleted")
    refs = {"secrets": claims.secret, "pods": claims.pod, "nodes": claims.node}
    for each in bound:
        _check_bound(each.resource, refs[each.resource] or Ref("", ""), objects[each], now)


def _check_of_secret(claims: Claims, text: str, account: JSONObject | None, secret: JSONObject | None) -> None:
    """Check the objects of a token in a Secret, for which there is no leeway."""
    if secret is None or secret["metadata"].get("deletionTimestamp"):
        raise InvalidToken("Token has been invalidated")
    if not hmac.compare_digest(_data(secret, "token"), text.encode()):
        raise InvalidToken("Token does not match server's copy")
    where = f"{claims.namespace}/{claims.account.name}"
    if account is None:
        raise InvalidToken(f"serviceaccounts {quote(claims.account.name)} not found")
    if account["metadata"].get("deletionTimestamp"):
        raise InvalidToken(f"ServiceAccount {where} has been deleted")
    if _uid(account) != claims.account.uid:
        raise InvalidToken(f"ServiceAccount UID ({_uid(account)}) does not match claim ({claims.account.uid})")
    if (secret["metadata"].get("labels") or {}).get(_INVALID_SINCE):
        raise InvalidToken(
            f"the token in secret {claims.namespace}/{claims.secret_name} for service account {where} has been marked invalid. "
            "Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the "
            f"'{_INVALID_SINCE}' label from the secret to temporarily allow use of this token"
        )


def _check_bound(resource: str, ref: Ref, obj: JSONObject | None, now: float) -> None:
    if obj is None:
        raise InvalidToken("service account token has been invalidated")
    if _uid(obj) != ref.uid:
        kind = resource.removesuffix("s")
        raise InvalidToken(f"{kind} UID ({_uid(obj)}) does not match service account {kind} ref claim ({ref.uid})")
    if _is_deleted(obj, now):
        raise InvalidToken("service account token has been invalidated")


def _data(secret: JSONObject, name: str) -> bytes:
    try:
        return b64decode((secret.get("data") or {}).get(name) or "", validate=True)
    except (TypeError, ValueError):
        return b""


def _is_deleted(obj: JSONObject, now: float) -> bool:
    """Whether the object was marked as deleted more than the leeway ago."""
    moment = obj["metadata"].get("deletionTimestamp")
    return bool(moment) and times.parse_time(moment) < now - LEEWAY_SECONDS


def _uid(obj: JSONObject) -> str:
    uid: str = obj["metadata"].get("uid", "")
    return uid


def _ref_claim(ref: Ref) -> JSONObject:
    return {"name": ref.name, **({"uid": ref.uid} if ref.uid else {})}


def _ref(private: JSONObject, kind: str) -> Ref | None:
    value = private.get(kind)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _malformed()
    return Ref(_text(value, "name"), _text(value, "uid"))


def _audiences(value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise _malformed()
    return tuple(values)


def _text(claims: JSONObject, name: str) -> str:
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise _malformed()
    return value or ""


def _moment(claims: JSONObject, name: str, unset: float) -> float:
    value = claims.get(name)
    if value is None:
        return unset
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _malformed()
    return float(value)


def _malformed() -> InvalidToken:
    return InvalidToken("service account token claims could not be validated due to unexpected validation error")
