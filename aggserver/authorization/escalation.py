"""Escalation: whether somebody who grants permissions has them all.

Whoever writes a role, or binds one, must have every permission in it. The error lists the missing ones as upstream does: one
line for each resource, with the verbs.
Pure. Source: k8s.io/component-helpers auth/rbac/validation/policy_comparator.go, v0.36.3; k8s.io/kubernetes
pkg/registry/rbac/validation/{rule,policy_compact}.go, pkg/apis/rbac/v1/evaluation_helpers.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from aggserver.authentication.user import UserInfo
from aggserver.authorization.rbac import FoundRules, PolicyRule, covers_path
from aggserver.meta.golang import quote

__all__ = ["EVERYTHING", "problem", "uncovered"]

EVERYTHING = (PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), paths=("*",)))

# Permissions (groups times resources times names, and paths times verbs) of one role that are compared one by one, in some tenths
# of a second; upstream has no limit. Each rule above the limit must be covered by a single rule of the user.
_MAX_PERMISSIONS = 50_000


def problem(user: UserInfo, found: FoundRules, wanted: Sequence[PolicyRule], resource: str) -> str | None:
    """Why the user, who has `found`, can't grant `wanted`; None if nothing is missing. resource: of the request."""
    missing = uncovered(found.rules, wanted)
    if not missing:
        return None
    lines = "\n".join(sorted({_text(rule) for rule in _compact(missing)}))
    who = f"user {quote(user.name)} (groups={_list(user.groups)})"
    message = f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}"
    trouble = found.trouble(resource)
    return f"{message}; resolution errors: [{trouble}]" if trouble else message


def uncovered(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """What `owned` lacks of `wanted`, in rules of one permission each."""
    missing: list[PolicyRule] = []
    compared = 0
    for rule in wanted:
        if any(_covers(each, rule) for each in owned):
            continue
        permissions = len(rule.groups) * len(rule.resources) * max(len(rule.names), 1) + len(rule.paths) * len(rule.verbs)
        if compared + permissions > _MAX_PERMISSIONS:
            missing.append(rule)
            continue
        compared += permissions
        missing += _missing_on_resources(owned, rule)
        missing += _missing_on_paths(owned, rule)
    return missing


def _missing_on_resources(owned: Sequence[PolicyRule], rule: PolicyRule) -> Iterator[PolicyRule]:
    for group in rule.groups:
        in_group = [each for each in owned if _has_all(each.groups, (group,))]
        for resource in rule.resources:
            of_resource = [each for each in in_group if _covers_resource(each.resources, resource)]
            names: list[tuple[str, ...]] = [(name,) for name in rule.names] or [()]
            verbs = [{verb for each in of_resource if _has_name(each, name) for verb in each.verbs} for name in names]
            for verb in rule.verbs:
                for name, known in zip(names, verbs, strict=True):
                    if verb not in known and "*" not in known:
                        yield PolicyRule((verb,), (group,), (resource,), name)


def _has_name(rule: PolicyRule, name: tuple[str, ...]) -> bool:
    """Whether the rule covers the name. name: a tuple of one name, or empty for all objects."""
    return not rule.names or (len(name) == 1 and name[0] in rule.names)


def _missing_on_paths(owned: Sequence[PolicyRule], rule: PolicyRule) -> Iterator[PolicyRule]:
    for path in rule.paths:
        for verb in rule.verbs:
            single = PolicyRule((verb,), paths=(path,))
            if not any(_covers(each, single) for each in owned):
                yield single


def _compact(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Merge the rules about one resource, or about one of its objects, into one rule."""
    verbs: dict[PolicyRule, list[str]] = {}
    others: list[PolicyRule] = []
    for rule in rules:
        if rule.paths or len(rule.groups) != 1 or len(rule.resources) != 1 or len(rule.names) > 1:
            others.append(rule)
        else:
            verbs.setdefault(replace(rule, verbs=()), []).extend(rule.verbs)
    return others + [replace(rule, verbs=tuple(found)) for rule, found in verbs.items()]


def _covers(owned: PolicyRule, wanted: PolicyRule) -> bool:
    """Whether one rule includes all of another."""
    return (
        _has_all(owned.verbs, wanted.verbs)
        and _has_all(owned.groups, wanted.groups)
        and all(_covers_resource(owned.resources, resource) for resource in wanted.resources)
        and (not owned.names or (bool(wanted.names) and set(wanted.names) <= set(owned.names)))
        and all(any(covers_path(path, each) for path in owned.paths) for each in wanted.paths)
    )


def _has_all(known: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return "*" in known or set(wanted) <= set(known)


def _covers_resource(known: tuple[str, ...], wanted: str) -> bool:
    if "*" in known or wanted in known:
        return True
    _, slash, subresource = wanted.partition("/")
    return bool(slash) and f"*/{subresource}" in known


def _text(rule: PolicyRule) -> str:
    members = {
        "APIGroups": rule.groups,
        "Resources": rule.resources,
        "NonResourceURLs": rule.paths,
        "ResourceNames": rule.names,
        "Verbs": rule.verbs,
    }
    return f"{{{', '.join(f'{name}:{_list(values)}' for name, values in members.items() if values)}}}"


def _list(texts: Iterable[str]) -> str:
    """A list of quoted strings as Go prints it."""
    return f"[{' '.join(map(quote, texts))}]"
