"""The resource `customresourcedefinitions`, as the server's own API serves it.

Source: k8s.io/apiextensions-apiserver pkg/registry/customresourcedefinition/etcd.go, v0.36.3.
"""

from __future__ import annotations

from aggserver.admission.chain import Chain
from aggserver.apiextensions.strategy import INFO, DefinitionStatusStrategy
from aggserver.endpoints.served import Endpoint, Served
from aggserver.publish import discovery
from aggserver.publish.discovery import APIResource, APISubresource
from aggserver.publish.models import Published
from aggserver.publish.table import Column, TableConvertor
from aggserver.registry.store import Store
from aggserver.registry.subresources import StatusStore

__all__ = ["definition_kind"]

_TYPE = "apiextensions/v1.CustomResourceDefinition"
_RESOURCE = APIResource(
    INFO,
    discovery.CUSTOM_RESOURCE_VERBS,
    singular="customresourcedefinition",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    storage_version_hash=discovery.storage_version_hash(INFO.group, INFO.version, INFO.kind),
    subresources=(APISubresource("status", INFO.kind, discovery.SUBRESOURCE_VERBS),),
)
# kube-apiserver's default table, which shows the creation time instead of an age.
_TABLE = TableConvertor([Column("Created At", "string", ".metadata.creationTimestamp", "When the definition was created.")])


def definition_kind(crds: Store, admission: Chain) -> Served:
    rests = {"": crds, "status": StatusStore(crds.with_strategy(DefinitionStatusStrategy()))}
    endpoints = {name: Endpoint.of_type(_TYPE, rest, crds.strategy.conform, table=_TABLE) for name, rest in rests.items()}
    return Served(Published(_RESOURCE, type_name=_TYPE), endpoints.get, admission)
