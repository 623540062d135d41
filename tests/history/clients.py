"""Clients of many kinds, each with a recording: reflectors, raw watchers, readers of lists in pages and of lists of the past.
Some of them watch over websockets.

They break their watches off at random events, stay away for some writes or none, and come back: from where they stand, from any
old revision, or with a new list, as their kind does. When the writers are done they go on until they stand at the end.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tests.history.recording import (
    Bookmark,
    Cut,
    Entry,
    Failed,
    Listed,
    Object,
    Opened,
    Recording,
    Selection,
    Told,
    revision_of,
)
from tests.history.wire import Gone, Refused, Shared, Wire, path_of
from tests.history.writers import COLORS, LABELS

__all__ = ["Client", "clients", "travellers", "witnesses"]

_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_EVENTS_END = "k8s.io/initial-events-end"

# Seconds of a watch: the server sends a bookmark two seconds before its end, so one comes soon after the last write.
_WATCH_SECONDS = "3"


class Client(ABC):
    """`table`: asks for Tables. `websocket`: watches over one.

    `stay`: events that it sees before it breaks off, on average; with 0 it never does.
    """

    follows = True

    def __init__(
        self,
        name: str,
        wire: Wire,
        shared: Shared,
        chance: random.Random,
        selection: Selection,
        *,
        table: bool = False,
        websocket: bool = False,
        stay: int = 40,
    ) -> None:
        self.recording = Recording(f"{name} of {selection}", selection, self.follows)
        self._wire = wire
        self._shared = shared
        self._chance = chance
        self._selection = selection
        self._table = table
        self._websocket = websocket
        self._stay = stay
        self._stands = 0
        self._broken = False  # by an error that only the checker can judge
        self.begun = asyncio.Event()  # it stands somewhere: from now on it misses nothing

    async def run(self) -> None:
        while not self._broken and not self._at_end():
            await self._shared.up.wait()
            try:
                await self._turn()
            except Gone:
                if self.begun.is_set() or not self.is_witness:  # the writers wait for witnesses to begin
                    await self._shared.progress.more(1)  # a sign of life
            if self._stay and self._chance.random() < 0.3:
                await self._shared.progress.more(self._chance.randrange(200))

    def _at_end(self) -> bool:
        """Whether it has seen all there is to see."""
        return self._shared.progress.over.is_set() and self._stands >= self._shared.last

    @property
    def is_witness(self) -> bool:
        return self._stay == 0

    @abstractmethod
    async def _turn(self) -> None:
        """A list or a watch, or both. Raises Gone."""

    def _record(self, entry: Entry) -> None:
        self.recording.entries.append(entry)

    async def _list(self, **query: str) -> bool:
        """Lists in one piece; False if it can't be had any more."""
        sent = self._shared.tick()
        page = await self._page(query)
        if page is None:
            return False
        asked = query.get("resourceVersion", "")
        exactly = int(asked) if query.get("resourceVersionMatch") == "Exact" else 0
        self._record(Listed(sent, [page[:2]], latest=not asked, exactly=exactly))
        self._stands = page[0]
        self.begun.set()
        return True

    async def _page(self, query: dict[str, str]) -> tuple[int, list[Object], str] | None:
        """(revision, items, token for the rest), None after an error, which is recorded."""
        accept = _TABLE if self._table else _METADATA_LIST if self._selection.metadata_only else _JSON
        status, answer = await self._wire.call("GET", self._path(), self._query() | query, accept=accept)
        if status != 200:
            self._fail(answer)
            return None
        items = answer["rows"] if self._table else answer["items"]
        metadata = answer["metadata"]
        return int(metadata["resourceVersion"]), [self._item(item) for item in items], metadata.get("continue", "")

    def _item(self, item: dict[str, Any]) -> Object:
        obj = item["object"] if self._table else item
        if self._selection.metadata_only:
            return {"metadata": obj["metadata"]}
        return self._shared.same(self._selection.resource, obj)

    async def _watch(self, opened: Opened, **query: str) -> None:
        """Watches until it has had enough, or the server has. Raises Gone."""
        self._record(opened)
        enough = self._chance.randint(1, 2 * self._stay) if self._stay else 0
        accept = _TABLE if self._table else _METADATA if self._selection.metadata_only else _JSON
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": _WATCH_SECONDS} | self._query() | query
        told = 0
        try:
            async with self._wire.watch(self._path(), query, accept, websocket=self._websocket) as events:
                async for event in events:
                    self._event(event)
                    if self._stands:
                        self.begun.set()
                    told += 1
                    if (told == enough and not self._shared.progress.over.is_set()) or self._at_end():
                        break
        except Refused as refused:
            self._fail(refused.status)
        finally:
            self._record(Cut())

    def _event(self, event: dict[str, Any]) -> None:
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            self._fail(obj)
        elif kind == "BOOKMARK":
            self._stands = int(obj["metadata"]["resourceVersion"])
            annotations = obj["metadata"].get("annotations", {})
            if self._table:
                annotations = obj["rows"][0]["object"]["metadata"].get("annotations", {}) if obj["rows"] else {}
            self._record(Bookmark(self._stands, annotations.get(_EVENTS_END) == "true"))
        else:
            seen = self._item(obj["rows"][0] if self._table else obj)
            self._record(Told(kind, seen))
            self._follow(revision_of(seen))

    def _fail(self, status: dict[str, Any]) -> None:
        failed = Failed(status.get("code", 0), status.get("reason", ""), status.get("message", ""))
        stopping = failed.code == 503 and not self._shared.up.is_set()
        if stopping or ((failed.code >= 500 or failed.code == 429) and self._shared.shaken):
            raise Gone(failed.message)
        self._record(failed)
        self._stands = 0
        self._broken = not failed.expired

    def _follow(self, revision: int) -> None:
        self._stands = revision

    def _path(self) -> str:
        return path_of(self._selection.resource, self._selection.namespace)

    def _query(self) -> dict[str, str]:
        query = {}
        fields = [f"metadata.name={self._selection.name}"] if self._selection.name else []
        if self._selection.field is not None:
            fields.append(f"spec.{self._selection.field[0]}={self._selection.field[1]}")
        if fields:
            query["fieldSelector"] = ",".join(fields)
        if self._selection.label is not None:
            query["labelSelector"] = "=".join(self._selection.label)
        if self._table and not self._selection.metadata_only:
            query["includeObject"] = "Object"
        return query


class Reflector(Client):
    """Lists, and watches from there; comes back from where it stands, and lists anew when that is too old."""

    async def _turn(self) -> None:
        if not self._stands:
            query = {} if self._chance.random() < 0.5 else {"resourceVersion": "0"}
            if not await self._list(**query):
                return
        await self._watch(Opened(self._shared.tick(), self._stands), resourceVersion=str(self._stands))


class StreamingReflector(Client):
    """The same with a watch that begins with the objects of now, and says where they end (WatchList)."""

    _initial = False

    async def _turn(self) -> None:
        if self._stands:
            await self._watch(Opened(self._shared.tick(), self._stands), resourceVersion=str(self._stands))
            return
        latest = self._chance.random() < 0.5
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        await self._watch(
            Opened(self._shared.tick(), 0, marked=True, latest=latest), resourceVersion="" if latest else "0", **query
        )

    def _event(self, event: dict[str, Any]) -> None:
        self._initial = self._initial and event["type"] != "BOOKMARK"
        super()._event(event)

    async def _watch(self, opened: Opened, **query: str) -> None:
        self._initial = opened.marked
        await super()._watch(opened, **query)

    def _follow(self, revision: int) -> None:
        if not self._initial:
            self._stands = revision


class PlainWatcher(Client):
    """Watches without a list; begins anew each time. Only with bookmarks is it told where the objects of now end."""

    async def _turn(self) -> None:
        self._stands = 0
        query = self._chance.choice(({}, {"resourceVersion": "0"}))
        bookmarks = self._shared.progress.over.is_set() or self._chance.random() < 0.5
        opened = Opened(self._shared.tick(), 0, marked=bookmarks, latest=not query)
        await self._watch(opened, allowWatchBookmarks=str(bookmarks).lower(), **query)

    def _follow(self, revision: int) -> None:
        """The newest object may come first; only a bookmark says where it stands."""


class Historian(Client):
    """Watches from any revision there ever was, anew each time."""

    follows = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._highest = 0

    async def _turn(self) -> None:
        if not self._stands or self._chance.random() < 0.2:
            if not await self._list():
                return
            self._highest = max(self._highest, self._stands)
        far = self._chance.choice((20, 5000))
        await self._look_back(self._chance.randint(max(1, self._highest - far), self._highest))
        self._highest = max(self._highest, self._stands)

    async def _look_back(self, revision: int) -> None:
        await self._watch(Opened(self._shared.tick(), revision), resourceVersion=str(revision))

    def _at_end(self) -> bool:
        return self._shared.progress.over.is_set()


class Rememberer(Historian):
    """Lists as of any revision there ever was."""

    async def _look_back(self, revision: int) -> None:
        await self._list(resourceVersion=str(revision), resourceVersionMatch="Exact")


class Pager(Client):
    """Lists in pages, slowly; begins anew when the rest is too old to be had."""

    follows = False

    async def _turn(self) -> None:
        sent = self._shared.tick()
        limit = str(self._chance.randint(1, 4))
        pages: list[tuple[int, list[Object]]] = []
        token = ""
        while token or not pages:
            page = await self._page({"limit": limit} | ({"continue": token} if token else {}))
            if page is None:
                return
            pages.append(page[:2])
            token = page[2]
            await self._shared.progress.more(self._chance.randrange(20))
        self._record(Listed(sent, pages, latest=True))

    def _at_end(self) -> bool:
        return self._shared.progress.over.is_set()


def clients(wire: Wire, shared: Shared, chance: random.Random) -> list[Client]:
    """Every kind of client, and every kind of selection."""
    everything, signs = Selection("notes"), Selection("signs")
    default = Selection("notes", "default")
    sales = Selection("notes", label=("team", LABELS[0]))
    support = Selection("notes", "other", label=("team", LABELS[1]))
    red = Selection("notes", field=("color", COLORS[0]))
    both = Selection("notes", "default", label=("team", LABELS[0]), field=("color", COLORS[1]))
    single, sign = Selection("notes", "default", "note-3"), Selection("signs", name="sign-2")
    names = Selection("notes", metadata_only=True)

    make = _maker(wire, shared, chance)
    return [
        *witnesses(wire, shared, chance),
        *(make(Reflector, selection) for selection in (everything, signs, default, sales, red, single, names)),
        *(make(StreamingReflector, selection) for selection in (everything, default, support, red, both, sign, names)),
        *(make(PlainWatcher, selection) for selection in (everything, sales, single, both)),
        *(make(Historian, selection) for selection in (everything, signs, support, red, single)),
        *(make(Rememberer, selection) for selection in (everything, default, sales)),
        *(make(Pager, selection) for selection in (everything, signs, sales)),
        make(Reflector, everything, table=True),
        make(StreamingReflector, Selection("notes", label=("team", LABELS[1]), metadata_only=True), table=True),
        *(make(Reflector, selection, websocket=True) for selection in (everything, sales)),
        make(StreamingReflector, default, websocket=True),
        make(Historian, red, websocket=True),
    ]


def travellers(wire: Wire, shared: Shared, chance: random.Random) -> list[Client]:
    """Those who go on while all objects move to another server and back.

    Lists in pages and lists of the past are left out: what a client asks of the server that has the objects again, by a revision
    of the server that had them meanwhile, is no state that ever was. Metadata alone is not enough to know a moved object by. A
    client that watches without a list may not be told where it stands, which says too little of when an object went.
    """
    everything, signs = Selection("notes"), Selection("signs")
    sales, red = Selection("notes", label=("team", LABELS[0])), Selection("notes", field=("color", COLORS[0]))
    make = _maker(wire, shared, chance)
    return [
        *witnesses(wire, shared, chance),
        *(make(Reflector, selection) for selection in (everything, signs, Selection("notes", "default"), red)),
        *(make(StreamingReflector, selection) for selection in (everything, sales)),
        *(make(Historian, selection) for selection in (everything, sales)),
        make(Reflector, everything, table=True),
        make(Reflector, sales, websocket=True),
    ]


def _maker(wire: Wire, shared: Shared, chance: random.Random) -> Callable[..., Client]:
    def make(kind: Callable[..., Client], selection: Selection, **options: Any) -> Client:
        name = kind.__name__ + " of Tables" * options.get("table", False) + " over a websocket" * options.get("websocket", False)
        return kind(name, wire, shared, random.Random(chance.random()), selection, **options)

    return make


def witnesses(wire: Wire, shared: Shared, chance: random.Random) -> list[Client]:
    """Those who see everything there is and never stay away, so that everything is seen by somebody: `observe` waits for them."""
    return [
        Reflector("witness", wire, shared, random.Random(chance.random()), Selection("notes"), stay=0),
        StreamingReflector("witness", wire, shared, random.Random(chance.random()), Selection("signs"), stay=0),
    ]
