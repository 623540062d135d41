"""Follow: keep the state of one collection of the API server at hand, by list and watch, for ever.

The one such loop: the authentication ConfigMap, namespaces and APIServices go through it. It lists, watches from there, resumes
from the last resourceVersion it saw (bookmarks count), lists again where that is too old, and waits longer after each failure.
The state survives failures: whoever uses it works with what was last known.
Source: k8s.io/client-go tools/cache/reflector.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import random as randomness
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from typing import Any, NoReturn

from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.pacing import FOLLOW, Sleep
from aggserver.meta.json_types import JSONObject

__all__ = ["OnError", "OnState", "follow", "key_of"]

# The objects by key (`namespace/name`, or the name) and the keys that were added, changed or removed since the last call.
# The mapping is the loop's own: read it, don't keep it.
OnState = Callable[[Mapping[str, JSONObject], AbstractSet[str]], None]

# What went wrong, at each failure; None once the watch works again.
OnError = Callable[[ClusterError | Unreachable | None], None]

# A watch is asked to end after 5 to 10 minutes, by chance, so that the clients of a restarted API server spread out again.
WATCH_SECONDS = 300

# A watch that ended sooner and said nothing counts as a failure: asking again at once could go on for ever.
SHORT_WATCH_SECONDS = 1.0


async def follow(
    cluster: Cluster,
    path: str,
    query: Mapping[str, str],
    on_state: OnState,
    on_error: OnError,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Sleep = asyncio.sleep,
    random: Callable[[], float] = randomness.random,
) -> NoReturn:
    """Runs until cancelled. `path` is a collection's, `query` the selectors. Both callbacks run on the loop and must not raise.

    `on_state` is called after every list, changed or not, and after every event.
    """
    follower = _Follower(cluster, path, query, on_state, on_error, clock, random)
    pauses = FOLLOW.pauses(random)
    while True:
        follower.progress = False
        try:
            await follower.run_once()
        except (ClusterError, Unreachable) as error:
            follower.failed(error)
        if follower.progress:
            pauses = FOLLOW.pauses(random)
        else:
            await sleep(next(pauses))


class _Follower:
    """`version` is where the watch goes on, '' where a list is needed; `progress` is set by whatever shows that things work."""

    def __init__(
        self,
        cluster: Cluster,
        path: str,
        query: Mapping[str, str],
        on_state: OnState,
        on_error: OnError,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._path = path
        self._query = query
        self._on_state = on_state
        self._on_error = on_error
        self._clock = clock
        self._random = random
        self._objects: dict[str, JSONObject] = {}
        self._trouble = False
        self.version = ""
        self.progress = False

    async def run_once(self) -> None:
        if not self.version:
            await self._list()
        await self._watch()

    def failed(self, error: ClusterError | Unreachable) -> None:
        if isinstance(error, ClusterError) and error.code < 500 and error.code != 429:
            # Refused rather than failed: the next round lists. Where only `watch` is not allowed, this makes it a poll.
            self.version = ""
            if error.code == 410:
                return  # nothing is wrong but that we were away for long
        self._trouble = True
        self._on_error(error)

    def _recovered(self) -> None:
        if self._trouble:
            self._trouble = False
            self._on_error(None)

    async def _list(self) -> None:
        answer = await self._cluster.request("GET", self._path, query=self._query, timeout=60.0)
        found = {key_of(item): item for item in answer.get("items") or ()}
        gone = self._objects.keys() - found.keys()
        changed = {key for key, item in found.items() if _version(self._objects.get(key)) != _version(item)}
        self._objects = found
        self.version = _version(answer)
        self._on_state(found, changed | gone)

    async def _watch(self) -> None:
        seconds = round(WATCH_SECONDS * (1 + self._random()))
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.version,
            "timeoutSeconds": str(seconds),
        }
        started = self._clock()
        async with aclosing(self._cluster.watch(self._path, query)) as events:
            async for event in events:
                self._take(event)
        if self._clock() - started >= SHORT_WATCH_SECONDS:
            self.progress = True
            self._recovered()

    def _take(self, event: JSONObject) -> None:
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            raise ClusterError(int(item.get("code", 500)), item.get("reason", ""), item.get("message", "the watch failed"))
        self.progress = True
        self.version = _version(item)
        self._recovered()
        if kind == "BOOKMARK":
            return
        key = key_of(item)
        if kind == "DELETED":
            self._objects.pop(key, None)
        else:
            self._objects[key] = item
        self._on_state(self._objects, {key})


def key_of(item: Mapping[str, Any]) -> str:
    """`namespace/name`, or the name of a cluster-scoped object."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _version(item: Mapping[str, Any] | None) -> str:
    return str(item["metadata"].get("resourceVersion", "")) if item is not None else ""
