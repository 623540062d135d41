"""The kinds that a server without a cluster serves beside definitions: namespaces and reviews."""

from __future__ import annotations

from collections.abc import Callable

from aggserver.admission.chain import Chain
from aggserver.authorization.delegating import Authorizer
from aggserver.authorization.standalone import RuleResolver
from aggserver.endpoints.served import Endpoint, Served
from aggserver.kinds import namespaces
from aggserver.publish import discovery
from aggserver.publish.discovery import APIResource, APISubresource
from aggserver.publish.models import Published
from aggserver.publish.table import Column, TableConvertor
from aggserver.registry.store import Store
from aggserver.registry.subresources import StatusStore
from aggserver.standalone.reviews import ACCESS_REVIEWS, AccessReviews, Review, SelfSubjectReviews, SelfSubjectRulesReviews

__all__ = ["namespace_kind", "review_kinds"]

_INFO = namespaces.INFO
_TYPE = "core/v1.Namespace"
_NAMESPACES = APIResource(
    _INFO,
    # As in kube-apiserver: namespaces have no deletecollection.
    ("create", "delete", "get", "list", "patch", "update", "watch"),
    singular="namespace",
    short_names=("ns",),
    storage_version_hash=discovery.storage_version_hash(_INFO.group, _INFO.version, _INFO.kind),
    subresources=(
        APISubresource("finalize", _INFO.kind, ("update",)),
        APISubresource("status", _INFO.kind, discovery.SUBRESOURCE_VERBS),
    ),
)
_TABLE = TableConvertor(
    [
        Column("Status", "string", ".status.phase", "The status of the namespace"),
        Column("Age", "date", ".metadata.creationTimestamp", "When the namespace was created."),
    ]
)


def namespace_kind(store: Store, admission: Chain) -> Served:
    rests = {
        "": store,
        "finalize": StatusStore(store.with_strategy(namespaces.NamespaceFinalizeStrategy())),
        "status": StatusStore(store.with_strategy(namespaces.NamespaceStatusStrategy())),
    }
    fields = frozenset({"status.phase"})
    endpoints = {
        name: Endpoint.of_type(_TYPE, rest, store.strategy.conform, table=_TABLE, selectable_fields=fields)
        for name, rest in rests.items()
    }
    return Served(Published(_NAMESPACES, type_name=_TYPE), endpoints.get, admission)


def review_kinds(authorizer: Authorizer, resolver: RuleResolver, admission: Chain, clock: Callable[[], float]) -> list[Served]:
    """The kinds of reviews. clock: seconds since the epoch."""
    reviews: list[Review] = [
        SelfSubjectReviews(clock),
        *(AccessReviews(kind, authorizer, clock) for kind in ACCESS_REVIEWS),
        SelfSubjectRulesReviews(resolver, clock),
    ]
    served = [each.served(admission) for each in reviews]
    return sorted(served, key=lambda each: (each.info.group, each.info.resource))  # the order of discovery
