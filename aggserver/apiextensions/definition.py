"""Definition: one CustomResourceDefinition in the form that the server uses.

`parse` converts a CRD manifest (apiextensions.k8s.io/v1, as a dict) to a frozen dataclass, so that serving never reads manifests.
It sets upstream's defaults, and refuses a definition that can't be served, with all errors and their fields. `validation.py` has
the stricter rules for writes.

Pure. Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/{types,defaults}.go, v0.36.3.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from aggserver.apiextensions import manifest, validation
from aggserver.apiextensions.conversion_annotation import rules_text
from aggserver.apiextensions.schema_rules import is_structural
from aggserver.errors import AggserverError
from aggserver.meta.field import FieldError
from aggserver.meta.json_types import JSONMapping
from aggserver.publish.table import Column
from aggserver.registry.custom_resource import ScalePaths
from aggserver.schema import structural
from aggserver.scheme import form
from aggserver.webhook.config import ClientConfig, ServiceReference

__all__ = [
    "ConversionSettings",
    "Definition",
    "DefinitionError",
    "Names",
    "Version",
    "WebhookClient",
    "client_config",
    "parse",
    "with_structure",
]

_SPEC = manifest.TYPE.members["spec"].type
# The default port of a webhook's service.
_WEBHOOK_PORT = 443


class DefinitionError(AggserverError):
    """A definition can't be served. `errors` has all errors, at least one."""

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

    structural: whether the schema is. A non-structural one is used as it is, but published as a bare object (`with_structure`).
    """

    name: str
    served: bool
    storage: bool
    schema: JSONMapping = field(default_factory=dict)
    status_subresource: bool = False
    scale: ScalePaths | None = None
    columns: tuple[Column, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    deprecated: bool = False
    deprecation_warning: str = ""
    structural: bool = True


@dataclass(frozen=True, slots=True)
class WebhookClient:
    """The address of a conversion webhook: a URL or a service. ca_bundle: base64 as written, which may be invalid."""

    url: str = ""
    service_namespace: str = ""
    service_name: str = ""
    service_path: str = ""
    service_port: int = _WEBHOOK_PORT
    ca_bundle: str = ""


@dataclass(frozen=True, slots=True)
class ConversionSettings:
    """How objects are converted. webhook: None for the strategy None, which changes only apiVersion.

    rules: the text of the annotation with conversion rules, '' if there is none; rules take precedence over the webhook.
    """

    webhook: WebhookClient | None = None
    review_versions: tuple[str, ...] = ()
    rules: str = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition. versions: in the manifest's order, with unique names; exactly one has `storage`.

    preserve_unknown_fields: whether nothing is pruned; only in definitions from before v1.
    """

    name: str
    group: str
    names: Names
    namespaced: bool
    versions: tuple[Version, ...]
    conversion: ConversionSettings = ConversionSettings()
    preserve_unknown_fields: bool = False

    @property
    def storage_version(self) -> Version:
        return next(version for version in self.versions if version.storage)


def parse(crd: JSONMapping) -> Definition:
    """Parse a manifest, which may be of any shape. Raises DefinitionError with all errors for which it can't be served.

    Other rules are not checked, since a cluster may have accepted the definition before these rules existed.
    """
    errors = manifest.problems(crd) or validation.essentials(crd)
    if errors:
        raise DefinitionError(errors)
    spec = form.filled(crd["spec"], _SPEC, (structural.SCHEMA,))
    names = _names(spec["names"])
    return Definition(
        name=f"{names.plural}.{spec['group']}",
        group=spec["group"],
        names=names,
        namespaced=spec["scope"] == "Namespaced",
        versions=tuple(map(_version, spec["versions"])),
        conversion=_conversion(spec["conversion"], rules_text(crd)),
        preserve_unknown_fields=spec["preserveUnknownFields"],
    )


def client_config(client: WebhookClient) -> ClientConfig:
    """How to call a webhook. A CA bundle that is no base64 is passed on as it is, so that calls fail with the reason."""
    service = None
    if client.service_name:
        service = ServiceReference(client.service_namespace, client.service_name, client.service_path, client.service_port)
    try:
        bundle = base64.b64decode(client.ca_bundle, validate=True)
    except binascii.Error:
        bundle = client.ca_bundle.encode()
    return ClientConfig(client.url, service, bundle)


def with_structure(definition: Definition) -> Definition:
    """The definition with `structural` set for each version. Only definitions from before v1 can have non-structural schemas.

    It takes milliseconds for each schema, so call it only if the condition NonStructuralSchema is set.
    """
    marked = (replace(version, structural=is_structural(version.schema)) for version in definition.versions)
    return replace(definition, versions=tuple(marked))


# The following functions take structs as returned by `form.filled`; pointers may be None.


def _names(names: JSONMapping) -> Names:
    defaulted = manifest.default_names(names)
    return Names(
        plural=defaulted["plural"],
        singular=defaulted["singular"],
        kind=defaulted["kind"],
        list_kind=defaulted["listKind"],
        short_names=tuple(defaulted["shortNames"]),
        categories=tuple(defaulted["categories"]),
    )


def _version(version: JSONMapping) -> Version:
    validation, subresources = version["schema"] or {}, version["subresources"] or {}
    return Version(
        name=version["name"],
        served=version["served"],
        storage=version["storage"],
        schema=validation.get("openAPIV3Schema") or {},
        status_subresource=subresources.get("status") is not None,
        scale=_scale(subresources.get("scale")),
        columns=tuple(map(_column, version["additionalPrinterColumns"])),
        selectable_fields=tuple(each["jsonPath"] for each in version["selectableFields"]),
        deprecated=version["deprecated"],
        deprecation_warning=version["deprecationWarning"] or "",
    )


def _scale(scale: JSONMapping | None) -> ScalePaths | None:
    if scale is None:
        return None
    return ScalePaths(scale["specReplicasPath"], scale["statusReplicasPath"], scale["labelSelectorPath"] or "")


def _column(column: JSONMapping) -> Column:
    return Column(
        name=column["name"],
        type=column["type"],
        json_path=column["jsonPath"],
        description=column["description"],
        format=column["format"],
        priority=column["priority"],
    )


def _conversion(conversion: JSONMapping | None, rules: str) -> ConversionSettings:
    if conversion is None or conversion["strategy"] != "Webhook":
        return ConversionSettings(rules=rules)
    webhook = conversion["webhook"] or {}
    return ConversionSettings(
        _webhook_client(webhook.get("clientConfig") or {}), tuple(webhook.get("conversionReviewVersions", ())), rules
    )


def _webhook_client(config: JSONMapping) -> WebhookClient:
    service = config.get("service") or {}
    return WebhookClient(
        url=config.get("url") or "",
        service_namespace=service.get("namespace", ""),
        service_name=service.get("name", ""),
        service_path=service.get("path") or "",
        service_port=_WEBHOOK_PORT if service.get("port") is None else service["port"],
        ca_bundle=config.get("caBundle", ""),
    )
