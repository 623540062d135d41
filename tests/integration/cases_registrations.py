"""Cases for `test_same_answers.py`: webhook configurations, policies and bindings, good and bad, written and changed.

`registrations.py` says how. Their expressions are in `cases_registered_expressions.py`, reads in `cases_registered_reads.py`.
"""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import APPLY_PATCH, JSON_PATCH, Case, Cases
from tests.integration.registrations import (
    RULE,
    binding,
    change,
    mutating_binding,
    mutating_policy,
    mutating_webhooks,
    policy,
    request,
    try_out,
    validating_webhooks,
    webhook,
)

__all__ = ["CASES"]


def _hook(**members: Any) -> Case:
    return try_out(validating_webhooks(webhook(**members)))


def _mutating_hook(**members: Any) -> Case:
    return try_out(mutating_webhooks(webhook(**members)))


def _rule(**members: Any) -> Case:
    return _hook(rules=[{**RULE, **members}])


def _policy(**spec: Any) -> Case:
    return try_out(policy(**spec))


def _constraints(**members: Any) -> Case:
    return _policy(matchConstraints={"resourceRules": [RULE], **members})


def _named_rule(**members: Any) -> Case:
    return _constraints(resourceRules=[{**RULE, **members}])


_SERVICE = {"namespace": "ns", "name": "hook"}


def _service(**members: Any) -> Case:
    return _hook(clientConfig={"service": {**_SERVICE, **members}})


def _url(url: Any) -> Case:
    return _hook(clientConfig={"url": url})


def _expressions(*expressions: Any) -> dict[str, Any]:
    return {"matchExpressions": list(expressions)}


_IN = {"key": "a", "operator": "In", "values": ["b"]}

_SELECTORS: dict[str, Any] = {
    "empty": {},
    "labels": {"matchLabels": {"a": "b", "example.com/c": ""}},
    "labels-bad": {"matchLabels": {"a b": "c d"}},
    "expressions": _expressions(_IN, {"key": "c", "operator": "DoesNotExist"}),
    "no-values": _expressions({"key": "a", "operator": "NotIn"}),
    "exists-with-values": _expressions({**_IN, "operator": "Exists"}),
    "operator-unknown": _expressions({**_IN, "operator": "in"}),
    "operator-missing": _expressions({"key": "a"}),
    "key-bad": _expressions({**_IN, "key": "-a"}),
    "key-missing": _expressions({"operator": "Exists"}),
    "values-bad": _expressions({**_IN, "values": ["b c", "b", "-"]}),
    "null": None,
    "text": "a=b",
}

_RULES: dict[str, Any] = {
    "no-operations": {"operations": []},
    "operations-unknown": {"operations": ["create", "PATCH"]},
    "operations-all-and-more": {"operations": ["*", "CREATE"]},
    "operations-connect": {"operations": ["CONNECT", "DELETE"]},
    "operations-twice": {"operations": ["CREATE", "CREATE"]},
    "no-groups": {"apiGroups": None},
    "groups-all-and-more": {"apiGroups": ["", "*"]},
    "groups-odd": {"apiGroups": ["A b"]},
    "no-versions": {"apiVersions": []},
    "versions-all-and-more": {"apiVersions": ["*", "v1"]},
    "versions-empty": {"apiVersions": ["v1", ""]},
    "no-resources": {"resources": []},
    "resources-empty": {"resources": [""]},
    "resources-all": {"resources": ["*"]},
    "resources-all-and-more": {"resources": ["*", "things"]},
    "resources-more-and-all": {"resources": ["things", "*"]},
    "resources-all-and-subresources": {"resources": ["*", "things/status"]},
    "resources-double": {"resources": ["*/*"]},
    "resources-double-and-more": {"resources": ["*/*", "things"]},
    "resources-all-subresources": {"resources": ["things/*", "things/status"]},
    "resources-subresource-of-all": {"resources": ["*/status", "things/status", "others/status"]},
    "resources-three-parts": {"resources": ["a/b/c", "/", "a/"]},
    "resources-text": {"resources": "things"},
    "scope": {"scope": "Namespaced"},
    "scope-unknown": {"scope": "namespaced"},
    "scope-empty": {"scope": ""},
    "several-wrong": {"operations": [], "apiGroups": [], "apiVersions": [], "resources": [], "scope": "x"},
}

_WEBHOOKS: Cases = {
    "plain": _hook(),
    "mutating": _mutating_hook(),
    "none": try_out(validating_webhooks()),
    "null": try_out({**validating_webhooks(), "webhooks": None}),
    "name-missing": _hook(name=None),
    "name-two-parts": _hook(name="hook.com"),
    "name-bad": _hook(name="Hook.example.com"),
    "names-twice": try_out(validating_webhooks(webhook(), webhook(), webhook(name="other.example.com"))),
    "mutating-names-twice": try_out(mutating_webhooks(webhook(), webhook(), webhook())),
    "metadata-name-bad": try_out(validating_webhooks(webhook(), metadata={"name": "A_b"})),
    "metadata-name-missing": try_out(validating_webhooks(webhook(), metadata={"name": None})),
    "metadata-generate-name": try_out(mutating_webhooks(webhook(), metadata={"name": None, "generateName": "generated-"})),
    "metadata-labels-bad": try_out(validating_webhooks(metadata={"labels": {"a b": "c"}, "annotations": {"A b": "c"}})),
    "metadata-namespace": try_out(validating_webhooks(metadata={"namespace": "default"})),
    "metadata-generation": try_out(validating_webhooks(metadata={"generation": 7})),
    "static-name": try_out(validating_webhooks(webhook(), metadata={"name": "$name.static.k8s.io"})),
    "failure-policy": _hook(failurePolicy="Ignore"),
    "failure-policy-unknown": _hook(failurePolicy="ignore"),
    "failure-policy-empty": _hook(failurePolicy=""),
    "match-policy": _hook(matchPolicy="Exact"),
    "match-policy-unknown": _hook(matchPolicy="equivalent"),
    "side-effects-missing": _hook(sideEffects=None),
    "side-effects-some": _hook(sideEffects="Some"),
    "side-effects-unknown": _hook(sideEffects="Unknown"),
    "side-effects-dry-run": _hook(sideEffects="NoneOnDryRun"),
    "timeout": _hook(timeoutSeconds=30),
    "timeout-zero": _hook(timeoutSeconds=0),
    "timeout-long": _hook(timeoutSeconds=31),
    "timeout-text": _hook(timeoutSeconds="5"),
    "timeout-fraction": _hook(timeoutSeconds=1.5),
    "reinvocation": _mutating_hook(reinvocationPolicy="IfNeeded"),
    "reinvocation-unknown": _mutating_hook(reinvocationPolicy="Always"),
    "reinvocation-of-validating": _hook(reinvocationPolicy="IfNeeded"),
    "versions-missing": _hook(admissionReviewVersions=None),
    "versions-empty": _hook(admissionReviewVersions=[]),
    "versions-both": _hook(admissionReviewVersions=["v1", "v1beta1"]),
    "versions-unknown": _hook(admissionReviewVersions=["v2", "v3"]),
    "versions-bad": _hook(admissionReviewVersions=["v1", "v1", "V!"]),
    "no-rules": _hook(rules=None),
    "rules-two": _hook(rules=[RULE, {}]),
    "no-config": _hook(clientConfig=None),
    "config-empty": _hook(clientConfig={}),
    "config-both": _hook(clientConfig={"url": "https://example.com", "service": _SERVICE}),
    "config-bundle": _hook(clientConfig={"url": "https://example.com", "caBundle": "eA=="}),
    "url-http": _url("http://example.com"),
    "url-no-host": _url("https:///a"),
    "url-empty": _url(""),
    "url-relative": _url("example.com/x"),
    "url-user-query-fragment": _url("https://u:p@example.com/?a=b#c"),
    "url-port": _url("https://example.com:8443/x"),
    "service": _service(path="/a/b", port=8443),
    "service-plain": _service(),
    "service-empty": _service(namespace="", name=""),
    "service-no-name": _service(name=""),
    "service-port-zero": _service(port=0),
    "service-port-high": _service(port=65536),
    "service-path": _service(path="a//B"),
    "service-path-slashes": _service(path="//"),
    "service-path-slash": _service(path="/"),
    "several-wrong": try_out(mutating_webhooks(webhook(name="", failurePolicy="x", timeoutSeconds=99), webhook(sideEffects="x"))),
    "unknown-field": try_out(validating_webhooks(webhook(colour="x")), "&fieldValidation=Warn"),
    "unknown-field-strict": try_out(mutating_webhooks(webhook(rules=[{**RULE, "x": 1}])), "&fieldValidation=Strict"),
    "spec-of-webhooks": try_out({**validating_webhooks(webhook()), "spec": {}}, "&fieldValidation=Strict"),
    "webhooks-an-object": try_out({**validating_webhooks(), "webhooks": {}}),
    "other-kind": [request("POST", "ValidatingWebhookConfiguration", "?dryRun=All", mutating_webhooks())],
    "conditions": _hook(matchConditions=[{"name": "a", "expression": "true"}, {"name": "example.com/b", "expression": "true"}]),
    "conditions-no-name": _hook(matchConditions=[{"expression": "true"}]),
    "conditions-name-bad": _hook(matchConditions=[{"name": "a b", "expression": "true"}]),
    "conditions-names-twice": _hook(matchConditions=[{"name": "a", "expression": "true"}] * 3),
    "conditions-no-expression": _mutating_hook(matchConditions=[{"name": "a"}, {"name": "b", "expression": " \n"}]),
    "conditions-65": _hook(matchConditions=[{"name": f"a{n}", "expression": "true"} for n in range(65)]),
}

_POLICIES: Cases = {
    "plain": _policy(),
    "no-spec": try_out({**policy(), "spec": None}),
    "spec-empty": try_out({**policy(), "spec": {}}),
    "status-given": try_out(policy(status={"observedGeneration": 7})),
    "failure-policy": _policy(failurePolicy="Ignore"),
    "failure-policy-unknown": _policy(failurePolicy="x"),
    "no-constraints": _policy(matchConstraints=None),
    "constraints-empty": _policy(matchConstraints={}),
    "constraints-match-policy": _constraints(matchPolicy="Exact"),
    "constraints-match-policy-unknown": _constraints(matchPolicy="exact"),
    "constraints-exclude": _constraints(excludeResourceRules=[{**RULE, "resourceNames": ["a"]}]),
    "constraints-exclude-bad": _constraints(excludeResourceRules=[{"resourceNames": ["a/b", "..", "a", "a"]}]),
    "resource-names": _named_rule(resourceNames=["a", "B c"]),
    "resource-names-bad": _named_rule(resourceNames=["", "a/b", "%", ".", "a", "a"]),
    "param-kind": _policy(paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
    "param-kind-group": _policy(paramKind={"apiVersion": "example.com/v1alpha1", "kind": "Thing"}),
    "param-kind-empty": _policy(paramKind={}),
    "param-kind-no-version": _policy(paramKind={"apiVersion": "example.com/", "kind": "Thing"}),
    "param-kind-slash": _policy(paramKind={"apiVersion": "/", "kind": "Thing"}),
    "param-kind-slashes": _policy(paramKind={"apiVersion": "a/b/c", "kind": "Thing"}),
    "param-kind-group-bad": _policy(paramKind={"apiVersion": "Example.com/V1", "kind": "1Thing"}),
    "no-validations": _policy(validations=None),
    "validations-empty": _policy(validations=[]),
    "annotations-only": _policy(validations=None, auditAnnotations=[{"key": "a", "valueExpression": "'x'"}]),
    "no-expression": _policy(validations=[{}, {"expression": " "}]),
    "message": _policy(validations=[{"expression": "true", "message": "no", "reason": "Forbidden"}]),
    "message-blank": _policy(validations=[{"expression": "true", "message": " \t"}]),
    "message-lines": _policy(validations=[{"expression": "true", "message": "a\nb"}]),
    "message-line-at-end": _policy(validations=[{"expression": "true", "message": "a\n"}]),
    "message-expression-blank": _policy(validations=[{"expression": "true", "messageExpression": "  "}]),
    "reason-unknown": _policy(validations=[{"expression": "true", "reason": "NotFound"}]),
    "reason-empty": _policy(validations=[{"expression": "true", "reason": ""}]),
    "reason-too-large": _policy(validations=[{"expression": "true", "reason": "RequestEntityTooLarge"}]),
    "annotations": _policy(auditAnnotations=[{"key": "a", "valueExpression": "'x'"}, {"key": "b", "valueExpression": "null"}]),
    "annotations-key-bad": _policy(auditAnnotations=[{"key": "a b", "valueExpression": "'x'"}, {"valueExpression": "'x'"}]),
    "annotations-twice": _policy(auditAnnotations=[{"key": "a", "valueExpression": "'x'"}] * 2),
    "annotations-no-expression": _policy(auditAnnotations=[{"key": "a"}, {"key": "b", "valueExpression": " "}]),
    "annotations-long": _policy(auditAnnotations=[{"key": "a", "valueExpression": f"'{'x' * 5120}'"}]),
    "annotations-21": _policy(auditAnnotations=[{"key": f"a{n}", "valueExpression": "'<x>'"} for n in range(21)]),
    "annotations-generate-name": try_out(
        policy({"name": None, "generateName": "generated-"}, auditAnnotations=[{"key": "a", "valueExpression": "'x'"}])
    ),
    "variables": _policy(variables=[{"name": "a", "expression": "1"}, {"name": "_b", "expression": "2"}]),
    "variables-name-bad": _policy(variables=[{"name": "a-b", "expression": "1"}, {"name": "in", "expression": "1"}]),
    "variables-empty": _policy(variables=[{}, {"name": " ", "expression": " "}]),
    "conditions": _policy(matchConditions=[{"name": "a", "expression": "true"}, {"name": "", "expression": ""}]),
    "static-name": try_out(policy({"name": "$name.static.k8s.io"})),
    "name-bad": try_out(policy({"name": "A"})),
    "several-wrong": _policy(failurePolicy="x", paramKind={}, matchConstraints=None, validations=None, matchConditions=[{}]),
    "unknown-field": try_out(policy(colour="x"), "&fieldValidation=Strict"),
    "expression-a-number": _policy(validations=[{"expression": 1}]),
}

_JSON_PATCH_MUTATION = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/spec'}]"}}
_APPLY_MUTATION = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}


def _mutations(*mutations: Any) -> Case:
    return try_out(mutating_policy(mutations=list(mutations)))


_MUTATING: Cases = {
    "plain": try_out(mutating_policy()),
    "spec-empty": try_out({**mutating_policy(), "spec": {}}),
    "json-patch": _mutations(_JSON_PATCH_MUTATION),
    "both": _mutations(_APPLY_MUTATION, _JSON_PATCH_MUTATION),
    "none": _mutations(),
    "no-type": _mutations({"jsonPatch": {"expression": "[]"}}),
    "type-unknown": _mutations({"patchType": "Merge"}),
    "no-json-patch": _mutations({"patchType": "JSONPatch"}),
    "no-apply": _mutations({"patchType": "ApplyConfiguration"}),
    "json-patch-with-apply": _mutations({**_JSON_PATCH_MUTATION, "applyConfiguration": {}}),
    "apply-with-json-patch": _mutations({**_APPLY_MUTATION, "jsonPatch": {"expression": "[]"}}),
    "expression-empty": _mutations({"patchType": "JSONPatch", "jsonPatch": {}}),
    "expression-blank": _mutations({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": " "}}),
    "no-reinvocation": try_out(mutating_policy(reinvocationPolicy=None)),
    "reinvocation-unknown": try_out(mutating_policy(reinvocationPolicy="Always")),
    "reinvocation": try_out(mutating_policy(reinvocationPolicy="IfNeeded")),
    "failure-policy-unknown": try_out(mutating_policy(failurePolicy="x")),
    "param-kind": try_out(mutating_policy(paramKind={"apiVersion": "v1", "kind": "ConfigMap"})),
    "delete": try_out(mutating_policy(matchConstraints={"resourceRules": [{**RULE, "operations": ["DELETE", "CREATE"]}]})),
    "connect": try_out(mutating_policy(matchConstraints={"resourceRules": [{**RULE, "operations": ["CONNECT"]}]})),
    "exclude-delete": try_out(
        mutating_policy(matchConstraints={"resourceRules": [RULE], "excludeResourceRules": [{**RULE, "operations": ["DELETE"]}]})
    ),
    "operation-unknown": try_out(mutating_policy(matchConstraints={"resourceRules": [{**RULE, "operations": ["x"]}]})),
    "no-constraints": try_out(mutating_policy(matchConstraints=None)),
    "variables": try_out(mutating_policy(variables=[{"name": "a", "expression": "1"}, {"name": "a b", "expression": ""}])),
    "several-wrong": try_out(mutating_policy(mutations=None, reinvocationPolicy="x", matchConstraints={})),
}


def _param_ref(**members: Any) -> Case:
    return try_out(binding(paramRef={"parameterNotFoundAction": "Deny", **members}))


_BINDINGS: Cases = {
    "plain": try_out(binding()),
    "mutating": try_out(mutating_binding()),
    "no-spec": try_out({**binding(), "spec": None}),
    "mutating-no-spec": try_out({**mutating_binding(), "spec": None}),
    "policy-name-bad": try_out(binding(policyName="A b")),
    "no-actions": try_out(binding(validationActions=None)),
    "actions-empty": try_out(binding(validationActions=[])),
    "actions": try_out(binding(validationActions=["Warn", "Audit"])),
    "actions-deny-warn": try_out(binding(validationActions=["Deny", "Warn"])),
    "actions-unknown": try_out(binding(validationActions=["deny", ""])),
    "actions-twice": try_out(binding(validationActions=["Deny", "Deny", "Audit", "Audit"])),
    "actions-of-mutating": try_out(mutating_binding(validationActions=["Deny"]), "&fieldValidation=Strict"),
    "param-name": _param_ref(name="a", namespace="b"),
    "param-name-bad": _param_ref(name="a/b"),
    "param-selector": _param_ref(selector={"matchLabels": {"a": "b"}}),
    "param-selector-empty": _param_ref(selector={}),
    "param-selector-bad": _param_ref(selector=_expressions({"key": "", "operator": "x"})),
    "param-both": _param_ref(name="a", selector={}),
    "param-none": _param_ref(),
    "param-empty": try_out(binding(paramRef={})),
    "param-no-action": try_out(binding(paramRef={"name": "a"})),
    "param-action-unknown": _param_ref(name="a", parameterNotFoundAction="deny"),
    "param-allow": _param_ref(name="a", parameterNotFoundAction="Allow"),
    "mutating-param": try_out(mutating_binding(paramRef={"name": "a", "selector": {}})),
    "resources": try_out(binding(matchResources={"resourceRules": [RULE]})),
    "resources-empty": try_out(binding(matchResources={})),
    "resources-bad": try_out(binding(matchResources={"matchPolicy": "x", "resourceRules": [{}]})),
    "mutating-resources": try_out(mutating_binding(matchResources={"resourceRules": [{**RULE, "operations": ["DELETE"]}]})),
    "mutating-resources-all": try_out(mutating_binding(matchResources={"resourceRules": [{**RULE, "operations": ["*"]}]})),
    "static-name": try_out(binding({"name": "$name.static.k8s.io"})),
    "several-wrong": try_out(binding(policyName="", paramRef={}, validationActions=[], matchResources={"matchPolicy": ""})),
}


def _webhooks(*webhooks: Any) -> dict[str, Any]:
    return {"webhooks": list(webhooks)}


def _apply(obj: Any, *more: Any) -> Case:
    """Applies each in turn, as the same manager, and removes the object."""
    kind = obj["kind"]
    steps = [request("PATCH", kind, "/$name?fieldManager=m&force=true", each, kind=APPLY_PATCH) for each in (obj, *more)]
    return [*steps, request("DELETE", kind, "/$name", None, compared=False)]


_TWO = validating_webhooks(webhook(), webhook(name="b.example.com", timeoutSeconds=3))

_UPDATES: Cases = {
    "no-change": change(_TWO, {}),
    "labels": change(_TWO, {"metadata": {"labels": {"a": "b"}}}),
    "labels-bad": change(_TWO, {"metadata": {"labels": {"a b": "c"}}}),
    "finalizers-bad": change(_TWO, {"metadata": {"finalizers": ["a b"]}}),
    "webhooks": change(_TWO, _webhooks(webhook(name="c.example.com", failurePolicy="Ignore"))),
    "webhooks-bad": change(_TWO, _webhooks(webhook(name="c", failurePolicy="x"))),
    "no-webhooks": change(_TWO, {"webhooks": None}),
    "json-patch": change(_TWO, [{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 4}], kind=JSON_PATCH),
    "generation-lower": change(_TWO, _webhooks(webhook()), {"metadata": {"generation": 1}}),
    "policy": change(policy(), {"spec": {"failurePolicy": "Ignore"}}, {"metadata": {"labels": {"a": "b"}}}),
    "policy-bad": change(policy(), {"spec": {"matchConstraints": None, "validations": []}}),
    "policy-status-ignored": change(policy(), {"status": {"conditions": [{"type": "x"}]}}),
    "mutating-policy": change(mutating_policy(), {"spec": {"reinvocationPolicy": "IfNeeded"}}, {"spec": {"mutations": []}}),
    "binding": change(binding(), {"spec": {"validationActions": ["Audit"]}}, {"spec": {"policyName": ""}}),
    "binding-actions": change(binding(), {"spec": {"validationActions": ["Warn", "Deny"]}}),
    "mutating-binding": change(mutating_binding(), {"spec": {"policyName": "other"}}, {"spec": {"paramRef": {}}}),
    "static-name-missing": [request("GET", "ValidatingAdmissionPolicy", "/$name.static.k8s.io", None)],
    "put-without-revision": [
        request("POST", "ValidatingWebhookConfiguration", "", _TWO, compared=False),
        request("PUT", "ValidatingWebhookConfiguration", "/$name", _TWO),
        request("DELETE", "ValidatingWebhookConfiguration", "/$name", None),
    ],
    "create-twice": [
        request("POST", "MutatingAdmissionPolicyBinding", "", mutating_binding(), compared=False),
        request("POST", "MutatingAdmissionPolicyBinding", "", mutating_binding()),
        request("DELETE", "MutatingAdmissionPolicyBinding", "/$name", None),
    ],
    "delete-missing": [request("DELETE", "ValidatingAdmissionPolicy", "/$name", None)],
    "get-missing": [request("GET", "MutatingAdmissionPolicy", "/$name", None)],
    "status-of-mutating": [request("GET", "MutatingAdmissionPolicy", "/$name/status", None)],
    "apply": _apply(_TWO, validating_webhooks(webhook(timeoutSeconds=5))),
    "apply-order": _apply(_TWO, validating_webhooks(webhook(name="b.example.com"), webhook(name="a.example.com"), webhook())),
    "apply-policy": _apply(
        policy(variables=[{"name": "a", "expression": "1"}, {"name": "b", "expression": "2"}]),
        policy(variables=[{"name": "b", "expression": "3"}], matchConditions=[{"name": "c", "expression": "true"}]),
    ),
    "apply-mutating-policy": _apply(
        mutating_policy(variables=[{"name": "a", "expression": "1"}]),
        mutating_policy(variables=[{"name": "b", "expression": "2"}]),
    ),
    "apply-binding": _apply(binding(validationActions=["Deny", "Audit"]), binding(validationActions=["Warn"], paramRef=None)),
    "apply-mutating-binding": _apply(
        mutating_binding(paramRef={"name": "a", "parameterNotFoundAction": "Deny"}),
        mutating_binding(paramRef={"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Allow"}),
    ),
    "apply-twice-in-list": _apply(validating_webhooks(webhook(), webhook()))[:1],
    "apply-bad": _apply(policy(failurePolicy="x"))[:1],
    "apply-unknown-field": _apply(policy(colour="x"))[:1],
}

_CONDITION = {"type": "Ready", "status": "True", "reason": "Good", "lastTransitionTime": "2026-01-02T03:04:05Z", "message": ""}


def _status(status: Any) -> Case:
    return change(policy(), {"status": status}, subresource="/status")


def _condition(**members: Any) -> Case:
    return _status({"conditions": [{name: value for name, value in {**_CONDITION, **members}.items() if value is not None}]})


_STATUS: Cases = {
    "condition": _condition(),
    "condition-no-message": _condition(message=None),
    "condition-status": _condition(status="yes"),
    "condition-type": _condition(type="a b"),
    "condition-generation": _condition(observedGeneration=-1),
    "condition-no-time": _condition(lastTransitionTime=None),
    "condition-no-reason": _condition(reason=None),
    "condition-reason": _condition(reason="not good"),
    "condition-reason-long": _condition(reason="x" * 1025),
    "condition-message-long": _condition(message="x" * 32769),
    "condition-empty": _status({"conditions": [{}]}),
    "condition-twice": _status({"conditions": [_CONDITION, _CONDITION]}),
    "warning-empty": _status({"typeChecking": {"expressionWarnings": [{}]}}),
    "warning-path": _status({"typeChecking": {"expressionWarnings": [{"fieldRef": "spec[", "warning": "x"}]}}),
    "spec-ignored": change(
        policy(),
        {"spec": {"failurePolicy": "x"}, "metadata": {"labels": {"a": "b"}}, "status": {"conditions": [_CONDITION]}},
        subresource="/status",
    ),
    "apply": [
        request("POST", "ValidatingAdmissionPolicy", "", policy(), compared=False),
        request(
            "PATCH",
            "ValidatingAdmissionPolicy",
            "/$name/status?fieldManager=m",
            {**policy(), "spec": {}, "status": {"conditions": [_CONDITION]}},
            kind=APPLY_PATCH,
        ),
        request("DELETE", "ValidatingAdmissionPolicy", "/$name", None, compared=False),
    ],
}

CASES: Cases = {
    f"registered-{group}-{name}": case
    for group, cases in {
        "webhook": _WEBHOOKS,
        "webhook-selector": {name: _hook(namespaceSelector=value, objectSelector=value) for name, value in _SELECTORS.items()},
        "webhook-rule": {name: _rule(**members) for name, members in _RULES.items()},
        "policy": _POLICIES,
        "policy-selector": {
            name: _constraints(namespaceSelector=value, objectSelector=value) for name, value in _SELECTORS.items()
        },
        "policy-rule": {name: _named_rule(**members) for name, members in _RULES.items()},
        "mutating": _MUTATING,
        "binding": _BINDINGS,
        "update": _UPDATES,
        "status": _STATUS,
    }.items()
    for name, case in cases.items()
}
