"""authentication.k8s.io/v1 TokenReview: finds the user of a token, for webhooks and proxies that get one. Nothing is stored.

Source: k8s.io/kubernetes pkg/registry/authentication/tokenreview/storage.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aggserver.authentication.tokens import TokenError
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import WriteRequest
from aggserver.standalone.reviews import Review

if TYPE_CHECKING:
    from aggserver.authentication.account_tokens import AccountTokens

__all__ = ["TokenReviews"]


class TokenReviews(Review):
    """tokens: returns the verifier of tokens, made at its first use. clock: seconds since the epoch."""

    def __init__(self, tokens: Callable[[], Awaitable[AccountTokens]], clock: Callable[[], float]) -> None:
        super().__init__("authentication", "TokenReview", clock)
        self._tokens = tokens

    async def check(self, request: WriteRequest, obj: JSONObject) -> None:
        spec = obj["spec"] = obj.get("spec") or {}
        if not spec.get("token"):
            raise errors.bad_request("token is required for TokenReview in authentication")

    async def answer(self, request: WriteRequest, obj: JSONObject) -> JSONObject:
        spec = obj["spec"]
        status: JSONObject
        try:
            # As upstream, which puts the token into a header and takes its first word from there.
            token = spec["token"].partition(" ")[0]
            user, audiences = await (await self._tokens()).review(token, spec.get("audiences") or ())
        except TokenError as error:
            status = {"user": {}, "error": str(error)}
        else:
            status = {"authenticated": True, "user": user.authenticated().to_json(), "audiences": list(audiences)}
        return {"metadata": obj["metadata"], "spec": spec, "status": status}
