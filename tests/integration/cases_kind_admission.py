"""Cases for `test_same_kinds.py`: the admission plugins of kube-apiserver that concern built-in kinds."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import JSON_PATCH, MERGE_PATCH, Ask, Case, Cases, ask
from tests.integration.kinds import minimal, on, pod_template

__all__ = ["CASES"]

_POD = "core/pods"
_ACCOUNT = "core/serviceaccounts"
_CONTAINER = {"name": "c", "image": "example.com/i"}
_CLASS = "node.k8s.io/runtimeclasses"
_PRIORITY = "scheduling.k8s.io/priorityclasses"
_MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}
_SECRET_VARIABLE = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def _made(which: str, metadata: Any = None, **members: Any) -> Ask:
    return on("POST", which, minimal(which, metadata, **members), compared=False)


def _pod(metadata: Any = None, **spec: Any) -> Ask:
    """Try to make a Pod; nothing is stored."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$name", **(metadata or {})}}
    return on("POST", _POD, {**body, "spec": {"containers": [_CONTAINER], **spec}}, query="dryRun=All")


def _gone(which: str) -> Ask:
    return on("DELETE", which, query="propagationPolicy=Background", compared=False)


def _mount(path: str, name: str = "v") -> Any:
    return {"name": name, "mountPath": path}


_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_ENFORCED = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}

_SERVICE_ACCOUNTS: Cases = {
    "admission-account": [
        _pod(),
        _pod({"name": "", "generateName": "generated-"}),
        _pod(serviceAccountName="$name"),
        _pod(serviceAccount="$name"),
        _pod({"name": "", "generateName": "generated-"}, serviceAccountName="$name"),
        _pod(automountServiceAccountToken=False),
        _pod(initContainers=[{**_CONTAINER, "name": "i"}]),
        _pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[{**_CONTAINER, "volumeMounts": [_mount("/a")]}, {**_CONTAINER, "name": "d", "volumeMounts": []}],
        ),
        _pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[{**_CONTAINER, "volumeMounts": [_mount(_TOKEN_PATH)]}, {**_CONTAINER, "name": "d"}],
        ),
        _pod(volumes=[{"name": "v", "emptyDir": {}}], containers=[{**_CONTAINER, "volumeMounts": [_mount(_TOKEN_PATH)]}]),
        _pod(volumes=[{"name": "kube-api-access-mine", "emptyDir": {}}]),
        ask("POST", "/api/v1/namespaces/$name/pods", minimal(_POD)),
    ],
    "admission-account-opts-out": [
        _made(_ACCOUNT, automountServiceAccountToken=False, imagePullSecrets=[{"name": "a"}, {"name": "b"}]),
        _pod(serviceAccountName="$name"),
        _pod(serviceAccountName="$name", automountServiceAccountToken=True),
        _pod(serviceAccountName="$name", imagePullSecrets=[{"name": "mine"}]),
        _gone(_ACCOUNT),
    ],
    "admission-account-secrets": [
        _made(_ACCOUNT, _ENFORCED, secrets=[{"name": "s"}], imagePullSecrets=[{"name": "a"}]),
        _pod(serviceAccountName="$name", volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
        _pod(serviceAccountName="$name", volumes=[{"name": "v", "secret": {"secretName": "t"}}]),
        _pod(serviceAccountName="$name", containers=[{**_CONTAINER, "env": [_SECRET_VARIABLE]}]),
        _pod(serviceAccountName="$name", containers=[{**_CONTAINER, "envFrom": [{"secretRef": {"name": "t"}}]}]),
        _pod(serviceAccountName="$name", initContainers=[{**_CONTAINER, "name": "i", "envFrom": [{"secretRef": {"name": "t"}}]}]),
        _pod(serviceAccountName="$name", imagePullSecrets=[{"name": "b"}]),
        _gone(_ACCOUNT),
    ],
    "admission-mirror": [
        _pod(_MIRROR, nodeName="n", serviceAccountName="default"),
        _pod(_MIRROR, nodeName="n", volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
        _pod(_MIRROR, nodeName="n", containers=[{**_CONTAINER, "env": [_SECRET_VARIABLE]}]),
        _pod(_MIRROR, nodeName="n", volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]),
    ],
}

_NO_TOKEN = {"automountServiceAccountToken": False}
_TOLERATED = {"key": "a", "operator": "Exists"}
_BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "$name"}, "target": {"kind": "Node", "name": "$name"}}

_CLASSES: Cases = {
    "admission-runtime": [
        _pod(runtimeClassName="$name", **_NO_TOKEN),
        _pod(overhead={"cpu": "1"}, **_NO_TOKEN),
        _made(
            _CLASS,
            overhead={"podFixed": {"cpu": "100m", "memory": "1Gi"}},
            scheduling={"nodeSelector": {"a": "b"}, "tolerations": [{**_TOLERATED, "effect": "NoSchedule"}, {"key": "b"}]},
        ),
        _pod(runtimeClassName="$name", **_NO_TOKEN),
        _pod(runtimeClassName="$name", overhead={"cpu": "0.1", "memory": "1024Mi"}, **_NO_TOKEN),
        _pod(runtimeClassName="$name", overhead={"cpu": "1", "memory": "1024Mi"}, **_NO_TOKEN),
        _pod(runtimeClassName="$name", nodeSelector={"a": "b", "c": "d"}, **_NO_TOKEN),
        _pod(runtimeClassName="$name", nodeSelector={"a": "c"}, **_NO_TOKEN),
        _pod(runtimeClassName="$name", tolerations=[_TOLERATED], **_NO_TOKEN),
        _pod(runtimeClassName="$name", tolerations=[{"operator": "Exists"}], **_NO_TOKEN),
        _pod(runtimeClassName="$name", tolerations=[{"key": "b", "operator": "Equal", "value": "x"}], **_NO_TOKEN),
        _gone(_CLASS),
    ],
    "admission-runtime-plain": [
        _made(_CLASS),
        _pod(runtimeClassName="$name", **_NO_TOKEN),
        _pod(runtimeClassName="$name", overhead={"cpu": "1"}, **_NO_TOKEN),
        _gone(_CLASS),
    ],
    "admission-priority": [
        _pod(priorityClassName="$name", **_NO_TOKEN),
        _pod(priority=5, **_NO_TOKEN),
        _pod(preemptionPolicy="Never", **_NO_TOKEN),
        _made(_PRIORITY, value=7, preemptionPolicy="Never"),
        _pod(priorityClassName="$name", **_NO_TOKEN),
        _pod(priorityClassName="$name", priority=7, **_NO_TOKEN),
        _pod(priorityClassName="$name", priority=8, **_NO_TOKEN),
        _pod(priorityClassName="$name", preemptionPolicy="PreemptLowerPriority", **_NO_TOKEN),
        _pod(priorityClassName="system-node-critical", **_NO_TOKEN),
        _gone(_PRIORITY),
    ],
    "admission-topology": [
        _made("core/nodes", {"labels": {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/other": "o"}}),
        _pod(nodeName="$name", **_NO_TOKEN),
        _pod({"labels": {"topology.kubernetes.io/zone": "y", "a": "b"}}, nodeName="$name", **_NO_TOKEN),
        _pod(nodeName="nowhere", **_NO_TOKEN),
        _made(_POD),
        on("POST", _POD, _BINDING, below="binding"),
        on("GET", _POD),
        on("DELETE", _POD, query="gracePeriodSeconds=0", compared=False),
        _gone("core/nodes"),
    ],
}

_CLAIM, _STORAGE = "core/persistentvolumeclaims", "storage.k8s.io/storageclasses"


def _grow(to: str) -> Ask:
    return on("PATCH", _CLAIM, {"spec": {"resources": {"requests": {"storage": to}}}}, kind=MERGE_PATCH)


def _claims(expands: Any) -> Case:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "$name"}
    return [
        _made(_STORAGE, **expands),
        _made(_CLAIM, spec=spec),
        on("PATCH", _CLAIM, {"status": {"phase": "Bound"}}, kind=MERGE_PATCH, below="status", compared=False),
        _grow("2Gi"),
        _gone(_CLAIM),
        _gone(_STORAGE),
    ]


_STORED: Cases = {
    "admission-claim-expands": _claims({"allowVolumeExpansion": True}),
    "admission-claim-stays": _claims({"allowVolumeExpansion": False}),
    "admission-claim-says-nothing": _claims({}),
}


# --- PodSecurity ---

_PREFIX = "pod-security.kubernetes.io"
_SPACES = "/api/v1/namespaces"


def _labels(given: dict[str, Any]) -> dict[str, Any]:
    return {f"{_PREFIX}/{name.replace('_', '-')}": value for name, value in given.items()}


def _space(**labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$name", "labels": _labels(labels)}}


def _pod_in_space(spec: Any, **metadata: Any) -> dict[str, Any]:
    spec = {"serviceAccountName": "mine", **_NO_TOKEN, "containers": [_CONTAINER], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": spec}


def _context(**context: Any) -> Any:
    return {"containers": [{**_CONTAINER, "securityContext": context}]}


_SAFE: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_PROBED = {"httpGet": {"port": 80, "host": "example.com"}}
_STOPPED = {"preStop": {"tcpSocket": {"port": 1, "host": "h"}}}
_SPECS: list[Any] = [
    {},
    _context(**_SAFE),
    _context(**{**_SAFE, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "SYS_TIME"]}}),
    {**_context(procMount="Unmasked", runAsUser=0), "hostUsers": False},
    _context(capabilities={"add": ["SYS_ADMIN", "CHOWN", "NET_ADMIN"]}),
    _context(seccompProfile={"type": "Unconfined"}, appArmorProfile={"type": "Unconfined"}),
    _context(seLinuxOptions={"type": "spc_t", "user": "u", "role": "r"}),
    _context(runAsNonRoot=False, runAsUser=0),
    {"hostNetwork": True, "hostPID": True, "hostIPC": True},
    {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}]}},
    {"securityContext": {"runAsNonRoot": False, "runAsUser": 0, "seccompProfile": {"type": "Unconfined"}}},
    {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}},
    {"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}, "appArmorProfile": {"type": "Unconfined"}}},
    {"containers": [{**_CONTAINER, "ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 9, "hostPort": 9}]}]},
    {"containers": [{**_CONTAINER, "livenessProbe": _PROBED, "lifecycle": _STOPPED}]},
    {
        "volumes": [
            {"name": "a", "hostPath": {"path": "/a"}},
            {"name": "b", "nfs": {"server": "s", "path": "/"}},
            {"name": "d", "emptyDir": {}},
        ]
    },
    {"containers": [_CONTAINER, {**_CONTAINER, "name": "d"}], "initContainers": [{**_CONTAINER, "name": "i"}]},
    {"os": {"name": "windows"}},
]


def _security(*policies: dict[str, str]) -> Case:
    steps = [
        ask("POST", _SPACES, _space(**policies[0]), compared=False),
        ask("POST", f"{_SPACES}/$name/serviceaccounts", {"metadata": {"name": "mine"}}, compared=False),
    ]
    for policy in policies:
        steps.append(ask("PUT", f"{_SPACES}/$name", _space(**policy), compared=False))
        steps += [ask("POST", f"{_SPACES}/$name/pods?dryRun=All", _pod_in_space(spec)) for spec in _SPECS]
    return [*steps, ask("DELETE", f"{_SPACES}/$name", compared=False)]


def _workload(which: str, **members: Any) -> Ask:
    group, version, plural, kind = which.split("/")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    body = {"apiVersion": f"{group}/{version}".strip("/"), "kind": kind, "metadata": {"name": "w"}, **members}
    return ask("POST", f"{root}/namespaces/$name/{plural}?dryRun=All", body)


_SELECTED = {"selector": {"matchLabels": {"app": "$name"}}, "template": pod_template(hostNetwork=True)}
_ENDING = {"template": pod_template(hostNetwork=True, restartPolicy="Never")}


def _changed(**labels: str | None) -> Ask:
    return ask("PATCH", f"{_SPACES}/$name", {"metadata": {"labels": _labels(labels)}}, kind=MERGE_PATCH)


def _stored(name: str, spec: Any, **metadata: Any) -> Ask:
    return ask("POST", f"{_SPACES}/$name/pods", _pod_in_space(spec, name=name, **metadata), compared=False)


_NEW_IMAGE = [{"op": "replace", "path": "/spec/containers/0/image", "value": "i2"}]

_SECURITY: Cases = {
    "security-baseline": _security({"enforce": "baseline"}, {"enforce": "baseline", "enforce_version": "v1.18"}),
    "security-restricted": _security({"enforce": "restricted"}, {"enforce": "restricted", "enforce_version": "v1.24"}),
    "security-old": _security(
        {"enforce": "restricted", "enforce_version": "v1.7"}, {"enforce": "restricted", "enforce_version": "v1.99"}
    ),
    "security-warned": _security({"warn": "restricted", "audit": "baseline"}, {"enforce": "baseline", "warn": "restricted"}),
    "security-labels": [
        ask("POST", _SPACES, _space(enforce="nothing", warn_version="v2", audit="")),
        ask("POST", _SPACES, _space(enforce="privileged"), compared=False),
        _changed(enforce="much"),
        _changed(audit_version="v1.x"),
        _changed(enforce="baseline"),
        ask("DELETE", f"{_SPACES}/$name", compared=False),
    ],
    "security-existing": [
        ask("POST", _SPACES, _space(), compared=False),
        ask("POST", f"{_SPACES}/$name/serviceaccounts", {"metadata": {"name": "mine"}}, compared=False),
        _stored("b", {"hostNetwork": True}),
        _stored("a", {"hostNetwork": True}),
        _stored("c", {"hostPID": True}),
        _stored("d", _context(**_SAFE)),
        _changed(enforce="baseline"),
        _changed(enforce="restricted"),
        _changed(enforce="baseline"),
        _changed(enforce="baseline", enforce_version="v1.20"),
        ask("PATCH", f"{_SPACES}/$name/pods/a", {"metadata": {"labels": {"x": "y"}}}, kind=MERGE_PATCH),
        ask("PATCH", f"{_SPACES}/$name/pods/a", _NEW_IMAGE, kind=JSON_PATCH),
        ask("DELETE", f"{_SPACES}/$name", compared=False),
    ],
    "security-workloads": [
        ask("POST", _SPACES, _space(enforce="baseline"), compared=False),
        _workload("apps/v1/deployments/Deployment", spec=_SELECTED),
        _workload("apps/v1/replicasets/ReplicaSet", spec=_SELECTED),
        _workload("apps/v1/daemonsets/DaemonSet", spec=_SELECTED),
        _workload("apps/v1/statefulsets/StatefulSet", spec={**_SELECTED, "serviceName": "s"}),
        _workload("batch/v1/jobs/Job", spec=_ENDING),
        _workload("batch/v1/cronjobs/CronJob", spec={"schedule": "0 0 * * *", "jobTemplate": {"spec": _ENDING}}),
        _workload("/v1/replicationcontrollers/ReplicationController", spec={**_SELECTED, "selector": {"app": "$name"}}),
        _workload("/v1/podtemplates/PodTemplate", template=pod_template(hostNetwork=True)),
        ask("DELETE", f"{_SPACES}/$name", compared=False),
    ],
}

CASES: Cases = {**_SERVICE_ACCOUNTS, **_CLASSES, **_STORED, **_SECURITY}
