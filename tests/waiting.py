"""How long tests wait: until a condition holds, or until a hang is sure.

What has to happen is waited for without a look at how soon it does: a machine that has other work makes a test slow, never wrong.
The limit is one for all, and only a test that would otherwise never end meets it.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable

__all__ = ["HANG_SECONDS", "KUBECTL_LIMIT", "POLL_SECONDS", "holding"]

HANG_SECONDS = 120.0
# For `kubectl wait`, `delete` and `rollout`, and for `helm`.
KUBECTL_LIMIT = f"--timeout={HANG_SECONDS:.0f}s"

# Between two looks at what another process does.
POLL_SECONDS = 0.02


async def holding(probe: Callable[[], object], what: str) -> None:
    """Until `probe`, or what it makes when that is awaited, is true.

    For what other processes do; `tests.fakes.clock.until` is for the tasks of this one.
    """
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        answer = probe()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return
        assert time.monotonic() < deadline, f"{what}: not within {HANG_SECONDS:g} s; the last answer was {answer!r}"
        await asyncio.sleep(POLL_SECONDS)
