"""What the cases on webhook configurations, policies and bindings are made of: manifests, and requests that write them.

Most only ask (dryRun). What is really made matches a group that no server has, so that no other case meets it. Of a policy, what
is compared leaves out the status, which a controller writes in its own time.
"""

from __future__ import annotations

from typing import Any

from aggserver.meta.json_types import JSONObject
from tests.integration.comparison import MERGE_PATCH, Ask, ask

__all__ = [
    "GROUP_VERSION",
    "PLURALS",
    "RULE",
    "binding",
    "change",
    "mutating_binding",
    "mutating_policy",
    "mutating_webhooks",
    "policy",
    "request",
    "try_out",
    "validating_webhooks",
    "webhook",
]

GROUP_VERSION = "/apis/admissionregistration.k8s.io/v1"
_CONTROLLER = "validatingadmissionpolicy-status"
PLURALS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
RULE: JSONObject = {
    "apiGroups": ["nowhere.example.com"],
    "apiVersions": ["v1"],
    "resources": ["things"],
    "operations": ["CREATE", "UPDATE"],
}


def _without_nothing(members: JSONObject) -> JSONObject:
    return {name: value for name, value in members.items() if value is not None}


def _object(kind: str, metadata: Any, **members: Any) -> JSONObject:
    named = _without_nothing({"name": "$name", **(metadata or {})})
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": named, **members}


def webhook(**members: Any) -> JSONObject:
    """None takes a member out."""
    plain = {
        "name": "hook.example.com",
        "clientConfig": {"url": "https://hook.nowhere.example.com/x"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [RULE],
    }
    return _without_nothing({**plain, **members})


def validating_webhooks(*webhooks: JSONObject, metadata: Any = None) -> JSONObject:
    return _object("ValidatingWebhookConfiguration", metadata, webhooks=list(webhooks))


def mutating_webhooks(*webhooks: JSONObject, metadata: Any = None) -> JSONObject:
    return _object("MutatingWebhookConfiguration", metadata, webhooks=list(webhooks))


def policy(metadata: Any = None, status: Any = None, **spec: Any) -> JSONObject:
    plain = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}
    more = {} if status is None else {"status": status}
    return _object("ValidatingAdmissionPolicy", metadata, spec=_without_nothing({**plain, **spec}), **more)


def mutating_policy(metadata: Any = None, **spec: Any) -> JSONObject:
    plain = {
        "matchConstraints": {"resourceRules": [RULE]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
        "reinvocationPolicy": "Never",
    }
    return _object("MutatingAdmissionPolicy", metadata, spec=_without_nothing({**plain, **spec}))


def binding(metadata: Any = None, **spec: Any) -> JSONObject:
    plain = {"policyName": "$name", "validationActions": ["Deny"]}
    return _object("ValidatingAdmissionPolicyBinding", metadata, spec=_without_nothing({**plain, **spec}))


def mutating_binding(metadata: Any = None, **spec: Any) -> JSONObject:
    return _object("MutatingAdmissionPolicyBinding", metadata, spec=_without_nothing({"policyName": "$name", **spec}))


def _outcome(body: Any) -> Any:
    """Of a policy: all but what its controller says in its own time, and that it was it who said so."""
    if not isinstance(body, dict) or body.get("kind") != "ValidatingAdmissionPolicy":
        return body
    metadata = dict(body["metadata"])
    if "managedFields" in metadata:
        metadata["managedFields"] = [entry for entry in metadata["managedFields"] if entry.get("manager") != _CONTROLLER]
    return {**body, "metadata": metadata, "status": {"conditions": body["status"].get("conditions")}}


def request(method: str, of: str, rest: str, body: Any, **more: Any) -> Ask:
    """of: a kind. rest: what follows its plural in the path."""
    return ask(method, f"{GROUP_VERSION}/{PLURALS[of]}{rest}", body, pick=_outcome, **more)


def try_out(obj: JSONObject, query: str = "") -> list[Ask]:
    """Would this be taken?"""
    return [request("POST", obj["kind"], f"?dryRun=All{query}", obj)]


def change(before: JSONObject, *patches: Any, subresource: str = "", kind: str = MERGE_PATCH, query: str = "") -> list[Ask]:
    """Makes an object, asks for the outcome of each patch in turn, and removes it."""
    name = before["kind"]
    steps = [request("POST", name, "", before, compared=False)]
    steps += [request("PATCH", name, f"/$name{subresource}{query}", each, kind=kind) for each in patches]
    return [*steps, request("DELETE", name, "/$name", None, compared=False)]
