"""Regular compaction, which deletes old history so that a store does not grow with every write.

One background task per server. History is kept for one to two intervals; for so long a client can use a continue token or resume
a watch. In a store that only this server uses, no more than MOST_EVENTS are kept, so that a burst of writes can't fill the disk.
Of several servers with a shared store, one compacts in each interval.
Source: k8s.io/apiserver pkg/storage/etcd3/compact.go, v0.36.3 (`--etcd-compaction-interval`, 5 minutes).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aggserver.storage import jumps
from aggserver.storage.interface import Storage, StorageError

__all__ = ["INTERVAL", "MOST_EVENTS", "compact_regularly"]

INTERVAL = 300.0  # seconds, as kube-apiserver's

# 1 GB with objects of 2 KB: half of etcd's default quota. This is 800 writes per second for two intervals; with more writes,
# history is shorter.
MOST_EVENTS = 500_000

LOOK = 10.0  # seconds between checks of the number of events

logger = logging.getLogger(__name__)


async def compact_regularly(
    storage: Storage,
    interval: float = INTERVAL,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    *,
    bounded: bool = True,
) -> None:
    """Compact every `interval` seconds (0: never) to the revision of an interval ago and, if `bounded`, down to MOST_EVENTS.

    Runs until cancelled. After a failure, the next check tries again.
    """
    pause = min(LOOK, interval or LOOK)
    before, waited = 0, interval
    while True:
        try:
            now = await storage.revision()
            old = bool(interval) and waited >= interval
            ours = old and await storage.claim_compaction(before)
            kept = jumps.reach_back(now, MOST_EVENTS, await _jumps(storage)) if bounded else 0
            await storage.compact(max(kept, before if ours else 0))
            if old:
                before, waited = now, 0.0
        except StorageError as error:
            logger.warning("compaction of the store failed: %s", error)
        await sleep(pause)
        waited += pause


async def _jumps(storage: Storage) -> list[jumps.Jump]:
    item = await storage.get(jumps.KEY)
    if item is None or item.fault:
        return []
    return jumps.decode(item.value)
