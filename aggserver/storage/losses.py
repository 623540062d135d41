"""Losses: how a loop that follows a store treats exceptions, so that none ends it silently.

A cache that no longer follows its store answers with old objects for ever, and nothing shows it. So such a loop treats every
exception as a loss of its subscription, also those that the interface of a store does not allow: errors of a library that a
backend did not translate, and defects. Only the cancellation of the loop's own task is raised further. It must be distinguished,
because gRPC raises CancelledError also when a call that the task waits for was cancelled.
"""

from __future__ import annotations

import asyncio

from aggserver.storage.interface import StorageError, Unavailable

__all__ = ["Defect", "as_lost", "is_own"]


class Defect(Unavailable):
    """Following the store failed with an error that is no StorageError. Its cause is logged with a traceback."""


def is_own(error: BaseException) -> bool:
    """Whether an exception cancels the running task itself, or ends the whole process."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or bool(task.cancelling())
    return not isinstance(error, Exception)


def as_lost(error: BaseException) -> StorageError:
    """The error to pass to `Sink.lost`: the same one, or a Defect if it is no StorageError."""
    if isinstance(error, StorageError):
        return error
    defect = Defect(f"following the store failed: {error!r}")
    defect.__cause__ = error
    return defect
