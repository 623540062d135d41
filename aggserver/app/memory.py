"""Returns freed memory to the system.

glibc keeps freed memory that lies below a piece in use. Measured: after 200 unread watches had ended and all their buffers were
freed, 75 of 130 MB resident were free memory between pieces in use, which `malloc_trim` returned. It is called when much memory
was free in two checks in a row, because a busy server would take the pages again at once. With another C library nothing is done:
musl and macOS return memory by themselves.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Awaitable, Callable
from typing import Protocol

from aggserver.app.tasks import Task

__all__ = ["Heap", "give_back_memory", "give_back_regularly", "glibc"]

LOOK = 5.0  # seconds between checks; one takes some 10 us

# Free bytes that are worth a trim: fewer would soon be taken from the system again.
WORTHWHILE = 4 << 20


class Heap(Protocol):
    """The C library's heap."""

    def free_bytes(self) -> int:
        """Bytes that were freed. They include those that a trim has returned from between pieces in use."""

    def trim(self) -> None:
        """Returns all whole free pages to the system."""


async def give_back_regularly(heap: Heap | None, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Trim the heap when that is worthwhile, until cancelled. Returns at once without a heap."""
    if heap is None:
        return
    given = before = heap.free_bytes()
    while True:
        await sleep(LOOK)
        free = heap.free_bytes()
        # Returned bytes count as free until they are used again.
        given = min(given, free)
        if min(before, free) - given >= WORTHWHILE:
            heap.trim()
            given = free = heap.free_bytes()
        before = free


_MEMBERS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class _Mallinfo2(ctypes.Structure):
    """struct mallinfo2 of <malloc.h>; fordblks are the free bytes."""

    _fields_ = [(name, ctypes.c_size_t) for name in _MEMBERS]


class _Glibc:
    def __init__(self, library: ctypes.CDLL) -> None:
        self._info = library.mallinfo2
        self._info.restype = _Mallinfo2
        self._trim = library.malloc_trim

    def free_bytes(self) -> int:
        free: int = self._info().fordblks
        return free

    def trim(self) -> None:
        self._trim(0)


def glibc() -> Heap | None:
    """The heap of this process; None if the C library is not glibc 2.33 or newer."""
    try:
        return _Glibc(ctypes.CDLL(None))
    except (AttributeError, OSError, TypeError):  # no such function; no libc to open; Windows
        return None


def give_back_memory() -> Task:
    """The task that returns freed memory to the system."""
    return ("return of freed memory", lambda: give_back_regularly(glibc()))
