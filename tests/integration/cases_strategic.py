"""Cases for `test_same_answers.py`: strategic merge patches of the kinds that have Go types, which kubectl sends for them."""

from __future__ import annotations

from typing import Any

from aggserver.meta.json_types import JSONObject
from tests.integration.comparison import Case, Cases, ask, post, thing
from tests.integration.definitions import change as change_definition
from tests.integration.definitions import crd
from tests.integration.registrations import binding, change, mutating_policy, policy, validating_webhooks, webhook

__all__ = ["CASES"]

STRATEGIC_PATCH = "application/strategic-merge-patch+json"


def _hooks(*names: str, **members: Any) -> JSONObject:
    return validating_webhooks(*(webhook(name=f"{name}.example.com", **members) for name in names))


def _hook(name: str, **members: Any) -> JSONObject:
    return {"name": f"{name}.example.com", **members}


def _order(*names: str) -> list[JSONObject]:
    return [_hook(name) for name in names]


def _patched(before: JSONObject, *patches: Any, **more: Any) -> Case:
    return change(before, *patches, kind=STRATEGIC_PATCH, **more)


def _webhooks(*patches: Any, **more: Any) -> Case:
    return _patched(_hooks("a", "b", "c"), *patches, **more)


_VARIABLES = [{"name": name, "expression": "1"} for name in ("a", "b", "c")]

_WEBHOOKS: Cases = {
    "nothing": _webhooks({}),
    "null": _webhooks("null"),
    "no-object": _webhooks([]),
    "text": _webhooks("x"),
    "member": _webhooks({"webhooks": [_hook("b", timeoutSeconds=3)]}),
    "add": _webhooks({"webhooks": [webhook(name="d.example.com")]}),
    "add-and-change": _webhooks({"webhooks": [webhook(name="d.example.com"), _hook("a", failurePolicy="Ignore")]}),
    "delete": _webhooks({"webhooks": [_hook("b", **{"$patch": "delete"})]}),
    "delete-unknown": _webhooks({"webhooks": [_hook("x", **{"$patch": "delete"})]}),
    "replace": _webhooks({"webhooks": [{"$patch": "replace"}, webhook(name="z.example.com")]}),
    "merge": _webhooks({"webhooks": [_hook("b", **{"$patch": "merge"})]}),
    "directive-unknown": _webhooks({"webhooks": [_hook("b", **{"$patch": "drop"})]}),
    "no-key": _webhooks({"webhooks": [{"timeoutSeconds": 3}]}),
    "empty": _webhooks({"webhooks": []}),
    "null-list": _webhooks({"webhooks": None}),
    "other-type": _webhooks({"webhooks": {}}),
    "items-mixed": _webhooks({"webhooks": ["a"]}),
    "order": _webhooks({"$setElementOrder/webhooks": _order("c", "b", "a")}),
    "order-some": _webhooks({"$setElementOrder/webhooks": _order("c", "a")}),
    "order-and-change": _webhooks(
        {"$setElementOrder/webhooks": _order("d", "a"), "webhooks": [webhook(name="d.example.com"), _hook("a", timeoutSeconds=2)]}
    ),
    "order-and-delete": _webhooks(
        {"$setElementOrder/webhooks": _order("c"), "webhooks": [_hook("c", timeoutSeconds=2), _hook("a", **{"$patch": "delete"})]}
    ),
    "order-not-of-patch": _webhooks({"$setElementOrder/webhooks": _order("a"), "webhooks": [_hook("b", timeoutSeconds=2)]}),
    "order-no-list": _webhooks({"$setElementOrder/webhooks": "a"}),
    "nested": _patched(
        validating_webhooks(webhook(matchConditions=[{"name": "a", "expression": "true"}, {"name": "b", "expression": "true"}])),
        {"webhooks": [_hook("hook", matchConditions=[{"name": "b", "expression": "false"}])]},
        {"webhooks": [_hook("hook", matchConditions=[{"name": "a", "$patch": "delete"}], clientConfig={"url": None})]},
    ),
    "retain-keys": _webhooks({"webhooks": [_hook("a", **{"$retainKeys": ["name"]})]}),
    "retain-keys-unknown": _webhooks({"metadata": {"labels": {"a": "b", "$retainKeys": ["c"]}}}),
    "retain-labels": _patched(
        validating_webhooks(metadata={"labels": {"a": "b", "c": "d"}}),
        {"metadata": {"labels": {"e": "f", "$retainKeys": ["e", "c"]}}},
    ),
    "replace-labels": _patched(
        validating_webhooks(metadata={"labels": {"a": "b"}}), {"metadata": {"labels": {"e": "f", "$patch": "replace"}}}
    ),
    "delete-labels": _patched(
        validating_webhooks(metadata={"labels": {"a": "b"}}), {"metadata": {"labels": {"$patch": "delete"}}}
    ),
    "unknown-field": _webhooks({"colour": {"a": [1, "b", None, True]}}, query="?fieldValidation=Strict"),
    "unknown-field-warn": _webhooks({"webhooks": [_hook("a", colour=1)]}, query="?fieldValidation=Warn"),
    "finalizers": _patched(
        validating_webhooks(metadata={"finalizers": ["example.com/a", "example.com/b"]}),
        {"metadata": {"finalizers": ["example.com/c"]}},
        {"metadata": {"$setElementOrder/finalizers": ["example.com/c", "example.com/a"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a", "example.com/b", "example.com/c"]}},
    ),
}

_OTHERS: Cases = {
    "variables": _patched(
        policy(variables=_VARIABLES),
        {"spec": {"variables": [{"name": "b", "expression": "2"}], "$setElementOrder/variables": [{"name": "b"}, {"name": "c"}]}},
        {"spec": {"validations": [{"expression": "false"}]}},
    ),
    "atomic-variables": _patched(
        mutating_policy(variables=_VARIABLES), {"spec": {"variables": [{"name": "d", "expression": "1"}]}}
    ),
    "actions": _patched(binding(validationActions=["Deny", "Audit"]), {"spec": {"validationActions": ["Warn"]}}),
    "status": _patched(policy(), {"status": {"conditions": []}}, subresource="/status"),
    "definition": change_definition(crd(), {"spec": {"names": {"shortNames": ["w"]}}}, kind=STRATEGIC_PATCH),
    "definition-versions": change_definition(crd(), {"spec": {"versions": []}}, kind=STRATEGIC_PATCH),
    "namespace": [
        ask("POST", "/api/v1/namespaces", {"metadata": {"name": "$name"}}, compared=False),
        ask("PATCH", "/api/v1/namespaces/$name", {"metadata": {"labels": {"a": "b"}}}, kind=STRATEGIC_PATCH),
        ask("DELETE", "/api/v1/namespaces/$name", compared=False),
    ],
    "custom-resource": [
        post(thing(), compared=False),
        ask("PATCH", "/apis/compare.example.com/v1/namespaces/same/things/$name", {}, kind=STRATEGIC_PATCH),
    ],
    "type-unknown": [ask("PATCH", "/api/v1/namespaces/same", {}, kind="application/x")],
}

_MANY = [f"k{number}" for number in range(2000)]
_NAMED = [{"name": name} for name in _MANY]


def _elsewhere(name: str, number: int) -> JSONObject:
    return {"name": name, "namespace": f"n{number}"}


def _core(resource: str, before: JSONObject, *patches: Any) -> Case:
    folder = f"/api/v1/namespaces/same/{resource}"
    made = ask("POST", folder, {"metadata": {"name": "$name"}, **before}, compared=False)
    return [made, *(ask("PATCH", f"{folder}/$name", each, kind=STRATEGIC_PATCH) for each in patches)]


# Lists of thousands, whose names are looked up: ServiceAccounts have a list that is merged by name, and no rules about it.
_LONG: Cases = {
    "many-retained-keys": _core(
        "configmaps",
        {"data": dict.fromkeys(_MANY, "a")},
        {"data": {"$retainKeys": [*_MANY[1000:], "new"], **dict.fromkeys(_MANY[1500:], "b")}},
        {"data": {"$retainKeys": [*_MANY, 1, None, True]}},
        {"data": {"$retainKeys": ["new"], "k1": "c"}},
    ),
    "many-deleted": _core(
        "serviceaccounts",
        {"secrets": _NAMED},
        {"secrets": [{**each, "$patch": "delete"} for each in _NAMED[::-2]]},
        {"secrets": [{**_NAMED[0], "$patch": "delete"}, *_NAMED[:2], {"$patch": "replace"}]},
    ),
    "many-in-order": _core(
        "serviceaccounts",
        {"secrets": _NAMED},
        {"$setElementOrder/secrets": _NAMED[::-1]},
        {
            "$setElementOrder/secrets": _NAMED[::3],
            "secrets": [_elsewhere("k0", 1), _elsewhere("k3", 2)],
        },
        {"secrets": [{"name": f"new-{number}"} for number in range(1000)]},
    ),
    "the-same-again-and-again": _core(
        "serviceaccounts",
        {"secrets": _NAMED[:10]},
        {"secrets": [_elsewhere("k1", number) for number in range(1000)]},
    ),
    "many-finalizers": _patched(
        validating_webhooks(metadata={"finalizers": [f"example.com/{name}" for name in _MANY[:500]]}),
        {"metadata": {"finalizers": [f"example.com/{name}" for name in _MANY[250:750]]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": [f"example.com/{name}" for name in _MANY]}},
    ),
}

CASES: Cases = {f"strategic-{name}": case for name, case in {**_WEBHOOKS, **_OTHERS, **_LONG}.items()}
