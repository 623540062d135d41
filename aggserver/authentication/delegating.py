"""Authentication: which user sent a request, from the request's headers and the connection's client certificate.

The authenticators are tried in order: front proxy (certificate and headers), client certificate, bearer token. If none finds
a user, the request is anonymous, unless one of them was given credentials and rejected them: then the answer is 401. `aggserver
dev` uses the same code without a front proxy, and knows the tokens that it has signed itself.
Source: k8s.io/apiserver pkg/authentication/authenticatorfactory/delegating.go, request/union, request/anonymous, v0.36.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from aggserver.authentication import requestheader
from aggserver.authentication.requestheader import Headers, RequestHeaderConfig
from aggserver.authentication.tokens import TokenError, bearer_token, websocket_token
from aggserver.authentication.user import ANONYMOUS, UserInfo
from aggserver.authentication.x509 import CertificateError, PeerCertificate, Roots, VerifiedCertificate, user_from, verify
from aggserver.errors import AggserverError
from aggserver.meta import errors

__all__ = ["AuthenticationConfig", "Authenticator", "ClientCA", "Outcome", "Tokens", "TrustError"]

logger = logging.getLogger(__name__)


class TrustError(AggserverError):
    """A trust configuration that can't be used. The text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class ClientCA:
    """A CA bundle as PEM, for the TLS handshake, and parsed, for verification."""

    pem: bytes
    roots: Roots


# Upstream's text. It also fits the ConfigMap, whose keys are named like the kube-apiserver flags that fill them.
_OVERLAP = (
    "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be "
    "specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users"
)

_NO_CERTIFICATE = (
    "X-Remote-* headers name a user, and are ignored: the client showed no certificate. If that is kube-apiserver, it needs "
    "--proxy-client-cert-file and --proxy-client-key-file; without them all requests through the aggregator are anonymous"
)

_NOT_YET = "this server does not know yet which client certificates and X-Remote headers to trust, see /readyz; please try again"
_RETRY_SECONDS = 1

# Users of client certificates that are kept.
_KEPT_USERS = 1024


@dataclass(frozen=True, slots=True)
class AuthenticationConfig:
    """The CAs and headers to trust; replaced as a whole. None turns that authenticator off.

    Raises TrustError if an ordinary client's certificate would also be accepted as the front proxy's, because that client could
    then name any user in its headers. Upstream compares the certificates of the two bundles at kube-apiserver's start
    (pkg/kubeapiserver/options/authentication.go); this check also finds a CA that was renewed, or that signed the other.
    """

    client_ca: ClientCA | None = None
    request_header: RequestHeaderConfig | None = None
    request_header_ca: bytes = b""

    def __post_init__(self) -> None:
        if self.client_ca is None or self.request_header is None or self.request_header.allowed_names:
            return
        if self.request_header.roots.vouch_for(self.client_ca.roots):
            raise TrustError(_OVERLAP)

    def handshake_bundle(self) -> bytes:
        """PEM of every CA that may have issued a client certificate; empty if none is to be requested in the handshake."""
        bundles = (self.client_ca.pem if self.client_ca is not None else b"", self.request_header_ca)
        return b"\n".join(dict.fromkeys(bundle.strip() for bundle in bundles if bundle.strip()))


class Outcome(NamedTuple):
    """The user, and the request's headers without credentials and identity headers.

    by_proxy: whether the front proxy has named the user.
    """

    user: UserInfo
    headers: Headers
    by_proxy: bool = False


class Tokens(Protocol):
    """Finds the user of a bearer token: a TokenReviewer, or AccountTokens for a server's own tokens."""

    async def review(self, token: str, /) -> UserInfo:
        """The token's user. Raises TokenError."""


class Authenticator:
    """`tokens` is None if no bearer token is accepted. `on_change` is called with a changed handshake bundle (PEM).

    If `anonymous` is false, a request without credentials gets 401, like one with invalid credentials.
    waiting: why not all CAs are known yet; None once they are. Until then no request counts as anonymous, and later none on a
    connection from that time: its handshake did not request a certificate, so the client may be the front proxy.
    """

    def __init__(
        self,
        config: AuthenticationConfig,
        *,
        tokens: Tokens | None = None,
        on_change: Callable[[bytes], None] | None = None,
        anonymous: bool = True,
        waiting: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._config = config
        self._tokens = tokens
        self._on_change = on_change
        self._anonymous = anonymous
        self._waiting = waiting
        self._has_warned = False

    @property
    def config(self) -> AuthenticationConfig:
        return self._config

    def replace(self, config: AuthenticationConfig) -> None:
        """Use `config` for the requests that start from now on."""
        before, self._config = self._config, config
        bundle = config.handshake_bundle()
        if self._on_change is not None and bundle != before.handshake_bundle():
            self._on_change(bundle)

    async def authenticate(
        self,
        headers: Headers,
        peer: PeerCertificate | None,
        now: float,
        *,
        knew_all_cas: bool = True,
        for_anyone: bool = False,
    ) -> Outcome:
        """Find the user of a request. now: in seconds since the epoch. knew_all_cas: whether all CAs were known when the
        connection began.

        for_anyone: whether the user makes no difference, as for health checks. Raises StatusError 401, and 503 if the user can't
        be determined yet on this connection.
        """
        config = self._config
        waiting = not for_anyone and (self._waiting() is not None or not knew_all_cas)
        # The client may be the front proxy, even if a known CA signed its certificate; then the headers name the user.
        if waiting and config.request_header is None and requestheader.names_somebody(headers):
            raise errors.service_unavailable(_NOT_YET, _RETRY_SECONDS)
        failures: list[str] = []
        identity, others = requestheader.split(headers, config.request_header)
        user, by_proxy = _by_certificate(identity, peer, config, now, failures) if peer is not None else (None, False)
        if user is not None:
            return Outcome(user.authenticated(), _without_authorization(others), by_proxy)
        rejected = len(failures)
        if self._tokens is not None:
            user, headers = await _by_token(headers, self._tokens, failures)
        if user is None and waiting and len(failures) == rejected:
            raise errors.service_unavailable(_NOT_YET, _RETRY_SECONDS)
        if user is None and (failures or not self._anonymous):
            logger.info("unable to authenticate the request: %s", "; ".join(failures) or "it has no credentials")
            raise errors.unauthorized()
        given, headers = headers, requestheader.strip(headers, config.request_header)
        if user is None:
            if headers is not given and peer is None and config.request_header is not None and not self._has_warned:
                self._has_warned = True  # once: anybody can send such headers
                logger.warning(_NO_CERTIFICATE)
            return Outcome(ANONYMOUS, headers)
        return Outcome(user.authenticated(), _without_authorization(headers))


def _by_certificate(
    identity: Headers, peer: PeerCertificate, config: AuthenticationConfig, now: float, failures: list[str]
) -> tuple[UserInfo | None, bool]:
    """The user that the front proxy names, and True; or else the certificate's own. identity: the headers that carry one.

    Adds to `failures` why a certificate was rejected.
    """
    if config.request_header is not None:
        try:
            requestheader.check_name(verify(peer, config.request_header.roots, now).common_name, config.request_header)
        except CertificateError as error:
            failures.append(f"front proxy: {error}")
        else:
            user = requestheader.authenticate(identity, config.request_header)
            if user is not None:
                return user, True
    if config.client_ca is not None:
        try:
            return _user_of(verify(peer, config.client_ca.roots, now)), False
        except CertificateError as error:
            failures.append(f"client certificate: {error}")
    return None, False


@lru_cache(_KEPT_USERS)
def _user_of(verified: VerifiedCertificate) -> UserInfo | None:
    """As `user_from`, but authenticated, and kept, since each request of a connection asks. Raises CertificateError."""
    user = user_from(verified)
    return None if user is None else user.authenticated()


async def _by_token(headers: Headers, tokens: Tokens, failures: list[str]) -> tuple[UserInfo | None, Headers]:
    token = bearer_token(headers)
    if token:
        try:
            return await tokens.review(token), headers
        except TokenError as error:
            failures.append(f"bearer token: {error}")
    try:
        token, rest = websocket_token(headers)
        if token:
            return await tokens.review(token), rest
    except TokenError as error:
        failures.append(f"websocket token: {error}")
    return None, headers


def _without_authorization(headers: Headers) -> Headers:
    """The headers without credentials: later steps do not need them, and so can't leak them."""
    for name, _ in headers:
        if name == b"authorization":
            return [pair for pair in headers if pair[0] != b"authorization"]
    return headers
