"""Bearer tokens: extracting them from a request, and finding their user by a TokenReview.

Results, positive and negative, are cached for ten seconds by default; failed reviews are not cached. A token is never logged, and
its key in the cache is a keyed hash, so that a memory dump reveals no tokens and nobody can construct two with the same key.
Source: k8s.io/apiserver plugin/pkg/authenticator/token/webhook, pkg/authentication/{token/cache,request/bearertoken,
request/websocket}, v0.36.3.

Differs from upstream: a rejection with an explanation (status.error) is cached too. kube-apiserver explains every rejection, so
upstream's cache of rejections has no effect, and a client with an expired token causes a review per request.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import random as randomness
import secrets
import time
from collections.abc import Callable
from typing import Any

from aggserver.authentication.requestheader import Headers, text_of
from aggserver.authentication.user import UserInfo
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.answers import Answers
from aggserver.cluster.pacing import Sleep, retrying

__all__ = ["TokenError", "TokenReviewer", "bearer_token", "websocket_token"]

REVIEWS_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"

# Upstream's defaults: short enough that a revoked token is soon rejected, long enough that a burst of requests is one review.
KEEP_SECONDS = 10.0
REVIEW_SECONDS = 10.0

# The size of upstream's cache, for the nodes and service accounts of a very large cluster. An entry is under a kilobyte.
KEPT_TOKENS = 32 * 1024

WEBSOCKET_PREFIX = "base64url.bearer.authorization.k8s.io."


class TokenError(Exception):
    """The token is invalid or could not be reviewed. The text never contains the token."""


def bearer_token(headers: Headers) -> str:
    """The token of an `Authorization: Bearer` header, or ''."""
    value = next((value for name, value in headers if name == b"authorization"), b"")
    parts = text_of(value).strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return ""
    return parts[1]


def websocket_token(headers: Headers) -> tuple[str, Headers]:
    """The token among the WebSocket subprotocols, and the headers without it. Browsers, which can't set headers, send it there.

    '' and the same headers if there is no token. Raises TokenError if it is malformed.
    """
    if not _is_websocket(headers):
        return "", headers
    lines = [text_of(value) for name, value in headers if name == b"sec-websocket-protocol"]
    protocols = [part.strip() for line in lines for part in line.split(",")]
    encoded = [part.removeprefix(WEBSOCKET_PREFIX) for part in protocols if part.startswith(WEBSOCKET_PREFIX)]
    if len(encoded) > 1:
        raise TokenError("multiple base64.bearer.authorization tokens specified")
    if not encoded or not encoded[0]:
        return "", headers
    token = _decoded(encoded[0])
    others = [part for part in protocols if not part.startswith(WEBSOCKET_PREFIX)]
    # The server must select one of the offered subprotocols, and that must not be the token.
    if not others:
        raise TokenError("missing additional subprotocol")
    kept = [pair for pair in headers if pair[0] != b"sec-websocket-protocol"]
    return token, [*kept, (b"sec-websocket-protocol", ",".join(others).encode())]


def _is_websocket(headers: Headers) -> bool:
    upgrade = next((value for name, value in headers if name == b"upgrade"), b"")
    if upgrade.lower() != b"websocket":
        return False
    return any(b"upgrade" in value.lower() for name, value in headers if name == b"connection")


def _decoded(encoded: str) -> str:
    # The encoding is unpadded; Python's decoder requires padding, and ignores foreign characters without `validate`.
    try:
        if "=" in encoded:
            raise ValueError("padded")
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error) as error:
        raise TokenError("invalid base64.bearer.authorization token encoding") from error
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise TokenError("invalid base64.bearer.authorization token") from error


class TokenReviewer:
    """Reviews tokens by the hosting API server. Concurrent requests with the same token share a review.

    `keep_seconds` is the TTL of the cache; 0 turns it off.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        keep_seconds: float = KEEP_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._cluster = cluster
        self._keep_seconds = keep_seconds
        self._sleep = sleep
        self._random = random
        self._secret = secrets.token_bytes(32)
        # A rejection is cached as its text.
        self._answers: Answers[bytes, UserInfo | str] = Answers(KEPT_TOKENS, clock)

    async def review(self, token: str) -> UserInfo:
        """The token's user. Raises TokenError if it is invalid or the review failed."""
        key = hmac.digest(self._secret, token.encode(), "sha256")
        try:
            answer = await self._answers.ask(key, lambda: self._question(token))
        except (ClusterError, Unreachable, TimeoutError) as error:
            raise TokenError(f"the token could not be reviewed: {str(error) or 'no answer in time'}") from error
        if isinstance(answer, str):
            raise TokenError(answer)
        return answer

    async def _question(self, token: str) -> tuple[UserInfo | str, float]:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        async with asyncio.timeout(REVIEW_SECONDS):
            review = await retrying(
                lambda: self._cluster.request("POST", REVIEWS_PATH, body=body, timeout=REVIEW_SECONDS),
                sleep=self._sleep,
                random=self._random,
            )
        return _answer(review.get("status") or {}), self._keep_seconds


def _answer(status: dict[str, Any]) -> UserInfo | str:
    if not status.get("authenticated", False):
        return status.get("error", "") or "invalid bearer token"
    user = status.get("user") or {}
    extra = {key: tuple(values) for key, values in (user.get("extra") or {}).items()}
    return UserInfo(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups") or ()), extra)
