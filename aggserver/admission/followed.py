"""Followed: a collection of the hosting cluster, found by discovery where necessary, and kept up to date by a watch.

When the watch fails, the last known state holds. Discovery is asked again when the resource is gone, and from time to time while
the cluster does not serve it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet

from aggserver.admission.sources import Collection
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.freshness import Freshness
from aggserver.cluster.pacing import RECONNECT, Sleep
from aggserver.cluster.reflector import Reflector, key_of
from aggserver.meta.json_types import JSONObject

__all__ = ["Followed", "Locate", "group_path"]

log = logging.getLogger("aggserver.admission")

# Asks the cluster for the path of the collection; None if it serves none. Raises ClusterError or Unreachable.
Locate = Callable[[], Awaitable[str | None]]


def group_path(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


class Followed:
    """`run` is the task that keeps `collection` up to date. `known` is set once it was listed, or found not to be served.

    name: for messages. grant: the advice to log if this server lacks the right. recheck_seconds: the time between discovery
    requests while the cluster does not serve the resource. selector: of labels; '' for all objects.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        locate: Locate,
        collection: Collection,
        *,
        grant: str,
        recheck_seconds: float,
        selector: str = "",
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.known = asyncio.Event()
        self._cluster = cluster
        self._name = name
        self._locate = locate
        self._collection = collection
        self._grant = grant
        self._recheck_seconds = recheck_seconds
        self._query = {"labelSelector": selector} if selector else {}
        self._sleep = sleep
        self._clock = clock
        self._freshness = Freshness(clock)
        self._trouble = "not listed yet"
        self._is_logged = False  # whether the log has the present trouble, or an earlier one since the watch worked last
        self._gone = asyncio.Event()
        self._first = True  # whether the next state is the first of a reflector

    def trouble(self) -> str | None:
        """Why the resource is not being watched now; None if it is."""
        return f"{self._name}: {self._trouble}" if self._trouble else None

    def stale(self) -> str | None:
        """Why the resource was not watched for so long that this server should not be ready; None if that is not so."""
        stale = self._freshness.stale()
        return f"{self._name}: {stale}: {self._trouble}" if stale else None

    async def run(self) -> None:
        try:
            await self._follow()
        finally:
            self._cluster.outage.ended(self)

    async def _follow(self) -> None:
        pauses = RECONNECT.pauses()
        while True:
            try:
                path = await self._locate()
            except (ClusterError, Unreachable) as error:
                self._not_located(error)
                await self._sleep(next(pauses))
                continue
            self._cluster.outage.reached(self, self._cluster.server)
            self._first = True
            if path is None:
                self._on_state({}, frozenset())
                self._recovered()
                await self._sleep(self._recheck_seconds)
            else:
                was_known = self.known.is_set()
                await self._reflect(path)
                if not was_known and self.known.is_set():
                    pauses = RECONNECT.pauses()
                await self._sleep(next(pauses))

    async def _reflect(self, path: str) -> None:
        """Watch the resource until it is no longer served at this path."""
        self._gone.clear()
        reflector = Reflector(
            self._cluster, path, self._query, self._on_state, self._on_error, clock=self._clock, sleep=self._sleep
        )
        reflecting = asyncio.create_task(reflector.run())
        gone = asyncio.create_task(self._gone.wait())
        try:
            done, _ = await asyncio.wait((reflecting, gone), return_when=asyncio.FIRST_COMPLETED)
            if reflecting in done:
                reflecting.result()
        finally:
            for task in (reflecting, gone):
                task.cancel()
            await asyncio.gather(reflecting, gone, return_exceptions=True)

    def _on_state(self, objects: Mapping[str, JSONObject], changed: AbstractSet[str]) -> None:
        self._freshness.succeeded()
        if self._first:
            self._first = False
            changed = changed | {key_of(obj) for obj in self._collection}
        for key in changed:
            if key in objects:
                self._collection.put(objects[key])
            else:
                namespace, _, name = key.rpartition("/")
                self._collection.remove(namespace, name)
        if not self.known.is_set():
            self._trouble = ""
            self.known.set()

    def _on_error(self, error: ClusterError | Unreachable | None) -> None:
        if error is None:
            self._recovered()
            return
        self._failed(error)
        if isinstance(error, ClusterError) and error.code == 404:
            self._gone.set()

    def _not_located(self, error: ClusterError | Unreachable) -> None:
        if isinstance(error, Unreachable):
            self._cluster.outage.lost(self, self._cluster.server, error.why, str(error))
        else:
            self._cluster.outage.reached(self, self._cluster.server)
        self._failed(error)

    def _failed(self, error: ClusterError | Unreachable) -> None:
        self._freshness.failed()
        trouble = str(error)
        if isinstance(error, ClusterError) and error.code == 403:
            trouble = f"{trouble}; {self._grant}"
        if trouble != self._trouble:
            self._trouble = trouble
            if isinstance(error, Unreachable):
                return  # logged once for all watches, see `cluster/outage.py`
            self._is_logged = True
            kept = ", going on with what was last known" if self.known.is_set() else ""
            log.warning("watch of %s failed%s: %s", self._name, kept, trouble)

    def _recovered(self) -> None:
        self._freshness.succeeded()
        self._trouble = ""
        if self._is_logged:
            self._is_logged = False
            log.info("watch of %s works again", self._name)
