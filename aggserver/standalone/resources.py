"""The kinds that a server without a cluster serves beside definitions: namespaces and reviews."""

from __future__ import annotations

from collections.abc import Callable

from aggserver.admission.chain import Chain
from aggserver.authorization.delegating import Authorizer
from aggserver.authorization.standalone import RuleResolver
from aggserver.endpoints.fixed import FixedResource, Subresource
from aggserver.kinds import namespaces
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.table import Column, TableConvertor
from aggserver.registry.own_kinds import conformer
from aggserver.registry.store import Store
from aggserver.registry.subresources import StatusStore
from aggserver.standalone.reviews import ACCESS_REVIEWS, AccessReviews, SelfSubjectReviews, SelfSubjectRulesReviews

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
        selectable_fields=frozenset({"status.phase"}),
        conform=store.strategy.conform,
        type_name="core/v1.Namespace",
    )


def review_kinds(
    authorizer: Authorizer, resolver: RuleResolver, admission: Chain, clock: Callable[[], float]
) -> list[FixedResource]:
    """The kinds of reviews. clock: seconds since the epoch."""
    reviews: dict[str, object] = {kind: AccessReviews(kind, authorizer, clock) for kind in ACCESS_REVIEWS}
    reviews["SelfSubjectRulesReview"] = SelfSubjectRulesReviews(resolver, clock)
    kinds: list[tuple[str, str, object]] = [
        ("authentication", "SelfSubjectReview", SelfSubjectReviews(clock)),
        *(("authorization", kind, reviews[kind]) for kind in sorted(reviews)),
    ]
    resources = []
    for group, kind, rest in kinds:
        namespaced = ACCESS_REVIEWS.get(kind, False)
        info = ResourceInfo(f"{group}.k8s.io", "v1", f"{kind.lower()}s", kind, "", namespaced=namespaced)
        table = TableConvertor([])
        name = f"{group}/v1.{kind}"
        resources.append(
            FixedResource(
                info,
                rest,
                admission,
                singular=kind.lower(),
                verbs=("create",),
                table=table,
                conform=conformer(name),
                type_name=name,
            )
        )
    return resources
