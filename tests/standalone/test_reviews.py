"""Who am I, and may I: reviews of oneself."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from tests.fakes.asgi import Client
from tests.fakes.server import ALICE, LocalServer

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAY = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WHAT = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


def may(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}


async def test_who_am_i(server: LocalServer, client: Client) -> None:
    user = UserInfo("bob", "u-1", ("team", "system:masters"), {"scopes": ("a", "b")})
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "status": {"userInfo": {"username": "x"}}}
    answer = await client.as_user(user).post(WHO, review)
    assert answer.status == 201
    assert answer.json() == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": "2026-01-02T03:04:05Z"},
        "status": {
            "userInfo": {"username": "bob", "uid": "u-1", "groups": ["team", "system:masters"], "extra": {"scopes": ["a", "b"]}}
        },
    }


async def test_may_i(server: LocalServer, client: Client) -> None:
    server.rules.allowed = {
        ("alice", "create", "selfsubjectaccessreviews"),
        ("alice", "get", "crontabs"),
        ("alice", "get", "/metrics"),
    }
    alice = client.as_user(ALICE)
    for spec, allowed in (
        ({"resourceAttributes": {"verb": "get", "group": "g", "resource": "crontabs", "namespace": "n", "name": "x"}}, True),
        ({"resourceAttributes": {"verb": "delete", "resource": "crontabs"}}, False),
        ({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}, True),
        ({"nonResourceAttributes": {"verb": "get", "path": "/other"}}, False),
    ):
        answer = await alice.post(MAY, may(**spec))
        assert (answer.status, answer.json()["status"]["allowed"]) == (201, allowed)
        assert answer.json()["spec"] == spec
    asked = server.rules.asked[1]
    assert (asked.user, asked.group, asked.namespace, asked.name) == (ALICE, "g", "n", "x")


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    # name: (spec, code, message)
    "nothing": (
        {},
        422,
        "spec.resourceAttributes: Invalid value: null: "
        "exactly one of nonResourceAttributes or resourceAttributes must be specified",
    ),
    "both": (
        {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/"}},
        422,
        'spec.nonResourceAttributes: Invalid value: {"path":"/"}: cannot be specified in combination with resourceAttributes',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(client: Client, name: str) -> None:
    spec, code, message = REFUSED[name]
    answer = await client.post(MAY, may(**spec))
    assert (answer.status, answer.message) == (code, f'SelfSubjectAccessReview.authorization.k8s.io "" is invalid: {message}')


MISFITS = {
    "spec": (5, "number into Go struct field SelfSubjectAccessReview.spec of type v1.SelfSubjectAccessReviewSpec"),
    "attributes": (
        {"resourceAttributes": []},
        "array into Go struct field SelfSubjectAccessReviewSpec.spec.resourceAttributes of type v1.ResourceAttributes",
    ),
    "an attribute": (
        {"resourceAttributes": {"verb": 1}},
        "number into Go struct field ResourceAttributes.spec.resourceAttributes.verb of type string",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
async def test_what_is_of_a_wrong_type(client: Client, name: str) -> None:
    spec, why = MISFITS[name]
    answer = await client.post(MAY, {**may(), "spec": spec})
    what = 'SelfSubjectAccessReview in version "v1" cannot be handled as a SelfSubjectAccessReview'
    assert (answer.status, answer.message) == (400, f"{what}: json: cannot unmarshal {why}")


async def test_unknown_attributes_are_warned_of(client: Client) -> None:
    answer = await client.post(MAY, may(resourceAttributes={"verb": "get", "verbs": "x"}))
    assert answer.json()["spec"] == {"resourceAttributes": {"verb": "get"}}
    assert answer.warnings == ['299 - "unknown field \\"spec.resourceAttributes.verbs\\""']


async def test_discovery(client: Client) -> None:
    resources = (await client.get("/apis/authorization.k8s.io/v1")).json()["resources"]
    assert [(resource["name"], resource["verbs"]) for resource in resources] == [
        ("selfsubjectaccessreviews", ["create"]),
        ("selfsubjectrulesreviews", ["create"]),
    ]


def what(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": spec}


async def test_what_may_i(client: Client) -> None:
    answer = await client.as_user(ALICE).post(WHAT, what(namespace="default"))
    assert (answer.status, answer.json()["spec"]) == (201, {})
    status = answer.json()["status"]
    assert {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]} in status[
        "resourceRules"
    ]
    assert all(rule["verbs"] == ["get"] for rule in status["nonResourceRules"])
    administrator = (await client.post(WHAT, what(namespace="default"))).json()["status"]
    assert administrator["resourceRules"][0] == {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert administrator["nonResourceRules"][0] == {"verbs": ["*"], "nonResourceURLs": ["*"]}


async def test_what_may_i_where(client: Client) -> None:
    answer = await client.post(WHAT, what())
    assert (answer.status, answer.message) == (400, "no namespace on request")
