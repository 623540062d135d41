"""Serving: builds the resources that are served for a definition, one for each served version.

Nothing is compiled, opened or loaded before the first request for a version. The versions of a definition share the storage and
its watch cache, which are created for the first of them and closed when the definition is removed.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go (getOrCreateServingInfoFor), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from aggserver.admission.chain import Chain
from aggserver.apiextensions import conversion_annotation
from aggserver.apiextensions.admitted import DefinitionObjects, ScaleObjects
from aggserver.apiextensions.content import content_digest, same_content
from aggserver.apiextensions.definition import Definition, Version, client_config
from aggserver.apiextensions.marks import Marks
from aggserver.conversion.converter import NONE, Converter, NoneConverter, TakesLong
from aggserver.conversion.patient import PatientConverter
from aggserver.conversion.webhook import WebhookConverter
from aggserver.endpoints.served import Endpoint, Served
from aggserver.merge.atom import Atom, of_resource
from aggserver.merge.fieldset import FieldSet
from aggserver.merge.managed_fields import FieldManager
from aggserver.merge.scale_owners import ScaleOwners
from aggserver.meta import codec, errors, jsonpath, versions
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish import discovery, table
from aggserver.publish.discovery import APIResource, APISubresource
from aggserver.publish.models import Published
from aggserver.publish.table import TableConvertor
from aggserver.registry.custom_resource import CustomResourceStrategy, StatusStrategy, read_fields
from aggserver.registry.environment import Environment
from aggserver.registry.gate import Gate
from aggserver.registry.in_use import InUse
from aggserver.registry.migration import Rewriter
from aggserver.registry.ownership import NotConverted
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.rest import Connecter, Context
from aggserver.registry.storage_version import Fence, SpecState
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Strategy
from aggserver.registry.subresources import ScaleStore, StatusStore
from aggserver.registry.views import Views
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.object_meta import prune_object_meta
from aggserver.schema.pruning import MalformedError
from aggserver.schema.rules import UPSTREAM, RuleOptions
from aggserver.scheme import form
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.types import lookup
from aggserver.storage.cacher import Cacher

__all__ = ["Backing", "Connected", "DefinitionResource"]

_SCALE = lookup("autoscaling/v1.Scale")
# Fields that no manager owns after a write, since the strategy of the endpoint keeps their stored values.
_RESET_BY_MAIN: FieldSet = {"f:status": {}}
_RESET_BY_STATUS: FieldSet = {"f:metadata": {}, "f:spec": {}}


@dataclass(frozen=True, slots=True)
class Connected:
    """A subresource that is no object. rest: makes its `Connecter` of the store of a version."""

    verbs: tuple[str, ...]
    rest: Callable[[Store], Connecter]


@dataclass(frozen=True, slots=True)
class Backing:
    """How the objects of a definition are kept, and what can be done with them.

    verbs: of the resource itself. store: makes the store of one version, from what `Store` is made of. rest: makes of the store
    what has the protocols of `registry/rest.py`. in_storage: whether the objects are in the server's storage. converter: instead
    of that of the definition. convert_part: (object, apiVersion) converts an object that may lack fields, for field managers;
    None if the converter can do that. connected: more subresources, by name.
    """

    verbs: tuple[str, ...] = discovery.CUSTOM_RESOURCE_VERBS
    store: Callable[[ResourceStorage, Strategy, Views, Callable[[str], Store | None]], Store] = Store
    rest: Callable[[Any], object] = lambda store: store
    in_storage: bool = True
    converter: Converter | None = None
    convert_part: Callable[[JSONObject, str], JSONObject] | None = None
    connected: Mapping[str, Connected] = field(default_factory=dict)


class DefinitionResource:
    """One definition that is served. A changed definition is a new instance, which takes over the cache of `replacing`.

    terminating: whether the definition is being deleted, so that its objects can only be read and deleted.
    remember: whether the definition may change while no server runs, so that its content is recorded.
    fence: keeps writes by an older state of the definition from the store; None for definitions from files.
    gate: whether its objects may be written and read now; shared by all states of the definition.
    backing: how objects are kept.
    """

    def __init__(
        self,
        environment: Environment,
        admission: Chain,
        definition: Definition,
        *,
        terminating: bool = False,
        marks: Marks,
        gate: Gate,
        remember: bool = False,
        replacing: DefinitionResource | None = None,
        rule_options: RuleOptions = UPSTREAM,
        fence: Fence | None = None,
        backing: Backing = Backing(),
    ) -> None:
        self.definition = definition
        self.backing = backing
        self.terminating = terminating
        self.admission = admission
        self._environment = environment
        self._rule_options = rule_options
        self._marks = marks
        self._gate = gate
        self._remember = remember
        self._fence = fence
        self._cacher: Cacher[StoredObject] | None = replacing._hand_over(definition) if replacing is not None else None
        # The requests of all instances that share the cache.
        self.in_use: InUse = replacing.in_use if replacing is not None and self._cacher is not None else InUse()
        self._stores: dict[str, Store] = {}
        self._atoms: dict[str, Atom] = {}
        self._schemas: dict[str, CompiledSchema] = dict(replacing._unchanged_schemas(definition)) if replacing is not None else {}
        self.versions = tuple(_Endpoints(self, version).served() for version in definition.versions if version.served)

    def store(self, version: Version) -> Store:
        """The store of one version, whether served or not, built at first use."""
        if version.name not in self._stores:
            self._stores[version.name] = self._build_store(version)
        return self._stores[version.name]

    def rewriter(self) -> Rewriter:
        """The Rewriter, which rewrites objects in the storage version."""
        return Rewriter(self._storage, self.definition.names.kind)

    def is_now(self, identity: SpecState | None) -> None:
        """Called when the definition's state changed, but nothing that is served."""
        if self._fence is not None and identity is not None:
            self._fence.identity = identity

    def end_watches(self) -> None:
        """End the watches of all versions, since the server stops."""
        if self._cacher is not None:
            self._cacher.end_watches()

    def expire_watches(self) -> None:
        """End the watches of all versions with 410, so that clients list again."""
        if self._cacher is not None:
            self._cacher.expire_watches()

    def schema(self, version: Version) -> CompiledSchema:
        """The compiled schema of a version, kept as long as the version's schema does not change."""
        if version.name not in self._schemas:
            self._schemas[version.name] = CompiledSchema(version.schema, self._rule_options, self._environment.max_object_bytes)
        return self._schemas[version.name]

    def conform(self, obj: JSONObject) -> list[str]:
        """Prune and default a body by the version that it names. If that is not the URL's version, the body is refused later.

        A body of another group or kind is not pruned, except its metadata; one of an unknown version as if it had no fields.
        Mutates `obj`, returns the paths of the dropped fields. Raises what `CompiledSchema.conform` raises.
        """
        group, _, name = str(obj.get("apiVersion", "")).rpartition("/")
        if (group, obj.get("kind")) != (self.definition.group, self.definition.names.kind):
            return prune_object_meta(obj["metadata"])
        for version in self.definition.versions:
            if version.name == name:
                return self.schema(version).conform(obj)
        preserves = self.definition.preserve_unknown_fields
        nothing = {"type": "object", "x-kubernetes-preserve-unknown-fields": True} if preserves else {"type": "object"}
        return CompiledSchema(nothing).conform(obj)

    @cached_property
    def objects(self) -> DefinitionObjects:
        """The versions of the definition, for admission."""
        return DefinitionObjects(self.definition, lambda: self._storage.converter, self.schema, self._atom)

    def prepare(self) -> None:
        """Compile what the first request for each served version needs. For large definitions it is run in a thread."""
        _ = self._converter
        for version in self.definition.versions:
            if version.served:
                self.schema(version).prepare()

    def close(self) -> None:
        """End the watches and free the cache. The objects stay in the store."""
        self._forget_conversions()
        if self._cacher is not None:
            self._give_up(self._cacher)
            self._cacher = None
        self._stores.clear()

    def _give_up(self, cacher: Cacher[StoredObject]) -> None:
        """End the watches of the cache, and close it after the requests that are under way, which need it."""
        cacher.end_watches()
        self.in_use.when_idle(cacher.close)

    def _hand_over(self, successor: Definition) -> Cacher[StoredObject] | None:
        """Hand the cache to the successor, unless that has other selectable fields: then watches end, and it gets a new one.

        Watches also end if the content changes; clients that resume must list again.
        """
        self._forget_conversions()
        if self._cacher is None:
            return None
        if not same_content(self.definition, successor):
            self._cacher.break_off()
            self._marks.changed(successor.name, content_digest(successor))
        if _selectable_paths(self.definition).keys() != _selectable_paths(successor).keys():
            self._give_up(self._cacher)
            return None
        if self._cacher is not None:
            self._cacher.reconsider()
        return self._cacher

    def _forget_conversions(self) -> None:
        """Forget converted objects, since they may be converted differently now, or not at all."""
        if "_storage" in self.__dict__:  # otherwise no request has needed it yet
            self._environment.converted.forget(self._storage.conversions)

    def _unchanged_schemas(self, successor: Definition) -> Iterator[tuple[str, CompiledSchema]]:
        """The compiled schemas that the successor can keep, since its schemas for these versions are the same."""
        written = {version.name: version.schema for version in self.definition.versions}
        for version in successor.versions:
            if version.name in self._schemas and written.get(version.name) == version.schema:
                yield version.name, self._schemas[version.name]

    def info(self, version: Version) -> ResourceInfo:
        names = self.definition.names
        return ResourceInfo(
            group=self.definition.group,
            version=version.name,
            resource=names.plural,
            kind=names.kind,
            list_kind=names.list_kind,
            namespaced=self.definition.namespaced,
        )

    def check_context(self, context: Context) -> None:
        if self.terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(self.definition.group, self.definition.names.plural, "", why)

    def field_manager(self, version: Version, subresource: str) -> FieldManager:
        """The FieldManager of an endpoint. Fields that its strategy copies from the old object are not owned by any manager."""
        if subresource:
            ignored = {self._api_version(each): _RESET_BY_STATUS for each in self.definition.versions if each.status_subresource}
        else:
            ignored = {self._api_version(version): _RESET_BY_MAIN} if version.status_subresource else {}
        names = self.definition.names
        return FieldManager(self._api_version(version), names.kind, self._atom, self._convert, subresource, ignored)

    def scale_owners(self, version: Version) -> ScaleOwners:
        paths = {self._api_version(each): each.scale.spec_replicas if each.scale else None for each in self.definition.versions}
        return ScaleOwners(self._api_version(version), paths)

    def _api_version(self, version: Version) -> str:
        return f"{self.definition.group}/{version.name}"

    def _atom(self, api_version: str) -> Atom:
        """The type of a version's objects, whether it is served or not. Raises StatusError if there is no such version."""
        if api_version not in self._atoms:
            version = self._version(api_version)
            structural = self.schema(version).structural if version.structural else None
            preserves = self.definition.preserve_unknown_fields
            self._atoms[api_version] = of_resource(structural, preserve_unknown_fields=preserves)
        return self._atoms[api_version]

    def _convert(self, obj: JSONObject, api_version: str) -> JSONObject:
        """Convert an object for field managers. Raises StatusError for an unknown version, NotConverted if that needs I/O."""
        self._version(api_version)
        if self.backing.convert_part is not None:
            return self.backing.convert_part(obj, api_version)
        convert = self._converter.at_once
        if convert is None:
            raise NotConverted(obj, api_version)
        if isinstance(self._converter, NoneConverter):
            return {**obj, "apiVersion": api_version}
        try:
            return convert(codec.decode_stored(codec.encode_json(obj)), api_version)
        except TakesLong:
            raise NotConverted(obj, api_version) from None

    def _sibling(self, api_version: str) -> Store | None:
        """The store of another version, whether served or not; None if the definition does not have it."""
        for version in self.definition.versions:
            if self._api_version(version) == api_version:
                return self.store(version)
        return None

    @property
    def converter(self) -> Converter:
        return self._converter

    @cached_property
    def _converter(self) -> Converter:
        definition = self.definition
        if self.backing.converter is not None:
            return self.backing.converter
        if definition.conversion.rules:
            schemas = {version.name: self.schema(version) for version in definition.versions}
            most = self._environment.max_object_bytes
            rules = definition.conversion.rules
            return PatientConverter(conversion_annotation.converter(definition.name, rules, schemas, self._rule_options, most))
        if definition.conversion.webhook is None:
            return NONE
        if len(definition.versions) == 1:
            # What is stored in a version that is gone is refused, as upstream: without the webhook nobody knows what it means.
            return NoneConverter({*map(self._api_version, definition.versions)})
        environment = self._environment
        return WebhookConverter(
            definition.name,
            client_config(definition.conversion.webhook),
            definition.conversion.review_versions,
            environment.webhooks,
            new_uid=environment.new_uid,
            clock=environment.monotonic,
            observe=environment.observe_conversion,
        )

    def _version(self, api_version: str) -> Version:
        for version in self.definition.versions:
            if self._api_version(version) == api_version:
                return version
        raise errors.StatusError(500, "", f"request to convert CR to an invalid group/version: {api_version}")

    def strategy(self, version: Version, field_manager: FieldManager | None) -> CustomResourceStrategy:
        return CustomResourceStrategy(
            self.info(version),
            self.schema(version),
            has_status=version.status_subresource,
            scale=version.scale,
            check_context=self.check_context,
            field_manager=field_manager,
        )

    def _build_store(self, version: Version) -> Store:
        schema = self.schema(version)
        strategy = self.strategy(version, self.field_manager(version, ""))
        views = Views(self._storage, strategy.info, schema.prune_converted, schema)
        return self.backing.store(self._storage, strategy, views, self._sibling)

    @cached_property
    def _storage(self) -> ResourceStorage:
        environment, definition = self._environment, self.definition
        if self._cacher is None:
            self._cacher = environment.cacher(definition.group, definition.names.plural, prepare=self._compare)
        stored_version = definition.storage_version
        return ResourceStorage(
            group=definition.group,
            resource=definition.names.plural,
            api_version=f"{definition.group}/{stored_version.name}",
            storage=environment.storage,
            cacher=self._cacher,
            converter=self._converter,
            converted=environment.converted,
            prune=self.schema(stored_version).prune_converted,
            conform_stored=self._conform_stored,
            stored_form=self.schema(stored_version),
            read_fields=self._field_reader(),
            clock=environment.clock,
            new_uid=environment.new_uid,
            random=environment.random,
            max_object_bytes=environment.max_object_bytes,
            epoch=self._cacher.epoch,
            content_since=lambda: self._marks.since(definition.name),
            objects_since=lambda: self._marks.objects_since(definition.name),
            fence=self._fence,
            gate=self._gate,
        )

    async def _compare(self) -> None:
        await self._marks.compare(self.definition.name, lambda: content_digest(self.definition), remember=self._remember)

    def _conform_stored(self, obj: JSONObject) -> None:
        """Conform to the schema of the object's stored version, which the definition may no longer have."""
        name = obj["apiVersion"].rpartition("/")[2]
        is_counted = self.backing.in_storage or "generation" in obj["metadata"]
        for version in self.definition.versions:
            if version.name == name:
                self.schema(version).conform_stored(obj)
        if not is_counted:
            obj["metadata"].pop("generation", None)

    def _field_reader(self) -> Callable[[JSONObject], Mapping[str, str]]:
        """A function that reads the selectable fields of a stored object, with defaults unless these exceed the size limit."""
        read = read_fields(_selectable_paths(self.definition))

        def read_conformed(obj: JSONObject) -> Mapping[str, str]:
            with suppress(errors.ObjectTooLarge):
                self._conform_stored(obj)
            return read(obj)

        return read_conformed


class _Endpoints:
    """What answers the requests for one version of a definition."""

    def __init__(self, parent: DefinitionResource, version: Version) -> None:
        self._parent = parent
        self._version = version

    def served(self) -> Served:
        parent, version = self._parent, self._version
        definition, names = parent.definition, parent.definition.names
        resource = APIResource(
            parent.info(version),
            parent.backing.verbs,
            singular=names.singular,
            short_names=names.short_names,
            categories=names.categories,
            storage_version_hash=discovery.storage_version_hash(definition.group, definition.storage_version.name, names.kind),
            subresources=tuple(self._subresources()),
        )
        published = Published(
            resource,
            schema=version.schema if version.structural else {},
            preserves=definition.preserve_unknown_fields,
            selectable_fields=version.selectable_fields,
        )
        return Served(
            published,
            self._endpoint,
            parent.admission,
            listed=replace(resource, verbs=discovery.TERMINATING_VERBS) if parent.terminating else None,
            deprecation=deprecation_warning(definition, version),
            in_use=parent.in_use,
            in_storage=parent.backing.in_storage,
        )

    def _subresources(self) -> Iterator[APISubresource]:
        kind = self._parent.definition.names.kind
        if self._version.status_subresource:
            yield APISubresource("status", kind, discovery.SUBRESOURCE_VERBS)
        if self._version.scale is not None:
            yield APISubresource("scale", "Scale", discovery.SUBRESOURCE_VERBS, "autoscaling", "v1")
        for name, connected in sorted(self._parent.backing.connected.items()):
            yield APISubresource(name, kind, connected.verbs)

    def _endpoint(self, subresource: str) -> Endpoint:
        parent, version = self._parent, self._version
        store, connected = parent.store(version), parent.backing.connected.get(subresource)
        if not subresource:
            # While a definition is terminating, more can be done than discovery lists.
            return self._of_objects(parent.backing.rest(store), verbs=parent.backing.verbs)
        if connected is not None:
            return self._of_objects(connected.rest(store), connects=True)
        if subresource == "scale":
            return self._scale(store)
        strategy = StatusStrategy(
            store.strategy.info,
            parent.schema(version),
            has_status=True,
            scale=version.scale,
            check_context=parent.check_context,
            field_manager=parent.field_manager(version, "status"),
        )
        return self._of_objects(StatusStore(store.with_strategy(strategy)))

    def _of_objects(self, rest: object, *, connects: bool = False, verbs: tuple[str, ...] | None = None) -> Endpoint:
        return Endpoint(
            rest,
            self._parent.conform,
            TableConvertor(self._version.columns),
            frozenset(_selectable_names(self._version)),
            self._parent.objects,
            connects=connects,
            verbs=verbs,
        )

    def _scale(self, store: Store) -> Endpoint:
        paths = self._version.scale
        assert paths is not None  # discovery lists it
        parents = store.with_strategy(self._parent.strategy(self._version, None))
        rest = ScaleStore(parents, paths, self._parent.scale_owners(self._version))
        objects = ScaleObjects(self._parent.objects, _conform_scale)
        return Endpoint(rest, _conform_scale, table.scale_convertor(), objects=objects, typed=True)


def deprecation_warning(definition: Definition, version: Version) -> str:
    """The definition's own warning, or upstream's, which names the version to use instead."""
    if not version.deprecated:
        return ""
    if version.deprecation_warning:
        return version.deprecation_warning
    kind, group = definition.names.kind, definition.group
    text = f"{group}/{version.name} {kind} is deprecated"
    newer = [other.name for other in definition.versions if other.served and not other.deprecated]
    newer = [name for name in newer if versions.sort_key(name) < versions.sort_key(version.name)]
    if newer:
        text += f"; use {group}/{min(newer, key=versions.sort_key)} {kind}"
    return text


def _conform_scale(obj: JSONObject) -> list[str]:
    """Prune a Scale: drop unknown fields. Fields of a wrong type are refused when the Scale is written (`ScaleStore`).

    Raises MalformedError for an object of another kind or version, which a patch may make of a Scale.
    """
    version, kind = obj.get("apiVersion") or "autoscaling/v1", obj.get("kind") or "Scale"
    if isinstance(version, str) and isinstance(kind, str) and (version, kind) != ("autoscaling/v1", "Scale"):
        raise MalformedError(f"no kind {quote(kind)} is registered for version {quote(version)}")
    dropped = [] if decode_error(obj, _SCALE) else form.prune(obj, _SCALE)
    return dropped + prune_object_meta(obj["metadata"])


def _selectable_names(version: Version) -> list[str]:
    return [path.removeprefix(".") for path in version.selectable_fields]


def _selectable_paths(definition: Definition) -> dict[str, jsonpath.JSONPath]:
    """The selectable fields of all versions, by path: the cache reads them for all."""
    return {
        path.removeprefix("."): jsonpath.compile(path) for version in definition.versions for path in version.selectable_fields
    }
