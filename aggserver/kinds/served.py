"""Kinds: the built-in kinds as they are served, each from its first request on.

At the start, only the rows of the catalog exist. The store of a kind, its watch cache and the types for decoding it are created
when a request, a controller or an authorizer first needs them.
Source: k8s.io/kubernetes pkg/registry/*/rest/storage_*.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from aggserver.admission.chain import Attributes, Chain
from aggserver.conversion.converter import NONE, ConversionError, Converter
from aggserver.endpoints.fixed import FixedResource, of_kind
from aggserver.endpoints.installer import ResourceScope, Served
from aggserver.kinds.catalog import KINDS, BuiltInKind
from aggserver.merge.managers import MissingVersionError
from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish import discovery
from aggserver.publish.discovery import APIResource, APISubresource
from aggserver.publish.models import Published
from aggserver.publish.table import TableConvertor, scale_convertor
from aggserver.registry.environment import Environment
from aggserver.registry.own_kinds import conformer
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.rest import WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.registry.subresources import StatusStore
from aggserver.registry.views import Views

if TYPE_CHECKING:
    from aggserver.kinds.admission import KindDefaults
    from aggserver.kinds.admitted import KindObjects
    from aggserver.kinds.pods import Bindings

__all__ = ["Kinds", "ServedKind"]

# The subresources that are implemented in `subresources.py`.
_OWN = frozenset({"approval", "binding", "ephemeralcontainers", "eviction", "resize"})
# (group, resource, subresource) -> a function that makes its implementation from the store of the resource.
Below = Mapping[tuple[str, str, str], Callable[[Store], object]]


class Kinds:
    """All built-in kinds. below: subresources that are implemented elsewhere. Subresources of the catalog without an
    implementation are not served.

    cluster_ips: the range of the addresses of Services. port: returns the port of this server.
    """

    def __init__(
        self,
        environment: Environment,
        admission: Chain,
        below: Below | None = None,
        *,
        cluster_ips: str = "10.0.0.0/24",
        port: Callable[[], int] = lambda: 443,
    ) -> None:
        self._environment = environment
        self._cluster_ips = cluster_ips
        self._port = port
        self._storages: dict[tuple[str, str], ResourceStorage] = {}
        self._stores: dict[BuiltInKind, Store] = {}
        self._stored = {(kind.group, kind.plural): kind for kind in KINDS if kind.stored_as is None}
        chain = admission.after(_KindDefaults(self.store))
        self._admission = chain
        self._served = [ServedKind(self, kind, chain, below or {}) for kind in KINDS]

    def served(self) -> list[Served]:
        """All resources, for the installer, in the order of discovery."""
        return [self._bindings(), *self._served]

    def _bindings(self) -> FixedResource:
        """The resource `bindings`: a create binds the Pod of the same name, like the Pod's `/binding`. Nothing is stored."""
        info = ResourceInfo("", "v1", "bindings", "Binding", "", namespaced=True)
        return FixedResource(
            info,
            _NamedBindings(partial(self.store, "", "pods")),
            self._admission,
            singular="binding",
            verbs=("create",),
            table=TableConvertor([]),
            conform=conformer("core/v1.Binding"),
            type_name="core/v1.Binding",
        )

    def store(self, group: str, resource: str) -> Store:
        """The store of a resource, made at first use. Raises KeyError for one that is not served."""
        return self.store_of(self._stored[group, resource])

    def status_store(self, group: str, resource: str) -> Store:
        """The store of the same objects with the strategy of `/status`."""
        from aggserver.kinds.strategy import KindStatusStrategy

        kind = self._stored[group, resource]
        return self.store_of(kind).with_strategy(KindStatusStrategy(kind))

    def store_of(self, kind: BuiltInKind) -> Store:
        """The store of one version of a resource, made at first use. Those of all its versions share the objects."""
        if kind not in self._stores:
            self._stores[kind] = self._made(kind)
        return self._stores[kind]

    def objects_of(self, kind: BuiltInKind) -> KindObjects | None:
        """The versions of a kind, for admission; None for a kind with only one."""
        kinds = kind.versions
        if len(kinds) == 1:
            return None
        from aggserver.kinds.admitted import KindObjects
        from aggserver.kinds.strategy import type_conformer
        from aggserver.kinds.versions import CONVERTERS

        conforms = {each: of_kind(each.name, type_conformer(each.type_name)) for each in kinds}
        return KindObjects(conforms, CONVERTERS[kind.stored[0], kind.plural])

    def end_watches(self) -> None:
        """End all watches, since the server stops."""
        for store in self._stores.values():
            store.end_watches()

    def _made(self, kind: BuiltInKind) -> Store:
        from aggserver.kinds.strategy import KindStrategy

        storage = self._storage(kind)
        if kind.plural == "services":
            from ipaddress import IPv4Network

            from aggserver.kinds.services import ServiceStore

            views = Views(storage, kind.info, _keep_all)
            return ServiceStore(storage, kind, views, IPv4Network(self._cluster_ips), self._port)
        strategy = KindStrategy(kind, convert=_converting(storage.converter))
        return Store(storage, strategy, Views(storage, kind.info, _keep_all), partial(self._sibling, kind))

    def _storage(self, kind: BuiltInKind) -> ResourceStorage:
        key = kind.stored[0], kind.plural
        found = self._storages.get(key)
        if found is None:
            from aggserver.kinds.fields import field_reader
            from aggserver.kinds.versions import CONVERTERS

            info = self._stored[key].info
            cacher = self._environment.cacher(info.group, info.resource)
            read_fields = field_reader(kind.versions)
            if kind.plural == "services":
                from aggserver.kinds.services import service_fields

                read_fields = service_fields(read_fields)
            found = self._environment.own_storage(info, cacher, CONVERTERS.get(key, NONE), read_fields)
            self._storages[key] = found
        return found

    def _sibling(self, kind: BuiltInKind, api_version: str) -> Store | None:
        for each in kind.versions:
            if each.api_version == api_version:
                return self.store_of(each)
        return None


def _converting(converter: Converter) -> Callable[[JSONObject, str], JSONObject]:
    """A conversion function for field managers. It raises MissingVersionError for a version that is not served."""

    def convert(obj: JSONObject, api_version: str) -> JSONObject:
        if converter is NONE or converter.at_once is None:
            raise MissingVersionError(api_version)
        try:
            return converter.at_once(codec.decode_stored(codec.encode_json(obj)), api_version)
        except ConversionError:
            raise MissingVersionError(api_version) from None

    return convert


class _KindDefaults:
    """`KindDefaults`, imported with the first write of a built-in kind."""

    def __init__(self, store: Callable[[str, str], Store]) -> None:
        self._store = store

    def concerns(self, attributes: Attributes) -> bool:
        return self._plugin.concerns(attributes)

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        return await self._plugin.mutate(attributes, obj, old)

    @cached_property
    def _plugin(self) -> KindDefaults:
        from aggserver.kinds.admission import KindDefaults

        return KindDefaults(self._store)


class _NamedBindings:
    """`Bindings` without a name in the URL, imported with the first request. pods: returns the store of Pods."""

    def __init__(self, pods: Callable[[], Store]) -> None:
        self._pods = pods

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        if not obj["metadata"].get("name"):
            raise errors.bad_request("Name parameter required.")
        return await self._bindings.create(request, obj)

    @cached_property
    def _bindings(self) -> Bindings:
        from aggserver.kinds.pods import Bindings

        return Bindings(self._pods())


class ServedKind:
    """One kind in one version, as the installer takes it."""

    def __init__(self, kinds: Kinds, kind: BuiltInKind, admission: Chain, below: Below) -> None:
        self._kinds = kinds
        self._kind = kind
        self._admission = admission
        self._below: dict[str, Callable[[Store], object]] = {}
        for each in kind.subresources:
            make = below.get((kind.group, kind.plural, each.name))
            if make is not None:
                self._below[each.name] = make
            elif each.name in _OWN:
                self._below[each.name] = partial(self._own, each.name)
        self._scopes: dict[str, ResourceScope | None] = {}

    @property
    def group(self) -> str:
        return self._kind.group

    @property
    def version(self) -> str:
        return self._kind.version

    @property
    def namespaced(self) -> bool:
        return self._kind.namespaced

    @property
    def built_in(self) -> bool:
        return True

    @property
    def in_storage(self) -> bool:
        return True

    @cached_property
    def resource(self) -> APIResource:
        return self._kind.discovered(self._below)

    def published(self) -> Published:
        kind = self._kind
        return Published(
            group=kind.group,
            version=kind.version,
            kind=kind.name,
            list_kind=kind.info.list_kind,
            plural=kind.plural,
            namespaced=kind.namespaced,
            verbs=discovery.BUILT_IN_VERBS,
            schema={},
            status=kind.has_status,
            scale=bool(kind.scale),
            type_name=kind.type_name,
        )

    def store(self) -> Store:
        return self._kinds.store_of(self._kind)

    def scope(self, subresource: str) -> ResourceScope | None:
        if subresource not in self._scopes:
            self._scopes[subresource] = self._made(subresource)
        return self._scopes[subresource]

    def _made(self, subresource: str) -> ResourceScope | None:
        from aggserver.kinds.scale import scale_store
        from aggserver.kinds.strategy import KindStatusStrategy, KindStrategy

        kind, store = self._kind, self.store()
        if not subresource:
            return self._scope("", store, self.resource.verbs)
        if subresource == "status" and kind.has_status:
            return self._scope("status", StatusStore(store.with_strategy(KindStatusStrategy(kind))), discovery.SUBRESOURCE_VERBS)
        if subresource == "scale" and kind.scale:
            parents = store.with_strategy(KindStrategy(kind, tracks_fields=False))
            below = APISubresource("scale", "Scale", discovery.SUBRESOURCE_VERBS, "autoscaling", "v1")
            return self._scope_of_another(below, scale_store(kind, parents), scale_convertor())
        make = self._below.get(subresource)
        if make is None:
            return None
        below = next(each for each in kind.subresources if each.name == subresource)
        rest = make(store)
        if below.kind == kind.name:
            return self._scope(subresource, rest, below.verbs)
        return self._scope_of_another(below, rest, TableConvertor([]))

    def _own(self, subresource: str, store: Store) -> object:
        from aggserver.kinds.subresources import OWN

        return OWN[self._kind.plural, subresource](store, self._kinds.store)

    def _scope(self, subresource: str, rest: object, verbs: tuple[str, ...]) -> ResourceScope:
        from aggserver.kinds.columns import table
        from aggserver.kinds.fields import names

        kind, store = self._kind, self.store()
        return ResourceScope.of(
            kind.info,
            subresource,
            rest,
            conform=of_kind(kind.name, store.strategy.conform),
            table=table(kind.type_name),
            admission=self._admission,
            verbs=verbs,
            selectable_fields=names(kind),
            deprecation=kind.deprecated,
            typed=True,
            built_in=True,
            objects=self._kinds.objects_of(kind),
            type_name=kind.type_name,
        )

    def _scope_of_another(self, below: APISubresource, rest: object, table: TableConvertor) -> ResourceScope:
        """The scope of a subresource whose objects are of another kind."""
        from aggserver.kinds.catalog import type_name
        from aggserver.kinds.strategy import type_conformer

        group, version = (below.group, below.version) if below.version else (self._kind.group, self._kind.version)
        name = type_name(group, version, below.kind)
        scope = ResourceScope.of(
            self._kind.info,
            below.name,
            rest,
            conform=of_kind(below.kind, type_conformer(name)),
            table=table,
            admission=self._admission,
            verbs=below.verbs,
            typed=True,
            built_in=True,
            type_name=name,
        )
        return replace(scope, kind=below.kind, object_version=f"{group}/{version}" if group else version)


def _keep_all(obj: JSONObject) -> None:
    return None
