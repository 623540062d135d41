"""check_source: whether the functions of a virtual resource keep what a server relies on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from aggserver.resources.calls import Calls
from aggserver.resources.virtual import Virtual
from aggserver.testing.source_contract.asked import Asked
from aggserver.testing.source_contract.feeds import FollowedFeed
from aggserver.testing.source_contract.follower import Follower
from aggserver.testing.source_contract.reads import check_reads
from aggserver.testing.source_contract.watches import FollowedWatch
from aggserver.testing.source_contract.writes import Writes

__all__ = ["check_source"]

S = TypeVar("S")
T = TypeVar("T")


async def check_source(
    handle: Virtual[S, T],
    *,
    state: S | None = None,
    new: T | None = None,
    change: Callable[[T], T | None] | None = None,
    touch: Callable[[], Awaitable[object]] | None = None,
    seconds: float = 10.0,
) -> None:
    """Call the functions of a virtual resource as a server does, and raise AssertionError for what a server could not bear.

    Nobody else may change the source meanwhile. It should have some objects, best in two namespaces.

    state: `request.state`, which the lifespan of the App would yield. new: an object that is not there yet; needed for a resource
    with `create`, and removed afterwards if it has `delete`. change: changes a field of an object, in place or by returning
    another one; needed for a resource with `update`. touch: changes the source as others do, such as by a statement of SQL, to
    see whether the feed or the watch tells. seconds: the longest that these may take to tell of a change.

    Raises TypeError where an argument is missing.
    """
    if not isinstance(handle, Virtual):
        raise TypeError(f"check_source is for what App.virtual returns, not {type(handle).__name__}")
    functions, name = handle.functions, handle.declaration.name
    if functions.create is not None and new is None:
        raise TypeError(f"{name} has create: check_source needs new=, an object that is not there yet")
    if functions.update is not None and change is None:
        raise TypeError(f"{name} has update: check_source needs change=, a function that changes a field of an object")
    if functions.list is None and functions.get is None:
        raise TypeError(f"{name} has neither a list nor a get function")
    calls = Calls("check_source", threads=4)
    try:
        await _check(Asked(handle, state, calls), new, change, touch, seconds)
    finally:
        calls.close()


async def _check(
    asked: Asked,
    new: T | None,
    change: Callable[[T], T | None] | None,
    touch: Callable[[], Awaitable[object]] | None,
    seconds: float,
) -> None:
    await check_reads(asked)
    functions = asked.functions
    if functions.feed is None and functions.watch is None:
        await Writes(asked, new, change, None).check()
        return
    first: FollowedWatch | None = None
    for is_second in (False, True):
        followed: Follower
        if functions.feed is not None:
            followed = FollowedFeed(asked, seconds)
        else:
            followed = first = FollowedWatch(asked, seconds, first)
        try:
            await followed.begin()
            if is_second:  # as after a failure: the function is called again
                await followed.settled("state when it was called for a second time")
            else:
                if touch is not None:
                    await touch()
                    await followed.settled(f"change that touch has made {followed.start}")
                await Writes(asked, new, change, followed).check()
                await followed.settled("last of all changes")
        except BaseException:
            followed.abandon()
            raise
        await followed.end()
