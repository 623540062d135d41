"""The interface of a store: the part of etcd's that an API server needs.

All keys share one revision counter; the empty store is at revision 1, as etcd. Every acknowledged write has a revision of its
own, is durable, and reaches every subscription exactly once, in order of revision. There may be revisions without a write. A
store holds bytes by key and knows nothing of Kubernetes. Keys are paths such as `/stable.example.com/crontabs/default/a`, and
sort by their bytes (UTF-8). Prefixes end with `/`.

`storage/cacher.py` reads and subscribes, `registry/store.py` writes. All calls are made on the event loop's thread and do not
block it. `tests/storage/contract.py` tests this behaviour for every backend.
Source: etcd API v3; k8s.io/apiserver pkg/storage/interfaces.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from aggserver.errors import AggserverError
from aggserver.storage.figures import StorageFigures

__all__ = [
    "Compacted",
    "Conflict",
    "Corrupt",
    "CorruptList",
    "Event",
    "FutureRevision",
    "KeyExists",
    "KeyValue",
    "NotFound",
    "Page",
    "Precondition",
    "PreconditionFailed",
    "Sink",
    "Storage",
    "StorageError",
    "Subscription",
    "TooLarge",
    "Unavailable",
]


MOST_SHOWN = 200  # characters of the reason of a Corrupt in a log line


class StorageError(AggserverError):
    """The base of all errors that a store raises; any other exception is a bug."""


class KeyExists(StorageError):
    """A create of a key that exists. `current` is the key's state."""

    def __init__(self, key: str, current: KeyValue) -> None:
        super().__init__(key)
        self.key = key
        self.current = current


class NotFound(StorageError):
    """An update or delete of a key that does not exist."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Conflict(StorageError):
    """The key's revision is not the expected one. `current` is the key's state, with which the caller may retry."""

    def __init__(self, key: str, current: KeyValue) -> None:
        super().__init__(key)
        self.key = key
        self.current = current


class PreconditionFailed(StorageError):
    """The key of the write's guard is not at the guard's revision; nothing was written."""


class Compacted(StorageError):
    """The requested revision has been compacted; `oldest` is the first that can still be listed at, and watched after."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} has been compacted, the oldest kept is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StorageError):
    """The requested revision is greater than the newest one, `current`."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is in the future, the newest is {current}")
        self.revision = revision
        self.current = current


class TooLarge(StorageError):
    """The backend rejects a write of that size; nothing was written. The text is the backend's."""


class Unavailable(StorageError):
    """The backend failed: disk full, file locked, connection lost. A write may or may not have happened."""


class Corrupt(StorageError):
    """The value of a key is damaged or can't be decoded. `why` is the reason.

    deleted: the key was deleted at `revision`, and no DELETED event can be made of the unreadable value. `str()` is for logs; it
    has only the beginning of `why`, which may contain parts of the object.
    """

    def __init__(self, key: str, revision: int, why: str, *, deleted: bool = False) -> None:
        super().__init__(f"{key} at revision {revision} can't be read: {why[:MOST_SHOWN]}")
        self.key = key
        self.revision = revision
        self.why = why
        self.deleted = deleted


class CorruptList(StorageError):
    """A list contains objects that can't be read. `errors` are sorted by key."""

    def __init__(self, errors: Sequence[Corrupt]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


@dataclass(frozen=True, slots=True)
class KeyValue:
    """The state of a key: `revision` is that of its last write, `create_revision` that of its creation.

    `fault`: why `value` is not what was written, '' if it is. A backend with checksums reports a damaged value this way instead
    of raising an error, so that the other values can still be read.
    """

    key: str
    value: bytes
    create_revision: int
    revision: int
    fault: str = ""


class Precondition(NamedTuple):
    """A condition of a write: that another key is at `revision`, 0 if it must not exist. Checked in the write's transaction."""

    key: str
    revision: int


class Event(NamedTuple):
    """One committed write. `value` is None for a deletion; `create_revision` equals `revision` for a creation.

    `previous` is the state that the write replaced, None for a creation. `Storage.history` always has it. A subscription may
    leave it None, and `create_revision` 0 for a deletion: its sink knows the previous state, and reading every replaced value
    again would slow down all writes. `fault` is as in KeyValue.
    """

    revision: int
    key: str
    value: bytes | None
    create_revision: int
    previous: KeyValue | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list. `revision` is that of the list; `more` is whether further keys follow; `remaining` is their number."""

    items: Sequence[KeyValue]
    revision: int
    more: bool
    remaining: int


class Sink(Protocol):
    """The receiver of a subscription. Both methods are called on the event loop and must not block.

    `events` may raise StorageError: the subscription ends, and `lost` is called with that error. Nothing else must be raised.
    """

    def events(self, batch: Sequence[Event], revision: int) -> None:
        """Writes under the prefix, in order. `revision` is the store's after them, including events of other prefixes.

        An empty batch reports progress only. A backend in this process calls this before the writer's call returns. From etcd,
        events arrive later: to read consistently, ask for `Storage.revision` and wait until the subscription has reached it.
        """

    def lost(self, error: StorageError) -> None:
        """The subscription has ended with `error` (Compacted, Unavailable); list and subscribe again."""


class Subscription(Protocol):
    def progress(self) -> None:
        """Request a call of `Sink.events`, possibly empty, with at least the store's present revision.

        Backends in this process make the call before this returns; etcd answers later.
        """

    def close(self) -> None:
        """End delivery immediately. May be called twice."""


class Storage(Protocol):
    """The interface of every backend. `start` comes before all other calls, `close` last."""

    async def start(self) -> None:
        """Open the store. Raises Unavailable with the reason if it can't be used."""

    async def close(self) -> None:
        """Finish the writes in progress and release all resources. May be called twice."""

    def trouble(self) -> str | None:
        """For readiness: why the store can't be used, None if it can. Does not query the backend."""

    def figures(self) -> StorageFigures:
        """For metrics. Does not query the backend."""

    def location(self, key: str) -> str:
        """The key as it is in the backend, for messages."""

    async def revision(self) -> int:
        """The newest revision: at least that of every write acknowledged before the call."""

    async def get(self, key: str) -> KeyValue | None:
        """The key's newest state, None if it does not exist."""

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0, counted: bool = True) -> Page:
        """Keys under `prefix`, beginning at the key `start` (inclusive), at most `limit` (0: all), at `revision` (0: newest).

        counted: whether the page's `remaining` is needed; otherwise it may be 0, since counting can take longer than reading.

        Raises Compacted or FutureRevision.
        """

    async def create(self, key: str, value: bytes, guard: Precondition | None = None) -> int:
        """Returns the write's revision. Raises KeyExists, TooLarge, PreconditionFailed."""

    async def update(self, key: str, value: bytes, expected: int, guard: Precondition | None = None) -> int:
        """Replace the value if the key's revision is `expected`. Returns the write's revision.

        Raises NotFound, Conflict, TooLarge, PreconditionFailed. If several of these apply, any one of them is raised.
        """

    async def delete(self, key: str, expected: int, guard: Precondition | None = None) -> int:
        """Delete the key if its revision is `expected`. Returns the deletion's revision. Raises as `update`, except TooLarge."""

    async def advance(self, revision: int) -> int:
        """Raise the store's revision to at least `revision`, so that every later write has a greater one. Returns the revision.

        This is for objects that come from another store whose revision is higher: their clients must not see revisions go back.
        It is as durable as a write, and no history is lost. A backend in this process reports the progress to every subscription
        before this returns. Does nothing if the store's revision is not lower. Raises StorageError if the revision is too far
        ahead for the backend.
        """

    async def settle(self) -> None:
        """Wait until every write requested before this call has happened or failed, also those whose callers were cancelled.

        A list after that has all of them.
        """

    async def count(self, prefix: str) -> int:
        """The number of keys under `prefix`."""

    async def room(self) -> int | None:
        """The free space of the backend in bytes, None if it is not known. Raises Unavailable."""

    async def watch(self, prefix: str, after: int, sink: Sink) -> Subscription:
        """Deliver every write under `prefix` with a revision greater than `after`. Past ones are delivered before this returns.

        Raises Compacted or FutureRevision.
        """

    async def history(self, prefix: str, after: int, upto: int, limit: int) -> Sequence[Event]:
        """The first `limit` writes under `prefix` with `after` < revision <= `upto`, in order, each with the state it replaced.

        Fewer than `limit` means that there are no more. `upto` must not be in the future. Raises Compacted.
        """

    @property
    def oldest_kept(self) -> int:
        """The revision that was last compacted to, as far as it is known here; 0 if none is. With a shared store, the compaction
        of another server is known an interval later.
        """

    async def claim_compaction(self, revision: int) -> bool:
        """Whether this server is to compact to `revision`. Of the servers that share a store, one gets True in each interval."""

    async def compact(self, revision: int) -> None:
        """Delete the history before `revision`; does nothing if that was done already. Raises FutureRevision.

        After that, lists at an older revision and watches after an older one raise Compacted.
        """
