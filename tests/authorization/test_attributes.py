from __future__ import annotations

from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes, forbidden, forbidden_message, review_body

ALICE = UserInfo("alice", "42", ("dev", "system:authenticated"), {"scopes": ("a", "b")})
JANE = UserInfo("jane")


@pytest.mark.parametrize(
    ("attributes", "spec"),
    [
        pytest.param(
            Attributes(ALICE, "get", "stable.example.com", "v1", "crontabs", "status", "default", "my-cron", "/apis/..."),
            {
                "user": "alice",
                "uid": "42",
                "groups": ["dev", "system:authenticated"],
                "extra": {"scopes": ["a", "b"]},
                "resourceAttributes": {
                    "namespace": "default",
                    "verb": "get",
                    "group": "stable.example.com",
                    "version": "v1",
                    "resource": "crontabs",
                    "subresource": "status",
                    "name": "my-cron",
                },
            },
            id="everything",
        ),
        pytest.param(
            Attributes(JANE, "list", version="v1", resource="namespaces"),
            {"user": "jane", "resourceAttributes": {"verb": "list", "version": "v1", "resource": "namespaces"}},
            id="what is empty is left out",
        ),
        pytest.param(
            Attributes(JANE, "get", version="v1", name="nodes", path="/api/v1//nodes"),
            {"user": "jane", "resourceAttributes": {"verb": "get", "version": "v1", "name": "nodes"}},
            id="a resource without a name",
        ),
        pytest.param(
            Attributes(JANE, "get", path="/openapi/v2"),
            {"user": "jane", "nonResourceAttributes": {"path": "/openapi/v2", "verb": "get"}},
            id="a path",
        ),
    ],
)
def test_review_body(attributes: Attributes, spec: dict[str, Any]) -> None:
    assert review_body(attributes) == {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


@pytest.mark.parametrize(
    ("fields", "labels", "expected"),
    [
        pytest.param("", "", {}, id="none"),
        pytest.param(
            "spec.nodeName=a,status.phase!=b",
            "",
            {
                "fieldSelector": {
                    "requirements": [
                        {"key": "spec.nodeName", "operator": "In", "values": ["a"]},
                        {"key": "status.phase", "operator": "NotIn", "values": ["b"]},
                    ]
                }
            },
            id="fields",
        ),
        pytest.param(
            "",
            "a=1,b!=2,c in (3,4),d,!e",
            {
                "labelSelector": {
                    "requirements": [
                        {"key": "a", "operator": "In", "values": ["1"]},
                        {"key": "b", "operator": "NotIn", "values": ["2"]},
                        {"key": "c", "operator": "In", "values": ["3", "4"]},
                        {"key": "d", "operator": "Exists"},
                        {"key": "e", "operator": "DoesNotExist"},
                    ]
                }
            },
            id="labels",
        ),
        pytest.param("", "n>3", {}, id="what the review can't say is left out"),
        pytest.param("metadata.name", "a in b", {}, id="what can't be read is left out"),
    ],
)
def test_selectors(fields: str, labels: str, expected: dict[str, Any]) -> None:
    attributes = Attributes(JANE, "list", "g", "v1", "things", field_selector=fields, label_selector=labels)
    found = review_body(attributes)["spec"]["resourceAttributes"]
    assert {key: value for key, value in found.items() if key.endswith("Selector")} == expected


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        pytest.param(
            Attributes(JANE, "get", "g", "v1", "things", "status", "ns", "x"),
            'User "jane" cannot get resource "things/status" in API group "g" in the namespace "ns"',
            id="in a namespace",
        ),
        pytest.param(
            Attributes(JANE, "list", "", "v1", "nodes"),
            'User "jane" cannot list resource "nodes" in API group "" at the cluster scope',
            id="cluster scope, core group",
        ),
        pytest.param(Attributes(JANE, "get", path="/x"), 'User "jane" cannot get path "/x"', id="path"),
        pytest.param(
            Attributes(UserInfo('a"b'), "get", path="/\n"), 'User "a\\"b" cannot get path "/\\n"', id="quoted as Go does"
        ),
    ],
)
def test_forbidden_message(attributes: Attributes, message: str) -> None:
    assert forbidden_message(attributes) == message


@pytest.mark.parametrize(
    ("attributes", "reason", "message"),
    [
        pytest.param(
            Attributes(JANE, "get", "g.io", "v1", "things", "", "ns", "x"),
            "",
            'things.g.io "x" is forbidden: User "jane" cannot get resource "things" in API group "g.io" in the namespace "ns"',
            id="named",
        ),
        pytest.param(
            Attributes(JANE, "list", "g.io", "v1", "things"),
            "RBAC: no <role>",
            'things.g.io is forbidden: User "jane" cannot list resource "things" in API group "g.io" at the cluster scope: '
            "RBAC: no <role>",
            id="with the authorizer's reason, as it is",
        ),
        pytest.param(
            Attributes(JANE, "get", path="/<script>&"),
            "",
            'forbidden: User "jane" cannot get path "/&lt;script&gt;&amp;"',
            id="nothing that looks like HTML",
        ),
    ],
)
def test_forbidden(attributes: Attributes, reason: str, message: str) -> None:
    error = forbidden(attributes, reason)
    assert (error.code, error.reason, error.message) == (403, "Forbidden", message)
    assert (error.name, error.group, error.kind) == (attributes.name, attributes.group, attributes.resource)
