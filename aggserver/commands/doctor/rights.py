"""The rights that manifests/ gives to the server's service account: which file gives each, and what fails without it. Pure.

Whether the account has a right is asked by a SubjectAccessReview, so that it does not matter by which objects it was given. A
test holds this table against the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aggserver.apiextensions.api_service import Service
from aggserver.commands.adopt.plan import HostAccess, access_of
from aggserver.meta.json_types import JSONMapping

__all__ = [
    "MANIFESTS_NAMESPACE",
    "Grant",
    "grant_of_objects",
    "grants",
    "grants_of_adoption",
    "grants_of_certificates",
    "grants_of_tasks",
]

# The namespace that the files name.
MANIFESTS_NAMESPACE = "aggserver-system"

_READ = ("get", "list", "watch")
_ADMISSION = "admissionregistration.k8s.io"
_RULES = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
)
_GUARDS = "validatingwebhookconfigurations"


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights that belong together. files: below manifests/, which give them. without: what is so if one is missing.

    mend: the command that gives them, where it is not that these files are applied.
    """

    files: Sequence[str]
    rights: Sequence[HostAccess]
    without: str
    mend: str = ""


def grants() -> list[Grant]:
    """What every server needs."""
    authentication = [
        HostAccess(verb, "", "configmaps", "", "kube-system", "extension-apiserver-authentication") for verb in _READ
    ]
    access = [HostAccess(verb, "", "namespaces") for verb in _READ]
    access += [HostAccess(verb, _ADMISSION, rules) for rules in _RULES for verb in _READ]
    access += [HostAccess(verb, "", "resourcequotas") for verb in _READ]
    access += [HostAccess("update", "", "resourcequotas", "status"), HostAccess("get", "", "services")]
    access += [HostAccess(verb, "apiregistration.k8s.io", "apiservices") for verb in (*_READ, "create", "update", "delete")]
    return [
        Grant(
            ("auth-delegator.yaml",),
            (
                HostAccess("create", "authentication.k8s.io", "tokenreviews"),
                HostAccess("create", "authorization.k8s.io", "subjectaccessreviews"),
            ),
            "kube-apiserver decides for the server who a token's user is, and who may do what; without this it refuses requests",
        ),
        Grant(
            ("auth-reader.yaml",),
            authentication,
            "this ConfigMap says whose requests are the aggregator's; the server does not become ready without it",
        ),
        Grant(
            ("cluster-access.yaml", "cluster-access-binding.yaml"),
            access,
            "the server keeps its APIServices by these, and applies the cluster's admission rules and quotas; it does not become "
            "ready without",
        ),
    ]


def grants_of_certificates(service: Service) -> list[Grant]:
    """What a server needs that makes its certificates itself and keeps them in a Secret."""
    namespace, secret = service.namespace, f"{service.name}-certificates"
    rights = [HostAccess(verb, "", "secrets", "", namespace, secret) for verb in ("get", "update")]
    return [
        Grant(
            ("certificate-store.yaml", "certificate-store-binding.yaml"),
            (*rights, HostAccess("create", "", "secrets", "", namespace)),
            "the server keeps its certificate in a Secret, and can't make or renew it without",
        )
    ]


def grants_of_tasks(service: Service) -> list[Grant]:
    """What a server with an App needs."""
    rights = [HostAccess(verb, "coordination.k8s.io", "leases", "", service.namespace) for verb in ("get", "create", "update")]
    return [
        Grant(
            ("task-lease.yaml", "task-lease-binding.yaml"),
            rights,
            "by the Lease one server at a time runs the tasks of the App; none runs them without",
        )
    ]


def grants_of_adoption(service: Service, guard_name: str, *, lists_kube_apiservers: bool) -> list[Grant]:
    """What a server with --adopt needs, beside the rights on objects. lists_kube_apiservers: it has no --kube-apiservers."""
    definitions = ("apiextensions.k8s.io", "customresourcedefinitions")
    cluster = [HostAccess(verb, *definitions) for verb in (*_READ, "update", "patch")]
    cluster += [HostAccess(verb, *definitions, "status") for verb in ("get", "update", "patch")]
    cluster.append(HostAccess("create", _ADMISSION, _GUARDS))
    cluster += [HostAccess(verb, _ADMISSION, _GUARDS, name=guard_name) for verb in ("get", "update", "delete")]
    cluster += [HostAccess(verb, "", "events", "", "default") for verb in ("get", "create", "patch")]
    namespace = service.namespace
    own = [HostAccess(verb, "", "configmaps", "", namespace) for verb in ("get", "create", "update", "patch")]
    own += [HostAccess(verb, "coordination.k8s.io", "leases", "", namespace) for verb in ("get", "create", "update")]
    own.append(HostAccess("list", "discovery.k8s.io", "endpointslices", "", namespace))
    found = [
        Grant(
            ("adoption/cluster-access.yaml", "adoption/cluster-access-binding.yaml"),
            cluster,
            "the server follows definitions, holds them by a finalizer, and guards their objects by these; nothing moves without",
        ),
        Grant(
            ("adoption/namespace-access.yaml", "adoption/namespace-access-binding.yaml"),
            own,
            "the Lease says which server moves definitions, and the ConfigMap how far it is; nothing moves without",
        ),
    ]
    if lists_kube_apiservers:
        found.append(
            Grant(
                ("adoption/kube-apiservers.yaml", "adoption/kube-apiservers-binding.yaml"),
                [HostAccess("list", "discovery.k8s.io", "endpointslices", "", "default")],
                "each kube-apiserver must have switched before a move goes on; without it, or --kube-apiservers, nothing moves",
            )
        )
    return found


def grant_of_objects(crd: JSONMapping, *, has_host_etcd: bool) -> Grant:
    """What a server needs that is to adopt this definition. has_host_etcd: whether it has --host-etcd-servers."""
    rights = access_of(crd, has_host_etcd=has_host_etcd)
    group, plural = str(crd["spec"]["group"]), str(crd["spec"]["names"]["plural"])
    role = f"aggserver:adopted-{plural}.{group}"
    verbs = "get,list,watch,create,update,patch,delete"
    resources = ",".join(
        sorted({f"{plural}.{group}/{each.subresource}" if each.subresource else f"{plural}.{group}" for each in rights})
    )
    return Grant(
        ("adoption/adopted.yaml",),
        rights,
        f"the server reads the objects of {plural}.{group} in the cluster to copy them, and writes them when they go back; a "
        "ClusterRole of yours gives that, by a label",
        f"kubectl create clusterrole {role} --verb={verbs} --resource={resources} && "
        f"kubectl label clusterrole {role} aggserver.io/aggregate-to-adopted=true",
    )
