"""EventRecorder: the Events by which a controller tells what it has done, or why it can't do it.

As client-go's recorder: the same Event again is counted in the first one, and an object can't cause more than a burst and then
one in five minutes. An Event that can't be written is dropped.
Source: k8s.io/client-go tools/record/{event,events_cache}.go, v0.36.3.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from aggserver.controllers.internal_client import InternalClient
from aggserver.meta import times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.storage.keys import ObjectKey

__all__ = ["EventRecorder"]

log = logging.getLogger("aggserver.controllers")

_BURST, _REFILL_SECONDS = 25, 300.0
# Objects and Events that are remembered.
_KNOWN = 4096


@dataclass(slots=True)
class _Seen:
    name: str
    uid: str


class EventRecorder:
    """component: the name of the controller. clock: seconds since the epoch."""

    def __init__(self, client: InternalClient, component: str, clock: Callable[[], float]) -> None:
        self._client = client
        self._component = component
        self._clock = clock
        self._seen: OrderedDict[tuple[str, str, str], _Seen] = OrderedDict()
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by uid: how many are left, and when

    async def record(self, obj: JSONObject, kind: str, reason: str, message: str) -> None:
        """kind: Normal or Warning."""
        metadata, now = obj["metadata"], self._clock()
        if not self._may(metadata["uid"], now):
            return
        key = metadata["uid"], reason, message
        try:
            if (seen := self._seen.get(key)) is not None and await self._count(metadata["namespace"], seen, now):
                self._seen.move_to_end(key)
                return
            self._seen[key] = await self._create(obj, kind, reason, message, now)
            if len(self._seen) > _KNOWN:
                self._seen.popitem(last=False)
        except StatusError as error:
            log.info("Event %s of %s %s/%s: %s", reason, obj["kind"], metadata["namespace"], metadata["name"], error.message)

    def _may(self, uid: str, now: float) -> bool:
        left, since = self._tokens.pop(uid, (float(_BURST), now))
        left = min(left + (now - since) / _REFILL_SECONDS, _BURST)
        self._tokens[uid] = (left - 1 if left >= 1 else left), now
        if len(self._tokens) > _KNOWN:
            self._tokens.popitem(last=False)
        return left >= 1

    async def _count(self, namespace: str, seen: _Seen, now: float) -> bool:
        """Count one more. Returns whether the Event is still there."""

        async def counted(current: JSONObject) -> JSONObject:
            return {**current, "count": current.get("count", 1) + 1, "lastTimestamp": times.format_time(now)}

        try:
            await self._client.update(ObjectKey("", "events", namespace, seen.name), counted, uid=seen.uid, of_metadata=False)
        except StatusError as error:
            if error.code not in (404, 409):
                raise
            return False
        return True

    async def _create(self, obj: JSONObject, kind: str, reason: str, message: str, now: float) -> _Seen:
        metadata, stamp = obj["metadata"], times.format_time(now)
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
            "involvedObject": {
                "kind": obj["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "apiVersion": obj["apiVersion"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
            "type": kind,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        made = (await self._client.create("", "events", event)).decoded()["metadata"]
        return _Seen(made["name"], made["uid"])
