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
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.publish.table import Row, TableConvertor
from aggserver.storage.changes import WatchEvent

__all__ = [
    "NO_ADMISSION",
    "Admission",
    "Applier",
    "ApplyConfiguration",
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
    "Replacer",
    "Transform",
    "Updater",
    "WatchEvent",
    "WatchStream",
    "Watcher",
    "WriteOptions",
    "Written",
]


@dataclass(slots=True)
class Context:
    """On whose behalf and where: `namespace` is empty for a cluster-scoped resource or for all namespaces.

    `warnings` is added to. `body_bytes`: the size of the request's body, where it is an object or a patch.
    """

    user: UserInfo
    namespace: str = ""
    warnings: list[str] = field(default_factory=list)
    body_bytes: int = 0


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
    """create, update, patch and apply.

    dry_run: everything but the commit. field_manager: the owner of what the write changes, never longer than 128 bytes; '' where
    the client named neither a manager nor a user agent. force: an apply takes over fields that others own. uid: what the object
    must have, '' for any; a client gives it with a whole object, while a patch that has one would change it. bounded: whether
    the object may be too large; not where the server itself adds to one, whose end must not fail for want of room.
    """

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool = False
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


@dataclass(frozen=True, slots=True)
class Written:
    """created: there was no such object before."""

    object: Object
    created: bool


@dataclass(frozen=True, slots=True)
class ApplyConfiguration:
    """The body of an apply. encoded: as JSON, so that each attempt has a tree of its own.

    refusal: what is wrong with the text itself (repeated keys, in strict validation), which is told only where the apply would
    have succeeded, as upstream does. warnings: the same where it is only warned of.
    """

    encoded: bytes
    refusal: StatusError | None = None
    warnings: Sequence[str] = ()

    def accept(self, context: Context) -> None:
        """To be called once the apply has found nothing else wrong."""
        if self.refusal is not None:
            raise self.refusal
        context.warnings.extend(self.warnings)


# The object as it is now -> the object wanted; run again after a lost race. It may change and return what it is given.
Transform = Callable[[JSONObject], Awaitable[JSONObject]]


class Admission(Protocol):
    """The admission chain, for one request. Which operation it is shows in the objects: a create has no old object, a deletion
    no new one.
    """

    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        """Runs inside the write loop, before validation; once and without objects for a deletion. May change `obj`, and returns
        whether it has. Raises StatusError to refuse.
        """

    async def validate(self, obj: JSONObject | None, old: JSONObject | None) -> None:
        """Runs inside the write loop, with the object exactly as it would be stored. Changes nothing. Raises StatusError."""


class _NoAdmission:
    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        return False

    async def validate(self, obj: JSONObject | None, old: JSONObject | None) -> None:
        return None


# For writes of the server's own controllers.
NO_ADMISSION: Admission = _NoAdmission()


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
    async def create(
        self, context: Context, obj: JSONObject, options: WriteOptions, admission: Admission = NO_ADMISSION
    ) -> Object:
        """Takes `obj` over: it is the caller's no more."""


@runtime_checkable
class Updater(Protocol):
    async def update(
        self,
        context: Context,
        name: str,
        transform: Transform,
        options: WriteOptions,
        admission: Admission = NO_ADMISSION,
    ) -> Object:
        """The read-modify-write loop. A resourceVersion in what `transform` returns is a precondition."""


@runtime_checkable
class Applier(Protocol):
    async def apply(
        self,
        context: Context,
        name: str,
        configuration: ApplyConfiguration,
        options: WriteOptions,
        admission: Admission = NO_ADMISSION,
    ) -> Written:
        """Server-side apply: creates the object where there is none, and else merges the configuration into it."""


@runtime_checkable
class Replacer(Protocol):
    async def replace(
        self, context: Context, obj: JSONObject, options: WriteOptions, admission: Admission = NO_ADMISSION
    ) -> Written:
        """Creates the object, or puts it in the place of the one with its name, whatever that says."""


@runtime_checkable
class Deleter(Protocol):
    async def delete(
        self, context: Context, name: str, options: DeleteOptions, admission: Admission = NO_ADMISSION
    ) -> Deleted: ...


@runtime_checkable
class CorruptDeleter(Protocol):
    async def delete_corrupt(self, context: Context, name: str) -> None:
        """Removes an object that can't be read, whatever it was. Refuses any other."""


@runtime_checkable
class CollectionDeleter(Protocol):
    async def delete_collection(
        self, context: Context, options: DeleteOptions, selection: ListOptions, admission: Admission = NO_ADMISSION
    ) -> ListResult:
        """Deletes what `selection` finds, each as `delete` does; returns what was found."""
