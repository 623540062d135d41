"""Definition: one CustomResourceDefinition as the server uses it.

`parse` takes a CRD manifest (apiextensions.k8s.io/v1, as a dict) and gives the one frozen dataclass that everything else works
on; who serves doesn't look into a manifest. It fills in upstream's defaults and refuses what can't be served, with every error
and its field. What must not be written is a longer list, and `validation.py`'s.
Pure. Callers: `apiextensions/` (files, the CRD API), which turn a Definition into resources (`apiextensions/serving.py`).
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/{types,defaults}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aggserver.apiextensions import manifest, validation
from aggserver.apiextensions.manifest import member
from aggserver.apiextensions.schema_rules import is_structural
from aggserver.meta import versions
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
    "served_versions",
    "with_structure",
]


class DefinitionError(Exception):
    """A manifest that can't be served. `errors` are all that is wrong with it; they are never none."""

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
    """One of spec.versions. `schema` is openAPIV3Schema, untouched; empty where none is given.

    structural: whether the schema is; one that is not serves as it is, and is published as a bare object (`with_structure`).
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
    """Where a conversion webhook is: a URL, or else a service. `ca_bundle` is base64 as written, and may be no certificate."""

    url: str = ""
    service_namespace: str = ""
    service_name: str = ""
    service_path: str = ""
    service_port: int = 443
    ca_bundle: str = ""


@dataclass(frozen=True, slots=True)
class Conversion:
    """`webhook` is None for the strategy None, under which versions differ in nothing but apiVersion."""

    webhook: WebhookClient | None = None
    review_versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Definition:
    """`versions` in the manifest's order, names unique; exactly one has `storage`.

    preserve_unknown_fields: only definitions from before v1 have it; nothing is pruned then.
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


def served_versions(definition: Definition) -> list[Version]:
    """The served ones, the preferred version first."""
    served = [version for version in definition.versions if version.served]
    return sorted(served, key=lambda version: versions.sort_key(version.name))


def parse(crd: Mapping[str, Any]) -> Definition:
    """The definition of a manifest of whatever shape. Raises DefinitionError with everything that keeps it from being served.

    Other rules are not held against it: a definition that a cluster has accepted may be older than they are.
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
    """Tells which versions have a schema that is not structural: of a definition that was stored before they had to be.

    Takes milliseconds for a schema: ask only where the condition NonStructuralSchema says that there are such.
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
