"""kept_up: restarts a background task when it fails, after a pause that grows while it goes on failing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from aggserver.meta.backoff import Backoff

__all__ = ["kept_up"]

log = logging.getLogger("aggserver")

# The pauses before a failed task is restarted. They begin anew if the task had run for longer than the longest pause.
RESTART = Backoff(initial=1.0, longest=60.0)


async def kept_up(
    name: str,
    make: Callable[[], Coroutine[Any, Any, None]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Runs the coroutine that `make` makes, again after each failure, until one ends without an error.

    name: for logs. clock: in seconds.
    """
    pauses = RESTART.pauses()
    while True:
        started = clock()
        try:
            await make()
        except Exception:
            if clock() - started > RESTART.longest:
                pauses = RESTART.pauses()
            pause = next(pauses)
            log.exception("%s failed, restarting it in %g s", name, pause)
            await sleep(pause)
        else:
            return
