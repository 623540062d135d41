"""Matching, with the cases of upstream's tests under their names.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/predicates/{rules/rules,namespace/matcher,object/matcher}_test.go,
pkg/admission/plugin/webhook/generic/webhook_test.go, pkg/admission/plugin/policy/matching/matching_test.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes, OneVersion
from aggserver.admission.matching import Criteria, Index, RuleWithOperations, Target, is_exempt, matches
from aggserver.authentication.user import UserInfo
from aggserver.meta import errors
from aggserver.meta.resource import ResourceInfo

ALICE = UserInfo("alice")


def asked(
    resource: str = "g/v/r",
    subresource: str = "",
    *,
    operation: str = CREATE,
    namespace: str = "ns",
    name: str = "name",
    kind: str = "g/v R",
) -> Attributes:
    """resource: group/version/plural. kind: apiVersion and kind of the object."""
    group, version, plural = resource.split("/")
    object_version, _, object_kind = kind.partition(" ")
    info = ResourceInfo(group, version, plural, object_kind, object_kind + "List", namespaced=bool(namespace))
    return Attributes(operation, ALICE, info, subresource, object_kind, object_version, namespace, name, dry_run=False)


def rule(groups: str = "*", versions: str = "*", resources: str = "*", operations: str = "*", **others: Any) -> dict[str, Any]:
    return {
        "apiGroups": groups.split(","),
        "apiVersions": versions.split(","),
        "resources": resources.split(","),
        "operations": operations.split(","),
        **others,
    }


IN_NAMESPACE = [asked(), asked(subresource="exec")]
IN_NONE = [asked(namespace=""), asked(subresource="exec", namespace="")]
NAMESPACES = [
    asked("/v1/namespaces", subresource, namespace=namespace, name="ns")
    for subresource in ("", "finalize")
    for namespace in ("", "ns")
]

# name of upstream's case: (rule, requests that match, requests that don't).
RULES: dict[str, tuple[dict[str, Any], Sequence[Attributes], Sequence[Attributes]]] = {
    "TestGroup wildcard": (rule("*"), [asked("g/v/r")], []),
    "TestGroup exact": (
        rule("g1,g2"),
        [asked("g1/v/r"), asked("g2/v2/r3")],
        [asked("g3/v/r"), asked("g4/v/r")],
    ),
    "TestVersion wildcard": (rule(versions="*"), [asked("g/v/r")], []),
    "TestVersion exact": (
        rule(versions="v1,v2"),
        [asked("g1/v1/r"), asked("g2/v2/r")],
        [asked("g1/v3/r"), asked("g2/v4/r")],
    ),
    "TestOperation wildcard": (rule(operations="*"), [asked(operation=each) for each in (CREATE, UPDATE, DELETE, "CONNECT")], []),
    "TestOperation create": (
        rule(operations="CREATE"),
        [asked(operation=CREATE)],
        [asked(operation=each) for each in (UPDATE, DELETE, "CONNECT")],
    ),
    "TestOperation update": (
        rule(operations="UPDATE"),
        [asked(operation=UPDATE)],
        [asked(operation=each) for each in (CREATE, DELETE, "CONNECT")],
    ),
    "TestOperation delete": (
        rule(operations="DELETE"),
        [asked(operation=DELETE)],
        [asked(operation=each) for each in (CREATE, UPDATE, "CONNECT")],
    ),
    "TestOperation connect": (
        rule(operations="CONNECT"),
        [asked(operation="CONNECT")],
        [asked(operation=each) for each in (CREATE, UPDATE, DELETE)],
    ),
    "TestOperation multiple": (
        rule(operations="UPDATE,DELETE"),
        [asked(operation=UPDATE), asked(operation=DELETE)],
        [asked(operation=CREATE), asked(operation="CONNECT")],
    ),
    "TestResource no subresources": (
        rule(resources="*"),
        [asked(), asked("2/v/r2")],
        [asked(subresource="exec"), asked("2/v/r2", "proxy")],
    ),
    "TestResource r & subresources": (
        rule(resources="r/*"),
        [asked(), asked(subresource="exec")],
        [asked("2/v/r2"), asked("2/v/r2", "proxy")],
    ),
    "TestResource r & subresources or r2": (
        rule(resources="r/*,r2"),
        [asked(), asked(subresource="exec"), asked("2/v/r2")],
        [asked("2/v/r2", "proxy")],
    ),
    "TestResource proxy or exec": (
        rule(resources="*/proxy,*/exec"),
        [asked(subresource="exec"), asked("2/v/r2", "proxy"), asked("2/v/r3", "proxy")],
        [asked(), asked("2/v/r2"), asked("2/v/r4", "scale")],
    ),
    "everything": (rule(resources="*/*"), [asked(), asked(subresource="status"), *NAMESPACES], []),
    "one subresource": (rule(resources="r/status"), [asked(subresource="status")], [asked(), asked(subresource="scale")]),
    "TestScope cluster scope": (rule(resources="*/*", scope="Cluster"), [*IN_NONE, *NAMESPACES], IN_NAMESPACE),
    "TestScope namespace scope": (rule(resources="*/*", scope="Namespaced"), IN_NAMESPACE, [*NAMESPACES, *IN_NONE]),
    "TestScope all scopes": (rule(resources="*/*", scope="*"), [*IN_NAMESPACE, *IN_NONE, *NAMESPACES], []),
    "an unknown scope": (rule(scope="Planet"), [], [asked(), asked(namespace="")]),
    "namespaces of another group": (
        rule(resources="namespaces", scope="Namespaced"),
        [asked("g/v1/namespaces"), asked("/v2/namespaces")],
        [asked("/v1/namespaces")],
    ),
    "names": (rule(resourceNames=["a", "name"]), [asked()], [asked(name="b"), asked(name="")]),
    "no names": (rule(resourceNames=[]), [asked(), asked(name="")], []),
    "nothing": ({}, [], [asked()]),
}


@pytest.mark.parametrize("case", RULES)
def test_rule(case: str) -> None:
    written, matching, others = RULES[case]
    parsed = RuleWithOperations.parse(written)
    for attributes in matching:
        assert parsed.matches(attributes, Target.requested(attributes)), attributes
        assert parsed.may_match({attributes.resource.group}, attributes.resource.resource)
        assert Criteria.of_webhook({"rules": [written]}).may_concern(attributes.operation)
    for attributes in others:
        assert not parsed.matches(attributes, Target.requested(attributes)), attributes


# --- criteria ---


def test_operations_that_may_concern() -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    of_writes = Criteria.of_webhook({"rules": [{**rule, "operations": ["CREATE"]}, {**rule, "operations": ["UPDATE"]}]})
    assert [of_writes.may_concern(operation) for operation in ("CREATE", "UPDATE", "DELETE")] == [True, True, False]
    assert Criteria.of_webhook({"rules": [{**rule, "operations": ["*"]}]}).may_concern("DELETE")
    assert Criteria.of_resources({}).may_concern("DELETE"), "without rules, a policy is about everything"
    assert not Criteria.of_webhook({}).may_concern("DELETE")


DEPLOYMENTS = (
    Target("extensions", "v1beta1", "deployments", "extensions/v1beta1", "Deployment"),
    Target("apps", "v1", "deployments", "apps/v1", "Deployment"),
    Target("apps", "v1beta1", "deployments", "apps/v1beta1", "Deployment"),
    Target("apps", "v1alpha1", "deployments", "apps/v1alpha1", "Deployment"),
)
SCALES = (
    Target("extensions", "v1beta1", "deployments", "extensions/v1beta1", "Scale"),
    Target("apps", "v1", "deployments", "autoscaling/v1", "Scale"),
    Target("apps", "v1beta1", "deployments", "apps/v1beta1", "Scale"),
    Target("apps", "v1alpha1", "deployments", "apps/v1alpha1", "Scale"),
)
DEPLOYMENT = asked("apps/v1/deployments", kind="apps/v1 Deployment")
SCALE = asked("apps/v1/deployments", "scale", kind="autoscaling/v1 Scale")
OLD_SCALE = asked("extensions/v1beta1/deployments", "scale", kind="autoscaling/v1 Scale")

BOTH = "deployments,deployments/scale"
EXTENSIONS, APPS_BETA, APPS = (rule(*each, BOTH) for each in (("extensions", "v1beta1"), ("apps", "v1beta1"), ("apps", "v1")))
SELECTING_ALL: dict[str, Any] = {"namespaceSelector": {}, "objectSelector": {}}
EXACT = {"matchPolicy": "Exact"}
EQUIVALENT = {"matchPolicy": "Equivalent"}
BROKEN = {"matchExpressions": [{"key": "key ", "operator": "In", "values": ["bad value"]}]}

# name of upstream's case: (rules, what else is written, the request, what is asked for).
CRITERIA: dict[str, tuple[list[dict[str, Any]], dict[str, Any], Attributes, Target | None]] = {
    "no rules (just write)": ([], {}, DEPLOYMENT, None),
    "wildcard rule, match as requested": ([rule()], {}, DEPLOYMENT, DEPLOYMENTS[1]),
    "specific rules, prefer exact match": ([EXTENSIONS, APPS_BETA, APPS], {}, DEPLOYMENT, DEPLOYMENTS[1]),
    "equivalent, prefer exact match": ([EXTENSIONS, APPS_BETA, APPS], EQUIVALENT, DEPLOYMENT, DEPLOYMENTS[1]),
    "specific rules, match miss": ([EXTENSIONS, APPS_BETA], {}, DEPLOYMENT, None),
    "specific rules, exact match miss": ([EXTENSIONS, APPS_BETA], EXACT, DEPLOYMENT, None),
    "specific rules, equivalent match, prefer extensions": ([EXTENSIONS, APPS_BETA], EQUIVALENT, DEPLOYMENT, DEPLOYMENTS[0]),
    "specific rules, equivalent match, prefer apps": ([APPS_BETA, EXTENSIONS], EQUIVALENT, DEPLOYMENT, DEPLOYMENTS[2]),
    "specific rules, subresource prefer exact match": ([EXTENSIONS, APPS_BETA, APPS], {}, SCALE, SCALES[1]),
    "specific rules, subresource match miss": ([EXTENSIONS, APPS_BETA], {}, SCALE, None),
    "specific rules, subresource exact match miss": ([EXTENSIONS, APPS_BETA], EXACT, SCALE, None),
    "specific rules, subresource equivalent match, prefer extensions": ([EXTENSIONS, APPS_BETA], EQUIVALENT, SCALE, SCALES[0]),
    "specific rules, subresource equivalent match, prefer apps": ([APPS_BETA, EXTENSIONS], EQUIVALENT, SCALE, SCALES[2]),
}
# Those that only policies have, since only their rules have names and exclusions.
OF_POLICIES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], Attributes, Target | None]] = {
    "specific rules, prefer exact match and name match": ([{**APPS, "resourceNames": ["name"]}], {}, DEPLOYMENT, DEPLOYMENTS[1]),
    "specific rules, prefer exact match and name match miss": ([{**APPS, "resourceNames": ["wrong-name"]}], {}, DEPLOYMENT, None),
    "specific rules, subresource equivalent match, prefer extensions and name match": (
        [{**APPS, "resourceNames": ["name"]}],
        EQUIVALENT,
        OLD_SCALE,
        SCALES[1],
    ),
    "specific rules, subresource equivalent match, prefer extensions and name match miss": (
        [{**APPS, "resourceNames": ["wrong-name"]}],
        EQUIVALENT,
        OLD_SCALE,
        None,
    ),
    "exclude resource match on miss": ([rule()], {"excludeResourceRules": [EXTENSIONS]}, DEPLOYMENT, DEPLOYMENTS[1]),
    "exclude resource miss on match": ([rule()], {**EQUIVALENT, "excludeResourceRules": [EXTENSIONS]}, DEPLOYMENT, None),
    "excluded by name": ([rule()], {"excludeResourceRules": [rule(resourceNames=["name"])]}, DEPLOYMENT, None),
    "treat empty ResourceRules as match": ([], {}, DEPLOYMENT, DEPLOYMENTS[1]),
    "treat non-empty ResourceRules as no match": ([{}], {}, DEPLOYMENT, None),
}


async def no_labels(name: str) -> Mapping[str, str]:
    raise AssertionError(f"the labels of {name} are not needed")


def equivalents_of(attributes: Attributes) -> Sequence[Target]:
    return SCALES if attributes.subresource else DEPLOYMENTS


@pytest.mark.parametrize("case", CRITERIA)
async def test_criteria_of_webhooks(case: str) -> None:
    rules, others, attributes, wanted = CRITERIA[case]
    criteria = Criteria.of_webhook({**SELECTING_ALL, **others, "rules": rules})
    assert await matches(criteria, attributes, None, None, equivalents_of(attributes), no_labels) == wanted


@pytest.mark.parametrize("case", [*(name for name in CRITERIA if name != "no rules (just write)"), *OF_POLICIES])
async def test_criteria_of_policies(case: str) -> None:
    rules, others, attributes, wanted = {**CRITERIA, **OF_POLICIES}[case]
    criteria = Criteria.of_resources({**SELECTING_ALL, **others, "resourceRules": rules})
    assert await matches(criteria, attributes, None, None, equivalents_of(attributes), no_labels) == wanted


@pytest.mark.parametrize("selector", ["namespaceSelector", "objectSelector"])
@pytest.mark.parametrize(
    ("rules", "raises"),
    [
        pytest.param([APPS_BETA], False, id="on otherwise non-matching rule doesn't error"),
        pytest.param([APPS], True, id="on otherwise matching rule errors"),
    ],
)
async def test_erroring_selector(selector: str, rules: list[dict[str, Any]], *, raises: bool) -> None:
    criteria = Criteria.of_webhook({**SELECTING_ALL, selector: BROKEN, "rules": rules})
    if not raises:
        assert await matches(criteria, DEPLOYMENT, None, None, DEPLOYMENTS, no_labels) is None
        return
    with pytest.raises(errors.StatusError, match=r'Internal error occurred: .*key: Invalid value: "key "') as raised:
        await matches(criteria, DEPLOYMENT, None, None, DEPLOYMENTS, no_labels)
    assert raised.value.code == 500


@pytest.mark.parametrize("selector", ["namespaceSelector", "objectSelector"])
async def test_a_missing_selector_selects_nothing(selector: str) -> None:
    criteria = Criteria.of_webhook({**SELECTING_ALL, selector: None, "rules": [rule()]})
    assert await matches(criteria, DEPLOYMENT, {"metadata": {}}, None, DEPLOYMENTS, no_labels) is None


# --- selectors ---

NOT_LEVEL_1 = {"matchExpressions": [{"key": "runlevel", "operator": "NotIn", "values": ["1"]}]}
LEVEL_1 = {"metadata": {"labels": {"runlevel": "1"}}}
LEVEL_2 = {"metadata": {"labels": {"runlevel": "2"}}}


@pytest.mark.parametrize(
    ("selector", "obj", "old", "wanted"),
    [
        pytest.param({}, None, None, True, id="empty object selector matches everything"),
        pytest.param(NOT_LEVEL_1, LEVEL_2, None, True, id="matches new object"),
        pytest.param(NOT_LEVEL_1, None, LEVEL_2, True, id="matches old object"),
        pytest.param(NOT_LEVEL_1, LEVEL_1, None, False, id="does not match new object"),
        pytest.param(NOT_LEVEL_1, None, LEVEL_1, False, id="does not match old object"),
        pytest.param(NOT_LEVEL_1, LEVEL_1, LEVEL_2, True, id="the old one is enough"),
        pytest.param(NOT_LEVEL_1, None, None, False, id="a deletion of a collection, before its objects are known"),
        pytest.param(NOT_LEVEL_1, {"metadata": {"labels": None}}, None, True, id="labels that are null"),
    ],
)
def test_object_selector(selector: Any, obj: Any, old: Any, *, wanted: bool) -> None:
    criteria = Criteria.of_webhook({**SELECTING_ALL, "objectSelector": selector})
    assert criteria.selects_object(obj, old) is wanted


NAMESPACE_LABELS = {"1": {"runlevel": "1"}}


async def labels_of(name: str) -> Mapping[str, str]:
    if name not in NAMESPACE_LABELS:
        raise errors.not_found("", "namespaces", name)
    return NAMESPACE_LABELS[name]


ONE, TWO = ({"matchLabels": {"runlevel": value}} for value in "12")


@pytest.mark.parametrize(
    ("attributes", "obj", "selector"),
    [
        pytest.param(
            asked("/v1/namespaces", namespace="", name="2"),
            LEVEL_2,
            TWO,
            id="request is for creating namespace, the labels should be from the object itself",
        ),
        pytest.param(
            asked("/v1/namespaces", operation=UPDATE, namespace="1", name="1"),
            LEVEL_2,
            TWO,
            id="request is for updating namespace, the labels should be from the new object",
        ),
        pytest.param(
            asked("/v1/namespaces", operation=DELETE, namespace="1", name="1"),
            None,
            ONE,
            id="request is for deleting namespace, the labels should be from the cache",
        ),
        pytest.param(asked("/v1/namespaces", "finalizers", namespace="1"), LEVEL_2, ONE, id="request is for namespace/finalizer"),
        pytest.param(asked("/v1/pods", namespace="1"), LEVEL_2, ONE, id="request is for pod"),
        pytest.param(asked("/v1/nodes", namespace=""), LEVEL_2, TWO, id="TestNotExemptClusterScopedResource"),
        pytest.param(asked("/v1/nodes", namespace=""), LEVEL_2, BROKEN, id="which needs no selector"),
    ],
)
async def test_namespace_selector(attributes: Attributes, obj: Any, selector: Any) -> None:
    criteria = Criteria.of_webhook({**SELECTING_ALL, "namespaceSelector": selector, "rules": [rule(resources="*/*")]})
    assert await matches(criteria, attributes, obj, None, (), labels_of) is not None


async def test_another_namespace() -> None:
    criteria = Criteria.of_webhook({**SELECTING_ALL, "namespaceSelector": TWO, "rules": [rule()]})
    assert await matches(criteria, asked(namespace="1"), {"metadata": {}}, None, (), labels_of) is None


async def test_a_namespace_that_is_missing() -> None:
    criteria = Criteria.of_webhook({**SELECTING_ALL, "namespaceSelector": ONE, "rules": [rule(groups="g")]})
    with pytest.raises(errors.StatusError, match='namespaces "gone" not found'):
        await matches(criteria, asked(namespace="gone"), {"metadata": {}}, None, (), labels_of)
    assert await matches(criteria, asked("h/v/r", namespace="gone"), {"metadata": {}}, None, (), labels_of) is None


# --- what is never asked about ---


@pytest.mark.parametrize(
    ("kind", "exempt"),
    [
        ("admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration", True),
        ("admissionregistration.k8s.io/v1 MutatingWebhookConfiguration", True),
        ("admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy", True),
        ("admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicyBinding", True),
        ("admissionregistration.k8s.io/v1 MutatingAdmissionPolicy", True),
        ("admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding", True),
        ("admissionregistration.k8s.io/v1 Another", False),
        ("example.com/v1 ValidatingWebhookConfiguration", False),
    ],
)
def test_exempt(kind: str, *, exempt: bool) -> None:
    assert is_exempt(asked(kind=kind)) is exempt


# --- the index ---


def info(group: str, resource: str) -> ResourceInfo:
    return ResourceInfo(group, "v1", resource, "R", "RList", namespaced=True)


def test_index() -> None:
    entries = [
        (Criteria.of_webhook({"rules": written}), name)
        for name, written in (
            ("every", [rule()]),
            ("group", [rule("g")]),
            ("resource", [rule(resources="r/status")]),
            ("other", [rule("h"), rule(resources="s/*")]),
            ("second rule", [rule("h"), rule("g", resources="r")]),
            ("none", []),
        )
    ]
    index = Index([*entries, (Criteria.of_resources({}), "without rules")])
    for _ in range(2):  # as it was found, and as it was remembered
        found = [name for _, name in index.of(info("g", "r"), OneVersion())]
        assert found == ["every", "group", "resource", "second rule", "without rules"]
    assert [name for _, name in index.of(info("i", "t"), OneVersion())] == ["every", "without rules"]
    assert Index[str]().of(info("g", "r"), OneVersion()) == ()


class InTwoGroups(OneVersion):
    """Objects like Events, of which there are versions in two groups."""

    def equivalents(self, subresource: str) -> Sequence[Target]:
        return [Target(group, "v1", "r", f"{group}/v1", "R") for group in ("g", "h")]


def test_index_of_a_resource_in_two_groups() -> None:
    written: dict[str, Any] = {"rules": [rule("h", resources="r")]}
    index = Index(
        [
            (Criteria.of_webhook({**written, "matchPolicy": "Equivalent"}), "equivalent"),
            (Criteria.of_webhook({**written, "matchPolicy": "Exact"}), "exact"),
        ]
    )
    assert [name for _, name in index.of(info("g", "r"), InTwoGroups())] == ["equivalent"]
    assert [name for _, name in index.of(info("h", "r"), InTwoGroups())] == ["equivalent", "exact"]
    assert index.of(info("i", "r"), OneVersion()) == ()
