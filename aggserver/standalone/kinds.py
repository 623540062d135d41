"""The kinds that a server without a cluster serves beside definitions: namespaces and self reviews."""

from __future__ import annotations

from collections.abc import Callable

from aggserver.admission.chain import Chain
from aggserver.authorization.delegating import Authorizer
from aggserver.endpoints.fixed import FixedResource, Subresource
from aggserver.meta import errors
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.table import Column, TableConvertor
from aggserver.registry.store import Store
from aggserver.registry.subresources import StatusStore
from aggserver.scheme import form
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.types import Type, lookup
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
        conform=_conform(lookup("core/v1.Namespace")),
    )


def review_kinds(authorizer: Authorizer, admission: Chain, clock: Callable[[], float]) -> list[FixedResource]:
    """clock: seconds since the epoch."""
    kinds: list[tuple[str, Type, object]] = [
        ("authentication.k8s.io", lookup("authentication/v1.SelfSubjectReview"), SelfSubjectReviews(clock)),
        ("authorization.k8s.io", lookup("authorization/v1.SelfSubjectAccessReview"), SelfSubjectAccessReviews(authorizer)),
        ("authorization.k8s.io", lookup("authorization/v1.SelfSubjectRulesReview"), SelfSubjectRulesReviews()),
    ]
    resources = []
    for group, of, rest in kinds:
        kind = of.short_name
        info = ResourceInfo(group, "v1", f"{kind.lower()}s", kind, "", namespaced=False)
        table = TableConvertor([])
        resources.append(
            FixedResource(info, rest, admission, singular=kind.lower(), verbs=("create",), table=table, conform=_conform(of))
        )
    return resources


def _conform(of: Type) -> Callable[[JSONObject], list[str]]:
    """As upstream's decoder: members of a wrong type are refused, unknown ones dropped."""
    what = f'{of.short_name} in version "v1" cannot be handled as a {of.short_name}'

    def conform(obj: JSONObject) -> list[str]:
        why = decode_error(obj, of) or ", ".join(map(str, form.problems(obj, of, Path())))
        if why:
            raise errors.bad_request(f"{what}: {why}")
        return form.prune(obj, of)

    return conform
