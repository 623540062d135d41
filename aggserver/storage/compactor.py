"""Regular compaction: what keeps a store from growing by every write that ever was.

One background task of `app.py`, for stores that nobody else compacts. Decides how long history is kept: between one and two
intervals, so that a client has that long to go on with a continue token or a watch.
Source: k8s.io/apiserver pkg/storage/etcd3/compact.go, v0.36.3 (`--etcd-compaction-interval`, 5 minutes).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aggserver.storage.interface import Storage, StorageError

__all__ = ["INTERVAL", "compact_regularly"]

INTERVAL = 300.0  # seconds, as kube-apiserver's

logger = logging.getLogger(__name__)


async def compact_regularly(
    storage: Storage, interval: float = INTERVAL, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Every `interval` seconds, forgets what was history an interval ago. Runs until cancelled; a failure is tried again then."""
    before = 0
    while True:
        try:
            now = await storage.revision()
            await storage.compact(before)
            before = now
        except StorageError as error:
            logger.warning("the store was not compacted: %s", error)
        await sleep(interval)
