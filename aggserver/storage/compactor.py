"""Regular compaction: what keeps a store from growing by every write that ever was.

One background task of a server. Decides how long history is kept: between one and two intervals, so that a client has that long
to go on with a continue token or a watch; and, in a store of its own, never more than MOST_EVENTS, so that a burst of writes
can't fill the disk meanwhile. Of several servers on one store, the one whose turn it is compacts.
Source: k8s.io/apiserver pkg/storage/etcd3/compact.go, v0.36.3 (`--etcd-compaction-interval`, 5 minutes).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aggserver.storage.interface import Storage, StorageError

__all__ = ["INTERVAL", "MOST_EVENTS", "compact_regularly"]

INTERVAL = 300.0  # seconds, as kube-apiserver's

# 1 GB of objects of 2 KB, half of etcd's default quota. It is 800 writes a second for two intervals; where more is written,
# history is shorter.
MOST_EVENTS = 500_000

LOOK = 10.0  # seconds between looks at the number of events

logger = logging.getLogger(__name__)


async def compact_regularly(
    storage: Storage,
    interval: float = INTERVAL,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    *,
    bounded: bool = True,
) -> None:
    """Every `interval` seconds (0: never) forgets what was history an interval ago, and more often what is beyond MOST_EVENTS,
    if it is `bounded`.

    Runs until cancelled; a failure is tried again at the next look.
    """
    pause = min(LOOK, interval or LOOK)
    before, waited = 0, interval
    while True:
        try:
            now = await storage.revision()
            old = bool(interval) and waited >= interval
            ours = old and await storage.claim_compaction(before)
            await storage.compact(max(now - MOST_EVENTS if bounded else 0, before if ours else 0))
            if old:
                before, waited = now, 0.0
        except StorageError as error:
            logger.warning("the store was not compacted: %s", error)
        await sleep(pause)
        waited += pause
