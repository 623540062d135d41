"""The resource `customresourcedefinitions`, as the server's own API serves it.

Source: k8s.io/apiextensions-apiserver pkg/registry/customresourcedefinition/etcd.go, v0.36.3.
"""

from __future__ import annotations

from aggserver.admission.chain import Chain
from aggserver.apiextensions.strategy import INFO, DefinitionStatusStrategy
from aggserver.endpoints.fixed import FixedResource, Subresource
from aggserver.publish import discovery
from aggserver.publish.table import Column, TableConvertor
from aggserver.registry.store import Store
from aggserver.registry.subresources import StatusStore

__all__ = ["definition_kind"]

# kube-apiserver's default table, which shows the creation time instead of an age.
_COLUMNS = (Column("Created At", "string", ".metadata.creationTimestamp", "When the definition was created."),)


def definition_kind(crds: Store, admission: Chain) -> FixedResource:
    return FixedResource(
        INFO,
        crds,
        admission,
        singular="customresourcedefinition",
        verbs=discovery.CUSTOM_RESOURCE_VERBS,
        table=TableConvertor(_COLUMNS),
        subresources={"status": Subresource(StatusStore(crds.with_strategy(DefinitionStatusStrategy())))},
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        conform=crds.strategy.conform,
        type_name="apiextensions/v1.CustomResourceDefinition",
    )
