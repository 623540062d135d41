"""Validation of Mutating- and ValidatingWebhookConfigurations, with upstream's texts and paths.

An update may keep what was valid under older rules: a check that the stored object fails is not made for the new one.
Pure. Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aggserver.admissionregistration import matching
from aggserver.admissionregistration.expressions import Expressions
from aggserver.admissionregistration.matching import Errors, one_of
from aggserver.meta.field import FieldError, Path, duplicate, invalid, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_subdomain
from aggserver.scheme.selectors import label_selector
from aggserver.webhook import client_config

__all__ = ["FAILURE_POLICIES", "REINVOCATION_POLICIES", "validate"]

FAILURE_POLICIES = ("Fail", "Ignore")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
_NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_SIDE_EFFECTS = (*_NO_SIDE_EFFECTS, "Some", "Unknown")
_LONGEST_TIMEOUT = 30  # seconds


class _Strictness(NamedTuple):
    """Which checks are made. The defaults, for a new configuration, are the strictest."""

    side_effects: Sequence[str] = _NO_SIDE_EFFECTS
    recognized_version: bool = True
    unique_names: bool = True
    any_values: bool = False  # in selectors
    conditions: bool = True

    @classmethod
    def towards(cls, old: Sequence[JSONMapping], new: Sequence[JSONMapping]) -> _Strictness:
        """For an update: the checks that all old webhooks pass. Conditions are checked if they changed."""
        names = [webhook.get("name") for webhook in old]
        harmless = all(webhook.get("sideEffects") in _NO_SIDE_EFFECTS for webhook in old)
        return cls(
            side_effects=_NO_SIDE_EFFECTS if harmless else _SIDE_EFFECTS,
            recognized_version=all(map(_has_recognized_version, old)),
            unique_names=len(set(names)) == len(names),
            any_values=any(map(_has_invalid_selector, old)),
            conditions=[_conditions(webhook) for webhook in old] != [_conditions(webhook) for webhook in new],
        )


def validate(obj: JSONMapping, old: JSONMapping | None = None) -> list[FieldError]:
    """The errors of a configuration, except for its metadata. old: the stored one in an update."""
    webhooks = obj.get("webhooks") or []
    strictness = _Strictness() if old is None else _Strictness.towards(old.get("webhooks") or [], webhooks)
    return list(_webhooks(webhooks, Path("webhooks"), strictness))


def _webhooks(webhooks: Sequence[JSONMapping], path: Path, strictness: _Strictness) -> Errors:
    seen: set[str] = set()
    for index, webhook in enumerate(webhooks):
        at, name = path.index(index), webhook.get("name") or ""
        yield from _webhook(webhook, at, strictness)
        yield from client_config.review_versions(
            webhook.get("admissionReviewVersions") or [],
            at.child("admissionReviewVersions"),
            strict=strictness.recognized_version,
            none=f"must specify one of {', '.join(client_config.REVIEW_VERSIONS)}",
        )
        if strictness.unique_names and name in seen:
            yield duplicate(at.child("name"), name)
        if name:
            seen.add(name)


def _webhook(webhook: JSONMapping, path: Path, strictness: _Strictness) -> Errors:
    yield from _qualified(webhook.get("name") or "", path.child("name"))
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from matching.rule_with_operations(rule, path.child("rules").index(index))
    yield from one_of(webhook.get("failurePolicy"), FAILURE_POLICIES, path.child("failurePolicy"))
    yield from one_of(webhook.get("matchPolicy"), matching.MATCH_POLICIES, path.child("matchPolicy"))
    if webhook.get("sideEffects") is None:
        yield required(path.child("sideEffects"), f"must specify one of {', '.join(strictness.side_effects)}")
    yield from one_of(webhook.get("sideEffects"), strictness.side_effects, path.child("sideEffects"))
    timeout = webhook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= _LONGEST_TIMEOUT:
        yield invalid(path.child("timeoutSeconds"), timeout, "the timeout value must be between 1 and 30 seconds")
    for name in ("namespaceSelector", "objectSelector"):
        yield from label_selector(webhook.get(name) or {}, path.child(name), any_values=strictness.any_values)
    yield from one_of(webhook.get("reinvocationPolicy"), REINVOCATION_POLICIES, path.child("reinvocationPolicy"))
    yield from client_config.url_or_service(webhook.get("clientConfig") or {}, path.child("clientConfig"))
    if strictness.conditions:
        yield from matching.match_conditions(_conditions(webhook), path.child("matchConditions"), Expressions())


def _qualified(name: str, path: Path) -> Errors:
    if not name:
        yield required(path)
    elif problems := dns1123_subdomain(name):
        yield invalid(path, name, ",".join(problems))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _has_recognized_version(webhook: JSONMapping) -> bool:
    versions = webhook.get("admissionReviewVersions") or []
    return not versions or any(version in client_config.REVIEW_VERSIONS for version in versions)


def _has_invalid_selector(webhook: JSONMapping) -> bool:
    selectors = (webhook.get(name) or {} for name in ("namespaceSelector", "objectSelector"))
    return any(True for selector in selectors for _ in label_selector(selector, Path()))


def _conditions(webhook: JSONMapping) -> Sequence[JSONMapping]:
    return webhook.get("matchConditions") or []
