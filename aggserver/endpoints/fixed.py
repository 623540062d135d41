"""FixedResource: a `Served` for one of the server's own kinds (definitions, namespaces, reviews).

Like `ServedVersion` for a definition; its verbs, table and decoding are arguments, since it has no definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aggserver.admission.chain import Chain
from aggserver.endpoints.installer import ResourceScope
from aggserver.meta import errors
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish import discovery
from aggserver.publish.discovery import APIResource, APISubresource
from aggserver.publish.models import Published
from aggserver.publish.table import TableConvertor
from aggserver.schema.object_meta import prune_object_meta

__all__ = ["FixedResource", "Subresource", "of_kind"]


@dataclass(frozen=True, slots=True)
class Subresource:
    """rest: its implementation, with the protocols of `registry/rest.py` that its verbs need."""

    rest: object
    verbs: tuple[str, ...] = discovery.SUBRESOURCE_VERBS


class FixedResource:
    """rest: its implementation, with the protocols of `registry/rest.py` that its verbs need. verbs: listed by discovery and
    dispatched. subresources: by name; their objects are of the same kind.

    conform: prunes and defaults a decoded body, except for kind and metadata, which are checked here; returns the paths of pruned
    fields. Raises BadRequest for a field of the wrong type. type_name: see `ResourceScope`.
    """

    def __init__(
        self,
        info: ResourceInfo,
        rest: object,
        admission: Chain,
        *,
        singular: str,
        verbs: tuple[str, ...],
        table: TableConvertor,
        subresources: Mapping[str, Subresource] | None = None,
        short_names: tuple[str, ...] = (),
        categories: tuple[str, ...] = (),
        selectable_fields: frozenset[str] = frozenset(),
        conform: Callable[[JSONObject], list[str]],
        type_name: str = "",
    ) -> None:
        self._info = info
        self._type_name = type_name
        whole = of_kind(info.kind, conform)
        below = dict(sorted((subresources or {}).items()))
        self._scopes = {
            name: ResourceScope.of(
                info,
                name,
                part.rest,
                conform=whole,
                table=table,
                admission=admission,
                verbs=part.verbs,
                selectable_fields=selectable_fields,
                typed=True,
                built_in=True,
                type_name=type_name,
            )
            for name, part in ({"": Subresource(rest, verbs)} | below).items()
        }
        stored = "list" in verbs
        self._resource = APIResource(
            name=info.resource,
            singular=singular,
            namespaced=info.namespaced,
            kind=info.kind,
            list_kind=info.list_kind,
            verbs=verbs,
            short_names=short_names,
            categories=categories,
            storage_version_hash=discovery.storage_version_hash(info.group, info.version, info.kind) if stored else "",
            subresources=tuple(APISubresource(name, info.kind, part.verbs) for name, part in below.items()),
        )

    @property
    def group(self) -> str:
        return self._info.group

    @property
    def version(self) -> str:
        return self._info.version

    @property
    def namespaced(self) -> bool:
        return self._info.namespaced

    @property
    def built_in(self) -> bool:
        return True

    @property
    def in_storage(self) -> bool:
        return True

    @property
    def resource(self) -> APIResource:
        return self._resource

    def published(self) -> Published:
        info = self._info
        return Published(
            group=info.group,
            version=info.version,
            kind=info.kind,
            list_kind=info.list_kind,
            plural=info.resource,
            namespaced=info.namespaced,
            verbs=self._resource.verbs,
            schema={},
            status="status" in self._scopes,
            finalize="finalize" in self._scopes,
            type_name=self._type_name,
        )

    def scope(self, subresource: str) -> ResourceScope | None:
        return self._scopes.get(subresource)


def of_kind(kind: str, conform: Callable[[JSONObject], list[str]]) -> Callable[[JSONObject], list[str]]:
    """`conform` after the steps of upstream's typed decoder that are the same for every kind: a function for whole objects.

    It rejects another kind with 400, and prunes unknown fields of metadata.
    """

    def conform_whole(obj: JSONObject) -> list[str]:
        given = obj.get("kind")
        if given != kind:
            raise errors.bad_request(f"{given} in version {quote(str(obj.get('apiVersion')))} cannot be handled as a {kind}")
        return prune_object_meta(obj["metadata"]) + conform(obj)

    return conform_whole
