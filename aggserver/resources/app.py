"""App: what a user's module declares. Nothing runs when the module is imported: no loop, no I/O, no thread.

Two Apps in one process don't know each other. A resource that is declared twice is an error that shows both lines.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, overload

from aggserver.endpoints.request import ASGIApp
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.resources.errors import DeclarationError
from aggserver.resources.handle import Column, Declaration, Scale, Scope
from aggserver.resources.host_informer import HostInformer
from aggserver.resources.metrics import (
    KINDS,
    MAX_AGE,
    NODES_SCHEMA,
    PODS_SCHEMA,
    RESOURCE_METRICS,
    CustomFunction,
    CustomMetric,
    ExternalFunction,
    ExternalMetric,
    NodeUsage,
    PodUsage,
    node_metrics,
    pod_metrics,
)
from aggserver.resources.needs import Need
from aggserver.resources.requests import ListRequest
from aggserver.resources.signatures import check_call, check_lifespan, check_metric, check_name, check_seconds, check_texts
from aggserver.resources.source import Keeps, RevisionsOf
from aggserver.resources.stored import Hooked, Stored
from aggserver.resources.virtual import Virtual, group_version, plural_of
from aggserver.schema.structural import PRESERVE
from aggserver.typed import schema as schemas
from aggserver.typed.codec import Codec, DictCodec

if TYPE_CHECKING:
    from aggserver.testing.client import AppClient

__all__ = ["App"]

S = TypeVar("S")
T = TypeVar("T")

TaskFunction = Callable[[S], Awaitable[None]]
NodesFunction = Callable[[ListRequest[S]], Iterable[NodeUsage]] | Callable[[ListRequest[S]], Awaitable[Iterable[NodeUsage]]]
PodsFunction = Callable[[ListRequest[S]], Iterable[PodUsage]] | Callable[[ListRequest[S]], Awaitable[Iterable[PodUsage]]]

# It is above this package, and imports it: only a test needs it, when it asks for a client.
_IN_PROCESS = "aggserver.testing.in_process"
# As the state of `client`: that of the lifespan.
_LIFESPAN: Any = object()


@asynccontextmanager
async def _nothing() -> Any:
    yield None


class App(Generic[S]):
    """lifespan: an async context manager whose value is `request.state` in all functions: connections, caches. It is entered when
    the server starts, and left when it ends; one that fails is entered again, and its resources are answered with 503 meanwhile.

    threads: for plain functions. deadline: seconds that a function may take.
    """

    @overload
    def __init__(self: App[None], *, threads: int = 16, deadline: float = 30.0) -> None: ...
    @overload
    def __init__(
        self, lifespan: Callable[[], AbstractAsyncContextManager[S]], *, threads: int = 16, deadline: float = 30.0
    ) -> None: ...
    def __init__(self, lifespan: Any = None, *, threads: int = 16, deadline: float = 30.0) -> None:
        place = _caller()
        if lifespan is not None:
            check_lifespan(lifespan, place)
        check_seconds(threads, "threads", place)
        check_seconds(deadline, "deadline", place)
        self.lifespan: Callable[[], AbstractAsyncContextManager[S]] = lifespan or _nothing
        self.threads = threads
        self.deadline = deadline
        self.resources: dict[str, Virtual[S, Any] | Stored[S, Any]] = {}
        self.hooked: dict[str, tuple[Hooked[S, Any], Codec[Any], str]] = {}
        self.needed: list[Need] = []
        self.informers: list[HostInformer] = []
        self.tasks: list[Callable[[S], Awaitable[None]]] = []
        self.external_metrics: dict[str, ExternalMetric] = {}
        self.mounts: dict[str, ASGIApp] = {}
        self.custom_metrics: dict[tuple[str, str], CustomMetric] = {}

    @property
    def has_sidecar(self) -> bool:
        """Whether the server keeps metadata of virtual resources in its own storage."""
        return any(handle.declaration.keeps == "sidecar" for handle in self.resources.values())

    @overload
    def virtual(
        self,
        api_version: str,
        type_: type[T],
        *,
        columns: Mapping[str, str | Column] = ...,
        selectable: Sequence[str] = ...,
        poll: float | None = ...,
        scope: Scope = ...,
        plural: str = ...,
        singular: str = ...,
        short_names: Sequence[str] = ...,
        categories: Sequence[str] = ...,
        keeps: Keeps = ...,
        revisions: RevisionsOf = ...,
    ) -> Virtual[S, T]: ...
    @overload
    def virtual(
        self,
        api_version: str,
        *,
        kind: str,
        schema: JSONMapping,
        columns: Mapping[str, str | Column] = ...,
        selectable: Sequence[str] = ...,
        poll: float | None = ...,
        scope: Scope = ...,
        plural: str = ...,
        singular: str = ...,
        short_names: Sequence[str] = ...,
        categories: Sequence[str] = ...,
        keeps: Keeps = ...,
        revisions: RevisionsOf = ...,
    ) -> Virtual[S, dict[str, Any]]: ...
    def virtual(
        self,
        api_version: str,
        type_: Any = None,
        *,
        kind: str = "",
        schema: JSONMapping | None = None,
        columns: Mapping[str, str | Column] | None = None,
        selectable: Sequence[str] = (),
        poll: float | None = None,
        scope: Scope = "Namespaced",
        plural: str = "",
        singular: str = "",
        short_names: Sequence[str] = (),
        categories: Sequence[str] = (),
        keeps: Keeps = "",
        revisions: RevisionsOf = "",
    ) -> Virtual[S, Any]:
        """A resource whose objects are kept elsewhere; its functions are declared by the decorators of what this returns.

        api_version: `group/version`. type_: a dataclass, or a class of pydantic, msgspec or attrs, with a field `metadata:
        Metadata`; or `kind` and a JSON `schema` for functions that work on dicts. columns: of `kubectl get`, by title: the path
        of the value, or a Column. selectable: paths of fields for `--field-selector`. poll: seconds between two calls of `list`,
        which make the resource one that can be watched. plural, singular: of the name, if they are not those that kubectl would
        guess. categories: such as `all`, which makes every `kubectl get all` ask this resource. keeps: `metadata` if the
        functions keep labels, annotations, finalizers and owner references of objects; `sidecar` if the server shall keep them
        in its own storage. With either there is server-side apply. revisions: `source` if the source has revisions of objects
        and of lists itself; then it may have a `watch`.

        Raises DeclarationError and TypeSchemaError, with all that is wrong.
        """
        place = _caller()
        if type_ is not None:
            made = schemas.of(type_, stored=False)
        elif schema is not None and kind:
            made = schemas.of_dict(schema, kind)
        else:
            raise DeclarationError(f"{place}: a resource needs a class, or a kind and a schema")
        if poll is not None:
            check_seconds(poll, "poll", place)
        if keeps not in get_args(Keeps):
            raise DeclarationError(f"{place}: keeps is 'metadata', 'sidecar' or nothing, not {keeps!r}")
        group, version = group_version(api_version, place)
        kind = kind or made.kind
        declaration = Declaration(
            group=group,
            version=version,
            kind=kind,
            plural=plural or plural_of(kind),
            singular=singular or kind.lower(),
            scope=scope,
            schema=made.schema,
            codec=made.codec,
            place=place,
            columns=_columns(columns, made.schema, place),
            selectable=_selectable(selectable, place),
            short_names=_texts(short_names, "short_names", place),
            categories=_texts(categories, "categories", place),
            poll=poll,
            keeps=keeps,
            revisions=revisions,
            type=type_,
        )
        handle: Virtual[S, Any] = Virtual(declaration)
        self._add(handle)
        return handle

    def client(
        self,
        *,
        user: str = "admin",
        groups: Sequence[str] = (),
        state: S = _LIFESPAN,
        rules: Sequence[Mapping[str, Any]] | None = None,
    ) -> AbstractAsyncContextManager[AppClient]:
        """For tests: `async with app.client(user="ann") as ann:` serves this App in the test's own process, and `ann` sends
        requests through all that they pass in a server, but for a network.

        user, groups: who asks; `ann.as_user("bob")` is another one. state: `request.state`, in place of what the lifespan yields.
        rules: what the user may do, as in a ClusterRole; everything by default.
        """
        given = () if state is _LIFESPAN else (state,)
        made: AbstractAsyncContextManager[AppClient] = import_module(_IN_PROCESS).client_of(self, user, groups, rules, *given)
        return made

    def stored(
        self,
        api_version: str,
        type_: type[T],
        *,
        columns: Mapping[str, str | Column] | None = None,
        selectable: Sequence[str] = (),
        scope: Scope = "Namespaced",
        plural: str = "",
        singular: str = "",
        short_names: Sequence[str] = (),
        categories: Sequence[str] = (),
        scale: Scale | None = None,
    ) -> Stored[S, T]:
        """A resource whose objects this server keeps, as for a CustomResourceDefinition that is made from the type.

        A field `status` of the type turns the subresource on, and `scale` the one of that name. The other parameters are those of
        `virtual`. Raises DeclarationError and TypeSchemaError, with all that is wrong.
        """
        place = _caller()
        made = schemas.of(type_)
        group, version = group_version(api_version, place)
        declaration = Declaration(
            group=group,
            version=version,
            kind=made.kind,
            plural=plural or plural_of(made.kind),
            singular=singular or made.kind.lower(),
            scope=scope,
            schema=made.schema,
            codec=made.codec,
            place=place,
            columns=_columns(columns, made.schema, place),
            selectable=_selectable(selectable, place),
            short_names=_texts(short_names, "short_names", place),
            categories=_texts(categories, "categories", place),
            scale=_scale(scale, made.schema, place),
            type=type_,
        )
        handle: Stored[S, T] = Stored(declaration, has_status=made.has_status)
        self._add(handle)
        return handle

    @overload
    def hooks(self, name: str) -> Hooked[S, dict[str, Any]]: ...
    @overload
    def hooks(self, name: str, type_: type[T]) -> Hooked[S, T]: ...
    def hooks(self, name: str, type_: Any = None) -> Hooked[S, Any]:
        """Hooks on a definition that this server serves, by its name, as `crontabs.stable.example.com`.

        type_: of the objects, for functions that don't want dicts. The definitions of a hosting cluster don't pass here, but for
        those that this server has adopted.
        """
        place = _caller()
        if name in self.hooked:
            raise DeclarationError(f"{place}: hooks on {name} are declared already, at {self.hooked[name][2]}")
        codec: Codec[Any] = DictCodec({}) if type_ is None else schemas.of(type_).codec
        hooked: Hooked[S, Any] = Hooked()
        self.hooked[name] = hooked, codec, place
        return hooked

    def mount(self, path: str, application: ASGIApp) -> None:
        """Serve an ASGI application, such as one of FastAPI, beside the resources, on the port `--web-port` and below this path.

        It is not a part of the API: it has no users, and kubectl sees nothing of it. Its lifespan is run. Functions of it may use
        the handles of stored resources.
        """
        if not path.startswith("/") or path in self.mounts:
            raise DeclarationError(f"{_caller()}: {path!r} must begin with / and be mounted once")
        self.mounts[path] = application

    def needs(self, resource: str, *verbs: str, namespace: str = "", names: Sequence[str] = (), as_user: bool = False) -> None:
        """Declares rights in the hosting cluster that the functions need. `aggserver manifests` prints the roles for them; a
        server that lacks one says so in its log and in `/readyz`.

        resource: as `pods`, `deployments.apps`, `deployments.apps/scale`. verbs: as in a role. namespace: where, everywhere by
        default. names: of the only objects. as_user: for `request.host`, which asks with the rights of the user: the server's
        account may then do this as somebody else, and not by itself.
        """
        place = _caller()
        named, _, subresource = resource.partition("/")
        name, _, group = named.partition(".")
        if not name or not verbs or any(not verb for verb in verbs):
            raise DeclarationError(f"{place}: needs takes a resource and verbs, such as needs('pods', 'get', 'list')")
        self.needed.append(Need(group, name, subresource, verbs, namespace, tuple(names), as_user, place))

    def informer(
        self,
        api_version: str,
        resource: str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        keep: Callable[[JSONObject], JSONObject] = lambda obj: obj,
    ) -> HostInformer:
        """Objects of the hosting cluster, kept in memory by one list and watch with the server's own rights, which this declares.

        api_version: as `apps/v1`, `v1`. resource: the plural. namespace: '' for all. labels, fields: selectors. keep: reduces an
        object to what is needed of it, to save memory; `metadata` must stay.
        """
        place = _caller()
        query = {name: text for name, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}
        try:
            informer = HostInformer(api_version, resource, namespace, query, keep)
        except ValueError as error:
            raise DeclarationError(f"{place}: {error}") from None
        self.informers.append(informer)
        self.needed.append(Need(informer.group, resource, "", ("list", "watch"), namespace, place=place))
        return informer

    def task(self, function: TaskFunction[S], /) -> TaskFunction[S]:
        """An async function that runs as long as the server does; if it raises or ends, it is started again after a pause.

        In a cluster only one replica runs it at a time, by a Lease.
        """
        if not inspect.iscoroutinefunction(function):
            raise DeclarationError(f"{_caller()}: a task is an async function")
        check_call(function, "a task", "state")
        self.tasks.append(function)
        return function

    def external_metric(self, name: str, *, max_age: float = MAX_AGE) -> Callable[[ExternalFunction[S]], ExternalFunction[S]]:
        """A number for HorizontalPodAutoscalers with a metric of type External: what is outside of the cluster, such as a queue.

        The function returns a number, a Sample, or several Samples with labels, of which the autoscaler adds up those that its
        selector matches. Not to know is `raise Unavailable`. max_age: seconds that a sample may be old.
        """
        place = _caller()
        check_name(name, '@app.external_metric("name")', place)
        check_metric(name, place)

        def declare(function: ExternalFunction[S]) -> ExternalFunction[S]:
            check_call(function, f"the external metric {name}", "request", where=place)
            if name in self.external_metrics:
                raise DeclarationError(f"{_caller()}: there are two external metrics {name}")
            self.external_metrics[name] = ExternalMetric(name, function, max_age)
            return function

        return declare

    def custom_metric(
        self,
        resource: str,
        name: str,
        *,
        kind: str = "",
        api_version: str = "",
        scope: Scope = "Namespaced",
        max_age: float = MAX_AGE,
    ) -> Callable[[CustomFunction[S]], CustomFunction[S]]:
        """A number of objects of the cluster, for HorizontalPodAutoscalers with metrics of type Pods and Object.

        resource: as `pods`, `services`, `deployments.apps`; kind, api_version and scope are needed for others than Kubernetes'
        own. The function returns a number for `request.name`, or numbers by name, which it must where the name is `*`.
        """
        place = _caller()
        check_metric(name, place)
        known = KINDS.get(resource)
        if known is None and not (kind and api_version):
            raise DeclarationError(f"{_caller()}: kind and api_version of {resource} are needed")
        of_version, of_kind, namespaced = known or (api_version, kind, scope == "Namespaced")

        def declare(function: CustomFunction[S]) -> CustomFunction[S]:
            check_call(function, f"the metric {name} of {resource}", "request", where=place)
            if (resource, name) in self.custom_metrics:
                raise DeclarationError(f"{_caller()}: there are two metrics {name} of {resource}")
            metric = CustomMetric(resource, name, function, of_version, of_kind, namespaced, max_age)
            self.custom_metrics[resource, name] = metric
            return function

        return declare

    def node_metrics(self, function: NodesFunction[S], /) -> NodesFunction[S]:
        """What the nodes use, for `kubectl top nodes`. A node whose sample is older than two minutes is left out."""
        self._usage("NodeMetrics", "nodes", "Cluster", NODES_SCHEMA, function, node_metrics)
        return function

    def pod_metrics(self, function: PodsFunction[S], /) -> PodsFunction[S]:
        """What pods use, for `kubectl top pods` and autoscaling by CPU and memory. A pod with an old sample is left out."""
        self._usage("PodMetrics", "pods", "Namespaced", PODS_SCHEMA, function, pod_metrics)
        return function

    def _usage(
        self,
        kind: str,
        plural: str,
        scope: Scope,
        schema: JSONObject,
        function: Callable[..., Any],
        made: Callable[[Iterable[Any], datetime, float], Sequence[JSONObject]],
    ) -> None:
        check_call(function, f"the {plural[:-1]}_metrics function", "request")
        handle = self.virtual(
            f"{RESOURCE_METRICS}/v1beta1", kind=kind, schema=schema, plural=plural, singular=plural[:-1], scope=scope
        )

        async def listed(request: ListRequest[S]) -> Sequence[JSONObject]:
            return made(await function(request), datetime.now(UTC), MAX_AGE)

        def listed_plainly(request: ListRequest[S]) -> Sequence[JSONObject]:
            return made(function(request), datetime.now(UTC), MAX_AGE)

        handle.list(listed if inspect.iscoroutinefunction(function) else listed_plainly)

    def _add(self, handle: Virtual[S, Any] | Stored[S, Any]) -> None:
        declaration = handle.declaration
        if (before := self.resources.get(declaration.name)) is not None:
            raise DeclarationError(f"{declaration.place}: {declaration.name} is declared already, at {before.declaration.place}")
        self.resources[declaration.name] = handle


def _selectable(paths: Sequence[str], place: str) -> tuple[str, ...]:
    return tuple(f".{path.removeprefix('.')}" for path in _texts(paths, "selectable", place))


def _texts(given: Sequence[str], what: str, place: str) -> tuple[str, ...]:
    check_texts(given, what, place)
    return tuple(given)


def _columns(columns: Mapping[str, str | Column] | None, schema: JSONMapping, place: str) -> dict[str, Column]:
    if columns is not None and not isinstance(columns, Mapping):
        raise DeclarationError(f'{place}: columns is a dict: write columns={{"Size": ".spec.size"}}')
    found = {title: _column(given, schema) for title, given in (columns or {}).items()}
    for title, column in found.items():
        if missing := _missing(column.path, schema):
            raise DeclarationError(f"{place}: the column {title} shows {column.path}, and there is no {missing}")
    return found


def _scale(scale: Scale | None, schema: JSONMapping, place: str) -> Scale | None:
    for path in () if scale is None else (scale.replicas, scale.status, *([scale.selector] if scale.selector else [])):
        if missing := _missing(path, schema):
            raise DeclarationError(f"{place}: scale has {path}, and there is no {missing}")
    return scale


def _missing(path: str, schema: JSONMapping) -> str:
    """The part of a path up to the first name that a schema has no field of; '' if it has all, or does not tell."""
    node: Any = schema
    names = list(_names(path))
    for count, name in enumerate(names, 1):
        properties = node.get("properties")
        if not name.isidentifier() or (count == 1 and name == "metadata") or not properties or node.get(PRESERVE):
            return ""
        if name not in properties:
            return "".join(f".{each}" for each in names[:count])
        node = properties[name]
    return ""


def _caller() -> str:
    """File and line of the call of a method of App."""
    frame = sys._getframe(2)
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _column(given: str | Column, schema: JSONMapping) -> Column:
    column = Column(given) if isinstance(given, str) else given
    path = f".{column.path.removeprefix('.')}"
    return Column(path, column.type or _type_at(path, schema), column.description, column.wide)


def _type_at(path: str, schema: JSONMapping) -> str:
    """The type of a column for the field at a path: a path that is more than names is shown as a string."""
    node: Any = schema
    for name in _names(path):
        node = (node.get("properties") or {}).get(name) or {}
    if path == ".metadata.creationTimestamp" or node.get("format") == "date-time":
        return "date"
    found = node.get("type")
    return found if found in ("integer", "number", "boolean") else "string"


def _names(path: str) -> Iterable[str]:
    return path.removeprefix(".").split(".")
