"""Resources whose source has revisions of its own: lists, and a watch per request, that pass through."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from aggserver import (
    App,
    Bookmark,
    Conflict,
    Event,
    Expired,
    Forbidden,
    ListRequest,
    Metadata,
    NotFound,
    Page,
    Request,
    WatchRequest,
)
from aggserver.authentication.user import UserInfo
from tests.fakes.clock import settled, until
from tests.resources.served import ALL, GROUP, PATH, Apps, Ticket, ticket

STREAMING = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@dataclass
class Ledger:
    """A source that keeps its history. prefix: of its revisions, '' for numbers. tells_old: whether its events have `old`.

    marks: whether a watch begins with a bookmark. open: how many watches there are. requests: of all functions.
    """

    prefix: str = ""
    tells_old: bool = False
    marks: bool = True
    most: int = 500
    revision: int = 100
    oldest: int = 0
    open: int = 0
    rows: dict[tuple[str, str], Ticket] = field(default_factory=dict)
    told: list[tuple[int, Event[Ticket] | Bookmark]] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    failing: Exception | None = None
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def version(self, revision: int) -> str:
        return f"{self.prefix}{revision}"

    def put(self, name: str, namespace: str = "default", state: str = "open", **labels: str) -> None:
        before = self.rows.get((namespace, name))
        self.revision += 1
        metadata = Metadata(name, namespace, labels=labels, revision=self.version(self.revision), uid=f"uid-{name}")
        now = self.rows[namespace, name] = Ticket(metadata, name, state)
        kept = before if self.tells_old else None
        self.told.append((self.revision, Event("ADDED", now) if before is None else Event("MODIFIED", now, kept)))

    def remove(self, name: str, namespace: str = "default") -> None:
        self.revision += 1
        last = self.rows.pop((namespace, name))
        metadata = Metadata.from_json({**last.metadata.to_json(), "resourceVersion": self.version(self.revision)})
        self.told.append((self.revision, Event("DELETED", replace(last, metadata=metadata))))

    def mark(self) -> None:
        self.revision += 1
        self.told.append((self.revision, Bookmark(self.version(self.revision))))

    async def tell(self) -> None:
        """Let watches see what has happened."""
        async with self.changed:
            self.changed.notify_all()
        await settled()

    async def events(self, after: str) -> AsyncIterator[Event[Ticket] | Bookmark]:
        seen = int(after.removeprefix(self.prefix))
        if seen < self.oldest:
            raise Expired
        self.open += 1
        try:
            if self.marks:
                yield Bookmark(after)
            while True:
                for revision, each in [entry for entry in self.told if entry[0] > seen]:
                    seen = revision
                    yield each
                if self.failing is not None:
                    raise self.failing
                async with self.changed:
                    if not any(revision > seen for revision, _ in self.told):
                        await self.changed.wait()
        finally:
            self.open -= 1

    def page(self, request: ListRequest[Any]) -> Page[Ticket]:
        keys = sorted(key for key in self.rows if key > tuple((request.cursor or "/").split("/")))
        size = min(request.limit or self.most, self.most)
        more = keys[size - 1] if len(keys) > size else None
        return Page(
            [self.rows[key] for key in keys[:size]], "/".join(more) if more else None, revision=self.version(self.revision)
        )


def ledger_app(ledger: Ledger, *, filtered: bool = False) -> App[None]:
    app: App[None] = App()
    tickets = app.virtual(f"{GROUP}/v1", Ticket, selectable=[".state"], revisions="source", keeps="metadata")

    @tickets.list
    async def list_tickets(request: ListRequest[None]) -> Page[Ticket]:
        ledger.requests.append(request)
        return ledger.page(request)

    @tickets.get
    async def get_ticket(request: Request[None], name: str) -> Ticket | None:
        return ledger.rows.get((request.namespace, name))

    @tickets.update(dry_run=True)
    async def update_ticket(request: Request[None], new: Ticket, old: Ticket) -> Ticket:
        key = request.namespace, new.metadata.name
        if ledger.rows[key].metadata.revision != old.metadata.revision:
            raise Conflict
        if request.dry_run:
            return new
        ledger.put(new.metadata.name, request.namespace, new.state, **new.metadata.labels)
        return ledger.rows[key]

    @tickets.delete
    async def delete_ticket(request: Request[None], old: Ticket) -> None:
        if (request.namespace, old.metadata.name) not in ledger.rows:
            raise NotFound
        ledger.remove(old.metadata.name, request.namespace)

    @tickets.watch(filtered=filtered)
    async def watch_tickets(request: WatchRequest[None]) -> AsyncIterator[Event[Ticket] | Bookmark]:
        ledger.requests.append(request)
        async for event in ledger.events(request.revision):
            yield event

    return app


def said(event: Any) -> tuple[str, str, str]:
    metadata = event["object"]["metadata"]
    return event["type"], metadata.get("name", ""), metadata["resourceVersion"]


async def test_the_verbs_follow(apps: Apps) -> None:
    await apps.serve(ledger_app(Ledger()))
    (resource,) = (await apps.client.get(f"/apis/{GROUP}/v1")).json()["resources"]
    assert resource["verbs"] == ["delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@pytest.mark.parametrize("prefix", ["", "r-"])
async def test_a_list_and_a_watch_from_there(apps: Apps, prefix: str) -> None:
    ledger = Ledger(prefix)
    ledger.put("a")
    ledger.put("b")
    await apps.serve(ledger_app(ledger))
    listed = (await apps.client.get(PATH)).json()
    assert [item["metadata"]["resourceVersion"] for item in listed["items"]] == [f"{prefix}101", f"{prefix}102"]
    assert listed["metadata"]["resourceVersion"] == f"{prefix}102"
    ledger.put("b", state="closed")
    async with apps.client.watch(f"{PATH}?watch=1&resourceVersion={prefix}102") as watch:
        assert said(await watch.event()) == ("MODIFIED", "b", f"{prefix}103")
        ledger.remove("a")
        ledger.put("c")
        ledger.put("x", "other")
        ledger.put("d")
        await ledger.tell()
        assert [said(event) for event in await watch.events(3)] == [
            ("DELETED", "a", f"{prefix}104"),
            ("ADDED", "c", f"{prefix}105"),
            ("ADDED", "d", f"{prefix}107"),
        ]
    await settled()
    assert ledger.open == 0


async def test_watch_list(apps: Apps) -> None:
    ledger = Ledger(most=1)  # pages of one
    ledger.put("b")
    ledger.put("a", "other")
    await apps.serve(ledger_app(ledger))
    async with apps.client.watch(f"{ALL}?{STREAMING}") as watch:
        assert [said(event) for event in await watch.events(2)] == [("ADDED", "b", "101"), ("ADDED", "a", "102")]
        mark = await watch.event()
        assert said(mark) == ("BOOKMARK", "", "102")
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        ledger.remove("b")
        ledger.mark()
        await ledger.tell()
        assert [said(event) for event in await watch.events(2)] == [("DELETED", "b", "103"), ("BOOKMARK", "", "104")]


BEGINNINGS: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "no resourceVersion": ("", [("ADDED", "a", "101"), ("ADDED", "b", "102")]),
    "any resourceVersion": ("&resourceVersion=0", [("ADDED", "a", "101"), ("ADDED", "b", "102")]),
    "from now on": ("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", []),
}


@pytest.mark.parametrize("name", BEGINNINGS)
async def test_how_a_watch_begins(apps: Apps, name: str) -> None:
    query, expected = BEGINNINGS[name]
    ledger = Ledger()
    ledger.put("a")
    ledger.put("b")
    await apps.serve(ledger_app(ledger))
    async with apps.client.watch(f"{PATH}?watch=1{query}") as watch:
        ledger.put("c")
        await ledger.tell()
        assert [said(event) for event in await watch.events(len(expected) + 1)] == [*expected, ("ADDED", "c", "103")]


async def test_bookmarks_are_only_for_those_who_want_them(apps: Apps) -> None:
    ledger = Ledger()
    await apps.serve(ledger_app(ledger))
    async with apps.client.watch(f"{PATH}?watch=1&resourceVersion=100") as watch:
        ledger.mark()
        ledger.put("a")
        await ledger.tell()
        assert said(await watch.event()) == ("ADDED", "a", "102")


# --- selectors and visibility

SELECTED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "labels": ("labelSelector=team=red", {"team": "red"}, {"team": "blue"}),
    "fields": ("fieldSelector=state=open", {"state": "open"}, {"state": "closed"}),
}


@pytest.mark.parametrize("tells_old", [False, True])
@pytest.mark.parametrize("name", SELECTED)
async def test_objects_that_begin_and_cease_to_match(apps: Apps, name: str, tells_old: bool) -> None:
    query, selected, other = SELECTED[name]
    ledger = Ledger(tells_old=tells_old)
    ledger.put("a", **selected)
    ledger.put("b", **other)
    await apps.serve(ledger_app(ledger))
    async with apps.client.watch(f"{PATH}?watch=1&{query}") as watch:
        assert said(await watch.event()) == ("ADDED", "a", "101")
        ledger.put("b", **other)  # not of its concern
        ledger.put("b", **selected)
        ledger.put("b", **selected)
        ledger.put("a", **other)
        ledger.put("a", **other)
        ledger.remove("a")
        ledger.put("c", **other)
        ledger.remove("c")
        ledger.remove("b")
        await ledger.tell()
        assert [said(event) for event in await watch.events(4)] == [
            ("ADDED", "b", "104"),
            ("MODIFIED", "b", "105"),
            ("DELETED", "a", "106"),
            ("DELETED", "b", "111"),
        ]
        assert watch.pending == 0


RESUMED: dict[str, tuple[bool, list[tuple[str, str, str]]]] = {
    # What was is not known: who may have it is told to let it go, who may not have it gets it as it is.
    "without old": (False, [("DELETED", "a", "104"), ("MODIFIED", "b", "105"), ("DELETED", "c", "106")]),
    "with old": (True, [("DELETED", "a", "104"), ("ADDED", "b", "105")]),
}


@pytest.mark.parametrize("name", RESUMED)
async def test_a_selecting_watch_that_resumes(apps: Apps, name: str) -> None:
    tells_old, expected = RESUMED[name]
    ledger = Ledger(tells_old=tells_old)
    ledger.put("a", team="red")
    ledger.put("b", team="blue")
    ledger.put("c", team="blue")
    await apps.serve(ledger_app(ledger))
    async with apps.client.watch(f"{PATH}?watch=1&labelSelector=team=red&resourceVersion=103") as watch:
        ledger.put("a", team="blue")
        ledger.put("b", team="red")
        ledger.put("c", team="green")
        ledger.remove("c")
        ledger.put("d", team="red")
        await ledger.tell()
        found = await watch.events(len(expected) + 1)
        assert [said(event) for event in found] == [*expected, ("ADDED", "d", "108")]
    if tells_old:
        assert found[0]["object"]["metadata"]["labels"] == {"team": "red"}


async def test_a_source_that_selects_itself(apps: Apps) -> None:
    ledger = Ledger()
    await apps.serve(ledger_app(ledger, filtered=True))
    async with apps.client.watch(f"{PATH}?watch=1&labelSelector=team=red&resourceVersion=100") as watch:
        ledger.put("a", team="blue")
        await ledger.tell()
        assert said(await watch.event()) == ("ADDED", "a", "101")
    assert ledger.requests[-1].labels.exact("team") == "red"


@pytest.mark.parametrize("tells_old", [False, True])
async def test_what_a_user_may_not_know_of(apps: Apps, tells_old: bool) -> None:
    ledger = Ledger(tells_old=tells_old)
    ledger.put("a", owner="ann")
    ledger.put("b", owner="bob")
    app = ledger_app(ledger)
    app.resources[f"tickets.{GROUP}"].visible(  # type: ignore[union-attr]
        lambda request, each: each.metadata.labels["owner"] == request.user.name
    )
    await apps.serve(app)
    ann = apps.client.as_user(UserInfo("ann", groups=("system:masters",)))
    async with ann.watch(f"{PATH}?watch=1") as now, ann.watch(f"{PATH}?watch=1&resourceVersion=102") as resumed:
        assert said(await now.event()) == ("ADDED", "a", "101")
        ledger.put("b", owner="bob", secret="4711")
        ledger.put("a", owner="bob", secret="4711")
        ledger.put("c", owner="ann")
        await ledger.tell()
        found = await now.events(2)
        assert [said(event) for event in found] == [("DELETED", "a", "104"), ("ADDED", "c", "105")]
        others = await resumed.events(2 if tells_old else 1)
        expected = [("DELETED", "a", "104")] if tells_old else []
        assert [said(event) for event in others] == [*expected, ("ADDED", "c", "105")]
    assert "4711" not in str([found, others])


# --- what goes wrong


async def test_a_revision_that_is_too_old(apps: Apps) -> None:
    ledger = Ledger(oldest=50)
    await apps.serve(ledger_app(ledger))
    async with apps.client.watch(f"{PATH}?watch=1&resourceVersion=49") as watch:
        event = await watch.event()
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert await watch.rest() == []


async def test_a_watch_that_expires_on_the_way(apps: Apps) -> None:
    ledger = Ledger()
    await apps.serve(ledger_app(ledger))
    async with apps.client.watch(f"{PATH}?watch=1&resourceVersion=100") as watch:
        ledger.put("a")
        ledger.failing = Expired()
        await ledger.tell()
        assert said(await watch.event()) == ("ADDED", "a", "101")
        assert (await watch.event())["object"]["code"] == 410
        assert await watch.rest() == []


async def test_a_source_that_fails_on_the_way_deletes_nothing(apps: Apps) -> None:
    ledger = Ledger()
    ledger.put("a")
    await apps.serve(ledger_app(ledger))
    async with apps.client.watch(f"{PATH}?watch=1") as watch:
        assert said(await watch.event()) == ("ADDED", "a", "101")
        ledger.failing = RuntimeError("secret 4711")
        await ledger.tell()
        event = await watch.event()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
        assert "4711" not in str(event)
        assert await watch.rest() == []
    assert ledger.open == 0


async def test_what_is_refused_before_the_watch_is_on_is_an_answer(apps: Apps) -> None:
    ledger = Ledger(marks=False, failing=Forbidden("not for you"))
    await apps.serve(ledger_app(ledger))
    answer = await apps.client.get(f"{PATH}?watch=1&resourceVersion=100")
    assert (answer.status, answer.message) == (403, f"tickets.{GROUP} is forbidden: not for you")


async def test_a_watch_that_has_nothing_to_tell_begins_all_the_same(apps: Apps) -> None:
    ledger = Ledger(marks=False)
    await apps.serve(ledger_app(ledger))
    waiting = asyncio.ensure_future(_first(apps, f"{PATH}?watch=1&resourceVersion=100"))
    await until(lambda: apps.pauses.seconds == [1.0])
    assert not waiting.done()
    await apps.pauses.end()
    ledger.put("a")
    await ledger.tell()
    assert said(await waiting) == ("ADDED", "a", "101")


async def _first(apps: Apps, target: str) -> Any:
    async with apps.client.watch(target) as watch:
        return await watch.event()


@pytest.mark.parametrize("revision", ["-1", "1.5", "%C3%A9", "07"])
@pytest.mark.parametrize("watch", ["", "watch=1&"])
async def test_what_is_no_revision(apps: Apps, revision: str, watch: str) -> None:
    await apps.serve(ledger_app(Ledger()))
    answer = await apps.client.get(f"{PATH}?{watch}resourceVersion={revision}")
    assert (answer.status, "invalid resource version" in answer.message) == (400, True)


LISTS: dict[str, tuple[str, int, str]] = {
    "any": ("resourceVersion=0", 200, ""),
    "not older": ("resourceVersion=101&resourceVersionMatch=NotOlderThan", 200, ""),
    "newer than there is": ("resourceVersion=103&resourceVersionMatch=NotOlderThan", 504, "Too large resource version: 103"),
    "just that": ("resourceVersion=102&resourceVersionMatch=Exact", 200, ""),
    "the past": ("resourceVersion=101&resourceVersionMatch=Exact", 410, "is too old"),
    "a page of the past": ("resourceVersion=101&limit=1", 410, "is too old"),
}


@pytest.mark.parametrize("name", LISTS)
async def test_lists_at_a_revision(apps: Apps, name: str) -> None:
    query, status, message = LISTS[name]
    ledger = Ledger()
    ledger.put("a")
    ledger.put("b")
    await apps.serve(ledger_app(ledger))
    answer = await apps.client.get(f"{PATH}?{query}")
    assert answer.status == status
    assert message in answer.body.decode()


async def test_the_pages_of_a_list_have_one_revision(apps: Apps) -> None:
    """That of the first one: a watch from there tells what the later pages may have, and never misses anything."""
    ledger = Ledger()
    for name in "abc":
        ledger.put(name)
    await apps.serve(ledger_app(ledger))
    first = (await apps.client.get(f"{PATH}?limit=2")).json()["metadata"]
    ledger.put("c")
    second = (await apps.client.get(f"{PATH}?limit=2&continue={first['continue']}")).json()["metadata"]
    assert (first["resourceVersion"], second["resourceVersion"]) == ("103", "103")


async def test_writes_have_revisions_of_the_source(apps: Apps) -> None:
    ledger = Ledger()
    ledger.put("a")
    await apps.serve(ledger_app(ledger))
    tried = await apps.client.merge(f"{PATH}/a?dryRun=All", {"state": "closed"})
    assert (tried.status, tried.json()["state"]) == (200, "closed")
    written = (await apps.client.merge(f"{PATH}/a", {"state": "closed"})).json()
    assert written["metadata"]["resourceVersion"] == "102"
    stale = await apps.client.put(f"{PATH}/a", ticket("a", resourceVersion="101"))
    assert (stale.status, stale.json()["reason"]) == (409, "Conflict")


def _no_revision_of_the_list(request: Any) -> Page[Ticket]:
    return Page([])


def _no_revision_of_an_object(request: Any) -> Page[Ticket]:
    return Page([Ticket(Metadata("a", "default"))], revision="5")


async def test_a_list_without_a_revision(apps: Apps, caplog: pytest.LogCaptureFixture) -> None:
    app: App[None] = App()
    app.virtual(f"{GROUP}/v1", Ticket, revisions="source").list(_no_revision_of_the_list)
    await apps.serve(app)
    assert (await apps.client.get(PATH)).status == 500
    assert "must return a Page with the list's revision" in caplog.text


async def test_an_object_without_a_revision(apps: Apps, caplog: pytest.LogCaptureFixture) -> None:
    app: App[None] = App()
    app.virtual(f"{GROUP}/v1", Ticket, revisions="source").list(_no_revision_of_an_object)
    await apps.serve(app)
    answer = await apps.client.get(PATH)
    assert answer.json()["items"] == []
    assert "an object of tickets can't be shown, see the server's log" in answer.warnings[0]
    assert "its revision is not given" in caplog.text


async def test_what_is_no_event(apps: Apps, caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger()
    await apps.serve(ledger_app(ledger))
    async with apps.client.watch(f"{PATH}?watch=1&resourceVersion=100") as watch:
        ledger.told.append((ledger.revision + 1, "what"))  # type: ignore[arg-type]
        await ledger.tell()
        assert (await watch.event())["object"]["code"] == 500
    assert "must yield an Event or a Bookmark, not 'what'" in caplog.text


# --- the end of watches, and what they cost


async def test_watches_end_with_the_server(apps: Apps) -> None:
    ledger = Ledger()
    await apps.serve(ledger_app(ledger))
    async with apps.client.watch(f"{PATH}?watch=1&resourceVersion=100") as watch:
        await settled()
        assert ledger.open == 1
        apps.server.engine.end_watches()
        assert await watch.rest() == []
    assert ledger.open == 0


async def test_a_source_that_ends_ends_the_watch(apps: Apps) -> None:
    app: App[None] = App()
    tickets = app.virtual(f"{GROUP}/v1", Ticket, revisions="source")
    tickets.list(lambda request: Page([], revision="5"))

    @tickets.watch
    def plain(request: WatchRequest[None]) -> Iterator[Event[Ticket] | Bookmark]:
        yield Event("ADDED", Ticket(Metadata("a", "default", revision="6")))

    await apps.serve(app)
    async with apps.client.watch(f"{PATH}?watch=1&resourceVersion=5") as watch:
        assert [said(event) for event in await watch.rest()] == [("ADDED", "a", "6")]


async def test_a_client_that_does_not_read(apps: Apps) -> None:
    """The source is not asked for more than some events ahead."""
    ledger = Ledger()
    for index in range(200):
        ledger.put("a", text="x" * 10_000, number=str(index))
    taken: list[str] = []
    app: App[None] = App()
    tickets = app.virtual(f"{GROUP}/v1", Ticket, revisions="source")
    tickets.list(ledger.page)

    @tickets.watch
    async def watch_tickets(request: WatchRequest[None]) -> AsyncIterator[Event[Ticket] | Bookmark]:
        async for event in ledger.events(request.revision):
            taken.append(event.revision if isinstance(event, Bookmark) else event.object.metadata.revision)
            yield event

    await apps.serve(app)
    watch = apps.client.send("GET", f"{PATH}?watch=1&resourceVersion=100")
    try:
        watch.taking.clear()
        await settled()
        assert 10 < len(taken) < 50
        watch.taking.set()
        await watch.start()
        assert len(await watch.events(200)) == 200
    finally:
        watch.disconnect()


async def test_there_are_not_more_watches_than_can_be_borne(apps: Apps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggserver.resources.connecting._MOST_STREAMS", 2)
    ledger = Ledger()
    await apps.serve(ledger_app(ledger))
    target = f"{PATH}?watch=1&resourceVersion=100"
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(apps.client.watch(target))
        assert (await apps.client.get(target)).status == 429
    await settled()
    async with apps.client.watch(target):
        pass
