"""ResourceScope: what handlers need to serve a resource or subresource in one version. Installer: all resources that are served.

A resource is installed as a `Served`. Its ResourceScope, which needs compiled schemas, is made at the first use, so that hundreds
of definitions cost little. `apiextensions/` and `standalone/` install resources; dispatch, discovery and OpenAPI read them. Each
change replaces the mapping as a whole, and `generation` counts the changes, so that caches of derived values can be renewed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from aggserver.admission.chain import Chain, OneVersion, ResourceObjects
from aggserver.meta import versions
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.discovery import APIGroup, APIGroupVersion, APIResource
from aggserver.publish.models import Published
from aggserver.publish.table import TableConvertor

__all__ = ["Installer", "ResourceScope", "Served"]


@dataclass(frozen=True, slots=True)
class ResourceScope:
    """One resource or subresource in one version, as handlers see it.

    info: the resource in the path.
    kind, object_version: of the objects in bodies and responses: autoscaling/v1 Scale for `/scale`, else the resource's own.
    rest: the implementation, an object with the protocols of `registry/rest.py` that its verbs need.
    verbs: the allowed ones, by the names that discovery lists.
    conform: prunes and defaults a decoded body in place; returns the paths of pruned fields, for fieldValidation. Raises
        schema.pruning.MalformedError.
    selectable_fields: names that field selectors may use, besides metadata.name and metadata.namespace.
    deprecation: text of the Warning header for requests of this version; '' if it is not deprecated.
    typed: whether upstream has a Go type for this kind. Then kind and apiVersion may be missing in a body, and lists omit an
        empty `continue`; with custom resources it is the other way round.
    type_name: the Go type of the objects, in the tables of `scheme/`, which strategic merge patches need; '' if there is none.
    built_in: whether upstream registers routes for this resource, by method and path. Then requests without a route, such as
        HEAD, get 405 with upstream's text.
    objects: its versions, for admission; None if it has one version and no defaults but those of `conform`.
    in_use: entered for each request; None for a resource that is never removed.
    connects: whether this is a subresource that is no object: its `rest` is a Connecter.
    """

    info: ResourceInfo
    subresource: str
    kind: str
    object_version: str
    rest: object
    conform: Callable[[JSONObject], list[str]]
    table: TableConvertor
    admission: Chain
    verbs: frozenset[str]
    selectable_fields: frozenset[str] = frozenset()
    deprecation: str = ""
    typed: bool = False
    built_in: bool = False
    objects: ResourceObjects | None = None
    type_name: str = ""
    in_use: AbstractContextManager[None] | None = None
    connects: bool = False

    @property
    def admitted(self) -> ResourceObjects:
        """`objects`, or those of the only version."""
        return self.objects or OneVersion(self.conform, self.type_name)

    @classmethod
    def of(
        cls,
        info: ResourceInfo,
        subresource: str,
        rest: object,
        *,
        conform: Callable[[JSONObject], list[str]],
        table: TableConvertor,
        admission: Chain,
        verbs: Iterable[str],
        selectable_fields: frozenset[str] = frozenset(),
        deprecation: str = "",
        typed: bool = False,
        built_in: bool = False,
        objects: ResourceObjects | None = None,
        type_name: str = "",
        in_use: AbstractContextManager[None] | None = None,
        connects: bool = False,
    ) -> ResourceScope:
        """A scope whose objects are of the resource's own kind."""
        return cls(
            info=info,
            subresource=subresource,
            kind=info.kind,
            object_version=info.api_version,
            rest=rest,
            conform=conform,
            table=table,
            admission=admission,
            verbs=frozenset(verbs),
            selectable_fields=selectable_fields,
            deprecation=deprecation,
            typed=typed,
            built_in=built_in,
            objects=objects,
            type_name=type_name,
            in_use=in_use,
            connects=connects,
        )


class Served(Protocol):
    """One installed resource of one group-version. Nothing is compiled until `scope` is called."""

    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def resource(self) -> APIResource: ...
    @property
    def namespaced(self) -> bool: ...
    @property
    def built_in(self) -> bool:
        """As `ResourceScope.built_in`, without compiling anything."""

    @property
    def in_storage(self) -> bool:
        """Whether the objects, if there are any, are in the server's storage, where its controllers read them."""

    def published(self) -> Published:
        """The resource for OpenAPI."""

    def scope(self, subresource: str) -> ResourceScope | None:
        """The scope of the resource ('') or of a subresource, compiled once and kept; None if there is no such subresource."""


@dataclass(frozen=True, slots=True)
class _Mapping:
    by_path: dict[tuple[str, str, str], Served] = field(default_factory=dict)
    groups: tuple[APIGroup, ...] = ()
    by_group_version: Mapping[tuple[str, str], Sequence[Served]] = field(default_factory=dict)
    built_in: frozenset[str] = frozenset()


class Installer:
    """All resources that are served. Each belongs to an owner: a definition (by its name), or one of the sets of own kinds."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[Served, ...]] = {}
        self._mapping = _Mapping()
        self._listeners: list[Callable[[], None]] = []
        self._adopted: dict[tuple[str, str], str] = {}
        self.generation = 0

    def install(self, changes: Iterable[tuple[str, Sequence[Served]]]) -> None:
        """Replace the resources of each owner, all in one change. An empty sequence withdraws them."""
        for owner, served in changes:
            if served:
                self._owners[owner] = tuple(served)
            else:
                self._owners.pop(owner, None)
        self._mapping = self._built()
        self.generation += 1
        for listener in self._listeners:
            listener()

    def mark_adopted(self, group_versions: Iterable[tuple[str, str]], installation: str) -> None:
        """Set the id of the installation that has adopted these (group, version) from the host; '' after they were released."""
        for each in group_versions:
            if installation:
                self._adopted[each] = installation
            else:
                self._adopted.pop(each, None)

    def adopted_by(self, group: str, version: str) -> str:
        """The id of the installation that has adopted a group-version; '' if it is not adopted."""
        return self._adopted.get((group, version), "")

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def find(self, group: str, version: str, resource: str) -> Served | None:
        return self._mapping.by_path.get((group, version, resource))

    def serves(self, group: str, version: str) -> bool:
        """Whether there is any resource of this group-version."""
        return (group, version) in self._mapping.by_group_version

    def everything(self) -> Iterable[Served]:
        return self._mapping.by_path.values()

    def groups(self) -> Sequence[APIGroup]:
        """For discovery: groups in the order of their owners' installation, versions in the order of preference."""
        return self._mapping.groups

    def built_in(self, group: str) -> bool:
        """Whether this group has a built-in resource. Then upstream has a router for all paths below it, which sends a Status."""
        return group in self._mapping.built_in

    def published(self, group: str, version: str) -> Sequence[Published]:
        return [served.published() for served in self._mapping.by_group_version.get((group, version), ())]

    def _built(self) -> _Mapping:
        by_path: dict[tuple[str, str, str], Served] = {}
        resources: dict[str, dict[str, list[APIResource]]] = {}
        for owner in self._owners.values():
            for served in owner:
                by_path[served.group, served.version, served.resource.name] = served
                resources.setdefault(served.group, {}).setdefault(served.version, []).append(served.resource)
        groups = []
        for group, by_version in resources.items():
            ordered = sorted(by_version, key=versions.sort_key)
            groups.append(APIGroup(group, tuple(APIGroupVersion(group, name, tuple(by_version[name])) for name in ordered)))
        built_in = frozenset(served.group for served in by_path.values() if served.built_in)
        by_group_version: dict[tuple[str, str], list[Served]] = {}
        for served in by_path.values():
            by_group_version.setdefault((served.group, served.version), []).append(served)
        return _Mapping(by_path, tuple(groups), by_group_version, built_in)
