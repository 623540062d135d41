"""Creation: what kube-apiserver sets in a new object beyond its defaults.

`prepare_new` is called by the strategy of a kind, after it has set `generation`, and removed the status of kinds that can't be
created with one. Set the defaults again afterwards, as upstream does when it reads the stored object: a new status has some, too.
What admission plugins add is in `plugins/additions.py`.

Pure. Source: PrepareForCreate in k8s.io/kubernetes pkg/registry/*/*/strategy.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from aggserver.kinds.resources import qos_class
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["CreateRequest", "keep_secret_names", "pair_data_sources", "prepare_new"]


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """The request that creates an object. uid: of the object. now: RFC 3339, in whole seconds. user: the client's UserInfo, as in
    a SelfSubjectReview: username, uid, groups, extra.
    """

    uid: str
    now: str
    user: JSONMapping


def prepare_new(obj: JSONObject, type_name: str, request: CreateRequest) -> None:
    """Change a new object, which has its defaults, in place. type_name: in the tables of `scheme/`."""
    prepare = _NEW.get(type_name)
    if prepare is not None:
        prepare(obj, request)


def _pod(pod: JSONObject, request: CreateRequest) -> None:
    spec = pod["spec"]
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": None,
            "lastTransitionTime": request.now,
        }
        pod["status"]["conditions"] = [condition]
    labels = pod["metadata"].get("labels", {})
    for term in _affinity_terms(spec.get("affinity") or {}):
        _select_own(term, labels, matchLabelKeys="In", mismatchLabelKeys="NotIn")
    for constraint in spec.get("topologySpreadConstraints", ()):
        _select_own(constraint, labels, matchLabelKeys="In")


def _affinity_terms(affinity: JSONMapping) -> Iterable[JSONObject]:
    for name in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(name) or {}
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
            yield weighted["podAffinityTerm"]
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution", ())


def _select_own(term: JSONObject, labels: Mapping[str, str], **operators: str) -> None:
    """Make the selector of a term select the pod's own values of some labels, or other values."""
    selector = term.get("labelSelector")
    if selector is None:
        return
    for member, operator in operators.items():
        for key in term.get(member, ()):
            if key in labels:
                added = {"key": key, "operator": operator, "values": [labels[key]]}
                selector["matchExpressions"] = [*selector.get("matchExpressions", ()), added]


def _namespace(namespace: JSONObject, request: CreateRequest) -> None:
    finalizers = namespace["spec"].get("finalizers", [])
    if "kubernetes" not in finalizers:
        namespace["spec"]["finalizers"] = [*finalizers, "kubernetes"]
    namespace["status"] = {"phase": "Active"}


def _job(job: JSONObject, request: CreateRequest) -> None:
    """Select the Pods of a Job by its uid, unless it has a manual selector."""
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    name, uid = job["metadata"].get("name", ""), request.uid
    generated = {"job-name": name, "batch.kubernetes.io/job-name": name}
    generated |= {"controller-uid": uid, "batch.kubernetes.io/controller-uid": uid}
    # In place: if the Job has its labels from the template, they get these, too.
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for name, value in generated.items():
        labels.setdefault(name, value)
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {"batch.kubernetes.io/controller-uid": uid, **selector.get("matchLabels", {})}


def _claim(claim: JSONObject, request: CreateRequest) -> None:
    pair_data_sources(claim, {"spec": {}})


def pair_data_sources(claim: JSONObject, old: JSONMapping) -> None:
    """Keep dataSource and dataSourceRef the same. dataSource can only be a claim or a snapshot, unless `old` has one of them."""
    spec = claim["spec"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    is_in_use = any(old["spec"].get(name) is not None for name in ("dataSource", "dataSourceRef"))
    if source is not None and reference is None:
        if is_in_use or (source.get("apiGroup") or "", source.get("kind")) in _SOURCES:
            spec["dataSourceRef"] = dict(source)
        else:
            del spec["dataSource"]
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {name: value for name, value in reference.items() if name != "namespace"}


_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _volume(volume: JSONObject, request: CreateRequest) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": request.now}


def _daemon_set(daemon_set: JSONObject, request: CreateRequest) -> None:
    metadata = daemon_set["metadata"]
    metadata["annotations"] = {TEMPLATE_GENERATION: "1", **metadata.get("annotations", {})}


TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _signing_request(signing: JSONObject, request: CreateRequest) -> None:
    """Set the user of the request, which the client can't choose."""
    spec = signing["spec"]
    for name in ("username", "uid", "groups", "extra"):
        spec.pop(name, None)
        if request.user.get(name):
            spec[name] = request.user[name]


def _resource_slice(devices: JSONObject, request: CreateRequest) -> None:
    for device in devices["spec"].get("devices") or ():
        for taint in device.get("taints", ()):
            taint.setdefault("timeAdded", request.now)


def _service_account(account: JSONObject, request: CreateRequest) -> None:
    keep_secret_names(account)


def keep_secret_names(account: JSONObject) -> None:
    """Keep only the names in a ServiceAccount's references to Secrets, in every write."""
    if account.get("secrets"):
        account["secrets"] = [{"name": each["name"]} if "name" in each else {} for each in account["secrets"]]


_NEW: Mapping[str, Callable[[JSONObject, CreateRequest], None]] = {
    "apps/v1.DaemonSet": _daemon_set,
    "batch/v1.Job": _job,
    "certificates/v1.CertificateSigningRequest": _signing_request,
    "core/v1.Namespace": _namespace,
    "core/v1.PersistentVolume": _volume,
    "core/v1.PersistentVolumeClaim": _claim,
    "core/v1.Pod": _pod,
    "core/v1.ServiceAccount": _service_account,
    "resource/v1.ResourceSlice": _resource_slice,
}
