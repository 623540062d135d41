"""What a handler knows of a resource: small protocols, one for each ability, and the values that pass through them.

A handler never asks what stands behind them: a custom resource in a store, its `/status` or `/scale`, a namespace, something
computed. Which of the protocols an object has decides its verbs in discovery. All raise `StatusError`.
Implemented by `registry/store.py`, `registry/subresources.py` and `standalone/`; called by `endpoints/handlers/`.
Source: k8s.io/apiserver pkg/registry/rest/rest.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from aggserver.authentication.user import UserInfo
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.publish.table import Row, TableConvertor
from aggserver.storage.changes import WatchEvent

__all__ = [
    "Admit",
    "CollectionDeleter",
    "Context",
    "CorruptDeleter",
    "Creater",
    "DeleteOptions",
    "Deleted",
    "Deleter",
    "Getter",
    "ListOptions",
    "ListResult",
    "Lister",
    "Object",
    "Transform",
    "Updater",
    "WatchEvent",
    "WatchStream",
    "Watcher",
    "WriteOptions",
]


@dataclass(slots=True)
class Context:
    """On whose behalf and where: `namespace` is empty for a cluster-scoped resource or for all namespaces.

    `warnings` is added to.
    """

    user: UserInfo
    namespace: str = ""
    warnings: list[str] = field(default_factory=list)


class Object(Protocol):
    """One object as it is kept: bytes, decoded only for those who must look inside."""

    @property
    def raw(self) -> bytes:
        """Its JSON in the version that was asked for, resourceVersion included. Shared: never changed."""

    @property
    def revision(self) -> int: ...

    def decoded(self) -> JSONObject:
        """A fresh tree, the caller's own to change."""

    def row(self, table: TableConvertor) -> Row:
        """Its row of a table. Shared: never changed."""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """list, watch and deletecollection.

    `resource_version` is the text given ('' unset); the handler has checked the combination.
    """

    labels: LabelSelector
    fields: FieldSelector
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_seconds: float = 0.0  # of a watch; 0 lets the server choose
    readable_only: bool = False  # for the server's own controllers: what can't be read keeps them from nothing else


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """create, update, patch.

    `dry_run`: everything but the commit. `field_manager` is never empty (defaulted from the user agent). `uid`: what the object
    must have, '' for any; a client gives it with a whole object, while a patch that has one would change it. `bounded`: whether
    the object may be too large; not where the server itself adds to one, whose end must not fail for want of room.
    """

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    uid: str = ""
    bounded: bool = True


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Preconditions are None where not given. `propagation` is '', Orphan, Background or Foreground.

    ignore_store_read_error: remove what can't be read (ignoreStoreReadErrorWithClusterBreakingPotential); then nothing else is
    set.
    """

    dry_run: bool = False
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""
    orphan_dependents: bool | None = None
    grace_period_seconds: int | None = None
    ignore_store_read_error: bool = False


@dataclass(frozen=True, slots=True)
class ListResult:
    """`revision` is the list's resourceVersion; `remaining` is None where it isn't known or nothing follows."""

    items: Sequence[Object]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


class WatchStream(Protocol):
    """A running watch.

    Iteration yields batches (never empty) and ends when the watch is over; `StatusError` ends it with an ERROR event.
    """

    def __aiter__(self) -> AsyncIterator[Sequence[WatchEvent[Object]]]: ...

    def bookmark(self) -> None:
        """Asks for a BOOKMARK event; it comes after everything that is before it."""

    def close(self) -> None:
        """Ends it and frees what it holds. May be called twice."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """`gone`: it is removed; otherwise it waits for its finalizers and `object` shows that."""

    object: Object
    gone: bool


# The object as it is now -> the object wanted; run again after a lost race. It may change and return what it is given.
Transform = Callable[[JSONObject], Awaitable[JSONObject]]

# Validating admission: (the object to be written or None, the one it replaces or None); raises StatusError. Changes nothing.
Admit = Callable[[JSONObject | None, JSONObject | None], Awaitable[None]]


@runtime_checkable
class Getter(Protocol):
    async def get(self, context: Context, name: str, resource_version: str = "") -> Object:
        """`resource_version` is the query parameter: '' reads the newest, '0' and N whatever is cached, not older than N."""


@runtime_checkable
class Lister(Protocol):
    async def list(self, context: Context, options: ListOptions) -> ListResult: ...


@runtime_checkable
class Watcher(Protocol):
    async def watch(self, context: Context, options: ListOptions) -> WatchStream: ...


@runtime_checkable
class Creater(Protocol):
    async def create(self, context: Context, obj: JSONObject, options: WriteOptions, admit: Admit | None = None) -> Object:
        """Takes `obj` over: it is the caller's no more."""


@runtime_checkable
class Updater(Protocol):
    async def update(
        self, context: Context, name: str, transform: Transform, options: WriteOptions, admit: Admit | None = None
    ) -> Object:
        """The read-modify-write loop. A resourceVersion in what `transform` returns is a precondition."""


@runtime_checkable
class Deleter(Protocol):
    async def delete(self, context: Context, name: str, options: DeleteOptions, admit: Admit | None = None) -> Deleted: ...


@runtime_checkable
class CorruptDeleter(Protocol):
    async def delete_corrupt(self, context: Context, name: str) -> None:
        """Removes an object that can't be read, whatever it was. Refuses any other."""


@runtime_checkable
class CollectionDeleter(Protocol):
    async def delete_collection(
        self, context: Context, options: DeleteOptions, selection: ListOptions, admit: Admit | None = None
    ) -> ListResult:
        """Deletes what `selection` finds, each as `delete` does; returns what was found."""
