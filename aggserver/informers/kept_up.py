"""kept_up: restarts a background task when it fails, after a pause that grows while it goes on failing.

So are kept the server's own tasks and those of Apps, and the lifespan of an App is entered again after the same pauses.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from aggserver.meta.backoff import Backoff

__all__ = ["RESTART", "kept_up"]

log = logging.getLogger("aggserver")

# The pauses before a failed task is restarted. They begin anew if the task had run for longer than the longest pause.
RESTART = Backoff(initial=1.0, longest=60.0)


async def kept_up(
    name: str,
    make: Callable[[], Awaitable[None]],
    *,
    endless: bool = False,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Awaits what `make` makes, again after each failure, until one ends without an error.

    name: for logs. endless: whether it is run again after its end, too. clock: in seconds.
    """
    pauses = RESTART.pauses()
    while True:
        started = clock()
        fault: Exception | None = None
        try:
            await make()
        except Exception as error:
            fault = error
        if fault is None and not endless:
            return
        if clock() - started > RESTART.longest:
            pauses = RESTART.pauses()
        pause = next(pauses)
        if fault is None:
            log.info("%s has ended, restarting it in %g s", name, pause)
        else:
            log.error("%s failed, restarting it in %g s", name, pause, exc_info=fault)
        await sleep(pause)
