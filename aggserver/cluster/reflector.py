"""Reflector: keeps a local copy of one collection of the API server up to date, by list and watch.

For the authentication ConfigMap, namespaces and APIServices. It lists, watches from the list's resourceVersion, resumes an ended
watch from the last resourceVersion it received (in events and bookmarks), lists again if that has expired, and backs off after
failures. The copy is kept during failures, so that its users go on with the last known state. That the server can't be reached is
logged by the cluster's `Outage`, once for all reflectors; other failures are for `on_error` to log.
Source: k8s.io/client-go tools/cache/reflector.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from typing import Any, NoReturn

from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.pacing import RECONNECT, Sleep
from aggserver.meta.json_types import JSONObject

__all__ = ["OnError", "OnState", "Reflector", "key_of"]

log = logging.getLogger("aggserver.cluster")

# Called with the objects by key (`namespace/name`, or the name) and the keys that were added, modified or deleted since the last
# call. The reflector goes on to change the mapping: read it during the call, and do not keep it.
OnState = Callable[[Mapping[str, JSONObject], AbstractSet[str]], None]

# Called with the error after each failure, and with None when the watch works again.
OnError = Callable[[ClusterError | Unreachable | None], None]

# timeoutSeconds of a watch is chosen at random between this and twice this, as in client-go, so that after a restart of an API
# server its clients do not all reconnect at the same time again. client-go has 300. It is short here, since a watch that hangs is
# noticed only when it should have ended, and it may be the watch of the trusted CAs. A dozen watches cost 8 requests a minute.
WATCH_SECONDS = 60

# After failures for so many seconds the reflector lists again, which makes the copy current at once. After a resumed watch, that
# is known only from its first bookmark, a minute later, and the resourceVersion may have expired.
LIST_AGAIN_SECONDS = 60.0

# A shorter watch without an event counts as a failure, because retrying it immediately could become a busy loop.
SHORT_WATCH_SECONDS = 1.0


class Reflector:
    """Follows one collection. path: the collection's. query: selectors. Both callbacks run on the event loop, must not raise.

    `on_state` is called after every list, even if nothing changed, and after every event except bookmarks.
    keep: reduces an object to the part that is stored in the copy. page_size: objects in a page of a list; 0 for all.
    """

    def __init__(
        self,
        cluster: Cluster,
        path: str,
        query: Mapping[str, str],
        on_state: OnState,
        on_error: OnError,
        *,
        keep: Callable[[JSONObject], JSONObject] = lambda item: item,
        page_size: int = 0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._cluster = cluster
        self._path = path
        self._query = query
        self._on_state = on_state
        self._on_error = on_error
        self._keep = keep
        self._page_size = page_size
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._objects: dict[str, JSONObject] = {}
        self._failing = False
        self._failing_since = 0.0
        self._listed = False  # since the last time that the watch worked
        self._unexpected = ""  # the last exception that no request raised
        # The resourceVersion to watch from; '' if the collection must be listed first.
        self._version = ""
        # Whether something was received in the present attempt, which resets the backoff.
        self._progress = False

    async def run(self) -> NoReturn:
        """Follow the collection until cancelled."""
        try:
            await self._follow()
        finally:
            self._cluster.outage.ended(self)

    async def _follow(self) -> NoReturn:
        pauses = RECONNECT.pauses(self._random)
        while True:
            self._progress = False
            try:
                await self._list_and_watch()
            except (ClusterError, Unreachable) as error:
                self._failed(error)
            except Exception as error:
                # Try again after any error, beginning with a list: otherwise the copy would be outdated for ever.
                if repr(error) != self._unexpected:
                    log.exception("an answer of the cluster for %s can't be used", self._path)
                self._unexpected = repr(error)
                self._failed(ClusterError(422, "", f"{self._path}: what was answered can't be used: {error!r}"))
            if self._progress:
                pauses = RECONNECT.pauses(self._random)
            else:
                await self._sleep(next(pauses))

    async def _list_and_watch(self) -> None:
        if not self._version:
            await self._list()
        await self._watch()

    def _failed(self, error: ClusterError | Unreachable) -> None:
        if isinstance(error, Unreachable):
            self._cluster.outage.lost(self, self._cluster.server, error.why, str(error))
        elif error.code < 500 and error.code != 429:
            self._cluster.outage.reached(self, self._cluster.server)
            # The request was rejected, so list next. If only `watch` is forbidden, this polls the collection.
            self._version = ""
            if error.code == 410:
                return  # the resourceVersion has expired, which is no error after a long interruption
        if not self._failing:
            self._failing_since = self._clock()
        elif self._clock() - self._failing_since > LIST_AGAIN_SECONDS:
            self._version = ""
        self._failing = True
        self._on_error(error)

    def _recovered(self) -> None:
        self._cluster.outage.reached(self, self._cluster.server)
        self._listed = False
        self._unexpected = ""
        if self._failing:
            self._failing = False
            self._on_error(None)

    async def _list(self) -> None:
        found: dict[str, JSONObject] = {}
        query = {**self._query, "limit": str(self._page_size)} if self._page_size else dict(self._query)
        while True:
            answer = await self._cluster.request("GET", self._path, query=query, timeout=60.0)
            found |= {key_of(item): self._keep(item) for item in answer.get("items") or ()}
            query["continue"] = answer["metadata"].get("continue", "")
            if not query["continue"]:
                break
        if not self._listed:
            # Not again and again where lists are answered and watches are not, as by a proxy that cuts them.
            self._listed = True
            self._cluster.outage.reached(self, self._cluster.server)
        gone = self._objects.keys() - found.keys()
        changed = {key for key, item in found.items() if _version(self._objects.get(key)) != _version(item)}
        self._objects = found
        self._version = _version(answer)
        self._on_state(found, changed | gone)

    async def _watch(self) -> None:
        seconds = round(WATCH_SECONDS * (1 + self._random()))
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        started = self._clock()
        async with aclosing(self._cluster.watch(self._path, query)) as events:
            async for event in events:
                self._apply(event)
        if self._clock() - started >= SHORT_WATCH_SECONDS:
            self._progress = True
            self._recovered()

    def _apply(self, event: JSONObject) -> None:
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            raise ClusterError(int(item.get("code", 500)), item.get("reason", ""), item.get("message", "the watch failed"))
        self._progress = True
        self._version = _version(item)
        self._recovered()
        if kind == "BOOKMARK":
            return
        key = key_of(item)
        if kind == "DELETED":
            self._objects.pop(key, None)
        else:
            self._objects[key] = self._keep(item)
        self._on_state(self._objects, {key})


def key_of(item: Mapping[str, Any]) -> str:
    """`namespace/name`, or the name of a cluster-scoped object."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _version(item: Mapping[str, Any] | None) -> str:
    return str(item["metadata"].get("resourceVersion", "")) if item is not None else ""
