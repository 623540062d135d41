"""What a mirror makes of its source: watches, the last state while the source fails, and revisions that never lie."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from aggserver import App, Changed, Gone, ListRequest, Metadata, NotFound, Page, Relist
from aggserver.storage.cacher import Cacher
from tests.fakes.clock import settled, until
from tests.resources.served import ALL, GROUP, PATH, Apps, Rows, Ticket, ticket, ticket_app

FED: dict[str, Any] = {"verbs": "get list create update delete feed"}
POLLED: dict[str, Any] = {"poll": 10.0}


def _failing(error: Exception | None = None) -> Callable[[], None]:
    def fail() -> None:
        raise error or RuntimeError("secret 4711")

    return fail


def _said(event: Any) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"].get("name", "")


# --- watches ---


async def test_a_poll_tells_the_differences(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    rows.set("b")
    await apps.serve_tickets(rows, **POLLED)
    listed = (await apps.client.get(PATH)).json()
    async with apps.client.watch(f"{PATH}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}") as watch:
        del rows.rows["default", "a"]
        rows.set("b", state="closed")
        rows.set("c")
        assert apps.pauses.seconds == [10.0]
        await apps.pauses.end()
        found = await watch.events(3)
    assert sorted(map(_said, found)) == [("ADDED", "c"), ("DELETED", "a"), ("MODIFIED", "b")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in found]
    assert versions == sorted(versions)
    assert versions[0] > int(listed["metadata"]["resourceVersion"])


async def test_a_poll_without_changes_tells_nothing(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    await apps.serve_tickets(rows, **POLLED)
    before = (await apps.client.get(PATH)).json()
    await apps.pauses.end()
    assert rows.calls == ["list", "list"]
    assert (await apps.client.get(PATH)).json() == before


async def test_watch_list(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    rows.set("b")
    await apps.serve_tickets(rows, **POLLED)
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with apps.client.watch(f"{ALL}?{query}") as watch:
        first, second, mark = await watch.events(3)
        assert [_said(first), _said(second)] == [("ADDED", "a"), ("ADDED", "b")]
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        rows.set("c")
        await apps.pauses.end()
        assert _said(await watch.event()) == ("ADDED", "c")


SELECTING: dict[str, tuple[str, dict[str, Any], dict[str, Any] | None]] = {
    "labels": ("labelSelector=team=red", {"labels": {"team": "red"}}, {"labels": {"team": "blue"}}),
    "fields": ("fieldSelector=state=open", {"state": "open"}, {"state": "closed"}),
    "name": ("fieldSelector=metadata.name=a", {"title": "a"}, None),
}


@pytest.mark.parametrize("name", SELECTING)
async def test_watches_with_selectors(apps: Apps, name: str) -> None:
    query, selected, other = SELECTING[name]
    rows = Rows()
    rows.set("b", **(other or {}))
    await apps.serve_tickets(rows, **POLLED)
    async with apps.client.watch(f"{PATH}?watch=1&{query}") as watch:
        rows.set("a", **selected)
        await apps.pauses.end()
        assert _said(await watch.event()) == ("ADDED", "a")
        if other is None:
            del rows.rows["default", "a"]
        else:
            rows.set("a", **other)
        await apps.pauses.end()
        assert _said(await watch.event()) == ("DELETED", "a")
        rows.set("a", **selected)
        await apps.pauses.end()
        assert _said(await watch.event()) == ("ADDED", "a")


async def test_chunks_come_from_one_state(apps: Apps) -> None:
    rows = Rows()
    for index in range(10):
        rows.set(f"t{index}")
    await apps.serve_tickets(rows, **POLLED)
    first = (await apps.client.get(f"{PATH}?limit=4")).json()["metadata"]
    assert first["remainingItemCount"] == 6
    rows.set("t0", state="closed")
    del rows.rows["default", "t9"]
    await apps.pauses.end()
    assert await apps.names(f"{PATH}?continue={first['continue']}") == ["t4", "t5", "t6", "t7", "t8", "t9"]


# --- revisions ---


async def test_what_another_process_said(apps: Apps) -> None:
    """A revision of another replica, or of a process before, is not known: 410, never silence."""
    rows = Rows()
    for index in range(5):
        rows.set(f"t{index}")
    await apps.serve_tickets(rows, random=1, **POLLED)
    before = (await apps.client.get(f"{PATH}?limit=2")).json()["metadata"]
    for random in (1, 2):
        await apps.stop()
        apps.server.clock.advance(1.0)
        await apps.serve_tickets(rows, random=random, **POLLED)
        now = (await apps.client.get(PATH)).json()["metadata"]["resourceVersion"]
        assert int(now) > int(before["resourceVersion"])
        version = before["resourceVersion"]
        targets = [f"{PATH}?watch=1&resourceVersion={version}", f"{PATH}?continue={before['continue']}"]
        targets += [f"{PATH}?resourceVersion={version}&resourceVersionMatch=Exact"]
        if random == 2:
            targets += [
                f"{PATH}?resourceVersion={version}&resourceVersionMatch=NotOlderThan",
                f"{PATH}/t0?resourceVersion={version}",
            ]
        for target in targets:
            await _expired(apps, target)
    # One whose clock is ahead of ours: there is nothing to wait for.
    await apps.stop()
    apps.server.clock.advance(-3600.0)
    await apps.serve_tickets(rows, random=3, **POLLED)
    empty = f"/apis/{GROUP}/v1/namespaces/nothing/tickets?resourceVersion={version}&resourceVersionMatch=NotOlderThan"
    for target in (f"{PATH}?continue={before['continue']}", empty):
        await _expired(apps, target)


async def _expired(apps: Apps, target: str) -> None:
    """Also as the only event of a watch."""
    answer = await apps.client.get(target)
    status = answer.json() if answer.status != 200 else answer.json()["object"]
    assert (status["code"], status["reason"]) == (410, "Expired"), target


async def test_a_revision_that_is_not_there_yet(apps: Apps) -> None:
    await apps.serve_tickets(Rows(), **POLLED)
    now = int((await apps.client.get(PATH)).json()["metadata"]["resourceVersion"])
    later = now + 1024 * 10**9
    for target in (f"{PATH}?watch=1&resourceVersion={later}", f"{PATH}?resourceVersion={later}"):
        await _expired(apps, target)


async def test_revisions_grow_while_the_clock_stands_still_or_goes_back(apps: Apps) -> None:
    rows = Rows()
    await apps.serve_tickets(rows, **POLLED)
    last = 0
    for index in range(5):
        rows.set("a", title=str(index))
        apps.server.clock.advance(-1.0)
        await apps.pauses.end()
        now = (await apps.client.get(f"{PATH}/a")).json()["metadata"]["resourceVersion"]
        assert int(now) > last
        assert int(now) % 1024 == 7
        last = int(now)


# --- failures ---

FAILURES: dict[str, Callable[[Rows], Any]] = {
    "raises": lambda rows: _failing(),
    "hangs": lambda rows: lambda: asyncio.Event().wait(),
    "returns None": lambda rows: lambda: setattr(rows, "tickets", lambda: None),
    "returns a text": lambda rows: lambda: setattr(rows, "tickets", lambda: "abc"),
    "returns texts": lambda rows: lambda: setattr(rows, "tickets", lambda: ["abc"]),
    "returns no objects": lambda rows: lambda: setattr(rows, "tickets", lambda: [None]),
    "breaks off in the middle": lambda rows: lambda: setattr(rows, "tickets", lambda: _half(rows)),
}


def _half(rows: Rows) -> Iterator[Ticket]:
    yield rows.ticket(("default", "a"))
    raise ConnectionError("gone away")


@pytest.mark.parametrize("kind", ["polled", "fed"])
@pytest.mark.parametrize("name", FAILURES)
async def test_failure_is_never_absence(apps: Apps, name: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    rows = Rows()
    rows.set("a")
    rows.set("b")
    more = POLLED if kind == "polled" else FED
    app = await _serve(apps, rows, deadline=0.05 if name == "hangs" else 30.0, **more)
    if kind == "fed":
        rows.news.put_nowait(Relist())
        await settled()
    before = (await apps.client.get(PATH)).json()
    assert len(before["items"]) == 2
    whole = rows.tickets
    async with apps.client.watch(f"{PATH}?watch=1&resourceVersion={before['metadata']['resourceVersion']}") as watch:
        rows.before["list"] = FAILURES[name](rows)
        calls = len(rows.calls)
        if kind == "polled":
            await apps.pauses.end()
        else:
            rows.news.put_nowait(Relist())
        await until(lambda: app.trouble() is not None)
        answer = await apps.client.get(PATH)
        assert answer.json() == before
        assert "has failed for 0 s; this is the state from before that" in answer.warnings[0]
        assert "4711" not in str(answer)
        one = await apps.client.get(f"{PATH}/a")
        assert one.status == 200
        assert one.warnings
        assert "helpdesk" in str(app.trouble())
        # Longer than what may be shown.
        apps.server.clock.advance(61.0)
        for target in (PATH, f"{PATH}/a", f"{PATH}?watch=1"):
            answer = await apps.client.get(target)
            assert (answer.status, answer.json()["reason"]) == (503, "ServiceUnavailable"), target
            assert answer.header("retry-after") == "1"
            assert "4711" not in answer.message
        assert len(rows.calls) > calls
        # And back.
        rows.before.clear()
        rows.tickets = whole  # type: ignore[method-assign]
        rows.set("c")
        await apps.pauses.end()
        if kind == "fed":
            rows.news.put_nowait(Relist())
        await until(lambda: app.trouble() is None)
        event = await watch.event()
        while event["type"] == "BOOKMARK":
            event = await watch.event()
        assert _said(event) == ("ADDED", "c")  # and nothing was deleted before
    answer = await apps.client.get(PATH)
    assert answer.status == 200
    assert not answer.warnings
    assert "failed" in caplog.text


async def _serve(apps: Apps, rows: Rows, **more: Any) -> Any:
    app, _ = ticket_app(rows, **more)
    return await apps.serve(app)


async def test_failures_are_retried_less_and_less_often(apps: Apps) -> None:
    rows = Rows(before={"list": _failing()})
    await apps.serve_tickets(rows, poll=8.0)
    pauses = []
    for _ in range(6):
        pauses += apps.pauses.seconds
        await apps.pauses.end()
    assert pauses == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    rows.before.clear()
    await apps.pauses.end()
    assert apps.pauses.seconds == [8.0]
    rows.before["list"] = _failing()
    await apps.pauses.end()
    assert apps.pauses.seconds == [1.0]


async def test_a_source_that_was_never_read(apps: Apps) -> None:
    app = await _serve(apps, Rows(before={"list": _failing()}), **POLLED)
    answer = await apps.client.get(PATH)
    assert (answer.status, answer.json()["reason"]) == (503, "ServiceUnavailable")
    assert app.trouble()


async def test_a_bad_row_is_not_gone(apps: Apps, caplog: pytest.LogCaptureFixture) -> None:
    """A row that can't be read any more keeps its last state; the others go on."""
    rows = Rows()
    rows.set("a")
    rows.set("b")
    await apps.serve_tickets(rows, **POLLED)
    version = (await apps.client.get(PATH)).json()["metadata"]["resourceVersion"]
    async with apps.client.watch(f"{PATH}?watch=1&resourceVersion={version}") as watch:
        rows.set("a", revision='"')
        rows.set("c")
        await apps.pauses.end()
        assert _said(await watch.event()) == ("ADDED", "c")
        assert await apps.names() == ["a", "b", "c"]
        assert "can't be a revision" in caplog.text
        rows.set("a", state="closed")
        await apps.pauses.end()
        assert _said(await watch.event()) == ("MODIFIED", "a")


async def test_duplicates_do_not_change_back_and_forth(apps: Apps) -> None:
    app: App[None] = App()
    one, two = (Ticket(Metadata("a", "default"), title) for title in ("one", "two"))
    app.virtual(f"{GROUP}/v1", Ticket, poll=10.0).list(lambda request: [one, two])
    await apps.serve(app)
    await until(lambda: apps.pauses.seconds == [10.0])
    before = (await apps.client.get(f"{PATH}/a")).json()
    assert before["title"] == "one"
    await apps.pauses.end()
    await until(lambda: apps.pauses.seconds == [10.0])
    assert (await apps.client.get(f"{PATH}/a")).json() == before


async def test_polls_never_overlap(apps: Apps) -> None:
    """A plain function that hangs keeps one thread, and no second one."""
    app: App[None] = App(deadline=0.05, threads=2)
    running, release = [], threading.Event()

    @app.virtual(f"{GROUP}/v1", Ticket, poll=1.0).list
    def list_tickets(request: ListRequest[None]) -> list[Ticket]:
        running.append(1)
        release.wait()
        return []

    served = await apps.serve(app)
    try:
        for _ in range(5):
            await until(lambda: apps.pauses.seconds)
            await apps.pauses.end()
        assert len(running) == 1
        assert served.trouble()
    finally:
        release.set()

    def is_well() -> bool:
        for _, over in apps.pauses._pending:
            over.set()
        return served.trouble() is None

    await until(is_well)


async def test_a_function_of_two_resources(apps: Apps) -> None:
    """One of them that hangs is no reason not to call it for the other."""
    app: App[None] = App(deadline=0.05, threads=2)
    release = threading.Event()
    hang = [True]

    def list_tickets(request: ListRequest[None]) -> list[Ticket]:
        if hang:
            hang.clear()
            release.wait()
        return [Ticket(Metadata("a", "default"))]

    for group in ("first.example.com", "second.example.com"):
        app.virtual(f"{group}/v1", Ticket, poll=1.0).list(list_tickets)
    await apps.serve(app)
    try:
        await until(lambda: len(apps.pauses.seconds) == 2)
        answers = [await apps.client.get(f"/apis/{group}.example.com/v1/tickets") for group in ("first", "second")]
        assert [answer.status for answer in answers] == [503, 200]
    finally:
        release.set()


# --- writes and what is read meanwhile ---


async def test_a_poll_that_began_before_a_write(apps: Apps) -> None:
    rows = Rows()
    rows.set("a", title="old")
    rows.set("b")
    await apps.serve_tickets(rows, **POLLED)
    await apps.client.get(PATH)
    begun, go_on = asyncio.Event(), asyncio.Event()
    whole = rows.tickets

    async def read_then_wait() -> None:
        read = whole()
        rows.tickets = lambda: read  # type: ignore[method-assign]
        begun.set()
        await go_on.wait()

    rows.before["list"] = read_then_wait
    await apps.pauses.end()
    await begun.wait()
    assert (await apps.client.merge(f"{PATH}/a", {"title": "new"})).status == 200
    assert (await apps.client.post(PATH, ticket("c"))).status == 201
    assert (await apps.client.delete(f"{PATH}/b")).status == 200
    go_on.set()
    await settled()
    assert apps.pauses.seconds == [10.0]  # the poll is over
    items = (await apps.client.get(PATH)).json()["items"]
    assert [(each["metadata"]["name"], each["title"]) for each in items] == [("a", "new"), ("c", "x")]


async def test_a_feed_that_is_ahead_of_a_write(apps: Apps) -> None:
    """What a feed tells while a write is under way may be newer than the write's result: then the source is asked."""
    rows = Rows()
    rows.set("a", title="one")
    await apps.serve_tickets(rows, **FED)
    rows.news.put_nowait(Relist())
    await settled()
    original = rows.ticket

    async def overtaken() -> None:
        # Another writer changes the row right after this write, and the feed tells of it before the function has returned.
        def changed(key: tuple[str, str]) -> Ticket:
            made = original(key)
            if made.title == "two":
                rows.rows[key] = {"title": "three", "state": "open"}
                rows.ticket = original  # type: ignore[method-assign]
                rows.news.put_nowait(Changed(original(key)))
            return made

        rows.ticket = changed  # type: ignore[method-assign]

    rows.before["update"] = overtaken
    put = await apps.client.merge(f"{PATH}/a", {"title": "two"})
    assert put.status == 200, put.body
    await settled()
    now = (await apps.client.get(f"{PATH}/a")).json()
    assert now["title"] == "three"
    # What the writer got can't be the base of an update without a look at what came after it.
    if put.json()["title"] == "two":
        assert put.json()["metadata"]["resourceVersion"] != now["metadata"]["resourceVersion"]
        rows.before.clear()
        assert (await apps.client.put(f"{PATH}/a", {**put.json(), "title": "four"})).status == 409


@pytest.mark.parametrize("verb", ["delete", "update"])
async def test_what_is_gone_for_a_write_and_made_anew_meanwhile(apps: Apps, verb: str) -> None:
    """An object that the source has is never told of as deleted, though a write has not found the one before."""
    rows = Rows()
    rows.set("a", title="one", uid="u1")
    await apps.serve_tickets(rows, **FED)
    rows.news.put_nowait(Relist())
    await settled()

    async def replaced() -> None:
        del rows.rows["default", "a"]
        rows.before.clear()
        rows.news.put_nowait(Gone("a", "default"))
        rows.set("a", title="two", uid="u2")
        rows.news.put_nowait(Changed(rows.ticket(("default", "a"))))
        await settled()
        raise NotFound

    rows.before[verb] = replaced
    async with apps.client.watch(f"{PATH}?watch=1") as watch:
        assert _said(await watch.event()) == ("ADDED", "a")
        write = apps.client.delete(f"{PATH}/a") if verb == "delete" else apps.client.merge(f"{PATH}/a", {"state": "closed"})
        await write
        rows.set("last")
        rows.news.put_nowait(Changed(rows.ticket(("default", "last"))))
        told = []
        while not told or told[-1] != ("ADDED", "last"):
            told.append(_said(await watch.event()))
    if verb == "delete":
        assert told == [("DELETED", "a"), ("ADDED", "a"), ("ADDED", "last")]
    assert ((await apps.client.get(f"{PATH}/a")).json())["metadata"]["uid"] == "u2"


# --- feeds ---


async def test_a_feed(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    await apps.serve_tickets(rows, **FED)
    rows.news.put_nowait(Relist())
    await settled()
    assert await apps.names() == ["a"]
    assert rows.calls.count("list") == 1
    async with apps.client.watch(f"{PATH}?watch=1") as watch:
        assert _said(await watch.event()) == ("ADDED", "a")
        for change, said in (
            (Changed(Ticket(Metadata("b", "default"))), ("ADDED", "b")),
            (Changed(Ticket(Metadata("b", "default"), "new")), ("MODIFIED", "b")),
            (Gone("a", "default"), ("DELETED", "a")),
            (Gone("unknown", "default"), None),
            (Gone("b"), None),  # without its namespace
            (Changed(Ticket(Metadata("Bad Name", "default"))), None),
            (Changed(Ticket(Metadata("c", "default"))), ("ADDED", "c")),
        ):
            rows.news.put_nowait(change)
            if said is not None:
                assert _said(await watch.event()) == said
        rows.rows.clear()
        rows.set("c", title="")
        rows.set("d")
        rows.news.put_nowait(Relist())
        assert sorted([_said(event) for event in await watch.events(2)]) == [("ADDED", "d"), ("DELETED", "b")]
    assert rows.calls.count("feed") == 1


async def test_a_feed_that_does_not_begin_with_relist(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    await apps.serve_tickets(rows, **FED)
    rows.news.put_nowait(Changed(Ticket(Metadata("b", "default"))))
    await settled()
    assert await apps.names() == ["a", "b"]


async def test_a_feed_that_has_nothing_to_tell(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    await apps.serve_tickets(rows, **FED)
    assert apps.pauses.seconds == [1.0]
    await apps.pauses.end()
    assert await apps.names() == ["a"]
    rows.news.put_nowait(Changed(Ticket(Metadata("b", "default"))))
    await settled()
    assert await apps.names() == ["a", "b"]


ENDS = {"ends": None, "raises": RuntimeError("secret"), "tells nonsense": "nonsense"}


@pytest.mark.parametrize("name", ENDS)
async def test_a_feed_that_ends_is_begun_again(apps: Apps, name: str, caplog: pytest.LogCaptureFixture) -> None:
    rows = Rows()
    rows.set("a")
    app = await _serve(apps, rows, **FED)
    rows.news.put_nowait(Relist())
    await settled()
    assert app.trouble() is None
    rows.news.put_nowait(ENDS[name])
    await settled()
    assert app.trouble()
    assert "changes failed" in caplog.text
    answer = await apps.client.get(PATH)
    assert answer.status == 200
    assert answer.warnings
    rows.set("b")
    await apps.pauses.end()
    rows.news.put_nowait(Relist())
    await settled()
    assert app.trouble() is None
    assert await apps.names() == ["a", "b"]
    assert rows.calls.count("feed") == 2


async def test_a_feed_that_was_well_is_tried_soon(apps: Apps) -> None:
    rows = Rows()
    await apps.serve_tickets(rows, **FED)
    for _ in range(3):
        rows.news.put_nowait(Relist())
        await settled()
        apps.server.clock.advance(3600.0)
        rows.news.put_nowait(RuntimeError())
        await settled()
        assert apps.pauses.seconds == [1.0]
        await apps.pauses.end()


async def test_a_feed_that_is_quicker_than_the_loop(apps: Apps) -> None:
    """Other requests are answered while a feed never waits for anything, and its watchers are told all or ended."""
    app: App[None] = App()
    tickets = app.virtual(f"{GROUP}/v1", Ticket)
    told = 0

    @tickets.list
    async def list_tickets(request: ListRequest[None]) -> list[Ticket]:
        return []

    @tickets.feed
    async def flood(state: None) -> AsyncIterator[Changed[Ticket] | Gone | Relist]:
        nonlocal told
        yield Relist()
        while told < 1_000_000:
            told += 1
            yield Changed(Ticket(Metadata(f"t{told % 10}", "default"), str(told)))

    await apps.serve(app)
    first = int((await apps.client.get(f"{PATH}/t1")).json()["title"])
    second = int((await apps.client.get(f"{PATH}/t1")).json()["title"])
    assert 0 < first < second < 1_000_000
    async with apps.client.watch(f"{PATH}?watch=1&fieldSelector=metadata.name=t1") as watch:
        assert [_said(event)[1] for event in await watch.events(20)] == ["t1"] * 20


async def test_a_plain_feed(apps: Apps) -> None:
    """A plain generator may block: it has a thread of its own."""
    app: App[None] = App(threads=2)
    tickets = app.virtual(f"{GROUP}/v1", Ticket)
    go_on, over = threading.Event(), threading.Event()
    threads = set()

    @tickets.list
    def list_tickets(request: ListRequest[None]) -> list[Ticket]:
        return [Ticket(Metadata("a", "default"))]

    @tickets.feed
    def changes(state: None) -> Iterator[Changed[Ticket] | Gone | Relist]:
        try:
            threads.add(threading.get_ident())
            yield Relist()
            go_on.wait()
            threads.add(threading.get_ident())
            for index in range(1000):
                yield Changed(Ticket(Metadata(f"b{index}", "default")))
            go_on.clear()
            go_on.wait()
        finally:
            over.set()

    served = await apps.serve(app)
    await until(lambda: served.trouble() is None)
    assert await apps.names() == ["a"]
    go_on.set()
    async with apps.client.watch(f"{PATH}?watch=1") as watch:
        assert len({_said(event) for event in await watch.events(1001)}) == 1001
    assert len(threads) == 1
    go_on.set()
    await until(over.is_set)


# --- when the cache has to read again ---


async def test_a_cache_that_has_lost_its_subscription(apps: Apps) -> None:
    """The mirror has only digests then: the source is read once more."""
    rows = Rows()
    for index in range(5):
        rows.set(f"t{index}")
    served = await _serve(apps, rows, **POLLED)
    assert len(await apps.names()) == 5
    mirror = served._followings[0]._mirror
    assert mirror._bodies is None
    cacher = served._resources[f"tickets.{GROUP}"]._cacher
    assert cacher is not None
    made = cacher._made
    cacher._made = lambda event, key: 1 / 0  # type: ignore[assignment]
    rows.set("t0", title="new")
    await apps.pauses.end()
    cacher._made = made
    await until(lambda: mirror._bodies is None and cacher._subscription is not None)
    items = (await apps.client.get(PATH)).json()["items"]
    assert [each["title"] for each in items] == ["new", "t1", "t2", "t3", "t4"]
    rows.set("t1", title="newer")
    await apps.pauses.end()
    assert (await apps.client.get(f"{PATH}/t1")).json()["title"] == "newer"


async def test_changes_while_the_cache_is_loaded(apps: Apps) -> None:
    """The first request loads the cache in steps; what changes between two of them is not missed."""
    rows = Rows()
    for index in range(1200):  # more than are made in one step
        rows.set(f"t{index:04}")
    await apps.serve_tickets(rows, **FED)
    rows.news.put_nowait(Relist())
    await until(lambda: rows.news.empty())
    listing = asyncio.ensure_future(apps.client.get(PATH))
    for index in range(20):
        rows.news.put_nowait(Changed(Ticket(Metadata("t0000", "default"), str(index))))
        rows.news.put_nowait(Changed(Ticket(Metadata(f"u{index}", "default"))))
        await asyncio.sleep(0)
    assert (await listing).status == 200
    await settled()
    assert len(await apps.names()) == 1220
    assert (await apps.client.get(f"{PATH}/t0000")).json()["title"] == "19"


async def test_pages_of_a_polled_source(apps: Apps) -> None:
    app: App[None] = App()
    asked = []

    @app.virtual(f"{GROUP}/v1", Ticket, poll=10.0).list
    async def list_tickets(request: ListRequest[None]) -> Page[Ticket]:
        asked.append(request.cursor)
        start = int(request.cursor or 0)
        return Page([Ticket(Metadata(f"t{start}", "default"))], str(start + 1) if start < 4 else None)

    await apps.serve(app)
    assert await apps.names() == ["t0", "t1", "t2", "t3", "t4"]
    assert asked == [None, "1", "2", "3", "4"]


# --- what was never read, and memory ---


NEVER_READ: dict[str, dict[str, Any]] = {"polled": {**POLLED, "verbs": "get delete"}, "fed": {"verbs": "get delete feed"}}


@pytest.mark.parametrize("kind", NEVER_READ)
@pytest.mark.parametrize("name", ["it fails", "half of it is read"])
async def test_what_was_never_read_is_not_empty(apps: Apps, name: str, kind: str) -> None:
    """Nowhere: a list of a namespace in which nothing was found is no answer either."""
    rows = Rows()
    rows.set("a")
    app, tickets = ticket_app(rows, **NEVER_READ[kind])

    @tickets.list
    def listed(request: Any) -> Iterator[Ticket]:
        if name == "half of it is read":
            yield rows.ticket(("default", "a"))
        raise ConnectionError("4711")

    await apps.serve(app)
    await apps.pauses.end()
    for later in (0.0, 3600.0):
        apps.server.clock.advance(later)
        for namespace in ("default", "other"):
            target = PATH.replace("/default/", f"/{namespace}/")
            for query in ("", "?resourceVersion=0", "?limit=1", "?labelSelector=a=b", "?watch=1"):
                answer = await apps.client.get(target + query)
                assert (answer.status, answer.json()["reason"]) == (503, "ServiceUnavailable"), (namespace, query)
            assert (await apps.client.delete(target)).status == 503
        assert (await apps.client.get(ALL)).status == 503


async def test_the_first_state_is_not_kept_as_changes(apps: Apps) -> None:
    rows = Rows()
    rows.rows = {("default", f"r{index}"): {} for index in range(5000)}
    most: list[int] = []
    forget = Cacher.forget_changes

    def counted(cacher: Cacher[Any]) -> None:
        most.append(len(cacher._window.since(cacher._window.floor)))
        forget(cacher)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cacher, "forget_changes", counted)
        await apps.serve_tickets(rows, poll=10.0)
    await settled()
    assert len(await apps.names()) == 5000
    assert max(most) == 1000
