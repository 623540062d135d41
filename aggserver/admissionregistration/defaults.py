"""Defaults of webhook configurations, policies and bindings.

The functions expect objects that fit their types, and set defaults in place.
Pure. Source: k8s.io/kubernetes pkg/apis/admissionregistration/v1/{defaults,zz_generated.defaults}.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aggserver.meta.json_types import JSONObject

__all__ = ["of_binding", "of_policy", "of_webhooks"]


def of_webhooks(obj: JSONObject, *, mutating: bool) -> None:
    """Set the defaults of a webhook configuration. mutating: whether its webhooks have a reinvocationPolicy."""
    for webhook in obj.get("webhooks") or ():
        _fill(webhook, "failurePolicy", "Fail")
        _match(webhook)
        _fill(webhook, "timeoutSeconds", 10)
        if mutating:
            _fill(webhook, "reinvocationPolicy", "Never")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None:
            _fill(service, "port", 443)
        _scopes(webhook.get("rules") or ())


def of_policy(obj: JSONObject) -> None:
    """Set the defaults of either kind of policy. As Go writes an empty spec, a missing one is added; validation refuses it."""
    spec = obj.setdefault("spec", {})
    _fill(spec, "failurePolicy", "Fail")
    _match_resources(spec.get("matchConstraints"))
    for condition in (obj.get("status") or {}).get("conditions") or ():
        _fill(condition, "message", "")  # Go always writes it


def of_binding(obj: JSONObject) -> None:
    """Set the defaults of either kind of binding."""
    _match_resources(obj.setdefault("spec", {}).get("matchResources"))


def _match_resources(given: JSONObject | None) -> None:
    if given is None:
        return
    _match(given)
    for name in ("resourceRules", "excludeResourceRules"):
        _scopes(given.get(name) or ())


def _match(part: JSONObject) -> None:
    _fill(part, "matchPolicy", "Equivalent")
    for name in ("namespaceSelector", "objectSelector"):
        _fill(part, name, {})


def _scopes(rules: Iterable[JSONObject]) -> None:
    for rule in rules:
        _fill(rule, "scope", "*")


def _fill(part: JSONObject, name: str, value: Any) -> None:
    if part.get(name) is None:
        part[name] = value
