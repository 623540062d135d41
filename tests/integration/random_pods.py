"""Pods by chance: valid ones made of many parts, and the faults that people make in them.

`valid(rng)` returns a Pod that kube-apiserver accepts. Each function of FAULTS spoils a Pod in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

__all__ = ["FAULTS", "simple", "spoiled", "valid", "workload"]

_Pod = dict[str, Any]


def _container(rng: Random, name: str) -> _Pod:
    container: _Pod = {"name": name, "image": rng.choice(("nginx", "example.com/a/b:1.2", "busybox@sha256:" + "a" * 64))}
    if rng.random() < 0.5:
        container["ports"] = [
            {"name": f"p{port}", "containerPort": 1000 + port, "protocol": rng.choice(("TCP", "UDP", "SCTP"))}
            for port in range(rng.randrange(1, 4))
        ]
    if rng.random() < 0.5:
        container["env"] = rng.sample(_VARIABLES, rng.randrange(1, len(_VARIABLES)))
    if rng.random() < 0.3:
        container["envFrom"] = [{"prefix": "P_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]
    if rng.random() < 0.6:
        container["resources"] = rng.choice(_RESOURCES)
    if rng.random() < 0.4:
        container["securityContext"] = rng.choice(_CONTEXTS)
    if rng.random() < 0.2:
        container |= {"imagePullPolicy": "Never", "terminationMessagePolicy": "FallbackToLogsOnError", "stdin": True}
    return container


_VARIABLES: list[_Pod] = [
    {"name": "A", "value": "x"},
    {"name": "a.b-c 1", "value": ""},
    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
    {"name": "IPS", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIPs"}}},
    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    {"name": "MEM", "valueFrom": {"resourceFieldRef": {"containerName": "c0", "resource": "requests.memory", "divisor": "1Mi"}}},
    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k.e-y_1", "optional": True}}},
    {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
]
_RESOURCES: list[_Pod] = [
    {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    {"limits": {"cpu": "500m"}},
    {"requests": {"cpu": 1, "ephemeral-storage": "1Gi"}},
    {"limits": {"example.com/gpu": "2"}},
    {"limits": {"hugepages-2Mi": "4Mi", "memory": "8Mi"}},
    {"requests": {"memory": "0"}},
]
_CONTEXTS: list[_Pod] = [
    {"runAsUser": 1000, "runAsGroup": 0, "runAsNonRoot": True, "readOnlyRootFilesystem": True},
    {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}},
    {"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}},
    {"seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}},
    {"seLinuxOptions": {"level": "s0:c1"}, "procMount": "Default"},
]
_PROBES: list[_Pod] = [
    {"httpGet": {"path": "/x", "port": 80, "scheme": "HTTPS", "httpHeaders": [{"name": "X-A", "value": "b"}]}},
    {"httpGet": {"port": "http"}, "periodSeconds": 3, "failureThreshold": 5},
    {"tcpSocket": {"port": 5432, "host": "h"}, "initialDelaySeconds": 10, "timeoutSeconds": 2},
    {"exec": {"command": ["true"]}, "terminationGracePeriodSeconds": 5},
    {"grpc": {"port": 9000, "service": "s"}},
]
_VOLUMES: list[_Pod] = [
    {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    {"hostPath": {"path": "/var/log", "type": "Directory"}},
    {"secret": {"secretName": "s", "items": [{"key": "k", "path": "a/b", "mode": 256}]}},
    {"configMap": {"name": "c", "defaultMode": 292}},
    {"persistentVolumeClaim": {"claimName": "claim", "readOnly": True}},
    {"nfs": {"server": "s", "path": "/p"}},
    {"csi": {"driver": "d.example.com"}},
    {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    {
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "t"}},
                {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
            ]
        }
    },
    {
        "ephemeral": {
            "volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        }
    },
    {"image": {"reference": "example.com/i:1"}},
]
_TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
_PARTS: list[_Pod] = [
    {"restartPolicy": "Never"},
    {"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 0},
    {"nodeSelector": {"kubernetes.io/os": "linux"}},
    {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
    {
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.0.0.1", "::1"],
            "searches": ["a.b.", "_x.y", "."],
            "options": [{"name": "ndots", "value": "2"}],
        },
    },
    {"hostAliases": [{"ip": "127.0.0.1", "hostnames": ["a", "b.c"]}]},
    {
        "tolerations": [
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"operator": "Exists"},
            {"key": "b", "value": "c"},
        ]
    },
    {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [_TERM],
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {**_TERM, "namespaces": ["n"]}}
                ],
            }
        }
    },
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "a", "operator": "In", "values": ["b"]},
                                {"key": "c", "operator": "Gt", "values": ["1"]},
                            ]
                        },
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "preference": {"matchExpressions": [{"key": "d", "operator": "Exists"}]}}
                ],
            }
        }
    },
    {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "minDomains": 2,
                "labelSelector": {"matchLabels": {"a": "b"}},
                "matchLabelKeys": ["hash"],
            }
        ]
    },
    {
        "securityContext": {
            "fsGroup": 1,
            "fsGroupChangePolicy": "OnRootMismatch",
            "supplementalGroups": [1, 2],
            "runAsUser": 5,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    },
    {
        "securityContext": {
            "sysctls": [{"name": "net.core.somaxconn", "value": "1"}, {"name": "kernel.shm_rmid_forced", "value": "1"}]
        },
        "shareProcessNamespace": True,
    },
    {"os": {"name": "linux"}, "hostname": "h", "subdomain": "s", "setHostnameAsFQDN": True},
    {"hostnameOverride": "host.example.com"},
    {"readinessGates": [{"conditionType": "example.com/ready"}], "schedulingGates": [{"name": "example.com/gate"}]},
    {"activeDeadlineSeconds": 100, "enableServiceLinks": False, "automountServiceAccountToken": False},
    {"hostUsers": False},
    {"imagePullSecrets": [{"name": "a"}]},
    {"resources": {"requests": {"cpu": "20"}, "limits": {"cpu": "40", "memory": "100Gi"}}},
    {"resourceClaims": [{"name": "r", "resourceClaimName": "x"}]},
    {"preemptionPolicy": "PreemptLowerPriority", "priority": 0},
]


def valid(rng: Random) -> _Pod:
    spec: _Pod = {"containers": [_container(rng, f"c{number}") for number in range(rng.randrange(1, 4))]}
    if rng.random() < 0.4:
        spec["initContainers"] = [_container(rng, f"i{number}") for number in range(rng.randrange(1, 3))]
        if rng.random() < 0.5:
            spec["initContainers"][0] |= {"restartPolicy": "Always", "startupProbe": rng.choice(_PROBES)}
    for container in spec["containers"]:
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            if rng.random() < 0.3:
                probe = rng.choice(_PROBES)
                container[name] = {
                    key: value for key, value in probe.items() if name != "readinessProbe" or not key.startswith("termin")
                }
        if rng.random() < 0.2:
            container["lifecycle"] = {"preStop": {"sleep": {"seconds": 0}}, "postStart": {"exec": {"command": ["x"]}}}
    if rng.random() < 0.6:
        volumes = rng.sample(_VOLUMES, rng.randrange(1, 5))
        spec["volumes"] = [{"name": f"v{number}", **volume} for number, volume in enumerate(volumes)]
        for container in spec["containers"] + spec.get("initContainers", []):
            if rng.random() < 0.6:
                mounts = [{"name": volume["name"], "mountPath": f"/mnt/{volume['name']}"} for volume in spec["volumes"]]
                mounts[0] |= rng.choice(
                    ({}, {"subPath": "a/b"}, {"readOnly": True, "recursiveReadOnly": "Enabled"}, {"subPathExpr": "$(A)"})
                )
                container["volumeMounts"] = mounts
    for part in rng.sample(_PARTS, rng.randrange(0, 5)):
        spec |= part
    if spec.get("hostNetwork") and (spec.get("hostnameOverride") or spec.get("hostUsers") is False):
        del spec["hostNetwork"]
    if spec.get("hostNetwork"):
        for container in spec["containers"][1:]:
            container.pop("ports", None)  # they would have the same ports of the host
        context = spec.get("securityContext") or {}
        spec["securityContext"] = {name: value for name, value in context.items() if name != "sysctls"}
    if spec.get("setHostnameAsFQDN") and spec.get("hostnameOverride"):
        del spec["hostnameOverride"]
    metadata = {"labels": {"app": "x"}, "annotations": rng.choice(({}, {"controller.kubernetes.io/pod-deletion-cost": "-5"}))}
    pod: _Pod = _copy({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return pod


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in value.items()}
    return [_copy(member) for member in value] if isinstance(value, list) else value


_Fault = Callable[[_Pod, _Pod, Random], None]
"""Spoils: (spec, one of its containers, chance)."""


def _of_container(**members: Any) -> _Fault:
    return lambda spec, container, rng: container.update(_copy(members))


def _of_spec(**members: Any) -> _Fault:
    return lambda spec, container, rng: spec.update(_copy(members))


def _volume(**source: Any) -> _Fault:
    def spoil(spec: _Pod, container: _Pod, rng: Random) -> None:
        spec.setdefault("volumes", []).insert(rng.randrange(len(spec.get("volumes", [])) + 1), {"name": "bad", **_copy(source)})

    return spoil


def _mount(**mount: Any) -> _Fault:
    def spoil(spec: _Pod, container: _Pod, rng: Random) -> None:
        spec.setdefault("volumes", []).append({"name": "extra", "emptyDir": {}})
        container.setdefault("volumeMounts", []).append({"name": "extra", "mountPath": "/extra", **mount})

    return spoil


def _device(name: str, path: str) -> _Fault:
    def spoil(spec: _Pod, container: _Pod, rng: Random) -> None:
        spec.setdefault("volumes", []).append({"name": "block", "persistentVolumeClaim": {"claimName": "x"}})
        container["volumeDevices"] = [{"name": name, "devicePath": path}]

    return spoil


def _source(source: Any, value: str = "") -> _Fault:
    return _of_container(env=[{"name": "X", "valueFrom": source, **({"value": value} if value else {})}])


def _probe(**probe: Any) -> _Fault:
    def spoil(spec: _Pod, container: _Pod, rng: Random) -> None:
        _first(spec)[rng.choice(("livenessProbe", "readinessProbe", "startupProbe"))] = _copy(probe)

    return spoil


def _hook(**hook: Any) -> _Fault:
    return lambda spec, container, rng: _first(spec).update(lifecycle={"preStop": _copy(hook)})


def _context(**context: Any) -> _Fault:
    return _of_container(securityContext=context)


def _pod_context(**context: Any) -> _Fault:
    return _of_spec(securityContext=context)


def _resources(**resources: Any) -> _Fault:
    return _of_container(resources=resources)


def _pod_affinity(**term: Any) -> _Fault:
    return _of_spec(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**_TERM, **term}]}})


def _node_affinity(*expressions: Any, fields: Any = ()) -> _Fault:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return _of_spec(affinity={"nodeAffinity": rules})


def _spread(**constraint: Any) -> _Fault:
    base = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return _of_spec(topologySpreadConstraints=[{**base, **constraint}])


def _tolerate(**toleration: Any) -> _Fault:
    return _of_spec(tolerations=[toleration])


def _restart_rule(**rule: Any) -> _Fault:
    return _of_container(restartPolicy="Never", restartPolicyRules=[rule])


def _first(spec: _Pod) -> _Pod:
    first: _Pod = spec["containers"][0] if spec["containers"] else {}
    return first


def _same_name(spec: _Pod, container: _Pod, rng: Random) -> None:
    spec["containers"].append({**_copy(_first(spec)), "image": "other"})


def _same_init_name(spec: _Pod, container: _Pod, rng: Random) -> None:
    spec.setdefault("initContainers", []).append({"name": _first(spec).get("name", ""), "image": "x"})


def _init_probe(spec: _Pod, container: _Pod, rng: Random) -> None:
    spec.setdefault("initContainers", []).append(
        {"name": "probed", "image": "x", "livenessProbe": {"exec": {"command": ["x"]}}, "lifecycle": {}}
    )


def _same_host_port(spec: _Pod, container: _Pod, rng: Random) -> None:
    for each in spec["containers"]:
        each["ports"] = [{"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80}]


def _ephemeral(spec: _Pod, container: _Pod, rng: Random) -> None:
    spec["ephemeralContainers"] = [
        {"name": "debug", "image": "x", "ports": [{"containerPort": 1}], "targetContainerName": "nobody"}
    ]


_IN = {"key": "a", "operator": "In", "values": ["b"]}

FAULTS: dict[str, _Fault] = {
    "container name missing": lambda spec, container, rng: container.pop("name", None),
    "container name": _of_container(name="Upper_Case"),
    "container name long": _of_container(name="a" * 64),
    "container name with dots": _of_container(name="a.b"),
    "same container name": _same_name,
    "same init container name": _same_init_name,
    "image missing": _of_container(image=""),
    "image with space": _of_container(image=" nginx"),
    "no containers": _of_spec(containers=[]),
    "pull policy": _of_container(imagePullPolicy="Sometimes"),
    "message policy": _of_container(terminationMessagePolicy="Nowhere"),
    "port number": _of_container(ports=[{"containerPort": 70000}]),
    "port missing": _of_container(ports=[{"name": "a"}]),
    "port negative": _of_container(ports=[{"containerPort": -1, "hostPort": 65536}]),
    "port name": _of_container(ports=[{"containerPort": 1, "name": "Much_too_long_name"}]),
    "port name digits": _of_container(ports=[{"containerPort": 1, "name": "80--"}]),
    "same port name": _of_container(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
    "protocol": _of_container(ports=[{"containerPort": 1, "protocol": "HTTP"}]),
    "same host port": _same_host_port,
    "host network port": _of_spec(
        hostNetwork=True, containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 2}]}]
    ),
    "variable without name": _of_container(env=[{"value": "x"}]),
    "variable name": _of_container(env=[{"name": "a=b"}, {"name": "ü"}]),
    "value and source": _source({"fieldRef": {"fieldPath": "metadata.name"}}, "x"),
    "no source": _source({}),
    "two sources": _source({"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "s", "key": "k"}}),
    "field": _source({"fieldRef": {"fieldPath": "spec.containers"}}),
    "field missing": _source({"fieldRef": {}}),
    "field version": _source({"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}),
    "field of volumes": _source({"fieldRef": {"fieldPath": "metadata.labels"}}),
    "field phase": _source({"fieldRef": {"fieldPath": "status.phase"}}),
    "field subscript": _source({"fieldRef": {"fieldPath": "metadata.name['a']"}}),
    "field label": _source({"fieldRef": {"fieldPath": "metadata.labels['a b']"}}),
    "resource field": _source({"resourceFieldRef": {"resource": "limits.gpu"}}),
    "resource field missing": _source({"resourceFieldRef": {"resource": ""}}),
    "divisor": _source({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}),
    "memory divisor": _source({"resourceFieldRef": {"resource": "requests.memory", "divisor": "1m"}}),
    "storage divisor": _source({"resourceFieldRef": {"resource": "requests.ephemeral-storage", "divisor": "7"}}),
    "huge divisor": _source({"resourceFieldRef": {"resource": "limits.hugepages-2Mi", "divisor": "7"}}),
    "key": _source({"configMapKeyRef": {"name": "C", "key": "a b"}}),
    "key missing": _source({"secretKeyRef": {"name": ""}}),
    "key dots": _source({"secretKeyRef": {"name": "s", "key": "..a"}}),
    "source of many": _of_container(envFrom=[{"prefix": "a=", "configMapRef": {"name": "A_b"}}, {"secretRef": {}}, {}]),
    "two sources of many": _of_container(envFrom=[{"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}}]),
    "requests above limits": _resources(requests={"cpu": "2"}, limits={"cpu": "1"}),
    "negative": _resources(requests={"cpu": "-1"}),
    "negative limit": _resources(limits={"memory": "-1Gi"}),
    "resource name": _resources(limits={"gpu": "1"}),
    "resource for services": _resources(limits={"pods": "1"}),
    "resource name wrong": _resources(limits={"a/b/c": "1"}),
    "part of a device": _resources(limits={"example.com/gpu": "500m"}),
    "device requests": _resources(requests={"example.com/gpu": "1"}),
    "device requests differ": _resources(requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "2"}),
    "native name": _resources(limits={"kubernetes.io/x": "1"}),
    "reserved name": _resources(limits={"requests.example.com/x": "1"}),
    "huge pages alone": _resources(limits={"hugepages-2Mi": "2Mi"}),
    "huge pages odd": _resources(limits={"hugepages-2Mi": "3Mi", "memory": "1Gi"}),
    "claim unknown": _resources(claims=[{"name": "nobody"}]),
    "claims twice": lambda spec, container, rng: (
        spec.update(resourceClaims=[{"name": "r", "resourceClaimName": "x"}]),
        container.update(resources={"claims": [{"name": "r", "request": "A"}, {"name": "r"}, {"name": "r"}, {"name": ""}]}),
    )[0],
    "claim sources": _of_spec(
        resourceClaims=[{"name": "r", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}, {"name": "R"}]
    ),
    "resize policy": _of_container(resizePolicy=[{"resourceName": "disk", "restartPolicy": "Maybe"}]),
    "resize policy twice": _of_container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2),
    "no volume source": _volume(),
    "two volume sources": _volume(emptyDir={}, secret={"secretName": "x"}),
    "volume name": lambda spec, container, rng: spec.setdefault("volumes", []).append({"name": "A_B", "emptyDir": {}}),
    "volume without name": lambda spec, container, rng: spec.setdefault("volumes", []).append({"emptyDir": {}}),
    "same volume": lambda spec, container, rng: spec.setdefault("volumes", []).extend([{"name": "twice", "emptyDir": {}}] * 2),
    "size limit": _volume(emptyDir={"sizeLimit": "-1"}),
    "host path": _volume(hostPath={"path": "/a/../b", "type": "Unknown"}),
    "host path missing": _volume(hostPath={"path": ""}),
    "secret volume": _volume(secret={"defaultMode": 1000, "items": [{"key": "", "path": "/abs", "mode": -1}]}),
    "config map volume": _volume(configMap={"items": [{"key": "a", "path": "../x"}, {"key": "b", "path": "..x"}]}),
    "claim volume": _volume(persistentVolumeClaim={"claimName": ""}),
    "nfs": _volume(nfs={"server": "", "path": "rel"}),
    "csi": _volume(csi={"driver": "", "nodePublishSecretRef": {"name": "A_b"}}),
    "csi driver": _volume(csi={"driver": "a_b" + "c" * 61}),
    "iscsi": _volume(iscsi={"targetPortal": "", "iqn": "bad", "lun": 300, "chapAuthSession": True}),
    "iscsi initiator": _volume(
        iscsi={"targetPortal": "1.2.3.4:3260" * 6, "iqn": "iqn.2001-04.com.example:x", "lun": 1, "initiatorName": "iqn.x"}
    ),
    "git": _volume(gitRepo={"repository": "", "directory": "/x"}),
    "downward": _volume(downwardAPI={"items": [{"path": "", "fieldRef": {"fieldPath": "spec.nodeName"}}, {"path": "a"}]}),
    "downward resources": _volume(
        downwardAPI={"items": [{"path": "/a", "mode": 999, "resourceFieldRef": {"resource": "limits.cpu"}}]}
    ),
    "projected": _volume(
        projected={
            "sources": [
                {"secret": {"name": ""}, "configMap": {"name": "c"}},
                {"serviceAccountToken": {"path": "/t", "expirationSeconds": 5}},
            ]
        }
    ),
    "trust bundle": _volume(projected={"sources": [{"clusterTrustBundle": {"name": "a", "signerName": "b", "path": ""}}]}),
    "file key": _source({"fileKeyRef": {"volumeName": "nobody", "path": "../x", "key": "a=b"}}),
    "file key missing": _source({"fileKeyRef": {"volumeName": "", "path": "", "key": ""}}),
    "claim of an ephemeral volume": _volume(
        ephemeral={
            "volumeClaimTemplate": {
                "metadata": {"labels": {"a b": "c"}},
                "spec": {
                    "accessModes": ["ReadWriteOncePod", "ReadOnlyMany"],
                    "storageClassName": "A_",
                    "volumeMode": "X",
                    "resources": {"requests": {"storage": "0"}},
                },
            }
        }
    ),
    "old volumes": _volume(flocker={"datasetName": "a/b", "datasetUUID": "c"}),
    "fibre channel": _volume(fc={"targetWWNs": ["a"], "wwids": ["b"]}),
    "fibre channel missing": _volume(fc={}),
    "quobyte": _volume(quobyte={"registry": "a,b:1,[::1]:2,::1:3", "volume": ""}),
    "azure disk": _volume(azureDisk={"diskName": "", "diskURI": "x", "kind": "Managed", "cachingMode": "Y"}),
    "azure file": _volume(azureFile={"secretName": "", "shareName": ""}),
    "flex": _volume(flexVolume={"driver": "", "options": {"a.kubernetes.io/x": "y"}}),
    "cinder": _volume(cinder={"volumeID": "", "secretRef": {}}),
    "storage os": _volume(storageos={"volumeName": "A_", "volumeNamespace": "b.c", "secretRef": {}}),
    "scale io": _volume(scaleIO={"gateway": "", "system": "", "secretRef": None, "volumeName": ""}),
    "rbd": _volume(rbd={"monitors": [], "image": ""}),
    "disk partition": _volume(awsElasticBlockStore={"volumeID": "", "partition": 300}),
    "data source": _volume(
        ephemeral={
            "volumeClaimTemplate": {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "-1"}},
                    "dataSourceRef": {"apiGroup": "A_", "kind": "", "name": "", "namespace": "B_"},
                }
            }
        }
    ),
    "stop signal": lambda spec, container, rng: _first(spec).update(lifecycle={"stopSignal": "SIGX"}),
    "projected conflict": _volume(
        projected={
            "sources": [
                {"secret": {"name": "s", "items": [{"key": "a", "path": "p"}, {"key": "b", "path": "p"}]}},
                {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            ]
        }
    ),
    "ephemeral volume": _volume(ephemeral={}),
    "ephemeral volume name": lambda spec, container, rng: spec.setdefault("volumes", []).append(
        {"name": "a" * 63, "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["X"], "resources": {}}}}}
    ),
    "gce": _volume(gcePersistentDisk={"pdName": ""}),
    "image volume": _volume(image={"reference": "x", "pullPolicy": "Y"}),
    "mount of nothing": _mount(name="nobody"),
    "mount path missing": _mount(mountPath=""),
    "mount twice": lambda spec, container, rng: (
        spec.setdefault("volumes", []).append({"name": "m", "emptyDir": {}}),
        container.setdefault("volumeMounts", []).extend([{"name": "m", "mountPath": "/same"}] * 2),
    )[0],
    "sub path": _mount(subPath="/a/../b"),
    "two sub paths": _mount(subPath="a", subPathExpr="../b"),
    "propagation": _mount(mountPropagation="Wide"),
    "bidirectional": _mount(mountPropagation="Bidirectional"),
    "recursive": _mount(recursiveReadOnly="Enabled", mountPropagation="HostToContainer"),
    "recursive value": _mount(recursiveReadOnly="Maybe"),
    "device of nothing": _device("nobody", "/dev/x"),
    "device path": _device("block", "/dev/../x"),
    "device path missing": _device("block", ""),
    "device without users": lambda spec, container, rng: (
        _device("block", "/dev/x")(spec, container, rng),
        spec.update(hostUsers=False),
    )[0],
    "probe without handler": _probe(periodSeconds=5),
    "probe with two handlers": _probe(httpGet={"port": 80}, tcpSocket={"port": 80}),
    "probe numbers": _probe(
        exec={"command": ["x"]}, periodSeconds=-1, timeoutSeconds=-2, failureThreshold=-3, initialDelaySeconds=-4
    ),
    "probe threshold": _probe(exec={"command": ["x"]}, successThreshold=2),
    "probe grace": _probe(exec={"command": ["x"]}, terminationGracePeriodSeconds=0),
    "probe command": _probe(exec={}),
    "probe port": _probe(httpGet={"port": 0, "scheme": "FTP", "httpHeaders": [{"name": "a b", "value": ""}]}),
    "probe port name": _probe(tcpSocket={"port": "A_B"}),
    "probe grpc port": _probe(grpc={"port": 100000}),
    "hook without handler": _hook(),
    "hook sleep": _hook(sleep={"seconds": 100}),
    "hook port": _hook(httpGet={"port": "UPPER"}),
    "init probe": _init_probe,
    "restart rules": _restart_rule(action="Stop", exitCodes={"operator": "Is", "values": [1]}),
    "restart rule without codes": _restart_rule(action="Restart"),
    "restart rules alone": _of_container(
        restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]
    ),
    "container restart policy": _of_container(restartPolicy="Sometimes"),
    "user": _context(runAsUser=-1, runAsGroup=2**31),
    "seccomp": _context(seccompProfile={"type": "Localhost"}),
    "seccomp type": _context(seccompProfile={"type": "X", "localhostProfile": "a"}),
    "seccomp path": _context(seccompProfile={"type": "Localhost", "localhostProfile": "/a/../b"}),
    "seccomp without type": _context(seccompProfile={}),
    "app armor": _context(appArmorProfile={"type": "Localhost", "localhostProfile": " a"}),
    "app armor type": _context(appArmorProfile={"type": "X"}),
    "app armor local": _context(appArmorProfile={"type": "Unconfined", "localhostProfile": "x"}),
    "unmasked": _context(procMount="Unmasked"),
    "escalation": _context(allowPrivilegeEscalation=False, capabilities={"add": ["CAP_SYS_ADMIN"]}),
    "proc mount": _context(procMount="X"),
    "windows": _context(
        windowsOptions={"runAsUserName": "a\\\\b\\\\c", "gmsaCredentialSpecName": "A_", "gmsaCredentialSpec": ""}
    ),
    "windows user": _context(windowsOptions={"runAsUserName": "..\\\\a@b"}),
    "host process": _context(windowsOptions={"hostProcess": False}),
    "linux for windows": _of_spec(
        os={"name": "windows"}, hostPID=True, securityContext={"fsGroup": 1, "sysctls": [{"name": "a", "value": "b"}]}
    ),
    "windows for linux": _of_spec(os={"name": "linux"}, securityContext={"windowsOptions": {}}),
    "os": _of_spec(os={"name": "plan9"}),
    "groups": _pod_context(fsGroup=-1, supplementalGroups=[1, -5]),
    "change policy": _pod_context(fsGroupChangePolicy="X", supplementalGroupsPolicy="Y", seLinuxChangePolicy="Z"),
    "sysctl": _pod_context(
        sysctls=[{"name": "A b", "value": ""}, {"name": "", "value": ""}, {"name": "a", "value": ""}, {"name": "a", "value": ""}]
    ),
    "host sysctl": _of_spec(
        hostNetwork=True,
        hostIPC=True,
        securityContext={"sysctls": [{"name": "net.a", "value": ""}, {"name": "kernel/msgmax", "value": ""}]},
    ),
    "processes": _of_spec(shareProcessNamespace=True, hostPID=True),
    "host users": _of_spec(hostUsers=False, hostNetwork=True, hostPID=True, hostIPC=True),
    "restart policy": _of_spec(restartPolicy="Sometimes"),
    "dns policy": _of_spec(dnsPolicy="Cluster"),
    "no dns": _of_spec(dnsPolicy="None", dnsConfig=None),
    "no name servers": _of_spec(dnsPolicy="None", dnsConfig={}),
    "name servers": _of_spec(
        dnsConfig={"nameservers": ["a", "010.0.0.1", "::ffff:1.2.3.4", "1.2.3.4"], "searches": ["A", ""], "options": [{}]}
    ),
    "many searches": _of_spec(dnsConfig={"searches": ["a" * 60] * 40}),
    "host aliases": _of_spec(hostAliases=[{"ip": "x", "hostnames": ["A_"]}]),
    "host name": _of_spec(hostname="a.b", subdomain="A"),
    "host name override": _of_spec(hostnameOverride="A_" + "b" * 70, hostNetwork=True),
    "deadline": _of_spec(activeDeadlineSeconds=0),
    "node": _of_spec(nodeName="A_b"),
    "node of a gated Pod": _of_spec(nodeName="n", schedulingGates=[{"name": "a b"}, {"name": "a b"}]),
    "readiness gate": _of_spec(readinessGates=[{"conditionType": "a/b/c"}]),
    "node selector": _of_spec(nodeSelector={"a b": "c d"}),
    "toleration key": _tolerate(key="a b", operator="Exists"),
    "toleration without key": _tolerate(value="x"),
    "toleration operator": _tolerate(key="a", operator="Like"),
    "toleration order": _tolerate(key="a", operator="Lt", value="1"),
    "toleration value": _tolerate(key="a", operator="Exists", value="v"),
    "toleration seconds": _tolerate(key="a", effect="NoSchedule", tolerationSeconds=1),
    "toleration effect": _tolerate(key="a", effect="Never", value="a b"),
    "pod affinity": _pod_affinity(topologyKey="", namespaces=["A"]),
    "pod affinity selector": _pod_affinity(
        labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "b c", "operator": "Is"}]}
    ),
    "pod affinity keys": _pod_affinity(matchLabelKeys=["a b", "c"], mismatchLabelKeys=["c"]),
    "pod affinity without selector": _pod_affinity(labelSelector=None, matchLabelKeys=["a"]),
    "weight": _of_spec(
        affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "podAffinityTerm": _TERM}]}}
    ),
    "node affinity": _node_affinity({"key": "", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["b"]}),
    "node affinity values": _node_affinity(
        {"key": "a", "operator": "Gt", "values": []}, {"key": "a", "operator": "In", "values": ["b c"]}
    ),
    "node affinity operator": _node_affinity({"key": "a", "operator": "Like"}),
    "node affinity fields": _node_affinity(
        _IN, fields=[{"key": "x", "operator": "Exists"}, {"key": "metadata.name", "operator": "In", "values": ["A_", "b"]}]
    ),
    "no node terms": _of_spec(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    ),
    "preferred node": _of_spec(
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 0, "preference": {"matchExpressions": [{"key": "a b", "operator": "In", "values": ["c d"]}]}}
                ]
            }
        }
    ),
    "spread": _spread(maxSkew=0, topologyKey="", whenUnsatisfiable="Maybe"),
    "spread domains": _spread(minDomains=0, whenUnsatisfiable="ScheduleAnyway"),
    "spread policies": _spread(nodeAffinityPolicy="X", nodeTaintsPolicy="Y"),
    "spread keys": _spread(matchLabelKeys=["a b", "app"], labelSelector={"matchLabels": {"app": "x"}}),
    "spread keys alone": _spread(matchLabelKeys=["a"]),
    "spread selector": _spread(labelSelector={"matchLabels": {"a": "b c"}}),
    "spread twice": _of_spec(
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}] * 3
    ),
    "pod resources": _of_spec(resources={"requests": {"cpu": "0"}, "limits": {"cpu": "1m", "example.com/gpu": "1"}}),
    "ephemeral containers": _ephemeral,
    "preemption": _of_spec(runtimeClassName=None, subdomain="-"),
    "group": _of_spec(serviceAccountName="default", setHostnameAsFQDN=True, hostnameOverride="a"),
}


def simple(fault: str) -> _Pod:
    """The smallest Pod with a fault."""
    spec: _Pod = {"containers": [{"name": "c", "image": "i"}]}
    FAULTS[fault](spec, spec["containers"][0], Random(1))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": "x"}}, "spec": spec}


def spoiled(rng: Random, count: int) -> tuple[_Pod, list[str]]:
    """A Pod with as many faults, and their names."""
    pod = valid(rng)
    names = rng.sample(sorted(FAULTS), count)
    for name in names:
        spec = pod["spec"]
        containers = [*spec.get("containers", []), *spec.get("initContainers", [])]
        FAULTS[name](spec, rng.choice(containers) if containers else {}, rng)
    return pod, names


# --- workloads ---

_KINDS = {
    # plural -> group and version, kind
    "deployments": ("apps/v1", "Deployment"),
    "replicasets": ("apps/v1", "ReplicaSet"),
    "daemonsets": ("apps/v1", "DaemonSet"),
    "statefulsets": ("apps/v1", "StatefulSet"),
    "replicationcontrollers": ("v1", "ReplicationController"),
    "jobs": ("batch/v1", "Job"),
    "cronjobs": ("batch/v1", "CronJob"),
    "podtemplates": ("v1", "PodTemplate"),
}
_SELECTORS: list[Any] = [
    {"matchLabels": {"app": "y"}},
    {"matchLabels": {}},
    {"matchLabels": {"app": "x y"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]},
    {"matchExpressions": [{"key": "app", "operator": "Is", "values": ["x"]}]},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]},
    None,
]


def workload(rng: Random) -> tuple[str, _Pod]:
    """The path of a collection without its namespace, and a workload for it, which may be spoiled."""
    plural = rng.choice(sorted(_KINDS))
    version, kind = _KINDS[plural]
    pod, _ = spoiled(rng, rng.choice((0, 0, 1)))
    template: _Pod = {"metadata": pod["metadata"], "spec": pod["spec"]}
    lasting = plural not in ("jobs", "cronjobs", "podtemplates")
    if rng.random() < 0.8:
        template["spec"]["restartPolicy"] = "Always" if lasting else "Never"
        template["spec"].pop("activeDeadlineSeconds", None)
    spec: _Pod = {"template": template}
    if lasting:
        selector: Any = {"matchLabels": {"app": "x"}} if rng.random() < 0.7 else rng.choice(_SELECTORS)
        spec["selector"] = ((selector or {}).get("matchLabels") if version == "v1" else selector) or None
    if plural == "statefulsets":
        spec["serviceName"] = "s"
        if rng.random() < 0.3:
            claim = {"accessModes": rng.choice((["ReadWriteOnce"], ["X"])), "resources": {"requests": {"storage": "1Gi"}}}
            spec["volumeClaimTemplates"] = [{"metadata": {"name": "v0"}, "spec": claim}]
    if plural == "cronjobs":
        spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": spec}}
    body: _Pod = {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}}
    body |= {"template": template} if plural == "podtemplates" else {"spec": spec}
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{{}}/{plural}", body
