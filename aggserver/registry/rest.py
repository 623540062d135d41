"""The interface between handlers and resources: small protocols, one for each ability, and the values that they exchange.

A resource may be a custom resource in a store, its `/status` or `/scale`, a namespace, or something computed; handlers treat all
of them alike. It implements the protocols that its verbs need. All methods raise `StatusError`.
Source: k8s.io/apiserver pkg/registry/rest/rest.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from aggserver.authentication.user import UserInfo
from aggserver.meta import codec
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.origin import RequestOrigin
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.meta.warnings import Warnings
from aggserver.publish.table import Row, TableConvertor
from aggserver.storage.changes import WatchEvent

__all__ = [
    "NO_ADMISSION",
    "Admission",
    "Applier",
    "ApplyConfiguration",
    "CollectionDeleter",
    "Connecter",
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
    "Sharing",
    "Transform",
    "Updater",
    "WatchEvent",
    "WatchStream",
    "Watcher",
    "WriteOptions",
    "WriteRequest",
    "Written",
]


@dataclass(slots=True)
class Context:
    """The context of a request. namespace: '' for a cluster-scoped resource or for all namespaces.

    warnings: texts for Warning headers; resources add to it. body_bytes: size of the body, if it is an object or a patch.
    object_bytes: size of the stored object that an update starts from; set before its transform is called.
    name: the object's name in the URL, '' for none; the create of a subresource needs it.
    metadata_only: whether the response has only metadata of the objects, so that they need not be converted to the requested
    version. origin: None for what the server itself does.
    """

    user: UserInfo
    namespace: str = ""
    warnings: Warnings = field(default_factory=Warnings)
    body_bytes: int = 0
    object_bytes: int = 0
    metadata_only: bool = False
    name: str = ""
    origin: RequestOrigin | None = None


class Object(Protocol):
    """One object, as encoded bytes, which are decoded only if necessary."""

    @property
    def raw(self) -> bytes:
        """Its JSON in the requested version, with its resourceVersion."""

    @property
    def resource_version(self) -> str:
        """As in its metadata; '0' for an object that is not stored."""

    @property
    def key(self) -> str:
        """Its key in the storage."""

    def decoded(self) -> JSONObject:
        """A decoded copy, which the caller may change."""

    def row(self, table: TableConvertor) -> Row:
        """Its row in a table. Shared with other requests: must not be changed."""


@dataclass(slots=True)
class ListOptions:
    """Options of list, watch and deletecollection, whose combination the handler has checked. Not frozen, as a WriteRequest.

    resource_version, shard_selector: the client's text, '' if unset.
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
    readable_only: bool = False  # skip unreadable objects, which would fail the list; for the server's own controllers
    shard_selector: str = ""


class WriteOptions(NamedTuple):
    """Options of create, update, patch and apply. A tuple, since each write has them; see `RequestInfo`.

    dry_run: do everything but the commit. field_manager: at most 128 bytes; '' if the client sent neither a manager nor a user
    agent. force: whether an apply takes over fields that other managers own. uid: precondition, '' for none; set from the object
    of an update, but not of a patch, which would change the uid. bounded: whether the limit of the object's size is checked;
    False if the server marks an object as being deleted, which must not fail because the object is too large. of_metadata:
    whether only the object's own metadata is changed, so that it can stay in the version in which it is stored. creates: whether
    the update is a PUT, which creates the object if the kind allows that.
    """

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool = False
    uid: str = ""
    bounded: bool = True
    of_metadata: bool = False
    creates: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """uid, resource_version: preconditions, None if not given. propagation: '', Orphan, Background or Foreground.

    ignore_store_read_error: remove an object that can't be read (ignoreStoreReadErrorWithClusterBreakingPotential); excludes
    all other options.
    """

    dry_run: bool = False
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""
    orphan_dependents: bool | None = None
    grace_period_seconds: int | None = None
    ignore_store_read_error: bool = False


@dataclass(slots=True)
class ListResult:
    """remaining: the number of objects after this page; None if unknown or zero. shard: the shard selector, '' for none.

    Not frozen, as a WriteRequest.
    """

    items: Sequence[Object]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None
    shard: str = ""


class WatchStream(Protocol):
    """A running watch.

    Iteration yields batches, which are never empty, and stops when the watch ends. A `StatusError` is sent as an ERROR event.
    """

    def __aiter__(self) -> AsyncIterator[Sequence[WatchEvent[Object]]]: ...

    def bookmark(self) -> None:
        """Ask for a BOOKMARK event. It comes after all events that are waiting."""

    def close(self) -> None:
        """End the watch and free its resources. May be called twice."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """gone: whether the object was removed. If not, finalizers or its grace period hold it, and `object` is its new state.

    shown: whether the response is the object, and not a Status.
    """

    object: Object
    gone: bool
    shown: bool = False


class Written(NamedTuple):
    """created: whether the write has created the object."""

    object: Object
    created: bool


@dataclass(slots=True)
class ApplyConfiguration:
    """The body of an apply.

    encoded: as JSON. refusal: the error for repeated keys, with strict validation. As upstream, it is raised only after the merge
    has succeeded. warnings: the same as warnings, without strict validation. tree: `encoded`, decoded, if the caller has it.
    """

    encoded: bytes
    refusal: StatusError | None = None
    warnings: Sequence[str] = ()
    tree: JSONObject | None = None

    def decoded(self) -> JSONObject:
        """Decoded, for the caller to change. Each attempt of the write loop needs its own, and there is mostly one."""
        tree, self.tree = self.tree, None
        if tree is None:
            tree = codec.decode_json(self.encoded)
            assert isinstance(tree, dict)
        return tree

    def accept(self, context: Context) -> None:
        """Raise the error or add the warnings. Called after the merge has succeeded."""
        if self.refusal is not None:
            raise self.refusal
        context.warnings.extend(self.warnings)


# The current object -> the new object. Called again after a lost race. It may change its argument and return it.
Transform = Callable[[JSONObject], Awaitable[JSONObject]]


class Sharing:
    """A Transform that does not change its argument, so that the current object need not be decoded once more for it.

    What it returns is another dict, which may share parts with the argument if these surely are as the schema has them already:
    neither pruning nor defaults will change them.
    """

    __slots__ = ("_transform",)

    def __init__(self, transform: Transform) -> None:
        self._transform = transform

    def __call__(self, current: JSONObject) -> Awaitable[JSONObject]:
        return self._transform(current)


class Admission(Protocol):
    """The admission chain for one request. A create has no old object, a deletion no new one; so the operation is known."""

    @property
    def looks_at_objects(self) -> bool:
        """Whether a plugin may read the objects of the request, which must then be in the requested version."""

    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        """Run mutating admission in the write loop, before validation. May change `obj`, and returns whether it has.

        Called without any object for the deletion of one that does not exist, which may be rejected by its name alone. Raises
        StatusError to reject the request.
        """

    async def validate(self, obj: JSONObject | None, old: JSONObject | None) -> None:
        """Run validating admission in the write loop, with the object exactly as it would be stored. Raises StatusError."""

    def failed(self) -> None:
        """The write, or this attempt of it, has failed: plugins take back what they have counted for it."""


class _NoAdmission:
    looks_at_objects = False

    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        return False

    async def validate(self, obj: JSONObject | None, old: JSONObject | None) -> None:
        return None

    def failed(self) -> None:
        return None


# For writes of the server's own controllers.
NO_ADMISSION: Admission = _NoAdmission()


@dataclass(slots=True)
class WriteRequest:
    """The arguments of every write except deletions. context: the user and the namespace. admission: may change or reject it.

    Not frozen, which would cost each write a microsecond.
    """

    context: Context
    options: WriteOptions
    admission: Admission = NO_ADMISSION


class Connecter(Protocol):
    """A subresource that does something with an object (POST), or tells of it (GET), and is no object itself."""

    async def connect(self, context: Context, body: Any, *, dry_run: bool) -> JSONObject | AsyncIterator[bytes]:
        """context: names the object. body: what was sent, decoded; None for nothing. Returns an answer, or a stream of bytes,
        whose `aclose` frees it.
        """


@runtime_checkable
class Getter(Protocol):
    async def get(self, context: Context, name: str, resource_version: str = "") -> Object:
        """resource_version: the query parameter: '' for the newest state, '0' for any cached one, N for one not older than N."""


@runtime_checkable
class Lister(Protocol):
    async def list(self, context: Context, options: ListOptions) -> ListResult: ...


@runtime_checkable
class Watcher(Protocol):
    async def watch(self, context: Context, options: ListOptions) -> WatchStream: ...


@runtime_checkable
class Creater(Protocol):
    async def create(self, request: WriteRequest, obj: JSONObject) -> Object:
        """Changes `obj`, so the caller must not use it afterwards. For a subresource, `context.name` is the parent's name."""


@runtime_checkable
class Updater(Protocol):
    async def update(self, request: WriteRequest, name: str, transform: Transform) -> Written:
        """Read, modify and write the object in a loop. A resourceVersion in the result of `transform` is a precondition."""


@runtime_checkable
class Applier(Protocol):
    async def apply(self, request: WriteRequest, name: str, configuration: ApplyConfiguration) -> Written:
        """Server-side apply: create the object if there is none, else merge the configuration into it."""


@runtime_checkable
class Replacer(Protocol):
    async def replace(self, request: WriteRequest, obj: JSONObject) -> Written:
        """Create the object, or replace the one with its name unconditionally."""


@runtime_checkable
class Deleter(Protocol):
    async def delete(
        self, context: Context, name: str, options: DeleteOptions, admission: Admission = NO_ADMISSION
    ) -> Deleted: ...


@runtime_checkable
class CorruptDeleter(Protocol):
    async def delete_corrupt(self, context: Context, name: str) -> None:
        """Remove an object that can't be read. Raises StatusError for any other object."""


@runtime_checkable
class CollectionDeleter(Protocol):
    async def delete_collection(
        self, context: Context, options: DeleteOptions, selection: ListOptions, admission: Admission = NO_ADMISSION
    ) -> ListResult:
        """Delete the objects that `selection` matches, each as `delete` does. Returns them."""
