"""Rules of kinds that the table of checks can't express: names of containers, keys of data, and those of other modules.

Pure. Source: k8s.io/kubernetes pkg/apis/{core,batch}/validation/validation.go, k8s.io/apimachinery pkg/util/validation, v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from aggserver.kinds.claim_updates import claim_problems
from aggserver.kinds.flow_control import flow_schema_problems, priority_level_problems
from aggserver.kinds.jobs import job_problems
from aggserver.kinds.limit_range_rules import limit_range_problems
from aggserver.kinds.network_ranges import ip_address_problems, range_problems
from aggserver.kinds.pod_updates import pod_images
from aggserver.kinds.priorities import priority_class_problems
from aggserver.kinds.secrets import secret_problems
from aggserver.kinds.service_rules import service_problems
from aggserver.kinds.storage_rules import attributes_class_problems, storage_capacity_problems
from aggserver.kinds.tolerations import toleration_problems
from aggserver.meta.field import FieldError, Path, duplicate, invalid, too_long
from aggserver.meta.json_types import JSONObject
from aggserver.meta.names import dns1123_label

__all__ = ["kind_problems"]

_TEMPLATE = "spec.template.spec"
# The path of the PodSpec in each kind.
_POD_SPECS: Mapping[str, str] = {
    "apps/v1.DaemonSet": _TEMPLATE,
    "apps/v1.Deployment": _TEMPLATE,
    "apps/v1.ReplicaSet": _TEMPLATE,
    "apps/v1.StatefulSet": _TEMPLATE,
    "batch/v1.CronJob": f"spec.jobTemplate.{_TEMPLATE}",
    "batch/v1.Job": _TEMPLATE,
    "core/v1.Pod": "spec",
    "core/v1.PodTemplate": "template.spec",
    "core/v1.ReplicationController": _TEMPLATE,
}
_MAX_KEY = 253
# Of all values of a ConfigMap or a Secret, as upstream.
_MAX_DATA_BYTES = 1024 * 1024
_KEY = re.compile("[-._a-zA-Z0-9]+")
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def kind_problems(type_name: str, obj: JSONObject, old: JSONObject | None = None) -> list[FieldError]:
    """The errors of an object, without those that `old` has, too: it may have been accepted before these rules existed."""
    if old is not None and type_name in _ONLY_NEW:
        return []
    found = list(_problems(type_name, obj))
    if not found or old is None:
        return found
    known = {str(problem) for problem in _problems(type_name, old)}
    return [problem for problem in found if str(problem) not in known]


def _problems(type_name: str, obj: JSONObject) -> Iterator[FieldError]:
    if (path := _POD_SPECS.get(type_name)) is not None:
        spec: Any = obj
        for name in path.split("."):
            spec = spec.get(name) or {}
        yield from _containers(spec, Path(path))
        yield from toleration_problems(spec.get("tolerations") or (), Path(path).child("tolerations"))
    if (rules := _RULES.get(type_name)) is not None:
        yield from rules(obj)


def _containers(spec: JSONObject, path: Path) -> Iterator[FieldError]:
    """Names must be DNS labels, and unique among containers and init containers. That they are required is in the table."""
    names = set[str]()
    for member in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(member) or ()):
            name, where = container.get("name") or "", path.child(member).index(index).child("name")
            if name:
                yield from (invalid(where, name, text) for text in dns1123_label(name))
            if name in names:
                yield duplicate(where, name)
            if name or member == "containers":
                names.add(name)


def _config_map(obj: JSONObject) -> Iterator[FieldError]:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for key in data:
        yield from _key_problems(Path("data"), key)
        if key in binary:
            yield invalid(Path("data").key(key), key, "duplicate of key present in binaryData")
    for key in binary:
        yield from _key_problems(Path("binaryData"), key)
    if sum(len(text.encode()) for text in data.values()) + _decoded_bytes(binary) > _MAX_DATA_BYTES:
        yield too_long(Path("[]"), _MAX_DATA_BYTES)  # upstream's path has no name


def _secret(obj: JSONObject) -> Iterator[FieldError]:
    for key in obj.get("data") or ():
        yield from _key_problems(Path("data"), key)
    if _decoded_bytes(obj.get("data") or {}) > _MAX_DATA_BYTES:
        yield too_long(Path("data"), _MAX_DATA_BYTES)
    yield from secret_problems(obj)


def _decoded_bytes(data: Mapping[str, str]) -> int:
    """The size of base64 values when decoded."""
    return sum(len(text) // 4 * 3 - text[-2:].count("=") for text in data.values())


def _key_problems(path: Path, key: str) -> Iterator[FieldError]:
    if len(key.encode()) > _MAX_KEY:
        yield invalid(path.key(key), key, f"must be no more than {_MAX_KEY} characters")
    if not _KEY.fullmatch(key):
        yield invalid(path.key(key), key, _KEY_TEXT)
    if key in (".", ".."):
        yield invalid(path.key(key), key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield invalid(path.key(key), key, "must not start with '..'")


def _job(obj: JSONObject) -> Iterable[FieldError]:
    return job_problems(obj["spec"], Path("spec"))


def _cron_job(obj: JSONObject) -> Iterable[FieldError]:
    from aggserver.kinds.cron_jobs import schedule_problems  # few servers ever have one

    yield from schedule_problems(obj["spec"], Path("spec"))
    template = obj["spec"].get("jobTemplate") or {}
    yield from job_problems(template.get("spec") or {}, Path("spec").child("jobTemplate", "spec"))


# What is not checked in updates.
_ONLY_NEW = frozenset({"networking/v1.ServiceCIDR", "scheduling/v1.PriorityClass"})
_RULES: Mapping[str, Callable[[JSONObject], Iterable[FieldError]]] = {
    "batch/v1.CronJob": _cron_job,
    "batch/v1.Job": _job,
    "core/v1.ConfigMap": _config_map,
    "core/v1.LimitRange": limit_range_problems,
    "core/v1.PersistentVolumeClaim": claim_problems,
    "core/v1.Pod": pod_images,
    "core/v1.Secret": _secret,
    "core/v1.Service": service_problems,
    "flowcontrol/v1.FlowSchema": flow_schema_problems,
    "flowcontrol/v1.PriorityLevelConfiguration": priority_level_problems,
    "networking/v1.IPAddress": ip_address_problems,
    "networking/v1.ServiceCIDR": range_problems,
    "scheduling/v1.PriorityClass": priority_class_problems,
    "storage/v1.CSIStorageCapacity": storage_capacity_problems,
    "storage/v1.VolumeAttributesClass": attributes_class_problems,
}
