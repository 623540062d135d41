"""What a server relies on when it writes: that nothing is overwritten which it has not seen.

The server reads an object, lets the client change it, and calls `update` with both states. Between the read and the call somebody
else may have changed it: only the source can know, by comparing and swapping in one step. It says so by Conflict, and the server
begins anew with the newest state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.resources.errors import AlreadyExists, Conflict, NotFound
from aggserver.storage import keys
from aggserver.testing.source_contract.asked import Asked, Item, difference, naming, raised_by, shown, told
from aggserver.testing.source_contract.follower import Follower
from aggserver.testing.source_contract.reads import check_schema, same

__all__ = ["Writes"]

# What a source must keep that keeps metadata. An owner of a uid that nobody has is only a row like others to a source.
_METADATA: JSONObject = {
    "labels": {"aggserver.check/source": "checked"},
    "annotations": {"aggserver.check/source": "Checked, with a comma"},
    "finalizers": ["aggserver.check/source"],
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "00000000-0000-4000-8000-000000000000"}
    ],
    "deletionTimestamp": "2026-01-02T03:04:05Z",
    "managedFields": [
        {
            "manager": "check-source",
            "operation": "Apply",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:aggserver.check/source": {}}}},
        }
    ],
}

Change = Callable[[Any], Any]


class Writes:
    """new: an object that is not there yet. change: changes an object in place, or returns another one.

    followed: a feed or a watch, which has to tell of each write.
    """

    def __init__(self, asked: Asked, new: Any, change: Change | None, followed: Follower | None) -> None:
        self._asked = asked
        self._followed = followed
        self._change = change
        self._new = asked.made(new) if new is not None else None

    async def check(self) -> None:
        functions = self._asked.functions
        before = await self._asked.all()
        changed = ""
        if functions.create is not None:
            assert self._new is not None
            await self._check_new(self._new)
        elif functions.update is not None:
            changed = await self._check_existing(before)
        after = await self._asked.all()
        if functions.create is None or functions.delete is not None:
            for items in (before, after):
                items.pop(changed, None)  # it was changed back, and may count how often it was changed
            same(before, after, "after all writes were undone,", "a write must leave all other objects alone")

    async def _check_new(self, obj: JSONObject) -> None:
        """An object that is made, changed and removed."""
        asked = self._asked
        metadata = obj["metadata"]
        key = asked.key(metadata.get("namespace", ""), metadata["name"])
        if await asked.now(key) is not None:
            raise AssertionError(f"new={shown(key)} is there already: check_source needs an object that is not")
        await self._check_dry_run("create", lambda: asked.create(obj, dry_run=True))
        try:
            item = await self._create(obj, key)
            await self._refuses(lambda: asked.create(obj), "create", AlreadyExists, f"{shown(key)} was created twice")
            if (now := await asked.now(key)) is None or (text := difference(item, now)):
                raise AssertionError(
                    f"a second create of {shown(key)} was refused, and it is not as before it: {text if now else 'it is gone'}"
                )
            if asked.declaration.keeps == "metadata":
                item = await self._check_kept(item)
            if asked.functions.update is not None:
                item = await self._check_updates(item)
            if asked.functions.delete is not None:
                await self._check_delete(item)
        finally:
            if asked.functions.delete is not None:
                with suppress(Exception):
                    if (left := await asked.now(key)) is not None:
                        await asked.delete(asked.current(left))

    async def _check_existing(self, items: dict[str, Item]) -> str:
        """The first object that is there, which is changed and then changed back. Returns its key."""
        if not items:
            raise AssertionError(
                f"{self._asked.function('list')} returned nothing, so update can't be tried: put an object there"
            )
        item = next(iter(items.values()))
        changed = await self._check_updates(item)
        old = self._asked.current(changed)
        back = {**item.decoded(), "metadata": {**old["metadata"]}}
        with naming(f"{self._asked.function('update')}, which changes {shown(item.key)} back,"):
            await self._asked.update(back, old)
        return item.key

    # --- create ---

    async def _create(self, obj: JSONObject, key: str) -> Item:
        with naming(f"{self._asked.function('create')} of {shown(key)}"):
            item = await self._asked.create(obj)
        await self._check_written(item, key, "create")
        return item

    async def _check_written(self, item: Item, key: str, verb: str) -> None:
        """That reads show what a write has returned."""
        asked = self._asked
        if item.key != key:
            raise AssertionError(
                f"{asked.function(verb)} of {shown(key)} returned {shown(item.key)}: a write can't change the name"
            )
        check_schema(asked, item, verb)
        if asked.functions.get is not None:
            found = await asked.get(*keys.split(key)[2:])
            if found is None:
                raise AssertionError(f"get finds no {shown(key)} after {verb}: a write must be over when its function returns")
            if text := difference(item, found):
                raise AssertionError(
                    f"{asked.function(verb)} returned another {shown(key)} than get does now: {text}. Return it as it is stored, "
                    "or None to let get tell"
                )
        if asked.functions.list is not None:
            listed = (await asked.all()).get(key)
            if listed is None:
                raise AssertionError(f"list has no {shown(key)} after {verb}: a write must be over when its function returns")
            if text := difference(item, listed):
                raise AssertionError(f"{asked.function(verb)} returned another {shown(key)} than list does now: {text}")
        await self._told(f"{verb} of {shown(key)}")

    async def _check_kept(self, item: Item) -> Item:
        """All metadata of clients, given at creation or by an update."""
        asked = self._asked
        if asked.functions.update is None:
            return item
        old = asked.current(item)
        given = {**old, "metadata": {**old["metadata"], **_METADATA}}
        with naming(f"{asked.function('update')}, which adds metadata to {shown(item.key)},"):
            changed = await asked.update(given, old)
        await self._check_written(changed, item.key, "update")
        kept = changed.decoded()["metadata"]
        for member, value in _METADATA.items():
            if kept.get(member) != value:
                raise AssertionError(
                    f'{asked.declaration.name} has keeps="metadata", and lost metadata.{member} of {shown(item.key)}: it was '
                    f"{value!r} and is {kept.get(member)!r}"
                )
        old = asked.current(changed)
        without = {**old, "metadata": {name: value for name, value in old["metadata"].items() if name not in _METADATA}}
        with naming(f"{asked.function('update')}, which takes metadata away from {shown(item.key)},"):
            changed = await asked.update(without, old)
        left = changed.decoded()["metadata"]
        for member in _METADATA:
            if left.get(member) and left.get(member) != item.decoded()["metadata"].get(member):
                raise AssertionError(
                    f"metadata.{member} of {shown(item.key)} was taken away, and is still there: {left[member]!r}"
                )
        await self._check_written(changed, item.key, "update")
        return changed

    # --- update ---

    async def _check_updates(self, item: Item) -> Item:
        asked, key = self._asked, item.key
        old = asked.current(item)
        new = self._changed(old)
        await self._check_dry_run("update", lambda: asked.update(new, old, dry_run=True))
        with naming(f"{asked.function('update')} of {shown(key)}, with old as it is now,"):
            changed = await asked.update(new, old)
        await self._check_written(changed, key, "update")
        if lost := _lost(new, changed.decoded(), item.decoded()):
            raise AssertionError(f"{asked.function('update')} of {shown(key)} has not stored what it was given: {lost}")
        if changed.uid != item.uid:
            raise AssertionError(f"an update changed the uid of {shown(key)} from {item.uid} to {changed.uid}: a uid must stay")
        self._check_grown(item, changed)
        await self._refuses(
            lambda: asked.update(new, old),
            "update",
            Conflict,
            f"{shown(key)} had changed since old was read, and was overwritten: compare it with old and write in one step",
        )
        now = await asked.now(key)
        if now is None or difference(changed, now):
            raise AssertionError(f"{asked.function('update')} raised Conflict, and has changed {shown(key)} nevertheless")
        return changed

    def _changed(self, old: JSONObject) -> JSONObject:
        asked = self._asked
        assert self._change is not None
        value = asked.value(old)
        result = self._change(value)
        metadata = {name: old["metadata"][name] for name in old["metadata"]}
        new = {**old, **asked.made(value if result is None else result, metadata=metadata)}
        if new == old:
            raise AssertionError("change has changed nothing: it must change a field of the object, or return a changed one")
        if problems := asked.problems(new):
            raise AssertionError(f"change made an object that is not as its schema says: {problems[0]}")
        return new

    def _check_grown(self, before: Item, after: Item) -> None:
        if not before.version and not after.version:
            return
        numbers = before.version.isdecimal() and after.version.isdecimal()
        if before.version == after.version or (numbers and int(after.version) < int(before.version)):
            raise AssertionError(
                f"an update left the revision of {shown(before.key)} from {before.version!r} at {after.version!r}: with each "
                "change it must be another one, and a greater one if it is a number"
            )

    # --- delete ---

    async def _check_delete(self, item: Item) -> None:
        asked, key = self._asked, item.key
        old = asked.current(item)
        with naming(f"{asked.function('delete')} of {shown(key)}"):
            await asked.delete(old)
        if asked.functions.get is not None and await asked.get(*keys.split(key)[2:]) is not None:
            raise AssertionError(f"get still finds {shown(key)} after delete: a write must be over when its function returns")
        if key in await asked.all():
            raise AssertionError(f"list still has {shown(key)} after delete: a write must be over when its function returns")
        await self._told(f"delete of {shown(key)}")
        gone = f"{shown(key)} was gone, and nobody learned of it"
        await self._refuses(lambda: asked.delete(old), "delete", NotFound, gone)
        if asked.functions.update is not None:
            new = self._changed(old)
            await self._refuses(lambda: asked.update(new, old), "update", NotFound, gone)
            if await asked.now(key) is not None:
                raise AssertionError(f"{asked.function('update')} has made {shown(key)} again, which was gone")

    # --- all of them ---

    async def _check_dry_run(self, verb: str, write: Callable[[], Awaitable[Item]]) -> None:
        """Only of functions that say that they know dry runs; the server refuses others."""
        asked = self._asked
        if verb not in asked.functions.dry_run:
            return
        before = await asked.all()
        with naming(f"{asked.function(verb)}, in a dry run,"):
            await write()
        what = f"{asked.function(verb)} was called in a dry run, and"
        same(before, await asked.all(), what, "nothing may change where request.dry_run is set")

    async def _refuses(self, write: Callable[[], Awaitable[object]], verb: str, error: type[StatusError], what: str) -> None:
        """That a write raises an error. For an object that is gone, Conflict does as well: the server then reads it again."""
        allowed = (error, Conflict) if error is NotFound else (error,)
        try:
            await write()
        except allowed:
            return
        except Exception as other:
            raised = raised_by(other)
            what = f"{self._asked.function(verb)} must raise {error.__name__}, and raised {told(raised)}"
            raise AssertionError(what) from raised
        raise AssertionError(f"{self._asked.function(verb)} must raise {error.__name__}, and did not: {what}")

    async def _told(self, what: str) -> None:
        if self._followed is not None:
            await self._followed.settled(what)


def _lost(given: JSONObject, found: JSONObject, before: JSONObject) -> str:
    """The first field that a client has changed and that is as it was before. A source may store a value in its own form."""
    for name, value in given.items():
        if name != "metadata" and value != before.get(name) and found.get(name) == before.get(name):
            return f".{name} was given as {value!r} and is {found.get(name)!r}"
    return ""
