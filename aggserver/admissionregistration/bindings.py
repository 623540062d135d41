"""Validation of Validating- and MutatingAdmissionPolicyBindings, with upstream's texts and paths.

Pure. Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from aggserver.admissionregistration import matching
from aggserver.admissionregistration.matching import Errors, one_of
from aggserver.meta.field import FieldError, Path, duplicate, forbidden, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_subdomain, path_segment_name
from aggserver.scheme.selectors import label_selector

__all__ = ["validate"]

_ACTIONS = ("Audit", "Deny", "Warn")
_ABSENCE_ACTIONS = ("Deny", "Allow")
_EXCLUSIVE = "name and selector are mutually exclusive"
_DENY_AND_WARN = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers "
    "serves no purpose)"
)


def validate(obj: JSONMapping, *, mutating: bool) -> list[FieldError]:
    """The errors of a binding, except for its metadata. mutating: whether its policy mutates; else it has validationActions."""
    return list(_spec(obj.get("spec") or {}, Path("spec"), mutating=mutating))


def _spec(spec: JSONMapping, path: Path, *, mutating: bool) -> Errors:
    policy = spec.get("policyName") or ""
    if not policy:
        yield required(path.child("policyName"))
    else:
        yield from (invalid(path.child("policyName"), policy, text) for text in dns1123_subdomain(policy))
    if spec.get("paramRef") is not None:
        yield from _param_ref(spec["paramRef"], path.child("paramRef"))
    if spec.get("matchResources") is not None:
        yield from matching.match_resources(spec["matchResources"], path.child("matchResources"), mutating=mutating)
    if not mutating:
        yield from _validation_actions(spec.get("validationActions") or [], path.child("validationActions"))


def _param_ref(ref: JSONMapping, path: Path) -> Errors:
    name, selector = ref.get("name") or "", ref.get("selector")
    if name:
        yield from (invalid(path.child("name"), name, text) for text in path_segment_name(name))
        if selector is not None:
            yield forbidden(path.child("name"), _EXCLUSIVE)
    if selector is not None:
        yield from label_selector(selector, path.child("selector"))
        if name:
            yield forbidden(path.child("selector"), _EXCLUSIVE)
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")
    action = ref.get("parameterNotFoundAction") or ""
    if not action:
        yield required(path.child("parameterNotFoundAction"))
    else:
        yield from one_of(action, _ABSENCE_ACTIONS, path.child("parameterNotFoundAction"))


def _validation_actions(actions: Sequence[str], path: Path) -> Errors:
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(path.index(index), action, _ACTIONS)
        if action in actions[:index]:
            yield duplicate(path.index(index), action)
    if "Deny" in actions and "Warn" in actions:
        yield invalid(path, actions, _DENY_AND_WARN)
    if not actions:
        yield required(path, "at least one validation action is required")
