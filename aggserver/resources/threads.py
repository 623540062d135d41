"""Threads: a pool whose threads don't keep the process from ending, unlike those of `concurrent.futures`.

A user's function that never returns could otherwise not even be ended by stopping the server. The pool belongs to one event loop,
which a result wakes once; a `Future` of `concurrent.futures` wakes it twice, and has a lock with a condition of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Threads"]

T = TypeVar("T")


class _Call:
    """One call. left: called on the event loop when no thread runs it any more."""

    def __init__(self, run: Callable[[], Any], left: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[Any] = self._loop.create_future()
        self._context = contextvars.copy_context()
        # Whoever pops it may run it, or may say that nobody will: `pop` is one step, in whichever thread.
        self._waiting = [run]
        self._left = left

    def give_up(self) -> None:
        """Keep a call that has not begun from beginning. On the event loop."""
        with contextlib.suppress(IndexError):
            self._waiting.pop()
            self._left()
            self.result.cancel()

    def run(self) -> None:
        """In a thread."""
        try:
            run = self._waiting.pop()
        except IndexError:
            return
        try:
            end = functools.partial(self._end, self.result.set_result, self._context.run(run))
        except StopIteration as error:
            wrong = RuntimeError("the function raised StopIteration")
            wrong.__cause__ = error
            end = functools.partial(self._end, self.result.set_exception, wrong)
        except BaseException as error:  # whatever it is, the one who waits must get it
            end = functools.partial(self._end, self.result.set_exception, error)
        # The loop may be closed when a thread that nobody could end comes back.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(end)

    def _end(self, tell: Callable[[Any], object], outcome: Any) -> None:
        self._left()
        if not self.result.cancelled():
            tell(outcome)


class Threads:
    """At most `most` threads, each started when there are more calls than threads. Used from the event loop's thread only."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._started = 0
        self._calls = 0  # waiting or running, as far as the loop knows
        self._work: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()

    async def run(self, function: Callable[[], T], left: Callable[[], object]) -> T:
        """The result of a function. Whoever is cancelled does not wait for it; it is not called then, unless it has begun.

        left: called on the event loop when the function has returned, even if nobody waited for it, or will not be called.
        """

        def over() -> None:
            self._calls -= 1
            left()

        call = _Call(function, over)
        self._calls += 1
        self._work.put(call)
        if self._started < min(self._calls, self._most):
            self._started += 1
            threading.Thread(target=self._run, name=f"{self._name} {self._started}", daemon=True).start()
        try:
            result: T = await call.result
        except asyncio.CancelledError:
            call.give_up()
            raise
        return result

    def close(self) -> None:
        """Give up what has not begun. Threads end after what they are doing."""
        while True:
            try:
                call = self._work.get_nowait()
            except queue.Empty:
                break
            if call is not None:
                call.give_up()
        for _ in range(self._started):
            self._work.put(None)

    def _run(self) -> None:
        while (call := self._work.get()) is not None:
            call.run()
            del call  # an idle thread must not keep a result in memory
