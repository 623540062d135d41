"""KindObjects: the versions of a built-in kind that is served in more than one, for admission.

Webhooks and policies with rules for one version are also called for requests in the others, with the objects converted: a rule
for autoscaling/v1 matches HorizontalPodAutoscalers of v2, one for Events of the core group those of events.k8s.io.
Source: k8s.io/apiserver pkg/server/config.go (EquivalentResourceRegistry: resources with the same storage prefix),
k8s.io/kubernetes pkg/kubeapiserver/default_storage_factory_builder.go (cohabitating resources), v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from aggserver.admission.chain import Target
from aggserver.conversion.converter import ComputedConverter
from aggserver.kinds.catalog import BuiltInKind
from aggserver.merge.atom import Atom
from aggserver.merge.go_types import of_type
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject, json_copy
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.types import lookup

__all__ = ["KindObjects"]


class KindObjects:
    """`admission.chain.ResourceObjects` of a resource and of its status.

    conforms: all versions of the kind, each with a function that prunes and defaults an object in place. Raises StatusError.
    """

    def __init__(self, conforms: Mapping[BuiltInKind, Callable[[JSONObject], object]], converter: ComputedConverter) -> None:
        self._kinds = {kind.api_version: kind for kind in conforms}
        self._conforms = {kind.api_version: conform for kind, conform in conforms.items()}
        self._converter = converter
        self._targets = [Target(kind.group, kind.version, kind.plural, kind.api_version, kind.name) for kind in conforms]

    def equivalents(self, subresource: str) -> Sequence[Target]:
        """The only subresource that such kinds have is `/status`, in all versions."""
        return self._targets

    async def convert(self, obj: JSONObject, api_version: str) -> JSONObject:
        if obj.get("apiVersion") == api_version:
            return obj
        return self._converter.at_once(json_copy(obj), api_version)

    def type_of(self, target: Target) -> Atom:
        return of_type(self._kinds[target.api_version].type_name)

    def accept(self, obj: JSONObject) -> None:
        kind = self._kinds.get(str(obj.get("apiVersion") or ""))
        if kind is None:
            return
        if why := decode_error(obj, lookup(kind.type_name)):
            raise ValueError(why)
        self._conforms[kind.api_version](obj)

    def accept_of_policy(self, obj: JSONObject, api_version: str) -> None:
        """Refuses an object in another version than the request's: upstream fails to convert it without its internal type."""
        kind, wanted = self._kinds.get(str(obj.get("apiVersion") or "")), self._kinds[api_version]
        if kind is not None and kind.group != wanted.group:
            where = f'to {quote(api_version)} in scheme "pkg/runtime/scheme.go:111"'
            raise ValueError(f"{kind.version}.{kind.name} is not suitable for converting {where}")
        if kind is not None and kind is not wanted:
            names = f"({kind.version}.{kind.name}) to ({wanted.version}.{wanted.name})"
            raise ValueError(f"converting {names}: unknown conversion")
        self.accept(obj)
