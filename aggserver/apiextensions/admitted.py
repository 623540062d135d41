"""DefinitionObjects: the versions of a definition, as admission needs them.

Webhooks and policies may ask for another version than the request's. An object that one of them changed gets the defaults of its
version before the next one gets it. It is pruned only after all of them, by the registry.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go (equivalentResourceRegistry,
unstructuredDefaulter), pkg/apiserver/conversion/converter.go (crConverter), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aggserver.admission.chain import Target
from aggserver.apiextensions.definition import Definition, Version
from aggserver.conversion.converter import Converter
from aggserver.merge.atom import Atom
from aggserver.merge.go_types import of_type
from aggserver.meta import codec, errors, versions
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.schema.compiled import CompiledSchema
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.types import lookup

__all__ = ["DefinitionObjects", "ScaleObjects"]

_SCALE_VERSION = "autoscaling/v1"
_SCALE = lookup(f"{_SCALE_VERSION}.Scale")


class DefinitionObjects:
    """`admission.chain.ResourceObjects` of a resource and of its status. atom: apiVersion -> the type of its objects."""

    def __init__(
        self,
        definition: Definition,
        converter: Callable[[], Converter],
        schema: Callable[[Version], CompiledSchema],
        atom: Callable[[str], Atom],
    ) -> None:
        self._definition = definition
        self._converter = converter
        self._schema = schema
        self._atom = atom

    def equivalents(self, subresource: str) -> Sequence[Target]:
        names = self._definition.names
        found = []
        for version in self._definition.versions:
            api_version, kind = f"{self._definition.group}/{version.name}", names.kind
            if subresource == "scale":
                api_version, kind = "autoscaling/v1", "Scale"
            if _has(version, subresource):
                found.append(Target(self._definition.group, version.name, names.plural, api_version, kind))
        return found

    async def convert(self, obj: JSONObject, api_version: str) -> JSONObject:
        given = str(obj.get("apiVersion") or "")
        group, version = versions.parse_group_version(given)
        if group != self._definition.group:
            what = f"{group}/{version}, Kind={obj.get('kind')}"
            text = f"{what} is unstructured and is not suitable for converting to {quote(api_version)}"
            raise errors.StatusError(500, "", text)
        if self._version(version) is None:
            raise errors.StatusError(500, "", f"request to convert CR from an invalid group/version: {given}")
        if given == api_version:
            return obj
        (converted,) = await self._converter().convert([codec.decode_stored(codec.encode_json(obj))], api_version)
        return converted

    def type_of(self, target: Target) -> Atom:
        return self._atom(target.api_version)

    def accept(self, obj: JSONObject) -> None:
        group, version = versions.parse_group_version(str(obj.get("apiVersion") or ""))
        known = self._version(version)
        if known is not None and (group, obj.get("kind")) == (self._definition.group, self._definition.names.kind):
            self._schema(known).default(obj)

    def accept_of_policy(self, obj: JSONObject, api_version: str) -> None:
        self.accept(obj)

    def _version(self, name: str) -> Version | None:
        return next((version for version in self._definition.versions if version.name == name), None)


class ScaleObjects:
    """`admission.chain.ResourceObjects` of a scale, which is the same in all versions. conform: prunes it in place; raises
    ValueError.

    Like upstream, it does not decode what webhooks make of a Scale before the last one was called.
    """

    def __init__(self, definition: DefinitionObjects, conform: Callable[[JSONObject], object]) -> None:
        self._definition = definition
        self._conform = conform

    def equivalents(self, subresource: str) -> Sequence[Target]:
        return self._definition.equivalents(subresource)

    async def convert(self, obj: JSONObject, api_version: str) -> JSONObject:
        try:
            self._conform(obj)
        except ValueError as error:
            raise errors.StatusError(500, "", f'{error} in scheme "pkg/runtime/scheme.go:111"') from None
        if decode_error(obj, _SCALE):
            text = "unable to convert unstructured object to autoscaling/v1, Kind=Scale: unrecognized type: int32"
            raise errors.StatusError(500, "", text)
        return obj

    def type_of(self, target: Target) -> Atom:
        return of_type("autoscaling/v1.Scale")

    def accept(self, obj: JSONObject) -> None:
        return

    def accept_of_policy(self, obj: JSONObject, api_version: str) -> None:
        """Refuses every change by a policy: upstream fails to convert the changed Scale back."""
        raise ValueError(f"request to convert CR to an invalid group/version: {_SCALE_VERSION}")


def _has(version: Version, subresource: str) -> bool:
    if subresource == "status":
        return version.status_subresource
    return subresource != "scale" or version.scale is not None
