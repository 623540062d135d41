"""Rules of kinds that the table of checks can't express: keys of data, and those of other modules.

Those of Pods are in `pod_rules/`.
Pure. Source: k8s.io/kubernetes pkg/apis/{core,batch}/validation/validation.go, k8s.io/apimachinery pkg/util/validation, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from aggserver.kinds.flow_control import flow_schema_problems, priority_level_problems
from aggserver.kinds.jobs import job_problems
from aggserver.kinds.limit_range_rules import limit_range_problems
from aggserver.kinds.network_ranges import ip_address_problems, range_problems
from aggserver.kinds.pod_rules.texts import config_key, described
from aggserver.kinds.priorities import priority_class_problems
from aggserver.kinds.quota_rules import quota_problems
from aggserver.kinds.secrets import secret_problems
from aggserver.kinds.service_rules import service_problems
from aggserver.kinds.storage_rules import attributes_class_problems, storage_capacity_problems
from aggserver.meta.field import FieldError, Path, invalid, too_long
from aggserver.meta.json_types import JSONObject

__all__ = ["kind_problems"]

# Of all values of a ConfigMap or a Secret, as upstream.
_MAX_DATA_BYTES = 1024 * 1024


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
    if (rules := _RULES.get(type_name)) is not None:
        yield from rules(obj)


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
    return described(path.key(key), key, config_key(key))


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
    "core/v1.ResourceQuota": quota_problems,
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
