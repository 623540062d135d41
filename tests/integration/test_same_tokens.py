"""Tokens of ServiceAccounts by kube-apiserver and by `aggserver dev`: made, examined, used and refused, with the same words.

Both sign with the same key here, so that each can verify what the other has made.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.controlplane.plane import ControlPlane
from tests.integration.comparison import comparable
from tests.integration.protobuf import encode_body
from tests.integration.raw import Answer, Client
from tests.integration.server import Standalone, eventually, running

NAMESPACE = "same-tokens"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
SECRETS, PODS = f"/api/v1/namespaces/{NAMESPACE}/secrets", f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES = "/api/v1/nodes"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
POD = {"serviceAccountName": "bob", "nodeName": "same-tokens", "automountServiceAccountToken": False}
_TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")


class Side(NamedTuple):
    """One of the servers: as an administrator, and without a certificate."""

    admin: Client
    stranger: Client

    def post(self, path: str, obj: Any) -> Answer:
        headers = {"content-type": "application/json", "user-agent": "test"}
        return self.admin.request("POST", path, headers, json.dumps(obj).encode())

    def make(self, path: str, name: str, **more: Any) -> None:
        answer = self.post(path, {"metadata": {"name": name}, **more})
        assert answer.status == 201, answer.body

    def remove(self, path: str) -> None:
        assert self.admin.request("DELETE", f"{path}?gracePeriodSeconds=0").status == 200

    def token(self, account: str = "bob", **spec: Any) -> str:
        answer = self.post(f"{ACCOUNTS}/{account}/token", {"spec": spec})
        assert answer.status == 201, answer.body
        token: str = json.loads(answer.body)["status"]["token"]
        return token

    def review(self, token: str, *audiences: str) -> Any:
        answer = self.post(REVIEWS, {"spec": {"token": token, **({"audiences": audiences} if audiences else {})}})
        assert answer.status == 201, answer.body
        return json.loads(answer.body)["status"]

    def refusal(self, token: str) -> Any:
        """The review of a token whose account, pod, secret or node is gone. kube-apiserver asks its caches first, which may still
        have it, and then remembers the token as valid for ten seconds.
        """

        def refused() -> Any:
            status = self.review(token)
            return None if status.get("authenticated") else status

        return eventually(refused, "the token is refused")

    def get(self, path: str, token: str = "") -> Answer:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return self.stranger.request("GET", path, headers)


@pytest.fixture(scope="module")
def sides(own_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """kube-apiserver and aggserver, each with the same objects."""
    flags = [
        *("--service-account-key-file", str(own_control_plane.token_public_key)),
        *("--service-account-signing-key-file", str(own_control_plane.token_key)),
    ]
    with ExitStack() as stack:
        server = Standalone(tmp_path_factory.mktemp("tokens") / "data", *flags)
        stack.enter_context(running(server))
        made = []
        for kubeconfig in (own_control_plane.kubeconfig, server.kubeconfig):
            side = Side(stack.enter_context(Client(kubeconfig)), stack.enter_context(Client(kubeconfig, certificate=False)))
            _plant(side)
            made.append(side)
        yield made[0], made[1]
        made[0].remove(f"/api/v1/namespaces/{NAMESPACE}")


def _plant(side: Side) -> None:
    side.make("/api/v1/namespaces", NAMESPACE)
    for name in ("bob", "eve", "gone"):
        side.make(ACCOUNTS, name)
    side.make(SECRETS, "s")
    side.make(PODS, "p", spec={**POD, "containers": [{"name": "a", "image": "b"}]})
    side.make(PODS, "of-eve", spec={**POD, "serviceAccountName": "eve", "containers": [{"name": "a", "image": "b"}]})


def seen(answer: Answer) -> Any:
    headers = {name: answer.header(name) for name in ("content-type", "cache-control", "warning")}
    return answer.status, headers, said(json.loads(answer.body))


def said(value: Any) -> Any:
    """A JSON value without what differs from server to server."""
    return json.loads(_TOKEN.sub("<token>", json.dumps(comparable(value))))


def ref(kind: str, name: str, **more: str) -> dict[str, Any]:
    return {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, **more}}


# --- requests ---

REQUESTED: dict[str, Any] = {
    "nothing": {},
    "a day for others": {"spec": {"audiences": ["a", "b"], "expirationSeconds": 86400}},
    "with labels": {"metadata": {"labels": {"a": "b"}, "generateName": "x", "annotations": {"c": "d"}}},
    "with a status": {"status": {"token": "x"}},
    "with unknown fields": {"foo": 1, "spec": {"bar": 2}},
    "for too short": {"spec": {"expirationSeconds": 599}},
    "for none": {"spec": {"expirationSeconds": 0}},
    "for long": {"spec": {"expirationSeconds": 1 << 32}},
    "for too long": {"spec": {"expirationSeconds": (1 << 32) + 1}},
    "audiences that are text": {"spec": {"audiences": "x"}},
    "another name": {"metadata": {"name": "x"}},
    "another namespace": {"metadata": {"namespace": "x"}},
    "another uid": {"metadata": {"uid": "x"}},
    "a pod": {"spec": ref("Pod", "p")},
    "a pod, as kubelet": {"spec": {**ref("Pod", "p"), "expirationSeconds": 3607}},
    "a secret": {"spec": ref("Secret", "s")},
    "a pod of another account": {"spec": ref("Pod", "of-eve")},
    "no such pod": {"spec": ref("Pod", "x")},
    "no such secret": {"spec": ref("Secret", "x")},
    "no such node": {"spec": ref("Node", "x")},
    "another pod": {"spec": ref("Pod", "p", uid="x")},
    "another secret": {"spec": ref("Secret", "s", uid="x")},
    "another kind": {"spec": ref("ConfigMap", "x")},
    "another group": {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "apps/v1", "name": "p"}}},
    "an empty object": {"spec": {"boundObjectRef": {}}},
}


@pytest.mark.parametrize("body", REQUESTED.values(), ids=REQUESTED)
def test_a_request(sides: tuple[Side, Side], body: Any) -> None:
    upstream, ours = (side.post(f"{ACCOUNTS}/bob/token", body) for side in sides)
    assert seen(ours) == seen(upstream)
    if ours.status == 201:
        assert parts(ours) == parts(upstream)


def parts(answer: Answer) -> Any:
    """The header and the claims of the token in an answer, its times as seconds from its beginning."""
    token = json.loads(answer.body)["status"]["token"]
    head, claims = (json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in token.split(".")[:2])
    start = claims["iat"]
    for holder, name in ((claims, "exp"), (claims, "nbf"), (claims, "iat"), (claims["kubernetes.io"], "warnafter")):
        if name in holder:
            holder[name] -= start
    return head, list(claims), said(claims)


def test_bodies_in_protobuf(sides: tuple[Side, Side]) -> None:
    """As Go's typed clients send them."""
    of = {"apiVersion": "authentication.k8s.io/v1", "metadata": {}}
    for path, kind, spec in (
        (f"{ACCOUNTS}/bob/token", "TokenRequest", {"audiences": ["a"], "expirationSeconds": 700}),
        (REVIEWS, "TokenReview", {"token": "word"}),
    ):
        body = encode_body({**of, "kind": kind, "spec": spec})
        headers = {"content-type": "application/vnd.kubernetes.protobuf", "accept": "application/json"}
        upstream, ours = (side.admin.request("POST", path, headers, body) for side in sides)
        assert ours.status == 201, ours.body
        assert seen(ours) == seen(upstream)


def test_requests_elsewhere(sides: tuple[Side, Side]) -> None:
    for method, path in (("POST", f"{ACCOUNTS}/nobody/token"), ("GET", f"{ACCOUNTS}/bob/token"), ("POST", f"{ACCOUNTS}/bob")):
        headers = {"content-type": "application/json"}
        upstream, ours = (side.admin.request(method, path, headers, b"{}") for side in sides)
        assert (ours.status, said(json.loads(ours.body))) == (upstream.status, said(json.loads(upstream.body)))


# --- reviews ---


def forged(token: str) -> str:
    return f"{token[:-8]}AAAAAAAA"


REVIEWED: dict[str, Callable[[Side], Any]] = {
    "its own": lambda side: side.review(side.token()),
    "of others": lambda side: side.review(side.token(audiences=["them"])),
    "of others, for them": lambda side: side.review(side.token(audiences=["them", "us"]), "us", "you"),
    "for others": lambda side: side.review(side.token(), "them"),
    "of a pod": lambda side: side.review(side.token(**ref("Pod", "p"))),
    "of a secret": lambda side: side.review(side.token(**ref("Secret", "s"))),
    "forged": lambda side: side.review(forged(side.token())),
    "a word": lambda side: side.review("word"),
    "three words": lambda side: side.review("a.b.c"),
    "more behind it": lambda side: side.review(f"{side.token()} more"),
}


@pytest.mark.parametrize("examine", REVIEWED.values(), ids=REVIEWED)
def test_a_review(sides: tuple[Side, Side], examine: Callable[[Side], Any]) -> None:
    upstream, ours = map(examine, sides)
    assert said(ours) == said(upstream)


def test_a_review_of_nothing(sides: tuple[Side, Side]) -> None:
    upstream, ours = (side.post(REVIEWS, {"spec": {}}) for side in sides)
    assert seen(ours) == seen(upstream)


def test_what_it_is_bound_to_is_gone(sides: tuple[Side, Side]) -> None:
    def session(side: Side) -> Any:
        side.make(NODES, "same-tokens")
        side.make(SECRETS, "bound")
        side.make(PODS, "bound", spec={**POD, "containers": [{"name": "a", "image": "b"}]})
        tokens = [
            side.token(**ref(kind, name)) for kind, name in (("Pod", "bound"), ("Secret", "bound"), ("Node", "same-tokens"))
        ]
        used = side.review(side.token(**ref("Pod", "bound")))
        for path in (f"{PODS}/bound", f"{SECRETS}/bound", f"{NODES}/same-tokens"):
            side.remove(path)
        side.make(SECRETS, "bound")
        return said([used, *map(side.refusal, tokens)])

    upstream, ours = map(session, sides)
    assert ours == upstream
    assert [answer["error"] for answer in ours[1:]] == [
        "[invalid bearer token, service account token has been invalidated]",
        "[invalid bearer token, secret UID (<uid>) does not match service account secret ref claim (<uid>)]",
        "[invalid bearer token, service account token has been invalidated]",
    ]


def test_an_account_is_gone(sides: tuple[Side, Side]) -> None:
    def session(side: Side) -> Any:
        tokens = [side.token("gone") for _ in range(2)]
        side.remove(f"{ACCOUNTS}/gone")
        first = side.refusal(tokens[0]), side.get(WHOAMI, tokens[0]).status
        side.make(ACCOUNTS, "gone")
        return said([*first, side.review(tokens[1])])

    upstream, ours = map(session, sides)
    assert ours == upstream
    assert ours[0]["error"] == '[invalid bearer token, serviceaccounts "gone" not found]'
    assert ours[1] == 401


# --- use ---


def test_each_verifies_what_the_other_has_signed(sides: tuple[Side, Side]) -> None:
    """The account has another UID there, which is looked at only after the signature."""
    upstream, ours = sides
    for here, there in ((upstream, ours), (ours, upstream)):
        why = "[invalid bearer token, service account UID (<uid>) does not match claim (<uid>)]"
        assert said(there.review(here.token())["error"]) == why
        assert "cryptographic" in there.review(forged(here.token()))["error"]


def test_a_token_is_a_user(sides: tuple[Side, Side]) -> None:
    def session(side: Side) -> Any:
        headers = {"authorization": f"Bearer {side.token(**ref('Pod', 'p'))}", "content-type": "application/json"}
        answer = side.stranger.request("POST", WHOAMI, headers, b"{}")
        assert answer.status == 201, answer.body
        return said(json.loads(answer.body)["status"])

    upstream, ours = map(session, sides)
    assert ours == upstream
    assert ours["userInfo"]["username"] == f"system:serviceaccount:{NAMESPACE}:bob"


def test_discovery_of_the_issuer(sides: tuple[Side, Side]) -> None:
    def session(side: Side) -> Any:
        token = side.token()
        answers = []
        for path in ("/.well-known/openid-configuration", "/openid/v1/jwks", "/openid/v1/jwks/"):
            answer = side.get(path, token)
            document = json.loads(answer.body)
            document.pop("jwks_uri", None)  # has the server's address
            answers.append((answer.status, answer.header("content-type"), answer.header("cache-control"), document))
        return [*answers, side.get("/openid/v1/jwks").status, side.get("/openid/v1/jwks", "word").status]

    upstream, ours = map(session, sides)
    assert ours == upstream
    assert ours[-2:] == [403, 401]


# --- kubectl ---


def test_kubectl_create_token(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    """With the server's own key, which is made then, and holds for the next start."""
    with running(server := Standalone(tmp_path / "data")):
        own_control_plane.kubectl("create", "serviceaccount", "bob", user=server.kubeconfig)
        assert not (server.folder / "service-account.key").exists()
        token = own_control_plane.kubectl("create", "token", "bob", user=server.kubeconfig).stdout.strip()
        assert (server.folder / "service-account.key").stat().st_mode & 0o777 == 0o600
    with running(server := Standalone(tmp_path / "data")), Client(server.kubeconfig, certificate=False) as stranger:
        assert stranger.request("GET", "/api", {"authorization": f"Bearer {token}"}).status == 200
    assert "eyJ" not in server.output
