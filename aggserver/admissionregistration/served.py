"""The resources of admissionregistration.k8s.io/v1, as the server's own API serves them.

Source: k8s.io/kubernetes pkg/registry/admissionregistration/*/storage/storage.go; for the tables
pkg/printers/internalversion/printers.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aggserver.admission.chain import Chain
from aggserver.admissionregistration.strategy import KINDS, RegistrationKind, RegistrationStatusStrategy, RegistrationStrategy
from aggserver.endpoints.served import Endpoint, Served
from aggserver.publish import discovery
from aggserver.publish.discovery import APIResource, APISubresource
from aggserver.publish.models import Published
from aggserver.publish.table import ComputedColumn, TableConvertor, age_column
from aggserver.registry.environment import Environment
from aggserver.registry.store import Store
from aggserver.registry.subresources import StatusStore

__all__ = ["registration_kinds", "registration_stores"]


def registration_stores(environment: Environment) -> dict[str, Store]:
    """The stores of all kinds, by resource: `validatingadmissionpolicies` and so on."""
    return {kind.plural: environment.own_store(RegistrationStrategy(kind)) for kind in KINDS}


def registration_kinds(stores: Mapping[str, Store], admission: Chain) -> list[Served]:
    """The resources to serve. stores: from `registration_stores`."""
    return [_served(kind, stores[kind.plural], admission) for kind in KINDS]


def _served(kind: RegistrationKind, store: Store, admission: Chain) -> Served:
    info = kind.info
    rests: dict[str, object] = {"": store}
    if kind.has_status:
        rests["status"] = StatusStore(store.with_strategy(RegistrationStatusStrategy(kind)))
    resource = APIResource(
        info,
        discovery.BUILT_IN_VERBS,
        singular=kind.name.lower(),
        categories=("api-extensions",),
        storage_version_hash=discovery.storage_version_hash(info.group, info.version, info.kind),
        subresources=(APISubresource("status", info.kind, discovery.SUBRESOURCE_VERBS),) if kind.has_status else (),
    )
    table = TableConvertor([*_COLUMNS[kind.name], age_column()])
    endpoints = {
        name: Endpoint.of_type(kind.type_name, rest, store.strategy.conform, table=table) for name, rest in rests.items()
    }
    return Served(Published(resource, type_name=kind.type_name), endpoints.get, admission)


# --- columns of tables ---

_Read = Callable[[Mapping[str, Any]], Any]


def _text(name: str, description: str, read: _Read) -> ComputedColumn:
    return ComputedColumn(name, "string", read, description)


def _count(name: str, description: str, read: _Read) -> ComputedColumn:
    return ComputedColumn(name, "integer", lambda obj: len(read(obj) or ()), description)


def _spec(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("spec") or {}


def _param_kind(policy: Mapping[str, Any]) -> str:
    kind = _spec(policy).get("paramKind")
    return "<unset>" if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_ref(binding: Mapping[str, Any]) -> str:
    ref = _spec(binding).get("paramRef") or {}
    if ref.get("name"):
        # Whether the params are in namespaces is not known here.
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    selector = ref.get("selector")
    return "<unset>" if selector is None else _selector_text(selector)


def _selector_text(selector: Mapping[str, Any]) -> str:
    """A label selector as Go's %v prints it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    requirements = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key', '')},Operator:{each.get('operator', '')},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    parts = f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},"
    return f"&LabelSelector{{{parts}}}"


_PARAM_KIND = _text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy", _param_kind)
_WEBHOOKS = (
    _count(
        "Webhooks",
        "Webhooks indicates the number of webhooks registered in this configuration",
        lambda obj: obj.get("webhooks"),
    ),
)
_BINDING = (
    _text(
        "PolicyName",
        "PolicyName indicates the policy definition which the policy binding binded to",
        lambda obj: _spec(obj).get("policyName", ""),
    ),
    _text("ParamRef", "ParamRef indicates the param resource which sets the configuration param", _param_ref),
)
_COLUMNS: Mapping[str, tuple[ComputedColumn, ...]] = {
    **dict.fromkeys(("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"), _WEBHOOKS),
    **dict.fromkeys(("MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding"), _BINDING),
    "ValidatingAdmissionPolicy": (
        _count(
            "Validations",
            "Validations indicates the number of validation rules defined in this configuration",
            lambda obj: _spec(obj).get("validations"),
        ),
        _PARAM_KIND,
    ),
    "MutatingAdmissionPolicy": (
        _count(
            "Mutations",
            "Mutation indicates the number of mutations rules defined in this configuration",
            lambda obj: _spec(obj).get("mutations"),
        ),
        _PARAM_KIND,
    ),
}
