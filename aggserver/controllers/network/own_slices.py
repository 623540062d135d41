"""OwnSlices: the EndpointSlices that one controller manages, by their Services, and the writes that it decides upon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple

from aggserver.controllers.internal_client import InternalClient
from aggserver.controllers.network.slices import MANAGED_BY, SERVICE_NAME, SlicePlan
from aggserver.informers.informer import CONTROLLER, CallLater, TransformingInformer
from aggserver.informers.work_queue import in_turns
from aggserver.meta import codec
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, DeleteOptions, Object
from aggserver.storage.keys import ObjectKey

__all__ = ["OwnSlices", "is_ending", "stored_copy"]

_GROUP, _RESOURCE = "discovery.k8s.io", "endpointslices"
_STEPS = 10  # slices that are read or written before other tasks run


class _Known(NamedTuple):
    """service: the key of the Service of a slice of this controller, '' for a slice of others. version: its resourceVersion."""

    service: str
    version: str


class OwnSlices:
    """manager: the controller's name in the label. changed: called with the key of a Service whose slices others have changed."""

    def __init__(self, client: InternalClient, manager: str, changed: Callable[[str], None], later: CallLater) -> None:
        self._client = client
        self._changed = changed
        self._store = client.store(_GROUP, _RESOURCE)
        self._follower = TransformingInformer(self._store, partial(_known, manager), self._sync, later)
        self._services: dict[str, str] = {}  # the key of the Service by that of a slice
        self._slices: dict[str, dict[str, None]] = {}  # the keys of slices by that of their Service
        self._written: dict[str, str] = {}  # the resourceVersion that this controller has written last

    async def run(self) -> None:
        await self._follower.run()

    async def caught_up(self) -> None:
        """Wait until all slices are known that there were at the beginning."""
        await self._follower.caught_up()

    def has(self, service: str) -> bool:
        """Whether a Service has slices. service: its key."""
        return service in self._slices

    async def of(self, service: str) -> list[JSONObject]:
        """The slices of a Service, as they are stored."""
        return [each async for each in self._read(service)]

    async def _read(self, service: str) -> AsyncIterator[JSONObject]:
        async for key in in_turns(list(self._slices.get(service, ())), _STEPS):
            namespace, _, name = key.partition("/")
            found = await self._store.find(Context(CONTROLLER, namespace), name)
            if found is None:
                self._place(key, "")
            else:
                yield found.decoded()

    async def carry_out(self, service: str, plan: SlicePlan) -> None:
        """Write what was decided for a Service. Raises StatusError, 409 if a slice was changed since it was read."""
        namespace = service.partition("/")[0]
        async for new in in_turns(plan.create, _STEPS):
            made = await self._client.create(_GROUP, _RESOURCE, stored_copy(new))
            self._wrote(service, namespace, made)
        async for changed in in_turns(plan.update, _STEPS):
            at = ObjectKey(_GROUP, _RESOURCE, namespace, changed["metadata"]["name"])
            made = await self._client.update(at, partial(_replaced, stored_copy(changed)), of_metadata=False)
            self._wrote(service, namespace, made)
        async for name in in_turns(plan.delete, _STEPS):
            try:
                await self._client.delete(ObjectKey(_GROUP, _RESOURCE, namespace, name), DeleteOptions())
            except StatusError as error:
                if error.code != 404:
                    raise
            self._place(f"{namespace}/{name}", "")

    def _wrote(self, service: str, namespace: str, made: Object) -> None:
        key = f"{namespace}/{made.key.rpartition('/')[2]}"
        self._written[key] = made.resource_version
        self._place(key, service)

    async def _sync(self, key: str, known: _Known | None) -> float | None:
        before = self._services.get(key, "")
        now = known.service if known is not None else ""
        if known is None or known.version != self._written.get(key):
            self._place(key, now)
            for service in {before, now} - {""}:
                self._changed(service)
        if known is None:
            self._written.pop(key, None)
        return None

    def _place(self, key: str, service: str) -> None:
        """Remember the Service of a slice, '' for none."""
        before = self._services.pop(key, "")
        if before:
            del self._slices[before][key]
            if not self._slices[before]:
                del self._slices[before]
        if service:
            self._services[key] = service
            self._slices.setdefault(service, {})[key] = None


def _known(manager: str, obj: JSONObject) -> _Known:
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    is_own = labels.get(MANAGED_BY) == manager and labels.get(SERVICE_NAME)
    return _Known(f"{metadata['namespace']}/{labels[SERVICE_NAME]}" if is_own else "", metadata["resourceVersion"])


async def _replaced(new: JSONObject, current: JSONObject) -> JSONObject:
    """The new object, whose resourceVersion makes the write fail if the object was changed since it was read."""
    kept = {name: value for name, value in current["metadata"].items() if name not in ("labels", "annotations")}
    return {**current, **new, "metadata": {**kept, **new["metadata"]}}


def stored_copy(obj: JSONObject) -> JSONObject:
    """A copy for the store, which keeps what it gets, without empty labels and annotations."""
    copy: JSONObject = codec.decode_stored(codec.encode_json(obj))
    for name in ("labels", "annotations"):
        if not copy["metadata"].get(name):
            copy["metadata"].pop(name, None)
    return copy


def is_ending(error: StatusError) -> bool:
    """Whether a create was refused because the namespace is being deleted: then there is nothing more to do."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)
