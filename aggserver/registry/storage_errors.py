"""Turns storage errors into the StatusErrors that clients see.

The context managers go around calls of the storage and the watch cache. KeyExists, Conflict and NotFound pass them: the write
loop handles these.
Source: k8s.io/apiserver pkg/registry/generic/registry/storage_factory.go, pkg/storage/etcd3/errors.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from aggserver.meta import errors
from aggserver.registry.unreadable import Unreadable
from aggserver.storage.interface import Compacted, Corrupt, FutureRevision, PreconditionFailed, TooLarge, Unavailable

__all__ = ["reading", "too_old", "writing"]


def _list_too_old(error: Compacted) -> errors.StatusError:
    return errors.expired("The resourceVersion for the provided list is too old.")


def too_old(error: Compacted) -> errors.StatusError:
    """The error of a watch whose resourceVersion is too old."""
    return errors.expired(f"too old resource version: {error.revision} ({error.oldest})")


class _Reading:
    """What `reading` returns. A class, since a generator takes five times as long, and every read has one."""

    __slots__ = ("_expired",)

    def __init__(self, expired: Callable[[Compacted], errors.StatusError]) -> None:
        self._expired = expired

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Compacted):
            raise self._expired(error) from None
        if isinstance(error, FutureRevision):
            raise errors.too_large_resource_version(error.revision, error.current) from None
        if isinstance(error, Corrupt):
            raise Unreadable(error) from None
        if isinstance(error, Unavailable):
            raise errors.internal_error(str(error)) from error


_READING = _Reading(_list_too_old)


def reading(expired: Callable[[Compacted], errors.StatusError] | None = None) -> AbstractContextManager[None]:
    """For reads. expired: makes the error for a revision that is too old, whose text differs by the kind of read; None: that of a
    list.
    """
    return _READING if expired is None else _Reading(expired)


class _Writing:
    """What `writing` returns. A class, as `_Reading`."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, TooLarge):
            raise errors.request_entity_too_large(str(error)) from None
        if isinstance(error, PreconditionFailed):
            raise errors.service_unavailable("the definition is changing; please try again", retry_after=1) from None
        if isinstance(error, Unavailable):
            raise errors.internal_error(str(error)) from error


_WRITING = _Writing()


def writing() -> AbstractContextManager[None]:
    """For writes. 413 if the object is too large for the storage, where kube-apiserver responds with 500 and etcd's text."""
    return _WRITING
