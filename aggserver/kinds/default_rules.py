"""The defaults that depend on other members, by Go type: functions that change an object, which fits its type, in place.

They run before the defaults of `default_values.py` for the same object and its members, as upstream's do. This module also does
what upstream's conversion to its internal types and back changes: aliases, and `stringData` of a Secret.
Pure. Source: k8s.io/kubernetes pkg/apis/*/*/{defaults,conversion}.go, pkg/util/parsers, k8s.io/component-helpers
resource/helpers.go, v1.36.3.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aggserver.kinds.resources import is_huge_pages, pod_limits, pod_requests
from aggserver.meta.json_types import JSONObject, json_copy

__all__ = ["RULES"]

_AFFINITY_SECONDS = 10800
_MAX_INT32 = 2**31 - 1

_DOMAIN = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:(?:{_DOMAIN}|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?{_PART}(?:/{_PART})*(?P<tag>:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


def _pull_policy(image: str) -> str:
    """Always for the tag `latest`, or without tag and digest; otherwise IfNotPresent, even for an invalid name."""
    found = None if _IDENTIFIER.fullmatch(image) else _IMAGE.fullmatch(image)
    is_latest = found is not None and (found["tag"] == ":latest" or (found["tag"] is None and found["digest"] is None))
    return "Always" if is_latest else "IfNotPresent"


# --- core: pods ---


def _container(container: JSONObject) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))


def _volume(volume: JSONObject) -> None:
    if len(volume) <= 1 and volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = _pull_policy(image.get("reference", ""))


def _pod_spec(spec: JSONObject) -> None:
    # serviceAccount is the older name, and an alias: responses always have both.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _pod(pod: JSONObject) -> None:
    """The defaults of Pods that templates of Pods do not have."""
    spec = pod["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in containers:
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    if spec.get("resources"):
        _pod_resources(spec, spec["resources"])
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for container in containers:
            for port in container.get("ports", ()):
                port["hostPort"] = port.get("hostPort") or port.get("containerPort", 0)


def _pod_resources(spec: JSONObject, resources: JSONObject) -> None:
    """Limits and requests of the Pod as a whole, from those of its containers."""
    limits, requests = dict(resources.get("limits", {})), dict(resources.get("requests", {}))
    if not limits and not requests:
        return
    for name, amount in pod_limits(spec).items():
        if is_huge_pages(name) and name not in requests:
            limits.setdefault(name, amount)
    if limits:
        resources["limits"] = limits
        for name, amount in pod_requests(spec).items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            if name in ("cpu", "memory") or is_huge_pages(name):
                requests.setdefault(name, amount)
    if requests:
        resources["requests"] = requests


def _pod_status(status: JSONObject) -> None:
    _pair(status, "podIP", "podIPs", wrap=lambda address: {"ip": address}, unwrap=lambda entry: entry.get("ip", ""))


def _node_spec(spec: JSONObject) -> None:
    _pair(spec, "podCIDR", "podCIDRs", wrap=lambda text: text, unwrap=lambda text: text)


def _pair(obj: JSONObject, one: str, many: str, *, wrap: Callable[[Any], Any], unwrap: Callable[[Any], Any]) -> None:
    """Make a member and the first item of a list the same. If they differ, the member wins."""
    first, entries = obj.get(one), obj.get(many)
    if first and not (entries and unwrap(entries[0]) == first):
        obj[many] = [wrap(first)]
    elif entries and not first:
        obj[one] = unwrap(entries[0])


# --- core: others ---


def _namespace(namespace: JSONObject) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}


def _secret(secret: JSONObject) -> None:
    """Move stringData to data, encoded."""
    texts = secret.pop("stringData", None)
    if texts:
        encoded = {key: base64.b64encode(text.encode("utf-8", "surrogatepass")).decode() for key, text in texts.items()}
        secret["data"] = {**secret.get("data", {}), **encoded}


def _service(service: JSONObject) -> None:
    spec = service["spec"]
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        config = spec.get("sessionAffinityConfig") or {}
        if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in (service["status"].get("loadBalancer") or {}).get("ingress", ()):
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _node_status(status: JSONObject) -> None:
    if "allocatable" not in status and status.get("capacity"):
        status["allocatable"] = dict(status["capacity"])


def _persistent_volume(volume: JSONObject) -> None:
    # The same spec within a VolumeAttachment has no defaults.
    volume["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    volume["spec"].setdefault("volumeMode", "Filesystem")


def _limit_range_item(item: JSONObject) -> None:
    if item.get("type") != "Container":
        return
    defaults = {**item.get("max", {}), **item.get("default", {})}
    requests = {**item.get("min", {}), **defaults, **item.get("defaultRequest", {})}
    for name, amounts in (("default", defaults), ("defaultRequest", requests)):
        if amounts:
            item[name] = amounts


def _replication_controller(controller: JSONObject) -> None:
    labels = (controller["spec"].get("template") or {}).get("metadata", {}).get("labels")
    if labels:
        if not controller["spec"].get("selector"):
            controller["spec"]["selector"] = dict(labels)
        if not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(labels)


# --- apps, batch, autoscaling ---


def _deployment_strategy(strategy: JSONObject) -> None:
    _rolling(strategy, maxUnavailable="25%", maxSurge="25%")


def _daemon_set_strategy(strategy: JSONObject) -> None:
    _rolling(strategy, maxUnavailable=1, maxSurge=0)


def _rolling(strategy: JSONObject, **defaults: str | int) -> None:
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {**defaults, **strategy.get("rollingUpdate", {})}


def _stateful_set_strategy(strategy: JSONObject) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)


def _stateful_set_spec(spec: JSONObject) -> None:
    for claim in spec.get("volumeClaimTemplates", ()):
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")


def _job(job: JSONObject) -> None:
    """The defaults of a Job; the template in a CronJob does not have them."""
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if "backoffLimitPerIndex" not in spec else _MAX_INT32)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    labels = (spec.get("template") or {}).get("metadata", {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        # Not copied, as upstream: labels that are generated for the template become the Job's, too.
        job["metadata"]["labels"] = labels


_CPU_TARGET = 80
_QUICKLY: JSONObject = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_SLOWLY: JSONObject = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def _autoscaler_spec(spec: JSONObject) -> None:
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _CPU_TARGET}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        for name, defaults in (("scaleUp", _QUICKLY), ("scaleDown", _SLOWLY)):
            behavior[name] = {**json_copy(defaults), **behavior.get(name, {})}


def _autoscaler_v1(autoscaler: JSONObject) -> None:
    # In v2 this is the metric of `_autoscaler_spec`. With other metrics, which are in an annotation, there is no default.
    if "autoscaling.alpha.kubernetes.io/metrics" not in (autoscaler["metadata"].get("annotations") or {}):
        autoscaler["spec"].setdefault("targetCPUUtilizationPercentage", _CPU_TARGET)


# --- other groups ---


def _network_policy_spec(spec: JSONObject) -> None:
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _subject(subject: JSONObject) -> None:
    if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
        subject["apiGroup"] = "rbac.authorization.k8s.io"


def _device_request(request: JSONObject) -> None:
    if request.get("allocationMode", "ExactCount") == "ExactCount" and not request.get("count"):
        request["count"] = 1


def _device(device: JSONObject) -> None:
    for mapping in _values(device.get("nodeAllocatableResourceMappings")):
        mapping.setdefault("allocationMultiplier", "1")


def _values(members: Mapping[str, JSONObject] | None) -> Iterable[JSONObject]:
    return members.values() if members else ()


RULES: Mapping[str, Callable[[JSONObject], None]] = {
    "apps/v1.DaemonSetUpdateStrategy": _daemon_set_strategy,
    "apps/v1.DeploymentStrategy": _deployment_strategy,
    "apps/v1.StatefulSetSpec": _stateful_set_spec,
    "apps/v1.StatefulSetUpdateStrategy": _stateful_set_strategy,
    "autoscaling/v1.HorizontalPodAutoscaler": _autoscaler_v1,
    "autoscaling/v2.HorizontalPodAutoscalerSpec": _autoscaler_spec,
    "batch/v1.Job": _job,
    "core/v1.Container": _container,
    "core/v1.EphemeralContainer": _container,
    "core/v1.LimitRangeItem": _limit_range_item,
    "core/v1.Namespace": _namespace,
    "core/v1.NodeSpec": _node_spec,
    "core/v1.NodeStatus": _node_status,
    "core/v1.PersistentVolume": _persistent_volume,
    "core/v1.Pod": _pod,
    "core/v1.PodSpec": _pod_spec,
    "core/v1.PodStatus": _pod_status,
    "core/v1.ReplicationController": _replication_controller,
    "core/v1.Secret": _secret,
    "core/v1.Service": _service,
    "core/v1.Volume": _volume,
    "networking/v1.NetworkPolicySpec": _network_policy_spec,
    "rbac/v1.Subject": _subject,
    "resource/v1.Device": _device,
    "resource/v1.DeviceSubRequest": _device_request,
    "resource/v1.ExactDeviceRequest": _device_request,
}
