"""Workloads: their selectors must match the labels of their templates, and their Pods must restart.

`rules_of` returns the rules of the Pods in an object, for `scheme.validation.validate`, which calls them in place of the table of
checks. What an object had before an update is not refused, since it may have been accepted before these rules existed.
Pure. Source: k8s.io/kubernetes pkg/apis/apps/validation/validation.go, pkg/apis/core/validation/validation.go
(ValidateReplicationControllerSpec), v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from aggserver.kinds.pod_rules.claims import claim_spec_problems
from aggserver.kinds.pod_rules.ratchet import not_known
from aggserver.kinds.pod_rules.spec import annotation_problems, pod_problems, template_problems
from aggserver.meta.field import FieldError, Path, RawJSON, forbidden, invalid, not_supported, required
from aggserver.meta.golang import to_json
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.selectors import LabelSelector, SelectorError
from aggserver.scheme.object_meta import validate_annotations, validate_labels
from aggserver.scheme.selectors import label_selector
from aggserver.scheme.validation import Rule

__all__ = ["rules_of"]

_TEMPLATE, _SPEC = ("spec", "template"), Path("spec")
# Kind -> where its template is.
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "apps/v1.DaemonSet": _TEMPLATE,
    "apps/v1.Deployment": _TEMPLATE,
    "apps/v1.ReplicaSet": _TEMPLATE,
    "apps/v1.StatefulSet": _TEMPLATE,
    "batch/v1.CronJob": ("spec", "jobTemplate", *_TEMPLATE),
    "batch/v1.Job": _TEMPLATE,
    "core/v1.PodTemplate": ("template",),
    "core/v1.ReplicationController": _TEMPLATE,
}
# Kinds whose Pods always restart -> their name in the error of a deadline, and in that of an empty selector.
_LASTING = {
    "apps/v1.DaemonSet": ("DaemonSet", "daemonset"),
    "apps/v1.Deployment": ("ReplicaSet", "deployment"),
    "apps/v1.ReplicaSet": ("ReplicaSet", "deployment"),
    "apps/v1.StatefulSet": ("StatefulSet", "statefulset"),
    "core/v1.ReplicationController": ("ReplicationController", ""),
}
_CLAIM = "core/v1.PersistentVolumeClaimSpec"
_CONTROLLER = "core/v1.ReplicationController"
_DIFFERENT = "`selector` does not match template `labels`"


def rules_of(kind: str, obj: JSONMapping, old: JSONMapping | None) -> Mapping[str, Rule]:
    """kind: a type in the tables of `scheme/` with Pods in it. old: the object before an update."""
    if kind == "core/v1.Pod":
        return {"core/v1.PodSpec": lambda spec, path: not_known(lambda pod: pod_problems(pod, is_new=old is None), obj, old)}
    if kind == "core/v1.PersistentVolumeClaim":
        return {_CLAIM: lambda spec, path: not_known(lambda claim: claim_spec_problems(claim["spec"], path), obj, old)}
    # The claims of a StatefulSet can't change.
    rules: dict[str, Rule] = {} if old is not None else {_CLAIM: claim_spec_problems}
    rules["core/v1.PodTemplateSpec"] = lambda template, path: not_known(partial(_of_template, kind, path), obj, old)
    return rules


def _of_template(kind: str, path: Path, obj: JSONMapping) -> Iterator[FieldError]:
    template: JSONMapping = obj
    for name in _TEMPLATES[kind]:
        template = template.get(name) or {}
    spec = template.get("spec") or {}
    if kind not in _LASTING:
        yield from template_problems(template, path)
        return
    is_readable = True
    for problem in _selector(kind, obj, template, path):
        if problem is None:
            is_readable = False
        else:
            yield problem
    if not is_readable and kind != "apps/v1.DaemonSet":
        return
    checked = _of_stateful_set(obj, template) if kind == "apps/v1.StatefulSet" else template
    yield from template_problems(checked, path)
    if kind == "apps/v1.StatefulSet":
        annotations = (template.get("metadata") or {}).get("annotations") or {}
        yield from validate_labels((template.get("metadata") or {}).get("labels") or {}, path.child("labels"))
        yield from validate_annotations(annotations, path.child("annotations"))
        yield from annotation_problems(annotations, spec, path.child("annotations"))
    if (policy := spec.get("restartPolicy") or "") != "Always":
        yield not_supported(path.child("spec", "restartPolicy"), policy, ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {_LASTING[kind][0]} is not Supported"
        yield forbidden(path.child("spec", "activeDeadlineSeconds"), text)


def _selector(kind: str, obj: JSONMapping, template: JSONMapping, path: Path) -> Iterator[FieldError | None]:
    """The errors of a selector and of the labels that it does not match. Yields None if it can't be read."""
    given, labels = obj["spec"].get("selector"), (template.get("metadata") or {}).get("labels") or {}
    different = invalid(path.child("metadata", "labels"), labels or None, _DIFFERENT)
    where = _SPEC.child("selector")
    if kind == _CONTROLLER:
        if not given:
            yield required(where)
        elif any(labels.get(key) != value for key, value in given.items()):
            yield different
        return
    if given is None:  # which selects nothing; the table of checks says where it is required
        yield different
        return
    yield from label_selector(given, where)
    is_empty = not (given.get("matchLabels") or given.get("matchExpressions"))
    empty = invalid(where, RawJSON(to_json(given)), f"empty selector is invalid for {_LASTING[kind][1]}")
    try:
        matches = LabelSelector.from_object(given).matches(labels)
    except SelectorError:
        if kind != "apps/v1.DaemonSet":
            yield invalid(where, given, "" if kind == "apps/v1.StatefulSet" else "invalid label selector")
        yield None
        return
    if kind == "apps/v1.DaemonSet" and not matches:
        yield different
    if is_empty:
        yield empty
    elif kind != "apps/v1.DaemonSet" and not matches:
        yield different


def _of_stateful_set(obj: JSONMapping, template: JSONMapping) -> JSONMapping:
    """The template with the volumes of the set's claims, without what the controller sets itself."""
    spec = dict(template.get("spec") or {})
    spec.pop("subdomain", None)
    spec.pop("hostname", None)
    names = [(claim.get("metadata") or {}).get("name") or "" for claim in obj["spec"].get("volumeClaimTemplates") or ()]
    if names:
        claimed = {name: {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names}
        own = [volume for volume in spec.get("volumes") or () if (volume.get("name") or "") not in claimed]
        spec["volumes"] = [*claimed.values(), *own]
    return {**template, "spec": spec}
