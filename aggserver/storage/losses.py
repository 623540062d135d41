"""Losses: what a loop that follows a store does with an exception, so that none ends it in silence.

A cache that no longer follows its store answers with old objects for ever, and nothing shows it. So such a loop takes every
exception for a loss of its subscription, whatever the store's contract says of it: errors of a library that a backend did not
translate, and defects. Only what ends the loop from outside goes on: the cancellation of its own task. gRPC raises CancelledError
also when a call was cancelled that the task waits for.
"""

from __future__ import annotations

import asyncio

from aggserver.storage.interface import StorageError, Unavailable

__all__ = ["Defect", "as_lost", "is_own"]


class Defect(Unavailable):
    """Following the store failed for a reason that no store should have. Its cause is worth a traceback in the log."""


def is_own(error: BaseException) -> bool:
    """Whether an exception is meant for the running task itself, or for the whole process."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or bool(task.cancelling())
    return not isinstance(error, Exception)


def as_lost(error: BaseException) -> StorageError:
    """The error as `Sink.lost` takes it."""
    if isinstance(error, StorageError):
        return error
    defect = Defect(f"following the store failed: {error!r}")
    defect.__cause__ = error
    return defect
