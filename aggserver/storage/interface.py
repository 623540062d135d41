"""The contract of a store: etcd's, cut down to what an API server needs.

One revision counter runs over all keys; the empty store is at revision 1, as etcd's. Every acknowledged write has a revision
of its own, is durable, and reaches every subscription exactly once, in order of revision. A store knows keys and bytes and
nothing of Kubernetes. Keys are paths such as `/stable.example.com/crontabs/default/a`; they sort by their bytes (UTF-8).
Prefixes end in `/`.

Callers: `storage/cacher.py` (reads and subscriptions) and `registry/store.py` (writes). Everything here runs on the event
loop's thread; what blocks is the backend's own affair. `tests/storage/contract.py` states the behaviour as tests, for every
backend.
Source: etcd API v3; k8s.io/apiserver pkg/storage/interfaces.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

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
    "Sink",
    "Storage",
    "StorageError",
    "Subscription",
    "TooLarge",
    "Unavailable",
]


MOST_SHOWN = 200  # characters in a log of why an object can't be read


class StorageError(Exception):
    """The root of what a store raises; anything else is a bug."""


class KeyExists(StorageError):
    """Create of a key that is there. `current` is what is there."""

    def __init__(self, key: str, current: KeyValue) -> None:
        super().__init__(key)
        self.key = key
        self.current = current


class NotFound(StorageError):
    """Update or delete of a key that is not there."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Conflict(StorageError):
    """The key's revision is not the expected one. `current` is what is there now, so that the caller may try again on it."""

    def __init__(self, key: str, current: KeyValue) -> None:
        super().__init__(key)
        self.key = key
        self.current = current


class Compacted(StorageError):
    """The revision asked for is no longer kept; `oldest` is the first that can still be listed at, and watched after."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} has been compacted, the oldest kept is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StorageError):
    """The revision asked for has not happened yet; `current` is the newest."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is in the future, the newest is {current}")
        self.revision = revision
        self.current = current


class TooLarge(StorageError):
    """The backend takes no write of that size; nothing has happened. `str()` is its own words."""


class Unavailable(StorageError):
    """The backend can't do it now: disk full, file locked, connection lost. What was asked may or may not have happened."""


class Corrupt(StorageError):
    """What is stored at a key is not what was written, or nothing that can be read. `why` says what is wrong with it.

    deleted: it was there until its deletion at `revision`, of which nobody can be told. The text is for logs, and has the
    beginning of `why`, which may show what is in the object.
    """

    def __init__(self, key: str, revision: int, why: str, *, deleted: bool = False) -> None:
        super().__init__(f"{key} at revision {revision} can't be read: {why[:MOST_SHOWN]}")
        self.key = key
        self.revision = revision
        self.why = why
        self.deleted = deleted


class CorruptList(StorageError):
    """A list would have to show what can't be read. `errors` are in order of key."""

    def __init__(self, errors: Sequence[Corrupt]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key at its last write: `revision` is that write's, `create_revision` the one that made it.

    `fault`: why `value` is not what was written, '' if it is. Only a backend that can tell has any; it gives no other warning, so
    that one damaged value keeps nobody from the rest.
    """

    key: str
    value: bytes
    create_revision: int
    revision: int
    fault: str = ""


class Event(NamedTuple):
    """One committed write. `value` is None for a deletion; `create_revision` equals `revision` for a creation.

    `previous` is what the write replaced, None for a creation. `Storage.history` always has it; a subscription may leave it None,
    and `create_revision` of a deletion 0, because its sink knows the state that the write found, and reading every replaced value
    again would slow down all writes. `fault` is that of a KeyValue.
    """

    revision: int
    key: str
    value: bytes | None
    create_revision: int
    previous: KeyValue | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list. `revision` is the one listed at; `more` says that keys follow; `remaining` counts them."""

    items: Sequence[KeyValue]
    revision: int
    more: bool
    remaining: int


class Sink(Protocol):
    """Where a subscription delivers. All three are called on the event loop, must not block and must not raise."""

    def events(self, batch: Sequence[Event], revision: int) -> None:
        """Writes under the prefix, in order; `revision` is the store's after them (events of other prefixes included).

        Also called with an empty batch, as progress. A backend in this process calls before the writer's call returns; from etcd
        the event comes in its own time, and whoever must have it asks for `Storage.revision` and waits until that is reached.
        """

    def lost(self, error: StorageError) -> None:
        """The subscription is over (Compacted, Unavailable) and delivers no more; list and subscribe again."""


class Subscription(Protocol):
    def progress(self) -> None:
        """Asks for a call of `Sink.events`, maybe empty, whose revision is at least the store's now.

        Backends in this process call before they return; etcd's answer comes later.
        """

    def close(self) -> None:
        """Ends delivery at once. May be called twice."""


class Storage(Protocol):
    """What every backend does. `start` before all else, `close` last."""

    async def start(self) -> None:
        """Opens the store; raises Unavailable with the reason if it can't be used."""

    async def close(self) -> None:
        """Finishes what is under way and lets go of everything. May be called twice."""

    def trouble(self) -> str | None:
        """Why nothing can be stored or read now, None if all is well: for readiness. Answers from what is known, at once."""

    def location(self, key: str) -> str:
        """Where the key is found by somebody who looks into the backend: for messages."""

    async def revision(self) -> int:
        """The newest revision: at least that of every write acknowledged before the call."""

    async def get(self, key: str) -> KeyValue | None:
        """The key's newest state."""

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0) -> Page:
        """Keys under `prefix`, from `start` (a whole key, inclusive) on, at most `limit` (0: all), as of `revision` (0: newest).

        Raises Compacted or FutureRevision.
        """

    async def create(self, key: str, value: bytes) -> int:
        """Returns the write's revision. Raises KeyExists, TooLarge."""

    async def update(self, key: str, value: bytes, expected: int) -> int:
        """Replaces the value if the key's revision is `expected`. Returns the write's revision. Raises NotFound, Conflict,
        TooLarge.
        """

    async def delete(self, key: str, expected: int) -> int:
        """Removes the key if its revision is `expected`. Returns the deletion's own revision. Raises NotFound, Conflict."""

    async def count(self, prefix: str) -> int:
        """How many keys there are under `prefix` now."""

    async def watch(self, prefix: str, after: int, sink: Sink) -> Subscription:
        """Delivers every write under `prefix` with a revision greater than `after`; has delivered the past ones when it returns.

        Raises Compacted or FutureRevision.
        """

    async def history(self, prefix: str, after: int, upto: int, limit: int) -> Sequence[Event]:
        """The first `limit` writes under `prefix` with `after` < revision <= `upto`, in order, each with what it replaced.

        Fewer than `limit` means that there are no more. `upto` has happened. Raises Compacted.
        """

    async def claim_compaction(self, revision: int) -> bool:
        """Whether it falls to this server to compact to `revision` now. Each server that shares a store asks once an interval."""

    async def compact(self, revision: int) -> None:
        """Forgets what is only needed to answer for revisions before `revision`; no-op if that is done. Raises FutureRevision.

        After it, a list at an older revision and a watch after an older one are refused with Compacted.
        """
