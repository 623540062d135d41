"""Cases for `test_same_answers.py`: webhook configurations, policies and bindings as clients read them, and in protobuf."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.comparison import Case, Cases, ask
from tests.integration.protobuf import encode_body
from tests.integration.registrations import (
    GROUP_VERSION,
    PLURALS,
    RULE,
    binding,
    mutating_binding,
    mutating_policy,
    mutating_webhooks,
    policy,
    request,
    validating_webhooks,
    webhook,
)

__all__ = ["CASES"]

_SELECTOR = {
    "matchLabels": {"b": "1", "a": ""},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "c", "operator": "Exists"}],
}
_TWO = validating_webhooks(webhook(), webhook(name="b.example.com", timeoutSeconds=3))
_APPLY_MUTATION = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
_JSON_PATCH_MUTATION = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/spec'}]"}}
_SERVICE = {"namespace": "ns", "name": "hook"}


def _without_status(body: Any) -> Any:
    """Without what the controller writes in its own time, wherever it is."""
    if isinstance(body, list):
        return [_without_status(each) for each in body if not (isinstance(each, dict) and each.get("type") == "MODIFIED")]
    if not isinstance(body, dict):
        return body
    entries = body.get("managedFields")
    return {
        key: _without_status([each for each in value if not each.get("subresource")] if value is entries else value)
        for key, value in body.items()
        if key != "status" or isinstance(value, str)
    }


_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def _table(obj: Any) -> Case:
    kind = obj["kind"]
    return [
        request("POST", kind, "", obj, compared=False),
        ask("GET", f"{GROUP_VERSION}/{PLURALS[kind]}/$name", accept=_TABLE, pick=_without_status),
        request("DELETE", kind, "/$name", None, compared=False),
    ]


_TABLES: Cases = {
    "validating-webhooks": _table(_TWO),
    "mutating-webhooks": _table(mutating_webhooks()),
    "policy": _table(policy(paramKind={"apiVersion": "example.com/v1", "kind": "Thing"})),
    "policy-plain": _table(policy(validations=None, auditAnnotations=[{"key": "a", "valueExpression": "'x'"}])),
    "mutating-policy": _table(mutating_policy()),
    "binding": _table(binding(paramRef={"name": "a", "parameterNotFoundAction": "Deny"})),
    "binding-plain": _table(binding()),
    "mutating-binding": _table(mutating_binding(paramRef={"name": "a", "namespace": "b", "parameterNotFoundAction": "Deny"})),
    "binding-selector": _table(binding(paramRef={"selector": _SELECTOR, "parameterNotFoundAction": "Deny"})),
}

_LIST = "?labelSelector=case%3D$name"


def _read(obj: Any) -> Case:
    kind, labels = obj["kind"], {"labels": {"case": "$name"}}
    steps = [request("POST", kind, "", {**obj, "metadata": {**obj["metadata"], **labels}}, compared=False)]
    for rest, accept in (
        ("/$name", "application/json"),
        ("/$name", "application/yaml"),
        (_LIST, "application/json"),
        (f"{_LIST}&fieldSelector=metadata.name%3D$name", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        (_LIST, _TABLE),
        ("?fieldSelector=spec.policyName%3Da", "application/json"),
        (f"{_LIST}&watch=true&timeoutSeconds=1", "application/json"),
    ):
        steps.append(ask("GET", f"{GROUP_VERSION}/{PLURALS[kind]}{rest}", accept=accept, pick=_without_status))
    return [*steps, ask("DELETE", f"{GROUP_VERSION}/{PLURALS[kind]}{_LIST}", pick=_without_status)]


def _in_protobuf(obj: Any) -> Case:
    """The name is in it with its length, so it is not the case's."""
    body = json.loads(json.dumps(obj).replace("$name", "in-protobuf"))
    where = f"{GROUP_VERSION}/{PLURALS[obj['kind']]}?dryRun=All"
    media_type = "application/vnd.kubernetes.protobuf"
    return [ask("POST", where, encode_body(body), kind=media_type, pick=_without_status)]


def _broken_in_protobuf(metadata: Any, broken: dict[bytes, bytes]) -> Case:
    """A namespace whose bytes are changed after they are encoded; the lengths stay."""
    body = encode_body({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "in-protobuf", **metadata}})
    for before, after in broken.items():
        assert len(before) == len(after)
        body = body.replace(before, after)
    where = "/api/v1/namespaces?dryRun=All"
    return [ask("POST", where, body, kind="application/vnd.kubernetes.protobuf", pick=_without_status)]


_MANAGER = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}
_BROKEN = {
    "text": _broken_in_protobuf({"annotations": {"a": "x123y"}}, {b"123": b"\xff\xe2\x82"}),
    "fields": _broken_in_protobuf({"managedFields": [_MANAGER]}, {b'{"f:a":{}}': b'{"f:a":{}!'}),
}


def _by_name(body: Any) -> Any:
    """Without the hashes of mutating policies and their bindings, which upstream stores in v1beta1."""
    resources = sorted(body["resources"], key=lambda resource: str(resource["name"]))
    for resource in resources:
        if resource["name"].startswith("mutatingadmission"):
            assert resource.pop("storageVersionHash")
    return {**body, "resources": resources}


_EVERY = {
    "validating-webhooks": _TWO,
    "mutating-webhooks": mutating_webhooks(
        webhook(clientConfig={"service": _SERVICE, "caBundle": "eA=="}, objectSelector=_SELECTOR)
    ),
    "policy": policy(
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        validations=[{"expression": "params == null", "message": "m", "reason": "Forbidden", "messageExpression": "'x'"}],
        variables=[{"name": "a", "expression": "1"}],
        auditAnnotations=[{"key": "a", "valueExpression": "'x'"}],
        matchConditions=[{"name": "a", "expression": "true"}],
    ),
    "mutating-policy": mutating_policy(mutations=[_APPLY_MUTATION, _JSON_PATCH_MUTATION]),
    "binding": binding(
        paramRef={"selector": _SELECTOR, "parameterNotFoundAction": "Deny"}, matchResources={"resourceRules": [RULE]}
    ),
    "mutating-binding": mutating_binding(paramRef={"name": "a", "namespace": "b", "parameterNotFoundAction": "Allow"}),
}

_DISCOVERY: Cases = {
    "group": [ask("GET", "/apis/admissionregistration.k8s.io")],
    "resources": [ask("GET", GROUP_VERSION, pick=_by_name)],
    "unknown-version": [ask("GET", "/apis/admissionregistration.k8s.io/v2")],
    "unknown-resource": [ask("GET", f"{GROUP_VERSION}/policies")],
    "post-to-name": [request("POST", "ValidatingAdmissionPolicy", "/$name", policy())],
    "put-collection": [request("PUT", "ValidatingAdmissionPolicy", "", policy())],
    "delete-status": [request("DELETE", "ValidatingAdmissionPolicy", "/$name/status", None)],
    "stranger": [ask("GET", f"{GROUP_VERSION}/validatingadmissionpolicies", stranger=True)],
}

CASES: Cases = {
    f"registered-{group}-{name}": case
    for group, cases in {
        "table": _TABLES,
        "read": {name: _read(obj) for name, obj in _EVERY.items()},
        "protobuf": {name: _in_protobuf(obj) for name, obj in _EVERY.items()},
        "broken": _BROKEN,
        "discovery": _DISCOVERY,
    }.items()
    for name, case in cases.items()
}
