"""`python -m tests.history.short_history dev ...`: aggserver with as short a history as a scenario wants.

The watch cache keeps only its last events, so that most of what clients come back for is read from the store's history. On
SIGUSR1 that is compacted up to where it was at the last signal.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from aggserver import cli
from aggserver.app import storage as app_storage
from aggserver.storage import changes
from aggserver.storage.interface import Storage


async def compact_when_told(storage: Storage, interval: float, bounded: bool = True) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, told.set)
    before = 0
    while True:
        await told.wait()
        told.clear()
        now = await storage.revision()
        await storage.compact(before)
        before = now


if __name__ == "__main__":
    changes.FRESH = 0.2
    changes.MIN_CHANGES = 20
    app_storage.compact_regularly = compact_when_told  # type: ignore[assignment, attr-defined]
    sys.exit(cli.main())
