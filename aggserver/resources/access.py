"""Access: reads and writes the objects of a stored resource from within the server, by a user's own code.

Writes pass admission, hooks and checks, as the user system:apiserver. Objects are in the version that is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes
from aggserver.endpoints.served import ResourceScope, Served
from aggserver.informers.informer import ALL, CONTROLLER
from aggserver.meta.backoff import Backoff
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.registry.rest import Admission, Context, DeleteOptions, ListOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.subresources import StatusStore
from aggserver.resources.errors import public
from aggserver.resources.events import Changed, Gone
from aggserver.schema.pruning import MalformedError
from aggserver.storage import keys
from aggserver.storage.changes import ADDED, DELETED, MODIFIED
from aggserver.typed.codec import Codec, UndecodableError

__all__ = ["StoreAccess"]

log = logging.getLogger("aggserver.resources")

_WRITE = WriteOptions(field_manager="aggserver")
# All objects and the end of them, then changes; what can't be read is left out.
_WATCH = ListOptions(
    LabelSelector.parse(""),
    FieldSelector.parse(""),
    resource_version_match="NotOlderThan",
    allow_bookmarks=True,
    send_initial_events=True,
    readable_only=True,
)
_WATCH_AGAIN = Backoff(initial=0.1, longest=5.0)


class StoreAccess:
    """`stored.Access` over a version that is served, the one that is stored."""

    def __init__(self, served: Served, codec: Codec[Any]) -> None:
        self._served = served
        self._codec = codec

    @property
    def _scope(self) -> ResourceScope:
        scope = self._served.scope("")
        assert scope is not None
        return scope

    @property
    def _store(self) -> Store:
        store = self._scope.rest
        assert isinstance(store, Store)
        return store

    async def get(self, name: str, namespace: str) -> Any:
        with _public_errors():
            obj = await self._store.get(Context(CONTROLLER, namespace), name)
        return self._codec.decode(obj.decoded())

    async def list(self, namespace: str) -> Sequence[Any]:
        with _public_errors():
            found = await self._store.list(Context(CONTROLLER, namespace), ALL)
        return [self._codec.decode(obj.decoded()) for obj in found.items]

    async def create(self, value: Any) -> Any:
        obj = self._object(value)
        namespace = obj["metadata"].get("namespace", "")
        request = WriteRequest(Context(CONTROLLER, namespace), _WRITE, self._admission(self._scope, CREATE, obj))
        with _public_errors():
            made = await self._store.create(request, obj)
        return self._codec.decode(made.decoded())

    async def update(self, value: Any) -> Any:
        return await self._updated(self._scope, self._store, value)

    async def update_status(self, value: Any) -> Any:
        scope = self._served.scope("status")
        assert scope is not None
        store = scope.rest
        assert isinstance(store, StatusStore)
        return await self._updated(scope, store, value)

    async def _updated(self, scope: ResourceScope, store: Store | StatusStore, value: Any) -> Any:
        wanted = self._object(value)
        metadata = wanted["metadata"]

        async def change(current: JSONObject) -> JSONObject:
            if not scope.subresource:
                # What the metadata of an object that was read from here lacks has been taken away: the last finalizer, all
                # labels. One that was made anew does not know what there is.
                kept = {} if metadata.get("resourceVersion") else current["metadata"]
                return {**wanted, "metadata": {**kept, **metadata}}
            changed = {name: member for name, member in current.items() if name != "status"}
            return changed | ({"status": wanted["status"]} if "status" in wanted else {})

        context = Context(CONTROLLER, metadata.get("namespace", ""))
        request = WriteRequest(context, _WRITE, self._admission(scope, UPDATE, wanted))
        with _public_errors():
            written = await store.update(request, metadata["name"], change)
        return self._codec.decode(written.object.decoded())

    async def delete(self, name: str, namespace: str) -> None:
        obj: JSONObject = {"metadata": {"name": name, "namespace": namespace}}
        admission = self._admission(self._scope, DELETE, obj)
        with _public_errors():
            await self._store.delete(Context(CONTROLLER, namespace), name, DeleteOptions(), admission)

    async def watch(self, namespace: str) -> AsyncIterator[Any]:
        """An object that somebody removed while the watch was interrupted is told as gone afterwards.

        One that the user's class refuses is logged and left out, so that the others are told all the same.
        """
        known: set[str] = set()
        pauses = _WATCH_AGAIN.pauses()
        while True:
            seen: set[str] | None = set()
            try:
                stream = await self._store.watch(Context(CONTROLLER, namespace), _WATCH)
                try:
                    async for batch in stream:
                        for event in batch:
                            if event.object is None:
                                if event.initial_events_end and seen is not None:
                                    for key in known - seen:
                                        yield _gone(key)
                                    known, seen = known & seen, None
                                    pauses = _WATCH_AGAIN.pauses()
                                continue
                            key = event.object.key
                            if event.type == DELETED:
                                known.discard(key)
                                yield _gone(key)
                            elif event.type in (ADDED, MODIFIED):
                                known.add(key)
                                if seen is not None:
                                    seen.add(key)
                                try:
                                    value = self._codec.decode(event.object.decoded())
                                except UndecodableError as error:
                                    log.warning("%s is not told to a watch, since its class refuses it: %s", key, error)
                                else:
                                    yield Changed(value)
                finally:
                    stream.close()
            except StatusError as error:
                if error.code not in (410, 500, 503, 504):
                    raise public(error) from None
            await asyncio.sleep(next(pauses))

    def _object(self, value: Any) -> JSONObject:
        """As it would come from a client, pruned and defaulted. Raises ValueError."""
        scope = self._scope
        obj: JSONObject = {"apiVersion": scope.object_version, "kind": scope.kind, **self._codec.encode(value)}
        obj["metadata"] = dict(obj.get("metadata") or {})
        try:
            scope.conform(obj)
        except MalformedError as error:
            raise ValueError(str(error)) from None
        return obj

    def _admission(self, scope: ResourceScope, operation: str, obj: JSONObject) -> Admission:
        metadata = obj["metadata"]
        attributes = Attributes(
            operation,
            CONTROLLER,
            scope.info,
            scope.subresource,
            scope.kind,
            scope.object_version,
            metadata.get("namespace", ""),
            metadata.get("name", ""),
            dry_run=False,
            objects=scope.admitted,
        )
        return scope.admission.bind(attributes)


@contextlib.contextmanager
def _public_errors() -> Iterator[None]:
    try:
        yield
    except StatusError as error:
        raise public(error) from None


def _gone(key: str) -> Gone:
    namespace, name = keys.split(key)[2:]
    return Gone(name, namespace)
