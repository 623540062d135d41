"""RBAC's decisions: which rules match, whom bindings are for, and what the reasons say."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.rbac import Policy, PolicyRule

JANE = UserInfo("jane", groups=("developers", "system:authenticated"))
ROBOT = UserInfo("system:serviceaccount:ci:robot", groups=("system:serviceaccounts", "system:serviceaccounts:ci"))


def on(verb: str, resource: str, group: str = "", *, name: str = "", namespace: str = "") -> Attributes:
    resource, _, subresource = resource.partition("/")
    return Attributes(JANE, verb, group, "v1", resource, subresource, namespace, name)


def at(verb: str, path: str) -> Attributes:
    return Attributes(JANE, verb, path=path)


PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}

MATCHES: dict[str, tuple[dict[str, Any], Attributes, bool]] = {
    "verb": (PODS, on("get", "pods"), True),
    "another verb": (PODS, on("watch", "pods"), False),
    "all verbs": ({**PODS, "verbs": ["*"]}, on("frobnicate", "pods"), True),
    "no verbs": ({**PODS, "verbs": None}, on("get", "pods"), False),
    "another group": (PODS, on("get", "pods", "apps"), False),
    "all groups": ({**PODS, "apiGroups": ["*"]}, on("get", "pods", "apps"), True),
    "one of the groups": ({**PODS, "apiGroups": ["", "apps"]}, on("get", "pods", "apps"), True),
    "another resource": (PODS, on("get", "secrets"), False),
    "all resources": ({**PODS, "resources": ["*"]}, on("get", "secrets"), True),
    "all resources and subresources": ({**PODS, "resources": ["*"]}, on("get", "pods/log"), True),
    "a subresource is not in its resource": (PODS, on("get", "pods/log"), False),
    "a subresource": ({**PODS, "resources": ["pods/log"]}, on("get", "pods/log"), True),
    "a resource is not in its subresource": ({**PODS, "resources": ["pods/log"]}, on("get", "pods"), False),
    "a subresource of all": ({**PODS, "resources": ["*/scale"]}, on("get", "deployments/scale"), True),
    "another subresource of all": ({**PODS, "resources": ["*/scale"]}, on("get", "deployments/status"), False),
    "a subresource of all is no resource": ({**PODS, "resources": ["*/scale"]}, on("get", "scale"), False),
    "all subresources of one are not a thing": ({**PODS, "resources": ["pods/*"]}, on("get", "pods/log"), False),
    "a name": ({**PODS, "resourceNames": ["web"]}, on("get", "pods", name="web"), True),
    "another name": ({**PODS, "resourceNames": ["web"]}, on("get", "pods", name="db"), False),
    "no name": ({**PODS, "resourceNames": ["web"]}, on("list", "pods"), False),
    "a name is no pattern": ({**PODS, "resourceNames": ["*"]}, on("get", "pods", name="web"), False),
    "any name": ({**PODS, "resourceNames": []}, on("get", "pods", name="web"), True),
    "a path": ({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, at("get", "/metrics"), True),
    "below a path": ({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, at("get", "/metrics/"), False),
    "a prefix": ({"verbs": ["get"], "nonResourceURLs": ["/api/*"]}, at("get", "/api/v1"), True),
    "before a prefix": ({"verbs": ["get"], "nonResourceURLs": ["/api/*"]}, at("get", "/api"), False),
    "a prefix within a name": ({"verbs": ["get"], "nonResourceURLs": ["/api*"]}, at("get", "/apis"), True),
    "all paths": ({"verbs": ["get"], "nonResourceURLs": ["*"]}, at("get", "/"), True),
    "another verb on a path": ({"verbs": ["get"], "nonResourceURLs": ["*"]}, at("post", "/"), False),
    "a path is no resource": ({**PODS, "apiGroups": ["*"], "resources": ["*"]}, at("get", "/metrics"), False),
    "a resource is no path": ({"verbs": ["*"], "nonResourceURLs": ["*"]}, on("get", "pods"), False),
}


@pytest.mark.parametrize("name", MATCHES)
def test_rules(name: str) -> None:
    rule, attributes, allowed = MATCHES[name]
    assert PolicyRule.of(rule).allows(attributes) is allowed
    policy = Policy([cluster_role("it", rule), cluster_binding("it", user("jane"))])
    reason = 'RBAC: allowed by ClusterRoleBinding "it" of ClusterRole "it" to User "jane"'
    for _ in range(2):  # the second time from what is kept
        assert policy.why(attributes) == (reason if allowed else None)


def cluster_role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)}


def role(namespace: str, name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": list(rules)}


def cluster_binding(name: str, *subjects: dict[str, Any], of: str = "") -> dict[str, Any]:
    ref = {"kind": "ClusterRole", "name": of or name}
    return {"kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": ref, "subjects": list(subjects)}


def binding(namespace: str, name: str, *subjects: dict[str, Any], kind: str = "Role", of: str = "") -> dict[str, Any]:
    ref = {"kind": kind, "name": of or name}
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "RoleBinding", "metadata": metadata, "roleRef": ref, "subjects": list(subjects)}


def user(name: str) -> dict[str, Any]:
    return {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}


def group(name: str) -> dict[str, Any]:
    return {"kind": "Group", "name": name, "apiGroup": "rbac.authorization.k8s.io"}


def account(name: str, namespace: str = "") -> dict[str, Any]:
    return {"kind": "ServiceAccount", "name": name, **({"namespace": namespace} if namespace else {})}


READER = cluster_role("reader", PODS)

SUBJECTS: dict[str, tuple[dict[str, Any], UserInfo, str | None]] = {
    # name: (binding, user, what the reason ends with)
    "user": (cluster_binding("reader", user("jane")), JANE, 'User "jane"'),
    "another user": (cluster_binding("reader", user("joe")), JANE, None),
    "group": (cluster_binding("reader", group("developers")), JANE, 'Group "developers"'),
    "another group": (cluster_binding("reader", group("jane")), JANE, None),
    "the first subject that applies": (
        cluster_binding("reader", group("x"), group("system:authenticated"), user("jane")),
        JANE,
        'Group "system:authenticated"',
    ),
    "account": (cluster_binding("reader", account("robot", "ci")), ROBOT, 'ServiceAccount "robot/ci"'),
    "account of another namespace": (cluster_binding("reader", account("robot", "prod")), ROBOT, None),
    "account without a namespace": (cluster_binding("reader", account("robot")), ROBOT, None),
    "account in the binding's namespace": (
        binding("ci", "reader", account("robot"), kind="ClusterRole"),
        ROBOT,
        'ServiceAccount "robot/ci"',
    ),
    "account by its user name": (
        cluster_binding("reader", user("system:serviceaccount:ci:robot")),
        ROBOT,
        'User "system:serviceaccount:ci:robot"',
    ),
    "account by its group": (
        cluster_binding("reader", group("system:serviceaccounts:ci")),
        ROBOT,
        'Group "system:serviceaccounts:ci"',
    ),
    "a user is no account": (cluster_binding("reader", account("jane", "ci")), JANE, None),
    "an unknown kind": (cluster_binding("reader", {"kind": "Robot", "name": "jane"}), JANE, None),
    "nobody": (cluster_binding("reader"), JANE, None),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_subjects(name: str) -> None:
    bound, who, end = SUBJECTS[name]
    reason = Policy([READER, bound]).why(Attributes(who, "get", resource="pods", namespace="ci"))
    assert (reason or "").endswith(f' of ClusterRole "reader" to {end}') if end else reason is None


def test_where_bindings_hold() -> None:
    policy = Policy(
        [
            role("a", "own", PODS),
            role("b", "own", PODS),
            binding("a", "own", user("jane")),
            READER,
            binding("c", "everybody", group("developers"), kind="ClusterRole", of="reader"),
        ]
    )
    assert policy.why(on("get", "pods", namespace="a")) == 'RBAC: allowed by RoleBinding "own/a" of Role "own" to User "jane"'
    assert policy.why(on("get", "pods", namespace="c")) == (
        'RBAC: allowed by RoleBinding "everybody/c" of ClusterRole "reader" to Group "developers"'
    )
    assert policy.why(on("get", "pods", namespace="b")) is None
    assert policy.why(on("list", "pods")) is None


def test_the_first_binding_by_name_is_the_reason() -> None:
    policy = Policy([READER, *(cluster_binding(name, user("jane"), of="reader") for name in "cab")])
    assert policy.why(on("get", "pods")) == 'RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "reader" to User "jane"'


def test_rules_come_with_those_of_the_cluster_first() -> None:
    secrets = {**PODS, "resources": ["secrets"]}
    policy = Policy([binding("ns", "a", user("jane")), role("ns", "a", secrets), READER, cluster_binding("reader", user("jane"))])
    assert policy.found(JANE, "ns").rules == [PolicyRule.of(PODS), PolicyRule.of(secrets)]
    assert policy.found(JANE, "").rules == [PolicyRule.of(PODS)]


def test_missing_roles() -> None:
    policy = Policy([cluster_binding("lost", user("jane")), READER])
    found = policy.found(JANE, "ns")
    assert found.trouble() == 'clusterrole.rbac.authorization.k8s.io "lost" not found'
    assert found.trouble("clusterroles") == 'clusterroles.rbac.authorization.k8s.io "lost" not found'
    policy.put(binding("ns", "x", user("jane"), of="y"))
    policy.put(binding("ns", "z", user("jane"), of="y"))
    assert policy.found(JANE, "ns").trouble() == (
        '[clusterrole.rbac.authorization.k8s.io "lost" not found, role.rbac.authorization.k8s.io "y" not found]'
    )
    assert policy.found(JANE, "other").trouble() == 'clusterrole.rbac.authorization.k8s.io "lost" not found'
    assert policy.found(ROBOT, "ns").trouble() == ""
    # A role in another namespace is another role, and one that exists without rules is not missing.
    policy.put(cluster_role("lost"))
    policy.put(role("other", "y"))
    assert policy.found(JANE, "ns").trouble() == 'role.rbac.authorization.k8s.io "y" not found'


def test_an_unsupported_role() -> None:
    policy = Policy([{**cluster_binding("x", user("jane")), "roleRef": {"kind": "Robot", "name": "y"}}])
    assert policy.found(JANE, "").trouble("clusterroles") == 'unsupported role reference kind: "Robot"'


def test_changes_count_at_once() -> None:
    policy, asked = Policy(), on("get", "pods", namespace="ns")
    assert policy.why(asked) is None
    policy.put(binding("ns", "b", user("jane")))
    assert policy.why(asked) is None
    policy.put(role("ns", "b", PODS))
    assert policy.why(asked) is not None
    policy.put(role("ns", "b"))
    assert policy.why(asked) is None
    policy.put(role("ns", "b", PODS))
    policy.put(binding("ns", "b", user("joe"), user("joe")))
    assert policy.why(asked) is None
    assert policy.why(asked._replace(user=UserInfo("joe"))) is not None
    policy.remove("RoleBinding", "ns", "b")
    assert policy.why(asked._replace(user=UserInfo("joe"))) is None
    policy.remove("RoleBinding", "ns", "b")
    policy.remove("Role", "ns", "b")
    assert policy.found(JANE, "ns") == ([], [])


def test_what_is_kept_is_bounded() -> None:
    policy = Policy([READER, cluster_binding("reader", group("developers"))])
    for number in range(6000):
        who = UserInfo(f"user-{number}", groups=("developers",))
        assert policy.why(Attributes(who, "get", resource="pods", name=f"pod-{number}")) is not None
    assert len(policy._answers) <= 4096
    assert len(policy._found) <= 512
    before = len(policy._answers)
    assert policy.why(at("get", "/x" * 2000)) is None
    assert policy.why(on("get", "pods")._replace(user=UserInfo("x", groups=("developers", "y" * 3000)))) is not None
    assert len(policy._answers) == before
    assert not any("y" * 3000 in groups for _, groups, _ in policy._found)


def test_a_rule_as_json() -> None:
    for rule in (PODS, {"verbs": ["get"], "nonResourceURLs": ["/x"]}, {**PODS, "resourceNames": ["a"]}):
        assert PolicyRule.of(rule).as_json() == rule
