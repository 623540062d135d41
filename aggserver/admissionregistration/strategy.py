"""The strategies of the kinds of admissionregistration.k8s.io: defaults, validation and metadata.generation.

A `RegistrationKind` says what differs between the six kinds. Whether the user may read the params that a policy or binding names
is checked elsewhere (`standalone/param_permissions.py`).
Pure. Source: k8s.io/kubernetes pkg/registry/admissionregistration/*/strategy.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from aggserver.admissionregistration import bindings, defaults, policies, status, webhooks
from aggserver.admissionregistration.expressions import length_of_expressions
from aggserver.merge.managed_fields import FieldManager
from aggserver.meta.field import FieldError, Path
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry.own_kinds import conformer, own_fields
from aggserver.registry.rest import Context
from aggserver.registry.strategy import StrategyDefaults, Verdict
from aggserver.scheme import object_meta

__all__ = ["GROUP", "KINDS", "RegistrationKind", "RegistrationStatusStrategy", "RegistrationStrategy"]

GROUP = "admissionregistration.k8s.io"

# Names with this suffix are for configurations that kube-apiserver reads from files.
_STATIC = ".static.k8s.io"
# Characters of expressions that are compiled in the event loop, at 10 us each; more are compiled in a thread.
_QUICK = 2000
# Metadata that a write of the status can't change. It does change managedFields: they record who wrote the status.
_KEPT_BY_STATUS = (
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)


@dataclass(frozen=True)
class RegistrationKind:
    """One kind. content: the member whose changes increment the generation. validate: (object, old or None) -> errors, except for
    those of metadata and status. set_defaults: in place, for an object that fits its type.
    """

    name: str
    plural: str
    content: str
    set_defaults: Callable[[JSONObject], None]
    validate: Callable[[JSONMapping, JSONMapping | None], list[FieldError]]
    has_status: bool = False

    @property
    def type_name(self) -> str:
        """The name of the type in the tables of `scheme/`."""
        return f"admissionregistration/v1.{self.name}"

    @property
    def info(self) -> ResourceInfo:
        return ResourceInfo(GROUP, "v1", self.plural, self.name, f"{self.name}List", namespaced=False)


def _webhooks(prefix: str, *, mutating: bool) -> RegistrationKind:
    set_defaults = partial(defaults.of_webhooks, mutating=mutating)
    name = f"{prefix}WebhookConfiguration"
    return RegistrationKind(name, f"{name.lower()}s", "webhooks", set_defaults, webhooks.validate)


def _binding(prefix: str, *, mutating: bool) -> RegistrationKind:
    name = f"{prefix}AdmissionPolicyBinding"
    return RegistrationKind(
        name, f"{name.lower()}s", "spec", defaults.of_binding, lambda obj, old: bindings.validate(obj, mutating=mutating)
    )


KINDS = (
    RegistrationKind(
        "MutatingAdmissionPolicy", "mutatingadmissionpolicies", "spec", defaults.of_policy, policies.validate_mutating
    ),
    _binding("Mutating", mutating=True),
    _webhooks("Mutating", mutating=True),
    RegistrationKind(
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "spec",
        defaults.of_policy,
        policies.validate_validating,
        has_status=True,
    ),
    _binding("Validating", mutating=False),
    _webhooks("Validating", mutating=False),
)
"""In the order of discovery."""


class RegistrationStrategy(StrategyDefaults):
    def __init__(self, kind: RegistrationKind) -> None:
        self.kind = kind
        self._conform = conformer(kind.type_name)

    @property
    def info(self) -> ResourceInfo:
        return self.kind.info

    @cached_property
    def field_manager(self) -> FieldManager | None:
        return own_fields(self.info, self.kind.type_name, resets=("status",) if self.kind.has_status else ())

    def conform(self, obj: JSONObject) -> list[str]:
        dropped = self._conform(obj)
        self.kind.set_defaults(obj)
        if self.kind.has_status:
            obj.setdefault("status", {})
        return dropped

    def default(self, obj: JSONObject) -> None:
        self.conform(obj)

    def prepare_for_create(self, obj: JSONObject, context: Context, now: str) -> None:
        obj["metadata"]["generation"] = 1
        if self.kind.has_status:
            obj["status"] = {}

    def validate(self, obj: JSONObject) -> Verdict:
        return self._verdict(obj, None)

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        if self.kind.has_status:
            obj["status"] = old.get("status") or {}
        content = self.kind.content
        if obj.get(content) != old.get(content):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        # As upstream, metadata is validated here as for a new object, so that some of its errors are reported twice.
        return self._verdict(obj, old)

    def _verdict(self, obj: JSONObject, old: JSONObject | None) -> Verdict:
        """The errors of an object; computed later, in a thread, if compiling its expressions takes long."""

        def verdict() -> Verdict:
            return Verdict(_metadata_problems(obj) + self.kind.validate(obj, old))

        if length_of_expressions(obj.get(self.kind.content)) <= _QUICK:
            return verdict()
        return Verdict([], later=lambda is_given_up: verdict())

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> Sequence[str]:
        if not obj["metadata"].get("name", "").endswith(_STATIC):
            return ()
        why = "are reserved for static manifest-based configurations and cannot be managed via the API"
        return [f"metadata.name: names ending with {quote(_STATIC)} {why}"]

    @property
    def checks_changes_twice(self) -> bool:
        return False


class RegistrationStatusStrategy(RegistrationStrategy):
    """The strategy of the subresource `status`."""

    @cached_property
    def field_manager(self) -> FieldManager | None:
        return own_fields(self.info, self.kind.type_name, "status", resets=("spec", "metadata"))

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        obj["spec"] = old.get("spec") or {}
        metadata, before = obj["metadata"], old["metadata"]
        for name in _KEPT_BY_STATUS:
            if name in before:
                metadata[name] = before[name]
            else:
                metadata.pop(name, None)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        return Verdict(status.validate(obj))


def _metadata_problems(obj: JSONObject) -> list[FieldError]:
    return object_meta.validate_object_meta(
        obj["metadata"], Path("metadata"), namespaced=False, name_rule=object_meta.dns1123_subdomain
    )
