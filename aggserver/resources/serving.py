"""Serving: an App as a part of a server: its resources for the installer, and the task that runs it.

A virtual resource is served as a definition whose objects are not in the server's storage: schema, discovery, OpenAPI, tables and
the checks of a write are those of custom resources. Apps don't disturb each other: one that can't start is retried, and its
resources are answered with 503.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from aggserver.admission.chain import Chain
from aggserver.apiextensions import manifest, validation
from aggserver.apiextensions.definition import Definition, parse
from aggserver.apiextensions.definitions import Definitions
from aggserver.apiextensions.marks import Marks
from aggserver.apiextensions.serving import Backing, Connected, DefinitionResource
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.endpoints.filters import LONG_RUNNING_SUBRESOURCES
from aggserver.endpoints.served import Served
from aggserver.informers.kept_up import RESTART, kept_up
from aggserver.meta import errors, jsonpath
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry.environment import Environment
from aggserver.registry.gate import Gate
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.store import Store
from aggserver.registry.strategy import Strategy
from aggserver.registry.views import Views
from aggserver.resources import known_schemas, rights, round_trips
from aggserver.resources.access import StoreAccess
from aggserver.resources.answering import Answering
from aggserver.resources.app import App
from aggserver.resources.calls import Calls, name_of
from aggserver.resources.connecting import ConnectedAction, ConnectedStream, Ends, Running
from aggserver.resources.conversion import FunctionConverter, OtherVersion
from aggserver.resources.errors import DeclarationError
from aggserver.resources.following import Following, Sleep, Sweeping
from aggserver.resources.handle import Declaration, Handle
from aggserver.resources.hooks import ObjectHooks
from aggserver.resources.host import Hosting
from aggserver.resources.metrics import RESOURCE_METRICS
from aggserver.resources.metrics_serving import AppMetrics
from aggserver.resources.mirror import Mirror
from aggserver.resources.passing import PassingStore
from aggserver.resources.requests import Request
from aggserver.resources.revisions import REPLICAS, Revisions
from aggserver.resources.round_trips import Side
from aggserver.resources.sidecar import Sidecar
from aggserver.resources.source import ObjectSource
from aggserver.resources.store import Applying, DirectStore, MirroredStore, SourceStore, Verbs
from aggserver.resources.stored import Hooked, Stored
from aggserver.resources.virtual import Virtual
from aggserver.storage import keys
from aggserver.storage.memory import MemoryStorage
from aggserver.typed.codec import Codec

__all__ = ["ServedApp"]

log = logging.getLogger("aggserver.resources")

_UNSET: Any = object()
# Without this annotation a definition of a group below k8s.io is refused.
_APPROVED = "api-approved.kubernetes.io"

# (name of the App, work) -> runs the work while this replica is the one that may, for ever.
Elected = Callable[[str, Callable[[], Coroutine[Any, Any, None]]], Coroutine[Any, Any, None]]


class ServedApp:
    """One App in a server. `resources` are for the installer; `run` is its task. name: for the log and `/readyz`.

    Raises DeclarationError for what can't be served, with all that is wrong.
    """

    def __init__(
        self,
        name: str,
        app: App[Any],
        environment: Environment,
        admission: Chain,
        definitions: Definitions,
        elected: Elected | None = None,
        hosting: Hosting | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.name = name
        self._sleep = sleep
        self._app = app
        self._environment = environment
        self._admission = admission
        self._definitions = definitions
        self._elected = elected
        self._ends = Ends(app.threads)
        self._calls = Calls(name, app.threads, hosting=hosting)
        self._hosting = hosting
        self._lacks = ""
        self._state: Any = _UNSET
        self._why = "it has not started yet"
        self._followings: list[Following] = []
        self._sidecars: list[Sidecar] = []
        # The tasks of the resources, while the App runs.
        self._runs: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._resources: dict[str, DefinitionResource] = {}
        problems: list[str] = []
        for handle in app.resources.values():
            try:
                made = self._virtual(handle) if isinstance(handle, Virtual) else self._stored(handle)
                self._resources[handle.declaration.name] = made
            except DeclarationError as error:
                problems.append(str(error))
        if problems:
            raise DeclarationError("\n".join(problems))
        for hook_name, (hooked, of_objects, place) in app.hooked.items():
            self._hook(hook_name, hooked, of_objects, place)

    def resources(self) -> list[tuple[str, Sequence[Served]]]:
        """What is served, by owner, for `Installer.install`."""
        found: list[tuple[str, Sequence[Served]]] = [
            (f"{self.name} {name}", resource.versions) for name, resource in self._resources.items()
        ]
        app, environment = self._app, self._environment
        external, custom = [*app.external_metrics.values()], [*app.custom_metrics.values()]
        if external or custom:
            metrics = AppMetrics(external, custom, self._calls, self._state_now, environment.clock, app.deadline)
            found.append((f"{self.name} metrics", metrics.resources()))
        return found

    @property
    def definitions(self) -> list[tuple[Definition, str]]:
        """Those of the App's own resources, with the places where they are declared."""
        declared = {name: handle.declaration.place for name, handle in self._app.resources.items()}
        return [(resource.definition, declared[name]) for name, resource in self._resources.items()]

    def trouble(self) -> str | None:
        """For readiness: why not all of it can be used, None if it can."""
        if self._state is _UNSET:
            return self._why
        parts: tuple[Following | Sidecar, ...] = (*self._followings, *self._sidecars)
        troubles = [text for each in parts if (text := each.trouble()) is not None]
        return "; ".join([*([self._lacks] if self._lacks else []), *troubles]) or None

    def end_watches(self) -> None:
        """End the watches of all resources, since the server stops."""
        self._ends.end_all()
        for resource in self._resources.values():
            resource.end_watches()

    async def run(self) -> None:
        """Until cancelled: inside of the App's lifespan, follow its sources."""
        pauses = RESTART.pauses()
        for name, handle in self._app.resources.items():
            if isinstance(handle, Stored):
                definition = self._resources[name].definition
                await known_schemas.compare(self._environment.storage, definition, handle.declaration.place)
        try:
            while True:
                try:
                    async with self._app.lifespan() as state:
                        self._state = state
                        pauses = RESTART.pauses()
                        self._bind()
                        async with asyncio.TaskGroup() as tasks:
                            for run in self._runs:
                                tasks.create_task(run())
                            tasks.create_task(self._run_tasks(self._sleep))
                            if self._hosting is not None:
                                tasks.create_task(self._check_rights(self._hosting.cluster))
                                for informer in self._app.informers:
                                    tasks.create_task(informer.run(self._hosting, self._sleep))
                except Exception as error:
                    log.error("app %s could not go on: %s", self.name, error, exc_info=error)
                    if (task := asyncio.current_task()) is not None and task.cancelling():
                        raise asyncio.CancelledError from None  # the server stops, and the end of the lifespan has failed
                    self._why = "its lifespan has failed, see the log"
                    for following in self._followings:
                        following.failed()
                finally:
                    self._state = _UNSET
                await self._sleep(next(pauses))
        finally:
            self._bind(is_over=True)
            self._calls.close()

    def _bind(self, *, is_over: bool = False) -> None:
        """Let the handles of stored resources read and write."""
        for handle in self._app.resources.values():
            if isinstance(handle, Stored):
                served = self._resources[handle.declaration.name].versions[0]
                handle.bind(None if is_over else StoreAccess(served, handle.declaration.codec))

    async def _run_tasks(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Run the App's tasks, each again when it ends. In a cluster, while this replica is elected."""

        async def work() -> None:
            async with asyncio.TaskGroup() as tasks:
                for function in self._app.tasks:
                    name, run = f"task {name_of(function)}", partial(function, self._state)
                    tasks.create_task(kept_up(name, run, endless=True, sleep=sleep, clock=self._environment.monotonic))

        if not self._app.tasks:
            await asyncio.Event().wait()
        elif self._elected is None:
            await work()
        else:
            await self._elected(self.name, work)

    async def _check_rights(self, cluster: Cluster) -> None:
        """Return when the server's account has all rights that the App needs; until then, say what is missing."""
        pauses = RESTART.pauses()
        while self._app.needed:
            try:
                lacking = await rights.missing(cluster, self._app.needed)
            except (ClusterError, Unreachable) as error:
                log.info("app %s: whether it has the rights that it needs is not known: %s", self.name, error)
            else:
                lacks = f"the server's account may not do what the App needs: {'; '.join(lacking)}" if lacking else ""
                if lacks != self._lacks:
                    hint = "; `aggserver manifests` prints the roles" if lacks else "the server's account has all rights now"
                    log.log(logging.WARNING if lacks else logging.INFO, "app %s: %s%s", self.name, lacks, hint)
                self._lacks = lacks
                if not lacking:
                    return
            await self._sleep(next(pauses))

    def _state_now(self) -> Any:
        if self._state is _UNSET:
            raise errors.service_unavailable(f"app {self.name}: {self._why}", retry_after=1)
        return self._state

    # --- virtual resources ---

    def _virtual(self, handle: Virtual[Any, Any]) -> DefinitionResource:
        declaration = handle.declaration
        definition, info = _definition(declaration), declaration.info
        _check(handle)
        environment = self._environment
        source = ObjectSource(
            info,
            handle.functions,
            declaration.codec,
            self._calls,
            self._state_now,
            keeps=declaration.keeps,
            revisions=declaration.revisions,
            read_seconds=self._app.deadline,
            max_object_bytes=environment.max_object_bytes,
        )
        revisions = Revisions(environment.clock, environment.random(REPLICAS))
        make: Callable[..., Store]
        sidecar = Sidecar(environment.storage, info, sleep=self._sleep) if declaration.keeps == "sidecar" else None
        if sidecar is not None:
            self._sidecars.append(sidecar)
            self._runs.append(sidecar.run)
        if declaration.poll is None and handle.functions.feed is None:
            storage: Any = MemoryStorage()
            secret = environment.random(1 << 256).to_bytes(32)
            if declaration.revisions:
                make = partial(_passing, source, revisions, secret, self._ends, self._sleep)
            else:
                make = partial(_direct, source, sidecar, revisions, secret)
            if sidecar is not None:
                self._runs.append(Sweeping(source, sidecar, sleep=self._sleep).run)
        else:
            storage = Mirror(revisions, keys.resource_prefix(info.group, info.resource))
            if sidecar is not None:
                storage.shown = sidecar.shown
                sidecar.there, sidecar.show = storage.there, storage.show
            following = Following(
                source,
                storage,
                self._calls,
                self._state_now,
                declaration.poll,
                cache=lambda: resource.store(definition.versions[0]).cacher,
                sidecar=sidecar,
                clock=environment.monotonic,
                sleep=self._sleep,
            )
            self._followings.append(following)
            self._runs.append(following.run)
            make = partial(_mirrored, source, sidecar, storage, following, revisions)
        rest: Callable[[Any], object] = Applying if declaration.keeps else Verbs
        if _is_question(handle):
            rest = partial(_answering, source, environment.clock)
        of_its_own = replace(environment, storage=storage, corrupt={}, behind={})
        resource = DefinitionResource(
            of_its_own,
            self._admission,
            definition,
            marks=Marks(storage),
            gate=Gate(),
            backing=Backing(
                _verbs(handle),
                make,
                rest,
                in_storage=False,
                connected=self._connected(handle, info, _as_it_is, _anybody),
            ),
        )
        return resource

    # --- stored resources ---

    def _stored(self, handle: Stored[Any, Any]) -> DefinitionResource:
        declaration, environment = handle.declaration, self._environment
        info = declaration.info
        definition = _definition(declaration, handle)
        others = {f"{declaration.group}/{each.name}": each for each in handle.versions}
        converter: FunctionConverter | None = None
        if others:
            schemas = {f"{declaration.group}/{each.name}": each.schema for each in definition.versions}
            converter = FunctionConverter(info.api_version, declaration.codec, others, schemas, has_status=handle.has_status)
        resource: DefinitionResource
        versions = _HookedVersions(lambda: resource)
        hooks = ObjectHooks(handle.hook_functions, declaration.codec, self._calls, self._state_now, lambda: versions)
        chain = self._admission.after(hooks).then(hooks) if handle.hook_functions else self._admission
        resource = DefinitionResource(
            environment,
            chain,
            definition,
            marks=Marks(environment.storage, corrupt=environment.corrupt, behind=environment.behind),
            gate=Gate(),
            remember=True,
            backing=Backing(
                converter=converter,
                convert_part=converter.part if converter is not None else None,
                connected=self._connected(handle, info, versions.hub, hooks.authorize),
            ),
        )
        if converter is not None:
            _check_versions(handle, resource, converter)
        return resource

    def _hook(self, name: str, hooked: Hooked[Any, Any], of_objects: Codec[Any], place: str) -> None:
        if not name.partition(".")[2]:
            raise DeclarationError(f"{place}: {name!r} is no name of a definition, such as crontabs.stable.example.com")

        def resource() -> DefinitionResource:
            found = self._definitions.get(name)
            assert found is not None  # its hooks were called
            return found

        versions = _HookedVersions(resource)
        hooks = ObjectHooks(hooked.hook_functions, of_objects, self._calls, self._state_now, lambda: versions)
        self._definitions.hook(name, hooks, place)

    # --- actions and streams ---

    def _connected(
        self,
        handle: Handle[Any, Any],
        info: ResourceInfo,
        hub: Callable[[JSONObject], Awaitable[JSONObject]],
        authorize: Callable[[Request[Any], JSONObject], Awaitable[None]],
    ) -> dict[str, Connected]:
        running = Running(
            info, self._calls, self._state_now, handle.declaration.codec, hub, authorize, self._ends, self._app.deadline
        )
        for name, each in handle.connections.items():
            if each.is_stream and name not in LONG_RUNNING_SUBRESOURCES:
                log.warning(
                    "%s: streams of %s/%s end after a minute through kube-apiserver; those named %s don't",
                    *(handle.declaration.place, handle.declaration.name, name, ", ".join(sorted(LONG_RUNNING_SUBRESOURCES))),
                )
        return {
            name: Connected(("get",), partial(ConnectedStream, running, each))
            if each.is_stream
            else Connected(("create",), partial(ConnectedAction, running, each))
            for name, each in handle.connections.items()
        }


async def _as_it_is(obj: JSONObject) -> JSONObject:
    return obj


async def _anybody(request: Request[Any], obj: JSONObject) -> None:
    return None


class _HookedVersions:
    """`hooks.Versions` of a definition that is served."""

    def __init__(self, resource: Callable[[], DefinitionResource]) -> None:
        self._resource = resource
        self._known: DefinitionResource | None = None
        self._hub = ""

    @property
    def info(self) -> ResourceInfo:
        resource = self._resource()
        return resource.info(resource.definition.storage_version)

    def passes(self, obj: JSONObject) -> bool:
        resource = self._resource()
        api_version = obj.get("apiVersion")
        for version in resource.definition.versions:
            if api_version == f"{resource.definition.group}/{version.name}":
                values, structure = resource.schema(version).on_create(obj)
                return not values and not structure
        return False

    async def hub(self, obj: JSONObject) -> JSONObject:
        resource = self._resource()
        if resource is not self._known:
            # Not for every object anew: this is on the way of each write.
            self._known = resource
            self._hub = f"{resource.definition.group}/{resource.definition.storage_version.name}"
        return obj if obj.get("apiVersion") == self._hub else await resource.objects.convert(obj, self._hub)

    async def back(self, obj: JSONObject, api_version: str) -> JSONObject:
        return obj if obj["apiVersion"] == api_version else await self._resource().objects.convert(obj, api_version)


def _direct(
    source: ObjectSource,
    sidecar: Sidecar | None,
    revisions: Revisions,
    secret: bytes,
    resource: ResourceStorage,
    strategy: Strategy,
    views: Views,
    *more: Any,
) -> SourceStore:
    store = DirectStore(resource, strategy, views, *more)
    store.source, store.sidecar, store.revisions, store.secret = source, sidecar, revisions, secret
    return store


def _passing(
    source: ObjectSource,
    revisions: Revisions,
    secret: bytes,
    ends: Ends,
    sleep: Sleep,
    resource: ResourceStorage,
    strategy: Strategy,
    views: Views,
    *more: Any,
) -> SourceStore:
    store = PassingStore(resource, strategy, views, *more)
    store.source, store.revisions, store.secret, store.ends, store.sleep = source, revisions, secret, ends, sleep
    return store


def _mirrored(
    source: ObjectSource,
    sidecar: Sidecar | None,
    mirror: Mirror,
    following: Following,
    revisions: Revisions,
    resource: ResourceStorage,
    strategy: Strategy,
    views: Views,
    *more: Any,
) -> SourceStore:
    store = MirroredStore(resource, strategy, views, *more)
    store.source, store.sidecar, store.revisions = source, sidecar, revisions
    store.mirror, store.following = mirror, following
    return store


def _answering(source: ObjectSource, clock: Callable[[], float], store: Store) -> Answering:
    return Answering(source, store.strategy, clock)


def _is_question(handle: Virtual[Any, Any]) -> bool:
    """Whether objects are only created: then they are questions, which `create` answers."""
    functions = handle.functions
    return functions.create is not None and functions.list is None and functions.get is None


def _verbs(handle: Virtual[Any, Any]) -> tuple[str, ...]:
    """The verbs that follow from the functions, in the order of discovery."""
    functions = handle.functions
    has = {
        "delete": functions.delete is not None,
        "deletecollection": functions.delete is not None,
        "get": not _is_question(handle),
        "list": functions.list is not None,
        "patch": functions.update is not None,
        "create": functions.create is not None,
        "update": functions.update is not None,
        "watch": handle.declaration.poll is not None or functions.feed is not None or functions.watch is not None,
    }
    if functions.list is None:
        has["deletecollection"] = False
    return tuple(verb for verb, there in has.items() if there)


def _check(handle: Virtual[Any, Any]) -> None:
    """Raises DeclarationError for functions that don't make up a resource."""
    functions, declaration = handle.functions, handle.declaration
    where = f"{declaration.place}: {declaration.name}"
    if functions.list is None and functions.get is None:
        if functions.create is None:
            raise DeclarationError(f"{where} has neither a list nor a get function")
        names = [name for name in ("update", "delete", "visible") if getattr(functions, name) is not None]
        if names or handle.connections:
            more = ", ".join([*names, *handle.connections])
            raise DeclarationError(f"{where} has neither a list nor a get function, which {more} need")
    if functions.list is None and (declaration.poll is not None or functions.feed is not None):
        raise DeclarationError(f"{where} has poll or a feed, and needs a list function, which tells the objects there are")
    if functions.feed is not None and declaration.poll is not None:
        raise DeclarationError(f"{where} has a feed, which tells of changes: poll is for sources without one")
    if functions.watch is not None and functions.list is None:
        raise DeclarationError(f"{where} has a watch, and needs a list function, from whose revisions clients watch")
    if functions.watch is not None and not declaration.revisions:
        raise DeclarationError(
            f'{where} has a watch, which goes by revisions of the source: it needs revisions="source"; a feed needs none'
        )
    if declaration.revisions and (declaration.poll is not None or functions.feed is not None):
        raise DeclarationError(f'{where} has revisions="source", and poll or a feed, where the server makes the revisions')
    if declaration.revisions and declaration.keeps == "sidecar":
        raise DeclarationError(
            f'{where} has revisions="source", and a sidecar, whose changes the source has no revisions for: take keeps="metadata"'
        )
    is_of_lists = functions.list is not None and functions.get is None and declaration.poll is None and functions.feed is None
    if is_of_lists and not declaration.group.endswith(".k8s.io"):
        log.warning("%s has no get function: each get of one object lists all of them", where)


def _check_versions(handle: Stored[Any, Any], resource: DefinitionResource, converter: FunctionConverter) -> None:
    """Raises DeclarationError for fields that a version loses."""
    declaration = handle.declaration
    schemas = {version.name: resource.schema(version) for version in resource.definition.versions}
    hub_version = f"{declaration.group}/{declaration.version}"
    problems: list[str] = []
    for each in handle.versions:
        api_version = f"{declaration.group}/{each.name}"
        to_other = partial(converter.down, api_version=api_version)
        hub = Side(hub_version, declaration.kind, schemas[declaration.version], declaration.codec, to_other)
        other = Side(api_version, declaration.kind, schemas[each.name], each.codec, converter.up)
        where = f"{declaration.place}: {declaration.name}: version {each.name}"
        down, up = name_of(each.down), name_of(each.up)
        for (one, two), (first, second) in (((hub, other), (down, up)), ((other, hub), (up, down))):
            found = round_trips.tried(one, two)
            for field, what in found.lost.items():
                if any(field == path or field.startswith((f"{path}.", f"{path}[")) for path in each.loses):
                    continue
                problems.append(
                    f"{where}: {field} of {one.api_version.rpartition('/')[2]} {what} by {first} and {second}; "
                    "what the other version has no field for can be kept in an annotation"
                )
            if found.failed is not None:
                text = f"{where}: {first} or {second} has failed for an object that the schema allows: {found.failed!r}"
                if not found.tried:
                    problems.append(text)
                else:
                    log.warning("%s", text)
    if problems:
        raise DeclarationError("\n".join(problems))


def _definition(declaration: Declaration, stored: Stored[Any, Any] | None = None) -> Definition:
    """As a CustomResourceDefinition of the same content. Raises DeclarationError with all for which that would be refused."""
    names: JSONObject = {
        "plural": declaration.plural,
        "singular": declaration.singular,
        "kind": declaration.kind,
        "listKind": f"{declaration.kind}List",
    }
    names |= {"shortNames": [*declaration.short_names]} if declaration.short_names else {}
    names |= {"categories": [*declaration.categories]} if declaration.categories else {}
    version: JSONObject = {
        "name": declaration.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": declaration.schema},
    }
    subresources: JSONObject = {"status": {}} if stored is not None and stored.has_status else {}
    if (scale := declaration.scale) is not None:
        subresources["scale"] = {"specReplicasPath": scale.replicas, "statusReplicasPath": scale.status}
        subresources["scale"] |= {"labelSelectorPath": scale.selector} if scale.selector else {}
    version |= {"subresources": subresources} if subresources else {}
    if declaration.columns:
        version["additionalPrinterColumns"] = _columns(declaration)
    if declaration.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in declaration.selectable]
    crd: JSONObject = {
        "apiVersion": manifest.API_VERSION,
        "kind": manifest.KIND,
        "metadata": {"name": declaration.name, "annotations": {_APPROVED: "unapproved, an API of Kubernetes that others serve"}},
        "spec": {"group": declaration.group, "scope": declaration.scope, "names": names, "versions": [version]},
    }
    for other in () if stored is None else stored.versions:
        crd["spec"]["versions"].append(_other_version(other, declaration.schema, has_status="status" in subresources))
    is_taken = "." not in declaration.group or validation.is_protected(declaration.group)
    if is_taken and declaration.group != RESOURCE_METRICS:
        raise DeclarationError(
            f"{declaration.place}: the group {declaration.group} is Kubernetes' own; a group of yours has a domain of yours in it"
        )
    for title, column in declaration.columns.items():
        try:
            jsonpath.compile(column.path)
        except ValueError as error:
            raise DeclarationError(f"{declaration.place}: {declaration.name}: column {title}: {column.path}: {error}") from None
    if problems := validation.validate(crd):
        raise DeclarationError("\n".join(f"{declaration.place}: {declaration.name}: {each}" for each in problems))
    manifest.prune(crd)
    return parse(crd)


def _other_version(other: OtherVersion, hub: JSONObject, *, has_status: bool) -> JSONObject:
    schema = other.schema
    if has_status and not other.has_status:
        # See `FunctionConverter`.
        schema = {**schema, "properties": {**schema["properties"], "status": hub["properties"]["status"]}}
    version: JSONObject = {"name": other.name, "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}}
    version |= {"subresources": {"status": {}}} if has_status or other.has_status else {}
    return version | ({"deprecated": True, "deprecationWarning": other.deprecated} if other.deprecated else {})


def _columns(declaration: Declaration) -> list[JSONObject]:
    shown: list[JSONObject] = []
    for title, column in declaration.columns.items():
        entry: JSONObject = {"name": title, "type": column.type, "jsonPath": column.path}
        entry |= {"description": column.description} if column.description else {}
        shown.append(entry | ({"priority": 1} if column.wide else {}))
    if not any(column.path == ".metadata.creationTimestamp" for column in declaration.columns.values()):
        shown.append({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
    return shown
