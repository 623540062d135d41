"""Storage errors as the StatusErrors that clients see.

What a caller can do something about (KeyExists, Conflict, NotFound) is the write loop's; the rest becomes a refusal here. Used
around every call of the storage and the cache, by `registry/store.py` and `registry/watch.py`.
Source: k8s.io/apiserver pkg/registry/generic/registry/storage_factory.go, pkg/storage/etcd3/errors.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aggserver.meta import errors
from aggserver.registry.unreadable import Unreadable
from aggserver.storage.interface import Compacted, Corrupt, FutureRevision, TooLarge, Unavailable

__all__ = ["reading", "too_old", "writing"]


def _list_too_old(error: Compacted) -> errors.StatusError:
    return errors.expired("The resourceVersion for the provided list is too old.")


def too_old(error: Compacted) -> errors.StatusError:
    """Of a watch."""
    return errors.expired(f"too old resource version: {error.revision} ({error.oldest})")


@contextmanager
def reading(expired: Callable[[Compacted], errors.StatusError] = _list_too_old) -> Iterator[None]:
    """What has expired has its own words for each kind of read."""
    try:
        yield
    except Compacted as error:
        raise expired(error) from None
    except FutureRevision as error:
        raise errors.too_large_resource_version(error.revision, error.current) from None
    except Corrupt as error:
        raise Unreadable(error) from None
    except Unavailable as error:
        raise errors.internal_error(str(error)) from error


@contextmanager
def writing() -> Iterator[None]:
    """What a store has no room for is 413, in its own words; kube-apiserver gives etcd's bare text and 500."""
    try:
        yield
    except TooLarge as error:
        raise errors.request_entity_too_large(str(error)) from None
    except Unavailable as error:
        raise errors.internal_error(str(error)) from error
