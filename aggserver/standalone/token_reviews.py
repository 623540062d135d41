"""authentication.k8s.io/v1 TokenReview: finds the user of a token, for webhooks and proxies that get one. Nothing is stored.

Source: k8s.io/kubernetes pkg/registry/authentication/tokenreview/storage.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aggserver.admission.chain import Chain
from aggserver.authentication.tokens import TokenError
from aggserver.endpoints.fixed import FixedResource
from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.table import TableConvertor
from aggserver.registry.own_kinds import conformer, own_fields
from aggserver.registry.rest import WriteRequest
from aggserver.registry.stored import StoredObject
from aggserver.standalone.reviews import admit

if TYPE_CHECKING:
    from aggserver.authentication.account_tokens import AccountTokens

__all__ = ["TokenReviews", "token_review_kind"]

_INFO = ResourceInfo("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", "", namespaced=False)


def token_review_kind(reviews: TokenReviews, admission: Chain) -> FixedResource:
    conform = conformer("authentication/v1.TokenReview")
    return FixedResource(
        _INFO,
        reviews,
        admission,
        singular="tokenreview",
        verbs=("create",),
        table=TableConvertor([]),
        conform=conform,
        type_name="authentication/v1.TokenReview",
    )


class TokenReviews:
    """The resource. tokens: returns the verifier of tokens, made at its first use. clock: seconds since the epoch."""

    _FIELDS = own_fields(_INFO, "authentication/v1.TokenReview")

    def __init__(self, tokens: Callable[[], Awaitable[AccountTokens]], clock: Callable[[], float]) -> None:
        self._tokens = tokens
        self._clock = clock

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        await admit(request, obj, self._FIELDS, self._clock())
        spec = obj["spec"] = obj.get("spec") or {}
        if not spec.get("token"):
            raise errors.bad_request("token is required for TokenReview in authentication")
        await request.admission.validate(obj, None)
        status: JSONObject
        try:
            # As upstream, which puts the token into a header and takes its first word from there.
            token = spec["token"].partition(" ")[0]
            user, audiences = await (await self._tokens()).review(token, spec.get("audiences") or ())
        except TokenError as error:
            status = {"user": {}, "error": str(error)}
        else:
            status = {"authenticated": True, "user": user.authenticated().to_json(), "audiences": list(audiences)}
        content = {"metadata": obj["metadata"], "spec": spec, "status": status}
        return StoredObject("", codec.encode_json({"kind": obj["kind"], "apiVersion": obj["apiVersion"], **content}), 0)
