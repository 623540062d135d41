"""OpenID discovery: serves the issuer of ServiceAccounts' tokens, and the public keys to verify them with.

The paths are `/.well-known/openid-configuration` and `/openid/v1/jwks`. The filter runs after authorization.
Source: k8s.io/kubernetes pkg/serviceaccount/openidmetadata.go, pkg/routes/openidmetadata.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aggserver.endpoints.request import JSON, AnyResponse, Filter, Handler, Request, Response
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject

if TYPE_CHECKING:
    from aggserver.authentication.jws import VerifyingKey

__all__ = ["configuration", "for_issuer", "key_set"]

_CONFIGURATION, _KEY_SET = "/.well-known/openid-configuration", "/openid/v1/jwks"
# Clients may keep both for an hour.
_CACHED = [(b"cache-control", b"public, max-age=3600")]


def for_issuer(issuer: str, keys: Callable[[], Awaitable[Sequence[VerifyingKey]]], url: Callable[[], str]) -> Filter | None:
    """The filter; None if the issuer is no https URL without query and fragment: upstream does not serve the paths then.

    keys: returns the keys that tokens are verified with. url: returns the server's own URL.
    """
    parts = urlsplit(issuer)
    if parts.scheme != "https" or parts.query or parts.fragment:
        return None

    def wrap(next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            path = request.path.rstrip("/")
            if path not in (_CONFIGURATION, _KEY_SET) or request.method != "GET":
                return await next_handler(request)
            known = await keys()
            if path == _KEY_SET:
                return Response(200, codec.encode_json(key_set(known)), b"application/jwk-set+json", list(_CACHED))
            return Response(200, codec.encode_json(configuration(issuer, url() + _KEY_SET, known)), JSON, list(_CACHED))

        return handler

    return wrap


def configuration(issuer: str, keys_url: str, keys: Sequence[VerifyingKey]) -> JSONObject:
    return {
        "issuer": issuer,
        "jwks_uri": keys_url,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": sorted({key.algorithm for key in keys}),
    }


def key_set(keys: Sequence[VerifyingKey]) -> JSONObject:
    return {"keys": [key.jwk() for key in keys]}
