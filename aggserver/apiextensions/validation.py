"""Validation of CustomResourceDefinitions, with upstream's messages and paths.

`validate` and `validate_update` are for writes. They accept a manifest of any shape; if members have wrong types (`manifest.py`),
only those errors are returned. `essentials` has only the checks that a definition must pass to be served at all, for definitions
that another server has accepted.

Upstream validates an internal type, which has the parts common to all versions at the top. The paths of errors show that: for a
definition with one version they have `spec.subresources`, never `spec.versions[0].subresources`.
Pure.
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, pkg/apis/apiextensions/v1/conversion.go,
pkg/apihelpers/helpers.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from aggserver.apiextensions import conversion_annotation, conversion_rules, manifest, version_rules
from aggserver.apiextensions.manifest import member
from aggserver.apiextensions.schema_rules import SchemaOptions, has_defaults, schema_of, schemas_of
from aggserver.apiextensions.version_rules import Facets
from aggserver.meta.field import FieldError, Path, RawJSON, invalid, not_supported, required
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1035_label, dns1123_subdomain
from aggserver.schema.rules import UPSTREAM, RuleOptions

__all__ = ["API_APPROVED", "approval", "essentials", "is_protected", "validate", "validate_status_update", "validate_update"]

Errors = Iterator[FieldError]

API_APPROVED = "api-approved.kubernetes.io"


_SPEC = Path("spec")
_STATUS = Path("status")


def validate(crd: JSONMapping, rule_options: RuleOptions = UPSTREAM) -> list[FieldError]:
    """The errors of a new definition. Of its metadata, only the name is checked, against the spec."""
    problems = manifest.problems(crd)
    if problems:
        return problems
    spec = member(crd, "spec", {})
    found = [
        *_name(crd, spec),
        *_spec(spec, None, rule_options),
        *_status(crd, spec),
        *_approval(crd, None),
        *_preserve_unknown_fields(spec),
    ]
    return found or conversion_annotation.problems(crd, None, rule_options)


def validate_update(new: JSONMapping, old: JSONMapping, rule_options: RuleOptions = UPSTREAM) -> list[FieldError]:
    """The errors of an update. As upstream, some checks are not made if `old`, accepted under older rules, fails them too."""
    problems = manifest.problems(new)
    if problems:
        return problems
    spec, old_spec = member(new, "spec", {}), member(old, "spec", {})
    found = [
        *_spec(spec, old, rule_options),
        *_immutable(spec, old_spec, established=is_established(old)),
        *_status(new, spec),
        *_approval(new, old),
        *(() if member(old_spec, "preserveUnknownFields", False) else _preserve_unknown_fields(spec)),
    ]
    return found or conversion_annotation.problems(new, old, rule_options)


def validate_status_update(new: JSONMapping) -> list[FieldError]:
    """The errors of an update of the status."""
    problems = manifest.problems(new)
    return problems or [*_accepted_names(new)]


def essentials(crd: JSONMapping) -> list[FieldError]:
    """The errors that prevent a definition without mistyped members from being served at all."""
    spec = member(crd, "spec", {})
    versions = member(spec, "versions", [])
    return [*_group(spec), *_scope(spec), *_version_names(versions), *_version_set(spec.get("versions")), *_required_names(spec)]


def is_established(crd: JSONMapping) -> bool:
    conditions = member(member(crd, "status", {}), "conditions", [])
    return any(condition.get("type") == "Established" and condition.get("status") == "True" for condition in conditions)


# --- metadata ---


def _name(crd: JSONMapping, spec: JSONMapping) -> Errors:
    metadata = member(crd, "metadata", {})
    wanted = f"{member(member(spec, 'names', {}), 'plural', '')}.{member(spec, 'group', '')}"
    for key in ("generateName", "name"):
        name = member(metadata, key, "")
        if name and name != wanted:
            yield invalid(Path("metadata").child(key), name, 'must be spec.names.plural+"."+spec.group')


def is_protected(group: str) -> bool:
    """Whether the group belongs to the Kubernetes community, so that definitions in it need an approval."""
    return any(group == domain or group.endswith("." + domain) for domain in ("k8s.io", "kubernetes.io"))


def approval(annotations: Mapping[str, Any]) -> tuple[str, str]:
    """(state, explanation) of a definition in a protected group; the state is one of Approved, Unapproved, Missing, Invalid."""
    text = annotations.get(API_APPROVED) or ""
    page = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not text:
        return "Missing", f"protected groups must have approval annotation {quote(API_APPROVED)}, {page}"
    if text.startswith("unapproved"):
        return "Unapproved", f"not approved: {quote(text)}"
    if _is_url(text):
        return "Approved", f"approved in {text}"
    why = 'with either a URL or a reason starting with "unapproved"'
    return "Invalid", f"protected groups must have approval annotation {quote(API_APPROVED)} {why}, {page}"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


def _annotations(crd: JSONMapping) -> JSONMapping:
    found = member(member(crd, "metadata", {}), "annotations", {})
    return found if isinstance(found, Mapping) else {}


def _approval(crd: JSONMapping, old: JSONMapping | None) -> Errors:
    if not is_protected(member(member(crd, "spec", {}), "group", "")):
        return
    annotations = _annotations(crd)
    state, why = approval(annotations)
    # An approval that was missing before must not block other changes.
    if old is not None and approval(_annotations(old))[0] == state:
        return
    path = Path("metadata.annotations").key(API_APPROVED)
    if state == "Missing":
        yield required(path, why)
    elif state == "Invalid":
        yield invalid(path, annotations[API_APPROVED], why)


# --- spec ---


def _spec(spec: JSONMapping, old: JSONMapping | None, rule_options: RuleOptions) -> Errors:
    """The errors of the spec. old: the previous definition, None on create."""
    old_spec = None if old is None else member(old, "spec", {})
    versions, preserves = member(spec, "versions", []), member(spec, "preserveUnknownFields", False)
    common, options = Facets.in_common(versions), SchemaOptions.of(spec, old_spec, rule_options)
    yield from _group(spec)
    yield from _scope(spec)
    if old_spec is None or all(schema_of(version) is not None for version in member(old_spec, "versions", [])):
        yield from _schemas(versions)
    elif not preserves:
        yield from _schemas(versions, "because otherwise all fields are pruned")
    if preserves and any(map(has_defaults, schemas_of(spec))):
        yield invalid(_SPEC.child("preserveUnknownFields"), True, "must be false in order to use defaults in the schema")
    for index, version in enumerate(versions):
        path = _SPEC.child("versions").index(index)
        yield from _label(member(version, "name", ""), path.child("name"))
        yield from version_rules.deprecation_warning(version, path.child("deprecationWarning"))
        yield from version_rules.validate(version, path, common.others(), options, old_spec)
    yield from _version_set(spec.get("versions"))
    # The internal type has the name of the first version at the top too.
    for version in versions[:1]:
        if member(version, "name", ""):
            yield from _label(version["name"], _SPEC.child("version"))
    yield from _required_names(spec)
    yield from _names(manifest.default_names(member(spec, "names", {})), _SPEC.child("names"))
    if versions:
        yield from version_rules.validate_common(versions, _SPEC, common, options, old_spec)
    conversion = member(spec, "conversion", {"strategy": "None"})
    if preserves and member(conversion, "strategy", "") != "None":
        path = _SPEC.child("conversion", "strategy")
        yield invalid(path, member(conversion, "strategy", ""), "must be None if spec.preserveUnknownFields is true")
    before = None if old_spec is None else member(old_spec, "conversion", {})
    established = old is not None and is_established(old)
    yield from conversion_rules.validate(conversion, _SPEC.child("conversion"), before, established=established)


def _group(spec: JSONMapping) -> Errors:
    group, path = member(spec, "group", ""), _SPEC.child("group")
    problems = dns1123_subdomain(group)
    if not group:
        yield required(path)
    elif problems:
        yield invalid(path, group, ",".join(problems))
    elif "." not in group:
        yield invalid(path, group, "should be a domain with at least one dot")


def _scope(spec: JSONMapping) -> Errors:
    scope, path = member(spec, "scope", ""), _SPEC.child("scope")
    if not scope:
        yield required(path)
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported(path, scope, ("Cluster", "Namespaced"))


def _schemas(versions: Sequence[JSONMapping], why_served: str = "") -> Errors:
    """Require a schema in every version; if `why_served` is given, only in served ones, with that reason."""
    for index, version in enumerate(versions):
        if schema_of(version) is None and (member(version, "served", False) or not why_served):
            yield required(_SPEC.child("versions").index(index).child("schema", "openAPIV3Schema"), why_served)


def _label(name: str, path: Path) -> Errors:
    problems = dns1035_label(name)
    if problems:
        yield invalid(path, name, ",".join(problems))


def _version_names(versions: Sequence[JSONMapping]) -> Errors:
    for index, version in enumerate(versions):
        yield from _label(member(version, "name", ""), _SPEC.child("versions").index(index).child("name"))


def _version_set(given: Sequence[JSONMapping] | None) -> Errors:
    path, versions = _SPEC.child("versions"), given or []
    names = [member(version, "name", "") for version in versions]
    problems = []
    if len(set(names)) < len(names):
        problems.append("must contain unique version names")
    if sum(member(version, "storage", False) for version in versions) != 1:
        problems.append("must have exactly one version marked as storage version")
    if problems:
        shown = RawJSON("null" if given is None else version_rules.internal_text(versions))
        yield from (invalid(path, shown, why) for why in problems)


def _preserve_unknown_fields(spec: JSONMapping) -> Errors:
    if member(spec, "preserveUnknownFields", False):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid(_SPEC.child("preserveUnknownFields"), True, why)


def _immutable(spec: JSONMapping, old: JSONMapping, *, established: bool) -> Errors:
    names, old_names = member(spec, "names", {}), member(old, "names", {})
    pairs = [(spec, old, ("group",)), (names, old_names, ("names", "plural"))]
    if established:
        # Scope and kind are part of the keys and bytes of stored objects.
        pairs = [(spec, old, ("scope",)), (names, old_names, ("names", "kind")), *pairs]
    for new_part, old_part, place in pairs:
        value = member(new_part, place[-1], "")
        if value != member(old_part, place[-1], ""):
            yield invalid(_SPEC.child(*place), value, "field is immutable")


# --- names ---


def _required_names(spec: JSONMapping) -> Errors:
    names = manifest.default_names(member(spec, "names", {}))
    for name in ("plural", "singular", "kind", "listKind"):
        if not member(names, name, ""):
            yield required(_SPEC.child("names", name))


def _names(names: JSONMapping, path: Path) -> Errors:
    kind, list_kind = member(names, "kind", ""), member(names, "listKind", "")
    for name in ("plural", "singular"):
        if member(names, name, ""):
            yield from _label(names[name], path.child(name))
    for name, value in (("kind", kind), ("listKind", list_kind)):
        problems = dns1035_label(value.lower())
        if value and problems:
            yield invalid(path.child(name), value, "may have mixed case, but should otherwise match: " + ",".join(problems))
    for index, name in enumerate(member(names, "shortNames", [])):
        yield from _label(name, path.child("shortNames").index(index))
    if kind and kind == list_kind:
        yield invalid(path.child("listKind"), list_kind, "kind and listKind may not be the same")
    for index, name in enumerate(member(names, "categories", [])):
        yield from _label(name, path.child("categories").index(index))


# --- status ---


def _status(crd: JSONMapping, spec: JSONMapping) -> Errors:
    yield from _accepted_names(crd)
    status = member(crd, "status", {})
    if "storedVersions" in status:
        yield from _stored_versions(member(status, "storedVersions", []), member(spec, "versions", []))


def _accepted_names(crd: JSONMapping) -> Errors:
    yield from _names(member(member(crd, "status", {}), "acceptedNames", {}), _STATUS.child("acceptedNames"))


def _stored_versions(stored: Sequence[str], versions: Sequence[JSONMapping]) -> Errors:
    path = _STATUS.child("storedVersions")
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    names = [member(version, "name", "") for version in versions]
    for version, name in zip(versions, names, strict=True):
        if member(version, "storage", False) and name not in stored:
            yield invalid(path, stored, f"must have the storage version {name}")
    for index, name in enumerate(stored):
        if name not in names:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a "
                f"storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            )
            yield invalid(path.index(index), name, why)
