"""Warnings: the texts that kube-apiserver sends in Warning headers about objects that it accepts.

Not implemented: warnings about unusual forms of addresses, overlapping paths of a volume's files, and a Secret's certificate that
does not fit its key.
Pure. Source: WarningsOnCreate and WarningsOnUpdate in k8s.io/kubernetes pkg/registry/*/*/strategy.go; pkg/api/{pod,node,service,
persistentvolume,persistentvolumeclaim,storage}, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from aggserver.kinds.quota_rules import quota_warnings
from aggserver.meta import quantity
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1123_label

__all__ = ["warnings"]

# (object, old object or None) -> texts.
_Warnings = Callable[[JSONMapping, JSONMapping | None], Iterable[str]]

_LABELS: Mapping[str, str] = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_ANNOTATIONS: Mapping[str, str] = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_VOLUME_ANNOTATIONS: Mapping[str, str] = {
    "volume.beta.kubernetes.io/storage-class": 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_VOLUMES: Mapping[str, str] = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
# Members whose name in the texts is not that in JSON.
_SPELLED = {"storageos": "storageOS"}
_SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_POD_NAME = "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
_HOSTNAME = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
_TOKENS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of "
    "tokens in volume attributes"
)
_RECYCLE = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
_HISTORY = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"


def warnings(obj: JSONMapping, old: JSONMapping | None, type_name: str) -> Sequence[str]:
    """The texts for a write of the object itself, in upstream's order. old: None for a create. type_name: in the tables of
    `scheme/`.
    """
    warn = _WARNINGS.get(type_name)
    return () if warn is None else list(warn(obj, old))


# --- pods and their templates ---


def _of_pod(pod: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
    if old is None:
        if problems := dns1123_label(pod["metadata"].get("name", "")):
            yield f"metadata.name: {_HOSTNAME}: [{' '.join(problems)}]"
        yield from _of_pod_spec(pod, "")


def _of_template(path: str, *, is_name_of_pods: bool = False) -> _Warnings:
    """The warnings for a kind. path: of its template. is_name_of_pods: whether names of Pods begin with the object's name."""
    names = path.split(".")

    def warn(obj: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
        if old is None and is_name_of_pods and (problems := dns1123_label(obj["metadata"].get("name", ""))):
            yield f"metadata.name: {_POD_NAME}: [{' '.join(problems)}]"
        if old is not None and old["metadata"].get("generation") == obj["metadata"].get("generation"):
            return
        template: Any = obj
        for name in names:
            template = template.get(name) or {}
        yield from _of_pod_spec(template, f"{path}.")

    return warn


def _of_pod_spec(pod: JSONMapping, path: str) -> Iterator[str]:
    """The warnings for a Pod or template. path: of it, with a dot at the end; '' for a Pod."""
    spec, annotations = pod.get("spec") or {}, (pod.get("metadata") or {}).get("annotations") or {}
    yield from _of_scheduling(spec, f"{path}spec")
    for key, text in _ANNOTATIONS.items():
        if key in annotations:
            yield f"{path}metadata.annotations[{key}]: {text}"
    for index, volume in enumerate(spec.get("volumes") or ()):
        at = f"{path}spec.volumes[{index}]"
        yield from _of_source(volume, at, _VOLUMES)
        claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if claim is not None:
            yield from _of_claim_spec(claim.get("spec") or {}, f"{at}.ephemeral.volumeClaimTemplate.spec")
    yield from _twice(spec.get("hostAliases") or (), "ip", f"{path}spec.hostAliases")
    yield from _twice(spec.get("imagePullSecrets") or (), "name", f"{path}spec.imagePullSecrets")
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path}spec.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from _of_fractions(spec.get("overhead"), f"{path}spec.overhead")
    if _SECCOMP in annotations and not (spec.get("securityContext") or {}).get("seccompProfile"):
        yield f'{path}metadata.annotations[{_SECCOMP}]: non-functional in v1.27+; use the "seccompProfile" field instead'
    containers = list(_containers(spec, f"{path}spec"))
    for container, at in containers:
        for which in ("limits", "requests"):
            yield from _of_fractions((container.get("resources") or {}).get(which), f"{at}.resources.{which}")
        yield from _of_environment(container.get("env") or (), at)
    ports = [(port, f"{at}.ports[{index}]") for each, at in containers for index, port in enumerate(each.get("ports") or ())]
    yield from _of_ports(ports)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield f"{path}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
    for rules in ("podAffinity", "podAntiAffinity"):
        yield from _of_affinity((spec.get("affinity") or {}).get(rules) or {}, f"{path}spec.affinity.{rules}")


def _of_source(volume: JSONMapping, path: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name in volume:
            yield f"{path}.{_SPELLED.get(name, name)}: {_VOLUMES[name]}"


def _of_scheduling(spec: JSONMapping, path: str) -> Iterator[str]:
    for key in sorted(spec.get("nodeSelector") or ()):
        if key in _LABELS:
            yield f"{path}.nodeSelector[{key}]: {_LABELS[key]}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate((affinity.get(required) or {}).get("nodeSelectorTerms") or ()):
        yield from _of_term(term, f"{path}.affinity.nodeAffinity.{required}.nodeSelectorTerms[{index}]")
    for index, weighted in enumerate(affinity.get(preferred) or ()):
        yield from _of_term(weighted.get("preference") or {}, f"{path}.affinity.nodeAffinity.{preferred}[{index}].preference")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        key, at = constraint.get("topologyKey", ""), f"{path}.topologySpreadConstraints[{index}]"
        if key in _LABELS:
            yield f"{at}.topologyKey: {key} is {_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{at}.labelSelector: {_NO_SELECTOR}"


def _of_term(term: JSONMapping, path: str) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key", "")
        if key in _LABELS:
            yield f"{path}.matchExpressions[{index}].key: {key} is {_LABELS[key]}"


def _of_affinity(rules: JSONMapping, path: str) -> Iterator[str]:
    required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(rules.get(required) or ()):
        if term.get("labelSelector") is None:
            yield f"{path}.{required}[{index}].labelSelector: {_NO_SELECTOR}"
    for index, weighted in enumerate(rules.get(preferred) or ()):
        if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
            yield f"{path}.{preferred}[{index}].podAffinityTerm.labelSelector: {_NO_SELECTOR}"


def _twice(items: Iterable[JSONMapping], member: str, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(member, "")
        if value in seen:
            yield f"{path}[{index}].{member}: duplicate {member} {quote(value)}"
        seen.add(value)


def _containers(spec: JSONMapping, path: str) -> Iterator[tuple[JSONMapping, str]]:
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(member) or ()):
            yield container, f"{path}.{member}[{index}]"


def _of_fractions(amounts: Mapping[str, str] | None, path: str) -> Iterator[str]:
    for name in ("memory", "ephemeral-storage"):
        if amounts and name in amounts and _is_fractional(amounts[name]):
            yield f"{path}[{name}]: fractional byte value {quote(amounts[name])} is invalid, must be an integer"


def _is_fractional(amount: str) -> bool:
    number = quantity.parse(amount)
    return number.scale < 0 and number.value % 10**-number.scale != 0


def _of_environment(variables: Iterable[JSONMapping], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        if name in seen and ("valueFrom" in variable or value == reference or reference not in value):
            yield f"{path}.env[{index}]: hides previous definition of {quote(name)}, which may be dropped when using apply"
        seen.add(name)


def _of_ports(ports: Sequence[tuple[JSONMapping, str]]) -> Iterator[str]:
    """The warnings about ports of all containers that are the same, or have the same name."""
    same: dict[tuple[int, str], list[tuple[JSONMapping, str]]] = {}
    for port, at in ports:
        others = same.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
        for other, elsewhere in others:
            problem = _conflict(port, other)
            if problem:
                yield f"{at}: {problem} with {elsewhere}"
        others.append((port, at))
    named: dict[str, str] = {}
    for port, at in ports:
        name = port.get("name", "")
        if name in named:
            use = f"services and probes that select ports by name will use {named[name]}"
            yield f"{at}: duplicate port name {quote(name)} with {named[name]}, {use}"
        elif name:
            named[name] = at


def _conflict(port: JSONMapping, other: JSONMapping) -> str:
    mine, theirs = ((each.get("hostIP", ""), each.get("hostPort", 0)) for each in (port, other))
    if mine == theirs:
        return "duplicate port definition"
    if not mine[1] or not theirs[1]:
        return "overlapping port definition"
    return "dangerously ambiguous port definition" if mine[1] == theirs[1] and (not mine[0] or not theirs[0]) else ""


# --- other kinds ---


def _of_stateful_set(stateful_set: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
    yield from _of_template("spec.template")(stateful_set, old)
    spec, member = stateful_set["spec"], "" if old is None else ".Spec"
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        yield from _of_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}]{member}")
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        yield _HISTORY


def _of_claim_spec(spec: JSONMapping, path: str) -> Iterator[str]:
    for which in ("requests", "limits"):
        amount = ((spec.get("resources") or {}).get(which) or {}).get("storage")
        if amount is not None and _is_fractional(amount):
            at = f"{path}.resources.{which}[storage]"
            yield f"{at}: fractional byte value {quote(amount)} is invalid, must be an integer"


def _of_claim(claim: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
    key = "volume.beta.kubernetes.io/storage-class"
    if key in (claim["metadata"].get("annotations") or {}):
        yield f"metadata.annotations[{key}]: {_VOLUME_ANNOTATIONS[key]}"
    yield from _of_claim_spec(claim["spec"], "spec")


def _of_volume(volume: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
    spec, annotations = volume["spec"], volume["metadata"].get("annotations") or {}
    yield from (f"metadata.annotations[{key}]: {text}" for key, text in _VOLUME_ANNOTATIONS.items() if key in annotations)
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}"
    required = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for index, term in enumerate(required):
        yield from _of_term(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]")
    yield from _of_source(spec, "spec", ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"))


def _of_service(service: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
    spec, kind = service["spec"], service["spec"].get("type")
    if _HINTS in (service["metadata"].get("annotations") or {}):
        yield f"annotation {_HINTS} is deprecated, please use {_MODE} instead"
    is_headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if is_headless:
        ignored = {
            "loadBalancerIP": bool(spec.get("loadBalancerIP")),
            "externalIPs": bool(spec.get("externalIPs")),
            "SessionAffinity": spec.get("sessionAffinity") != "None",
        }
        yield from (f"spec.{name} is ignored for headless services" for name, given in ignored.items() if given)
    elif spec.get("externalIPs") and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.get("externalIPs") and kind == "ExternalName":
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if spec.get("externalName") and kind != "ExternalName":
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _of_driver(driver: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
    spec = driver["spec"]
    requests = spec.get("tokenRequests")
    if requests and "serviceAccountTokenInSecrets" not in spec and (old is None or old["spec"].get("tokenRequests") != requests):
        yield _TOKENS


def _of_ingress(ingress: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
    is_annotated = "kubernetes.io/ingress.class" in (ingress["metadata"].get("annotations") or {})
    if old is None and is_annotated and "ingressClassName" not in ingress["spec"]:
        yield "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"


def _of_storage_class(storage_class: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
    for index, topology in enumerate(storage_class.get("allowedTopologies") or ()):
        for number, expression in enumerate(topology.get("matchLabelExpressions") or ()):
            if expression.get("key") in _LABELS:
                at = f"allowedTopologies[{index}].matchLabelExpressions[{number}].key"
                yield f"{at}: {_LABELS[expression['key']]}"


def _of_runtime_class(runtime_class: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
    for key in sorted((runtime_class.get("scheduling") or {}).get("nodeSelector") or ()):
        if key in _LABELS:
            yield f"scheduling.nodeSelector: {_LABELS[key]}"


def _of_cron_job(job: JSONMapping, old: JSONMapping | None) -> Iterator[str]:
    yield from _of_template("spec.jobTemplate.spec.template", is_name_of_pods=True)(job, old)
    if old is not None and "TZ" in job["spec"].get("schedule", ""):
        page = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"
        yield f"cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see {page} for more details"


_WARNINGS: Mapping[str, _Warnings] = {
    "apps/v1.DaemonSet": _of_template("spec.template"),
    "apps/v1.Deployment": _of_template("spec.template", is_name_of_pods=True),
    "apps/v1.ReplicaSet": _of_template("spec.template", is_name_of_pods=True),
    "apps/v1.StatefulSet": _of_stateful_set,
    "batch/v1.CronJob": _of_cron_job,
    "batch/v1.Job": _of_template("spec.template", is_name_of_pods=True),
    "core/v1.PersistentVolume": _of_volume,
    "core/v1.PersistentVolumeClaim": _of_claim,
    "core/v1.Pod": _of_pod,
    "core/v1.PodTemplate": _of_template("template"),
    "core/v1.ReplicationController": _of_template("spec.template", is_name_of_pods=True),
    "core/v1.ResourceQuota": quota_warnings,
    "core/v1.Service": _of_service,
    "networking/v1.Ingress": _of_ingress,
    "node/v1.RuntimeClass": _of_runtime_class,
    "storage/v1.CSIDriver": _of_driver,
    "storage/v1.StorageClass": _of_storage_class,
}
