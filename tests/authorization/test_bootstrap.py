"""The bootstrap rules: what each group is allowed without a cluster."""

from __future__ import annotations

import pytest

from aggserver.authentication.user import ANONYMOUS, UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.bootstrap import policy
from aggserver.authorization.standalone import StandaloneAuthorizer

JANE = UserInfo("jane", groups=("developers",)).authenticated()
ROOT = UserInfo("root", groups=("system:masters",))

PATHS = {
    # path: (a user may get it, nobody may)
    "/api": (True, False),
    "/api/v1": (True, False),
    "/apis": (True, False),
    "/apis/stable.example.com/v1": (True, False),
    "/apiserver": (False, False),
    "/openapi/v2": (True, False),
    "/openapi/v3/apis/stable.example.com/v1": (True, False),
    "/version": (True, True),
    "/version/": (True, True),
    "/versions": (False, False),
    "/healthz": (True, True),
    "/readyz/authentication": (False, False),
    "/metrics": (False, False),
    "/": (False, False),
}


@pytest.mark.parametrize("path", PATHS)
async def test_paths(path: str) -> None:
    authorizer = StandaloneAuthorizer(open_paths=[])
    allowed = [(await authorizer.authorize(Attributes(user, "get", path=path))).allowed for user in (JANE, ANONYMOUS)]
    assert tuple(allowed) == PATHS[path]
    for verb in ("post", "head", "delete", "*"):
        assert not (await authorizer.authorize(Attributes(JANE, verb, path=path))).allowed
    assert (await authorizer.authorize(Attributes(ROOT, "post", path=path))).allowed


RESOURCES = {
    # (verb, group, resource, subresource): whether a user may
    ("create", "authorization.k8s.io", "selfsubjectaccessreviews", ""): True,
    ("create", "authorization.k8s.io", "selfsubjectrulesreviews", ""): True,
    ("create", "authentication.k8s.io", "selfsubjectreviews", ""): True,
    ("create", "authentication.k8s.io", "selfsubjectreviews", "status"): False,
    ("create", "authentication.k8s.io", "selfsubjectaccessreviews", ""): False,
    ("get", "authorization.k8s.io", "selfsubjectaccessreviews", ""): False,
    ("create", "authorization.k8s.io", "subjectaccessreviews", ""): False,
    ("get", "", "namespaces", ""): False,
    ("list", "apiextensions.k8s.io", "customresourcedefinitions", ""): False,
    ("list", "stable.example.com", "crontabs", ""): False,
    ("impersonate", "", "users", ""): False,
}


@pytest.mark.parametrize("asked", RESOURCES)
async def test_resources(asked: tuple[str, str, str, str]) -> None:
    verb, group, resource, subresource = asked
    # Rules for paths apply to requests that are not for a resource.
    attributes = Attributes(JANE, verb, group, "v1", resource, subresource, path="/apis/x/v1/y")
    authorizer = StandaloneAuthorizer()
    assert (await authorizer.authorize(attributes)).allowed is RESOURCES[asked]
    assert not (await authorizer.authorize(attributes._replace(user=ANONYMOUS))).allowed
    assert (await authorizer.authorize(attributes._replace(user=ROOT))).allowed


def test_who_is_in_no_group_has_no_rules() -> None:
    assert policy().found(UserInfo("jane"), "default").rules == []
