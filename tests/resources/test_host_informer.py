"""Views of the hosting cluster by an informer with the server's own rights, and the rights that an App declares."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from aggserver import App, Changed, Gone, ListRequest, Metadata, Relist
from aggserver.cluster import ClusterError, Unreachable
from aggserver.resources.errors import DeclarationError
from aggserver.resources.host import Hosting
from aggserver.resources.host_informer import HostInformer
from aggserver.resources.serving import ServedApp
from tests.fakes.clock import settled
from tests.fakes.cluster import FakeCluster
from tests.resources.served import ALL, GROUP, PATH, Apps, Ticket

SHOPS = "/apis/shops.example.com/v1/shops"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def shop(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "labels": {"team": "red"}}, "spec": {"title": name, **more}}


def view(app: App[None], **more: Any) -> HostInformer:
    """Shops as tickets."""
    shops = app.informer("shops.example.com/v1", "shops", **more)
    tickets = app.virtual(f"{GROUP}/v1", Ticket)

    def ticket(obj: dict[str, Any]) -> Ticket:
        metadata = obj["metadata"]
        return Ticket(Metadata(metadata["name"], metadata["namespace"]), obj["spec"]["title"])

    @tickets.list
    async def list_tickets(request: ListRequest[None]) -> Iterable[Ticket]:
        return map(ticket, shops.objects())

    @tickets.feed
    async def changes(state: None) -> AsyncIterator[Changed[Ticket] | Gone | Relist]:
        async for change in shops.changes():
            yield change.map(ticket)

    return shops


def hosting(cluster: FakeCluster, *serves: str, rights: bool = True) -> Hosting:
    cluster.on("POST", REVIEWS, lambda body: {"status": {"allowed": rights}})
    return Hosting(cluster, serves.__contains__, lambda: 0.5)


async def titles(apps: Apps, target: str = PATH) -> dict[str, str]:
    answer = await apps.client.get(target)
    assert answer.status == 200, answer.body
    return {item["metadata"]["name"]: item["title"] for item in answer.json()["items"]}


def said(event: Any) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


async def recovered(apps: Apps, served: ServedApp) -> None:
    await settled()
    while apps.pauses.seconds:
        await apps.pauses.end()
    assert served.trouble() is None


async def test_a_view_follows_the_cluster(apps: Apps) -> None:
    cluster = FakeCluster()
    await cluster.put(SHOPS, shop("a"))
    app: App[None] = App()
    shops = view(app)
    served = await apps.serve(app, hosting=hosting(cluster))
    assert await titles(apps) == {"a": "a"}
    async with apps.client.watch(f"{ALL}?watch=1") as watch:
        assert said(await watch.event()) == ("ADDED", "a")
        await cluster.put(SHOPS, shop("b", "other"))
        assert said(await watch.event()) == ("ADDED", "b")
        await cluster.put(SHOPS, shop("a", title="new"))
        assert said(await watch.event()) == ("MODIFIED", "a")
        await cluster.remove(SHOPS, "b")
        assert said(await watch.event()) == ("DELETED", "b")
    assert [(method, path) for method, path in cluster.calls if method == "GET"] == [("GET", SHOPS)]
    assert set(cluster.sent_headers) == {()}  # with the server's own rights
    assert served.trouble() is None
    assert [each["metadata"]["name"] for each in shops.objects("default")] == ["a"]
    assert shops.objects("other") == []
    assert (shops.get("a", "default") or {})["apiVersion"] == "shops.example.com/v1"
    assert shops.get("b", "other") is None


async def test_what_is_kept_of_an_object(apps: Apps) -> None:
    cluster = FakeCluster()
    await cluster.put(SHOPS, shop("a", secret="4711"))
    app: App[None] = App()

    def keep(obj: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": obj["metadata"], "spec": {"title": obj["spec"]["title"]}}

    shops = view(app, keep=keep, labels="team=red", namespace="")
    await apps.serve(app, hosting=hosting(cluster))
    assert await titles(apps) == {"a": "a"}
    await cluster.put(SHOPS, {**shop("b"), "metadata": {"name": "b", "namespace": "default", "labels": {"team": "blue"}}})
    await cluster.put(SHOPS, shop("c"))
    async with apps.client.watch(f"{ALL}?watch=1") as watch:
        assert [said(event) for event in await watch.events(2)] == [("ADDED", "a"), ("ADDED", "c")]
    assert "4711" not in str(shops.objects())


async def test_a_cluster_that_does_not_answer_deletes_nothing(apps: Apps) -> None:
    cluster = FakeCluster()
    await cluster.put(SHOPS, shop("a"))
    app: App[None] = App()
    view(app)
    served = await apps.serve(app, hosting=hosting(cluster))
    async with apps.client.watch(f"{ALL}?watch=1") as watch:
        assert said(await watch.event()) == ("ADDED", "a")
        down = Unreachable("https://fake: refused", why="refused")
        cluster.fail("WATCH", SHOPS, down, times=2)
        await cluster.end_watches()
        await settled()
        await apps.pauses.end()  # a watch that has ended at once is not begun again at once
        assert "has failed" in (served.trouble() or "")
        assert await titles(apps) == {"a": "a"}  # the last state, with a warning
        assert "this is the state from before that" in (await apps.client.get(PATH)).warnings[0]
        await cluster.put(SHOPS, shop("b"))
        await recovered(apps, served)
        assert said(await watch.event()) == ("ADDED", "b")
        assert watch.pending == 0


async def test_what_changes_while_the_watch_expires(apps: Apps) -> None:
    cluster = FakeCluster()
    await cluster.put(SHOPS, shop("a"))
    await cluster.put(SHOPS, shop("b"))
    app: App[None] = App()
    view(app)
    served = await apps.serve(app, hosting=hosting(cluster))
    async with apps.client.watch(f"{ALL}?watch=1") as watch:
        await watch.events(2)
        cluster.fail("WATCH", SHOPS, Unreachable("https://fake: refused", why="refused"))
        await cluster.end_watches()
        await cluster.remove(SHOPS, "a")
        await cluster.put(SHOPS, shop("c"))
        cluster.compact()
        await recovered(apps, served)
        assert sorted([said(event) for event in await watch.events(2)]) == [("ADDED", "c"), ("DELETED", "a")]


async def test_what_the_server_may_not_read(apps: Apps) -> None:
    cluster = FakeCluster()
    cluster.fail("GET", SHOPS, ClusterError(403, "Forbidden", "shops is forbidden"), times=100)
    app: App[None] = App()
    view(app)
    served = await apps.serve(app, hosting=hosting(cluster))
    await apps.pauses.end()
    assert "the source of tickets.helpdesk.example.com has" in (served.trouble() or "")
    assert (await apps.client.get(PATH)).status == 503


async def test_the_server_does_not_watch_itself(apps: Apps, caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    app: App[None] = App()
    shops = view(app)
    await apps.serve(app, hosting=hosting(cluster, "shops.example.com"))
    assert "shops.example.com is served by this server itself" in caplog.text
    with pytest.raises(Exception, match="served by this server itself"):
        shops.objects()
    assert SHOPS not in [path for _, path in cluster.calls]


async def test_without_a_hosting_cluster(apps: Apps) -> None:
    app: App[None] = App()
    shops = view(app)
    await apps.serve(app)
    assert (await apps.client.get(PATH)).status == 503
    with pytest.raises(Exception, match="there is no hosting cluster"):
        await anext(shops.changes())


# --- rights


class Rights:
    """Answers access reviews. allowed: (verb, resource.group/subresource, namespace, name)."""

    def __init__(self, *allowed: tuple[str, str, str, str]) -> None:
        self.allowed = set(allowed)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        spec = body["spec"]["resourceAttributes"]
        resource = spec["resource"] + (f".{spec['group']}" if "group" in spec else "")
        resource += f"/{spec['subresource']}" if "subresource" in spec else ""
        asked = spec["verb"], resource, spec.get("namespace", ""), spec.get("name", "")
        return {"status": {"allowed": asked in self.allowed}}


def needing() -> App[None]:
    app: App[None] = App()
    app.needs("deployments.apps/scale", "get", "update")
    app.needs("secrets", "get", namespace="shop", names=["token"])
    app.needs("shops.example.com", "list", as_user=True)
    return app


NAMED = {("get", "deployments.apps/scale", "", ""), ("get", "secrets", "shop", "token")}
MISSING: dict[str, tuple[set[tuple[str, str, str, str]], list[str]]] = {
    "nothing is there": (
        set(),
        [
            "impersonate:user-info users.authentication.k8s.io",
            "get, update deployments.apps/scale",
            "get secrets token in shop",
            "impersonate-on:user-info:list shops.example.com",
        ],
    ),
    "one verb is missing": (
        {
            *NAMED,
            ("impersonate:user-info", "users.authentication.k8s.io", "", ""),
            ("impersonate-on:user-info:list", "shops.example.com", "", ""),
        },
        ["update deployments.apps/scale"],
    ),
    "unconstrained impersonation": ({*NAMED, ("impersonate", "users", "", "")}, ["update deployments.apps/scale"]),
}


@pytest.mark.parametrize("name", MISSING)
async def test_missing_rights_are_told(apps: Apps, name: str, caplog: pytest.LogCaptureFixture) -> None:
    allowed, missing = MISSING[name]
    cluster, rights = FakeCluster(), Rights(*allowed)
    cluster.on("POST", REVIEWS, rights.answer)
    served = await apps.serve(needing(), hosting=Hosting(cluster, lambda group: False))
    trouble = served.trouble() or ""
    prefix = "the server's account may not do what the App needs: "
    assert trouble.startswith(prefix)
    told = [text.rpartition(" (test_host_informer.py:")[0] for text in trouble.removeprefix(prefix).split("; ")]
    assert told == missing
    assert caplog.text.count(trouble) == 1
    await apps.pauses.end()
    assert caplog.text.count(trouble) == 1  # not again while it is the same
    cluster.on("POST", REVIEWS, lambda body: {"status": {"allowed": True}})
    await apps.pauses.end()
    assert served.trouble() is None


async def test_a_cluster_that_can_not_be_asked_is_asked_again(apps: Apps) -> None:
    cluster = FakeCluster()
    cluster.fail("POST", REVIEWS, Unreachable("https://fake: refused", why="refused"))
    served = await apps.serve(needing(), hosting=hosting(cluster, rights=False))
    assert served.trouble() is None
    await apps.pauses.end()
    assert "may not do" in (served.trouble() or "")


def test_an_informer_declares_its_rights() -> None:
    app: App[None] = App()
    app.informer("v1", "pods", "web")
    (need,) = app.needed
    assert (str(need), need.verbs, need.namespace, need.as_user) == ("pods", ("list", "watch"), "web", False)


@pytest.mark.parametrize("given", [("",), ("pods",), ("pods", ""), (".apps", "get")])
def test_what_is_no_need(given: tuple[str, ...]) -> None:
    app: App[None] = App()
    with pytest.raises(DeclarationError, match=r"test_host_informer\.py:\d+: needs takes a resource and verbs"):
        app.needs(*given)


def test_what_is_no_version() -> None:
    app: App[None] = App()
    with pytest.raises(DeclarationError, match=r"test_host_informer\.py:\d+: "):
        app.informer("a/b/c", "pods")
