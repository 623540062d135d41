"""Conditions: the status of a definition, computed from it, the other definitions of its group, and the time.

Upstream has a controller for each condition; here one function computes them all: which names are accepted, whether the
definition is Established, whether its group is approved and its schemas are structural. A name belongs to the first definition
that requests it, until that definition no longer does. Once Established, a definition remains so, even if it loses names.

Pure.
Source: k8s.io/apiextensions-apiserver pkg/controller/{status,establish,apiapproval,nonstructuralschema},
pkg/apihelpers/helpers.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aggserver.apiextensions import conversion_rules, manifest, validation
from aggserver.apiextensions.manifest import member
from aggserver.apiextensions.schema_rules import schema_of
from aggserver.meta.field import Path, invalid
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.meta.times import format_time
from aggserver.schema import invariants

__all__ = [
    "Structure",
    "accept_names",
    "conditions",
    "initial_status",
    "is_true",
    "non_structural",
    "stored_versions",
    "with_condition",
]

# Status, reason and message of a condition.
Structure = tuple[str, str, str]

# In upstream's order: of several conflicts, the last one becomes the reason of the condition.
_RESOURCE_NAMES = (("plural", "PluralConflict"), ("singular", "SingularConflict"))
_KIND_NAMES = (("kind", "KindConflict"), ("listKind", "ListKindConflict"))

_APPROVALS = {
    "Approved": ("True", "ApprovedAnnotation"),
    "Unapproved": ("False", "UnapprovedAnnotation"),
    "Missing": ("False", "MissingAnnotation"),
    "Invalid": ("False", "InvalidAnnotation"),
}


def conditions(
    crd: Mapping[str, Any], others: Sequence[Mapping[str, Any]], structure: Structure | None, now: float
) -> JSONObject:
    """The new status, equal to the old one if nothing changes.

    crd: a valid definition. others: the other definitions of any group. structure: result of `non_structural`. now: seconds since
    the epoch, for lastTransitionTime, which changes only with the status of a condition.
    """
    names, conflict = accept_names(crd, others)
    status = dict(member(crd, "status", {}))
    status.setdefault("conditions", [])
    status["acceptedNames"] = names
    status["storedVersions"] = stored_versions(crd)
    time = format_time(now)
    status = _with_approval(crd, status, time)
    if structure is None:
        kept = [each for each in member(status, "conditions", []) if each.get("type") != "NonStructuralSchema"]
        status["conditions"] = kept
    else:
        status = with_condition(status, "NonStructuralSchema", *structure, time)
    if conflict is None:
        status = with_condition(status, "NamesAccepted", "True", "NoConflicts", "no conflicts found", time)
    else:
        status = with_condition(status, "NamesAccepted", "False", *conflict, time)
    if not _is(status, "Established"):
        status = with_condition(status, "Established", *_established(crd, accepted=conflict is None), time)
    if "deletionTimestamp" in member(crd, "metadata", {}) and not _has(status, "Terminating"):
        text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        status = with_condition(status, "Terminating", "True", "InstanceDeletionPending", text, time)
    return status


def non_structural(crd: Mapping[str, Any]) -> Structure | None:
    """The condition NonStructuralSchema, which only definitions from before v1 can have; None if all schemas are structural.

    It takes time for large schemas, so call it once for each generation.
    """
    spec = member(crd, "spec", {})
    errors = []
    if member(spec, "preserveUnknownFields", False):
        errors.append(invalid(Path("spec.preserveUnknownFields"), True, "must be false"))
    for index, version in enumerate(member(spec, "versions", [])):
        schema = schema_of(version)
        if schema is None:
            continue
        unsupported = invariants.unsupported(schema)
        if unsupported:
            text = f"failed to check validation schema for version {member(version, 'name', '')}: {unsupported}"
            return "Unknown", "StructuralError", text
        errors += invariants.violations(schema, Path("spec.versions").index(index).child("schema", "openAPIV3Schema"))
    return ("True", "Violations", _aggregate([str(error) for error in errors])) if errors else None


def initial_status(crd: Mapping[str, Any]) -> JSONObject:
    """The status of a definition that has just been created."""
    return {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored_versions({**crd, "status": {}}),
    }


def is_true(crd: Mapping[str, Any], type_: str) -> bool:
    return _is(member(crd, "status", {}), type_)


def with_condition(status: Mapping[str, Any], type_: str, value: str, reason: str, message: str, time: str) -> JSONObject:
    """The status with this condition set. value: True, False or Unknown. time: formatted as in metadata; used only if the value
    changes.
    """
    kept: list[JSONObject] = []
    found: JSONObject | None = None
    for condition in member(status, "conditions", []):
        kept.append(dict(condition))
        if condition.get("type") == type_ and found is None:
            found = kept[-1]
    if found is None:
        found = {"type": type_}
        kept.append(found)
    if found.get("status") != value or not found.get("lastTransitionTime"):
        found["lastTransitionTime"] = time
    found.update(status=value, reason=reason, message=message)
    return {**status, "conditions": kept}


def stored_versions(crd: Mapping[str, Any]) -> list[str]:
    """status.storedVersions: all versions that objects may be stored in, including the storage version."""
    stored = list(member(member(crd, "status", {}), "storedVersions", []))
    for version in member(member(crd, "spec", {}), "versions", []):
        if version.get("storage"):
            name = member(version, "name", "")
            return stored if name in stored else [*stored, name]
    return stored


def accept_names(crd: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> tuple[JSONObject, tuple[str, str] | None]:
    """(acceptedNames, conflict): the names of the definition that are accepted.

    A requested name that another definition of the group has is not accepted; the name accepted before is kept instead. The
    conflict is (reason, message); None if all requested names are accepted.
    """
    spec = member(crd, "spec", {})
    asked = manifest.default_names(member(spec, "names", {}))
    before = member(member(crd, "status", {}), "acceptedNames", {})
    group = [other for other in others if member(member(other, "spec", {}), "group", "") == member(spec, "group", "")]
    resources, kinds = _taken(group)
    accepted: JSONObject = {}
    conflict: tuple[str, str] | None = None
    for pairs, taken in ((_RESOURCE_NAMES, resources), (_KIND_NAMES, kinds)):
        for key, reason in pairs:
            name, old = member(asked, key, ""), member(before, key, "")
            if name != old and name in taken:
                accepted[key], conflict = old, (reason, _in_use([name]))
            else:
                accepted[key] = name
        if pairs is _RESOURCE_NAMES:
            accepted["shortNames"], clash = _short_names(asked, before, resources)
            conflict = clash or conflict
    accepted["categories"] = member(asked, "categories", [])
    # As Go encodes the type: empty names are omitted, except plural and kind.
    return {key: name for key, name in accepted.items() if name or key in ("plural", "kind")}, conflict


def _short_names(
    asked: Mapping[str, Any], before: Mapping[str, Any], taken: set[str]
) -> tuple[list[str], tuple[str, str] | None]:
    wanted, old = member(asked, "shortNames", []), member(before, "shortNames", [])
    clashes = [name for name in wanted if name not in old and name in taken]
    return (old, ("ShortNamesConflict", _in_use(clashes))) if clashes else (wanted, None)


def _in_use(names: Sequence[str]) -> str:
    return _aggregate([f"{quote(name)} is already in use" for name in names])


def _aggregate(errors: Sequence[str]) -> str:
    """The text of several errors, as upstream's Aggregate joins them."""
    texts = list(dict.fromkeys(errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _taken(group: Iterable[Mapping[str, Any]]) -> tuple[set[str], set[str]]:
    """The names accepted for the definitions of a group: (names of resources, kinds)."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in group:
        names = member(member(other, "status", {}), "acceptedNames", {})
        resources.update(member(names, key, "") for key in ("plural", "singular"))
        resources.update(member(names, "shortNames", []))
        kinds.update(member(names, key, "") for key in ("kind", "listKind"))
    return resources - {""}, kinds - {""}


def _established(crd: Mapping[str, Any], *, accepted: bool) -> tuple[str, str, str]:
    """(status, reason, message) of a definition that is not Established yet."""
    if not accepted:
        return "False", "NotAccepted", "not all names are accepted"
    if conversion_rules.ca_bundle_problem(member(member(crd, "spec", {}), "conversion", {})):
        return "False", "InvalidCABundle", "The conversion webhook CABundle is invalid"
    return "True", "InitialNamesAccepted", "the initial names have been accepted"


def _with_approval(crd: Mapping[str, Any], status: JSONObject, time: str) -> JSONObject:
    if not validation.is_protected(member(member(crd, "spec", {}), "group", "")):
        return status
    state, why = validation.approval(member(member(crd, "metadata", {}), "annotations", {}))
    value, reason = _APPROVALS[state]
    return with_condition(status, "KubernetesAPIApprovalPolicyConformant", value, reason, why, time)


def _has(status: Mapping[str, Any], type_: str) -> bool:
    return any(each.get("type") == type_ for each in member(status, "conditions", []))


def _is(status: Mapping[str, Any], type_: str) -> bool:
    return any(each.get("type") == type_ and each.get("status") == "True" for each in member(status, "conditions", []))
