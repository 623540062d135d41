"""Which policies and bindings are looked at for a resource, and which params they get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aggserver.admission.chain import OneVersion
from aggserver.admission.policy.hooks import Hooks, PolicyError, collect_params
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo

SELECTORS = {"namespaceSelector": {}, "objectSelector": {}}
KIND = {"apiVersion": "v1", "kind": "ConfigMap"}


def rules(resource: str, group: str = "example.com") -> list[dict[str, list[str]]]:
    return [{"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": ["*"]}]


def policy(name: str, resource: str = "ships", **spec: Any) -> JSONObject:
    return {
        "metadata": {"name": name},
        "spec": {"matchConstraints": {**SELECTORS, "resourceRules": rules(resource)}, **spec},
    }


def binding(name: str, of: str, resource: str = "") -> JSONObject:
    match = {"matchResources": {**SELECTORS, "resourceRules": rules(resource)}} if resource else {}
    return {"metadata": {"name": name}, "spec": {"policyName": of, **match}}


def resource_info(resource: str) -> ResourceInfo:
    return ResourceInfo("example.com", "v1", resource, "Kind", "KindList", namespaced=True)


def found(hooks: Hooks[str], resource: str = "ships") -> dict[str, list[str]]:
    return {
        hook.obj["metadata"]["name"]: [each.obj["metadata"]["name"] for each in bindings]
        for hook, bindings in hooks.of(resource_info(resource), OneVersion())
    }


def make(policies: list[JSONObject], bindings: list[JSONObject], before: Hooks[str] | None = None) -> Hooks[str]:
    return Hooks(policies, bindings, compile_=lambda spec: f"compiled {spec.get('validations')}", before=before)


def test_bound_policies_by_name() -> None:
    hooks = make([policy("b"), policy("a"), policy("unbound")], [binding("z", "b"), binding("y", "b"), binding("x", "a")])
    assert found(hooks) == {"a": ["x"], "b": ["y", "z"]}
    assert list(found(hooks)) == ["a", "b"]


def test_a_binding_without_its_policy() -> None:
    assert found(make([], [binding("x", "gone")])) == {}


def test_of_a_resource() -> None:
    hooks = make(
        [policy("ships"), policy("all", "*"), policy("boats", "boats"), policy("parts", "ships/status")],
        [binding("w", "ships"), binding("x", "all"), binding("y", "boats"), binding("z", "parts")],
    )
    assert found(hooks) == {"all": ["x"], "parts": ["z"], "ships": ["w"]}
    assert found(hooks, "boats") == {"all": ["x"], "boats": ["y"]}


def test_bindings_for_other_resources_are_left_out() -> None:
    hooks = make([policy("all", "*")], [binding("a", "all", "boats"), binding("b", "all", "ships")])
    assert found(hooks) == {"all": ["b"]}
    assert found(hooks, "boats") == {"all": ["a"]}
    assert found(hooks, "cars") == {}


def test_a_policy_with_params_is_looked_at_without_bindings() -> None:
    """It may be wrong in itself, which is reported."""
    assert found(make([policy("all", "*", paramKind=KIND)], [binding("a", "all", "boats")])) == {"all": []}


def test_compiled_once() -> None:
    first = make([policy("a", validations=1), policy("b", validations=1)], [binding("x", "a"), binding("y", "b")])
    for hook, _ in first.of(resource_info("ships"), OneVersion()):
        assert not hook.is_compiled
        assert hook.compiled() == "compiled 1"
    second = make([policy("a", validations=1), policy("b", validations=2)], [binding("x", "a"), binding("y", "b")], first)
    (same, _), (changed, _) = second.of(resource_info("ships"), OneVersion())
    assert same.is_compiled
    assert not changed.is_compiled
    assert changed.compiled() == "compiled 2"


@pytest.mark.parametrize(
    ("constraints", "problem"),
    [
        (None, "policy contained no match constraints, a required field"),
        ({"objectSelector": {}}, "a nil namespace selector was passed, please ensure selectors are initialized properly"),
        ({"namespaceSelector": {}}, "a nil object selector was passed, please ensure selectors are initialized properly"),
        (SELECTORS, ""),
    ],
)
def test_problems(constraints: JSONObject | None, problem: str) -> None:
    broken = {"metadata": {"name": "a"}, "spec": {"matchConstraints": constraints}}
    bound = {"metadata": {"name": "x"}, "spec": {"policyName": "a", "matchResources": constraints}}
    ((hook, (first,)),) = make([broken], [bound]).of(resource_info("ships"), OneVersion())
    assert hook.problem == problem
    assert first.problem == ("" if constraints is None else problem)


# Params


class Objects:
    """Objects named namespace/name, with their name as a label."""

    is_known = True

    def __init__(self, *names: str, namespaced: bool = True) -> None:
        self.namespaced = namespaced
        self._objects: dict[str, dict[str, JSONObject]] = {}
        for each in names:
            namespace, _, name = each.rpartition("/")
            obj = {"metadata": {"name": name, "namespace": namespace, "labels": {"name": name, "any": "x"}}, "data": {}}
            self._objects.setdefault(namespace, {})[name] = obj

    def get(self, namespace: str, name: str) -> JSONObject | None:
        return self.within(namespace).get(name)

    def within(self, namespace: str) -> Mapping[str, JSONObject]:
        return self._objects.get(namespace, {})


NAMESPACED = Objects("north/a", "north/b", "south/a")
CLUSTER = Objects("a", "b", namespaced=False)
NOWHERE = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
DENIED = "no params found for policy binding with `Deny` parameterNotFoundAction"

# A paramRef, the params, the namespace of the request; and what is found, or the error.
COLLECTED: dict[str, tuple[JSONObject, Objects, str, list[str] | str]] = {
    "by name": ({"name": "a"}, NAMESPACED, "north", ["north/a"]),
    "by name in its own namespace": ({"name": "a", "namespace": "south"}, NAMESPACED, "north", ["south/a"]),
    "for a cluster-scoped object": ({"name": "a", "namespace": "south"}, NAMESPACED, "", ["south/a"]),
    "in no namespace": ({"name": "a"}, NAMESPACED, "", NOWHERE),
    "all by selector": ({"selector": {}}, NAMESPACED, "north", ["north/a", "north/b"]),
    "one by selector": ({"selector": {"matchLabels": {"name": "b"}}}, NAMESPACED, "north", ["north/b"]),
    "by expressions": (
        {"selector": {"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["b"]}]}},
        NAMESPACED,
        "north",
        ["north/a"],
    ),
    "none by name": ({"name": "z", "parameterNotFoundAction": "Allow"}, NAMESPACED, "north", []),
    "none by name, denied": ({"name": "z", "parameterNotFoundAction": "Deny"}, NAMESPACED, "north", DENIED),
    "none by selector": (
        {"selector": {"matchLabels": {"name": "z"}}, "parameterNotFoundAction": "Allow"},
        NAMESPACED,
        "north",
        [],
    ),
    "none by selector, denied": (
        {"selector": {"matchLabels": {"name": "z"}}, "parameterNotFoundAction": "Deny"},
        NAMESPACED,
        "north",
        DENIED,
    ),
    "cluster-scoped": ({"name": "a"}, CLUSTER, "north", ["/a"]),
    "cluster-scoped by selector": ({"selector": {"matchLabels": {"any": "x"}}}, CLUSTER, "", ["/a", "/b"]),
    "a namespace for what has none": (
        {"name": "a", "namespace": "north"},
        CLUSTER,
        "north",
        "paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
    ),
    "name and selector": (
        {"name": "a", "selector": {}},
        NAMESPACED,
        "north",
        "paramRef.name and paramRef.selector are mutually exclusive",
    ),
    "neither": ({}, NAMESPACED, "north", "one of name or selector must be provided"),
    "a wrong selector": (
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
        NAMESPACED,
        "north",
        '"Like" is not a valid label selector operator',
    ),
}


@pytest.mark.parametrize(("ref", "params", "namespace", "wanted"), COLLECTED.values(), ids=COLLECTED)
def test_params(ref: JSONObject, params: Objects, namespace: str, wanted: list[str] | str) -> None:
    if isinstance(wanted, str):
        with pytest.raises(PolicyError) as caught:
            collect_params(KIND, ref, params, namespace)
        assert str(caught.value) == wanted
        return
    collected = collect_params(KIND, ref, params, namespace)
    names = [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in collected if each is not None]
    assert names == wanted
    assert all(each is not None and (each["apiVersion"], each["kind"]) == ("v1", "ConfigMap") for each in collected)


def test_no_params_to_collect() -> None:
    assert collect_params(None, {"name": "a"}, None, "north") == [None]
    assert collect_params(KIND, None, NAMESPACED, "north") == [None]


def selecting(obj: JSONObject, selector: Any) -> JSONObject:
    """The policy or binding, for namespaces that this selects."""
    spec = obj["spec"]
    where = "matchResources" if "policyName" in spec else "matchConstraints"
    matched = {**SELECTORS, **spec.get(where, {}), "namespaceSelector": selector}
    return {**obj, "spec": {**spec, where: matched}}


def within(hooks: Hooks[str], version: str = "1", **labels: str) -> dict[str, list[str]]:
    namespace = {"metadata": {"name": "n", "uid": "u", "resourceVersion": version, "labels": labels}}
    return {
        hook.obj["metadata"]["name"]: [each.obj["metadata"]["name"] for each in bindings]
        for hook, bindings in hooks.within(resource_info("ships"), OneVersion(), namespace)
    }


BLUE: JSONObject = {"matchLabels": {"color": "blue"}}


def test_within_a_namespace() -> None:
    hooks = make(
        [policy("a"), selecting(policy("b"), BLUE)],
        [
            binding("all", "a"),
            selecting(binding("blue", "a"), BLUE),
            selecting(binding("other", "a"), {"matchExpressions": [{"key": "color", "operator": "DoesNotExist"}]}),
            binding("x", "b"),
        ],
    )
    assert within(hooks, "1", color="blue") == {"a": ["all", "blue"], "b": ["x"]}
    assert within(hooks, "2", color="red") == {"a": ["all"]}
    assert within(hooks, "3") == {"a": ["all", "other"]}
    # By the state of the namespace, which its resourceVersion names.
    assert within(hooks, "2", color="blue") == {"a": ["all"]}


def test_within_a_namespace_that_has_no_version() -> None:
    hooks = make([policy("a")], [selecting(binding("blue", "a"), BLUE)])
    assert within(hooks, "", color="blue") == {"a": ["blue"]}
    assert within(hooks, "") == {"a": []}


def test_what_is_wrong_stays_to_be_reported() -> None:
    hooks = make([selecting(policy("a"), None)], [selecting(binding("x", "a"), {"matchExpressions": [{"operator": "No"}]})])
    assert within(hooks) == {"a": ["x"]}
