"""Definition: one CustomResourceDefinition in the form that the server uses.

`parse` converts a CRD manifest (apiextensions.k8s.io/v1, as a dict) to a frozen dataclass, so that serving never reads manifests.
It sets upstream's defaults, and refuses a definition that can't be served, with all errors and their fields. `validation.py` has
the stricter rules for writes.

Pure. Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/{types,defaults}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aggserver.apiextensions import manifest, validation
from aggserver.apiextensions.manifest import member
from aggserver.apiextensions.schema_rules import is_structural
from aggserver.meta.field import FieldError
from aggserver.publish.table import Column
from aggserver.registry.custom_resource import ScalePaths

__all__ = [
    "Conversion",
    "Definition",
    "DefinitionError",
    "Names",
    "Version",
    "WebhookClient",
    "parse",
    "with_structure",
]


class DefinitionError(Exception):
    """A manifest that can't be served. `errors` has all errors, at least one."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)


@dataclass(frozen=True, slots=True)
class Names:
    plural: str
    singular: str
    kind: str
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Version:
    """One of spec.versions. schema: openAPIV3Schema as written; empty if there is none.

    structural: whether the schema is; one that is not is used as it is, but published as a bare object (`with_structure`).
    """

    name: str
    served: bool
    storage: bool
    schema: Mapping[str, Any] = field(default_factory=dict)
    status_subresource: bool = False
    scale: ScalePaths | None = None
    columns: tuple[Column, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    deprecated: bool = False
    deprecation_warning: str = ""
    structural: bool = True


@dataclass(frozen=True, slots=True)
class WebhookClient:
    """The address of a conversion webhook: a URL or a service. ca_bundle: base64 as written, and may be invalid."""

    url: str = ""
    service_namespace: str = ""
    service_name: str = ""
    service_path: str = ""
    service_port: int = 443
    ca_bundle: str = ""


@dataclass(frozen=True, slots=True)
class Conversion:
    """webhook: None for the strategy None, which changes only apiVersion."""

    webhook: WebhookClient | None = None
    review_versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Definition:
    """versions: in the manifest's order, with unique names; exactly one has `storage`.

    preserve_unknown_fields: nothing is pruned; only definitions from before v1 can have it.
    """

    name: str
    group: str
    names: Names
    namespaced: bool
    versions: tuple[Version, ...]
    conversion: Conversion = Conversion()
    preserve_unknown_fields: bool = False

    @property
    def storage_version(self) -> Version:
        return next(version for version in self.versions if version.storage)


def parse(crd: Mapping[str, Any]) -> Definition:
    """Parse a manifest, which may be of any shape. Raises DefinitionError with all errors that keep it from being served.

    Other rules are not checked, since a cluster may have accepted the definition before they existed.
    """
    errors = manifest.problems(crd) or validation.essentials(crd)
    if errors:
        raise DefinitionError(errors)
    spec = crd["spec"]
    names = _names(spec["names"])
    return Definition(
        name=f"{names.plural}.{spec['group']}",
        group=spec["group"],
        names=names,
        namespaced=spec["scope"] == "Namespaced",
        versions=tuple(map(_version, spec["versions"])),
        conversion=_conversion(member(spec, "conversion", {})),
        preserve_unknown_fields=member(spec, "preserveUnknownFields", False),
    )


def with_structure(definition: Definition) -> Definition:
    """The definition with `structural` set for each version. Only definitions from before v1 can have non-structural schemas.

    It takes milliseconds for each schema, so call it only if the condition NonStructuralSchema is set.
    """
    marked = (replace(version, structural=is_structural(version.schema)) for version in definition.versions)
    return replace(definition, versions=tuple(marked))


def _names(names: Mapping[str, Any]) -> Names:
    filled = manifest.default_names(names)
    return Names(
        plural=filled["plural"],
        singular=filled["singular"],
        kind=filled["kind"],
        list_kind=filled["listKind"],
        short_names=tuple(filled.get("shortNames", ())),
        categories=tuple(filled.get("categories", ())),
    )


def _version(version: Mapping[str, Any]) -> Version:
    subresources = member(version, "subresources", {})
    scale = subresources.get("scale")
    return Version(
        name=version["name"],
        served=member(version, "served", False),
        storage=member(version, "storage", False),
        schema=member(member(version, "schema", {}), "openAPIV3Schema", {}),
        status_subresource=subresources.get("status") is not None,
        scale=None if scale is None else _scale(scale),
        columns=tuple(map(_column, member(version, "additionalPrinterColumns", []))),
        selectable_fields=tuple(member(entry, "jsonPath", "") for entry in member(version, "selectableFields", [])),
        deprecated=member(version, "deprecated", False),
        deprecation_warning=member(version, "deprecationWarning", ""),
    )


def _scale(scale: Mapping[str, Any]) -> ScalePaths:
    return ScalePaths(
        member(scale, "specReplicasPath", ""), member(scale, "statusReplicasPath", ""), member(scale, "labelSelectorPath", "")
    )


def _column(column: Mapping[str, Any]) -> Column:
    return Column(
        name=member(column, "name", ""),
        type=member(column, "type", ""),
        json_path=member(column, "jsonPath", ""),
        description=member(column, "description", ""),
        format=member(column, "format", ""),
        priority=member(column, "priority", 0),
    )


def _conversion(conversion: Mapping[str, Any]) -> Conversion:
    if conversion.get("strategy") != "Webhook":
        return Conversion()
    webhook = member(conversion, "webhook", {})
    config = member(webhook, "clientConfig", {})
    service = member(config, "service", {})
    client = WebhookClient(
        url=member(config, "url", ""),
        service_namespace=member(service, "namespace", ""),
        service_name=member(service, "name", ""),
        service_path=member(service, "path", ""),
        service_port=member(service, "port", 443),
        ca_bundle=member(config, "caBundle", ""),
    )
    return Conversion(client, tuple(member(webhook, "conversionReviewVersions", [])))
