"""InternalClient: the client with which a controller in this process reads and writes objects, as a user of its own.

Objects are read by their keys from the store, so that no watch cache is needed. Writes go through the resource that is served,
with its rules, its finalizers and the same admission as for any client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes, BoundChain
from aggserver.authentication.user import ALL_AUTHENTICATED, UserInfo
from aggserver.controllers.garbage.owner_graph import OwnerKind, OwnerResource
from aggserver.controllers.stored_pages import pages
from aggserver.endpoints.installer import Installer
from aggserver.endpoints.served import ResourceScope, Served
from aggserver.informers.work_queue import in_turns
from aggserver.meta import errors, versions
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.registry import stored
from aggserver.registry.rest import (
    CollectionDeleter,
    Context,
    Creater,
    DeleteOptions,
    Deleter,
    Getter,
    Lister,
    ListOptions,
    Object,
    Transform,
    Updater,
    WriteOptions,
    WriteRequest,
)
from aggserver.registry.store import Store
from aggserver.storage import keys
from aggserver.storage.interface import Corrupt, KeyValue, Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["FoundObject", "InternalClient", "service_account"]

_MANAGER = "aggserver"
_DECODED = 256 * 1024  # bytes of objects that are decoded before other tasks run: some milliseconds
_EVERYTHING = ListOptions(labels=LabelSelector.parse(""), fields=FieldSelector.parse(""), readable_only=True)


def service_account(name: str) -> UserInfo:
    """The user of a controller. As upstream, each controller has its own."""
    namespace = "kube-system"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", ALL_AUTHENTICATED)
    return UserInfo(f"system:serviceaccount:{namespace}:{name}", groups=groups)


class FoundObject(NamedTuple):
    """The metadata of an object in the store."""

    metadata: JSONObject
    revision: int


class InternalClient:
    def __init__(self, installer: Installer, storage: Storage, user: UserInfo) -> None:
        self._installer = installer
        self._storage = storage
        self._user = user
        self._generation = -1
        self._kinds: dict[OwnerKind, OwnerResource] = {}
        self._served: dict[tuple[str, str], Served] = {}
        self._elsewhere: dict[tuple[str, str], Served] = {}

    # --- what is served ---

    def find(self, kind: OwnerKind) -> OwnerResource | None:
        """Where objects of a kind are stored; None if it is not served."""
        self._refresh()
        return self._kinds.get(kind)

    def namespaced(self) -> Iterator[tuple[str, str]]:
        """Group and plural of each namespaced resource whose objects can be deleted."""
        self._refresh()
        for name, served in self._served.items():
            if served.info.namespaced and "delete" in served.resource.verbs:
                yield name

    def is_stored(self, group: str, resource: str) -> bool:
        """Whether a resource is served, namespaced, and has its objects in the store."""
        self._refresh()
        served = self._served.get((group, resource))
        return served is not None and served.info.namespaced

    def elsewhere(self) -> Iterator[tuple[str, str]]:
        """Group and plural of each namespaced resource whose objects can be deleted, and are not in the store."""
        self._refresh()
        for name, served in self._elsewhere.items():
            if served.info.namespaced and "deletecollection" in served.resource.verbs:
                yield name

    def _refresh(self) -> None:
        if self._generation == self._installer.generation:
            return
        self._generation = self._installer.generation
        self._kinds.clear()
        self._served.clear()
        self._elsewhere.clear()
        for served in self._installer.everything():
            if "get" not in served.resource.verbs:
                continue
            info = served.info
            name = info.group, info.resource
            if not served.in_storage:
                self._elsewhere.setdefault(name, served)
                continue
            self._kinds.setdefault(OwnerKind(info.api_version, info.kind), OwnerResource(*name, info.namespaced))
            other = self._served.get(name)
            if other is None or versions.sort_key(info.version) < versions.sort_key(other.info.version):
                self._served[name] = served

    def store(self, group: str, resource: str) -> Store:
        """The store of a built-in kind, to be followed."""
        store = self._scope(group, resource).rest
        assert isinstance(store, Store)
        return store

    # --- reading, without a watch cache ---

    async def read(self, key: str) -> FoundObject | None:
        """The metadata of the object at a key. Raises StorageError, Corrupt among them."""
        kv = await self._value(key)
        if kv is None:
            return None
        try:
            return FoundObject(stored.metadata_of(kv.value), kv.revision)
        except ValueError as error:
            raise Corrupt(key, kv.revision, str(error)) from None

    async def read_whole(self, key: str) -> JSONObject | None:
        """The object at a key, as it is stored. Raises StorageError, Corrupt among them."""
        kv = await self._value(key)
        return None if kv is None else stored.make(kv).decoded()

    async def _value(self, key: str) -> KeyValue | None:
        kv = await self._storage.get(key)
        if kv is not None and kv.fault:
            raise Corrupt(key, kv.revision, kv.fault)
        return kv

    def has(self, group: str, resource: str, subresource: str) -> bool:
        """Whether a resource has a subresource."""
        self._refresh()
        served = self._served.get((group, resource)) or self._elsewhere.get((group, resource))
        return served is not None and served.scope(subresource) is not None

    async def get(self, at: ObjectKey, subresource: str = "") -> Object:
        """An object as it is served, or its subresource. Raises StatusError."""
        scope = self._scope(at.group, at.resource, subresource)
        assert isinstance(scope.rest, Getter)
        return await scope.rest.get(Context(self._user, at.namespace), at.name)

    async def count(self, group: str, resource: str, namespace: str) -> int:
        """How many objects of a resource are in a namespace."""
        return await self._storage.count(f"{keys.resource_prefix(group, resource)}{namespace}/")

    async def finalizers(self, group: str, resource: str, namespace: str) -> list[Sequence[str]]:
        """The finalizers of each object of a resource in a namespace; () for an object that can't be read."""
        prefix = f"{keys.resource_prefix(group, resource)}{namespace}/"
        found: list[Sequence[str]] = []
        async for page in pages(self._storage, prefix):
            async for item in in_turns(page.items, _DECODED, lambda item: len(item.value)):
                try:
                    found.append(stored.metadata_of(item.value).get("finalizers") or ())
                except ValueError:
                    found.append(())
        return found

    async def list_elsewhere(self, group: str, resource: str, namespace: str) -> Sequence[Object]:
        """The objects in a namespace of a resource that is not in the store. Raises StatusError if they can't be known."""
        scope = self._scope(group, resource)
        assert isinstance(scope.rest, Lister)
        return (await scope.rest.list(self._context(namespace), _EVERYTHING)).items

    # --- writing; all raise StatusError ---

    async def create(self, group: str, resource: str, obj: JSONObject, subresource: str = "") -> Object:
        """Create an object in its metadata.namespace. The object of a subresource has its parent's name in metadata.name."""
        scope = self._scope(group, resource, subresource)
        namespace = obj["metadata"].get("namespace", "")
        admission = self._admission(scope, CREATE, namespace, "", {})
        assert isinstance(scope.rest, Creater)
        context = self._context(namespace, obj["metadata"]["name"] if subresource else "")
        return await scope.rest.create(WriteRequest(context, WriteOptions(field_manager=_MANAGER), admission), obj)

    async def update(
        self, at: ObjectKey, transform: Transform, *, uid: str = "", subresource: str = "", of_metadata: bool = True
    ) -> Object:
        """Update an object. uid: what it must have, '' for any. of_metadata: whether nothing but metadata is changed."""
        scope = self._scope(at.group, at.resource, subresource)
        options = WriteOptions(field_manager=_MANAGER, uid=uid, bounded=False, of_metadata=of_metadata)
        admission = self._admission(scope, UPDATE, at.namespace, at.name, {})
        assert isinstance(scope.rest, Updater)
        written = await scope.rest.update(WriteRequest(self._context(at.namespace), options, admission), at.name, transform)
        return written.object

    async def delete(self, at: ObjectKey, options: DeleteOptions) -> None:
        scope = self._scope(at.group, at.resource)
        admission = self._admission(scope, DELETE, at.namespace, at.name, _as_sent(options))
        assert isinstance(scope.rest, Deleter)
        await scope.rest.delete(self._context(at.namespace), at.name, options, admission)

    async def delete_all(self, group: str, resource: str, namespace: str, options: DeleteOptions) -> None:
        """Delete all objects of a resource in a namespace that can be read."""
        scope = self._scope(group, resource)
        admission = self._admission(scope, DELETE, namespace, "", _as_sent(options))
        assert isinstance(scope.rest, CollectionDeleter)
        await scope.rest.delete_collection(self._context(namespace), options, _EVERYTHING, admission)

    def _scope(self, group: str, resource: str, subresource: str = "") -> ResourceScope:
        self._refresh()
        served = self._served.get((group, resource)) or self._elsewhere.get((group, resource))
        scope = None if served is None else served.scope(subresource)
        if scope is None:
            raise errors.not_found(group, resource, "")
        return scope

    def _context(self, namespace: str, name: str = "") -> Context:
        return Context(self._user, namespace, metadata_only=True, name=name)

    def _admission(
        self, scope: ResourceScope, operation: str, namespace: str, name: str, options: Mapping[str, Any]
    ) -> BoundChain:
        attributes = Attributes(
            operation=operation,
            user=self._user,
            resource=scope.info,
            subresource=scope.subresource,
            kind=scope.kind,
            object_version=scope.object_version,
            namespace=namespace,
            name=name,
            dry_run=False,
            options=options,
            objects=scope.admitted,
        )
        return scope.admission.bind(attributes)


def _as_sent(options: DeleteOptions) -> Mapping[str, Any]:
    """DeleteOptions as a client would have sent them, for admission."""
    given = {"uid": options.uid, "resourceVersion": options.resource_version}
    preconditions = {name: value for name, value in given.items() if value is not None}
    found: dict[str, Any] = {"preconditions": preconditions, "propagationPolicy": options.propagation}
    return {name: value for name, value in found.items() if value}
