"""Wants: what is wanted of each family now, which may change while a step of its move goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

from aggserver.adoption.families import Family
from aggserver.errors import AggserverError

__all__ = ["ChangedError", "Wants"]

T = TypeVar("T")


class ChangedError(AggserverError):
    """What is wanted has changed, so that the move must begin anew or end."""


class Wants:
    """What is wanted now. families: by name. changed: set by each call of `set_families`."""

    def __init__(self) -> None:
        self.families: dict[str, Family] = {}
        self.changed = asyncio.Event()

    def set_families(self, families: Sequence[Family]) -> None:
        self.families = {family.name: family for family in families}
        self.changed.set()

    async def during(self, work: Coroutine[None, None, T], check: Callable[[], None]) -> T:
        """Do the work and return its result. `check` is called at each change of what is wanted; if it raises, the work ends.

        Raises what either raises.
        """
        task = asyncio.create_task(work)
        try:
            while not task.done():
                self.changed.clear()
                check()
                changed = asyncio.create_task(self.changed.wait())
                await asyncio.wait([task, changed], return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            task.cancel()
            await asyncio.wait([task])
        return task.result()
