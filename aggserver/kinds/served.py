"""Kinds: the built-in kinds as they are served, each from its first request on.

At the start, only the rows of the catalog exist. The store of a kind, its watch cache and the types for decoding it are created
when a request, a controller or an authorizer first needs them.
Source: k8s.io/kubernetes pkg/registry/*/rest/storage_*.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from aggserver.admission.chain import DELETE, Attributes, Chain
from aggserver.conversion.converter import NONE, ConversionError, Converter
from aggserver.endpoints.served import Endpoint, Served, of_kind
from aggserver.kinds.catalog import KINDS, BuiltInKind, type_name
from aggserver.merge.managers import MissingVersionError
from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.discovery import APIResource
from aggserver.publish.models import Published
from aggserver.publish.table import TableConvertor, scale_convertor
from aggserver.registry.environment import Environment
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.rest import WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.registry.subresources import StatusStore
from aggserver.registry.views import Views

if TYPE_CHECKING:
    from aggserver.kinds.admission import KindPlugins
    from aggserver.kinds.admitted import KindObjects
    from aggserver.kinds.kubelets import Kubelets
    from aggserver.kinds.namespaces import StoredNamespaces
    from aggserver.kinds.plugins.pod_security import NamespaceSecurity
    from aggserver.kinds.pods import Bindings

__all__ = ["Kinds", "NamespaceLabels"]

# The subresources that are implemented in `subresources.py`.
_OWN = frozenset({"approval", "binding", "ephemeralcontainers", "eviction", "resize"})
# The kinds of which every cluster has objects, beside Services and namespaces.
_SEEDED = frozenset(
    {
        "flowcontrol/v1.FlowSchema",
        "flowcontrol/v1.PriorityLevelConfiguration",
        "networking/v1.ServiceCIDR",
        "scheduling/v1.PriorityClass",
    }
)
# (group, resource, subresource) -> a function that makes its implementation from the store of the resource.
Below = Mapping[tuple[str, str, str], Callable[[Store], object]]


class Kinds:
    """All built-in kinds. below: subresources that are implemented elsewhere. Subresources of the catalog without an
    implementation are not served.

    cluster_ips: the range of the addresses of Services. port: returns the port of this server. plugins: the names of the enabled
    admission plugins. namespaces: for PodSecurity; without them, it allows everything. kubelets: for NodeRestriction, which needs
    it.
    """

    def __init__(
        self,
        environment: Environment,
        admission: Chain,
        below: Below | None = None,
        *,
        cluster_ips: str = "10.0.0.0/24",
        port: Callable[[], int] = lambda: 443,
        plugins: Collection[str] = (),
        namespaces: StoredNamespaces | None = None,
        kubelets: Kubelets | None = None,
    ) -> None:
        self.kubelets = kubelets
        self._environment = environment
        self._namespaces = namespaces
        self._cluster_ips = cluster_ips
        self._port = port
        self._storages: dict[tuple[str, str], ResourceStorage] = {}
        self._stores: dict[BuiltInKind, Store] = {}
        self._promised: dict[str, Mapping[str, str]] = {}
        self._stored = {(kind.group, kind.plural): kind for kind in KINDS if kind.stored_as is None}
        chain = admission.with_own(_KindPlugins(self, plugins)) if plugins else admission
        self._admission = chain
        self._served = [_Endpoints(self, kind, below or {}).served(chain) for kind in KINDS]

    def served(self) -> list[Served]:
        """All resources, for the installer, in the order of discovery."""
        return [self._bindings(), self._components(), *self._served]

    def _bindings(self) -> Served:
        """The resource `bindings`: a create binds the Pod of the same name, like the Pod's `/binding`. Nothing is stored."""
        info = ResourceInfo("", "v1", "bindings", "Binding", "", namespaced=True)
        of_type = "core/v1.Binding"
        endpoint = Endpoint.of_type(of_type, _NamedBindings(partial(self.store, "", "pods")))
        resource = APIResource(info, ("create",), singular="binding")
        return Served(Published(resource, type_name=of_type), {"": endpoint}.get, self._admission)

    def _components(self) -> Served:
        """The resource `componentstatuses`."""
        from aggserver.kinds.components import DEPRECATED, Components

        info = ResourceInfo("", "v1", "componentstatuses", "ComponentStatus", "ComponentStatusList", namespaced=False)
        of_type = "core/v1.ComponentStatus"
        resource = APIResource(info, ("get", "list"), singular="componentstatus", short_names=("cs",))

        def endpoint(subresource: str) -> Endpoint | None:
            from aggserver.kinds.columns import table

            rest = Components(self._environment.storage.trouble)
            return None if subresource else Endpoint.of_type(of_type, rest, table=table(of_type))

        return Served(Published(resource, type_name=of_type), endpoint, self._admission, deprecation=DEPRECATED)

    def store(self, group: str, resource: str) -> Store:
        """The store of a resource, made at first use. Raises KeyError for one that is not served."""
        return self.store_of(self._stored[group, resource])

    async def namespace_labels(self, name: str, prefix: str) -> Mapping[str, str]:
        """See `StoredNamespaces.labels`."""
        return {} if self._namespaces is None else await self._namespaces.labels(name, prefix)

    def random(self, limit: int) -> int:
        """An integer in [0, limit)."""
        return self._environment.random(limit)

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

    def promise(self, group: str, resource: str, uids: Mapping[str, str]) -> None:
        """Let the first objects of a seeded kind have these UIDs, by name. Only before its store is made."""
        self._promised[self._stored[group, resource].type_name] = uids

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
        views = Views(storage, kind.info, _keep_all)
        if kind.plural == "services":
            from ipaddress import IPv4Network

            from aggserver.kinds.services import ServiceStore

            return ServiceStore(storage, kind, views, IPv4Network(self._cluster_ips), self._port)
        strategy = KindStrategy(kind, convert=_converting(storage.converter))
        if kind.type_name in _SEEDED:
            from aggserver.kinds.seeded import SeededStore
            from aggserver.kinds.seeds import kept, seeds
            from aggserver.kinds.strategy import KindStatusStrategy

            make = partial(seeds, kind.type_name, self._cluster_ips)
            status = KindStatusStrategy(kind) if kind.has_status else None
            uids = self._promised.get(kind.type_name, {})
            return SeededStore(storage, strategy, views, make, status, partial(kept, kind.type_name), uids)
        return Store(storage, strategy, views, partial(self._sibling, kind))

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


class _KindPlugins:
    """`KindPlugins`, imported with the first write of a built-in kind."""

    def __init__(self, kinds: Kinds, enabled: Collection[str]) -> None:
        self._kinds = kinds
        self._enabled = enabled

    def concerns(self, attributes: Attributes) -> bool:
        return self._plugins.concerns(attributes)

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        return await self._plugins.mutate(attributes, obj, old)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        await self._plugins.validate(attributes, obj, old)

    @cached_property
    def _plugins(self) -> KindPlugins:
        from aggserver.kinds.admission import KindPlugins

        return KindPlugins(self._kinds, self._enabled)


class NamespaceLabels:
    """PodSecurity for namespaces, imported with the first one that has labels for it. pods: returns the store of Pods."""

    def __init__(self, pods: Callable[[], Store]) -> None:
        self._pods = pods

    def concerns(self, attributes: Attributes) -> bool:
        return not attributes.subresource and attributes.operation != DELETE

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        labels = ((obj or {}).get("metadata") or {}).get("labels") or {}
        if any(name.startswith("pod-security.") for name in labels):
            await self._plugin.validate(attributes, obj, old)

    @cached_property
    def _plugin(self) -> NamespaceSecurity:
        from aggserver.kinds.plugins.pod_security import NamespaceSecurity

        return NamespaceSecurity(self._pods)


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


class _Endpoints:
    """What answers the requests for one kind in one version."""

    def __init__(self, kinds: Kinds, kind: BuiltInKind, below: Below) -> None:
        self._kinds = kinds
        self._kind = kind
        self._below: dict[str, Callable[[Store], object]] = {}
        for each in kind.subresources:
            make = below.get((kind.group, kind.plural, each.name))
            if make is not None:
                self._below[each.name] = make
            elif each.name in _OWN:
                self._below[each.name] = partial(self._own, each.name)

    def served(self, admission: Chain) -> Served:
        kind = self._kind
        published = Published(kind.discovered(self._below), type_name=kind.type_name)
        return Served(published, self._endpoint, admission, deprecation=kind.deprecated)

    def _endpoint(self, subresource: str) -> Endpoint:
        from aggserver.kinds.scale import scale_store
        from aggserver.kinds.strategy import KindStatusStrategy, KindStrategy

        kind = self._kind
        store = self._kinds.store_of(kind)
        if not subresource:
            return self._of_own_kind(store)
        if subresource == "status":
            return self._of_own_kind(StatusStore(store.with_strategy(KindStatusStrategy(kind))))
        if subresource == "scale":
            parents = store.with_strategy(KindStrategy(kind, tracks_fields=False))
            return _of_type("autoscaling/v1.Scale", scale_store(kind, parents), table=scale_convertor())
        rest = self._below[subresource](store)
        below = next(each for each in kind.subresources if each.name == subresource)
        if below.kind == kind.name:
            return self._of_own_kind(rest)
        group, version = (below.group, below.version) if below.version else (kind.group, kind.version)
        return _of_type(type_name(group, version, below.kind), rest)

    def _own(self, subresource: str, store: Store) -> object:
        from aggserver.kinds.subresources import OWN

        return OWN[self._kind.plural, subresource](store, self._kinds.store)

    def _of_own_kind(self, rest: object) -> Endpoint:
        from aggserver.kinds.columns import table
        from aggserver.kinds.fields import names

        kind = self._kind
        return Endpoint.of_type(
            kind.type_name,
            rest,
            self._kinds.store_of(kind).strategy.conform,
            table=table(kind.type_name),
            selectable_fields=names(kind),
            objects=self._kinds.objects_of(kind),
        )


def _of_type(of_type: str, rest: object, table: TableConvertor | None = None) -> Endpoint:
    """The endpoint of a subresource whose objects are of another kind."""
    from aggserver.kinds.strategy import type_conformer

    return Endpoint.of_type(of_type, rest, type_conformer(of_type), table=table)


def _keep_all(obj: JSONObject) -> None:
    return None
