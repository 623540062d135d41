"""TokenRequests, TokenReviews and OpenID discovery; tests/integration/test_same_tokens.py compares them with kube-apiserver's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aggserver.authentication import jws
from aggserver.authentication.account_tokens import AccountTokens
from aggserver.authentication.service_accounts import Name, read_claims
from aggserver.kinds.served import Kinds
from aggserver.meta.errors import StatusError
from aggserver.meta.warnings import Warnings
from aggserver.registry.rest import Context, WriteOptions, WriteRequest
from aggserver.standalone import openid
from aggserver.standalone.token_reviews import TokenReviews
from aggserver.standalone.tokens import Issuing, TokenRequests
from tests.fakes.server import ADMIN, LocalServer

KEY = jws.signing_key(jws.new_key())


class Tokens:
    """What makes and examines tokens on the built-in kinds of a server. longest: seconds."""

    def __init__(self, server: LocalServer, longest: int = 0) -> None:
        kinds = Kinds(server.environment, server.engine.admission)
        self.store = lambda resource: kinds.store("", resource)
        self.warnings = Warnings()

        async def key() -> jws.SigningKey:
            return KEY

        async def examined() -> AccountTokens:
            async def find(name: Name) -> Any:
                return self.store(name.resource).known(name.namespace, name.name)

            return AccountTokens([KEY.public], ["https://us"], ["https://us"], find, server.clock)

        self.requests = TokenRequests(Issuing("https://us", ["https://us"], longest, key, lambda: "id", server.clock), self.store)
        self.reviews = TokenReviews(examined, server.clock)

    async def make(self, resource: str, name: str, **more: Any) -> None:
        kinds = {"serviceaccounts": "ServiceAccount", "pods": "Pod", "nodes": "Node"}
        obj = {"apiVersion": "v1", "kind": kinds[resource], "metadata": {"name": name}, **more}
        context = Context(ADMIN, "" if resource == "nodes" else "default")
        await self.store(resource).create(WriteRequest(context, WriteOptions()), obj)

    async def request(self, spec: Mapping[str, Any]) -> Any:
        context = Context(ADMIN, "default", self.warnings, name="bob")
        body = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": dict(spec)}
        return (await self.requests.create(WriteRequest(context, WriteOptions()), body)).decoded()

    async def review(self, token: str) -> Any:
        body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"token": token}}
        return (await self.reviews.create(WriteRequest(Context(ADMIN), WriteOptions()), body)).decoded()["status"]


async def test_made_and_examined(server: LocalServer) -> None:
    tokens = Tokens(server)
    await tokens.make("serviceaccounts", "bob")
    made = await tokens.request({})
    assert made["spec"] == {"audiences": ["https://us"], "expirationSeconds": 3600, "boundObjectRef": None}
    assert made["status"]["expirationTimestamp"] == "2026-01-02T04:04:05Z"
    status = await tokens.review(made["status"]["token"])
    assert (status["authenticated"], status["audiences"]) == (True, ["https://us"])
    assert status["user"]["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]


async def test_no_longer_than_allowed(server: LocalServer) -> None:
    tokens = Tokens(server, 7200)
    await tokens.make("serviceaccounts", "bob")
    assert (await tokens.request({"expirationSeconds": 7200}))["spec"]["expirationSeconds"] == 7200
    assert list(tokens.warnings) == []
    made = await tokens.request({"expirationSeconds": 7201})
    assert made["spec"]["expirationSeconds"] == 7200
    assert list(tokens.warnings) == ["requested expiration of 7201 seconds shortened to 7200 seconds"]


POD = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}}
EXTENDED = {
    # what is asked for: how long the token holds
    "as kubelet": ({**POD, "expirationSeconds": 3607}, 365 * 86400),
    "for us, said": ({**POD, "expirationSeconds": 3607, "audiences": ["https://us"]}, 365 * 86400),
    "for others": ({**POD, "expirationSeconds": 3607, "audiences": ["https://us", "them"]}, 3607),
    "an hour": ({**POD, "expirationSeconds": 3600}, 3600),
    "without a pod": ({"expirationSeconds": 3607}, 3607),
}


@pytest.mark.parametrize(("spec", "seconds"), EXTENDED.values(), ids=EXTENDED)
async def test_tokens_in_pods_hold_longer(server: LocalServer, spec: dict[str, Any], seconds: int) -> None:
    tokens = Tokens(server)
    await tokens.make("serviceaccounts", "bob")
    containers = [{"name": "a", "image": "b"}]
    await tokens.make("pods", "p", spec={"serviceAccountName": "bob", "nodeName": "n", "containers": containers})
    token = jws.read((await tokens.request(spec))["status"]["token"])
    assert token is not None
    claims = read_claims(token.claims)
    assert claims.expires - claims.issued_at == seconds
    assert ("warnafter" in token.claims["kubernetes.io"]) is (seconds > 3607)
    if claims.pod is not None:
        assert claims.node is not None
        assert claims.node.uid == "", "there is no such Node"


async def test_the_node_of_a_pod(server: LocalServer) -> None:
    tokens = Tokens(server)
    await tokens.make("serviceaccounts", "bob")
    await tokens.make("nodes", "n")
    containers = [{"name": "a", "image": "b"}]
    await tokens.make("pods", "p", spec={"serviceAccountName": "bob", "nodeName": "n", "containers": containers})
    extra = (await tokens.review((await tokens.request(POD))["status"]["token"]))["user"]["extra"]
    assert extra["authentication.kubernetes.io/node-name"] == ["n"]
    assert extra["authentication.kubernetes.io/node-uid"][0]


async def test_no_account(server: LocalServer) -> None:
    with pytest.raises(StatusError, match='serviceaccounts "bob" not found'):
        await Tokens(server).request({})


ISSUERS = {
    "https://us": True,
    "https://us/path": True,
    "http://us": False,
    "us": False,
    "https://us?a=b": False,
    "https://us#a": False,
    "kubernetes/serviceaccount": False,
}


@pytest.mark.parametrize(("issuer", "served"), ISSUERS.items())
def test_which_issuers_have_documents(issuer: str, served: bool) -> None:
    async def keys() -> list[jws.VerifyingKey]:
        return [KEY.public]

    assert (openid.for_issuer(issuer, keys, lambda: "") is not None) is served


def test_documents() -> None:
    rsa = jws.VerifyingKey("x", "RS256", KEY.public.key)
    assert openid.configuration("https://us", "https://here/openid/v1/jwks", [rsa, KEY.public, KEY.public]) == {
        "issuer": "https://us",
        "jwks_uri": "https://here/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256", "RS256"],
    }
    assert openid.key_set([KEY.public]) == {"keys": [KEY.public.jwk()]}
