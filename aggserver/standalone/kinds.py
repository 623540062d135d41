"""The kinds that a server without a cluster serves beside definitions: namespaces and self reviews."""

from __future__ import annotations

from collections.abc import Callable, Collection

from aggserver.admission.chain import Chain
from aggserver.authorization.delegating import Authorizer
from aggserver.endpoints.fixed import FixedResource, Subresource
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.publish.table import Column, TableConvertor
from aggserver.registry.store import Store
from aggserver.registry.strategy import ResourceInfo
from aggserver.registry.subresources import StatusStore
from aggserver.standalone import namespaces
from aggserver.standalone.reviews import SelfSubjectAccessReviews, SelfSubjectReviews, SelfSubjectRulesReviews

__all__ = ["namespace_kind", "review_kinds"]

# As in kube-apiserver: namespaces have no deletecollection.
_NAMESPACE_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
_NAMESPACE_COLUMNS = (
    Column("Status", "string", ".status.phase", "The status of the namespace"),
    Column("Age", "date", ".metadata.creationTimestamp", "When the namespace was created."),
)


def namespace_kind(store: Store, admission: Chain) -> FixedResource:
    return FixedResource(
        namespaces.INFO,
        store,
        admission,
        singular="namespace",
        verbs=_NAMESPACE_VERBS,
        table=TableConvertor(_NAMESPACE_COLUMNS),
        subresources={
            "finalize": Subresource(StatusStore(store.with_strategy(namespaces.NamespaceFinalizeStrategy())), ("update",)),
            "status": Subresource(StatusStore(store.with_strategy(namespaces.NamespaceStatusStrategy()))),
        },
        short_names=("ns",),
        conform=_conform_namespace,
    )


def review_kinds(authorizer: Authorizer, admission: Chain, clock: Callable[[], float]) -> list[FixedResource]:
    """clock: seconds since the epoch."""
    kinds: list[tuple[str, str, object]] = [
        ("authentication.k8s.io", "SelfSubjectReview", SelfSubjectReviews(clock)),
        ("authorization.k8s.io", "SelfSubjectAccessReview", SelfSubjectAccessReviews(authorizer)),
        ("authorization.k8s.io", "SelfSubjectRulesReview", SelfSubjectRulesReviews()),
    ]
    resources = []
    for group, kind, rest in kinds:
        info = ResourceInfo(group, "v1", f"{kind.lower()}s", kind, "", namespaced=False)
        table = TableConvertor([])
        resources.append(
            FixedResource(info, rest, admission, singular=kind.lower(), verbs=("create",), table=table, conform=_conform_review)
        )
    return resources


def _conform_namespace(obj: JSONObject) -> list[str]:
    finalizers = _part(obj, "spec").get("finalizers")
    if finalizers is not None and not (isinstance(finalizers, list) and all(isinstance(name, str) for name in finalizers)):
        raise errors.bad_request("Namespace.spec.finalizers must be a list of strings")
    return [
        *_only(obj, ("spec", "status"), ""),
        *_only(_part(obj, "spec"), ("finalizers",), "spec."),
        *_only(_part(obj, "status"), ("phase", "conditions"), "status."),
    ]


def _conform_review(obj: JSONObject) -> list[str]:
    _part(obj, "spec")
    return _only(obj, ("spec", "status"), "")


def _part(obj: JSONObject, key: str) -> JSONObject:
    part = obj.get(key)
    if part is not None and not isinstance(part, dict):
        raise errors.bad_request(f"{obj['kind']}.{key} must be an object")
    return part or {}


def _only(part: JSONObject, known: Collection[str], prefix: str) -> list[str]:
    """Drop unknown members; return their paths."""
    unknown = sorted(part.keys() - {*known, "apiVersion", "kind", "metadata"})
    for key in unknown:
        del part[key]
    return [prefix + key for key in unknown]
