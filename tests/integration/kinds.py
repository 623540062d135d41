"""Minimal objects of the built-in kinds, and requests for them; `$name` stands for the case's object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from aggserver.kinds.catalog import KINDS, BuiltInKind
from tests.integration.comparison import Ask, ask

__all__ = ["BY_NAME", "MINIMAL", "NAMESPACE", "in_namespace", "minimal", "on", "pod_template", "url"]

NAMESPACE = "same-kinds"
BY_NAME: Mapping[str, BuiltInKind] = {f"{kind.group or 'core'}/{kind.plural}": kind for kind in KINDS if kind.version != "v2"} | {
    "autoscaling/horizontalpodautoscalers-v2": next(kind for kind in KINDS if kind.version == "v2")
}

_POD = {"containers": [{"name": "c", "image": "example.com/i"}]}
_SELECTOR = {"matchLabels": {"app": "$name"}}


def pod_template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "$name"}}, "spec": {**_POD, **spec}}


# What an object needs beside its metadata, by `BY_NAME`.
MINIMAL: Mapping[str, dict[str, Any]] = {
    "core/configmaps": {"data": {"a": "b"}},
    "core/endpoints": {},
    "core/events": {"involvedObject": {"kind": "Pod", "name": "p", "namespace": NAMESPACE}, "reason": "R", "type": "Normal"},
    "core/limitranges": {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}},
    "core/nodes": {},
    # With the finalizers that they are made with: the protection controllers give those back to what was written without them.
    "core/persistentvolumeclaims": {
        "metadata": {"finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    "core/persistentvolumes": {
        "metadata": {"finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}},
    },
    "core/pods": {"spec": {**_POD, "serviceAccountName": "default", "automountServiceAccountToken": False}},
    "core/podtemplates": {"template": pod_template()},
    "core/replicationcontrollers": {"spec": {"selector": {"app": "$name"}, "template": pod_template()}},
    "core/resourcequotas": {"spec": {"hard": {"count/widgets.example.com": "5"}}},
    "core/secrets": {"data": {"a": "Yg=="}},
    "core/serviceaccounts": {},
    "core/services": {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
    "apiregistration.k8s.io/apiservices": {
        "metadata": {"name": "v1.$name.example.com"},
        "spec": {
            "group": "$name.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
        },
    },
    "apps/controllerrevisions": {"data": {"a": 1}, "revision": 1},
    "apps/daemonsets": {"spec": {"selector": _SELECTOR, "template": pod_template()}},
    "apps/deployments": {"spec": {"selector": _SELECTOR, "template": pod_template()}},
    "apps/replicasets": {"spec": {"selector": _SELECTOR, "template": pod_template()}},
    "apps/statefulsets": {"spec": {"selector": _SELECTOR, "serviceName": "s", "template": pod_template()}},
    "events.k8s.io/events": {
        "regarding": {"kind": "Pod", "name": "p", "namespace": NAMESPACE},
        "eventTime": "2026-01-02T03:04:05.678901Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "A",
        "reason": "R",
        "type": "Normal",
        "note": "n",
    },
    "autoscaling/horizontalpodautoscalers": {
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3},
    },
    "autoscaling/horizontalpodautoscalers-v2": {
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3},
    },
    "batch/cronjobs": {
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": pod_template(restartPolicy="Never")}}},
    },
    "batch/jobs": {"spec": {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}},
    "networking.k8s.io/ingressclasses": {"spec": {"controller": "example.com/c"}},
    "networking.k8s.io/ingresses": {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
    "networking.k8s.io/ipaddresses": {
        "metadata": {"name": "192.0.2.77"},
        "spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}},
    },
    "networking.k8s.io/servicecidrs": {"spec": {"cidrs": ["203.0.113.0/28"]}},
    "networking.k8s.io/networkpolicies": {"spec": {"podSelector": {}}},
    "policy/poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": _SELECTOR}},
    "rbac.authorization.k8s.io/clusterrolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "u"}],
    },
    "rbac.authorization.k8s.io/clusterroles": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "rbac.authorization.k8s.io/rolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "u", "namespace": NAMESPACE}],
    },
    "rbac.authorization.k8s.io/roles": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "storage.k8s.io/csidrivers": {"spec": {}},
    "storage.k8s.io/csinodes": {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n"}]}},
    "storage.k8s.io/csistoragecapacities": {"storageClassName": "c"},
    "storage.k8s.io/storageclasses": {"provisioner": "example.com/p"},
    "storage.k8s.io/volumeattachments": {
        "spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "p"}},
    },
    "storage.k8s.io/volumeattributesclasses": {
        "metadata": {"finalizers": ["kubernetes.io/vac-protection"]},
        "driverName": "d.example.com",
        "parameters": {"a": "b"},
    },
    "scheduling.k8s.io/priorityclasses": {"value": 10},
    "coordination.k8s.io/leases": {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    "node.k8s.io/runtimeclasses": {"handler": "h"},
    "discovery.k8s.io/endpointslices": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"]}],
        "ports": [{"port": 80}],
    },
    "resource.k8s.io/deviceclasses": {"spec": {}},
    "resource.k8s.io/resourceclaims": {
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
    },
    "resource.k8s.io/resourceclaimtemplates": {
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}},
    },
    "resource.k8s.io/resourceslices": {
        "spec": {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}},
    },
    "flowcontrol.apiserver.k8s.io/flowschemas": {"spec": {"priorityLevelConfiguration": {"name": "exempt"}}},
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": {
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    },
}


def minimal(which: str, metadata: Mapping[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """A minimal object of a kind; metadata and members are added."""
    kind, own = BY_NAME[which], MINIMAL[which]
    named = {"name": "$name", **own.get("metadata", {}), **(metadata or {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, **own, "metadata": named, **members}


def url(which: str, name: str = "", below: str = "", query: str = "") -> str:
    """name: `$name` for the case's object."""
    kind = BY_NAME[which]
    if name == "$name":
        name = MINIMAL.get(which, {}).get("metadata", {}).get("name", name)
    parts = [f"/apis/{kind.group}" if kind.group else "/api", kind.version]
    parts += ["namespaces", NAMESPACE] if kind.namespaced else []
    parts += [kind.plural, *filter(None, (name, below))]
    return "/".join(parts) + (f"?{query}" if query else "")


def on(
    method: str, which: str, body: Any = None, *, name: str | None = None, below: str = "", query: str = "", **more: Any
) -> Ask:
    """A request for a kind. name: without it `$name`, unless something is created; '' for all objects."""
    named = ("" if method == "POST" and not below else "$name") if name is None else name
    return ask(method, url(which, named, below, query), body, **more)


def in_namespace(namespace: str, case: Iterable[Ask]) -> list[Ask]:
    """The same requests in another namespace: a module has its own, since what is left in one may take for ever to go."""
    before, after = NAMESPACE.encode(), namespace.encode()
    return [
        replace(
            step,
            path=step.path.replace(NAMESPACE, namespace),
            body=None if step.body is None else step.body.replace(before, after),
        )
        for step in case
    ]
