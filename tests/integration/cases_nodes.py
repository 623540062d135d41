"""Cases about kubelets, for kube-apiserver and aggserver side by side: what is on two nodes, and what their kubelets ask.

The names of nodes and of the namespace are this module's own, since others use the same control plane.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from typing import Any

from tests.cases import signing_requests
from tests.integration.comparison import MERGE_PATCH, Ask, Cases, ask

__all__ = ["NAMESPACE", "PROBE", "RESIZES", "WORLD", "WRITES", "reviews"]

NAMESPACE = "on-nodes"
A, B = "nodes-a", "nodes-b"
_POD = {"containers": [{"name": "c", "image": "example.com/i"}]}
_MIRROR = {"kubernetes.io/config.mirror": "x"}
_SECRET = {"secretRef": {"name": "of-env-from"}}


def _object(kind: str, name: str, *, version: str = "v1", namespace: str = "", metadata: Any = None, **members: Any) -> Any:
    named = {"name": name, **({"namespace": namespace} if namespace else {}), **(metadata or {})}
    return {"apiVersion": version, "kind": kind, "metadata": named, **members}


def _node(name: str) -> Any:
    status = {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10"}, "capacity": {"cpu": "2", "memory": "1Gi", "pods": "10"}}
    return _object("Node", name, metadata={"labels": {"kubernetes.io/os": "linux"}}, status=status)


def _pod(name: str, node: str, metadata: Any = None, **spec: Any) -> Any:
    placed = {"nodeName": node} if node else {}
    return _object(
        "Pod", name, namespace=NAMESPACE, metadata=metadata, spec={**_POD, "terminationGracePeriodSeconds": 0, **placed, **spec}
    )


def _volume(name: str, claim: str, **source: Any) -> Any:
    reference = {"claimRef": {"namespace": NAMESPACE, "name": claim}} if claim else {}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "x", **reference, **source}
    return _object("PersistentVolume", name, spec=spec)


def _of_pv(name: str) -> dict[str, str]:
    return {"namespace": NAMESPACE, "name": name}


_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "x"}
_PROJECTED = [
    {"secret": {"name": "of-projected"}},
    {"configMap": {"name": "of-projected"}},
    {"serviceAccountToken": {"path": "t", "audience": "nodes-audience"}},
]
_WEB = {
    "serviceAccountName": "robot",
    "imagePullSecrets": [{"name": "of-images"}],
    "containers": [
        {
            "name": "c",
            "image": "example.com/i",
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "of-env", "key": "k"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "of-env", "key": "k"}}},
            ],
            "envFrom": [_SECRET, {"configMapRef": {"name": "of-env-from"}}],
        }
    ],
    "volumes": [
        {"name": "a", "secret": {"secretName": "of-volume"}},
        {"name": "b", "configMap": {"name": "of-volume"}},
        {"name": "c", "projected": {"sources": _PROJECTED}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}}},
        {"name": "f", "csi": {"driver": "nodes.example.com", "nodePublishSecretRef": {"name": "of-csi"}}},
    ],
    "resourceClaims": [{"name": "r", "resourceClaimName": "of-pod"}],
}
_ATTACHED = {"attacher": "example.com", "source": {"persistentVolumeName": "nodes-csi"}}
_SLICE = {"driver": "nodes.example.com", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}
_CSI = {"driver": "nodes.example.com", "volumeHandle": "h"}

WORLD = [
    _node(A),
    _node(B),
    _object("ServiceAccount", "robot", namespace=NAMESPACE),
    _object("CSIDriver", "nodes.example.com", version="storage.k8s.io/v1", spec={"tokenRequests": [{"audience": "of-driver"}]}),
    _object("PersistentVolumeClaim", "data", namespace=NAMESPACE, spec={**_CLAIM, "volumeName": "nodes-csi"}),
    _volume(
        "nodes-csi",
        "data",
        csi={**_CSI, "nodePublishSecretRef": _of_pv("pv-publish"), "controllerPublishSecretRef": _of_pv("pv-controller")},
    ),
    _volume("nodes-azure", "data", azureFile={"secretName": "pv-azure", "shareName": "s"}),
    _volume("nodes-other", "others", csi={**_CSI, "volumeHandle": "i", "nodePublishSecretRef": _of_pv("pv-other")}),
    _volume("nodes-free", "", csi={**_CSI, "volumeHandle": "j", "nodePublishSecretRef": _of_pv("pv-free")}),
    _pod("web", A, **_WEB),
    _pod("alone", A),
    _pod(
        "other",
        B,
        volumes=[{"name": "v", "secret": {"secretName": "of-other"}}, {"name": "w", "secret": {"secretName": "of-volume"}}],
    ),
    _pod("nowhere", "", volumes=[{"name": "v", "secret": {"secretName": "of-nowhere"}}], nodeSelector={"no": "such"}),
    _object("VolumeAttachment", "nodes-a", version="storage.k8s.io/v1", spec={**_ATTACHED, "nodeName": A}),
    _object("VolumeAttachment", "nodes-b", version="storage.k8s.io/v1", spec={**_ATTACHED, "nodeName": B}),
    _object("ResourceSlice", "nodes-a", version="resource.k8s.io/v1", spec={**_SLICE, "nodeName": A}),
    _object("ResourceSlice", "nodes-b", version="resource.k8s.io/v1", spec={**_SLICE, "nodeName": B}),
]

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
# (group, resource, subresource, namespaced) -> the names that are asked about.
_ASKED: dict[tuple[str, str, str, bool], tuple[str, ...]] = {
    ("", "nodes", "", False): ("", A, B),
    ("", "nodes", "status", False): (A, B),
    ("", "nodes", "proxy", False): (A,),
    ("", "pods", "", True): ("", "web", "other", "nowhere", "missing"),
    ("", "pods", "status", True): ("web", "other"),
    ("", "pods", "eviction", True): ("web",),
    ("", "pods", "exec", True): ("web",),
    ("", "secrets", "", True): ("", "of-volume", "of-other"),
    ("", "secrets", "status", True): ("of-volume",),
    ("", "configmaps", "", True): ("", "of-volume", "other"),
    ("", "serviceaccounts", "", True): ("", "robot", "default"),
    ("", "serviceaccounts", "token", True): ("", "robot", "missing"),
    ("", "persistentvolumeclaims", "", True): ("", "data"),
    ("", "persistentvolumeclaims", "status", True): ("data", "others"),
    ("", "persistentvolumes", "", False): ("nodes-csi",),
    ("storage.k8s.io", "volumeattachments", "", False): ("", A, B),
    ("storage.k8s.io", "csinodes", "", False): ("", A, B),
    ("storage.k8s.io", "csinodes", "status", False): (A,),
    ("storage.k8s.io", "csidrivers", "", False): ("",),
    ("resource.k8s.io", "resourceclaims", "", True): ("of-pod", "other"),
    ("resource.k8s.io", "resourceslices", "", False): ("", A, B),
    ("resource.k8s.io", "resourceslices", "status", False): (A,),
    ("coordination.k8s.io", "leases", "", True): (A,),
    ("", "events", "", True): ("",),
    ("", "services", "", True): ("",),
    ("apps", "deployments", "", True): ("",),
    ("certificates.k8s.io", "certificatesigningrequests", "", False): ("",),
    ("authentication.k8s.io", "tokenreviews", "", False): ("",),
}
# What is read by name, beside that: names within the namespace, by resource.
_READ = {
    (
        "",
        "secrets",
    ): "of-env of-env-from of-images of-projected of-csi of-nowhere pv-publish pv-controller pv-azure pv-other pv-free",
    ("", "configmaps"): "of-env of-env-from of-projected kube-root-ca.crt",
    ("", "persistentvolumeclaims"): "web-e others",
    ("", "persistentvolumes"): "nodes-azure nodes-other nodes-free missing",
}
_SELECTED = [("", "pods"), ("resource.k8s.io", "resourceslices")]
_USERS: dict[str, tuple[str, list[str]]] = {
    "node": (f"system:node:{A}", ["system:nodes"]),
    "other": (f"system:node:{B}", ["system:nodes"]),
    "nameless": ("system:node:", ["system:nodes"]),
    "no group": (f"system:node:{A}", []),
    "no node": ("somebody", ["system:nodes"]),
}


def reviews() -> Iterator[dict[str, Any]]:
    """The specs of SubjectAccessReviews."""
    for (group, resource, below, namespaced), names in _ASKED.items():
        for verb, name in itertools.product(_VERBS, names):
            yield _review("node", verb, group, resource, NAMESPACE if namespaced else "", name, subresource=below)
    for (group, resource), listed in _READ.items():
        for who, name in itertools.product(("node", "other"), listed.split()):
            yield _review(who, "get", group, resource, "" if resource == "persistentvolumes" else NAMESPACE, name)
    for who in _USERS:
        for resource, name in (
            ("secrets", "of-volume"),
            ("secrets", "of-other"),
            ("pods", "web"),
            ("pods", "other"),
            ("nodes", A),
        ):
            yield _review(who, "get", "", resource, "" if resource == "nodes" else NAMESPACE, name)
    for verb in ("get", "list", "create", "delete"):
        for namespace, name in (("kube-node-lease", A), ("kube-node-lease", B), ("kube-node-lease", ""), ("default", A)):
            yield _review("node", verb, "coordination.k8s.io", "leases", namespace, name)
    for group, resource in _SELECTED:
        for verb, node in itertools.product(("list", "watch", "deletecollection"), (A, B)):
            for selector in (
                {"rawSelector": f"spec.nodeName={node}"},
                {"rawSelector": f"spec.nodeName!={node}"},
                {"rawSelector": f"a=b,spec.nodeName=={node}"},
                {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": [node]}]},
                {"requirements": [{"key": "spec.nodeName", "operator": "NotIn", "values": [node]}]},
            ):
                yield _review("node", verb, group, resource, "", "", fieldSelector=selector)
    yield _review("node", "get", "", "secrets", "", "of-volume")


def _review(who: str, verb: str, group: str, resource: str, namespace: str, name: str, **more: Any) -> dict[str, Any]:
    user, groups = _USERS[who]
    given = {"verb": verb, "group": group, "version": "v1", "resource": resource, "namespace": namespace, "name": name, **more}
    return {
        "user": user,
        "groups": [*groups, "system:authenticated"],
        "resourceAttributes": {key: value for key, value in given.items() if value},
    }


PROBE = [
    _review("node", "get", "", "secrets", NAMESPACE, "pv-publish"),
    _review("other", "get", "", "secrets", NAMESPACE, "of-other"),
    *(
        _review("node", "get", *where, "", A)
        for where in (("storage.k8s.io", "volumeattachments"), ("resource.k8s.io", "resourceslices"))
    ),
]
"""What is allowed once all of the world is known."""


# --- writes ---


def _as(user: str, method: str, where: str, body: Any = None, **more: Any) -> Ask:
    who: Any = {"impersonate_user": f"system:node:{user}", "impersonate_group": "system:nodes"}
    return ask(method, where, body, **who, **more)


def _in_namespace(resource: str, name: str = "", below: str = "", query: str = "dryRun=All") -> str:
    parts = ["/api/v1/namespaces", NAMESPACE, resource, *filter(None, (name, below))]
    return f"{'/'.join(parts)}?{query}" if query else "/".join(parts)


def _patched(user: str, where: str, body: Any, **more: Any) -> Ask:
    return _as(user, "PATCH", where, body, kind=MERGE_PATCH, **more)


def _spec_of_node(**changes: Any) -> Ask:
    return _patched(A, f"/api/v1/nodes/{A}?dryRun=All", changes)


def _labels(*names: str) -> dict[str, Any]:
    return {"metadata": {"labels": dict.fromkeys(names, "x")}}


_NODES: Cases = {
    "nodes-creates": [
        _as("nodes-new", "POST", "/api/v1/nodes?dryRun=All", _object("Node", "nodes-new")),
        _as("nodes-new", "POST", "/api/v1/nodes?dryRun=All", _object("Node", "nodes-newer")),
        _as("nodes-new", "POST", "/api/v1/nodes?dryRun=All", _object("Node", "", metadata={"generateName": "nodes-new"})),
        _as(
            "nodes-new",
            "POST",
            "/api/v1/nodes?dryRun=All",
            _object(
                "Node",
                "nodes-new",
                metadata=_labels("a.k8s.io/b", "node-restriction.kubernetes.io/x", "c", "kubernetes.io/os")["metadata"],
            ),
        ),
        _as("nodes-new", "POST", "/api/v1/nodes?dryRun=All", _object("Node", "nodes-new", spec={"configSource": {}})),
        _as("", "POST", "/api/v1/nodes?dryRun=All", _object("Node", "nodes-new")),
    ],
    "nodes-labels": [
        _spec_of_node(
            **_labels(
                "own", "example.com/own", "topology.kubernetes.io/zone", "a.kubelet.kubernetes.io/b", "node.kubernetes.io/c"
            )
        ),
        _spec_of_node(**_labels("node-role.kubernetes.io/x", "a.node-restriction.kubernetes.io/b", "x.k8s.io/y")),
        _spec_of_node(metadata={"labels": {"kubernetes.io/os": None}}),
    ],
    "nodes-spec": [
        _spec_of_node(spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
        _spec_of_node(spec={"unschedulable": True}),
        _spec_of_node(metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": A, "uid": "x"}]}),
        _spec_of_node(spec={"configSource": {"configMap": {"name": "a", "namespace": "b", "kubeletConfigKey": "c"}}}),
        _patched(A, f"/api/v1/nodes/{A}/status?dryRun=All", {"status": {"phase": "Running"}}),
        _patched(A, f"/api/v1/nodes/{B}/status?dryRun=All", {"status": {"phase": "Running"}}),
        _patched(A, f"/api/v1/nodes/{B}?dryRun=All", {}),
        _as(A, "DELETE", f"/api/v1/nodes/{A}?dryRun=All"),
    ],
}

_OWNER = {"apiVersion": "v1", "kind": "Node", "name": A, "uid": "$uid1", "controller": True}


def _mirror(*owners: Any, node: str = A, **spec: Any) -> list[Ask]:
    metadata = {"annotations": _MIRROR, "ownerReferences": list(owners)}
    node_first = ask("GET", f"/api/v1/nodes/{A}", compared=False)
    return [node_first, _as(A, "POST", _in_namespace("pods"), _pod("$name", node, metadata, **spec))]


def _with_volume(**source: Any) -> list[Ask]:
    return _mirror(_OWNER, volumes=[{"name": "v", **source}])


_PODS: Cases = {
    "nodes-pod": [_as(A, "POST", _in_namespace("pods"), _pod("$name", A))],
    "nodes-mirror": _mirror(_OWNER),
    "nodes-mirror-elsewhere": _mirror(_OWNER, node=B),
    "nodes-mirror-ownerless": _mirror(),
    "nodes-mirror-two-owners": _mirror(_OWNER, {**_OWNER, "controller": False, "uid": "x"}),
    "nodes-mirror-other-owner": _mirror({**_OWNER, "name": B}),
    "nodes-mirror-other-kind": _mirror({**_OWNER, "kind": "Pod"}),
    "nodes-mirror-no-controller": _mirror({**_OWNER, "controller": False}),
    "nodes-mirror-blocking": _mirror({**_OWNER, "blockOwnerDeletion": True}),
    "nodes-mirror-other-uid": _mirror({**_OWNER, "uid": "x"}),
    "nodes-mirror-account": _mirror(_OWNER, serviceAccountName="robot"),
    "nodes-mirror-secret": _mirror(_OWNER, imagePullSecrets=[{"name": "s"}]),
    "nodes-mirror-config": _mirror(_OWNER, containers=[{**_POD["containers"][0], "envFrom": [{"configMapRef": {"name": "x"}}]}]),
    "nodes-mirror-claim": _with_volume(persistentVolumeClaim={"claimName": "c"}),
    "nodes-mirror-ephemeral": _with_volume(ephemeral={"volumeClaimTemplate": {"spec": _CLAIM}}),
    "nodes-mirror-csi": _with_volume(csi={"driver": "x"}),
    "nodes-mirror-glusterfs": _with_volume(glusterfs={"endpoints": "x", "path": "y"}),
    "nodes-mirror-host-path": _with_volume(hostPath={"path": "/x"}),
    "nodes-mirror-downward": _with_volume(
        projected={"sources": [{"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}
    ),
    "nodes-mirror-devices": _mirror(_OWNER, resourceClaims=[{"name": "r", "resourceClaimName": "x"}]),
    "nodes-pod-status": [
        _patched(A, _in_namespace("pods", "alone", "status"), {"status": {"message": "x"}}),
        _patched(A, _in_namespace("pods", "other", "status"), {"status": {"message": "x"}}),
        _patched(A, _in_namespace("pods", "alone", "status"), {"status": {"resourceClaimStatuses": [{"name": "r"}]}}),
        _patched(A, _in_namespace("pods", "alone", "status"), {"metadata": {"labels": {"a": "b"}}}),
        _patched(
            A,
            _in_namespace("pods", "alone", "status"),
            {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "r", "requestMappings": []}}},
        ),
    ],
    "nodes-pod-other-verbs": [
        _as(A, "DELETE", _in_namespace("pods", "other")),
        _as(A, "DELETE", _in_namespace("pods", "missing")),
        _as(A, "DELETE", _in_namespace("pods", "alone"), pick=lambda body: body["kind"]),
        _patched(A, _in_namespace("pods", "alone"), {"metadata": {"labels": {"a": "b"}}}),
        *(
            _as(A, "POST", _in_namespace("pods", name, "eviction"), _object("Eviction", name, version="policy/v1"))
            for name in ("alone", "other", "missing")
        ),
        _as(A, "GET", _in_namespace("secrets", "of-other", query="")),
        _as(A, "GET", _in_namespace("secrets", "of-volume", query="")),
        _as(A, "GET", _in_namespace("secrets", query="fieldSelector=metadata.name%3Dof-volume")),
        _as(A, "GET", _in_namespace("secrets", query="")),
        _as(A, "GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{B}"),
        _as(
            A,
            "GET",
            f"/api/v1/pods?fieldSelector=spec.nodeName%3D{A}",
            pick=lambda body: sorted(each["metadata"]["name"] for each in body["items"]),
        ),
    ],
}


def _token(name: str = "robot", bound: Any = None, *audiences: str) -> Ask:
    spec = {"audiences": list(audiences), **({"boundObjectRef": bound} if bound else {})}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    where = _in_namespace("serviceaccounts", name, "token", query="")
    return _as(A, "POST", where, body, pick=lambda answer: answer.get("message") or answer["spec"]["audiences"])


_BOUND = {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": "$uid1"}


def _tokens(pod: str, *asked: Ask) -> list[Ask]:
    return [ask("GET", _in_namespace("pods", pod, query=""), compared=False), *asked]


_OTHERS: Cases = {
    "nodes-token": _tokens(
        "web",
        _token(),
        _token(bound={**_BOUND, "kind": "Secret"}),
        _token(bound={**_BOUND, "apiVersion": "v2"}),
        _token(bound={**_BOUND, "uid": ""}),
        _token(bound={**_BOUND, "uid": "x"}),
        _token(bound={**_BOUND, "name": "missing"}),
        _token("robot", _BOUND, "nodes-audience"),
        _token("robot", _BOUND, "of-driver"),
        _token("robot", _BOUND, "other"),
        _token("robot", _BOUND, "other", "nodes-audience"),
        _token("robot", _BOUND),
        _token("missing", _BOUND),
    ),
    "nodes-token-elsewhere": _tokens("other", _token("default", {**_BOUND, "name": "other"})),
    "nodes-claim": [
        _patched(
            A,
            _in_namespace("persistentvolumeclaims", "data", "status"),
            {"status": {"capacity": {"storage": "2Gi"}}},
            pick=lambda body: body["status"]["capacity"],
        ),
        _patched(
            A,
            _in_namespace("persistentvolumeclaims", "data", "status"),
            {"metadata": {"labels": {"a": "b"}}},
            pick=lambda body: body["message"].partition("status.conditions")[0],
        ),
        _patched(A, _in_namespace("persistentvolumeclaims", "data"), {"metadata": {"labels": {"a": "b"}}}),
    ],
    "nodes-leases": [
        *(
            _as(
                A,
                "POST",
                f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases?dryRun=All",
                _object("Lease", name, version="coordination.k8s.io/v1"),
            )
            for namespace, name in (("kube-node-lease", A), ("kube-node-lease", B), ("default", A))
        ),
        *(
            _as(
                A,
                "POST",
                "/apis/storage.k8s.io/v1/csinodes?dryRun=All",
                _object("CSINode", name, version="storage.k8s.io/v1", spec={"drivers": [{"name": "d", "nodeID": "n"}]}),
            )
            for name in (A, B)
        ),
        *(
            _as(
                A,
                "POST",
                "/apis/resource.k8s.io/v1/resourceslices?dryRun=All",
                _object("ResourceSlice", "$name", version="resource.k8s.io/v1", spec={**_SLICE, **where}),
            )
            for where in ({"nodeName": A}, {"nodeName": B}, {"allNodes": True})
        ),
        _as(A, "DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{B}?dryRun=All"),
        _as(A, "DELETE", f"/apis/resource.k8s.io/v1/resourceslices?dryRun=All&fieldSelector=spec.nodeName%3D{B}"),
    ],
    "nodes-certificates": [
        _as(
            A,
            "POST",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All",
            _object(
                "CertificateSigningRequest",
                "$name",
                version="certificates.k8s.io/v1",
                spec={
                    "request": base64.b64encode(signing_requests.REQUEST).decode(),
                    "signerName": signer,
                    "usages": ["client auth", "digital signature"],
                },
            ),
        )
        for signer in ("kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving", "example.com/x")
    ],
}

WRITES = {**_NODES, **_PODS, **_OTHERS}


# --- the resources of a Pod on a node ---


def _resized(requests: Any, node: str = A) -> list[Ask]:
    amounts = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    made = _pod("$name", node, containers=[{**_POD["containers"][0], "resources": amounts}], serviceAccountName="robot")
    change = {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}
    where = _in_namespace("pods", "$name", "resize")
    pick = "message"
    return [
        ask("POST", _in_namespace("pods", query=""), made, compared=False),
        ask(
            "PATCH",
            where,
            change,
            kind="application/strategic-merge-patch+json",
            pick=lambda body: body.get("details") or body["spec"]["containers"][0]["resources"],
        ),
        ask("PATCH", where, change, kind="application/strategic-merge-patch+json", pick=lambda body: body.get(pick)),
        ask("DELETE", _in_namespace("pods", "$name", query="gracePeriodSeconds=0"), compared=False),
    ]


RESIZES: Cases = {
    "nodes-resize": _resized({"cpu": "2", "memory": "1Gi"}),
    "nodes-resize-cpu": _resized({"cpu": "2001m"}),
    "nodes-resize-both": _resized({"cpu": "3", "memory": "2Gi"}),
    "nodes-resize-lost": _resized({"cpu": "3"}, node="nodes-missing"),
    "nodes-resize-unplaced": _resized({"cpu": "3"}, node=""),
    "nodes-resize-nothing": _resized({"cpu": "100m"}),
}
