"""Cases for `test_same_kinds.py`: the rules of single kinds."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import JSON_PATCH, MERGE_PATCH, Ask, Cases, ask
from tests.integration.kinds import minimal, on, url

__all__ = ["CASES"]

_BACKGROUND = "propagationPolicy=Background"


def _made(which: str, metadata: Any = None, **members: Any) -> Ask:
    return on("POST", which, minimal(which, metadata, **members), compared=False)


def _merge(which: str, body: Any, **more: Any) -> Ask:
    return on("PATCH", which, body, kind=MERGE_PATCH, **more)


def _gone(which: str) -> Ask:
    return on("DELETE", which, query=_BACKGROUND, compared=False)


def _selected(which: str, selector: str) -> Ask:
    return on("GET", which, name="", query=f"labelSelector=case%3D$name&fieldSelector={selector}", pick=_names)


def _names(body: Any) -> Any:
    return [item["metadata"]["name"] for item in body["items"]] if "items" in body else body


def _without_addresses(body: Any) -> Any:
    """A Service without what is allotted by chance."""
    spec = body.get("spec")
    if spec is None:
        return body
    ports = [{**port, "nodePort": "<port>"} if "nodePort" in port else port for port in spec.get("ports") or ()]
    ips = {name: "<ip>" for name in ("clusterIP", "clusterIPs") if name in spec and spec[name] not in ("None", ["None"])}
    return {**body, "spec": {**spec, **ips, **({"ports": ports} if "ports" in spec else {})}}


def _binding(**more: Any) -> Any:
    target = more.pop("target", {"kind": "Node", "name": "n"})
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "$name"}, "target": target, **more}


def _eviction(name: str = "$name", **more: Any) -> Any:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}


_IN_CASE = {"labels": {"case": "$name"}}
_POD = "core/pods"
_RUNNING = {"status": {"phase": "Running", "podIP": "192.0.2.7"}}
_BUDGET = "policy/poddisruptionbudgets"
_KILL = '{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}'


def _bind(**more: Any) -> Ask:
    return on("POST", _POD, _binding(**more), below="binding")


def _evict(*arguments: Any, **more: Any) -> Ask:
    return on("POST", _POD, _eviction(*arguments, **more), below="eviction")


_PODS: Cases = {
    "pod-binding": [
        _made(_POD),
        _bind(metadata={"name": "other"}),
        _bind(target={"kind": "Pod", "name": "n"}),
        _bind(target={"kind": "Node"}),
        _bind(metadata={"name": "$name", "annotations": {"a": "b"}}),
        on("GET", _POD),
        _bind(),
        on("DELETE", _POD, _KILL, compared=False),
        _bind(),
    ],
    "pod-graceful-deletion": [
        _made(_POD),
        on("POST", _POD, _binding(), below="binding", compared=False),
        on("DELETE", _POD),
        on("GET", _POD),
        on("DELETE", _POD),
        on("DELETE", _POD, '{"gracePeriodSeconds":10}'),
        on("DELETE", _POD, '{"gracePeriodSeconds":20}'),
        on("DELETE", _POD, _KILL),
        on("GET", _POD),
    ],
    "pod-deletion-unbound": [_made(_POD), on("DELETE", _POD), on("GET", _POD)],
    "pod-deletion-with-finalizer": [
        _made(_POD, {"finalizers": ["example.com/f"]}),
        on("DELETE", _POD),
        _merge(_POD, {"metadata": {"finalizers": None}}),
        on("GET", _POD),
    ],
    "pod-eviction": [
        _made(_POD),
        _evict("other"),
        _evict(deleteOptions={"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        _evict(deleteOptions={"dryRun": ["All"]}),
        on("GET", _POD),
        _evict(),
        on("GET", _POD),
        _evict(),
    ],
    "pod-eviction-refused": [
        _made(_POD, _IN_CASE),
        _merge(_POD, _RUNNING, below="status", compared=False),
        _made(_BUDGET, spec={"minAvailable": 1, "selector": {"matchLabels": {"case": "$name"}}}),
        _evict(),
        _merge(_BUDGET, {"status": {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 0}}, below="status"),
        _evict(),
        _merge(_BUDGET, {"status": {"disruptionsAllowed": 1}}, below="status"),
        _evict(),
        on("GET", _BUDGET, pick=lambda body: {**body["status"], "disruptedPods": [*body["status"].get("disruptedPods", ())]}),
        on("DELETE", _BUDGET, compared=False),
    ],
    "pod-fields": [
        _made(_POD, _IN_CASE),
        _merge(_POD, _RUNNING, below="status", compared=False),
        _selected(_POD, "status.phase%3DRunning"),
        _selected(_POD, "status.phase!%3DRunning"),
        _selected(_POD, "spec.nodeName%3D"),
        _selected(_POD, "spec.host%3Dn"),
        _selected(_POD, "status.podIP%3D192.0.2.7"),
        _selected(_POD, "spec.hostNetwork%3Dfalse"),
        _selected(_POD, "spec.restartPolicy%3DAlways,spec.schedulerName%3Ddefault-scheduler"),
        _selected(_POD, "spec.serviceAccountName%3Ddefault"),
        _selected(_POD, "spec.containers%3Dx"),
        on("DELETE", _POD, compared=False),
    ],
    "pod-watch": [
        _made(_POD, _IN_CASE),
        on("GET", _POD, name="", query="labelSelector=case%3D$name&watch=true&resourceVersion=0&timeoutSeconds=1"),
        on("GET", _POD, name="", query="fieldSelector=metadata.name%3D$name,spec.nodeName%3D&watch=true&timeoutSeconds=1"),
        on("DELETE", _POD, compared=False),
    ],
    "pod-ephemeral-containers": [
        _made(_POD),
        _merge(_POD, {"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}, below="ephemeralcontainers"),
        _merge(_POD, {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n"}}, below="ephemeralcontainers"),
        on("GET", _POD, below="ephemeralcontainers"),
        on("DELETE", _POD, compared=False),
    ],
    "pod-image": [
        _made(_POD),
        on("PATCH", _POD, [{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}], kind=JSON_PATCH),
        on("DELETE", _POD, compared=False),
    ],
}


def _service(**spec: Any) -> Any:
    return minimal("core/services", spec={"ports": [{"port": 80}], **spec})


_SVC = "core/services"


def _svc(method: str, body: Any = None, **more: Any) -> Ask:
    return on(method, _SVC, body, pick=_without_addresses, **more)


_SERVICES: Cases = {
    "service-cluster-ip": [
        _svc("POST", _service(selector={"a": "b"})),
        _svc("PATCH", {"spec": {"ports": [{"port": 81}]}}, kind=MERGE_PATCH),
        _svc("PUT", _service(selector={"a": "c"})),
        _svc("PATCH", {"spec": {"clusterIP": "10.0.0.250", "clusterIPs": ["10.0.0.250"]}}, kind=MERGE_PATCH),
        on("DELETE", _SVC, compared=False),
    ],
    "service-given-ip": [_svc("POST", _service(clusterIP="10.0.0.1"))],
    "service-headless": [
        _svc("POST", _service(clusterIP="None", selector={"a": "b"})),
        on("DELETE", _SVC, compared=False),
    ],
    "service-external-name": [
        _svc("POST", _service(type="ExternalName", externalName="example.com")),
        _svc("PATCH", {"spec": {"type": "ClusterIP", "externalName": None}}, kind=MERGE_PATCH),
        on("DELETE", _SVC, compared=False),
    ],
    "service-node-port": [
        _svc("POST", _service(type="NodePort", selector={"a": "b"})),
        _svc("PATCH", {"spec": {"ports": [{"port": 80, "name": "x"}]}}, kind=MERGE_PATCH),
        _svc("PATCH", {"spec": {"type": "ClusterIP"}}, kind=MERGE_PATCH),
        on("DELETE", _SVC, compared=False),
    ],
    "service-load-balancer": [
        _svc("POST", _service(type="LoadBalancer", selector={"a": "b"})),
        _svc("PATCH", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}, kind=MERGE_PATCH, below="status"),
        on("DELETE", _SVC, compared=False),
    ],
    "service-dual-stack": [_svc("POST", _service(ipFamilyPolicy="RequireDualStack", selector={"a": "b"}))],
    "service-ipv6": [_svc("POST", _service(ipFamilies=["IPv6"], selector={"a": "b"}))],
    "service-fields": [
        on("POST", _SVC, minimal(_SVC, _IN_CASE), compared=False),
        _selected(_SVC, "spec.clusterIP%3DNone"),
        _selected(_SVC, "spec.type%3DClusterIP"),
        _selected(_SVC, "spec.ports%3Dx"),
        on("DELETE", _SVC, compared=False),
    ],
}

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectAccessReview",
    "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}},
}
_TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}}


def _without_body(body: Any) -> Any:
    return None


_ACCEPTED: Cases = {
    "review-as-table": [ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", _REVIEW, accept=_TABLE)],
    "token-as-table": [
        on("POST", "core/serviceaccounts", minimal("core/serviceaccounts"), compared=False),
        on("POST", "core/serviceaccounts", _TOKEN, below="token", accept=_TABLE),
        on("DELETE", "core/serviceaccounts", compared=False),
    ],
    "binding-as-table": [
        _made(_POD),
        on("POST", _POD, _binding(), below="binding", accept=_TABLE),
        on("DELETE", _POD, _KILL, compared=False),
    ],
    "eviction-as-table": [
        _made(_POD),
        on("POST", _POD, _eviction(), below="eviction", accept=_TABLE),
        on("DELETE", _POD, _KILL, compared=False),
    ],
    "core-versions-protobuf": [ask("GET", "/api", accept=_PROTOBUF, pick=_without_body)],
    "core-resources-protobuf": [ask("GET", "/api/v1", accept=_PROTOBUF, pick=_without_body)],
    "version-protobuf": [ask("GET", "/version", accept=_PROTOBUF)],
    "version-any-application": [ask("GET", "/version", accept="application/*")],
}

_SECRET = "core/secrets"
_CONFIG = "core/configmaps"
_FROZEN: Cases = {
    "secret-string-data": [
        on("POST", _SECRET, minimal(_SECRET, stringData={"b": "c", "a": "over"})),
        _merge(_SECRET, {"stringData": {"d": "e"}}),
        _merge(_SECRET, {"data": {"a": None}}),
        _gone(_SECRET),
    ],
    **{
        f"secret-of-type-{kind}": [on("POST", _SECRET, minimal(_SECRET, {"annotations": given}, type=f"kubernetes.io/{kind}"))]
        for kind, given in {
            "service-account-token": {"kubernetes.io/service-account.name": ""},
            "tls": {},
            "basic-auth": {},
            "ssh-auth": {},
            "dockercfg": {},
            "dockerconfigjson": {},
        }.items()
    },
    "secret-bad-base64": [on("POST", _SECRET, minimal(_SECRET, data={"a": "%"}))],
    "secret-type": [_made(_SECRET), _merge(_SECRET, {"type": "other"}), _gone(_SECRET)],
    "secret-fields": [
        _made(_SECRET, _IN_CASE, type="example.com/t"),
        _selected(_SECRET, "type%3Dexample.com/t"),
        _selected(_SECRET, "type%3DOpaque"),
        _gone(_SECRET),
    ],
    "secret-immutable": [
        _made(_SECRET, immutable=True),
        _merge(_SECRET, {"data": {"x": "eA=="}}),
        _merge(_SECRET, {"immutable": None}),
        _merge(_SECRET, {"metadata": {"labels": {"a": "b"}}}),
        _gone(_SECRET),
    ],
    "configmap-immutable": [
        _made(_CONFIG),
        _merge(_CONFIG, {"immutable": True}),
        _merge(_CONFIG, {"data": {"x": "y"}, "binaryData": {"z": "eA=="}}),
        _merge(_CONFIG, {"immutable": False}),
        _gone(_CONFIG),
    ],
}

_OTHER: Cases = {
    "deployment-generation": [
        _made("apps/deployments"),
        _merge("apps/deployments", {"metadata": {"annotations": {"a": "b"}}}),
        _merge("apps/deployments", {"metadata": {"labels": {"a": "b"}}}),
        _merge("apps/deployments", {"spec": {"paused": True}}),
        _merge("apps/deployments", {"status": {"replicas": 1, "observedGeneration": 2}}, below="status"),
        _gone("apps/deployments"),
    ],
    "deployment-selector": [
        _made("apps/deployments"),
        _merge("apps/deployments", {"spec": {"selector": {"matchLabels": {"b": "c"}}}}, pick=lambda body: body["reason"]),
        _gone("apps/deployments"),
    ],
    "statefulset-service-name": [
        _made("apps/statefulsets"),
        _merge("apps/statefulsets", {"spec": {"serviceName": "other"}}),
        _merge("apps/statefulsets", {"spec": {"replicas": 2}}),
        _gone("apps/statefulsets"),
    ],
    "daemonset-template": [
        _made("apps/daemonsets"),
        _merge("apps/daemonsets", {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}),
        _merge("apps/daemonsets", {"spec": {"minReadySeconds": 3}}),
        _gone("apps/daemonsets"),
    ],
    "role-binding-role": [
        _made("rbac.authorization.k8s.io/rolebindings"),
        _merge("rbac.authorization.k8s.io/rolebindings", {"roleRef": {"name": "edit"}}),
        _gone("rbac.authorization.k8s.io/rolebindings"),
    ],
    "storage-class-immutable": [
        _made("storage.k8s.io/storageclasses"),
        _merge("storage.k8s.io/storageclasses", {"provisioner": "other", "parameters": {"a": "b"}}),
        _gone("storage.k8s.io/storageclasses"),
    ],
    "priority-class-value": [
        _made("scheduling.k8s.io/priorityclasses"),
        _merge("scheduling.k8s.io/priorityclasses", {"value": 11}),
        _gone("scheduling.k8s.io/priorityclasses"),
    ],
    "lease-needs-version": [
        _made("coordination.k8s.io/leases"),
        on("PUT", "coordination.k8s.io/leases", minimal("coordination.k8s.io/leases")),
        on("PUT", "coordination.k8s.io/leases", minimal("coordination.k8s.io/leases", {"resourceVersion": "$rv1"})),
        _gone("coordination.k8s.io/leases"),
    ],
    "lease-created-by-put": [
        on("PUT", "coordination.k8s.io/leases", minimal("coordination.k8s.io/leases")),
        _gone("coordination.k8s.io/leases"),
    ],
    "node-status-on-create": [
        on("POST", "core/nodes", minimal("core/nodes", status={"capacity": {"cpu": "4"}})),
        _merge("core/nodes", {"spec": {"unschedulable": True}}),
        on("GET", "core/nodes", name="", query="fieldSelector=spec.unschedulable%3Dtrue,metadata.name%3D$name", pick=_names),
        _gone("core/nodes"),
    ],
    "volume-phase": [
        _made("core/persistentvolumes"),
        _merge("core/persistentvolumes", {"status": {"phase": "Available"}}, below="status"),
        _merge("core/persistentvolumes", {"metadata": {"finalizers": None}}),
    ],
    "event-in-both-groups": [
        on("POST", "core/events", minimal("core/events", _IN_CASE, message="m", source={"component": "c"}, count=3)),
        on("GET", "events.k8s.io/events"),
        _merge("events.k8s.io/events", {"note": "n"}),
        on("GET", "core/events"),
        _selected("core/events", "involvedObject.name%3Dp,reason%3DR,type%3DNormal"),
        _selected("core/events", "source%3Dc"),
        _selected("core/events", "involvedObject.kind%3DNode"),
        _selected("events.k8s.io/events", "regarding.name%3Dp"),
        _selected("events.k8s.io/events", "involvedObject.name%3Dp"),
        _gone("core/events"),
    ],
    "generated-name": [
        ask(
            "POST",
            url("core/configmaps"),
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "generated-"}},
            pick=lambda body: {**body["metadata"], "name": body["metadata"]["name"][:10]},
        ),
    ],
}

_OLD, _NEW = "autoscaling/horizontalpodautoscalers", "autoscaling/horizontalpodautoscalers-v2"
_TARGET = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3}
_ALPHA = "autoscaling.alpha.kubernetes.io/"
_METRIC = {"name": "m", "selector": {"matchLabels": {"b": "<1>", "a": "2"}}}
_OBJECT = {"apiVersion": "v1", "kind": "Service", "name": "s"}
# In v2, a metric of CPU that was written in v1 is the last.
_METRICS: list[dict[str, Any]] = [
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1024Mi"}}},
    {
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 50}},
    },
    {"type": "Pods", "pods": {"metric": _METRIC, "target": {"type": "AverageValue", "averageValue": "1500m"}}},
    {"type": "Object", "object": {"describedObject": _OBJECT, "metric": _METRIC, "target": {"type": "Value", "value": "1"}}},
    {
        "type": "Object",
        "object": {"describedObject": _OBJECT, "metric": {"name": "n"}, "target": {"type": "AverageValue", "averageValue": 2}},
    },
    {"type": "External", "external": {"metric": _METRIC, "target": {"type": "Value", "value": "1k"}}},
    {"type": "External", "external": {"metric": {"name": "n"}, "target": {"type": "AverageValue", "averageValue": "3"}}},
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}},
]
_BEHAVIOR = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}], "tolerance": "0.1"}}
_DOWN = '{"stabilizationWindowSeconds":5,"SelectPolicy":"Min","policies":[{"Type":"Pods","VALUE":1,"periodSeconds":15}]}'
_SCALED = {
    "status": {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "lastScaleTime": "2026-01-02T03:04:05Z",
        "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 60, "averageValue": "5m"}}},
            {"type": "Pods", "pods": {"metric": _METRIC, "current": {"averageValue": "4"}}},
            {"type": "External", "external": {"metric": _METRIC, "current": {"value": "5", "averageValue": "6"}}},
        ],
        "conditions": [
            {
                "type": "AbleToScale",
                "status": "True",
                "reason": "R",
                "message": "m",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            },
            {"type": "ScalingActive", "status": "False"},
        ],
    }
}


def _annotated(**annotations: str) -> dict[str, Any]:
    return {"annotations": {_ALPHA + name.replace("_", "-"): text for name, text in annotations.items()}}


_AUTOSCALERS: Cases = {
    "autoscaler-of-v2-in-v1": [
        on(
            "POST", _NEW, minimal(_NEW, {"annotations": {"a": "b"}}, spec={**_TARGET, "metrics": _METRICS, "behavior": _BEHAVIOR})
        ),
        on("GET", _OLD),
        on("PATCH", _NEW, _SCALED, kind=MERGE_PATCH, below="status"),
        on("GET", _OLD),
        on("GET", _OLD, accept="application/json;as=Table;g=meta.k8s.io;v=v1", pick=lambda body: body["rows"][0]["cells"][:6]),
        on("GET", _OLD, accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
        _merge(_OLD, {"spec": {"maxReplicas": 4, "targetCPUUtilizationPercentage": None}}),
        on("GET", _NEW),
        _merge(_OLD, {"metadata": {"annotations": {_ALPHA + "metrics": None, _ALPHA + "behavior": None}}}),
        on("GET", _NEW),
        _gone(_OLD),
    ],
    "autoscaler-of-v1-in-v2": [
        on("POST", _OLD, minimal(_OLD, spec={**_TARGET, "targetCPUUtilizationPercentage": 55})),
        on("GET", _NEW),
        _merge(_NEW, {"spec": {"metrics": _METRICS[:2]}}),
        on("GET", _OLD),
        _merge(_OLD, {"spec": {"targetCPUUtilizationPercentage": 45}}),
        on("GET", _NEW),
        _gone(_NEW),
    ],
    "autoscaler-annotations": [
        on(
            "POST",
            _OLD,
            minimal(
                _OLD,
                _annotated(
                    metrics='[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"2000m"}}]',
                    behavior='{"scaleUp":null,"ScaleDown":' + _DOWN + "}",
                    conditions='[{"type":"AbleToScale","status":"True"}]',
                    scale_up_tolerance="x",
                ),
            ),
        ),
        on("GET", _NEW),
        on("PUT", _OLD, minimal(_OLD, _annotated(metrics="[1]", behavior="[]", current_metrics="x", conditions="{}"))),
        on("GET", _NEW),
        on("PUT", _NEW, minimal(_NEW, _annotated(metrics="[]", behavior="{}"))),
        _gone(_NEW),
    ],
}
CASES: Cases = _ACCEPTED | _AUTOSCALERS | _PODS | _SERVICES | _FROZEN | _OTHER
