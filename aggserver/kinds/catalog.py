"""The catalog of the built-in kinds: what discovery says about each, and how the rules for its writes differ from the others'.

Only data; at import, nothing but these rows is built. A test compares discovery with a real kube-apiserver's.
Pure. Source: k8s.io/kubernetes pkg/registry/*/*/{strategy.go,storage/storage.go}, pkg/apis/*/v1/conversion.go (selectable fields)
and pkg/apis/*/validation (names), v1.36.3.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from aggserver.meta.names import NameRule, dns1123_label, dns1123_subdomain, ip_address_name, path_segment_name
from aggserver.meta.resource import ResourceInfo
from aggserver.publish import discovery
from aggserver.publish.discovery import APIResource, APISubresource

__all__ = ["GROUPS", "KINDS", "BuiltInKind", "type_name"]

_CREATE = ("create",)


@dataclass(frozen=True, slots=True)
class BuiltInKind:
    """One kind in one version. short_names, categories: separated by spaces.

    subresources: as in discovery, without `status` and `scale`.
    has_status: whether there is `/status`, which alone changes the status. keeps_status: whether a create keeps it, as for Nodes.
    scale: member of the status that is the number of replicas; '' without `/scale`.
    counted: the members whose change increments the generation, with dots for those of metadata. generation: of a new
    object, 0 for none. kept_by_status: the members of metadata that `/status` does not change; `*` for all.
    own_spec: whether field managers own the spec, and through `/status` the conditions; not for a CertificateSigningRequest.
    unconditional: whether updates need no resourceVersion. creates: whether an update creates a missing object. returns_deleted:
    whether a delete returns the object instead of a Status. deprecated: text of the warning for each request. graceful: whether a
    delete has a grace period. orphans: whether a delete orphans dependents by default.
    fields: the selectable ones beside those of metadata, each `NAME[@PATH[|PATH]][=ZERO]`: PATH if it is not the name, ZERO
    for the text of a missing value if that is not ''.
    stored_as: (group, version) in which the objects are stored, if that is another one.
    """

    plural: str
    name: str
    short_names: str = ""
    categories: str = ""
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    singular: str = ""
    has_status: bool = False
    keeps_status: bool = False
    scale: str = ""
    subresources: tuple[APISubresource, ...] = ()
    counted: tuple[str, ...] = ()
    generation: int = 0
    kept_by_status: tuple[str, ...] = ()
    own_spec: bool = True
    name_rule: NameRule = dns1123_subdomain
    unconditional: bool = True
    creates: bool = False
    returns_deleted: bool = False
    graceful: bool = False
    orphans: bool = False
    deprecated: str = ""
    fields: tuple[str, ...] = ()
    stored_as: tuple[str, str] | None = None

    @property
    def info(self) -> ResourceInfo:
        return ResourceInfo(self.group, self.version, self.plural, self.name, f"{self.name}List", self.namespaced)

    @property
    def type_name(self) -> str:
        """The name of the type in the tables of `scheme/`."""
        return type_name(self.group, self.version, self.name)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored(self) -> tuple[str, str]:
        """Group and version in which the objects are stored."""
        return self.stored_as or (self.group, self.version)

    @property
    def versions(self) -> list[BuiltInKind]:
        """The kind in all versions in which its objects are served."""
        return [each for each in KINDS if (each.plural, each.stored) == (self.plural, self.stored)]

    def discovered(self, served: Container[str]) -> APIResource:
        """The kind as discovery shows it. served: names of `subresources` that are served."""
        below = [each for each in self.subresources if each.name in served]
        if self.has_status:
            below.append(APISubresource("status", self.name, discovery.SUBRESOURCE_VERBS))
        if self.scale:
            below.append(APISubresource("scale", "Scale", discovery.SUBRESOURCE_VERBS, "autoscaling", "v1"))
        return APIResource(
            self.info,
            discovery.BUILT_IN_VERBS,
            singular=self.singular or self.name.lower(),
            short_names=tuple(self.short_names.split()),
            categories=tuple(self.categories.split()),
            storage_version_hash=discovery.storage_version_hash(*self.stored, self.name),
            subresources=tuple(sorted(below, key=lambda each: each.name)),
        )


def type_name(group: str, version: str, name: str) -> str:
    """The name of a kind in the tables of `scheme/`."""
    return f"{group.partition('.')[0] or 'core'}/{version}.{name}"


def _of(group: str, version: str, *kinds: BuiltInKind) -> tuple[BuiltInKind, ...]:
    return tuple(replace(kind, group=group, version=version) for kind in kinds)


# For kept_by_status: `/status` keeps all metadata that a strategy can keep.
_ALL = ("*",)

# The subresources of a Pod beside `/status`.
_OF_PODS = (
    APISubresource("binding", "Binding", _CREATE),
    APISubresource("ephemeralcontainers", "Pod", discovery.SUBRESOURCE_VERBS),
    APISubresource("eviction", "Eviction", _CREATE, "policy", "v1"),
    APISubresource("resize", "Pod", discovery.SUBRESOURCE_VERBS),
)
_ENDPOINTS = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

KINDS: tuple[BuiltInKind, ...] = (
    *_of(
        "",
        "v1",
        BuiltInKind("configmaps", "ConfigMap", "cm"),
        BuiltInKind("endpoints", "Endpoints", "ep", creates=True, deprecated=_ENDPOINTS),
        BuiltInKind(
            "events",
            "Event",
            "ev",
            creates=True,
            name_rule=path_segment_name,
            fields=(
                *(f"involvedObject.{name}" for name in _INVOLVED),
                "reason",
                "reportingComponent",
                "source@source.component|reportingComponent",
                "type",
            ),
        ),
        BuiltInKind("limitranges", "LimitRange", "limits", creates=True),
        BuiltInKind(
            "nodes",
            "Node",
            "no",
            namespaced=False,
            has_status=True,
            keeps_status=True,
            fields=("spec.unschedulable=false",),
        ),
        BuiltInKind("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", has_status=True, returns_deleted=True),
        BuiltInKind("persistentvolumes", "PersistentVolume", "pv", namespaced=False, has_status=True, returns_deleted=True),
        BuiltInKind(
            "pods",
            "Pod",
            "po",
            "all",
            has_status=True,
            subresources=_OF_PODS,
            counted=("spec",),
            generation=1,
            kept_by_status=("deletionTimestamp", "ownerReferences"),
            returns_deleted=True,
            graceful=True,
            fields=(
                "spec.nodeName",
                "spec.host@spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork=false",
                "status.phase",
                "status.podIP",
                "status.podIPs@",
                "status.nominatedNodeName",
            ),
        ),
        BuiltInKind("podtemplates", "PodTemplate", counted=("template",), generation=1, returns_deleted=True),
        BuiltInKind(
            "replicationcontrollers",
            "ReplicationController",
            "rc",
            "all",
            orphans=True,
            has_status=True,
            scale="replicas",
            counted=("spec",),
            generation=1,
            fields=("status.replicas=0",),
        ),
        BuiltInKind("resourcequotas", "ResourceQuota", "quota", has_status=True, returns_deleted=True),
        BuiltInKind("secrets", "Secret", fields=("type",)),
        BuiltInKind(
            "serviceaccounts",
            "ServiceAccount",
            "sa",
            subresources=(APISubresource("token", "TokenRequest", _CREATE, "authentication.k8s.io", "v1"),),
            returns_deleted=True,
        ),
        BuiltInKind(
            "services",
            "Service",
            "svc",
            "all",
            has_status=True,
            name_rule=dns1123_label,
            creates=True,
            returns_deleted=True,
            fields=("spec.clusterIP", "spec.type"),
        ),
    ),
    *_of(
        "apiregistration.k8s.io",
        "v1",
        BuiltInKind(
            "apiservices",
            "APIService",
            categories="api-extensions",
            namespaced=False,
            has_status=True,
            kept_by_status=_ALL,
            name_rule=path_segment_name,
            unconditional=False,
        ),
    ),
    *_of(
        "apps",
        "v1",
        BuiltInKind("controllerrevisions", "ControllerRevision"),
        BuiltInKind("daemonsets", "DaemonSet", "ds", "all", has_status=True, counted=("spec",), generation=1),
        BuiltInKind(
            "deployments",
            "Deployment",
            "deploy",
            "all",
            has_status=True,
            scale="replicas",
            counted=("spec", "metadata.annotations"),
            generation=1,
            kept_by_status=("labels",),
        ),
        BuiltInKind("replicasets", "ReplicaSet", "rs", "all", has_status=True, scale="replicas", counted=("spec",), generation=1),
        BuiltInKind(
            "statefulsets",
            "StatefulSet",
            "sts",
            "all",
            has_status=True,
            scale="replicas",
            counted=("spec",),
            generation=1,
            name_rule=dns1123_label,
        ),
    ),
    *_of(
        "events.k8s.io",
        "v1",
        BuiltInKind(
            "events",
            "Event",
            "ev",
            creates=True,
            fields=(
                *(f"regarding.{name}" for name in _INVOLVED),
                "reason",
                "reportingController",
                "type",
            ),
            stored_as=("", "v1"),
        ),
    ),
    *_of(
        "autoscaling",
        "v2",
        BuiltInKind("horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "all", has_status=True),
    ),
    *_of(
        "autoscaling",
        "v1",
        BuiltInKind(
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            "hpa",
            "all",
            has_status=True,
            stored_as=("autoscaling", "v2"),
        ),
    ),
    *_of(
        "batch",
        "v1",
        BuiltInKind("cronjobs", "CronJob", "cj", "all", has_status=True, counted=("spec",), generation=1),
        BuiltInKind(
            "jobs",
            "Job",
            categories="all",
            orphans=True,
            has_status=True,
            counted=("spec",),
            generation=1,
            fields=("status.successful@status.succeeded=0",),
        ),
    ),
    *_of(
        "certificates.k8s.io",
        "v1",
        BuiltInKind(
            "certificatesigningrequests",
            "CertificateSigningRequest",
            "csr",
            namespaced=False,
            has_status=True,
            own_spec=False,
            subresources=(APISubresource("approval", "CertificateSigningRequest", discovery.SUBRESOURCE_VERBS),),
            name_rule=path_segment_name,
            fields=("spec.signerName",),
        ),
    ),
    *_of(
        "networking.k8s.io",
        "v1",
        BuiltInKind("ingressclasses", "IngressClass", namespaced=False, counted=("spec",), generation=1),
        BuiltInKind("ingresses", "Ingress", "ing", has_status=True, counted=("spec",), generation=1),
        BuiltInKind("ipaddresses", "IPAddress", "ip", namespaced=False, name_rule=ip_address_name),
        BuiltInKind("networkpolicies", "NetworkPolicy", "netpol", counted=("spec",), generation=1),
        BuiltInKind("servicecidrs", "ServiceCIDR", namespaced=False, has_status=True, kept_by_status=_ALL),
    ),
    *_of(
        "policy",
        "v1",
        BuiltInKind(
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            "pdb",
            has_status=True,
            counted=("spec",),
            generation=1,
            name_rule=path_segment_name,
            unconditional=False,
        ),
    ),
    *_of(
        "rbac.authorization.k8s.io",
        "v1",
        BuiltInKind("clusterrolebindings", "ClusterRoleBinding", namespaced=False, name_rule=path_segment_name, creates=True),
        BuiltInKind("clusterroles", "ClusterRole", namespaced=False, name_rule=path_segment_name, creates=True),
        BuiltInKind("rolebindings", "RoleBinding", name_rule=path_segment_name, creates=True),
        BuiltInKind("roles", "Role", name_rule=path_segment_name, creates=True),
    ),
    *_of(
        "storage.k8s.io",
        "v1",
        BuiltInKind("csidrivers", "CSIDriver", namespaced=False, counted=("spec",), unconditional=False, returns_deleted=True),
        BuiltInKind("csinodes", "CSINode", namespaced=False, unconditional=False, returns_deleted=True),
        BuiltInKind("csistoragecapacities", "CSIStorageCapacity", unconditional=False),
        BuiltInKind("storageclasses", "StorageClass", "sc", namespaced=False, returns_deleted=True),
        BuiltInKind(
            "volumeattachments",
            "VolumeAttachment",
            namespaced=False,
            has_status=True,
            kept_by_status=_ALL,
            unconditional=False,
            returns_deleted=True,
        ),
        BuiltInKind("volumeattributesclasses", "VolumeAttributesClass", "vac", namespaced=False),
    ),
    *_of("scheduling.k8s.io", "v1", BuiltInKind("priorityclasses", "PriorityClass", "pc", namespaced=False, generation=1)),
    *_of("coordination.k8s.io", "v1", BuiltInKind("leases", "Lease", creates=True, unconditional=False)),
    *_of("node.k8s.io", "v1", BuiltInKind("runtimeclasses", "RuntimeClass", namespaced=False, creates=True, unconditional=False)),
    *_of(
        "discovery.k8s.io",
        "v1",
        BuiltInKind(
            "endpointslices",
            "EndpointSlice",
            counted=("addressType", "endpoints", "ports", "metadata.labels"),
            generation=1,
        ),
    ),
    *_of(
        "resource.k8s.io",
        "v1",
        BuiltInKind("deviceclasses", "DeviceClass", namespaced=False, counted=("spec",), generation=1, returns_deleted=True),
        BuiltInKind("resourceclaims", "ResourceClaim", has_status=True, kept_by_status=_ALL, returns_deleted=True),
        BuiltInKind("resourceclaimtemplates", "ResourceClaimTemplate", returns_deleted=True),
        BuiltInKind(
            "resourceslices",
            "ResourceSlice",
            namespaced=False,
            counted=("spec",),
            generation=1,
            returns_deleted=True,
            fields=("spec.nodeName", "spec.driver"),
        ),
    ),
    *_of(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        BuiltInKind(
            "flowschemas",
            "FlowSchema",
            namespaced=False,
            has_status=True,
            counted=("spec",),
            generation=1,
            kept_by_status=_ALL,
        ),
        BuiltInKind(
            "prioritylevelconfigurations",
            "PriorityLevelConfiguration",
            namespaced=False,
            has_status=True,
            counted=("spec",),
            generation=1,
            kept_by_status=_ALL,
        ),
    ),
)
"""In upstream's order of groups, which is that of discovery; within a group by name."""

GROUPS = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
"""All groups that a server without a cluster serves itself, in upstream's order."""
