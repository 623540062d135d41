"""How much work a call does, in instructions of the interpreter: the same in each run, whatever else the machine does."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

__all__ = ["instructions", "longest_turn"]


def instructions(call: Callable[[], object]) -> int:
    """What is done in C, such as the comparison of two lists, counts as one."""
    return _traced(call)[1]


async def longest_turn(coroutine: Coroutine[Any, Any, object]) -> int:
    """The most instructions that a coroutine does before it lets other tasks run, itself or what it awaits."""
    longest = 0
    waits: Any = None
    while True:
        waits, count = _traced(lambda: _resumed(coroutine))
        longest = max(longest, count)
        if waits is _ENDED:
            return longest
        if waits is None:
            await asyncio.sleep(0)
        else:
            # A future of a coroutine that somebody else drives, such as a thread's.
            waits._asyncio_future_blocking = False
            await asyncio.wait([waits])


_ENDED = object()


def _resumed(coroutine: Coroutine[Any, Any, object]) -> Any:
    try:
        return coroutine.send(None)
    except StopIteration:
        return _ENDED


def _traced(call: Callable[[], object]) -> tuple[Any, int]:
    count = 0

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return traced

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # a collection may end what other tests have left, which is no work of this call
    sys.settrace(traced)
    try:
        return call(), count
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
