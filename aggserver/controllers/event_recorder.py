"""EventRecorder: the Events that a controller tells about objects, each once, with a count of how often.

As client-go's recorder: an Event that was told before gets a higher count, and of one object about 25 are written in quick
succession, then one every five minutes, so that an object that goes on failing does not fill the store.
Source: k8s.io/client-go tools/record/{event,events_cache}.go, v0.36.3.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from aggserver.controllers.internal_client import InternalClient
from aggserver.meta import times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.storage.keys import ObjectKey

__all__ = ["EventRecorder"]

log = logging.getLogger("aggserver.controllers")

K = TypeVar("K")
V = TypeVar("V")
# Events, and objects with Events, that are remembered.
_KNOWN = 4096
_BURST, _SECONDS = 25, 300.0


@dataclass
class _Told:
    at: ObjectKey
    count: int


@dataclass
class _Tokens:
    """How many more Events of an object may be written. since: when that was."""

    left: float
    since: float


class EventRecorder:
    """component: the controller's name in the Events. clock: seconds since the epoch."""

    def __init__(self, client: InternalClient, component: str, clock: Callable[[], float]) -> None:
        self._client = client
        self._component = component
        self._clock = clock
        self._told: OrderedDict[tuple[str, ...], _Told] = OrderedDict()
        self._tokens: OrderedDict[str, _Tokens] = OrderedDict()
        self._last = 0

    async def warn(self, obj: JSONObject, reason: str, message: str) -> None:
        """Tell of a problem with an object, which has apiVersion, kind and metadata."""
        await self._record(obj, "Warning", reason, message)

    async def tell(self, obj: JSONObject, reason: str, message: str) -> None:
        """Tell what was done with an object, or what it waits for."""
        await self._record(obj, "Normal", reason, message)

    async def _record(self, obj: JSONObject, of_type: str, reason: str, message: str) -> None:
        uid, now = obj["metadata"].get("uid") or "", self._clock()
        if not self._may_write(uid, now):
            return
        same = (uid, of_type, reason, message)
        told = self._told.get(same)
        try:
            if told is not None:
                self._told.move_to_end(same)
                if await self._counted(told, now):
                    return
            self._told[same] = _Told(await self._create(obj, of_type, reason, message, now), 1)
            _shorten(self._told)
        except StatusError as error:
            log.info("no Event %s about %s: %s", reason, obj["metadata"]["name"], error)

    def _may_write(self, uid: str, now: float) -> bool:
        tokens = self._tokens.setdefault(uid, _Tokens(_BURST, now))
        self._tokens.move_to_end(uid)
        _shorten(self._tokens)
        tokens.left = min(_BURST, tokens.left + (now - tokens.since) / _SECONDS)
        tokens.since = now
        if tokens.left < 1:
            return False
        tokens.left -= 1
        return True

    async def _counted(self, told: _Told, now: float) -> bool:
        """Count an Event that was told before. Returns False if it is gone."""

        async def counted(event: JSONObject) -> JSONObject:
            return {**event, "count": told.count + 1, "lastTimestamp": times.format_time(now)}

        try:
            await self._client.update(told.at, counted, of_metadata=False)
        except StatusError as error:
            if error.code == 404:
                return False
            raise
        told.count += 1
        return True

    async def _create(self, obj: JSONObject, of_type: str, reason: str, message: str, now: float) -> ObjectKey:
        metadata, time = obj["metadata"], times.format_time(now)
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        self._last = max(self._last + 1, int(now * 1e9))  # no two Events have the same name
        at = ObjectKey("", "events", namespace or "default", f"{name}.{self._last:x}")
        involved = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": name, "uid": metadata.get("uid") or ""}
        involved["resourceVersion"] = metadata.get("resourceVersion") or ""
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": at.name, "namespace": at.namespace},
            "involvedObject": {**involved, "namespace": namespace} if namespace else involved,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            "type": of_type,
        }
        await self._client.create("", "events", event)
        return at


def _shorten(known: OrderedDict[K, V]) -> None:
    while len(known) > _KNOWN:
        known.popitem(last=False)
