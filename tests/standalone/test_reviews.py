"""Who am I, and may I; and may somebody else."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.chain import Attributes
from aggserver.authentication.user import PRIVILEGED_GROUP, UserInfo
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from tests.fakes.asgi import Client
from tests.fakes.server import ALICE, LocalServer

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAY = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WHAT = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
MAY_THEY = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
MAY_THEY_HERE = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"


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
        'spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":""}: '
        "cannot be specified in combination with resourceAttributes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(client: Client, name: str) -> None:
    spec, code, message = REFUSED[name]
    answer = await client.post(MAY, may(**spec))
    assert (answer.status, answer.message) == (code, f'.authorization.k8s.io "" is invalid: {message}')


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
        ("localsubjectaccessreviews", ["create"]),
        ("selfsubjectaccessreviews", ["create"]),
        ("selfsubjectrulesreviews", ["create"]),
        ("subjectaccessreviews", ["create"]),
    ]
    assert [resource["namespaced"] for resource in resources] == [True, False, False, False]


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


def may_they(kind: str = "SubjectAccessReview", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": {"user": "bob", **spec}}


async def test_may_they(server: LocalServer, client: Client) -> None:
    server.rules.allowed = {("bob", "get", "crontabs")}
    about = {"groups": ["team"], "uid": "u-1", "extra": {"scopes": ["a"]}}
    answer = await client.post(MAY_THEY, may_they(**about, resourceAttributes={"verb": "get", "resource": "crontabs"}))
    assert (answer.status, answer.json()["status"]) == (201, {"allowed": True})
    assert server.rules.asked[-1].user == UserInfo("bob", "u-1", ("team",), {"scopes": ("a",)})
    answer = await client.post(MAY_THEY, may_they(resourceAttributes={"verb": "list", "resource": "crontabs"}))
    assert (answer.status, answer.json()["status"]) == (201, {"allowed": False})
    body = may_they(nonResourceAttributes={"verb": "get", "path": "/healthz"})
    assert (await client.post(MAY_THEY, body)).json()["status"] == {"allowed": True}


async def test_may_they_here(server: LocalServer, client: Client) -> None:
    server.rules.allowed = {("bob", "get", "crontabs")}
    asked = {"verb": "get", "resource": "crontabs", "namespace": "default"}
    body = may_they("LocalSubjectAccessReview", resourceAttributes=asked)
    for metadata in ({}, {"namespace": "default"}):
        answer = await client.post(MAY_THEY_HERE, {**body, "metadata": metadata})
        assert (answer.status, answer.json()["status"]) == (201, {"allowed": True})
        assert answer.json()["metadata"]["namespace"] == "default"
    answer = await client.post(MAY_THEY_HERE, {**body, "metadata": {"namespace": "other"}})
    assert answer.status == 400


REFUSED_FOR_OTHERS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    # name: (kind, object, causes)
    "nobody": (
        "SubjectAccessReview",
        {"metadata": {"name": "x"}, "spec": {}},
        [
            "spec.resourceAttributes: Invalid value: null: "
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            'spec.user: Invalid value: "": at least one of user or group must be specified',
            'metadata: Invalid value: {"name":"x"}: must be empty',
        ],
    ),
    "selectors": (
        "SubjectAccessReview",
        {
            "spec": {
                "groups": ["g"],
                "resourceAttributes": {
                    "fieldSelector": {},
                    "labelSelector": {"rawSelector": "a", "requirements": [{"key": "b", "operator": "x"}]},
                },
            }
        },
        [
            "spec.resourceAttributes.fieldSelector.requirements: Required value: "
            "when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
            'spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": '
            "may not specified at the same time as requirements",
        ],
    ),
    "another namespace": (
        "LocalSubjectAccessReview",
        {"spec": {"user": "bob", "resourceAttributes": {"namespace": "other"}}},
        ['spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace'],
    ),
    "a path in a namespace": (
        "LocalSubjectAccessReview",
        {"spec": {"user": "bob", "nonResourceAttributes": {"path": "/"}}},
        ['spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":""}: disallowed on this kind of request'],
    ),
}


@pytest.mark.parametrize("name", REFUSED_FOR_OTHERS)
async def test_refused_for_others(client: Client, name: str) -> None:
    kind, obj, causes = REFUSED_FOR_OTHERS[name]
    path = MAY_THEY_HERE if kind.startswith("Local") else MAY_THEY
    answer = await client.post(path, {"apiVersion": "authorization.k8s.io/v1", "kind": kind, **obj})
    listed = causes[0] if len(causes) == 1 else f"[{', '.join(causes)}]"
    assert (answer.status, answer.message) == (422, f'.authorization.k8s.io "" is invalid: {listed}')


TROUBLES: dict[str, tuple[dict[str, Any], str]] = {
    "readable": ({"fieldSelector": {"rawSelector": "a=b"}, "labelSelector": {"rawSelector": "!a"}}, ""),
    "raw": (
        {"fieldSelector": {"rawSelector": "!a"}, "labelSelector": {"rawSelector": "a b c"}},
        "spec.resourceAttributes.fieldSelector ignored due to parse error; "
        "spec.resourceAttributes.labelSelector ignored due to parse error",
    ),
    "one of two": (
        {
            "fieldSelector": {
                "requirements": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "In", "values": ["c"]}]
            }
        },
        "spec.resourceAttributes.fieldSelector partially ignored due to parse error",
    ),
    "an operator that nobody knows": (
        {"labelSelector": {"requirements": [{"key": "a", "operator": "Near"}]}},
        "spec.resourceAttributes.labelSelector ignored due to parse error",
    ),
}


@pytest.mark.parametrize("name", TROUBLES)
async def test_selectors_that_can_not_be_read(client: Client, name: str) -> None:
    attributes, trouble = TROUBLES[name]
    answer = await client.post(MAY_THEY, may_they(resourceAttributes={"verb": "list", **attributes}))
    assert (answer.status, answer.json()["status"].get("evaluationError", "")) == (201, trouble)


# --- admission ---


class Judge:
    """Notes what it is asked about, changes the user of a SubjectAccessReview, and refuses what is named `bad`."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bool, bool]] = []

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        assert obj is not None
        self._note("mutate", attributes, obj)
        if attributes.kind == "SubjectAccessReview":
            obj["spec"] = {**obj["spec"], "user": "carol"}
        return True

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        assert obj is not None
        self._note("validate", attributes, obj)
        if attributes.user.name == "bad":
            raise errors.forbidden("", "", "", "denied")

    def _note(self, step: str, attributes: Attributes, obj: JSONObject) -> None:
        # A client can't give a uid.
        self.seen.append((step, attributes.kind, attributes.dry_run, "uid" in obj["metadata"]))


ABOUT = {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}
ADMITTED: dict[str, tuple[str, dict[str, Any]]] = {
    "SelfSubjectReview": (WHO, {"metadata": {"uid": "77"}}),
    "SelfSubjectAccessReview": (MAY, {"spec": ABOUT, "metadata": {"uid": "77"}}),
    "SelfSubjectRulesReview": (WHAT, {"spec": {"namespace": "default"}}),
    "SubjectAccessReview": (MAY_THEY, {"spec": {**ABOUT, "user": "bob"}}),
    "LocalSubjectAccessReview": (MAY_THEY_HERE, {"spec": {**ABOUT, "user": "bob"}}),
}


@pytest.mark.parametrize("kind", ADMITTED)
async def test_admission_is_asked(kind: str) -> None:
    path, obj = ADMITTED[kind]
    group = path.split("/")[2]
    judge = Judge()
    server = LocalServer(mutating_plugins=[judge], validating_plugins=[judge])
    await server.start()
    try:
        body = {"apiVersion": f"{group}/v1", "kind": kind, **obj}
        answer = await server.client().post(f"{path}?dryRun=All", body)
        assert answer.status == 201, answer.message
        assert judge.seen == [("mutate", kind, True, False), ("validate", kind, True, False)]
        if kind == "SubjectAccessReview":
            assert answer.json()["spec"]["user"] == "carol"
            assert server.rules.asked[-1].user.name == "carol"
        refused = await server.client(UserInfo("bad", groups=(PRIVILEGED_GROUP,))).post(path, body)
        assert (refused.status, "denied" in refused.message) == (403, True)
    finally:
        await server.stop()


async def test_nobody_learns_which_namespaces_there_are(client: Client) -> None:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "spec": {**ABOUT, "user": "bob"}}
    body["spec"]["resourceAttributes"] = {**ABOUT["resourceAttributes"], "namespace": "nowhere"}
    answer = await client.post(MAY_THEY_HERE.replace("/default/", "/nowhere/"), body)
    assert answer.status == 201, answer.message
