"""check_source: sources that keep the contract pass, and each that breaks a rule of it fails with words that say which."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from aggserver import (
    AlreadyExists,
    App,
    Changed,
    Conflict,
    Forbidden,
    Gone,
    ListRequest,
    Metadata,
    NotFound,
    Page,
    Relist,
    Request,
    Virtual,
)
from aggserver.testing import check_source

Key = tuple[str, str]


@dataclass
class Machine:
    metadata: Metadata
    size: int = 0
    site: str = "north"


@dataclass(frozen=True)
class Row:
    size: int = 0
    site: str = "north"
    version: int = 1
    labels: tuple[tuple[str, str], ...] = ()


class Table:
    """A database. told: what each feed has to tell, by feed."""

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {("a", "one"): Row(1), ("a", "two"): Row(2, "south"), ("b", "one"): Row(3)}
        self.told: list[asyncio.Queue[Key]] = []
        self.calls = 0

    def put(self, key: Key, row: Row | None) -> None:
        if row is None:
            del self.rows[key]
        else:
            self.rows[key] = row
        for queue in self.told:
            queue.put_nowait(key)


def machine(key: Key, row: Row) -> Machine:
    metadata = Metadata(key[1], key[0], labels=dict(row.labels), generation=row.version, revision=f"v{row.version}")
    return Machine(metadata, row.size, row.site)


class Functions:
    """The functions of a good source; a test replaces some of them."""

    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        rows = sorted(request.state.rows.items())
        start = int(request.cursor or 0)
        end = start + (request.limit or 2)
        return Page([machine(*each) for each in rows[start:end]], str(end) if end < len(rows) else None)

    async def get(self, request: Request[Table], name: str) -> Machine | None:
        key = request.namespace, name
        row = request.state.rows.get(key)
        return None if row is None else machine(key, row)

    async def create(self, request: Request[Table], new: Machine) -> Machine | None:
        key = new.metadata.namespace, new.metadata.name
        if key in request.state.rows:
            raise AlreadyExists
        row = Row(new.size, new.site)
        if not request.dry_run:
            request.state.put(key, row)
        return machine(key, row)

    async def update(self, request: Request[Table], new: Machine, old: Machine) -> Machine | None:
        key = new.metadata.namespace, new.metadata.name
        row = request.state.rows.get(key)
        if row is None:
            raise NotFound
        if row.version != old.metadata.generation:
            raise Conflict
        row = replace(row, size=new.size, site=new.site, version=row.version + 1)
        if not request.dry_run:
            request.state.put(key, row)
        return machine(key, row)

    def delete(self, request: Request[Table], old: Machine) -> None:
        key = old.metadata.namespace, old.metadata.name
        if key not in request.state.rows:
            raise NotFound
        request.state.put(key, None)

    async def feed(self, table: Table) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
        queue: asyncio.Queue[Key] = asyncio.Queue()
        table.told.append(queue)
        yield Relist()
        while True:
            key = await queue.get()
            yield Changed(machine(key, table.rows[key])) if key in table.rows else Gone(key[1], key[0])


class Keeping(Functions):
    """Keeps all of what clients write into metadata."""

    members = ("labels", "annotations", "finalizers", "ownerReferences", "managedFields", "deletionTimestamp")

    def __init__(self) -> None:
        self.kept: dict[Key, dict[str, Any]] = {}

    def whole(self, value: Machine) -> Machine:
        metadata = value.metadata.to_json()
        key = metadata["namespace"], metadata["name"]
        return replace(value, metadata=Metadata.from_json({**metadata, **self.kept.get(key, {})}))

    def keep(self, value: Machine) -> None:
        metadata = value.metadata.to_json()
        self.kept[metadata["namespace"], metadata["name"]] = {name: metadata[name] for name in self.members if name in metadata}

    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        page = super().list(request)
        return Page([self.whole(each) for each in page.items], page.cursor)

    async def get(self, request: Request[Table], name: str) -> Machine | None:
        found = await super().get(request, name)
        return None if found is None else self.whole(found)

    async def update(self, request: Request[Table], new: Machine, old: Machine) -> Machine | None:
        await super().update(request, new, old)
        if not request.dry_run:
            self.keep(new)
        return new if request.dry_run else None


def grown(value: Machine) -> None:
    value.size += 1


Declare = Callable[..., Any]


def declared(functions: Any, *without: str, dry_run: bool = True, **more: Any) -> Virtual[Table, Machine]:
    app: App[Any] = App()
    handle = app.virtual("dc.example.com/v1", Machine, selectable=[".site"], **more)
    for verb in ("list", "get", "create", "update", "delete", "feed"):
        if verb in without or not hasattr(functions, verb):
            continue
        function = getattr(functions, verb)
        if dry_run and verb in ("create", "update"):
            getattr(handle, verb)(dry_run=True)(function)
        else:
            getattr(handle, verb)(function)
    return handle


async def check(handle: Virtual[Table, Machine], table: Table | None = None, **more: Any) -> None:
    functions = handle.functions
    if functions.create is not None:
        more.setdefault("new", Machine(Metadata("new", "b"), 7))
    if functions.update is not None:
        more.setdefault("change", grown)
    await check_source(handle, state=table or Table(), **more)


@pytest.mark.parametrize(
    "without",
    [
        (),
        ("feed",),
        ("feed", "get"),
        ("create", "update", "delete"),
        ("feed", "create", "update", "delete"),
        ("feed", "create"),
        ("create",),
        ("feed", "delete"),
        ("feed", "list", "update", "delete"),
    ],
    ids=" ".join,
)
async def test_a_good_source_passes(without: tuple[str, ...]) -> None:
    table = Table()
    before = dict(table.rows)
    await check(declared(Functions(), *without), table)
    if "delete" not in without and "create" not in without:
        assert table.rows == before  # what was made is removed


async def test_a_polled_source_passes() -> None:
    await check(declared(Functions(), "feed", poll=30))


async def test_a_source_that_keeps_metadata_passes() -> None:
    await check(declared(Keeping(), "feed", keeps="metadata"))


async def test_an_empty_source_passes() -> None:
    table = Table()
    table.rows.clear()
    await check(declared(Functions()), table)


async def test_functions_without_dry_runs_are_not_called_in_one() -> None:
    class Careless(Functions):
        async def create(self, request: Request[Table], new: Machine) -> Machine | None:
            assert not request.dry_run
            return await super().create(request, new)

    await check(declared(Careless(), dry_run=False))


async def test_changes_by_others_reach_the_feed() -> None:
    table = Table()

    async def touch() -> None:
        table.put(("a", "one"), Row(9))

    await check(declared(Functions(), "create", "update", "delete"), table, touch=touch)


class UnstableList(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        request.state.calls += 1
        return Page([Machine(Metadata("one", "a"), request.state.calls)])


class UnstableUid(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        request.state.calls += 1
        return Page([Machine(Metadata("one", "a", uid=f"uid-{request.state.calls}"))])


class OneUid(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        return Page([Machine(Metadata(name, "a", uid="the-uid")) for name in ("one", "two")])


class Twice(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        return Page([Machine(Metadata("one", "a"))] * 2)


class NoNamespace(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        return Page([Machine(Metadata("one"))])


class BadName(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        return Page([Machine(Metadata("Web Server", "a"))])


class NoList(Functions):
    def list(self, request: ListRequest[Table]) -> Any:
        return None


class FailingList(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        raise KeyError("rows")


class LeadingZeros(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        return Page([Machine(Metadata("one", "a", revision="007"))])


class LosesAPage(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        page = super().list(request)
        return Page(page.items, page.cursor if not request.limit else None)


class Overlaps(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        if request.limit and request.cursor:
            request = replace(request, cursor=str(int(request.cursor) - 1), limit=request.limit + 1)
        return super().list(request)


class SameCursor(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        return Page([], "next")


class CursorOnce(Functions):
    """Keeps the rest of a list at the cursor, and forgets it when it is fetched."""

    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        request.state.calls += 1
        if request.limit and request.state.calls % 2:
            request = replace(request, cursor="2")
        return super().list(request)


class WrongFilter(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        site = request.fields.exact("site")
        rows = sorted(request.state.rows.items())
        return Page([machine(key, row) for key, row in rows if site is None or row.site == site.upper()])


class SaysFiltered(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        rows = sorted(request.state.rows.items())
        return Page([machine(*each) for each in rows], filtered=True)


class WrongNamespace(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        rows = sorted(request.state.rows.items())
        return Page([machine(key, row) for key, row in rows if not request.namespace or key[0] < request.namespace])


class OtherGet(Functions):
    async def get(self, request: Request[Table], name: str) -> Machine | None:
        found = await super().get(request, name)
        return None if found is None else replace(found, size=-1)


class GetMisses(Functions):
    async def get(self, request: Request[Table], name: str) -> Machine | None:
        return None


class GetIgnoresNamespace(Functions):
    async def get(self, request: Request[Table], name: str) -> Machine | None:
        return next(
            (
                Machine(Metadata(name, request.namespace, generation=row.version, revision=f"v{row.version}"), row.size, row.site)
                for key, row in request.state.rows.items()
                if key[1] == name and request.namespace in (key[0], "no-such-object-of-check-source")
            ),
            None,
        )


class GetRaises(Functions):
    async def get(self, request: Request[Table], name: str) -> Machine | None:
        key = request.namespace, name
        return machine(key, request.state.rows[key])


class GetMakesUp(Functions):
    async def get(self, request: Request[Table], name: str) -> Machine | None:
        key = request.namespace, name
        known = any(each[1] == name for each in request.state.rows)
        found = await super().get(request, name)
        return found or (None if known else machine(key, Row()))


class Overwrites(Functions):
    async def create(self, request: Request[Table], new: Machine) -> Machine | None:
        if not request.dry_run:
            request.state.rows.pop((new.metadata.namespace, new.metadata.name), None)
        return await super().create(request, new)


class RefusesAndOverwrites(Functions):
    async def create(self, request: Request[Table], new: Machine) -> Machine | None:
        key = new.metadata.namespace, new.metadata.name
        if key in request.state.rows and not request.dry_run:
            request.state.put(key, Row(99))
        return await super().create(request, new)


class DryCreates(Functions):
    async def create(self, request: Request[Table], new: Machine) -> Machine | None:
        return await super().create(replace(request, dry_run=False), new)


class OtherExists(Functions):
    async def create(self, request: Request[Table], new: Machine) -> Machine | None:
        try:
            return await super().create(request, new)
        except AlreadyExists:
            raise Forbidden("there is one") from None


class CreatesLater(Functions):
    async def create(self, request: Request[Table], new: Machine) -> Machine | None:
        return machine((new.metadata.namespace, new.metadata.name), Row(new.size))


class ReturnsWhatItGot(Functions):
    async def create(self, request: Request[Table], new: Machine) -> Machine | None:
        await super().create(request, replace(new, size=new.size + 1))
        return new


class RefusesNew(Functions):
    async def create(self, request: Request[Table], new: Machine) -> Machine | None:
        raise Forbidden("not today")


class NoSwap(Functions):
    async def update(self, request: Request[Table], new: Machine, old: Machine) -> Machine | None:
        key = new.metadata.namespace, new.metadata.name
        if (row := request.state.rows.get(key)) is not None:
            old.metadata.generation = row.version
        return await super().update(request, new, old)


class SwapsAndRefuses(Functions):
    async def update(self, request: Request[Table], new: Machine, old: Machine) -> Machine | None:
        key = new.metadata.namespace, new.metadata.name
        row = request.state.rows.get(key)
        if row is not None and row.version != old.metadata.generation:
            request.state.put(key, replace(row, size=99))
        return await super().update(request, new, old)


class AlwaysConflict(Functions):
    """Compares a revision of its own, which a mirror does not keep."""

    async def update(self, request: Request[Table], new: Machine, old: Machine) -> Machine | None:
        row = request.state.rows.get((new.metadata.namespace, new.metadata.name))
        if row is not None and old.metadata.revision != f"v{row.version}":
            raise Conflict
        return await super().update(request, new, old)


class StoresNothing(Functions):
    async def update(self, request: Request[Table], new: Machine, old: Machine) -> Machine | None:
        return await super().update(request, replace(new, size=old.size), old)


class SameRevision(Functions):
    def list(self, request: ListRequest[Table]) -> Page[Machine]:
        rows = request.state.rows.items()
        return Page([Machine(Metadata(*reversed(key), revision="v1", generation=row.version), row.size) for key, row in rows])

    async def create(self, request: Request[Table], new: Machine) -> Machine | None:
        await super().create(request, new)
        return Machine(Metadata(new.metadata.name, new.metadata.namespace, revision="v1", generation=1), new.size)

    async def update(self, request: Request[Table], new: Machine, old: Machine) -> Machine | None:
        made = await super().update(request, new, old)
        assert made is not None
        made.metadata.revision = "v1"
        return made


class DryUpdates(Functions):
    async def update(self, request: Request[Table], new: Machine, old: Machine) -> Machine | None:
        return await super().update(replace(request, dry_run=False), new, old)


class UpdateRevives(Functions):
    async def update(self, request: Request[Table], new: Machine, old: Machine) -> Machine | None:
        key = new.metadata.namespace, new.metadata.name
        if key not in request.state.rows:
            request.state.put(key, Row(new.size))
            raise NotFound
        return await super().update(request, new, old)


class DeletesLater(Functions):
    def delete(self, request: Request[Table], old: Machine) -> None:
        return None


class DeletesTwice(Functions):
    def delete(self, request: Request[Table], old: Machine) -> None:
        request.state.rows.pop((old.metadata.namespace, old.metadata.name), None)


class DeletesMore(Functions):
    def delete(self, request: Request[Table], old: Machine) -> None:
        super().delete(request, old)
        request.state.put(("b", "one"), None)


class KeepsForEver(Keeping):
    def keep(self, value: Machine) -> None:
        before = self.kept.get((value.metadata.namespace, value.metadata.name), {})
        super().keep(value)
        self.kept[value.metadata.namespace, value.metadata.name].update(before)


class LosesTheDeletion(Keeping):
    members = Keeping.members[:-1]


class FeedSubscribesLater(Functions):
    async def feed(self, table: Table) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
        yield Relist()
        async for change in super().feed(table):
            if not isinstance(change, Relist):
                yield change


class FeedWithoutRelist(Functions):
    async def feed(self, table: Table) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
        yield Changed(machine(("a", "one"), table.rows["a", "one"]))
        await asyncio.Event().wait()


class SilentFeed(Functions):
    async def feed(self, table: Table) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
        await asyncio.Event().wait()
        yield Relist()


class FeedWithoutDeletions(Functions):
    async def feed(self, table: Table) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
        async for change in super().feed(table):
            if not isinstance(change, Gone):
                yield change


class FeedOfOldStates(Functions):
    async def feed(self, table: Table) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
        async for change in super().feed(table):
            yield Changed(replace(change.object, size=0)) if isinstance(change, Changed) else change


class FeedEnds(Functions):
    async def feed(self, table: Table) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
        yield Relist()


class FeedFails(Functions):
    async def feed(self, table: Table) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
        yield Relist()
        raise ConnectionError("lost")


class FeedOfRows(Functions):
    async def feed(self, table: Table) -> AsyncIterator[Any]:
        yield Relist()
        yield {"name": "one"}


class FeedOnlyOnce(Functions):
    async def feed(self, table: Table) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
        if table.told:
            await asyncio.Event().wait()
        async for change in super().feed(table):
            yield change


class FeedStaysAlive(Functions):
    async def feed(self, table: Table) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
        yield Relist()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()


@dataclass(frozen=True)
class Broken:
    """says: of the message. without: functions that it does not have."""

    functions: type[Functions]
    says: str
    without: tuple[str, ...] = ("feed",)
    more: dict[str, Any] = field(default_factory=dict)


NO_WRITES = ("feed", "create", "update", "delete")
ONLY_LIST = (*NO_WRITES, "get")
FOLLOWED = ("create", "update", "delete")

BROKEN: Iterable[Broken] = (
    Broken(UnstableList, "list of machines.dc.example.com was called twice, and of a/one .size was 1 and is 2", ONLY_LIST),
    Broken(UnstableUid, "the uid of a/one was uid-1 and is uid-2: a uid must stay", ONLY_LIST),
    Broken(OneUid, "a/one and a/two have the same uid the-uid", ONLY_LIST),
    Broken(Twice, "would not be shown: /dc.example.com/machines/a/one is in the list twice", ONLY_LIST),
    Broken(NoNamespace, "would not be shown: one: its namespace is not given", ONLY_LIST),
    Broken(BadName, "would not be shown: 'Web Server' can't be a name", ONLY_LIST),
    Broken(NoList, "must return a Page or objects, not NoneType", ONLY_LIST),
    Broken(FailingList, "list of machines.dc.example.com raised KeyError: 'rows'", ONLY_LIST),
    Broken(LeadingZeros, "'007' can't be a revision: it is a number, or begins with a letter", ONLY_LIST),
    Broken(LosesAPage, "a/two was missing afterwards: pages must add up to the list", ONLY_LIST),
    Broken(Overlaps, "returned a/one in two pages", ONLY_LIST),
    Broken(SameCursor, "returned the cursor 'next' for the page that it was asked for", ONLY_LIST),
    Broken(CursorOnce, "returned another page for the cursor '' when it was called with it again", ONLY_LIST),
    Broken(WrongFilter, "with the field selector site=north, left out a/one", ONLY_LIST),
    Broken(SaysFiltered, "returned a/two for site=north, which it does not match, in a page with filtered=True", ONLY_LIST),
    Broken(WrongNamespace, "asked for the namespace a, left out a/one", ONLY_LIST),
    Broken(OtherGet, "get of machines.dc.example.com returned another a/one than list: .size was 1 and is -1", NO_WRITES),
    Broken(GetMisses, "found no a/one, which list has returned", NO_WRITES),
    Broken(GetIgnoresNamespace, "found one in a namespace that it is not in: look at request.namespace", NO_WRITES),
    Broken(GetRaises, "asked for no-such-object-of-check-source/one, raised KeyError", NO_WRITES),
    Broken(GetMakesUp, "found an object for a name that nobody has: it must return None", NO_WRITES),
    Broken(Overwrites, "create of machines.dc.example.com must raise AlreadyExists, and did not: b/new was created twice"),
    Broken(RefusesAndOverwrites, "a second create of b/new was refused, and it is not as before it: .size was 7 and is 99"),
    Broken(DryCreates, "called in a dry run, and b/new was only there afterwards: nothing may change"),
    Broken(OtherExists, "create of machines.dc.example.com must raise AlreadyExists, and raised Forbidden"),
    Broken(CreatesLater, "get finds no b/new after create: a write must be over when its function returns"),
    Broken(CreatesLater, "list has no b/new after create", ("feed", "get")),
    Broken(ReturnsWhatItGot, "create of machines.dc.example.com returned another b/new than get does now: its revision was ''"),
    Broken(ReturnsWhatItGot, "create of machines.dc.example.com returned another b/new than list", ("feed", "get")),
    Broken(RefusesNew, "create of machines.dc.example.com, in a dry run, raised Forbidden", ()),
    Broken(NoSwap, "update of machines.dc.example.com must raise Conflict, and did not: b/new had changed since old was read"),
    Broken(NoSwap, "must raise Conflict, and did not: a/one had changed since old was read", ("feed", "create", "delete")),
    Broken(SwapsAndRefuses, "raised Conflict, and has changed b/new nevertheless"),
    Broken(AlwaysConflict, "update of machines.dc.example.com, in a dry run, raised Conflict", ("feed",), {"poll": 30}),
    Broken(StoresNothing, "update of machines.dc.example.com of b/new has not stored what it was given: .size was given as 8"),
    Broken(SameRevision, "an update left the revision of b/new from 'v1' at 'v1'", ("feed", "get")),
    Broken(DryUpdates, "called in a dry run, and of b/new its revision was 'v1' and is 'v2'"),
    Broken(UpdateRevives, "update of machines.dc.example.com has made b/new again, which was gone"),
    Broken(DeletesLater, "get still finds b/new after delete"),
    Broken(DeletesLater, "list still has b/new after delete", ("feed", "get")),
    Broken(DeletesTwice, "delete of machines.dc.example.com must raise NotFound, and did not: b/new was gone"),
    Broken(DeletesMore, "after all writes were undone, b/one was missing afterwards: a write must leave all other objects alone"),
    Broken(Functions, 'has keeps="metadata", and lost metadata.labels of b/new', ("feed",), {"keeps": "metadata"}),
    Broken(LosesTheDeletion, "lost metadata.deletionTimestamp of b/new", ("feed",), {"keeps": "metadata"}),
    Broken(KeepsForEver, "metadata.labels of b/new was taken away, and is still there", ("feed",), {"keeps": "metadata"}),
    Broken(FeedSubscribesLater, "has not told of the create of b/new within 0.2 s: list has b/new, and the feed", ()),
    Broken(FeedWithoutRelist, "began with Changed: subscribe, and then yield Relist() first", FOLLOWED),
    Broken(SilentFeed, "has yielded nothing for 0.2 s: it must begin with Relist()", FOLLOWED),
    Broken(FeedWithoutDeletions, "has not told of the delete of b/new within 0.2 s: list has no b/new any more", ()),
    Broken(FeedOfOldStates, "has not told of the create of b/new within 0.2 s: list has another b/new", ()),
    Broken(FeedEnds, "feed of machines.dc.example.com has ended: it must go on as long as the server runs", ()),
    Broken(FeedFails, "feed of machines.dc.example.com raised ConnectionError: lost", ()),
    Broken(FeedOfRows, "yielded dict: it may yield Changed, Gone and Relist", ()),
    Broken(FeedOnlyOnce, "has yielded nothing for 0.2 s", FOLLOWED),
    Broken(FeedStaysAlive, "did not end when it was cancelled: the server could not stop", FOLLOWED),
)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: f"{each.functions.__name__} without {' '.join(each.without)}")
async def test_a_broken_source_is_told_of(broken: Broken) -> None:
    handle = declared(broken.functions(), *broken.without, **broken.more)
    with pytest.raises(AssertionError, match=re.escape(broken.says)):
        await check(handle, seconds=0.2)


async def test_what_was_made_is_removed_after_a_failure() -> None:
    table = Table()
    before = dict(table.rows)
    with pytest.raises(AssertionError):
        await check(declared(NoSwap(), "feed"), table)
    assert table.rows == before


async def test_a_dict_that_is_not_as_its_schema_says() -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    for obj, says in (
        ({"size": "big"}, "is not as its schema says: size: Invalid value"),
        ({"age": 1}, "age: is not in the schema"),
    ):
        app: App[None] = App()
        handle = app.virtual("dc.example.com/v1", kind="Machine", schema=schema, scope="Cluster")
        handle.list(lambda request, obj=obj: [{"metadata": {"name": "one"}, **obj}])  # type: ignore[misc]
        with pytest.raises(AssertionError, match=re.escape(says)):
            await check_source(handle)


@pytest.mark.parametrize(
    ("without", "given", "says"),
    [
        ((), {"change": grown}, "has create: check_source needs new="),
        (("create",), {}, "has update: check_source needs change="),
        (("list", "get", "create", "update", "feed"), {}, "has neither a list nor a get function"),
    ],
)
async def test_what_is_missing(without: tuple[str, ...], given: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=re.escape(says)):
        await check_source(declared(Functions(), *without), state=Table(), **given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"new": Machine(Metadata("one", "a"))}, "new=a/one is there already"),
        ({"change": lambda value: value}, "change has changed nothing"),
    ],
)
async def test_what_is_given_wrong(given: dict[str, Any], says: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        await check(declared(Functions()), **given)
