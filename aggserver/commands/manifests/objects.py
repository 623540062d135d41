"""The objects that run an App in a cluster: those of `manifests/` in the repository, with the App's name, and what differs.

What differs: the image has the App, so there is no volume of definitions; without stored objects there is none for data either.
APIServices are not among them: the running server makes and renews these, with its CA.
Pure. `tests/commands/manifests` compares them with the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aggserver.commands.manifests.roles import LEVELS, Offered, rules
from aggserver.meta.json_types import JSONObject
from aggserver.resources import needs as needed
from aggserver.resources.needs import Need

__all__ = ["Installation", "objects"]

_NEEDS = "What the App's code declares that it needs of the cluster."
_AS_USERS = (
    "Lets the server ask the cluster with the rights of its users, for these requests only (constrained impersonation).\n"
    "# A cluster before 1.36 doesn't know these verbs: it needs `impersonate` on users, groups and serviceaccounts, and on *\n"
    "# of authentication.k8s.io, with which the server may do everything that any user of the cluster may."
)
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io/v1"
_LABEL = "app.kubernetes.io/name"
_PORT = 6443
_DATA = "/var/lib/aggserver"


@dataclass(frozen=True)
class Installation:
    """name: of the Service, the Deployment and all else. apps: as `--app` has them. is_stored: whether objects are kept in a
    volume. runs_tasks: whether an App has tasks, which one replica at a time runs. needs: the rights in the cluster that the Apps
    declare.
    """

    name: str
    namespace: str
    image: str
    apps: Sequence[str]
    offered: Sequence[Offered]
    is_stored: bool
    runs_tasks: bool = False
    needs: Sequence[Need] = ()

    def metadata(self, name: str = "", namespace: str | None = None, **labels: str) -> JSONObject:
        """Of an object; namespace: that of the installation by default, '' for none."""
        where = self.namespace if namespace is None else namespace
        found: JSONObject = {"name": name or self.name}
        if where:
            found["namespace"] = where
        return {**found, "labels": {_LABEL: self.name, **labels}}

    @property
    def account(self) -> JSONObject:
        return {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}


def objects(of: Installation) -> list[tuple[str, JSONObject]]:
    """(what it is for, object) in the order in which they can be created."""
    return [
        ("", _namespace(of)),
        ("", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": of.metadata(), "automountServiceAccountToken": False}),
        *_rights(of),
        *_policy(of),
        *_user_roles(of),
        *([("The database with all objects: a local disk or a block device, not NFS.", _claim(of))] if of.is_stored else []),
        (f"The serving certificate is for its name: {of.name}.{of.namespace}.svc", _service(of)),
        ("", _deployment(of)),
    ]


def _namespace(of: Installation) -> JSONObject:
    pod_security = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": of.metadata(of.namespace, "", **pod_security)}


# --- rights of the server ---


def _rights(of: Installation) -> list[tuple[str, JSONObject]]:
    own = f"{of.name}:certificate-store"
    secret = f"{of.name}-certificates"
    certificate_rules = [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    ]
    tasks: list[tuple[str, JSONObject]] = []
    if of.runs_tasks:
        leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
        tasks = [
            ("The replica that holds a Lease runs the App's tasks.", _role(of, f"{of.name}:tasks", [leases], of.namespace)),
            ("", _binding(of, f"{of.name}:tasks", f"{of.name}:tasks", of.namespace)),
        ]
    return [
        *tasks,
        (
            "Lets the server ask kube-apiserver who a user is, and what users may do.",
            _binding(of, f"{of.name}:auth-delegator", "system:auth-delegator"),
        ),
        (
            "Lets the server read which client certificates are the aggregator's.",
            _binding(of, f"{of.name}:auth-reader", "extension-apiserver-authentication-reader", "kube-system"),
        ),
        (f"The server keeps its CA and serving certificate in Secret {secret}.", _role(of, own, certificate_rules, of.namespace)),
        ("", _binding(of, own, own, of.namespace)),
        (
            "The server knows the cluster's namespaces, applies its rules of admission and quotas, and registers APIs.",
            _role(of, of.name, _cluster_rules()),
        ),
        ("", _binding(of, of.name, of.name)),
        *_needs(of),
    ]


def _needs(of: Installation) -> list[tuple[str, JSONObject]]:
    """What the Apps' functions do in the cluster: by the server itself, and with the rights of users."""
    found: list[tuple[str, JSONObject]] = []
    own = [need for need in of.needs if not need.as_user]
    as_user = [need for need in of.needs if need.as_user]
    for of_users, needs in ((False, own), (True, as_user)):
        name = f"{of.name}:{'as-users' if of_users else 'needs'}"
        for namespace, its_rules in sorted({**({"": []} if of_users and needs else {}), **needed.rules(needs)}.items()):
            comment = _AS_USERS if of_users and not namespace else _NEEDS
            more = needed.impersonation_rules() if of_users and not namespace else []
            found += [(comment, _role(of, name, [*more, *its_rules], namespace)), ("", _binding(of, name, name, namespace))]
    return found


def _cluster_rules() -> list[JSONObject]:
    watched = ["get", "list", "watch"]
    registrations = [
        *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations"),
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations"),
    ]
    return [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": [*watched]},
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": registrations, "verbs": [*watched]},
        {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": [*watched]},
        {"apiGroups": [""], "resources": ["resourcequotas/status"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["get"]},
        {
            "apiGroups": ["apiregistration.k8s.io"],
            "resources": ["apiservices"],
            "verbs": [*watched, "create", "update", "delete"],
        },
    ]


def _role(of: Installation, name: str, its_rules: Sequence[JSONObject], namespace: str = "", **labels: str) -> JSONObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": of.metadata(name, namespace, **labels),
        "rules": [*its_rules],
    }


def _binding(of: Installation, name: str, role: str, namespace: str = "") -> JSONObject:
    kind = "Role" if namespace else "ClusterRole"
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": of.metadata(name, namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
        "subjects": [of.account],
    }


def _policy(of: Installation) -> list[tuple[str, JSONObject]]:
    """Restricts the account to APIServices of its own Service, which RBAC can't express."""
    name = f"{of.name}-api-services"
    groups = sorted({group for group, _ in of.offered})
    service = f'state.spec.service.namespace == "{of.namespace}" && state.spec.service.name == "{of.name}"'
    listed = ", ".join(f'"{group}"' for group in groups)
    spec: JSONObject = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [
                {
                    "apiGroups": ["apiregistration.k8s.io"],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": ["apiservices", "apiservices/status"],
                    "scope": "*",
                }
            ],
        },
        "matchConditions": [
            {
                "name": "of-the-server",
                "expression": f'request.userInfo.username == "system:serviceaccount:{of.namespace}:{of.name}"',
            }
        ],
        "variables": [{"name": "states", "expression": "[object, oldObject].filter(state, state != null)"}],
        "validations": [
            {
                "expression": f"variables.states.all(state, has(state.spec.service) && {service})",
                "message": f"{of.name} may only touch APIServices that lead to its own Service, {of.namespace}/{of.name}",
                "reason": "Forbidden",
            },
            {
                "expression": f"variables.states.all(state, state.spec.group in [{listed}])",
                "message": f"{of.name} may only serve {', '.join(groups)}",
                "reason": "Forbidden",
            },
            {
                "expression": "object == null || !has(object.spec.insecureSkipTLSVerify) || !object.spec.insecureSkipTLSVerify",
                "message": f"{of.name} may not have the aggregator pass over its certificate",
                "reason": "Forbidden",
            },
        ],
    }
    policy: JSONObject = {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": of.metadata(name, ""),
        "spec": spec,
    }
    binding: JSONObject = {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": of.metadata(name, ""),
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [("Restricts these rights to APIServices of the server's own Service and groups.", policy), ("", binding)]


# --- rights of users ---


def _user_roles(of: Installation) -> list[tuple[str, JSONObject]]:
    found = []
    for level, into in LEVELS.items():
        labels = {f"{_RBAC}/aggregate-to-{name}": "true" for name in sorted(into)}
        role = _role(of, f"{of.name}:{level}", rules(level, of.offered), **labels)
        found.append((f"For users who have the role {level}: Kubernetes adds these rules to it.", role))
    return found


# --- what runs ---


def _claim(of: Installation) -> JSONObject:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": of.metadata(f"{of.name}-data"), "spec": spec}


def _service(of: Installation) -> JSONObject:
    port = {"name": "https", "port": 443, "targetPort": "https", "appProtocol": "https"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": of.metadata(),
        "spec": {"selector": {_LABEL: of.name}, "ports": [port]},
    }


def _deployment(of: Installation) -> JSONObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": of.metadata(),
        "spec": {
            "replicas": 1,
            # One server at a time can have the database open. Else it is the default, which isn't said: said in part, it would be
            # a change at each `kubectl apply`.
            **({"strategy": {"type": "Recreate"}} if of.is_stored else {}),
            "selector": {"matchLabels": {_LABEL: of.name}},
            "template": {
                "metadata": {
                    "labels": {_LABEL: of.name},
                    "annotations": {"kubectl.kubernetes.io/default-container": "aggserver"},
                },
                "spec": _pod(of),
            },
        },
    }


def _pod(of: Installation) -> JSONObject:
    volumes: list[JSONObject] = [{"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}}]
    if of.is_stored:
        volumes.insert(0, {"name": "data", "persistentVolumeClaim": {"claimName": f"{of.name}-data"}})
    return {
        "serviceAccountName": of.name,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 45,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(of)],
        "volumes": volumes,
    }


def _container(of: Installation) -> JSONObject:
    mounts = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - in the pod
    if of.is_stored:
        mounts.insert(0, {"name": "data", "mountPath": _DATA})
    return {
        "name": "aggserver",
        "image": of.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "serve",
            *(f"--app={app}" for app in of.apps),
            f"--secure-port={_PORT}",
            f"--data={_DATA if of.is_stored else ':memory:'}",
            f"--service-name={of.name}",
            "--service-namespace=$(POD_NAMESPACE)",
            "--shutdown-grace-period=30s",
        ],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}},
        ],
        "ports": [{"name": "https", "containerPort": _PORT}],
        "startupProbe": _probe("/livez", initialDelaySeconds=1, periodSeconds=1, timeoutSeconds=5, failureThreshold=120),
        "livenessProbe": _probe("/livez", periodSeconds=10, timeoutSeconds=10, failureThreshold=6),
        "readinessProbe": _probe("/readyz", periodSeconds=2, timeoutSeconds=5, failureThreshold=3),
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _probe(path: str, **numbers: Any) -> JSONObject:
    return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, **numbers}
