"""Which FlowSchema a request gets, and what tells its flows apart."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.authentication.user import ANONYMOUS, UserInfo
from aggserver.endpoints import request_info
from aggserver.endpoints.flow_control.matching import in_order, schema
from aggserver.kinds.flow_control import flow_schemas

AUTHENTICATED = "system:authenticated"
ADMIN = UserInfo("admin", groups=("system:masters", AUTHENTICATED))
ALICE = UserInfo("alice", groups=(AUTHENTICATED,))
NODE = UserInfo("system:node:one", groups=("system:nodes", AUTHENTICATED))
MANAGER = UserInfo("system:kube-controller-manager", groups=(AUTHENTICATED,))
ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED)
CONTROLLER = UserInfo("system:serviceaccount:kube-system:job-controller", groups=ACCOUNTS)
OPERATOR = UserInfo("system:serviceaccount:shop:operator", groups=("system:serviceaccounts", AUTHENTICATED))
NOBODY = UserInfo("nobody")
PODS, LEASES = "/api/v1/namespaces/default/pods", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.mark.parametrize(
    ("user", "method", "path", "wanted"),
    [
        (ADMIN, "GET", PODS, "exempt"),
        (ALICE, "GET", PODS, "global-default"),
        (ANONYMOUS, "GET", PODS, "global-default"),
        (ANONYMOUS, "GET", "/healthz", "probes"),
        (ANONYMOUS, "GET", "/livez/ping", "probes"),
        (ANONYMOUS, "POST", "/healthz", "global-default"),
        (ANONYMOUS, "GET", "/healthzz", "global-default"),
        (MANAGER, "PUT", f"{LEASES}/kube-controller-manager", "system-leader-election"),
        (MANAGER, "GET", LEASES, "kube-controller-manager"),
        (MANAGER, "GET", PODS, "kube-controller-manager"),
        (NODE, "GET", "/api/v1/nodes/one", "system-node-high"),
        (NODE, "PATCH", "/api/v1/nodes/one/status", "system-node-high"),
        (NODE, "GET", f"{LEASES}/one", "system-node-high"),
        (NODE, "GET", PODS, "system-nodes"),
        (CONTROLLER, "GET", PODS, "kube-system-service-accounts"),
        (CONTROLLER, "PUT", f"{LEASES}/one", "system-leader-election"),
        (OPERATOR, "GET", PODS, "service-accounts"),
        (OPERATOR, "GET", "/version", "service-accounts"),
        (NOBODY, "GET", PODS, None),
    ],
)
def test_those_of_every_cluster(user: UserInfo, method: str, path: str, wanted: str | None) -> None:
    info = request_info.parse(method, path, {})
    schemas = in_order(map(schema, flow_schemas()))
    assert next((each.name for each in schemas if each.matches(user, info)), None) == wanted


def made(rule: dict[str, Any], **spec: Any) -> dict[str, Any]:
    of = {"priorityLevelConfiguration": {"name": "level"}, "matchingPrecedence": 1000, "rules": [rule], **spec}
    return {"metadata": {"name": "one", "uid": "1"}, "spec": of}


def subject(kind: str, **names: str) -> dict[str, Any]:
    return {"kind": kind, kind[0].lower() + kind[1:]: names}


ALL = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
OPERATORS = subject("ServiceAccount", name="operator", namespace="shop")


@pytest.mark.parametrize(
    ("subjects", "user", "wanted"),
    [
        ([subject("User", name="alice")], ALICE, True),
        ([subject("User", name="bob"), subject("Group", name=AUTHENTICATED)], ALICE, True),
        ([subject("User", name="bob")], ALICE, False),
        ([subject("User", name="*")], NOBODY, True),
        ([subject("Group", name="*")], NOBODY, True),
        ([subject("Group", name="alice")], ALICE, False),
        ([OPERATORS], OPERATOR, True),
        ([OPERATORS], CONTROLLER, False),
        ([subject("ServiceAccount", name="*", namespace="shop")], OPERATOR, True),
        ([subject("ServiceAccount", name="*", namespace="sho")], OPERATOR, False),
        ([], ALICE, False),
    ],
)
def test_subjects(subjects: list[dict[str, Any]], user: UserInfo, wanted: bool) -> None:
    info = request_info.parse("GET", PODS, {})
    assert schema(made({"subjects": subjects, "resourceRules": [ALL]})).matches(user, info) is wanted
    # The rules of paths do not match a resource.
    paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
    assert not schema(made({"subjects": subjects, "nonResourceRules": [paths]})).matches(user, info)


@pytest.mark.parametrize(
    ("rule", "path", "wanted"),
    [
        ({}, "/api/v1/nodes", True),
        ({"clusterScope": False}, "/api/v1/nodes", False),
        ({"clusterScope": False}, PODS, True),
        ({"namespaces": []}, PODS, False),
        ({"namespaces": ["default"]}, PODS, True),
        ({"namespaces": ["other"]}, PODS, False),
        ({"apiGroups": [""]}, PODS, True),
        ({"apiGroups": ["apps"]}, PODS, False),
        ({"resources": ["pods"]}, PODS, True),
        ({"resources": ["pods"]}, f"{PODS}/one/log", False),
        ({"resources": ["pods/log"]}, f"{PODS}/one/log", True),
        ({"verbs": ["list"]}, PODS, True),
        ({"verbs": ["get"]}, PODS, False),
    ],
)
def test_resources(rule: dict[str, Any], path: str, wanted: bool) -> None:
    of = made({"subjects": [subject("User", name="*")], "resourceRules": [{**ALL, **rule}]})
    assert schema(of).matches(ALICE, request_info.parse("GET", path, {})) is wanted


@pytest.mark.parametrize(
    ("url", "path", "wanted"),
    [
        ("*", "/x", True),
        ("/x", "/x", True),
        ("/x", "/x/y", True),
        ("/x/*", "/x/y/z", True),
        ("/x/*", "/x", False),
        ("/x", "/xy", False),
    ],
)
def test_paths(url: str, path: str, wanted: bool) -> None:
    of = made({"subjects": [subject("User", name="*")], "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": [url]}]})
    assert schema(of).matches(ALICE, request_info.parse("GET", path, {})) is wanted


@pytest.mark.parametrize(("method", "wanted"), [("ByUser", "alice"), ("ByNamespace", "default"), ("", "")])
def test_what_tells_flows_apart(method: str, wanted: str) -> None:
    of = schema(made({"subjects": []}, **({"distinguisherMethod": {"type": method}} if method else {})))
    assert of.distinguisher(ALICE, request_info.parse("GET", PODS, {})) == wanted
