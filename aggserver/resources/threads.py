"""Threads: a pool whose threads don't keep the process from ending, unlike those of `concurrent.futures`.

A user's function that never returns could otherwise not even be ended by stopping the server.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Threads"]

T = TypeVar("T")


class Threads:
    """At most `most` threads, each started when there is work and none is idle. Used from the event loop's thread only."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._started = 0
        self._idle = threading.Semaphore(0)
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._work.put((future, call))
        if not self._idle.acquire(blocking=False) and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._run, name=f"{self._name} {self._started}", daemon=True).start()
        return future

    def close(self) -> None:
        """Cancel what has not begun. Threads end after what they are doing."""
        while True:
            try:
                item = self._work.get_nowait()
            except queue.Empty:
                break
            if item is not None:
                item[0].cancel()
        for _ in range(self._started):
            self._work.put(None)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            future, call = item
            del item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # whatever it is, the one who waits must get it
                    future.set_exception(error)
            del future, call  # an idle thread must not keep a result in memory
            self._idle.release()
