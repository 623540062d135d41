"""What `aggserver dev` puts together of its options to decide who may do what."""

from __future__ import annotations

import logging
from typing import NoReturn

import pytest

from aggserver.app.access import Access, takes_anonymous
from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.options import Options, parse

JANE = UserInfo("jane", groups=("system:authenticated",))


def options(*arguments: str) -> Options:
    return parse(["dev", *arguments], {})


def no_stores(group: str, resource: str) -> NoReturn:
    raise AssertionError


def test_anonymous(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="aggserver"):
        assert takes_anonymous(options())
        assert not takes_anonymous(options("--anonymous-auth=false", "--authorization-mode=AlwaysAllow"))
        assert not caplog.records
        assert not takes_anonymous(options("--authorization-mode=RBAC,AlwaysAllow"))
        assert len(caplog.records) == 1


async def test_without_the_kinds_the_bootstrap_roles_decide() -> None:
    access = Access(options("--kinds=none"), no_stores)
    assert (access.plugins, access.filters, access.tasks) == ((), {}, ())
    decision = await access.authorizer.authorize(Attributes(JANE, "get", path="/version"))
    assert decision.reason.startswith("RBAC: allowed by ClusterRoleBinding")
    assert not (await access.authorizer.authorize(Attributes(JANE, "get", resource="pods"))).allowed


async def test_open_paths_are_for_requests() -> None:
    access = Access(options("--kinds=none"), no_stores)
    nobody = Attributes(UserInfo("nobody"), "get", path="/healthz")
    assert (await access.authorizer.authorize(nobody)).allowed
    assert not (await access.reviewer.authorize(nobody)).allowed


async def test_modes() -> None:
    access = Access(options("--kinds=none", "--authorization-mode=AlwaysAllow"), no_stores)
    for authorizer in (access.authorizer, access.reviewer):
        assert await authorizer.authorize(Attributes(JANE, "delete", resource="pods")) == (True, "")
