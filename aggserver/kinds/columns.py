"""Columns: the tables of the built-in kinds, which the server computes for `kubectl get`.

Names, types and priorities of the columns are upstream's, since clients select and sort by them; the descriptions are our own.
Cells are computed from the object alone. Ages are computed anew for each request (`publish/table.py`).
Pure. Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go, k8s.io/kube-aggregator pkg/registry/apiservice/etcd,
v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from aggserver.kinds import cells, network_cells, pod_cells
from aggserver.kinds.autoscalers import newer
from aggserver.meta.json_types import JSONMapping
from aggserver.publish.table import ComputedColumn, TableConvertor, age_column

__all__ = ["table"]

_Read = Callable[[JSONMapping], Any]


@cache
def table(type_name: str) -> TableConvertor:
    """The columns of a kind. type_name: in the tables of `scheme/`, such as `apps/v1.Deployment`."""
    columns = _COLUMNS.get(type_name, _BY_AGE)
    conditions = pod_cells.row_conditions if type_name == "core/v1.Pod" else None
    return TableConvertor(columns, named=not any(each.name == "Name" for each in columns), conditions=conditions)


def _text(name: str, read: str | _Read, empty: Any = "", *, wide: bool = False, form: str = "") -> ComputedColumn:
    """A column. read: the path of a member, or a function. empty: the cell if that is missing. wide: only for `-o wide`."""
    return _column(name, "string", read, empty, wide=wide, form=form)


def _number(name: str, path: str) -> ComputedColumn:
    return _column(name, "integer", path, 0)


def _flag(name: str, path: str, empty: Any = False) -> ComputedColumn:
    return _column(name, "boolean", path, empty)


def _column(name: str, kind: str, read: str | _Read, empty: Any, *, wide: bool = False, form: str = "") -> ComputedColumn:
    function = _at(read, empty) if isinstance(read, str) else read
    return ComputedColumn(name, kind, function, _DESCRIPTIONS.get(name, ""), form, priority=int(wide))


def _at(path: str, empty: Any) -> _Read:
    names = path.split(".")

    def read(obj: JSONMapping) -> Any:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return empty if value is None else value

    return read


_DESCRIPTIONS: Mapping[str, str] = {
    "Access Modes": "How nodes may mount the volume",
    "Address": "Where the load balancer is",
    "Allowed Disruptions": "How many Pods may be evicted now",
    "Available": "Whether it is available, or how many are",
    "Capacity": "The size of the volume",
    "Class": "The class that implements it",
    "Claim": "The claim to which the volume is bound",
    "Cluster-IP": "Its address in the cluster",
    "Completions": "How many have succeeded, of how many",
    "Condition": "Whether it is approved and issued",
    "Containers": "The names of its containers",
    "Controller": "What controls it",
    "Count": "How often it has happened",
    "Current": "How many there are",
    "Data": "How many entries it has",
    "Desired": "How many there should be",
    "Drivers": "How many drivers are on the node",
    "Duration": "How long it has run",
    "Endpoints": "The addresses of its endpoints",
    "External-IP": "Its address outside of the cluster",
    "First Seen": "When it happened first",
    "Holder": "Who holds it",
    "Hosts": "The hosts that it has rules for",
    "IP": "The address of the Pod",
    "Images": "The images of its containers",
    "Internal-IP": "The address of the node in the cluster",
    "Last Schedule": "When it was last due",
    "Last Seen": "When it happened last",
    "Limit": "What is used of limits, and how much may be",
    "Max Unavailable": "How many Pods may be unavailable",
    "Message": "What has happened",
    "Min Available": "How many Pods must be available",
    "Node": "The node on which it is",
    "Nominated Node": "The node on which Pods are preempted for it",
    "Object": "The object that it is about",
    "Pod-Selector": "The Pods that it is for",
    "Port(s)": "Its ports",
    "Ready": "How many are ready, of how many",
    "Readiness Gates": "How many of its readiness gates are true",
    "Reason": "Why, in a word",
    "Reference": "What is scaled",
    "Request": "What is used of requests, and how much may be",
    "Restarts": "How often its containers were restarted, and when last",
    "Roles": "The roles of the node",
    "Selector": "The Pods that it is for",
    "Service": "The Service behind it, or Local",
    "State": "Whether it is allocated and reserved",
    "Status": "Its state in a word",
    "Targets": "Metrics: what they are, and what they should be",
    "Type": "Its type",
    "Up-to-date": "How many are of the newest template",
    "Version": "The version of the kubelet",
    "Volume": "The volume to which the claim is bound",
}

_AGE = age_column()
_BY_AGE = (_AGE,)
_CONTAINERS = (
    _text("Containers", lambda obj: cells.of_containers(obj, "name"), wide=True),
    _text("Images", lambda obj: cells.of_containers(obj, "image"), wide=True),
)
_SELECTOR = _text("Selector", lambda obj: cells.selector((obj.get("spec") or {}).get("selector")), wide=True)
_LABELS_SELECTOR = _text("Selector", lambda obj: cells.labels((obj.get("spec") or {}).get("selector")), wide=True)
_REPLICAS = (
    _number("Desired", "spec.replicas"),
    _number("Current", "status.replicas"),
    _number("Ready", "status.readyReplicas"),
    _AGE,
    *_CONTAINERS,
)
_BINDING = (
    _text("Role", cells.role_reference),
    _AGE,
    _text("Users", lambda obj: cells.subjects(obj, "User"), wide=True),
    _text("Groups", lambda obj: cells.subjects(obj, "Group"), wide=True),
    _text("ServiceAccounts", lambda obj: cells.subjects(obj, "ServiceAccount"), wide=True),
)
# The columns of kinds for which upstream has none of their own.
_CREATED_AT = (ComputedColumn("Created At", "date", _at("metadata.creationTimestamp", None), _AGE.description),)


def _of_job_template(column: ComputedColumn) -> ComputedColumn:
    return replace(column, read=lambda job: column.read(job["spec"].get("jobTemplate") or {}))


def _event(names: cells.EventNames) -> tuple[ComputedColumn, ...]:
    return (
        _text("Last Seen", lambda event: cells.last_seen(event, names)),
        _text("Type", "type"),
        _text("Reason", "reason"),
        _text("Object", lambda event: cells.kind_and_name(event.get(names.about) or {})),
        _text("Subobject", f"{names.about}.fieldPath", wide=True),
        _text("Source", lambda event: cells.event_source(event, names), wide=True),
        _text("Message", lambda event: cells.message(event, names)),
        _text("First Seen", lambda event: cells.first_seen(event, names), wide=True),
        _text("Count", lambda event: cells.event_count(event, names), wide=True),
        _text("Name", "metadata.name", wide=True, form="name"),
    )


def _autoscaler(targets: _Read) -> tuple[ComputedColumn, ...]:
    return (
        _text("Reference", lambda obj: cells.reference(obj["spec"].get("scaleTargetRef") or {})),
        _text("Targets", targets),
        _text("MinPods", lambda obj: str(obj["spec"].get("minReplicas", "<unset>"))),
        _text("MaxPods", "spec.maxReplicas", 0),
        _text("Replicas", "status.currentReplicas", 0),
        _AGE,
    )


_COLUMNS: Mapping[str, tuple[ComputedColumn, ...]] = {
    # core
    "core/v1.ComponentStatus": (
        _text("Status", cells.health),
        _text("Message", lambda obj: cells.healthy(obj).get("message", "")),
        _text("Error", lambda obj: cells.healthy(obj).get("error", "")),
    ),
    "core/v1.ConfigMap": (_text("Data", lambda obj: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())), _AGE),
    "core/v1.Endpoints": (_text("Endpoints", network_cells.endpoints), _AGE),
    "core/v1.Event": _event(cells.CORE_EVENT),
    "core/v1.LimitRange": _CREATED_AT,
    "core/v1.Node": (
        _text("Status", cells.node_status),
        _text("Roles", cells.node_roles),
        _AGE,
        _text("Version", "status.nodeInfo.kubeletVersion"),
        _text("Internal-IP", lambda node: cells.node_address(node, "InternalIP"), wide=True),
        _text("External-IP", lambda node: cells.node_address(node, "ExternalIP"), wide=True),
        _text("OS-Image", lambda node: cells.node_info(node, "osImage"), wide=True),
        _text("Kernel-Version", cells.kernel_version, wide=True),
        _text("Container-Runtime", lambda node: cells.node_info(node, "containerRuntimeVersion"), wide=True),
    ),
    "core/v1.PersistentVolume": (
        _text("Capacity", "spec.capacity.storage", "0"),
        _text("Access Modes", lambda volume: cells.access_modes(volume["spec"])),
        _text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        _text("Status", cells.phase),
        _text("Claim", cells.bound_claim),
        _text("StorageClass", cells.storage_class),
        _text("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>"),
        _text("Reason", "status.reason"),
        _AGE,
        _text("VolumeMode", "spec.volumeMode", "<unset>", wide=True),
    ),
    "core/v1.PersistentVolumeClaim": (
        _text("Status", cells.phase),
        _text("Volume", "spec.volumeName"),
        _text("Capacity", lambda claim: cells.of_bound(claim, _at("status.capacity.storage", "0"))),
        _text("Access Modes", lambda claim: cells.of_bound(claim, lambda bound: cells.access_modes(bound["status"]))),
        _text("StorageClass", cells.storage_class),
        _text("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>"),
        _AGE,
        _text("VolumeMode", "spec.volumeMode", "<unset>", wide=True),
    ),
    "core/v1.Pod": (
        _text("Ready", pod_cells.ready),
        _text("Status", pod_cells.status),
        _text("Restarts", pod_cells.restarts),
        _AGE,
        _text("IP", "status.podIP", "<none>", wide=True),
        _text("Node", "spec.nodeName", "<none>", wide=True),
        _text("Nominated Node", "status.nominatedNodeName", "<none>", wide=True),
        _text("Readiness Gates", pod_cells.readiness_gates, wide=True),
    ),
    "core/v1.PodTemplate": (
        _text("Containers", lambda obj: cells.of_containers({"spec": obj}, "name")),
        _text("Images", lambda obj: cells.of_containers({"spec": obj}, "image")),
        _text("Pod Labels", lambda obj: cells.labels(_at("template.metadata.labels", None)(obj))),
    ),
    "core/v1.ReplicationController": (*_REPLICAS, _LABELS_SELECTOR),
    "core/v1.ResourceQuota": (
        _text("Request", lambda quota: cells.quota(quota, limits=False)),
        _text("Limit", lambda quota: cells.quota(quota, limits=True)),
        _AGE,
    ),
    "core/v1.Secret": (_text("Type", "type"), _text("Data", lambda secret: len(secret.get("data") or ())), _AGE),
    "core/v1.Service": (
        _text("Type", "spec.type"),
        _text("Cluster-IP", lambda service: ((service["spec"].get("clusterIPs") or ()) or ["<none>"])[0]),
        _text("External-IP", network_cells.external_addresses),
        _text("Port(s)", network_cells.service_ports),
        _AGE,
        _LABELS_SELECTOR,
    ),
    # apps
    "apps/v1.ControllerRevision": (_text("Controller", cells.controller), _text("Revision", "revision", 0), _AGE),
    "apps/v1.DaemonSet": (
        _number("Desired", "status.desiredNumberScheduled"),
        _number("Current", "status.currentNumberScheduled"),
        _number("Ready", "status.numberReady"),
        _number("Up-to-date", "status.updatedNumberScheduled"),
        _number("Available", "status.numberAvailable"),
        _text("Node Selector", lambda obj: cells.labels(_at("spec.template.spec.nodeSelector", None)(obj))),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "apps/v1.Deployment": (
        _text("Ready", cells.ready_replicas),
        _text("Up-to-date", "status.updatedReplicas", 0),
        _text("Available", "status.availableReplicas", 0),
        _AGE,
        *_CONTAINERS,
        _text("Selector", lambda obj: cells.selector(obj["spec"].get("selector"), nothing=""), wide=True),
    ),
    "apps/v1.ReplicaSet": (*_REPLICAS, _SELECTOR),
    "apps/v1.StatefulSet": (_text("Ready", cells.ready_replicas), _AGE, *_CONTAINERS),
    # batch, autoscaling
    "autoscaling/v1.HorizontalPodAutoscaler": _autoscaler(lambda obj: cells.metric_targets(newer(obj))),
    "autoscaling/v2.HorizontalPodAutoscaler": _autoscaler(cells.metric_targets),
    "batch/v1.CronJob": (
        _text("Schedule", "spec.schedule"),
        _text("Timezone", "spec.timeZone", "<none>"),
        _column("Suspend", "boolean", lambda job: cells.boolean(job["spec"].get("suspend")), None),
        _column("Active", "integer", lambda job: len((job.get("status") or {}).get("active") or ()), 0),
        _text("Last Schedule", cells.last_schedule),
        _AGE,
        *map(_of_job_template, (*_CONTAINERS, _SELECTOR)),
    ),
    "batch/v1.Job": (
        _text("Status", cells.job_status),
        _text("Completions", cells.completions),
        _text("Duration", cells.job_duration),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    # networking, discovery
    "discovery/v1.EndpointSlice": (
        _text("AddressType", "addressType"),
        _text("Ports", network_cells.slice_ports),
        _text("Endpoints", network_cells.slice_endpoints),
        _AGE,
    ),
    "networking/v1.Ingress": (
        _text("Class", "spec.ingressClassName", "<none>"),
        _text("Hosts", network_cells.hosts),
        _text("Address", network_cells.load_balancer),
        _text("Ports", lambda ingress: "80, 443" if ingress["spec"].get("tls") else "80"),
        _AGE,
    ),
    "networking/v1.IngressClass": (
        _text("Name", lambda obj: cells.default_name(obj, "ingressclass.kubernetes.io/is-default-class"), form="name"),
        _text("Controller", "spec.controller"),
        _text("Parameters", network_cells.parameters),
        _AGE,
    ),
    "networking/v1.IPAddress": (_text("ParentRef", network_cells.parent),),
    "networking/v1.ServiceCIDR": (_text("CIDRs", lambda obj: ",".join((obj.get("spec") or {}).get("cidrs") or ())), _AGE),
    "networking/v1.NetworkPolicy": (_text("Pod-Selector", lambda obj: cells.selector(obj["spec"].get("podSelector"))), _AGE),
    # storage
    "storage/v1.CSIDriver": (
        _flag("AttachRequired", "spec.attachRequired", True),
        _flag("PodInfoOnMount", "spec.podInfoOnMount"),
        _flag("StorageCapacity", "spec.storageCapacity"),
        _text("TokenRequests", cells.audiences),
        _flag("RequiresRepublish", "spec.requiresRepublish"),
        _text("Modes", lambda driver: ",".join(driver["spec"].get("volumeLifecycleModes") or ()) or "<none>"),
        _AGE,
    ),
    "storage/v1.CSINode": (_column("Drivers", "integer", lambda node: len(node["spec"].get("drivers") or ()), 0), _AGE),
    "storage/v1.CSIStorageCapacity": _CREATED_AT,
    "storage/v1.StorageClass": (
        _text("Name", lambda obj: cells.default_name(obj, *cells.DEFAULT_STORAGE_CLASS), form="name"),
        _text("Provisioner", "provisioner"),
        _text("ReclaimPolicy", "reclaimPolicy", "Delete"),
        _text("VolumeBindingMode", "volumeBindingMode", "Immediate"),
        _text("AllowVolumeExpansion", "allowVolumeExpansion", False),
        _AGE,
    ),
    "storage/v1.VolumeAttachment": (
        _text("Attacher", "spec.attacher", form="name"),
        _text("PV", "spec.source.persistentVolumeName"),
        _text("Node", "spec.nodeName"),
        _flag("Attached", "status.attached"),
        _AGE,
    ),
    "storage/v1.VolumeAttributesClass": (_text("DriverName", "driverName"), _AGE),
    # flow control
    "flowcontrol/v1.FlowSchema": (
        _text("PriorityLevel", "spec.priorityLevelConfiguration.name"),
        _text("MatchingPrecedence", "spec.matchingPrecedence", 0),
        _text("DistinguisherMethod", "spec.distinguisherMethod.type", "<none>"),
        _AGE,
        _text("MissingPL", cells.dangling),
    ),
    "flowcontrol/v1.PriorityLevelConfiguration": (
        _text("Type", "spec.type"),
        _text("NominalConcurrencyShares", "spec.limited.nominalConcurrencyShares", "<none>"),
        *(
            _text(f"{name[0].upper()}{name[1:]}", f"spec.limited.limitResponse.queuing.{name}", "<none>")
            for name in ("queues", "handSize", "queueLengthLimit")
        ),
        _AGE,
    ),
    # other groups
    "apiregistration/v1.APIService": (_text("Service", cells.api_service), _text("Available", cells.availability), _AGE),
    "certificates/v1.CertificateSigningRequest": (
        _AGE,
        _text("SignerName", "spec.signerName", "<none>"),
        _text("Requestor", "spec.username"),
        _text("RequestedDuration", cells.requested_duration),
        _text("Condition", cells.signing_status),
    ),
    "coordination/v1.Lease": (_text("Holder", "spec.holderIdentity"), _AGE),
    "events/v1.Event": _event(cells.NEW_EVENT),
    "node/v1.RuntimeClass": (_text("Handler", "handler"), _AGE),
    "policy/v1.PodDisruptionBudget": (
        _text("Min Available", lambda budget: str(budget["spec"].get("minAvailable", "N/A"))),
        _text("Max Unavailable", lambda budget: str(budget["spec"].get("maxUnavailable", "N/A"))),
        _number("Allowed Disruptions", "status.disruptionsAllowed"),
        _AGE,
    ),
    "rbac/v1.ClusterRole": _CREATED_AT,
    "rbac/v1.ClusterRoleBinding": _BINDING,
    "rbac/v1.Role": _CREATED_AT,
    "rbac/v1.RoleBinding": _BINDING,
    "resource/v1.ResourceClaim": (_text("State", cells.claim_state), _AGE),
    "resource/v1.ResourceSlice": (
        _text("Node", "spec.nodeName"),
        _text("Driver", "spec.driver"),
        _text("Pool", "spec.pool.name"),
        _AGE,
    ),
    "scheduling/v1.PriorityClass": (
        _number("Value", "value"),
        _flag("Global-Default", "globalDefault"),
        _AGE,
        _text("PreemptionPolicy", "preemptionPolicy"),
    ),
}
