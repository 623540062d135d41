"""DefinitionController: looks after the definitions of the server's own CRD API.

It writes the conditions that `conditions.py` finds, has a definition served once its names are accepted, and takes a deleted one
through its end: its objects are deleted, then its finalizer goes, and with that the definition.
Called by `app/standalone.py`. Source: k8s.io/apiextensions-apiserver pkg/controller/{status,establish,finalizer}, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from aggserver.apiextensions import conditions
from aggserver.apiextensions.definition import DefinitionError, parse, with_structure
from aggserver.apiextensions.definitions import Definitions
from aggserver.apiextensions.strategy import CLEANUP_FINALIZER, DefinitionStatusStrategy
from aggserver.meta import codec, times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.follower import ALL, CONTROLLER, CallLater, Follower, call_later
from aggserver.registry.rest import Context, DeleteOptions, WriteOptions
from aggserver.registry.store import Store
from aggserver.registry.unreadable import STORE_READ_ERROR

__all__ = ["DefinitionController"]

log = logging.getLogger("aggserver.definitions")

# Seconds between looks at a definition whose objects wait for finalizers of others.
_LOOK_AGAIN = 0.5
# Each waits for its writes to be on the disk, which many do together.
_WORKERS = 16
# Bytes of a spec from which on it is looked into in a thread, for all else goes on in the event loop meanwhile.
_LARGE = 32 * 1024
# Seconds after which a condition says that they were waited for in vain; the looks go on.
_PATIENCE = 60.0
_NAMED = 10  # objects that can't be read, in a condition
_WRITE = WriteOptions(field_manager="aggserver", bounded=False)


class DefinitionController:
    """store: of the definitions. clock: seconds since the epoch."""

    def __init__(self, store: Store, definitions: Definitions, clock: Callable[[], float], later: CallLater = call_later) -> None:
        self._status = store.with_strategy(DefinitionStatusStrategy())
        self._definitions = definitions
        self._clock = clock
        self._follower = Follower(store, self._sync, later, workers=_WORKERS)
        # Definitions whose status is being written: two that want the same name must not both be told that it is free.
        self._writing: dict[str, JSONObject] = {}
        self._settled: dict[str, asyncio.Event] = {}
        self._refused: dict[str, str] = {}  # why a definition is not served
        # Name -> (uid and generation that were looked at, what was found).
        self._structures: dict[str, tuple[tuple[str, int] | None, conditions.Structure | None]] = {}
        self._emptying: dict[str, float] = {}  # since when objects of a deleted definition are waited for

    async def run(self) -> None:
        await self._follower.run()

    async def caught_up(self) -> None:
        """Returns when every definition that was there at the start has been looked at."""
        await self._follower.caught_up()

    async def settled(self, names: Sequence[str]) -> Mapping[str, str]:
        """Returns when each of these is served, or is known not to be; the latter, with the reason."""
        for name in names:
            if self._definitions.get(name) is None and name not in self._refused:
                await self._settled.setdefault(name, asyncio.Event()).wait()
        return {name: self._refused[name] for name in names if name in self._refused}

    async def _sync(self, name: str, crd: JSONObject | None) -> float | None:
        if crd is None:
            self._definitions.remove(name)
            self._refused.pop(name, None)
            self._structures.pop(name, None)
            self._emptying.pop(name, None)
            self._look_at_group(name)
            return None
        if "deletionTimestamp" in crd["metadata"]:
            return await self._end(name, crd)
        await self._examine(crd)
        if self._status_of(crd) != crd.get("status"):
            crd = await self._write_status(name)
        if conditions.is_true(crd, "NamesAccepted") or conditions.is_true(crd, "Established"):
            await self._serve(name, crd)
        else:
            self._settle(name, _message(crd, "NamesAccepted"))
        return None

    async def _serve(self, name: str, crd: JSONObject, *, terminating: bool = False) -> None:
        large = len(codec.encode_json(crd["spec"])) > _LARGE
        try:
            definition = await asyncio.to_thread(parse, crd) if large else parse(crd)
        except DefinitionError as error:
            log.error("definition %s can't be served: %s", name, error)
            self._settle(name, str(error))
            return
        if self._structure_of(crd) is not None:
            definition = with_structure(definition)
        resource = self._definitions.set(definition, terminating=terminating)
        if large:
            await asyncio.to_thread(resource.prepare)
        self._settle(name)

    def _settle(self, name: str, refusal: str = "") -> None:
        if refusal:
            self._refused[name] = refusal
        else:
            self._refused.pop(name, None)
        if name in self._settled:
            self._settled.pop(name).set()

    def _status_of(self, crd: JSONObject) -> JSONObject:
        """The status it should have; names must be unique among the other definitions of the group."""
        name = crd["metadata"]["name"]
        group = crd["spec"]["group"]
        objects = {**self._follower.objects, **self._writing}
        others = [other for key, other in objects.items() if key != name and other["spec"]["group"] == group]
        return conditions.conditions(crd, others, self._structure_of(crd), self._clock())

    async def _examine(self, crd: JSONObject) -> None:
        """Finds what `_structure_of` will be asked for, where that takes long, beside the event loop."""
        if not self._is_examined(crd) and len(codec.encode_json(crd["spec"])) > _LARGE:
            structure = await asyncio.to_thread(conditions.non_structural, crd)
            self._structures[crd["metadata"]["name"]] = _identity(crd), structure

    def _is_examined(self, crd: JSONObject) -> bool:
        return self._structures.get(crd["metadata"]["name"], (None, None))[0] == _identity(crd)

    def _structure_of(self, crd: JSONObject) -> conditions.Structure | None:
        name = crd["metadata"]["name"]
        if not self._is_examined(crd):
            self._structures[name] = _identity(crd), conditions.non_structural(crd)
        return self._structures[name][1]

    def _look_at_group(self, gone: str) -> None:
        """A name that was given up may be what another definition waits for."""
        group = gone.partition(".")[2]
        for name, crd in self._follower.objects.items():
            if crd["spec"]["group"] == group and not conditions.is_true(crd, "NamesAccepted"):
                self._follower.enqueue(name)

    async def _end(self, name: str, crd: JSONObject) -> float | None:
        if CLEANUP_FINALIZER not in (crd["metadata"].get("finalizers") or ()):
            return None
        if not conditions.is_true(crd, "Established"):
            await self._finish(name, "NeverEstablished", "resource was never established")
            return None
        await self._serve(name, crd, terminating=True)
        since = self._emptying.setdefault(name, self._clock())
        if self._clock() - since < _PATIENCE:
            await self._say(name, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        else:
            text = "could not confirm zero CustomResources remaining: timed out waiting for the condition"
            await self._say(name, "True", "InstanceDeletionCheck", text)
        try:
            emptied = await self._emptied(name)
        except StatusError as error:
            what = "could not list instances" if error.reason == STORE_READ_ERROR else "could not issue all deletes"
            await self._say(name, "True", "InstanceDeletionFailed", f"{what}: {error}")
            raise
        if not emptied:
            return _LOOK_AGAIN
        await self._finish(name, "InstanceDeletionCompleted", "removed all instances")
        return None

    async def _emptied(self, name: str) -> bool:
        """Deletes what can be deleted; whether nothing is left."""
        resource = self._definitions.get(name)
        if resource is None:
            return True
        store = resource.store(resource.definition.storage_version)
        await store.delete_collection(Context(CONTROLLER), DeleteOptions(), ALL)
        if unreadable := store.unreadable():
            # Their finalizers are unknown. As upstream they are waited for, until somebody removes them by name.
            names = "; ".join(map(str, unreadable[:_NAMED])) + ("; and more" if len(unreadable) > _NAMED else "")
            raise StatusError(500, STORE_READ_ERROR, names)
        return await store.count(Context(CONTROLLER)) == 0

    async def _finish(self, name: str, reason: str, message: str) -> None:
        """The last write: with the finalizer goes the definition."""
        await self._say(name, "False", reason, message, release=True)

    async def _say(self, name: str, status: str, reason: str, message: str, *, release: bool = False) -> None:
        now = times.format_time(self._clock())

        async def terminating(crd: JSONObject) -> JSONObject:
            crd["status"] = conditions.with_condition(crd.get("status") or {}, "Terminating", status, reason, message, now)
            if release:
                metadata = crd["metadata"]
                metadata["finalizers"] = [entry for entry in metadata.get("finalizers") or () if entry != CLEANUP_FINALIZER]
            return crd

        await self._status.update(Context(CONTROLLER), name, terminating, _WRITE)

    async def _write_status(self, name: str) -> JSONObject:
        async def with_status(crd: JSONObject) -> JSONObject:
            # Of the definition as it is now, whose storedVersions somebody may have changed since it was looked at.
            crd["status"] = self._status_of(crd)
            self._writing[name] = crd
            return crd

        try:
            written = (await self._status.update(Context(CONTROLLER), name, with_status, _WRITE)).decoded()
            self._follower.learn(written)
        finally:
            self._writing.pop(name, None)
        return written


def _identity(crd: JSONObject) -> tuple[str, int]:
    """Of the content that was looked at; what others have stored may lack either."""
    metadata = crd["metadata"]
    return metadata.get("uid", ""), metadata.get("generation", 0)


def _message(crd: JSONObject, type_: str) -> str:
    return next((str(entry.get("message")) for entry in crd["status"]["conditions"] if entry.get("type") == type_), "")
