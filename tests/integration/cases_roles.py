"""Cases about RBAC, for kube-apiserver and aggserver side by side: a world of roles and bindings, and what is asked about it.

The names of users, roles and namespaces are this module's own, since others use the same control plane.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.integration.comparison import APPLY_PATCH, MERGE_PATCH, Ask, Cases, ask

__all__ = ["ESCALATIONS", "INVALID", "NAMESPACES", "PARAMS", "PROBE", "QUESTIONS", "USERS", "WORLD", "reviews"]

NAMESPACES = ("roles-a", "roles-b")
GROUP = "rbac.authorization.k8s.io"
_ROOT = f"/apis/{GROUP}/v1"


def rule(verbs: str, resources: str = "", groups: str = '""', *, names: str = "", urls: str = "") -> dict[str, Any]:
    """Words become lists."""
    if urls:
        return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}
    made = {"verbs": verbs.split(), "apiGroups": _words(groups), "resources": resources.split()}
    return {**made, "resourceNames": names.split()} if names else made


def _words(text: str) -> list[str]:
    return ["" if word == '""' else word for word in text.split()]


def role(name: str, *rules: dict[str, Any], namespace: str = "", **more: Any) -> dict[str, Any]:
    kind = "Role" if namespace else "ClusterRole"
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "rules": list(rules), **more}


def binding(name: str, kind: str, of: str, *subjects: str, namespace: str = "") -> dict[str, Any]:
    """subjects: `User ann`, `Group devs`, `ServiceAccount roles-a/robot`."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": of},
        "subjects": [_subject(*subject.split()) for subject in subjects],
    }


def _subject(kind: str, path: str) -> dict[str, Any]:
    if kind != "ServiceAccount":
        return {"apiGroup": GROUP, "kind": kind, "name": path}
    namespace, _, name = path.rpartition("/")
    return {"kind": kind, "name": name, **({"namespace": namespace} if namespace else {})}


# Each user has at most one binding that allows a question: of several, upstream names any.
WORLD = [
    role("roles-pods", rule("get list", "pods"), rule("get", "pods/log"), rule("*", "deployments", "apps")),
    role("roles-named", rule("get update", "configmaps", names="settings flags")),
    role("roles-scale", rule("get update", "*/scale", "*"), rule("patch", "*", "batch")),
    role("roles-urls", rule("get", urls="/metrics /roles/* /exact*"), rule("post", urls="*")),
    role("roles-all", rule("*", "*", "*"), rule("*", urls="*")),
    role("roles-empty"),
    role("roles-local", rule("get delete", "secrets"), namespace="roles-a"),
    role("roles-local", rule("list", "secrets"), namespace="roles-b"),
    binding("roles-pods", "ClusterRole", "roles-pods", "User roles-ann", "Group roles-devs", "ServiceAccount roles-a/robot"),
    binding("roles-named", "ClusterRole", "roles-named", "User roles-bob", "User roles-bob"),
    binding("roles-scale", "ClusterRole", "roles-scale", "Group roles-none", "Group roles-scalers"),
    binding("roles-urls", "ClusterRole", "roles-urls", "User roles-bob"),
    binding("roles-all", "ClusterRole", "roles-all", "User roles-root"),
    binding("roles-empty", "ClusterRole", "roles-empty", "User roles-eve"),
    binding("roles-lost", "ClusterRole", "roles-nowhere", "User roles-eve"),
    binding("roles-local", "Role", "roles-local", "User roles-ann", "ServiceAccount robot", namespace="roles-a"),
    binding("roles-local", "Role", "roles-local", "User roles-bob", "ServiceAccount roles-a/robot", namespace="roles-b"),
    binding("roles-named", "ClusterRole", "roles-named", "Group roles-devs", namespace="roles-a"),
    binding("roles-lost", "Role", "roles-nowhere", "User roles-ann", "User roles-bob", namespace="roles-b"),
    binding("roles-view", "ClusterRole", "view", "User roles-viv", namespace="roles-a"),
    binding("roles-nobody", "ClusterRole", "roles-all", namespace="roles-a"),
]

_ACCOUNTS = ["system:serviceaccounts", "system:serviceaccounts:roles-a", "system:authenticated"]
USERS: list[dict[str, Any]] = [
    {"user": "roles-ann", "groups": ["system:authenticated"]},
    {"user": "roles-bob"},
    {"user": "roles-dan", "groups": ["roles-devs", "roles-scalers"]},
    {"groups": ["roles-devs"]},
    {"user": "roles-root"},
    {"user": "roles-eve"},
    {"user": "roles-viv"},
    {"user": "system:serviceaccount:roles-a:robot", "groups": _ACCOUNTS},
    {"user": "system:serviceaccount:roles-b:robot", "groups": _ACCOUNTS},
    {"user": "system:anonymous", "groups": ["system:unauthenticated"]},
    {"user": "roles-master", "groups": ["system:masters"]},
    {"user": "system:kube-scheduler"},
    {"user": "system:serviceaccount:kube-system:deployment-controller"},
]


def on(verb: str, resource: str, group: str = "", namespace: str = "", name: str = "") -> dict[str, Any]:
    resource, _, subresource = resource.partition("/")
    given = {"verb": verb, "resource": resource, "subresource": subresource, "group": group, "namespace": namespace, "name": name}
    return {"resourceAttributes": {key: value for key, value in given.items() if value}}


def at(verb: str, path: str) -> dict[str, Any]:
    return {"nonResourceAttributes": {"verb": verb, "path": path}}


QUESTIONS = [
    on("get", "pods"),
    on("get", "pods", "", "roles-a", "web"),
    on("watch", "pods"),
    on("get", "pods/log", "", "roles-b"),
    on("get", "pods/exec"),
    on("frobnicate", "deployments", "apps"),
    on("get", "deployments"),
    on("get", "deployments/scale", "apps"),
    on("update", "crontabs/scale", "stable.example.com", "roles-a"),
    on("update", "scale"),
    on("patch", "jobs", "batch"),
    on("patch", "jobs/status", "batch", "roles-b", "x"),
    on("get", "configmaps", "", "roles-a", "settings"),
    on("get", "configmaps", "", "roles-b", "flags"),
    on("get", "configmaps", "", "roles-a", "other"),
    on("get", "configmaps", "", "roles-a"),
    on("list", "configmaps", "", "roles-a", "settings"),
    on("get", "secrets", "", "roles-a", "x"),
    on("list", "secrets", "", "roles-b"),
    on("delete", "secrets", "", "roles-b"),
    on("list", "secrets"),
    on("*", "*", "*"),
    on("get", "namespaces", "", "roles-a", "roles-a"),
    on("create", "selfsubjectaccessreviews", "authorization.k8s.io"),
    on("impersonate", "users"),
    at("get", "/metrics"),
    at("get", "/metrics/"),
    at("get", "/roles/x"),
    at("get", "/roles"),
    at("get", "/exactly"),
    at("post", "/anything"),
    at("get", "/healthz"),
    at("get", "/version"),
    at("get", "/api/v1"),
    at("get", "/openid/v1/jwks"),
]

# What the world allows last: once kube-apiserver's cache has it, it has the rest.
PROBE: dict[str, Any] = {"user": "roles-viv", **on("get", "pods", "", "roles-a")}


def reviews() -> Iterator[dict[str, Any]]:
    for who in USERS:
        for question in QUESTIONS:
            # Two bindings allow every user these.
            path = question.get("nonResourceAttributes", {}).get("path")
            if path in ("/healthz", "/version") and "system:authenticated" in who.get("groups", ()):
                continue
            yield {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {**who, **question}}


# --- who writes roles ---

_ANN, _ROOT_USER, _EVE, _VIV = "roles-writer", "roles-root", "roles-loser", "roles-escalator"
_POLICIES = "roles-policies"

# Users of their own, who may write roles and bindings, and have some permissions to give.
_WRITES = rule("*", "clusterroles clusterrolebindings roles rolebindings", GROUP)
WRITERS = [
    role(
        "roles-writer",
        rule("get list watch create update patch delete", "clusterroles clusterrolebindings roles rolebindings", GROUP),
    ),
    role("roles-given", rule("get list", "pods"), rule("get", "secrets", names="a b"), rule("get", urls="/given/*")),
    role("roles-escalates", rule("escalate", "roles", GROUP), rule("bind", "clusterroles", GROUP, names="roles-bindable")),
    role("roles-bindable", rule("*", "*", "*")),
    binding("roles-writer", "ClusterRole", "roles-writer", f"User {_ANN}", f"User {_EVE}", f"User {_VIV}"),
    binding("roles-given", "ClusterRole", "roles-given", f"User {_ANN}"),
    binding("roles-escalates", "ClusterRole", "roles-escalates", f"User {_VIV}"),
    role(
        "roles-policies",
        rule("*", "*", "admissionregistration.k8s.io"),
        rule("get", "configmaps"),
        rule("list", "secrets"),
        rule("get", "leases", "coordination.k8s.io"),
    ),
    binding("roles-policies", "ClusterRole", "roles-policies", f"User {_POLICIES}"),
    binding("roles-loser", "ClusterRole", "roles-nowhere", f"User {_EVE}"),
    binding("roles-loser", "Role", "roles-nowhere", f"User {_EVE}", namespace="roles-a"),
]
WORLD += WRITERS


def _url(obj: dict[str, Any], *, named: bool = False) -> str:
    kind, metadata = obj["kind"], obj["metadata"]
    where = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{_ROOT}{where}/{kind.lower()}s" + (f"/{metadata['name']}" if named else "")


def create(obj: dict[str, Any], who: str = "", **more: Any) -> Ask:
    return ask("POST", _url(obj), obj, **_as(who), **more)


def replace(obj: dict[str, Any], who: str = "", **more: Any) -> Ask:
    return ask("PUT", _url(obj, named=True), obj, **_as(who), **more)


def patch(obj: dict[str, Any], body: Any, who: str = "", kind: str = MERGE_PATCH, query: str = "", **more: Any) -> Ask:
    return ask("PATCH", _url(obj, named=True) + query, body, kind=kind, **_as(who), **more)


def remove(obj: dict[str, Any], who: str = "", **more: Any) -> Ask:
    return ask("DELETE", _url(obj, named=True), **_as(who), **more)


def _as(who: str) -> dict[str, str]:
    return {"impersonate_user": who} if who else {}


def local(*rules: dict[str, Any], name: str = "$name", **more: Any) -> dict[str, Any]:
    return role(name, *rules, namespace="roles-a", **more)


def everywhere(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return role("$name", *rules, **more)


def bind(of: str, kind: str = "ClusterRole", namespace: str = "roles-a") -> dict[str, Any]:
    return binding("$name", kind, of, "User roles-new", namespace=namespace)


_PODS, _MORE = rule("get", "pods"), rule("get watch", "pods secrets", '"" apps')
_AGGREGATES = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"roles/x": "y"}}]}}
_GENERATED = {**local(_MORE), "metadata": {"generateName": "$name-", "namespace": "roles-a"}}

ESCALATIONS: Cases = {
    "what one has": [create(local(_PODS), _ANN), remove(local(), _ANN)],
    "more": [create(local(_MORE), _ANN)],
    "more, of a cluster role": [create(everywhere(_MORE), _ANN)],
    "without a name": [create(_GENERATED, _ANN)],
    "everything": [create(everywhere(rule("*", "*", "*"), rule("*", urls="*")), _ANN)],
    "names that one has": [create(local(rule("get", "secrets", names="b")), _ANN), remove(local(), _ANN)],
    "more names": [create(local(rule("get list", "secrets", names="b c")), _ANN)],
    "all names": [create(local(rule("get", "secrets")), _ANN)],
    "paths": [create(everywhere(rule("get post", urls="/given/x /given/* /other")), _ANN)],
    "a subresource": [create(local(rule("get", "pods/log */scale")), _ANN)],
    "several rules of one resource": [create(local(_MORE, rule("list get", "secrets"), _MORE), _ANN)],
    "with roles that are missing": [create(local(_PODS), _EVE)],
    "of the cluster, with roles that are missing": [create(everywhere(_PODS), _EVE)],
    "invalid and too much": [create(local({"verbs": ["get"]}, _MORE), _ANN)],
    "invalid": [create(local({"verbs": ["get"]}), _ANN)],
    "everything, by an administrator without the group": [
        create(everywhere(_MORE, **_AGGREGATES), _ROOT_USER),
        remove(everywhere(), _ROOT_USER),
    ],
    "aggregation": [create(everywhere(_PODS, **_AGGREGATES), _ANN)],
    "aggregation and more": [create(everywhere(_MORE, **_AGGREGATES), _ANN)],
    "by escalate": [create(local(_MORE), _VIV), remove(local(), _VIV)],
    "escalate is for roles": [create(everywhere(_PODS), _VIV)],
    "a change": [create(local(_PODS), compared=False), replace(local(_MORE), _ANN), replace(local(rule("list", "pods")), _ANN)],
    "a patch": [
        create(local(_PODS), compared=False),
        patch(local(), {"rules": [_MORE]}, _ANN),
        patch(local(), {"metadata": {"labels": {"a": "b"}}}, _ANN),
    ],
    "a patch of what one does not have": [
        create(local(_MORE), compared=False),
        patch(local(), {"metadata": {"labels": {"a": "b"}}}, _ANN),
        patch(local(), {"metadata": {"finalizers": ["example.com/x"]}}, _ANN),
        patch(local(), {"metadata": {"finalizers": None}}, _ANN),
        remove(local(), _ANN),
    ],
    "an aggregation that is changed": [
        create(everywhere(_PODS, **_AGGREGATES), compared=False),
        patch(everywhere(), {"metadata": {"labels": {"a": "b"}}}, _ANN),
        patch(everywhere(), {"aggregationRule": None}, _ANN),
        remove(everywhere(), _ANN),
    ],
    "an apply": [
        patch(local(), local(_MORE), _ANN, APPLY_PATCH, "?fieldManager=me"),
        patch(local(), local(_PODS), _ANN, APPLY_PATCH, "?fieldManager=me"),
    ],
    "a replacement that creates": [replace(local(_MORE), _ANN), replace(local(_PODS), _ANN)],
    "a dry run": [ask("POST", f"{_url(local())}?dryRun=All", local(_MORE), impersonate_user=_ANN)],
    "a binding of what one has": [create(bind("roles-given"), _ANN), remove(bind(""), _ANN)],
    "a binding of more": [create(bind("roles-pods"), _ANN)],
    "a binding of the cluster": [create(bind("roles-pods", namespace=""), _ANN)],
    "a binding of a role": [create(bind("roles-local", "Role"), _ANN)],
    "a binding of a role that is missing": [create(bind("roles-nowhere", "Role"), _ANN), create(bind("roles-nowhere"), _ANN)],
    "a binding of nothing": [create(bind("x", "Robot"), _ANN), create(bind("", "Role"), _ANN)],
    "a binding of the cluster of a role": [create(bind("roles-local", "Role", ""), _ANN)],
    "a binding by bind": [create(bind("roles-bindable"), _VIV), create(bind("roles-pods"), _VIV), remove(bind(""), _VIV)],
    "a binding by an administrator": [create(bind("roles-nowhere", "Role")), remove(bind(""))],
    "a change of a binding": [
        create(bind("roles-pods"), compared=False),
        patch(bind(""), {"subjects": []}, _ANN),
        patch(bind(""), {"metadata": {"finalizers": ["example.com/x"]}}, _ANN),
        patch(bind(""), {"roleRef": {"name": "roles-given"}}, _ANN),
        patch(bind(""), {"metadata": {"finalizers": None}}, _ANN),
        remove(bind(""), _ANN),
    ],
}

_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


def _policy(kind: str, api_version: str) -> dict[str, Any]:
    spec = {
        "paramKind": {"apiVersion": api_version, "kind": kind},
        "matchConstraints": {
            "resourceRules": [{"apiGroups": ["x"], "apiVersions": ["v1"], "resources": ["y"], "operations": ["CREATE"]}]
        },
        "validations": [{"expression": "true"}],
    }
    metadata = {"name": "$name"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": spec,
    }


def _bound_policy(ref: dict[str, Any], policy: str = "$name") -> dict[str, Any]:
    spec = {"policyName": policy, "paramRef": {**ref, "parameterNotFoundAction": "Allow"}, "validationActions": ["Deny"]}
    kind, metadata = "ValidatingAdmissionPolicyBinding", {"name": "$name"}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _write_policy(body: dict[str, Any], **more: Any) -> Ask:
    return ask("POST", f"{_REGISTRATION}/validatingadmissionpolicies", body, **_as(_POLICIES), **more)


def _write_binding(body: dict[str, Any]) -> Ask:
    return ask("POST", f"{_REGISTRATION}/validatingadmissionpolicybindings", body, **_as(_POLICIES))


def _remove_policy(kind: str = "validatingadmissionpolicies") -> Ask:
    return ask("DELETE", f"{_REGISTRATION}/{kind}/$name")


PARAMS: Cases = {
    "a kind that one may get": [_write_policy(_policy("ConfigMap", "v1")), _remove_policy()],
    "a kind that one may not get": [_write_policy(_policy("Secret", "v1"))],
    "a kind of another group": [_write_policy(_policy("Lease", "coordination.k8s.io/v1")), _remove_policy()],
    "a kind that is not served": [_write_policy(_policy("Limit", "rules.example.com/v1"))],
    "a change of the kind": [
        _write_policy(_policy("ConfigMap", "v1"), compared=False),
        ask(
            "PATCH",
            f"{_REGISTRATION}/validatingadmissionpolicies/$name",
            {"spec": {"paramKind": {"kind": "Secret"}}},
            kind=MERGE_PATCH,
            **_as(_POLICIES),
        ),
        _remove_policy(),
    ],
    "objects": [
        _write_policy(_policy("ConfigMap", "v1"), compared=False),
        _write_binding(_bound_policy({"name": "x", "namespace": "roles-a"})),
        _remove_policy("validatingadmissionpolicybindings"),
        _write_binding(_bound_policy({"selector": {}})),
        _write_binding(_bound_policy({"name": "x"}, "roles-no-policy")),
        _write_binding(_bound_policy({"selector": {}}, "roles-no-policy")),
        _remove_policy(),
    ],
    "objects of a kind that is not served": [
        ask("POST", f"{_REGISTRATION}/validatingadmissionpolicies", _policy("Limit", "rules.example.com/v1"), compared=False),
        _write_binding(_bound_policy({"name": "x"})),
        _remove_policy(),
    ],
}

_REF = {"apiGroup": GROUP, "kind": "Role", "name": "x"}


def _bound(**more: Any) -> dict[str, Any]:
    return {**binding("$name", "Role", "x", namespace="roles-a"), **more}


def _cluster_bound(**more: Any) -> dict[str, Any]:
    return {**binding("$name", "ClusterRole", "x"), **more}


INVALID: Cases = {
    "no verbs": [create(local({"apiGroups": [""], "resources": ["pods"], "verbs": []}))],
    "nothing in a rule": [create(local({})), create(everywhere({}))],
    "no groups and no resources": [create(local({"verbs": ["get"]}))],
    "paths in a namespace": [create(local(rule("get", urls="/x /y")))],
    "paths and resources": [
        create(everywhere({**_PODS, "nonResourceURLs": ["/x"]})),
        create(local({"verbs": [], "resourceNames": ["a"], "nonResourceURLs": ["/x"]})),
    ],
    "rules that are null": [create({**local(), "rules": None}), remove(local())],
    "no selectors": [create(everywhere(aggregationRule={})), create(everywhere(aggregationRule={"clusterRoleSelectors": []}))],
    "selectors": [
        create(
            everywhere(
                aggregationRule={
                    "clusterRoleSelectors": [
                        {"matchLabels": {"a b": "c"}},
                        {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b c"]}]},
                        {"matchExpressions": [{"key": "a", "operator": "In"}]},
                    ]
                }
            )
        )
    ],
    "names": [
        create({**local(), "metadata": {"name": "a/b", "namespace": "roles-a"}}),
        create({**everywhere(), "metadata": {"name": "Roles: any%thing"}}),
        create({**everywhere(), "metadata": {"name": ".."}}),
        create({**everywhere(), "metadata": {"labels": {"a": "b c"}}}),
    ],
    "what roleRef gets": [create(_bound(roleRef={"kind": "Role", "name": "x"}, subjects=None)), remove(_bound())],
    "what subjects get": [
        create(
            _bound(
                subjects=[{"kind": "User", "name": "a"}, {"kind": "Group", "name": "b"}, {"kind": "ServiceAccount", "name": "c"}]
            )
        ),
        remove(_bound()),
    ],
    "roleRef": [
        create(_bound(roleRef={})),
        create(_bound(roleRef={"apiGroup": "x", "kind": "Robot", "name": "a/b"})),
        create(_cluster_bound(roleRef=_REF)),
        create(_cluster_bound(roleRef={})),
    ],
    "subjects": [
        create(_bound(subjects=[{}, {"kind": "User"}, {"kind": "Robot", "name": "x"}])),
        create(
            _bound(subjects=[{"kind": "User", "name": "x", "apiGroup": "y"}, {"kind": "Group", "name": "x", "apiGroup": "y"}])
        ),
        create(_bound(subjects=[{"kind": "ServiceAccount", "name": "a_b", "apiGroup": GROUP}])),
        create(_cluster_bound(subjects=[{"kind": "ServiceAccount", "name": "a"}])),
    ],
    "a change of roleRef": [
        create(_bound(), compared=False),
        replace(_bound(roleRef={**_REF, "name": "y"})),
        replace(_bound(roleRef={**_REF, "kind": "ClusterRole"})),
        patch(_bound(), {"roleRef": {"kind": "Robot"}}),
        replace(_bound(subjects=[{"kind": "User", "name": "z"}])),
        remove(_bound()),
    ],
    "a change of rules": [
        create(local(_PODS), compared=False),
        replace(local({})),
        patch(local(), {"metadata": {"labels": {"a": "b c"}}}),
        patch(local(), {"rules": [{"verbs": []}]}),
        replace(local(_MORE)),
        remove(local()),
    ],
}
