"""Served: one resource in one version, as the server serves it. ResourceScope: what handlers need for it, or for a subresource.

There is one way to add a resource. Definitions, the resources of Apps, built-in kinds, reviews and metrics are each described by
a `Served`, which is then given to the `Installer`. What clients are told about a resource is written down when it is added. What
answers its requests needs compiled schemas, and is made at the first request, so that hundreds of definitions cost little.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from aggserver.admission.chain import Chain, OneVersion, ResourceObjects
from aggserver.meta import errors, versions
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.discovery import APIResource
from aggserver.publish.models import Published
from aggserver.publish.table import TableConvertor
from aggserver.registry.own_kinds import conformer
from aggserver.schema.object_meta import prune_object_meta

__all__ = ["Endpoint", "ResourceScope", "Served", "of_kind"]

Conform = Callable[[JSONObject], list[str]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What answers the requests for a resource or a subresource, and what its objects are.

    rest: the implementation, an object with the protocols of `registry/rest.py` that its verbs need.
    conform: prunes and defaults a decoded body in place; returns the paths of pruned fields, for fieldValidation. Raises
        schema.pruning.MalformedError.
    selectable_fields: names that field selectors may use, besides metadata.name and metadata.namespace.
    objects: the versions of the objects, for admission; None if there is one version and no defaults but those of `conform`.
    typed: whether upstream has a Go type for the objects. Then kind and apiVersion may be missing in a body, and lists omit an
        empty `continue`; with custom resources it is the other way round.
    type_name: the Go type of the objects, in the tables of `scheme/`, which strategic merge patches need; '' if there is none.
    connects: whether this is no object: its `rest` is a Connecter.
    verbs: the allowed ones, by the names that discovery lists; None for those that it does list.
    """

    rest: object
    conform: Conform
    table: TableConvertor = field(default_factory=lambda: TableConvertor(()))
    selectable_fields: frozenset[str] = frozenset()
    objects: ResourceObjects | None = None
    typed: bool = False
    type_name: str = ""
    connects: bool = False
    verbs: tuple[str, ...] | None = None

    @classmethod
    def of_type(
        cls,
        type_name: str,
        rest: object,
        conform: Conform | None = None,
        *,
        table: TableConvertor | None = None,
        selectable_fields: frozenset[str] = frozenset(),
        objects: ResourceObjects | None = None,
    ) -> Endpoint:
        """One whose objects have a Go type. conform: for all but kind and metadata, which are checked here; by default it decodes
        by the type. It raises BadRequest for a field of the wrong type.
        """
        whole = of_kind(type_name.rpartition(".")[2], conform or conformer(type_name))
        return cls(rest, whole, table or TableConvertor(()), selectable_fields, objects, typed=True, type_name=type_name)


@dataclass(frozen=True, slots=True)
class ResourceScope:
    """One resource or subresource in one version, as handlers see it. Not described here: see `Endpoint`.

    info: the resource in the path.
    kind, object_version: of the objects in bodies and responses: autoscaling/v1 Scale for `/scale`, else the resource's own.
    verbs: the allowed ones, by the names that discovery lists.
    deprecation: text of the Warning header for requests of this version; '' if it is not deprecated.
    built_in: whether upstream registers routes for this resource, by method and path. Then requests without a route, such as
        HEAD, get 405 with upstream's text.
    in_use: entered for each request; None for a resource that is never removed.
    """

    info: ResourceInfo
    subresource: str
    kind: str
    object_version: str
    rest: object
    conform: Conform
    table: TableConvertor
    admission: Chain
    verbs: frozenset[str]
    selectable_fields: frozenset[str]
    deprecation: str
    typed: bool
    built_in: bool
    objects: ResourceObjects | None
    type_name: str
    in_use: AbstractContextManager[None] | None
    connects: bool

    @property
    def admitted(self) -> ResourceObjects:
        """`objects`, or those of the only version."""
        return self.objects or OneVersion(self.conform, self.type_name)


class Served:
    """One resource in one version.

    published: what OpenAPI tells of it. listed: what discovery tells, with the subresources that are served, if that is not the
        same.
    endpoint: ('' or a subresource that discovery lists) -> what answers there, asked at the first request for each. None if
        nothing does, as for a metric, which is only below its resource.
    admission: what its writes pass through. deprecation, in_use: see `ResourceScope`.
    in_storage: whether the objects, if there are any, are in the server's storage, where its controllers read them.
    """

    def __init__(
        self,
        published: Published,
        endpoint: Callable[[str], Endpoint | None],
        admission: Chain,
        *,
        listed: APIResource | None = None,
        deprecation: str = "",
        in_use: AbstractContextManager[None] | None = None,
        in_storage: bool = True,
    ) -> None:
        self.published = published
        self.resource = listed or published.resource
        self.in_storage = in_storage
        self._endpoint = endpoint
        self._admission = admission
        self._deprecation = deprecation
        self._in_use = in_use
        self._scopes: dict[str, ResourceScope | None] = {}

    @property
    def info(self) -> ResourceInfo:
        return self.resource.info

    @property
    def built_in(self) -> bool:
        """As `ResourceScope.built_in`, without compiling anything: the kinds with a Go type are upstream's own."""
        return bool(self.published.type_name)

    def scope(self, subresource: str) -> ResourceScope | None:
        """The scope of the resource ('') or of a subresource, made once and kept; None if there is no such subresource."""
        if subresource not in self._scopes:
            scope = self._made(subresource)
            if scope is None:
                return None  # whatever clients ask for is not kept
            self._scopes[subresource] = scope
        return self._scopes[subresource]

    def _made(self, subresource: str) -> ResourceScope | None:
        info, resource = self.info, self.resource
        kind, object_version, verbs = info.kind, info.api_version, resource.verbs
        if subresource:
            below = next((each for each in resource.subresources if each.name == subresource), None)
            if below is None:
                return None
            kind, verbs = below.kind, below.verbs
            if below.version:
                object_version = versions.api_version(below.group, below.version)
        endpoint = self._endpoint(subresource)
        if endpoint is None:
            return None
        return ResourceScope(
            info=info,
            subresource=subresource,
            kind=kind,
            object_version=object_version,
            rest=endpoint.rest,
            conform=endpoint.conform,
            table=endpoint.table,
            admission=self._admission.of(info.group, info.resource),
            verbs=frozenset(verbs if endpoint.verbs is None else endpoint.verbs),
            selectable_fields=endpoint.selectable_fields,
            deprecation=self._deprecation,
            typed=endpoint.typed,
            built_in=self.built_in,
            objects=endpoint.objects,
            type_name=endpoint.type_name,
            in_use=self._in_use,
            connects=endpoint.connects,
        )


def of_kind(kind: str, conform: Conform) -> Conform:
    """`conform` after the steps of upstream's typed decoder that are the same for every kind: a function for whole objects.

    It rejects another kind with 400, and prunes unknown fields of metadata.
    """

    def conform_whole(obj: JSONObject) -> list[str]:
        given = obj.get("kind")
        if given != kind:
            raise errors.bad_request(f"{given} in version {quote(str(obj.get('apiVersion')))} cannot be handled as a {kind}")
        return prune_object_meta(obj["metadata"]) + conform(obj)

    return conform_whole
