"""Kinds: which kinds have a Go type in the tables, with their apiVersion and the names of their types.

Pure. Source: the register.go of each package of k8s.io/api, k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator, v0.36.3.
"""

from __future__ import annotations

from aggserver.scheme.types import Type, lookup

__all__ = ["KINDS", "kind_of", "type_of"]

# Package of Go types -> the kinds in it.
_PACKAGES = {
    "admissionregistration/v1": (
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration"
        " ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration"
    ),
    "apiextensions/v1": "CustomResourceDefinition",
    "apiregistration/v1": "APIService",
    "apps/v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "authentication/v1": "SelfSubjectReview TokenRequest TokenReview",
    "authorization/v1": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    "autoscaling/v1": "HorizontalPodAutoscaler Scale",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "batch/v1": "CronJob Job",
    "certificates/v1": "CertificateSigningRequest",
    "coordination/v1": "Lease",
    "core/v1": (
        "Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod"
        " PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount"
    ),
    "discovery/v1": "EndpointSlice",
    "events/v1": "Event",
    "flowcontrol/v1": "FlowSchema PriorityLevelConfiguration",
    "networking/v1": "IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR",
    "node/v1": "RuntimeClass",
    "policy/v1": "Eviction PodDisruptionBudget",
    "rbac/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "resource/v1": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    "scheduling/v1": "PriorityClass",
    "storage/v1": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass",
}
_GROUPS = {
    "core": "",
    "flowcontrol": "flowcontrol.apiserver.k8s.io",
    "meta": "",
    "rbac": "rbac.authorization.k8s.io",
} | {name: name for name in ("apps", "autoscaling", "batch", "policy")}

# The names of the types of all kinds.
KINDS = tuple(f"{package}.{kind}" for package, kinds in _PACKAGES.items() for kind in kinds.split())


def kind_of(type_name: str) -> tuple[str, str]:
    """(apiVersion, kind) of a type. The apiVersion is '' for kinds of meta/v1, which exist in every group."""
    package, _, kind = type_name.rpartition(".")
    group, _, version = package.partition("/")
    group = _GROUPS.get(group, f"{group}.k8s.io")
    return "" if package == "meta/v1" else f"{group}/{version}".removeprefix("/"), kind


_NAMES = {kind_of(name): name for name in KINDS}


def type_of(api_version: str, kind: str) -> Type:
    """The type of a kind. Raises KeyError."""
    return lookup(_NAMES[api_version, kind])
