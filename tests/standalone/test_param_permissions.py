"""Who may refer to params. The texts are compared with kube-apiserver's in tests/integration/test_same_roles.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes
from aggserver.admissionregistration.served import registration_stores
from aggserver.authentication.user import UserInfo
from aggserver.authorization import attributes as authorization
from aggserver.authorization.delegating import Decision
from aggserver.informers.informer import CONTROLLER
from aggserver.meta.errors import StatusError
from aggserver.meta.resource import ResourceInfo
from aggserver.registry.rest import Context, WriteOptions, WriteRequest
from aggserver.standalone.param_permissions import ParamPermissions
from tests.standalone.roles import World

GROUP = "admissionregistration.k8s.io"
KINDS = {
    "validatingadmissionpolicies": "ValidatingAdmissionPolicy",
    "validatingadmissionpolicybindings": "ValidatingAdmissionPolicyBinding",
    "mutatingadmissionpolicybindings": "MutatingAdmissionPolicyBinding",
    "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
}
JANE = UserInfo("jane", "u1", ("a", "b"), {"y": ("1", "2"), "x": ("3",)})
PRINTED = "&{jane u1 [a b] map[x:[3] y:[1 2]]}"
CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}


class Rights:
    """Allows (verb, group, resource, namespace, name)."""

    def __init__(self) -> None:
        self.allowed: set[tuple[str, str, str, str, str]] = set()

    async def authorize(self, attributes: authorization.Attributes) -> Decision:
        assert attributes.user is JANE
        asked = (attributes.verb, attributes.group, attributes.resource, attributes.namespace, attributes.name)
        return Decision(asked in self.allowed)


async def find(api_version: str, kind: str) -> list[ResourceInfo]:
    if (api_version, kind) != ("v1", "ConfigMap"):
        raise LookupError
    return [ResourceInfo("", "v1", "configmaps", "ConfigMap", "ConfigMapList", namespaced=True)]


@pytest.fixture
def rights() -> Rights:
    return Rights()


@pytest.fixture
async def check(rights: Rights) -> AsyncIterator[ParamPermissions]:
    world = World()
    await world.storage.start()
    stores = registration_stores(world.environment)
    for name, param_kind in (("known", CONFIG_MAPS), ("unknown", {"apiVersion": "x.io/v1", "kind": "Limit"}), ("none", None)):
        rule = {"apiGroups": ["x"], "apiVersions": ["v1"], "resources": ["y"], "operations": ["CREATE"]}
        spec: dict[str, Any] = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
        policy = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": spec | ({"paramKind": param_kind} if param_kind else {}),
        }
        store = stores["validatingadmissionpolicies"]
        store.strategy.conform(policy)
        await store.create(WriteRequest(Context(CONTROLLER), WriteOptions()), policy)
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": '[JSONPatch{op: "remove", path: "/x"}]'}}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "mutations": [mutation], "reinvocationPolicy": "Never"}
    mutating = {"apiVersion": f"{GROUP}/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": "none"}, "spec": spec}
    store = stores["mutatingadmissionpolicies"]
    store.strategy.conform(mutating)
    await store.create(WriteRequest(Context(CONTROLLER), WriteOptions()), mutating)
    yield ParamPermissions(rights, find, stores)
    for store in stores.values():
        store.end_watches()
    await world.storage.close()


def attributes(resource: str, operation: str = CREATE, user: UserInfo = JANE, subresource: str = "") -> Attributes:
    info = ResourceInfo(GROUP, "v1", resource, KINDS[resource], f"{KINDS[resource]}List", namespaced=False)
    return Attributes(operation, user, info, subresource, info.kind, info.api_version, "", "x", dry_run=False)


def of(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": spec}


def test_whom_it_concerns(check: ParamPermissions) -> None:
    for resource in ("validatingadmissionpolicies", "mutatingadmissionpolicybindings"):
        assert check.concerns(attributes(resource))
        assert not check.concerns(attributes(resource, DELETE))
        assert not check.concerns(attributes(resource, UPDATE, subresource="status"))
        assert not check.concerns(attributes(resource, user=UserInfo("admin", groups=("system:masters",))))
    assert not check.concerns(attributes("validatingwebhookconfigurations"))


POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
ALL = "all groups, versions and resources"
MINIMUM = "to determine minimum required permissions and user"

# name: (resource, spec, the permission that is needed, the text without it)
CASES: dict[str, tuple[str, dict[str, Any], tuple[str, str, str, str, str], str]] = {
    "kind": (
        POLICIES,
        {"paramKind": CONFIG_MAPS},
        ("get", "", "configmaps", "*", "*"),
        f'user {PRINTED} must have "get" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)',
    ),
    "kind that is not served": (
        POLICIES,
        {"paramKind": {"apiVersion": "x.io/v1", "kind": "Limit"}},
        ("get", "x.io", "*", "*", "*"),
        f'user {PRINTED} must have "get" permission on all objects of the referenced paramKind (kind=Limit, apiVersion=x.io/v1)',
    ),
    "object": (
        BINDINGS,
        {"policyName": "known", "paramRef": {"name": "p", "namespace": "ns"}},
        ("get", "", "configmaps", "ns", "p"),
        f'user {PRINTED} does not have "get" permission on the object referenced by paramRef',
    ),
    "objects": (
        BINDINGS,
        {"policyName": "known", "paramRef": {"selector": {}}},
        ("list", "", "configmaps", "", ""),
        f'user {PRINTED} does not have "list" permission on the object referenced by paramRef',
    ),
    "of no policy": (
        BINDINGS,
        {"policyName": "lost", "paramRef": {"name": "p"}},
        ("get", "*", "*", "", "p"),
        f'unable to get policy lost {MINIMUM} {PRINTED} does not have "get" permission for {ALL}',
    ),
    "of a kind that is not served": (
        BINDINGS,
        {"policyName": "unknown", "paramRef": {"name": "p"}},
        ("get", "x.io", "*", "", "p"),
        f'unable to resolve paramKind &{{x.io/v1 Limit}} {MINIMUM} {PRINTED} does not have "get" permission for {ALL}',
    ),
    "of a policy without params": (
        BINDINGS,
        {"policyName": "none", "paramRef": {"name": "p"}},
        ("get", "*", "*", "", "p"),
        f'user {PRINTED} does not have "get" permission on the object referenced by paramRef',
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_who_may(check: ParamPermissions, rights: Rights, name: str) -> None:
    resource, spec, needed, text = CASES[name]
    with pytest.raises(StatusError) as caught:
        await check.validate(attributes(resource), of(spec), None)
    member = "paramKind" if resource == POLICIES else "paramRef"
    said = f'{KINDS[resource]}.{GROUP} "x" is invalid: spec.{member}: Forbidden: {text}'
    assert (caught.value.code, caught.value.message) == (422, said)
    rights.allowed.add(needed)
    await check.validate(attributes(resource), of(spec), None)


async def test_what_needs_nothing(check: ParamPermissions) -> None:
    await check.validate(attributes(POLICIES), of({}), None)
    await check.validate(attributes(POLICIES, UPDATE), of({"paramKind": CONFIG_MAPS}), of({"paramKind": CONFIG_MAPS}))
    await check.validate(attributes(BINDINGS), of({"policyName": "known"}), None)


async def test_the_text_for_mutating_policies_is_upstreams(check: ParamPermissions) -> None:
    """It has the verb and the user in each other's place."""
    spec = {"policyName": "none", "paramRef": {"name": "p"}}
    with pytest.raises(StatusError) as caught:
        await check.validate(attributes("mutatingadmissionpolicybindings"), of(spec), None)
    assert f'user get does not have "{PRINTED}" permission on the object referenced by paramRef' in caught.value.message
