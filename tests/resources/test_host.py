"""The hosting cluster, as functions ask it: who asks, what comes back, and errors in the cluster's own words."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from aggserver import Bookmark, Event, Request, StatusError, Unavailable
from aggserver.authentication.user import UserInfo
from aggserver.cluster import ClusterError, Unreachable
from aggserver.informers.informer import CONTROLLER
from aggserver.resources.host import HostCluster, Hosting
from tests.fakes.cluster import FakeCluster

SHOPS = ("shops.example.com/v1", "shops")
PATH = "/apis/shops.example.com/v1/shops"
ANN = UserInfo("ann", uid="7", groups=("dev",), extra={"Example.com/Scopes": ("a", "b")})


def host(cluster: FakeCluster, user: UserInfo = ANN) -> HostCluster:
    return HostCluster(Hosting(cluster, lambda group: group == "own.example.com", lambda: 0.5), Request(user, None))


def shop(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


USERS: dict[str, tuple[UserInfo, list[tuple[str, str]]]] = {
    "a user": (
        ANN,
        [
            ("Impersonate-User", "ann"),
            ("Impersonate-Group", "dev"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Extra-example.com%2Fscopes", "a"),
            ("Impersonate-Extra-example.com%2Fscopes", "b"),
        ],
    ),
    # Its groups are known there, and a constrained impersonation allows no more than the name.
    "a service account": (
        UserInfo("system:serviceaccount:a:b", uid="7", groups=("system:serviceaccounts",), extra={"x": ("y",)}),
        [("Impersonate-User", "system:serviceaccount:a:b")],
    ),
    "the server itself": (CONTROLLER, []),
}


@pytest.mark.parametrize("name", USERS)
async def test_who_asks(name: str) -> None:
    user, headers = USERS[name]
    cluster = FakeCluster()
    await host(cluster, user).list(*SHOPS)
    async with contextlib.aclosing(host(cluster, user).watch(*SHOPS, revision="100")) as events:
        await anext(events)
    assert cluster.sent_headers == [tuple(headers), tuple(headers)]


async def test_nobody_is_not_the_server_itself() -> None:
    with pytest.raises(ValueError, match="without a user"):
        await host(FakeCluster(), UserInfo("")).list(*SHOPS)


async def test_a_list_and_a_watch_from_there() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, shop("a", team="red"))
    page = await host(cluster).list(*SHOPS)
    assert ([item["metadata"]["name"] for item in page.items], page.revision) == (["a"], "101")
    async with contextlib.aclosing(host(cluster).watch(*SHOPS, revision=page.revision, labels="team=red")) as events:
        assert await anext(events) == Bookmark("101")
        await cluster.put(PATH, shop("b", team="blue"))
        await cluster.put(PATH, shop("c", team="red"))
        await cluster.remove(PATH, "a")
        told = [await anext(events) for _ in range(2)]
    names = [(each.type, each.object["metadata"]["name"]) for each in told if isinstance(each, Event)]
    assert names == [("ADDED", "c"), ("DELETED", "a")]


async def test_a_watch_ends_with_that_of_the_cluster() -> None:
    cluster = FakeCluster()
    events = host(cluster).watch(*SHOPS, revision="100")
    assert await anext(events) == Bookmark("100")
    waiting = asyncio.ensure_future(anext(events, None))
    await asyncio.sleep(0)
    await cluster.end_watches()
    assert await waiting is None


async def test_a_revision_that_is_too_old() -> None:
    cluster = FakeCluster()
    cluster.compact()
    events = host(cluster).watch(*SHOPS, revision="100")
    assert await anext(events) == Bookmark("100")
    with pytest.raises(StatusError) as raised:
        await anext(events)
    assert (raised.value.code, raised.value.reason) == (410, "Expired")


async def test_what_the_user_may_not_do() -> None:
    cluster = FakeCluster()
    for method in ("GET", "WATCH"):
        cluster.fail(method, PATH, ClusterError(403, "Forbidden", "shops is forbidden"))
    with pytest.raises(StatusError, match="shops is forbidden"):
        await host(cluster).list(*SHOPS)
    with pytest.raises(StatusError, match="shops is forbidden"):
        await anext(host(cluster).watch(*SHOPS, revision="100"))


async def test_a_cluster_that_does_not_answer() -> None:
    cluster = FakeCluster()
    for method in ("GET", "WATCH"):
        cluster.fail(method, PATH, Unreachable("https://fake: refused", why="refused"))
    with pytest.raises(Unavailable, match="does not answer: refused"):
        await host(cluster).list(*SHOPS)
    with pytest.raises(Unavailable, match="does not answer: refused"):
        await anext(host(cluster).watch(*SHOPS, revision="100"))


async def test_the_server_does_not_ask_itself() -> None:
    with pytest.raises(ValueError, match=r"own\.example\.com is served by this server itself"):
        await host(FakeCluster()).list("own.example.com/v1", "shops")
    with pytest.raises(ValueError, match=r"own\.example\.com is served by this server itself"):
        await anext(host(FakeCluster()).watch("own.example.com/v1", "shops", revision="1"))
