"""Reads of a resource that asks its source each time: selectors, limits, continue tokens, revisions, and what it can't show."""

from __future__ import annotations

import base64
import datetime
import json
import logging
from collections.abc import Iterable
from typing import Any

import pytest

from aggserver import App, ListRequest, Metadata, Page
from tests.resources.served import ALL, GROUP, PATH, Apps, Rows, Ticket, ticket_app

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PARTIAL = {"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}


class Pages:
    """A source of `count` tickets in pages. asked: (limit, cursor) of each call. most: objects in a page. obeys: the limit."""

    def __init__(self, count: int, most: int = 0, *, obeys: bool = True, filtered: bool = False) -> None:
        self.asked: list[tuple[int, str | None]] = []
        self.requests: list[ListRequest[Any]] = []
        self.count, self.most, self.obeys, self.filtered = count, most, obeys, filtered
        self.app: App[None] = App()
        self.app.virtual(f"{GROUP}/v1", Ticket, selectable=[".state"]).list(self.list)

    async def list(self, request: ListRequest[None]) -> Page[Ticket]:
        self.asked.append((request.limit, request.cursor))
        self.requests.append(request)
        start = int(request.cursor or 0)
        size = min((request.limit or self.count) if self.obeys else self.count, self.most or self.count)
        end = min(start + size, self.count)
        made = [
            Ticket(Metadata(f"t{i:04}", "default", labels={"odd": str(i % 2)}), state="open" if i % 100 == 99 else "closed")
            for i in range(start, end)
        ]
        return Page(made, str(end) if end < self.count else None, filtered=self.filtered)


async def test_selectors_are_applied_once_more(apps: Apps) -> None:
    pages = Pages(200)
    await apps.serve(pages.app)
    assert await apps.names(f"{PATH}?fieldSelector=state=open") == ["t0099", "t0199"]
    assert pages.requests[-1].fields.exact("state") == "open"
    assert pages.requests[-1].fields.exact(".state") == "open"
    assert len(await apps.names(f"{PATH}?labelSelector=odd=1")) == 100
    assert pages.requests[-1].labels.exact("odd") == "1"
    assert await apps.names(f"{PATH}?labelSelector=odd=0&fieldSelector=metadata.name=t0004") == ["t0004"]
    assert (await apps.client.get(f"{PATH}?fieldSelector=title=x")).status == 400


async def test_a_source_may_say_that_it_has_selected(apps: Apps) -> None:
    pages = Pages(4, filtered=True)
    await apps.serve(pages.app)
    assert len(await apps.names(f"{PATH}?labelSelector=odd=1")) == 4
    assert await apps.names(f"/apis/{GROUP}/v1/namespaces/other/tickets?labelSelector=odd=1") == []


async def _chunks(apps: Apps, target: str) -> list[list[str]]:
    found, token = [], ""
    while True:
        answer = await apps.client.get(f"{target}&continue={token}" if token else target)
        assert answer.status == 200, answer.body
        found.append([item["metadata"]["name"] for item in answer.json()["items"]])
        assert "remainingItemCount" not in answer.json()["metadata"]
        token = answer.json()["metadata"].get("continue", "")
        if not token:
            return found


CHUNKS: dict[str, tuple[dict[str, Any], int, list[int], int]] = {
    "a source that obeys": ({}, 7, [7, 7, 6], 3),
    "a source that ignores the limit": ({"obeys": False}, 7, [7, 7, 6], 3),
    "a source with shorter pages": ({"most": 3}, 7, [7, 7, 6], 8),
    "a source with longer pages": ({"most": 10, "obeys": False}, 7, [7, 7, 6], 4),
    "a limit beyond the end": ({}, 50, [20], 1),
}


@pytest.mark.parametrize("name", CHUNKS)
async def test_chunks(apps: Apps, name: str) -> None:
    more, limit, sizes, calls = CHUNKS[name]
    pages = Pages(20, **more)
    await apps.serve(pages.app)
    chunks = await _chunks(apps, f"{PATH}?limit={limit}")
    assert [len(chunk) for chunk in chunks] == sizes
    assert [name for chunk in chunks for name in chunk] == [f"t{i:04}" for i in range(20)]
    assert len(pages.asked) == calls


async def test_a_large_list_of_a_source_that_ignores_the_limit_is_given_at_once(apps: Apps) -> None:
    """Cut into pages, it would be made anew for each of them."""
    pages = Pages(1_001, obeys=False)
    await apps.serve(pages.app)
    assert [len(chunk) for chunk in await _chunks(apps, f"{PATH}?limit=500")] == [1_001]
    assert len(pages.asked) == 1
    pages = Pages(4_000, most=2_000, obeys=False)
    await apps.serve(pages.app)
    assert [len(chunk) for chunk in await _chunks(apps, f"{PATH}?limit=500")] == [2_000, 2_000]


async def test_another_limit_on_the_way(apps: Apps) -> None:
    """The place within a page of a source that ignores limits is kept, also if the next limit is a smaller one."""
    pages = Pages(20, most=10)
    pages.obeys = False
    await apps.serve(pages.app)
    first = (await apps.client.get(f"{PATH}?limit=7")).json()
    pages.obeys = True
    token = first["metadata"]["continue"]
    second = (await apps.client.get(f"{PATH}?limit=2&continue={token}")).json()
    assert [item["metadata"]["name"] for item in second["items"]] == ["t0007", "t0008"]


async def test_without_a_limit_all_pages_are_read(apps: Apps) -> None:
    pages = Pages(60, most=3)
    await apps.serve(pages.app)
    assert len(await apps.names()) == 60
    assert len(pages.asked) == 20


async def test_a_selector_that_matches_little_has_a_budget_of_calls(apps: Apps) -> None:
    pages = Pages(1000, most=10)
    await apps.serve(pages.app)
    chunks = await _chunks(apps, f"{PATH}?limit=5&labelSelector=odd=2")
    assert chunks == [[]] * 20  # short pages, each with a token but the last
    assert len(pages.asked) == 200
    pages.asked.clear()
    answer = await apps.client.get(f"{PATH}?limit=5&labelSelector=odd=2")
    assert answer.json()["metadata"]["continue"]
    assert len(pages.asked) == 10


TOKENS = {
    "as it was": ("{path}?limit=3&continue={token}", 200, ""),
    "other namespace": ("{others}?limit=3&continue={token}", 410, "Expired"),
    "all namespaces": ("{all}?limit=3&continue={token}", 410, "Expired"),
    "other labels": ("{path}?limit=3&labelSelector=a=b&continue={token}", 410, "Expired"),
    "other fields": ("{path}?limit=3&fieldSelector=state=open&continue={token}", 410, "Expired"),
    "other resource": ("{other}?limit=3&continue={token}", 410, "Expired"),
    "no base64": ("{path}?limit=3&continue=%2F%2F%2F", 400, "BadRequest"),
    "no json": ("{path}?limit=3&continue=YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXo", 400, "BadRequest"),
    "too short": ("{path}?limit=3&continue=YWJj", 400, "BadRequest"),
    "of a stored resource": ("{path}?limit=3&continue={stored}", 400, "BadRequest"),
}


@pytest.mark.parametrize("name", TOKENS)
async def test_continue_tokens(apps: Apps, name: str) -> None:
    target, status, reason = TOKENS[name]
    app = Pages(9).app
    app.virtual("other.example.com/v1", Ticket).list(lambda request: [])
    await apps.serve(app)
    token = (await apps.client.get(f"{PATH}?limit=3")).json()["metadata"]["continue"]
    stored = base64.urlsafe_b64encode(json.dumps({"v": "meta.k8s.io/v1", "rv": 5, "start": "a\0"}).encode()).decode().rstrip("=")
    other = "/apis/other.example.com/v1/namespaces/default/tickets"
    others = f"/apis/{GROUP}/v1/namespaces/other/tickets"
    paths = {"path": PATH, "all": ALL, "other": other, "others": others}
    answer = await apps.client.get(target.format(token=token, stored=stored, **paths))
    assert answer.status == status, answer.body
    assert answer.json().get("reason", "") == reason


async def test_a_token_of_another_process(apps: Apps) -> None:
    await apps.serve(Pages(9).app, random=1)
    token = (await apps.client.get(f"{PATH}?limit=3")).json()["metadata"]["continue"]
    await apps.stop()
    await apps.serve(Pages(9).app, random=2)
    answer = await apps.client.get(f"{PATH}?limit=3&continue={token}")
    assert (answer.status, answer.json()["reason"]) == (410, "Expired")


async def test_a_token_can_not_be_made_up(apps: Apps) -> None:
    await apps.serve(Pages(9).app)
    token = (await apps.client.get(f"{PATH}?limit=3")).json()["metadata"]["continue"]
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    changed = raw.replace(b'"3"', b'"6"')
    assert changed != raw
    forged = base64.urlsafe_b64encode(changed).decode().rstrip("=")
    assert (await apps.client.get(f"{PATH}?limit=3&continue={forged}")).status == 410


async def test_a_source_that_goes_in_circles(apps: Apps, caplog: pytest.LogCaptureFixture) -> None:
    app: App[None] = App()

    @app.virtual(f"{GROUP}/v1", Ticket).list
    def list_tickets(request: ListRequest[None]) -> Page[Ticket]:
        return Page([], "1")

    await apps.serve(app)
    answer = await apps.client.get(PATH)
    assert answer.status == 500
    assert "same cursor twice" in caplog.text


async def test_tables_and_metadata(apps: Apps) -> None:
    rows = Rows()
    rows.set("a", labels={"b": "c"})
    await apps.serve_tickets(rows)
    table = (await apps.client.get(PATH, headers=TABLE)).json()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "State", "Age"]
    assert [row["cells"] for row in table["rows"]] == [["a", "open", None]]
    one = (await apps.client.get(f"{PATH}/a", headers=TABLE)).json()
    assert [row["cells"][:2] for row in one["rows"]] == [["a", "open"]]
    partial = (await apps.client.get(PATH, headers=PARTIAL)).json()
    assert partial["kind"] == "PartialObjectMetadataList"
    assert partial["items"][0]["metadata"]["labels"] == {"b": "c"}
    assert "title" not in partial["items"][0]


async def test_revisions_of_a_direct_resource(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    rows.set("own", revision="17")
    rows.set("text", revision="v1.2")
    await apps.serve_tickets(rows)
    listed = (await apps.client.get(PATH)).json()
    versions = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}
    assert versions["own"] == "17"
    assert versions["text"] == "v1.2"
    assert versions["a"].startswith("h")  # a text, since it does not grow
    again = (await apps.client.get(PATH)).json()
    assert int(again["metadata"]["resourceVersion"]) > int(listed["metadata"]["resourceVersion"])
    assert again["items"] == listed["items"]
    rows.set("a", state="closed")
    assert (await apps.client.get(f"{PATH}/a")).json()["metadata"]["resourceVersion"] != versions["a"]
    exact = await apps.client.get(f"{PATH}?resourceVersion=5&resourceVersionMatch=Exact")
    assert (exact.status, exact.json()["reason"]) == (410, "Expired")


async def test_one_name_is_one_get(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    rows.set("b")
    await apps.serve_tickets(rows)
    assert await apps.names(f"{PATH}?fieldSelector=metadata.name=a") == ["a"]
    assert await apps.names(f"{PATH}?fieldSelector=metadata.name=z") == []
    assert rows.calls == ["get", "get"]
    assert await apps.names(f"{ALL}?fieldSelector=metadata.name=a") == ["a"]
    assert rows.calls[2:] == ["list"]


async def test_get_without_a_get_function(apps: Apps, caplog: pytest.LogCaptureFixture) -> None:
    pages = Pages(20, most=5)
    await apps.serve(pages.app)
    assert "has no get function" in caplog.text
    assert (await apps.client.get(f"{PATH}/t0012")).json()["metadata"]["name"] == "t0012"
    assert (await apps.client.get(f"{PATH}/t0099")).status == 404


async def test_uids_are_stable_and_of_one_object(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    rows.set("a", "other")
    rows.set("given", uid="f00")
    await apps.serve_tickets(rows, random=1)

    async def uids() -> dict[tuple[str, str], str]:
        items = (await apps.client.get(ALL)).json()["items"]
        return {(each["metadata"]["namespace"], each["metadata"]["name"]): each["metadata"]["uid"] for each in items}

    first = await uids()
    assert len(set(first.values())) == 3
    assert first["default", "given"] == "f00"
    await apps.stop()
    await apps.serve_tickets(rows, random=2)
    assert await uids() == first
    rows.set("a", created=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))  # deleted, and made again
    assert (await uids())["default", "a"] != first["default", "a"]


BAD: dict[str, tuple[Any, int, list[str]]] = {
    "an invalid name": (Ticket(Metadata("Not A Name", "default")), 200, ["good"]),
    "no name": (Ticket(Metadata("", "default")), 200, ["good"]),
    "an invalid revision": (Ticket(Metadata("a", "default", revision='"')), 200, ["good"]),
    "a revision of 0": (Ticket(Metadata("a", "default", revision="0")), 200, ["good"]),
    "too large": (Ticket(Metadata("a", "default"), "x" * (4 << 20)), 200, ["good"]),
    "twice": (Ticket(Metadata("good", "default"), "another"), 200, ["good"]),
    "another namespace": (Ticket(Metadata("a", "elsewhere")), 200, ["good"]),
    "no object at all": ("text", 500, []),
    "None": (None, 500, []),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_can_not_be_shown(apps: Apps, name: str, caplog: pytest.LogCaptureFixture) -> None:
    bad, status, names = BAD[name]
    app: App[None] = App()
    app.virtual(f"{GROUP}/v1", Ticket).list(lambda request: [Ticket(Metadata("good", "default"), "x"), bad])
    await apps.serve(app)
    answer = await apps.client.get(PATH)
    assert answer.status == status, answer.body
    if status == 200:
        assert [item["metadata"]["name"] for item in answer.json()["items"]] == names
        assert [item["title"] for item in answer.json()["items"]] == ["x"]
    if name != "another namespace":
        assert any(record.levelno == logging.ERROR for record in caplog.records)
    if name in ("an invalid name", "too large"):
        assert any("can't be shown" in warning for warning in answer.warnings)


RETURNED: dict[str, tuple[Any, int]] = {
    "None": (None, 500),
    "a text": ("ab", 500),
    "a dict": ({"a": 1}, 500),
    "a number": (5, 500),
    "an empty list": ([], 200),
    "a tuple": ((), 200),
    "an iterator": (iter([]), 200),
    "an empty page": (Page([]), 200),
}


@pytest.mark.parametrize("name", RETURNED)
async def test_what_list_returns(apps: Apps, name: str) -> None:
    value, status = RETURNED[name]
    app: App[None] = App()

    @app.virtual(f"{GROUP}/v1", Ticket).list
    def list_tickets(request: ListRequest[None]) -> Iterable[Ticket]:
        found: Iterable[Ticket] = value
        return found

    await apps.serve(app)
    assert (await apps.client.get(PATH)).status == status


async def test_get_returns_another_object(apps: Apps) -> None:
    app: App[None] = App()
    tickets = app.virtual(f"{GROUP}/v1", Ticket)
    tickets.get(lambda request, name: Ticket(Metadata("other", "default")))
    await apps.serve(app)
    answer = await apps.client.get(f"{PATH}/a")
    assert answer.status == 500
    assert "other" not in answer.message


async def test_all_forms_of_a_list_function(apps: Apps) -> None:
    made = [Ticket(Metadata("a", "default"))]
    app: App[None] = App()

    def plain(request: ListRequest[None]) -> Iterable[Ticket]:
        return made

    def steps(request: ListRequest[None]) -> Iterable[Ticket]:
        yield from made

    async def later(request: ListRequest[None]) -> Iterable[Ticket]:
        return made

    async def later_steps(request: ListRequest[None]):  # type: ignore[no-untyped-def]
        for each in made:
            yield each

    def handed_on(request: ListRequest[None]):  # type: ignore[no-untyped-def]
        return later(request)

    def handed_steps(request: ListRequest[None]):  # type: ignore[no-untyped-def]
        return later_steps(request)

    forms = [plain, steps, later, later_steps, handed_on, handed_steps]
    for index, function in enumerate(forms):
        app.virtual(f"g{index}.example.com/v1", Ticket).list(function)
    await apps.serve(app)
    for index in range(len(forms)):
        assert await apps.names(f"/apis/g{index}.example.com/v1/tickets") == ["a"], forms[index]


def test_app_of_tests_is_as_declared() -> None:
    app, tickets = ticket_app(Rows())
    assert list(app.resources.values()) == [tickets]
