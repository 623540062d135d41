"""The resource `customresourcedefinitions`, as the server's own API serves it.

Source: k8s.io/apiextensions-apiserver pkg/registry/customresourcedefinition/etcd.go, v0.36.3.
"""

from __future__ import annotations

from aggserver.admission.chain import Chain
from aggserver.apiextensions import manifest
from aggserver.apiextensions.strategy import INFO, DefinitionStatusStrategy, set_defaults
from aggserver.endpoints.fixed import FixedResource, Subresource
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.publish import discovery
from aggserver.publish.table import Column, TableConvertor
from aggserver.registry.store import Store
from aggserver.registry.subresources import StatusStore
from aggserver.scheme.decoding import decode_error

__all__ = ["definition_kind"]

# kube-apiserver's default table, which has the time itself instead of an age.
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
        conform=_conform,
    )


def _conform(obj: JSONObject) -> list[str]:
    """As upstream's decoder: members of a wrong type are refused, unknown ones dropped, and defaults set."""
    why = decode_error(obj, manifest.TYPE) or ", ".join(map(str, manifest.problems(obj)))
    if why:
        what = 'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition'
        raise errors.bad_request(f"{what}: {why}")
    dropped = manifest.prune(obj)
    set_defaults(obj)
    return dropped
