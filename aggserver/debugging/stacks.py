"""What all threads and tasks of the process are at, as Go's `/debug/pprof/goroutine?debug=1`. Equal stacks are one entry.

Only functions and lines are shown, no values.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from types import CoroutineType, FrameType

from aggserver.debugging.profile import MAX_DEPTH, Place, frames_of

__all__ = ["report"]

# Tasks that are looked at: many times those of a busy server, some milliseconds of work.
MAX_TASKS = 20_000


def report() -> str:
    """The stacks of threads and tasks, the most frequent ones first. To be called in the event loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    threads = [(names.get(ident, "unknown"), frames_of(frame)) for ident, frame in sys._current_frames().items()]
    tasks = list(asyncio.all_tasks())
    waiting = Counter(_frames(task) for task in tasks[:MAX_TASKS])
    lines = [f"threads: {len(threads)}\n"]
    for name, stack in sorted(threads, key=lambda each: each[0]):
        lines += [f"\nthread {name}\n", *_shown(stack)]
    lines.append(f"\ntasks: {len(tasks)}\n")
    for stack, count in waiting.most_common():
        lines += [f"\n{count} @\n", *_shown(stack)]
    return "".join(lines)


def _frames(task: asyncio.Task[object]) -> tuple[Place, ...]:
    """Of the coroutines that await each other, the innermost first; `Task.get_stack` names the outermost alone."""
    found: list[Place] = []
    waits: object = task.get_coro()
    while isinstance(waits, CoroutineType) and len(found) < MAX_DEPTH:
        frame: FrameType | None = waits.cr_frame
        if frame is not None:
            found.append((frame.f_code, frame.f_lineno or frame.f_code.co_firstlineno))
        waits = waits.cr_await
    return tuple(reversed(found))


def _shown(stack: Iterable[Place]) -> Iterable[str]:
    return (f"    {code.co_qualname} {code.co_filename}:{line}\n" for code, line in stack)
