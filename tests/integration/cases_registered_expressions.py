"""Cases for `test_same_answers.py`: the expressions of webhook configurations and policies, which must compile when written."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import Case, Cases
from tests.integration.registrations import (
    change,
    mutating_policy,
    mutating_webhooks,
    policy,
    try_out,
    validating_webhooks,
    webhook,
)

__all__ = ["CASES"]

# Of a validation; of a match condition, in a webhook and in a policy, where there are no variables.
_CONDITIONS = {
    "true": "true",
    "spaces": "  true\n ",
    "object": "object.spec.replicas > 5 && oldObject == null",
    "object-has": "has(object.spec) && !has(oldObject.spec)",
    "object-any": "object",
    "request": "request.operation == 'CREATE' && request.userInfo.username.startsWith('a') && !request.dryRun",
    "request-kind": "request.kind.group == '' && request.resource.resource == 'pods' && request.subResource == 'status'",
    "request-request": "request.requestKind.kind == 'A' && request.requestResource.version == request.requestSubResource",
    "request-names": "request.name + '/' + request.namespace == 'a/b'",
    "request-options": "request.options.fieldManager == 'x'",
    "request-groups": "'a' in request.userInfo.groups && request.userInfo.extra['a'][0] == 'b' && request.userInfo.uid == ''",
    "request-unknown": "request.uid == ''",
    "request-object": "request.object.a == 1",
    "request-type": "request.operation == 1",
    "namespace": "namespaceObject.metadata.labels['a'] == 'b' && namespaceObject.status.phase == 'Active'",
    "namespace-times": "namespaceObject.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')",
    "namespace-finalizers": "namespaceObject.spec.finalizers.size() > 0 && namespaceObject.metadata.generation > 1",
    "namespace-conditions": "namespaceObject.status.conditions.exists(c, c.type == 'a' && c.status == 'True')",
    "namespace-unknown": "namespaceObject.metadata.ownerReferences.size() == 0",
    "namespace-uid": "namespaceObject.metadata.uid == ''",
    "params": "params.a == 1",
    "authorizer": "authorizer.group('apps').resource('deployments').namespace('a').name('b').check('get').allowed()",
    "authorizer-path": "authorizer.path('/healthz').check('get').allowed()",
    "authorizer-service-account": "authorizer.serviceAccount('a', 'b').group('').resource('pods').check('create').reason() == ''",
    "authorizer-selectors": "authorizer.group('').resource('a').fieldSelector('a=b').labelSelector('c').check('list').allowed()",
    "authorizer-request": "authorizer.requestResource.check('update').errored()",
    "authorizer-error": "authorizer.requestResource.check('update').error() == 'x'",
    "authorizer-wrong": "authorizer.check('get').allowed()",
    "authorizer-unfinished": "authorizer.group('apps').resource('deployments')",
    "number": "1",
    "text": "'a'",
    "null": "null",
    "list": "[1, 2]",
    "map": "{'a': 1}",
    "optional": "optional.of(true)",
    "type": "type(1)",
    "duration": "duration('1s')",
    "bytes": "b'a'",
    "syntax": "object.",
    "syntax-lines": "object.a ==\n  1 +\n",
    "syntax-quote": "object.a == 'x",
    "syntax-two": "a b c",
    "undeclared": "self.a == foo",
    "undeclared-function": "object.a.frobnicate()",
    "no-overload": "1 + 'a' == 2",
    "no-overload-second-line": "true &&\n'a' > 1",
    "macro": "object.items.all(x, x.a == 1) && object.items.exists_one(x, x == 2)",
    "macro-wrong": "object.items.all(1, true)",
    "variables": "variables.a",
    "library-ip": "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
    "library-quantity": "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
    "library-semver": "semver('1.2.3').major() == 1",
    "library-format": "!format.dns1123Label().validate('a').hasValue()",
    "library-lists": "[1, 2].isSorted() && [3, 1].sum() == 4",
    "library-regex": "'abc'.find('[a-c]+') == 'abc' && 'a'.matches('^a$')",
    "library-regex-bad": "'a'.matches('(')",
    "library-url": "url('https://example.com/a').getHost() == 'example.com'",
    "library-sets": "sets.contains([1, 2], [1])",
    "library-strings": "'a b'.split(' ').join('-').upperAscii() == 'A-B' && 'x'.replace('x', 'y') == 'y'",
    "library-comprehensions": "{'a': 1}.transformList(k, v, k)[0] == 'a'",
    "library-json-patch": "jsonpatch.escapeKey('a/b') == 'a~1b'",
    "object-type": "Object{}.a == 1",
    "self-type": "object == Object{a: 1}",
    "deep": f"{'(' * 60}true{')' * 60}",
    "long-chain": " && ".join(["true"] * 300),
    "unknown-escape": r"'\q' == ''",
    "reserved": "object.namespace == object.package",
    "ternary": "object.a ? true : 'x'",
    "dyn-result": "dyn(true)",
}

_MESSAGES = {
    "text": "'a' + string(object.a)",
    "object": "object.a",
    "number": "1",
    "authorizer": "string(authorizer.path('/x').check('get').allowed())",
    "params": "params.a",
    "syntax": "'a' +",
    "variables": "variables.a",
    "spaces": "  'a'  ",
    "lines": "'a\\nb'",
}

_ANNOTATIONS = {
    "text": "'a'",
    "null": "null",
    "maybe": "object.a == 1 ? 'a' : null",
    "object": "object.a",
    "number": "  1 ",
    "bool": "true",
    "syntax": " 'a' + ",
    "authorizer": "authorizer.path('/x').check('get').reason()",
}

_MUTATIONS = {
    "apply": "Object{spec: Object.spec{replicas: 5}}",
    "apply-nested": "Object{metadata: Object.metadata{labels: Object.metadata.labels{a: 'b'}}}",
    "apply-unnamed": "Object{spec: {'replicas': 5}}",
    "apply-list": "Object{spec: Object.spec{items: [Object.spec.items{name: 'a'}]}}",
    "apply-other-object": "Object.spec{replicas: 1}",
    "apply-map": "{'a': 1}",
    "apply-object": "object",
    "apply-ternary": "object.a == 1 ? Object{} : Object{spec: Object.spec{a: 1}}",
    "apply-optional": "Object{?spec: optional.none()}",
    "apply-patch": "[JSONPatch{op: 'add', path: '/a', value: 1}]",
    "apply-variables": "Object{a: variables.x}",
    "apply-syntax": "Object{",
    "apply-params": "Object{a: params.x}",
    "apply-spaces": "\n  Object{ a : 1 }\n",
    "apply-any-type": "Other{a: 1}",
    "patch": "[JSONPatch{op: 'add', path: '/a', value: 1}, JSONPatch{op: 'move', from: '/a', path: '/b'}]",
    "patch-empty": "[]",
    "patch-one": "JSONPatch{op: 'remove', path: '/a'}",
    "patch-ternary": "object.a == 1 ? [JSONPatch{op: 'remove', path: '/a'}] : []",
    "patch-unknown-field": "[JSONPatch{op: 'remove', path: '/a', colour: 1}]",
    "patch-field-type": "[JSONPatch{op: 1, path: '/a'}]",
    "patch-value-object": "[JSONPatch{op: 'add', path: '/a', value: Object.spec{a: 1}}]",
    "patch-escape": "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'c'}]",
    "patch-authorizer": "authorizer.path('/x').check('get').allowed() ? [JSONPatch{op: 'remove', path: '/a'}] : []",
    "patch-strings": "['a']",
}

_VARIABLES: dict[str, tuple[Any, str]] = {
    # name: (variables, the validation)
    "used": ([("a", "1")], "variables.a == 1"),
    "of-others": ([("a", "object.x"), ("b", "variables.a + 1")], "variables.b > 1"),
    "before": ([("a", "variables.b"), ("b", "1")], "true"),
    "of-itself": ([("a", "variables.a")], "true"),
    "unknown": ([("a", "1")], "variables.b == 1"),
    "wrong-type": ([("a", "1")], "variables.a == 'x'"),
    "list": ([("a", "[1, 2]"), ("m", "{'k': [object]}")], "variables.a.all(x, x > 1) && variables.m['k'][0] == 1"),
    "list-type": ([("a", "['x']")], "variables.a[0] == 1"),
    "broken": ([("a", "object.")], "variables.a == 1"),
    "broken-type": ([("a", "1 + 'x'")], "variables.a == 1"),
    "twice": ([("a", "1"), ("a", "'x'")], "variables.a == 'x'"),
    "name-bad": ([("a-b", "1")], "true"),
    "name-reserved": ([("if", "1")], "variables.if == 1"),
    "authorizer": ([("a", "authorizer.group('').resource('pods')")], "variables.a.check('get').allowed()"),
    "request": ([("a", "request"), ("b", "namespaceObject")], "variables.a.name == variables.b.metadata.name"),
    "params": ([("a", "params.x")], "variables.a"),
    "has": ([("a", "1")], "has(variables.a)"),
    "has-unknown": ([("a", "1")], "has(variables.b)"),
    "whole": ([("a", "1")], "variables == 1"),
    "quantity": ([("a", "quantity('1')")], "variables.a.isGreaterThan(quantity('0'))"),
    "optional": ([("a", "optional.of(1)")], "variables.a.hasValue()"),
    "null": ([("a", "null")], "variables.a == null"),
    "spaces": ([("a", "  1 +\n 'x' ")], "true"),
}


def _validation(**members: Any) -> Case:
    return try_out(policy(validations=[{"expression": "true", **members}]))


def _in_policy(source: str, **more: Any) -> Case:
    return try_out(policy(validations=[{"expression": source}], **more))


def _in_conditions(source: str) -> list[dict[str, str]]:
    return [{"name": "a", "expression": source}]


def _mutation(name: str, source: str) -> Case:
    kind, part = ("JSONPatch", "jsonPatch") if name.startswith("patch") else ("ApplyConfiguration", "applyConfiguration")
    return try_out(mutating_policy(mutations=[{"patchType": kind, part: {"expression": source}}]))


def _variables(given: list[tuple[str, str]], source: str) -> Case:
    return try_out(
        policy(
            variables=[{"name": name, "expression": expression} for name, expression in given],
            validations=[{"expression": source}],
        )
    )


_PARAMS = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}

_WITH_PARAMS: Cases = {
    "validation": _in_policy("params.data.a == object.b", **_PARAMS),
    "condition": try_out(policy(matchConditions=_in_conditions("params.a == 1"), **_PARAMS)),
    "message": try_out(policy(validations=[{"expression": "true", "messageExpression": "params.a"}], **_PARAMS)),
    "mutation": try_out(
        mutating_policy(
            mutations=[{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{a: params.b}"}}],
            **_PARAMS,
        )
    ),
    "mutating-condition": try_out(mutating_policy(matchConditions=_in_conditions("params.a == 1"))),
}

_SEVERAL: Cases = {
    "all-places": try_out(
        policy(
            matchConditions=_in_conditions("1"),
            variables=[{"name": "a", "expression": "x"}],
            validations=[{"expression": "2", "messageExpression": "3"}, {"expression": "y."}],
            auditAnnotations=[{"key": "a", "valueExpression": "4"}],
        )
    ),
    "webhooks": try_out(
        mutating_webhooks(
            webhook(matchConditions=_in_conditions("x")),
            webhook(name="b.example.com", matchConditions=_in_conditions("variables.a")),
        )
    ),
    "long": try_out(policy(validations=[{"expression": "object.a == 'x' && " * 400 + "1"}])),
    "update": change(
        policy(),
        {"spec": {"validations": [{"expression": "1"}]}},
        {"spec": {"validations": [{"expression": "object.a"}], "matchConditions": _in_conditions("object.a.b")}},
        {"spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "matchConditions": _in_conditions("params.a")}},
        {"spec": {"paramKind": None}},
    ),
    "webhook-update": change(
        validating_webhooks(webhook(matchConditions=_in_conditions("true"))),
        {"webhooks": [webhook(matchConditions=_in_conditions("foo"))]},
        {"webhooks": [webhook(matchConditions=_in_conditions("object.a"))]},
    ),
}

CASES: Cases = {
    f"expression-{place}-{name}": case
    for place, cases in {
        "validation": {name: _in_policy(source) for name, source in _CONDITIONS.items()},
        "webhook": {
            name: try_out(validating_webhooks(webhook(matchConditions=_in_conditions(source))))
            for name, source in _CONDITIONS.items()
        },
        "condition": {name: try_out(policy(matchConditions=_in_conditions(source))) for name, source in _CONDITIONS.items()},
        "message": {name: _validation(messageExpression=source) for name, source in _MESSAGES.items()},
        "annotation": {
            name: try_out(policy(auditAnnotations=[{"key": "a", "valueExpression": source}]))
            for name, source in _ANNOTATIONS.items()
        },
        "mutation": {name: _mutation(name, source) for name, source in _MUTATIONS.items()},
        "variables": {name: _variables(*given) for name, given in _VARIABLES.items()},
        "params": _WITH_PARAMS,
        "several": _SEVERAL,
    }.items()
    for name, case in cases.items()
}
