"""Cases for `test_same_kinds.py`: what an update may change of Jobs, StatefulSets, claims and Services.

Of an object that was changed it is compared that it was; of a refusal the field and the reason, without the value, which upstream
shows as a Go struct, and without the difference behind it.
"""

from __future__ import annotations

import re
from typing import Any

from tests.integration.comparison import MERGE_PATCH, Ask, Cases
from tests.integration.kinds import minimal, on

__all__ = ["CASES", "NEAR", "seen", "volume_claim", "zone"]

# A Go struct, and an address that was given by chance.
_VALUE = re.compile(r'Invalid value: ([{\[].*[}\]]|"10\.0\.0\.\d+"): ')
_STARTED = "2026-01-02T03:04:05Z"
_JOB, _SET, _CLAIM, _SERVICE = "batch/jobs", "apps/statefulsets", "core/persistentvolumeclaims", "core/services"
_CLASS = "storage.k8s.io/storageclasses"
_SUSPENDED = {"type": "Suspended", "status": "True", "lastTransitionTime": _STARTED}


def seen(body: Any) -> Any:
    if body.get("kind") != "Status":
        return body["kind"]
    causes = body.get("details", {}).get("causes", ())
    return [(each["field"], _VALUE.sub("Invalid value: <value>: ", each["message"].partition("\n")[0])) for each in causes]


def _new(which: str, compared: bool = False, **spec: Any) -> Ask:
    base = minimal(which)
    return on("POST", which, {**base, "spec": {**base["spec"], **spec}}, compared=compared, pick=seen)


def _change(which: str, below: str = "", **members: Any) -> Ask:
    return on("PATCH", which, members, kind=MERGE_PATCH, below=below, pick=seen)


def _spec(which: str, **spec: Any) -> Ask:
    return on("PATCH", which, {"spec": spec}, kind=MERGE_PATCH, pick=seen)


def _put(which: str, **spec: Any) -> Ask:
    """The whole object again, as somebody writes it who knows nothing of defaults."""
    base = minimal(which)
    return on("PUT", which, {**base, "spec": {**base["spec"], **spec}}, pick=seen)


def _end(which: str) -> Ask:
    return on("DELETE", which, query="propagationPolicy=Background", compared=False)


def _of_pods(metadata: Any = None, **spec: Any) -> Ask:
    """A change of a Job's template."""
    return _spec(_JOB, template={**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})})


def zone(*zones: str) -> Any:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": list(zones)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


NEAR = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}]
    }
}
_CONTAINER = {"name": "c", "image": "example.com/i"}


def _template(**spec: Any) -> Any:
    return {"spec": {"restartPolicy": "Never", "containers": [_CONTAINER], **spec}}


def _directives() -> list[Ask]:
    """Everything that the template of a suspended Job may change, and what it may not."""
    return [
        _of_pods(nodeSelector={"a": "b"}),
        _of_pods(nodeSelector={"a": "c"}),
        _of_pods(nodeSelector=None),
        _of_pods(tolerations=[{"key": "k", "operator": "Exists"}]),
        _of_pods(tolerations=None),
        _of_pods(schedulingGates=[{"name": "example.com/a"}]),
        _of_pods(schedulingGates=None),
        _of_pods(affinity=zone("a")),
        _of_pods(affinity=zone("b")),
        _of_pods(affinity=NEAR),
        _of_pods(affinity=None),
        _of_pods(affinity={}),
        _of_pods({"labels": {"x": "y"}}),
        _of_pods({"annotations": {"x": "y"}}),
        _of_pods({"annotations": {"x": None}}),
        _of_pods({"name": "x"}),
        _of_pods({"finalizers": ["example.com/f"]}),
        _of_pods(containers=[{**_CONTAINER, "resources": {"requests": {"cpu": "1"}}}]),
        _of_pods(containers=[{**_CONTAINER, "resources": {"requests": {"cpu": "1000m"}}}]),
        _of_pods(containers=[{**_CONTAINER, "resources": {"limits": {"cpu": "2"}}}]),
        _of_pods(containers=[{"name": "d", "image": "example.com/i", "resources": {"requests": {"cpu": "1"}}}]),
        _of_pods(containers=[{**_CONTAINER, "image": "example.com/j"}]),
        _of_pods(containers=[{**_CONTAINER, "env": [{"name": "A", "value": "b"}]}]),
        _of_pods(initContainers=[{"name": "i", "image": "i"}]),
        _of_pods(nodeName="n"),
        _of_pods(priorityClassName="system-node-critical"),
        _of_pods(activeDeadlineSeconds=5),
        _of_pods(restartPolicy="OnFailure"),
        _of_pods(terminationGracePeriodSeconds=30, dnsPolicy="ClusterFirst"),
    ]


_JOBS: Cases = {
    "change-job-suspended": [_new(_JOB, suspend=True), *_directives(), _end(_JOB)],
    "change-job-that-runs": [
        _new(_JOB),
        *_directives(),
        _spec(_JOB, suspend=True),
        _of_pods(nodeSelector={"a": "b"}),
        _end(_JOB),
    ],
    "change-job-while-it-is-resumed": [
        _new(_JOB, suspend=True),
        _spec(_JOB, suspend=False, template={"spec": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}}),
        _of_pods(nodeSelector={"a": "c"}),
        _end(_JOB),
    ],
    "change-job-started": [
        _new(_JOB, suspend=True),
        _change(_JOB, "status", status={"startTime": _STARTED}),
        *_directives()[:9],
        _of_pods({"annotations": {"x": "y"}}),
        _of_pods(containers=[{**_CONTAINER, "resources": {"requests": {"cpu": "1"}}}]),
        _change(_JOB, "status", status={"startTime": _STARTED, "conditions": [_SUSPENDED]}),
        *_directives()[:9],
        _of_pods({"labels": {"a": "b"}}),
        _of_pods(containers=[{**_CONTAINER, "resources": {"requests": {"cpu": "1"}}}]),
        _change(_JOB, "status", status={"active": 1}),
        _of_pods(nodeSelector={"a": "e"}),
        _of_pods(containers=[{**_CONTAINER, "resources": {"requests": {"cpu": "2"}}}]),
        _end(_JOB),
    ],
    "change-job-init-containers": [
        _new(
            _JOB,
            suspend=True,
            template={
                "spec": {"restartPolicy": "Never", "containers": [_CONTAINER], "initContainers": [{"name": "i", "image": "i"}]}
            },
        ),
        _of_pods(initContainers=[{"name": "i", "image": "i", "resources": {"requests": {"cpu": "1"}}}]),
        _of_pods(initContainers=[{"name": "i", "image": "j"}]),
        _of_pods(initContainers=None),
        _of_pods(containers=[_CONTAINER, {"name": "d", "image": "i"}]),
        _end(_JOB),
    ],
    "change-job-affinity": [
        _new(_JOB, suspend=True, template=_template(affinity={**NEAR, **zone("a")})),
        _of_pods(affinity=zone("b")),
        _of_pods(affinity={"nodeAffinity": None}),
        _of_pods(affinity={"podAffinity": None}),
        _of_pods(affinity=None),
        _end(_JOB),
    ],
    "change-job-spec": [
        _new(_JOB, completions=3, parallelism=1),
        _spec(_JOB, completions=4),
        _spec(_JOB, completions=None),
        _spec(_JOB, parallelism=3),
        _spec(_JOB, backoffLimit=9, activeDeadlineSeconds=100, ttlSecondsAfterFinished=1000),
        _spec(_JOB, activeDeadlineSeconds=None, ttlSecondsAfterFinished=None),
        _spec(_JOB, completionMode="Indexed"),
        _spec(_JOB, manualSelector=True),
        _spec(_JOB, managedBy="example.com/c"),
        _spec(_JOB, podReplacementPolicy="Failed"),
        _spec(_JOB, backoffLimitPerIndex=1),
        _spec(_JOB, podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": [{"type": "A", "status": "True"}]}]}),
        _spec(_JOB, suspend=True),
        _spec(_JOB, suspend=None),
        _spec(_JOB, parallelism=None),
        _end(_JOB),
    ],
    "change-job-indexed": [
        _new(_JOB, completions=3, parallelism=3, completionMode="Indexed"),
        _spec(_JOB, completions=4),
        _spec(_JOB, completions=4, parallelism=4),
        _spec(_JOB, completions=None),
        _spec(_JOB, completions=2, parallelism=2),
        _spec(_JOB, completions=2, parallelism=3),
        _spec(_JOB, successPolicy={"rules": [{"succeededCount": 1}]}),
        _end(_JOB),
    ],
}


def volume_claim(size: str = "1Gi", **metadata: Any) -> Any:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": "v", **metadata}, "spec": spec}


_SETS: Cases = {
    "change-set": [
        _new(_SET, volumeClaimTemplates=[volume_claim()]),
        _spec(_SET, replicas=3),
        _spec(_SET, minReadySeconds=3),
        _spec(_SET, ordinals={"start": 2}),
        _spec(_SET, ordinals=None),
        _spec(_SET, revisionHistoryLimit=3),
        _spec(_SET, updateStrategy={"type": "OnDelete", "rollingUpdate": None}),
        _spec(_SET, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
        _spec(_SET, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"}),
        _spec(_SET, template={"metadata": {"annotations": {"a": "b"}}, "spec": {"nodeSelector": {"a": "b"}}}),
        _spec(_SET, serviceName="t"),
        _spec(_SET, podManagementPolicy="Parallel"),
        _spec(_SET, podManagementPolicy=None),
        _spec(_SET, selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        _spec(_SET, volumeClaimTemplates=None),
        _spec(_SET, volumeClaimTemplates=[volume_claim(name="w")]),
        _spec(_SET, volumeClaimTemplates=[volume_claim()]),
        _spec(_SET, volumeClaimTemplates=[volume_claim(labels={"a": "b"})]),
        _spec(_SET, volumeClaimTemplates=[volume_claim("1024Mi")]),
        _spec(_SET, volumeClaimTemplates=[volume_claim("2Gi")]),
        _spec(_SET, serviceName=None, replicas=1),
        _end(_SET),
    ],
    "change-daemon-set-and-others": [
        step
        for which in ("apps/daemonsets", "apps/deployments", "apps/replicasets")
        for step in (
            _new(which),
            _spec(which, template={"spec": {"nodeSelector": {"a": "b"}, "terminationGracePeriodSeconds": 5}}),
            _spec(which, minReadySeconds=4),
            _spec(which, selector={"matchLabels": {"app": "$name"}}),
            _spec(which, selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
            _end(which),
        )
    ],
    "change-replication-controller": [
        _new("core/replicationcontrollers"),
        _spec("core/replicationcontrollers", selector={"app": "$name", "b": "c"}, template={"metadata": {"labels": {"b": "c"}}}),
        _spec("core/replicationcontrollers", minReadySeconds=4, replicas=3),
        _end("core/replicationcontrollers"),
    ],
}


def _size(size: str, **more: Any) -> Ask:
    return _spec(_CLAIM, resources={"requests": {"storage": size}}, **more)


_BETA = "volume.beta.kubernetes.io/storage-class"

_CLAIMS: Cases = {
    "change-claim": [
        _new(_CLAIM, storageClassName="a"),
        _size("2Gi"),
        _size("500Mi"),
        _size("1024Mi"),
        _spec(_CLAIM, accessModes=["ReadWriteMany"]),
        _spec(_CLAIM, storageClassName="b"),
        _spec(_CLAIM, storageClassName=None),
        _spec(_CLAIM, volumeMode="Block"),
        _spec(_CLAIM, volumeMode=None),
        _spec(_CLAIM, volumeAttributesClassName="x"),
        _spec(_CLAIM, selector={"matchLabels": {"a": "b"}}),
        _spec(_CLAIM, dataSource={"kind": "PersistentVolumeClaim", "name": "x"}),
        _spec(_CLAIM, volumeName="v", accessModes=["ReadWriteMany"]),
        _spec(_CLAIM, volumeName="v"),
        _spec(_CLAIM, volumeName="w"),
        _spec(_CLAIM, volumeName=None),
        _change(_CLAIM, metadata={"labels": {"a": "b"}, "annotations": {_BETA: "b"}}),
        _change(_CLAIM, metadata={"labels": {"a": "b"}}),
        _end(_CLAIM),
    ],
    "change-claim-bound": [
        on("POST", _CLASS, minimal(_CLASS, allowVolumeExpansion=True), compared=False),
        _new(_CLAIM, volumeName="v", storageClassName="$name"),
        _change(_CLAIM, "status", status={"phase": "Bound", "capacity": {"storage": "1Gi"}}),
        _size("2Gi"),
        _size("4Gi"),
        _size("3Gi"),
        _size("1Gi"),
        _size("500Mi"),
        _size("1500Mi"),
        _spec(_CLAIM, resources={"limits": {"storage": "9Gi"}}),
        _spec(_CLAIM, resources={"requests": {"cpu": "1"}}),
        _spec(_CLAIM, resources=None),
        _spec(_CLAIM, volumeAttributesClassName="x"),
        _spec(_CLAIM, volumeAttributesClassName=None),
        _change(_CLAIM, "status", status={"currentVolumeAttributesClassName": "x"}),
        _spec(_CLAIM, volumeAttributesClassName="y"),
        _spec(_CLAIM, volumeAttributesClassName=""),
        _spec(_CLAIM, volumeAttributesClassName=None),
        _spec(_CLAIM, storageClassName="b"),
        _spec(_CLAIM, volumeName="w"),
        _end(_CLAIM),
        _end(_CLASS),
    ],
    "change-claim-source": [
        _new(_CLAIM, dataSource={"kind": "PersistentVolumeClaim", "name": "x"}),
        _put(_CLAIM, dataSource={"kind": "PersistentVolumeClaim", "name": "x"}),
        _put(_CLAIM, dataSourceRef={"kind": "PersistentVolumeClaim", "name": "x"}),
        _put(_CLAIM),
        _put(_CLAIM, dataSource={"kind": "PersistentVolumeClaim", "name": "y"}),
        _end(_CLAIM),
    ],
    "change-put-again": [
        step
        for which in (_SET, _CLAIM, _SERVICE, "apps/deployments", "core/pods", "batch/cronjobs")
        for step in (_new(which), _put(which), _end(which))
    ],
    "change-claim-class": [
        _new(_CLAIM),
        _spec(_CLAIM, storageClassName="b"),
        _spec(_CLAIM, storageClassName="c"),
        _end(_CLAIM),
    ],
    "change-claim-class-in-annotation": [
        on("POST", _CLAIM, minimal(_CLAIM, {"annotations": {_BETA: "a"}}), compared=False),
        _spec(_CLAIM, storageClassName="b"),
        _change(_CLAIM, metadata={"annotations": {_BETA: "b"}}),
        _change(_CLAIM, metadata={"annotations": {_BETA: None}}),
        _change(_CLAIM, metadata={"annotations": {_BETA: None}}, spec={"storageClassName": "a"}),
        _spec(_CLAIM, storageClassName="b"),
        _end(_CLAIM),
    ],
}

_PORTS = [{"port": 80, "name": "a"}]


def _port(number: int, **more: Any) -> Any:
    return {"port": number, "name": "a", **more}


def _port(number: int, **more: Any) -> Any:
    return {"port": number, "name": "a", **more}


_SERVICES: Cases = {
    "change-put-service": [
        step
        for spec in (
            {"type": "NodePort", "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b", "nodePort": 30777}]},
            {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}], "loadBalancerClass": "a/b"},
            {"externalIPs": ["192.0.2.1"], "ports": [{"port": 80}, {"port": 80, "protocol": "UDP", "name": "b"}]},
            {"externalIPs": ["192.0.2.1"], "externalTrafficPolicy": "Local", "ports": [{"port": 80}]},
            {"ipFamilyPolicy": "PreferDualStack", "sessionAffinity": "ClientIP"},
            {"ports": [_port(80), _port(80, name="b"), _port(81, name="a"), _port(82, name="A_"), {"port": 83}]},
            {"type": "NodePort", "ports": [_port(1, nodePort=30778), _port(2, name="b", nodePort=30778)]},
            {"type": "NodePort", "ports": [_port(1, nodePort=30778), _port(2, name="b", nodePort=30778, protocol="UDP")]},
            {"type": "NodePort", "ports": [_port(1, nodePort=30778), _port(1, name="b", nodePort=30778, protocol="UDP")]},
            {"clusterIP": "10.0.0.96", "clusterIPs": ["10.0.0.95"]},
            {"clusterIPs": ["10.0.0.96"]},
            {"clusterIP": "10.0.0.96", "clusterIPs": ["10.0.0.96", "10.0.0.95"]},
            {"clusterIP": "10.0.0.96", "clusterIPs": ["10.0.0.96", "2001:db8::1"]},
            {"clusterIP": "10.0.0.96", "ipFamilies": ["IPv4", "IPv4"]},
            {"clusterIP": "10.0.0.96", "ipFamilies": ["IPv5"]},
            {"clusterIP": "2001:db8::1"},
            {"clusterIP": "None", "clusterIPs": ["None", "10.0.0.1"]},
            {"type": "LoadBalancer", "clusterIP": "None"},
            {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}},
            {"externalName": "a.example.com.", "type": "ExternalName", "ports": []},
            {"allocateLoadBalancerNodePorts": False, "type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"]},
            {"loadBalancerClass": "-", "type": "LoadBalancer"},
        )
        for step in (
            _new(_SERVICE, True, **{"clusterIP": None, **spec}),
            _put(_SERVICE, **{"clusterIP": None, **spec}),
            on("DELETE", _SERVICE, pick=lambda body: None),
        )
    ],
    "change-service": [
        _new(_SERVICE, clusterIP=None, ports=_PORTS),
        _spec(_SERVICE, clusterIP="10.0.0.99"),
        _spec(_SERVICE, clusterIP="10.0.0.99", clusterIPs=["10.0.0.99"]),
        _spec(_SERVICE, clusterIP=None, clusterIPs=None),
        _spec(_SERVICE, clusterIP="None", clusterIPs=["None"]),
        _spec(_SERVICE, clusterIP="", clusterIPs=[]),
        _spec(_SERVICE, ipFamilies=["IPv6"]),
        _spec(_SERVICE, ipFamilies=None),
        _spec(_SERVICE, ipFamilyPolicy="PreferDualStack"),
        _spec(_SERVICE, ports=[{"port": 81, "name": "b"}]),
        _spec(_SERVICE, ports=[{"port": 81, "name": "b", "nodePort": 30123}]),
        _spec(_SERVICE, selector={"a": "b"}, sessionAffinity="ClientIP"),
        _spec(_SERVICE, sessionAffinity="None"),
        _spec(_SERVICE, sessionAffinityConfig=None, sessionAffinity="None"),
        _spec(_SERVICE, loadBalancerClass="example.com/a"),
        _spec(_SERVICE, healthCheckNodePort=31234),
        _spec(_SERVICE, externalTrafficPolicy="Local"),
        _spec(_SERVICE, allocateLoadBalancerNodePorts=True),
        _spec(_SERVICE, loadBalancerSourceRanges=["10.0.0.0/8"]),
        _end(_SERVICE),
    ],
    "change-service-type": [
        _new(_SERVICE, clusterIP=None, ports=_PORTS),
        _spec(_SERVICE, type="NodePort"),
        _spec(_SERVICE, type="LoadBalancer"),
        _spec(_SERVICE, loadBalancerClass="example.com/a"),
        _spec(_SERVICE, type="ClusterIP"),
        _spec(_SERVICE, type="LoadBalancer", loadBalancerClass="example.com/a"),
        _spec(_SERVICE, loadBalancerClass="example.com/b"),
        _spec(_SERVICE, loadBalancerClass=None),
        _spec(_SERVICE, externalTrafficPolicy="Local", healthCheckNodePort=31777),
        _spec(_SERVICE, healthCheckNodePort=31778),
        _spec(_SERVICE, healthCheckNodePort=None),
        _spec(_SERVICE, type="NodePort"),
        _spec(_SERVICE, type="ExternalName", externalName="example.com"),
        _spec(_SERVICE, type="ExternalName", externalName="example.com", clusterIP=None, clusterIPs=None),
        _spec(_SERVICE, type="ClusterIP", externalName=None),
        _spec(_SERVICE, type="ExternalName", externalName=None),
        _end(_SERVICE),
    ],
    "change-service-headless": [
        _new(_SERVICE),
        _spec(_SERVICE, clusterIP="10.0.0.98"),
        _spec(_SERVICE, clusterIP="10.0.0.98", clusterIPs=["10.0.0.98"]),
        _spec(_SERVICE, type="NodePort"),
        _spec(_SERVICE, type="LoadBalancer"),
        _spec(_SERVICE, ipFamilies=["IPv6"]),
        _spec(_SERVICE, selector={"a": "b"}),
        _spec(_SERVICE, ports=None),
        _end(_SERVICE),
    ],
    "change-service-external": [
        _new(_SERVICE, True, type="ExternalName", externalName="example.com", clusterIP=None, ports=None),
        _spec(_SERVICE, externalName="b.example.com"),
        _spec(_SERVICE, externalName="b_example"),
        _spec(_SERVICE, clusterIP="10.0.0.97"),
        _spec(_SERVICE, clusterIP="None"),
        _spec(_SERVICE, ipFamilyPolicy="SingleStack"),
        _spec(_SERVICE, ipFamilies=["IPv4"]),
        _spec(_SERVICE, type="ClusterIP"),
        _spec(_SERVICE, type="ClusterIP", ports=_PORTS),
        _end(_SERVICE),
    ],
}

CASES: Cases = _JOBS | _SETS | _CLAIMS | _SERVICES
