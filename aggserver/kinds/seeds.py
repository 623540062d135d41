"""Seeds: the objects that kube-apiserver makes of some kinds when it starts.

Their status is what its controllers say of them. Nobody says anything of other ServiceCIDRs here.
Pure. Source: k8s.io/kubernetes pkg/registry/{flowcontrol,scheduling}/rest, pkg/controlplane/controller/defaultservicecidr,
v1.36.3.
"""

from __future__ import annotations

from aggserver.kinds.flow_control import dangling_condition, flow_schemas, priority_levels
from aggserver.kinds.plugins.additions import CRITICAL
from aggserver.meta.json_types import JSONObject

__all__ = ["kept", "seeds"]

_CLASS = "scheduling/v1.PriorityClass"
_DESCRIPTIONS = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
    ),
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


def seeds(type_name: str, cluster_ips: str, now: str) -> list[JSONObject]:
    """The objects of a kind. type_name: in the tables of `scheme/`. cluster_ips: the range of the addresses of Services."""
    if type_name == "flowcontrol/v1.FlowSchema":
        return [
            {**each, "status": {"conditions": [{**dangling_condition(each, exists=True), "lastTransitionTime": now}]}}
            for each in flow_schemas()
        ]
    if type_name == "flowcontrol/v1.PriorityLevelConfiguration":
        return priority_levels()
    if type_name == "networking/v1.ServiceCIDR":
        ready = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready"}
        return [
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "ServiceCIDR",
                "metadata": {"name": "kubernetes"},
                "spec": {"cidrs": [cluster_ips]},
                "status": {"conditions": [{**ready, "lastTransitionTime": now}]},
            }
        ]
    assert type_name == _CLASS
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [
        {**head, "metadata": {"name": name}, "description": _DESCRIPTIONS[name], **members} for name, members in CRITICAL.items()
    ]


def kept(type_name: str, name: str) -> str:
    """Why an object can't be deleted; '' if it can."""
    return "this is a system priority class and cannot be deleted" if type_name == _CLASS and name in CRITICAL else ""
