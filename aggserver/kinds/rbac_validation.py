"""Validation of roles and bindings, beyond their metadata.

The functions expect objects that fit their types and have upstream's defaults.
Pure. Source: k8s.io/kubernetes pkg/apis/rbac/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from aggserver.meta.field import FieldError, Path, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_subdomain, path_segment_name
from aggserver.meta.selectors import LabelSelector, SelectorError
from aggserver.scheme.selectors import label_selector

__all__ = ["problems", "update_problems"]

Errors = Iterator[FieldError]

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def problems(obj: JSONMapping, old: JSONMapping | None = None) -> list[FieldError]:
    """The errors of an object of one of the four kinds. old: the one it replaces; its selectors may have been valid before."""
    if obj["kind"] in ("Role", "ClusterRole"):
        return list(_role_problems(obj, old))
    return list(_binding_problems(obj))


def update_problems(obj: JSONMapping, old: JSONMapping) -> list[FieldError]:
    """The errors of an update that depend on the old object."""
    ref, before = obj.get("roleRef") or {}, old.get("roleRef") or {}
    if all((ref.get(name) or "") == (before.get(name) or "") for name in ("apiGroup", "kind", "name")):
        return []
    # As upstream prints its internal type.
    value = {go_name: ref.get(name) or "" for go_name, name in (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))}
    return [invalid(Path("roleRef"), value, "cannot change roleRef")]


def _role_problems(role: JSONMapping, old: JSONMapping | None) -> Errors:
    for index, rule in enumerate(role.get("rules") or ()):
        yield from _rule_problems(rule, Path("rules").index(index), namespaced=role["kind"] == "Role")
    aggregation = role.get("aggregationRule")
    if aggregation is None:
        return
    path = Path("aggregationRule").child("clusterRoleSelectors")
    selectors = aggregation.get("clusterRoleSelectors") or []
    if not selectors:
        yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    any_values = old is not None and _has_bad_selector(old)
    for index, selector in enumerate(selectors):
        yield from label_selector(selector, path.index(index), any_values=any_values)
        try:
            LabelSelector.from_object(selector)
        except SelectorError:
            yield invalid(path.index(index), None, "invalid label selector.")


def _has_bad_selector(role: JSONMapping) -> bool:
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    return any(True for selector in selectors for _ in label_selector(selector, Path()))


def _rule_problems(rule: JSONMapping, path: Path, *, namespaced: bool) -> Errors:
    if not rule.get("verbs"):
        yield required(path.child("verbs"), "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        at = path.child("nonResourceURLs")
        if namespaced:
            yield invalid(at, urls, "namespaced rules cannot apply to non-resource URLs")
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            yield invalid(at, urls, "rules cannot apply to both regular resources and non-resource URLs")
        return
    if not rule.get("apiGroups"):
        yield required(path.child("apiGroups"), "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(path.child("resources"), "resource rules must supply at least one resource")


def _binding_problems(binding: JSONMapping) -> Errors:
    namespaced, ref, path = binding["kind"] == "RoleBinding", binding.get("roleRef") or {}, Path("roleRef")
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if (ref.get("apiGroup") or "") != _GROUP:
        yield not_supported(path.child("apiGroup"), ref.get("apiGroup") or "", [_GROUP])
    if ref.get("kind") not in kinds:
        yield not_supported(path.child("kind"), ref.get("kind") or "", kinds)
    name = ref.get("name") or ""
    if name:
        yield from (invalid(path.child("name"), name, text) for text in path_segment_name(name))
    else:
        yield required(path.child("name"))
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _subject_problems(subject, Path("subjects").index(index), namespaced=namespaced)


def _subject_problems(subject: JSONMapping, path: Path, *, namespaced: bool) -> Errors:
    kind, name, group = (subject.get(member) or "" for member in ("kind", "name", "apiGroup"))
    if not name:
        yield required(path.child("name"))
    if kind == "ServiceAccount":
        if name:
            yield from (invalid(path.child("name"), name, text) for text in dns1123_subdomain(name))
        if group:
            yield not_supported(path.child("apiGroup"), group, [""])
        if not namespaced and not subject.get("namespace"):
            yield required(path.child("namespace"))
    elif kind in ("User", "Group"):
        if group != _GROUP:
            yield not_supported(path.child("apiGroup"), group, [_GROUP])
    else:
        yield not_supported(path.child("kind"), kind, _SUBJECTS)
