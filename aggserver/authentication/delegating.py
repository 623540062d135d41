"""Authentication: who sent a request, by everything the request and its connection offer.

In order: the front proxy's certificate and headers, a client certificate, a bearer token, and, where none of them was tried and
failed, anonymous. What failed is collected while the others have their turn; if nobody vouches and something failed, the answer
is 401 and never anonymous. Called by the authentication filter for each request, in every mode: standalone has only a client CA.
Source: k8s.io/apiserver pkg/authentication/authenticatorfactory/delegating.go, request/union, request/anonymous, v0.36.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from aggserver.authentication import requestheader
from aggserver.authentication.requestheader import Headers, RequestHeaderConfig
from aggserver.authentication.tokens import TokenError, TokenReviewer, bearer_token, websocket_token
from aggserver.authentication.user import ANONYMOUS, UserInfo
from aggserver.authentication.x509 import CertificateError, PeerCertificate, Roots, user_from, verify
from aggserver.meta import errors

__all__ = ["AuthenticationConfig", "Authenticator", "ClientCA", "Outcome", "TrustError"]

logger = logging.getLogger(__name__)


class TrustError(ValueError):
    """Whom to trust, said in a way that can't be followed; the text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class ClientCA:
    """A bundle as it came (PEM, for the handshake) and as it is verified against. Kept together as long as the bytes stay."""

    pem: bytes
    roots: Roots


# Upstream's text. The keys of the ConfigMap are called like kube-apiserver's flags that fill them.
_OVERLAP = (
    "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be "
    "specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users"
)


@dataclass(frozen=True, slots=True)
class AuthenticationConfig:
    """One generation of what is trusted; replaced as a whole. None turns the authenticator off.

    Raises TrustError where a certificate of an ordinary client would be one of the front proxy too, which may name anybody in its
    headers. Upstream looks for equal certificates at kube-apiserver's start (pkg/kubeapiserver/options/authentication.go); a CA
    that was renewed, or that signed the other, is found here as well.
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
        """PEM of every CA that a client's certificate may come from; empty where no certificate is asked for."""
        bundles = (self.client_ca.pem if self.client_ca is not None else b"", self.request_header_ca)
        return b"\n".join(dict.fromkeys(bundle.strip() for bundle in bundles if bundle.strip()))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The user, and the headers without credentials and identity."""

    user: UserInfo
    headers: Headers


class Authenticator:
    """`tokens` is None where there is no API server to ask. `on_change` gets the new handshake bundle (PEM) when it differs.

    Without `anonymous`, requests that offer nothing are refused like those whose credentials are bad.
    """

    def __init__(
        self,
        config: AuthenticationConfig,
        *,
        tokens: TokenReviewer | None = None,
        on_change: Callable[[bytes], None] | None = None,
        anonymous: bool = True,
    ) -> None:
        self._config = config
        self._tokens = tokens
        self._on_change = on_change
        self._anonymous = anonymous

    @property
    def config(self) -> AuthenticationConfig:
        return self._config

    def replace(self, config: AuthenticationConfig) -> None:
        """Requests under way finish with the configuration they began with."""
        before, self._config = self._config, config
        bundle = config.handshake_bundle()
        if self._on_change is not None and bundle != before.handshake_bundle():
            self._on_change(bundle)

    async def authenticate(self, headers: Headers, peer: PeerCertificate | None, now: float) -> Outcome:
        """`now` in seconds since the epoch, for certificates. Raises StatusError 401."""
        config = self._config
        failures: list[str] = []
        user = _by_certificate(headers, peer, config, now, failures) if peer is not None else None
        if user is None and self._tokens is not None:
            user, headers = await _by_token(headers, self._tokens, failures)
        if user is None and (failures or not self._anonymous):
            logger.info("unable to authenticate the request: %s", "; ".join(failures) or "it has no credentials")
            raise errors.unauthorized()
        headers = requestheader.strip(headers, config.request_header)
        if user is None:
            return Outcome(ANONYMOUS, headers)
        return Outcome(user.authenticated(), _without_authorization(headers))


def _by_certificate(
    headers: Headers, peer: PeerCertificate, config: AuthenticationConfig, now: float, failures: list[str]
) -> UserInfo | None:
    """The front proxy's word, then the certificate's own. Adds to `failures` what did not hold."""
    if config.request_header is not None:
        try:
            requestheader.check_name(verify(peer, config.request_header.roots, now).common_name, config.request_header)
        except CertificateError as error:
            failures.append(f"front proxy: {error}")
        else:
            user = requestheader.authenticate(headers, config.request_header)
            if user is not None:
                return user
    if config.client_ca is not None:
        try:
            return user_from(verify(peer, config.client_ca.roots, now))
        except CertificateError as error:
            failures.append(f"client certificate: {error}")
    return None


async def _by_token(headers: Headers, tokens: TokenReviewer, failures: list[str]) -> tuple[UserInfo | None, Headers]:
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
    """Nobody behind us needs it, and so nobody can leak it."""
    for name, _ in headers:
        if name == b"authorization":
            return [pair for pair in headers if pair[0] != b"authorization"]
    return headers
