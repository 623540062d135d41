"""DefinitionController: the controller of the definitions in the server's own CRD API.

It writes the conditions that `conditions.py` computes, serves a definition once its names are accepted, and finalizes a deleted
one: its objects are deleted, then its finalizer is removed, which removes the definition.
A definition in a group with built-in kinds gets the same conditions, but is not served, and has no objects: in kube-apiserver,
the routes of such a group come first, and answer 404 for every other path below it. A definition with a name of a resource that
is served without one (`claims.py`) is not served either, and its deletion deletes no objects of that resource.
Source: k8s.io/apiextensions-apiserver pkg/controller/{status,establish,finalizer}, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from aggserver.apiextensions import conditions
from aggserver.apiextensions.conversion_annotation import rules_text
from aggserver.apiextensions.definition import DefinitionError, parse, with_structure
from aggserver.apiextensions.definitions import Definitions
from aggserver.apiextensions.stored_versions import StatusMigrations
from aggserver.apiextensions.strategy import CLEANUP_FINALIZER, DefinitionStatusStrategy
from aggserver.informers.informer import CONTROLLER, CallLater, Informer, call_later
from aggserver.meta import codec, times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, WriteOptions, WriteRequest
from aggserver.registry.storage_version import SpecState
from aggserver.registry.store import Store
from aggserver.registry.unreadable import STORE_READ_ERROR

__all__ = ["DefinitionController"]

log = logging.getLogger("aggserver.definitions")

# Seconds until a deleted definition is checked again while its objects wait for the finalizers of others.
_RESYNC_SECONDS = 0.5
# Each worker waits until its writes are synced to disk; the writes of several workers are synced together.
_WORKERS = 16
# Bytes of JSON: a larger spec is processed in a thread, so that the event loop is not blocked.
_LARGE = 32 * 1024
# Characters of conversion rules, which take some 50 us each to compile.
_LONG_RULES = 2000
# Seconds after which a condition reports that objects are still left; the controller keeps checking.
_DELETION_TIMEOUT = 60.0
_WRITE = WriteOptions(field_manager="aggserver", bounded=False)


class DefinitionController:
    """The controller. store: of the definitions. clock: seconds since the epoch. migrations: None to not migrate stored objects.

    is_built_in: whether a group has built-in kinds.
    """

    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        clock: Callable[[], float],
        later: CallLater = call_later,
        migrations: StatusMigrations | None = None,
        *,
        is_built_in: Callable[[str], bool],
    ) -> None:
        self._is_built_in = is_built_in
        self._status = store.with_strategy(DefinitionStatusStrategy())
        self._definitions = definitions
        self._claims = definitions.claims
        self._clock = clock
        self._migrations = migrations
        self._informer = Informer(store, self._sync, later, workers=_WORKERS)
        # Definitions whose status is being written, so that the same name is not accepted for two of them.
        self._writing: dict[str, JSONObject] = {}
        self._settled: dict[str, asyncio.Event] = {}
        self._refused: dict[str, str] = {}  # why a definition is not served
        # Name -> (uid and generation checked, the result).
        self._structures: dict[str, tuple[tuple[str, int] | None, conditions.Structure | None]] = {}
        self._deleting_since: dict[str, float] = {}  # the time since which the objects of a deleted definition are being deleted

    async def run(self) -> None:
        await self._informer.run()

    async def caught_up(self) -> None:
        """Return when every definition that existed at the start has been synced."""
        await self._informer.caught_up()

    async def settled(self, names: Sequence[str]) -> Mapping[str, str]:
        """Wait until each of these definitions is served or refused. Returns the reasons for the refused ones, by name."""
        for name in names:
            if self._definitions.get(name) is None and name not in self._refused:
                await self._settled.setdefault(name, asyncio.Event()).wait()
        return {name: self._refused[name] for name in names if name in self._refused}

    async def _sync(self, name: str, crd: JSONObject | None) -> float | None:
        again = await self._sync_serving(name, crd)
        is_served_otherwise = crd is not None and (self._is_built_in(crd["spec"]["group"]) or self._claims.by(name))
        if self._migrations is not None and not is_served_otherwise:
            await self._migrations.sync(name, crd)
        return again

    async def _sync_serving(self, name: str, crd: JSONObject | None) -> float | None:
        if crd is None:
            self._definitions.remove(name)
            self._refused.pop(name, None)
            self._structures.pop(name, None)
            self._deleting_since.pop(name, None)
            self._enqueue_group(name)
            return None
        if "deletionTimestamp" in crd["metadata"]:
            return await self._finalize(name, crd)
        await self._check_structure(crd)
        if self._status_of(crd) != crd.get("status"):
            crd = await self._write_status(name)
        if self._is_built_in(crd["spec"]["group"]):
            self._settle(name, f"definitions in the built-in group {crd['spec']['group']} are not served")
        elif conflict := self._claims.conflict(crd):
            if name not in self._refused:
                log.warning("definition %s is not served: %s", name, conflict)
            self._settle(name, conflict)
        elif conditions.is_true(crd, "NamesAccepted") or conditions.is_true(crd, "Established"):
            await self._serve(name, crd)
        else:
            self._settle(name, _message(crd, "NamesAccepted"))
        return None

    async def _serve(self, name: str, crd: JSONObject, *, terminating: bool = False) -> None:
        large = len(codec.encode_json(crd["spec"])) > _LARGE or len(rules_text(crd)) > _LONG_RULES
        try:
            definition = await asyncio.to_thread(parse, crd) if large else parse(crd)
        except DefinitionError as error:
            log.error("definition %s can't be served: %s", name, error)
            self._settle(name, str(error))
            return
        if self._structure_of(crd) is not None:
            definition = with_structure(definition)
        resource = self._definitions.set(definition, terminating=terminating, identity=SpecState(*_identity(crd)))
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
        """The status that the definition should have, considering the names of the group's other definitions."""
        name = crd["metadata"]["name"]
        group = crd["spec"]["group"]
        objects = {**self._informer.objects, **self._writing}
        others = [other for key, other in objects.items() if key != name and other["spec"]["group"] == group]
        others += self._claims.of(group)
        if self._claims.conflict(crd):
            # Names that were accepted before, when nobody else had them.
            crd = {**crd, "status": {**(crd.get("status") or {}), "acceptedNames": {}}}
        return conditions.conditions(crd, others, self._structure_of(crd), self._clock())

    async def _check_structure(self, crd: JSONObject) -> None:
        """For a large definition, compute the result of `_structure_of` in a thread."""
        if not self._is_structure_known(crd) and len(codec.encode_json(crd["spec"])) > _LARGE:
            structure = await asyncio.to_thread(conditions.non_structural, crd)
            self._structures[crd["metadata"]["name"]] = _identity(crd), structure

    def _is_structure_known(self, crd: JSONObject) -> bool:
        return self._structures.get(crd["metadata"]["name"], (None, None))[0] == _identity(crd)

    def _structure_of(self, crd: JSONObject) -> conditions.Structure | None:
        name = crd["metadata"]["name"]
        if not self._is_structure_known(crd):
            self._structures[name] = _identity(crd), conditions.non_structural(crd)
        return self._structures[name][1]

    def _enqueue_group(self, gone: str) -> None:
        """Sync the definitions of a group that may have waited for a name of the removed one."""
        group = gone.partition(".")[2]
        for name, crd in self._informer.objects.items():
            if crd["spec"]["group"] == group and not conditions.is_true(crd, "NamesAccepted"):
                self._informer.enqueue(name)

    async def _finalize(self, name: str, crd: JSONObject) -> float | None:
        if CLEANUP_FINALIZER not in (crd["metadata"].get("finalizers") or ()):
            return None
        if not conditions.is_true(crd, "Established"):
            await self._remove_finalizer(name, "NeverEstablished", "resource was never established")
            return None
        if self._is_built_in(crd["spec"]["group"]) or self._claims.by(name):
            await self._remove_finalizer(name, "InstanceDeletionCompleted", "removed all instances")
            return None
        await self._serve(name, crd, terminating=True)
        since = self._deleting_since.setdefault(name, self._clock())
        if self._clock() - since < _DELETION_TIMEOUT:
            await self._write_terminating(name, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        else:
            text = "could not confirm zero CustomResources remaining: timed out waiting for the condition"
            await self._write_terminating(name, "True", "InstanceDeletionCheck", text)
        try:
            emptied = await self._definitions.delete_objects(name)
        except StatusError as error:
            what = "could not list instances" if error.reason == STORE_READ_ERROR else "could not issue all deletes"
            await self._write_terminating(name, "True", "InstanceDeletionFailed", f"{what}: {error}")
            raise
        if not emptied:
            return _RESYNC_SECONDS
        await self._remove_finalizer(name, "InstanceDeletionCompleted", "removed all instances")
        return None

    async def _remove_finalizer(self, name: str, reason: str, message: str) -> None:
        """The last write: it removes the finalizer, and thereby the definition."""
        await self._write_terminating(name, "False", reason, message, release=True)

    async def _write_terminating(self, name: str, status: str, reason: str, message: str, *, release: bool = False) -> None:
        now = times.format_time(self._clock())

        async def terminating(crd: JSONObject) -> JSONObject:
            crd["status"] = conditions.with_condition(crd.get("status") or {}, "Terminating", status, reason, message, now)
            if release:
                metadata = crd["metadata"]
                metadata["finalizers"] = [entry for entry in metadata.get("finalizers") or () if entry != CLEANUP_FINALIZER]
            return crd

        await self._status.update(WriteRequest(Context(CONTROLLER), _WRITE), name, terminating)

    async def _write_status(self, name: str) -> JSONObject:
        async def with_status(crd: JSONObject) -> JSONObject:
            # Computed from the current definition, since somebody may have changed storedVersions in the meantime.
            crd["status"] = self._status_of(crd)
            self._writing[name] = crd
            return crd

        try:
            written = (await self._status.update(WriteRequest(Context(CONTROLLER), _WRITE), name, with_status)).object.decoded()
            self._informer.put_written(written)
        finally:
            self._writing.pop(name, None)
        return written


def _identity(crd: JSONObject) -> tuple[str, int]:
    """(uid, generation), which identify a state of the spec. Definitions stored by other servers may lack either."""
    metadata = crd["metadata"]
    return metadata.get("uid", ""), metadata.get("generation", 0)


def _message(crd: JSONObject, type_: str) -> str:
    return next((str(entry.get("message")) for entry in crd["status"]["conditions"] if entry.get("type") == type_), "")
