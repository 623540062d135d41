"""check_source of sources with revisions of their own: a good watch passes, and each that breaks the contract is told of."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from aggserver import AlreadyExists, App, Bookmark, Conflict, Event, ListRequest, Metadata, NotFound, Page, Request, WatchRequest
from aggserver.testing import check_source

Key = tuple[str, str]


@dataclass
class Order:
    metadata: Metadata
    amount: int = 1


@dataclass
class Entry:
    """One change: what there was, and what there is; None where there is nothing."""

    key: Key
    revision: int
    before: Order | None
    after: Order | None


@dataclass
class Book:
    """A source with one counter for all changes."""

    revision: int = 100
    orders: dict[Key, Order] = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, key: Key, amount: int | None) -> None:
        self.revision += 1
        before = self.orders.pop(key, None)
        after = None
        if amount is not None:
            uid = f"uid-{self.revision}" if before is None else before.metadata.uid
            metadata = Metadata(key[1], key[0], uid=uid, revision=str(self.revision))
            after = self.orders[key] = Order(metadata, amount)
        self.log.append(Entry(key, self.revision, before, after))
        self.changed.set()


def filled() -> Book:
    book = Book()
    for key, amount in ((("a", "one"), 1), (("a", "two"), 2), (("b", "one"), 3)):
        book.put(key, amount)
    return book


def at(order: Order, revision: int) -> Order:
    return replace(order, metadata=Metadata.from_json({**order.metadata.to_json(), "resourceVersion": str(revision)}))


class Functions:
    """The functions of a good source; a test replaces the watch."""

    async def list(self, request: ListRequest[Book]) -> Page[Order]:
        book = request.state
        found = [order for key, order in sorted(book.orders.items())]
        start = int(request.cursor or 0)
        end = start + (request.limit or 2)
        return Page(found[start:end], str(end) if end < len(found) else None, revision=str(book.revision))

    async def get(self, request: Request[Book], name: str) -> Order | None:
        return request.state.orders.get((request.namespace, name))

    async def create(self, request: Request[Book], new: Order) -> Order:
        key = request.namespace, new.metadata.name
        if key in request.state.orders:
            raise AlreadyExists
        request.state.put(key, new.amount)
        return request.state.orders[key]

    async def update(self, request: Request[Book], new: Order, old: Order) -> Order:
        key = request.namespace, new.metadata.name
        now = request.state.orders.get(key)
        if now is None:
            raise NotFound
        if now.metadata.revision != old.metadata.revision:
            raise Conflict
        request.state.put(key, new.amount)
        return request.state.orders[key]

    async def delete(self, request: Request[Book], old: Order) -> None:
        key = request.namespace, old.metadata.name
        if key not in request.state.orders:
            raise NotFound
        request.state.put(key, None)

    async def watch(self, request: WatchRequest[Book]) -> AsyncIterator[Event[Order] | Bookmark]:
        yield Bookmark(request.revision)
        async for entry in self.entries(request.state, int(request.revision)):
            yield self.event(entry)

    async def entries(self, book: Book, seen: int) -> AsyncIterator[Entry]:
        while True:
            book.changed.clear()
            for entry in [each for each in book.log if each.revision > seen]:
                seen = entry.revision
                yield entry
            await book.changed.wait()

    def event(self, entry: Entry) -> Event[Order]:
        if entry.after is None:
            assert entry.before is not None
            return Event("DELETED", at(entry.before, entry.revision))
        return Event("ADDED" if entry.before is None else "MODIFIED", entry.after, entry.before)


class FromNowOn(Functions):
    async def entries(self, book: Book, seen: int) -> AsyncIterator[Entry]:
        async for entry in super().entries(book, book.revision):
            yield entry


class WithoutDeletions(Functions):
    async def entries(self, book: Book, seen: int) -> AsyncIterator[Entry]:
        async for entry in super().entries(book, seen):
            if entry.after is not None:
                yield entry


class AllAdded(Functions):
    def event(self, entry: Entry) -> Event[Order]:
        return replace(super().event(entry), type="ADDED") if entry.after is not None else super().event(entry)


class AllModified(Functions):
    def event(self, entry: Entry) -> Event[Order]:
        return replace(super().event(entry), type="MODIFIED") if entry.after is not None else super().event(entry)


class OldIsNew(Functions):
    def event(self, entry: Entry) -> Event[Order]:
        event = super().event(entry)
        return event if event.old is None else replace(event, old=event.object)


class OneRevision(Functions):
    def event(self, entry: Entry) -> Event[Order]:
        event = super().event(entry)
        return replace(event, object=at(event.object, 7))


class NoRevision(Functions):
    def event(self, entry: Entry) -> Event[Order]:
        event = super().event(entry)
        metadata = {name: value for name, value in event.object.metadata.to_json().items() if name != "resourceVersion"}
        return replace(event, object=replace(event.object, metadata=Metadata.from_json(metadata)))


class ForgetsTheLog(Functions):
    """A second watch from the same revision is told nothing."""

    def __init__(self) -> None:
        self.calls = 0

    async def entries(self, book: Book, seen: int) -> AsyncIterator[Entry]:
        self.calls += 1
        async for entry in super().entries(book, seen if self.calls == 1 else book.revision):
            yield entry


class Ends(Functions):
    async def entries(self, book: Book, seen: int) -> AsyncIterator[Entry]:
        for entry in [each for each in book.log if each.revision > seen]:
            yield entry


class Fails(Functions):
    async def entries(self, book: Book, seen: int) -> AsyncIterator[Entry]:
        raise ConnectionError("lost")
        yield


class TellsRows(Functions):
    def event(self, entry: Entry) -> Any:
        return {"type": "ADDED"}


class ListWithoutRevision(Functions):
    async def list(self, request: ListRequest[Book]) -> Page[Order]:
        return replace(await super().list(request), revision="")


def declared(functions: Functions, *without: str) -> Any:
    app: App[Any] = App()
    handle = app.virtual("shop.example.com/v1", Order, revisions="source")
    for verb in ("list", "get", "create", "update", "delete", "watch"):
        if verb not in without:
            getattr(handle, verb)(getattr(functions, verb))
    return handle


def more(amount: Order) -> None:
    amount.amount += 1


async def check(functions: Functions, *without: str, seconds: float = 10.0, touches: bool = True) -> None:
    book = filled()

    async def touch() -> None:
        book.put(("a", "two"), 20)

    handle = declared(functions, *without)
    new = None if "create" in without else Order(Metadata("new", "b"), 7)
    change = None if "update" in without else more
    await check_source(handle, state=book, new=new, change=change, touch=touch if touches else None, seconds=seconds)


@pytest.mark.parametrize("without", [(), ("get",), ("create", "update", "delete"), ("create",)], ids=" ".join)
async def test_a_watch_that_keeps_the_contract(without: tuple[str, ...]) -> None:
    await check(Functions(), *without)


BROKEN: dict[str, tuple[type[Functions], str]] = {
    "from now on": (FromNowOn, "has not told of the change that touch has made between the list and the watch within 0.2 s"),
    "no deletions": (WithoutDeletions, "list has no b/new any more, and the watch has not told that it is gone"),
    "added twice": (AllAdded, "told ADDED of a/two, which is there already"),
    "never added": (AllModified, "told MODIFIED of b/new, which is not there"),
    "old": (OldIsNew, "told MODIFIED of a/two, and its old object is not what it was before"),
    "one revision": (OneRevision, "has not told of the change that touch has made"),
    "no revision": (NoRevision, "its revision is not given, as `revisions` promises"),
    "no history": (ForgetsTheLog, "has not told of the state when it was called for a second time within 0.2 s"),
    "an end": (Ends, "watch of orders.shop.example.com has ended"),
    "an error": (Fails, "watch of orders.shop.example.com raised ConnectionError: lost"),
    "rows": (TellsRows, "must yield an Event or a Bookmark"),
    "lists": (ListWithoutRevision, "revision"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_watch_is_told_of(name: str) -> None:
    functions, says = BROKEN[name]
    with pytest.raises(AssertionError, match=re.escape(says)):
        await check(functions(), seconds=0.2)


async def test_two_changes_with_one_revision() -> None:
    class Pairs(Functions):
        """Tells each change with the revision of the one before, too."""

        async def watch(self, request: WatchRequest[Book]) -> AsyncIterator[Event[Order] | Bookmark]:
            async for event in super().watch(request):
                yield event
                if isinstance(event, Event) and event.type == "ADDED":
                    yield Event("MODIFIED", replace(event.object, amount=9))

    with pytest.raises(AssertionError, match="told two changes with the revision 10"):
        await check(Pairs(), seconds=0.2)
