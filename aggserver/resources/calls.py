"""Calls: runs the functions of one App.

An `async` function runs on the event loop; a step of it that holds the loop for a tenth of a second is logged with its name. A
plain function runs in the App's own threads, which DNS and the server's own work don't share. A plain generator runs in one
thread from its beginning to its end, since connections of databases often belong to a thread. Every call has a deadline. A read
is given up when its client goes; a write is finished, since nobody can say what half a write has done.

A thread can't be ended: a plain function that never returns keeps one of the App's threads, and later calls get 503 when
none is left. `is_running` tells of such a call. The server ends without waiting for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import itertools
import logging
import threading
import time
import types
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from aggserver.meta import errors
from aggserver.resources.host import HOSTING, Hosting
from aggserver.resources.pages import Page
from aggserver.resources.threads import Threads

__all__ = ["HOLDING_SECONDS", "Calls", "Limit", "is_stream", "name_of"]

T = TypeVar("T")

log = logging.getLogger("aggserver.resources")

# A step on the event loop that takes longer keeps all other requests waiting, and is logged.
HOLDING_SECONDS = 0.1
# Calls of plain functions that may wait for a thread, for each thread: more would only wait until their deadline.
_WAITING_PER_THREAD = 16
# Items that a plain generator may be ahead of those who take them.
_AHEAD = 1000


def name_of(function: Callable[..., Any]) -> str:
    """As in a traceback: module and qualified name."""
    inner = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    return f"{getattr(inner, '__module__', '?')}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"


# What a function is takes a microsecond to find out, and each call asks.
@functools.lru_cache(maxsize=1024)
def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function)


class Calls:
    """threads: for plain functions. clock: seconds, to measure how long a step holds the loop. name: of the App, for the log.
    hosting: what `Request.host` asks.
    """

    def __init__(
        self, name: str, threads: int, clock: Callable[[], float] = time.perf_counter, hosting: Hosting | None = None
    ) -> None:
        self._name = name
        self._hosting = hosting
        self._clock = clock
        self._threads = threads
        self._pool = Threads(threads, f"app {name}")
        self._in_pool: Counter[Callable[..., Any]] = Counter()

    def close(self) -> None:
        """Waits for no thread: what still runs then can't be ended."""
        self._pool.close()

    def is_running(self, function: Callable[..., Any]) -> bool:
        """Whether a call of a plain function has not returned yet, perhaps one that was given up."""
        return self._in_pool[function] > 0

    async def read(self, function: Callable[..., Any], *args: Any, seconds: float) -> Any:
        """The result of a function; that of a generator function is a list. Raises TimeoutError as 504."""
        HOSTING.set(self._hosting)
        if not _is_async(function):
            async with self.limit(function, seconds):
                return await self._called(function, args)
        # The first step is made before there is a limit: most hooks have no other, and a timer costs more than they do.
        steps = function(*args)
        began = self._clock()
        try:
            waiting = steps.send(None)
        except StopIteration as end:
            return end.value
        finally:
            if (held := self._clock() - began) > HOLDING_SECONDS:
                self._held(name_of(function), held)
        async with self.limit(function, seconds):
            return await _steps(steps, self._clock, functools.partial(self._held, name_of(function)), waiting)

    async def write(self, function: Callable[..., Any], *args: Any, seconds: float) -> Any:
        """As `read`, but the function runs to its end though the client may be gone."""
        task = asyncio.ensure_future(self.read(function, *args, seconds=seconds))
        task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    def limit(self, function: Callable[..., Any], seconds: float) -> Limit:
        """A context in which a function has only so much time; `Limit.renew` gives it as much again."""
        return Limit(function, seconds)

    async def _called(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if is_stream(function):
            return await self._collected(function, args)
        result = await self.in_thread(function, functools.partial(_whole, function, args))
        # A plain function may hand on what an async one has made, as a lambda does.
        if inspect.iscoroutine(result):
            result = await self._timed(result, name_of(function))
        return [item async for item in self._stepped(result, name_of(function))] if inspect.isasyncgen(result) else result

    async def _collected(self, function: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
        """The items of a generator function, all at once."""
        if inspect.isasyncgenfunction(function):
            return [item async for item in self.stream(function, *args)]
        # Taken in the thread, since each hand-over costs more than most items. The client may be gone before the last one.
        is_wanted = True

        def run() -> list[Any]:
            with contextlib.closing(function(*args)) as items:
                return list(itertools.takewhile(lambda _: is_wanted, items))

        try:
            return await self.in_thread(function, run)
        finally:
            is_wanted = False

    def stream(self, function: Callable[..., Any], *args: Any) -> AsyncGenerator[Any, None]:
        """The items of a generator function, plain or async. To be closed (`aclosing`), unless it comes to its end."""
        HOSTING.set(self._hosting)
        if inspect.isasyncgenfunction(function):
            return self._stepped(function(*args), name_of(function))
        return self._from_thread(function, args)

    async def _stepped(self, items: AsyncIterator[T], name: str) -> AsyncGenerator[T, None]:
        """The items of an async generator, each step of it timed."""
        try:
            while True:
                try:
                    item = await self._timed(anext(items), name)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

    async def _from_thread(self, function: Callable[..., Iterator[T]], args: tuple[Any, ...]) -> AsyncGenerator[T, None]:
        """The items of a plain generator function, which runs in one thread, and is never more than some items ahead."""
        handover: _Handover[T] = _Handover()
        call = asyncio.ensure_future(self.in_thread(function, functools.partial(handover.run, function, args)))
        call.add_done_callback(lambda _: handover.filled.set())
        try:
            while True:
                await handover.filled.wait()
                handover.filled.clear()
                is_over = call.done()
                for item in handover.take():
                    yield item
                if is_over:
                    call.result()
                    return
        finally:
            handover.stop()
            call.cancel()
            _retrieve_later(call)

    async def in_thread(self, function: Callable[..., Any], run: Callable[[], T]) -> T:
        """Run a plain function in one of the App's threads. Raises 503 if too many wait for one."""
        if self._in_pool.total() >= self._threads * (_WAITING_PER_THREAD + 1):
            raise errors.service_unavailable(f"all threads of {self._name} are in use", retry_after=1)
        self._in_pool[function] += 1
        return await self._pool.run(run, functools.partial(self._left, function))

    def _left(self, function: Callable[..., Any]) -> None:
        self._in_pool[function] -= 1
        if not self._in_pool[function]:
            del self._in_pool[function]

    def _timed(self, awaitable: Awaitable[T], name: str) -> Coroutine[Any, Any, T]:
        async def run() -> T:
            return await _steps(awaitable, self._clock, functools.partial(self._held, name))

        return run()

    def _held(self, name: str, seconds: float) -> None:
        log.warning(
            "%s held the event loop for %.0f ms, and no other request was answered; a function without async runs in a thread",
            *(name, seconds * 1000),
        )


class Limit:
    """A time limit whose end is a 504 that names the function in the log, and not to the client."""

    def __init__(self, function: Callable[..., Any], seconds: float) -> None:
        self._function = function
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds if seconds != float("inf") else None)

    def renew(self) -> None:
        self._timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)

    async def __aenter__(self) -> Limit:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._timeout.__aexit__(*error)
        except TimeoutError:
            log.warning("%s did not end in time", name_of(self._function))
            # Without Retry-After: client-go would ask ten times more, each of which takes as long.
            raise errors.timeout("the resource's source did not answer in time") from None


_NOT_BEGUN: Any = object()


@types.coroutine
def _steps(
    awaitable: Awaitable[T], clock: Callable[[], float], held: Callable[[float], None], waiting: Any = _NOT_BEGUN
) -> Generator[Any, Any, T]:
    """Await, and measure how long each step takes until it gives the loop back. waiting: what the first step, which a coroutine
    has made already, waits for.
    """
    steps: Any
    if waiting is _NOT_BEGUN:
        steps = awaitable.__await__()
        resume: Callable[[], Any] = functools.partial(next, steps)
    else:
        steps = awaitable
        resume = lambda: waiting  # noqa: E731
    while True:
        began = clock()
        try:
            waiting = resume()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            if (seconds := clock() - began) > HOLDING_SECONDS:
                held(seconds)
        try:
            value = yield waiting
        except BaseException as error:
            resume = functools.partial(steps.throw, error) if hasattr(steps, "throw") else _raising(error)
        else:
            resume = functools.partial(steps.send, value) if hasattr(steps, "send") else functools.partial(next, steps)


def _raising(error: BaseException) -> Callable[[], Any]:
    def throw() -> Any:
        raise error

    return throw


class _Handover(Generic[T]):
    """Items from a generator in a thread to the event loop. `filled` is set when there are some."""

    def __init__(self) -> None:
        self.filled = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._items: list[T] = []
        self._stopped = False

    def run(self, function: Callable[..., Iterator[T]], args: tuple[Any, ...]) -> None:
        """In the thread."""
        items = function(*args)
        try:
            for item in items:
                with self._changed:
                    self._changed.wait_for(lambda: self._stopped or len(self._items) < _AHEAD)
                    if self._stopped:
                        return
                    self._items.append(item)
                    is_first = len(self._items) == 1
                if is_first:
                    self._loop.call_soon_threadsafe(self.filled.set)
        finally:
            items.close()  # type: ignore[attr-defined]  # a generator

    def take(self) -> list[T]:
        with self._changed:
            taken, self._items = self._items, []
            self._changed.notify()
        return taken

    def stop(self) -> None:
        """The generator is closed at its next item: before, nobody can interrupt it."""
        with self._changed:
            self._stopped = True
            self._changed.notify()


@functools.lru_cache(maxsize=1024)
def is_stream(function: Callable[..., Any]) -> bool:
    """Whether it is a generator function, plain or async."""
    return inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)


def _whole(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The result of a plain function; all of what is made step by step, since the steps have to run in this thread."""
    result = function(*args)
    if isinstance(result, Page):
        return replace(result, items=_listed(result.items))
    return _listed(result)


def _listed(result: Any) -> Any:
    is_lazy = isinstance(result, Iterable) and not isinstance(result, str | bytes | Mapping | list | tuple)
    return list(result) if is_lazy else result


def _retrieve(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _retrieve_later(task: asyncio.Future[Any]) -> None:
    """Nobody waits for the task any more: asyncio would log an exception of it as never retrieved."""
    task.add_done_callback(_retrieve)
