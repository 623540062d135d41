"""Cells of tables that are computed from several members of an object.

All functions take objects as they are stored, with their defaults. Those for Pods, Services and endpoints are in `pod_cells.py`
and `network_cells.py`.
Pure. Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from aggserver.meta import golang, times
from aggserver.meta.json_types import JSONMapping
from aggserver.publish.table import since

__all__ = [
    "CORE_EVENT",
    "DEFAULT_STORAGE_CLASS",
    "LISTED",
    "NEW_EVENT",
    "EventNames",
    "access_modes",
    "api_service",
    "audiences",
    "availability",
    "boolean",
    "bound_claim",
    "claim_state",
    "completions",
    "controller",
    "dangling",
    "default_name",
    "event_count",
    "event_source",
    "first_seen",
    "health",
    "healthy",
    "job_duration",
    "job_status",
    "kernel_version",
    "kind_and_name",
    "labels",
    "last_schedule",
    "last_seen",
    "listed",
    "message",
    "metric_targets",
    "node_address",
    "node_info",
    "node_roles",
    "node_status",
    "of_bound",
    "of_containers",
    "phase",
    "quota",
    "ready_replicas",
    "reference",
    "requested_duration",
    "role_reference",
    "selector",
    "signing_status",
    "storage_class",
    "subjects",
]

# How many items are listed before `+ 2 more...`.
LISTED = 3
_LISTED_METRICS = 2

DEFAULT_STORAGE_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_ROLE = "node-role.kubernetes.io/"


def _spec(obj: JSONMapping) -> JSONMapping:
    return obj.get("spec") or {}


def _status(obj: JSONMapping) -> JSONMapping:
    return obj.get("status") or {}


def _annotations(obj: JSONMapping) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def listed(items: Sequence[str], most: int = LISTED, separator: str = ",") -> str:
    text = separator.join(items[:most])
    return f"{text} + {len(items) - most} more..." if len(items) > most else text


def healthy(component: JSONMapping) -> JSONMapping:
    """The condition Healthy of a ComponentStatus."""
    return next((each for each in component.get("conditions") or () if each.get("type") == "Healthy"), {})


def health(component: JSONMapping) -> str:
    status = healthy(component).get("status")
    return "Unknown" if status is None else "Healthy" if status == "True" else "Unhealthy"


def dangling(schema: JSONMapping) -> str:
    """Whether a FlowSchema names a priority level that is not there; ? if nobody has looked."""
    conditions = _status(schema).get("conditions") or ()
    return next((str(each.get("status", "")) for each in conditions if each.get("type") == "Dangling"), "?")


def boolean(value: bool | None) -> str:
    return "<unset>" if value is None else str(value)


def labels(given: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((given or {}).items())) or "<none>"


_OPERATORS = {"In": "{} in ({})", "NotIn": "{} notin ({})", "Exists": "{}", "DoesNotExist": "!{}"}


def selector(given: JSONMapping | None, nothing: str = "<none>") -> str:
    """A label selector as it is written in a query. nothing: the text for an empty one."""
    terms = [(key, f"{key}={value}") for key, value in ((given or {}).get("matchLabels") or {}).items()]
    for each in (given or {}).get("matchExpressions") or ():
        key = each.get("key", "")
        terms.append((key, _OPERATORS[each["operator"]].format(key, ",".join(sorted(each.get("values") or ())))))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0])) or nothing


def of_containers(obj: JSONMapping, member: str) -> str:
    """A member of each container of the template, joined by commas."""
    template = _spec(obj).get("template") or {}
    return ",".join(each.get(member, "") for each in _spec(template).get("containers") or ())


def ready_replicas(obj: JSONMapping) -> str:
    return f"{_status(obj).get('readyReplicas', 0)}/{_spec(obj).get('replicas', 0)}"


def reference(ref: JSONMapping) -> str:
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def kind_and_name(ref: JSONMapping) -> str:
    kind, name = ref.get("kind", "").lower(), ref.get("name", "")
    return f"{kind}/{name}" if name else str(kind)


def controller(obj: JSONMapping) -> str:
    owner = next((each for each in obj["metadata"].get("ownerReferences") or () if each.get("controller")), None)
    if owner is None:
        return "<none>"
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind']}.{group}".rstrip(".").lower() + f"/{owner['name']}"


def phase(obj: JSONMapping) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else str(_status(obj).get("phase", ""))


def default_name(obj: JSONMapping, *annotations: str) -> str:
    """The name, marked if the class is the default. annotations: any of them marks the default class."""
    is_default = any(_annotations(obj).get(name) == "true" for name in annotations)
    return f"{obj['metadata'].get('name', '')} (default)" if is_default else str(obj["metadata"].get("name", ""))


# --- nodes, volumes, quota ---


def node_status(node: JSONMapping) -> str:
    # Of several conditions of a type, the last one counts.
    found = [each.get("status") == "True" for each in _status(node).get("conditions") or () if each.get("type") == "Ready"]
    words = ["Unknown" if not found else "Ready" if found[-1] else "NotReady"]
    if _spec(node).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def node_roles(node: JSONMapping) -> str:
    found = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in found if key.startswith(_ROLE)} | {found.get("kubernetes.io/role", "")}
    return ",".join(sorted(roles - {""})) or "<none>"


def node_address(node: JSONMapping, kind: str) -> str:
    addresses = _status(node).get("addresses") or ()
    return next((each.get("address", "") for each in addresses if each.get("type") == kind), "<none>")


def node_info(node: JSONMapping, member: str) -> str:
    return (_status(node).get("nodeInfo") or {}).get(member) or "<unknown>"


def kernel_version(node: JSONMapping) -> str:
    architecture = (_status(node).get("nodeInfo") or {}).get("architecture")
    version = node_info(node, "kernelVersion")
    return f"{version} ({architecture})" if architecture else version


def access_modes(holder: JSONMapping) -> str:
    given = holder.get("accessModes") or ()
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in given)


def bound_claim(volume: JSONMapping) -> str:
    ref = _spec(volume).get("claimRef")
    return "" if ref is None else f"{ref.get('namespace', '')}/{ref.get('name', '')}"


def storage_class(obj: JSONMapping) -> str:
    found = _annotations(obj).get(_STORAGE_CLASS)
    return _spec(obj).get("storageClassName") or "" if found is None else found


def of_bound(claim: JSONMapping, read: Callable[[JSONMapping], Any]) -> Any:
    """What `read` returns for a bound claim; '' for a claim without a volume."""
    return read({"status": {}, **claim}) if _spec(claim).get("volumeName") else ""


def quota(obj: JSONMapping, *, limits: bool) -> str:
    hard, used = _status(obj).get("hard") or {}, _status(obj).get("used") or {}
    names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


# --- jobs ---


def job_status(job: JSONMapping) -> str:
    true: dict[str, bool] = {}
    for each in _status(job).get("conditions") or ():
        true.setdefault(each.get("type", ""), each.get("status") == "True")
    for kind in ("Complete", "Failed"):
        if true.get(kind):
            return kind
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if true.get(kind)), "Running")


def completions(job: JSONMapping) -> str:
    succeeded, spec = _status(job).get("succeeded", 0), _spec(job)
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallel = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def job_duration(job: JSONMapping) -> Any:
    start, end = _status(job).get("startTime"), _status(job).get("completionTime")
    if not start:
        return ""
    return times.human_duration(times.parse_time(end) - times.parse_time(start)) if end else since(start)


def last_schedule(job: JSONMapping) -> Any:
    at = _status(job).get("lastScheduleTime")
    return since(at) if at else "<none>"


# --- autoscalers ---


def metric_targets(autoscaler: JSONMapping) -> str:
    """The current value and the target of each metric: `cpu: 10%/80%`."""
    statuses = _status(autoscaler).get("currentMetrics") or []
    specs = _spec(autoscaler).get("metrics") or ()
    texts = [_metric(spec, statuses[index] if index < len(statuses) else {}) for index, spec in enumerate(specs)]
    return listed(texts, _LISTED_METRICS, ", ") or "<none>"


_METRICS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _metric(spec: JSONMapping, status: JSONMapping) -> str:
    kind = spec.get("type", "")
    member = _METRICS.get(kind)
    if member is None:
        return "<unknown type>"
    target = (spec.get(member) or {}).get("target") or {}
    current = (status.get(member) or {}).get("current") or {}
    average = target.get("averageValue")
    if kind in ("Resource", "ContainerResource"):
        name = (spec.get(member) or {}).get("name", "")
        if average is not None:
            return f"{name}: {current.get('averageValue', '<unknown>')}/{average}"
        return f"{name}: {_percent(current, '<unknown>')}/{_percent(target, '<auto>')}"
    if kind == "Pods":
        return f"{current.get('averageValue', '<unknown>')}/{average}"
    if average is not None:
        return f"{current.get('averageValue', '<unknown>')}/{average} (avg)"
    return f"{current.get('value', '<unknown>')}/{target.get('value')}"


def _percent(value: JSONMapping, unknown: str) -> str:
    return unknown if value.get("averageUtilization") is None else f"{value['averageUtilization']}%"


# --- events ---


class EventNames(NamedTuple):
    """The names of an Event's members in one of its two groups."""

    about: str
    message: str
    first: str
    last: str
    times: str
    source: str
    reporter: str


CORE_EVENT = EventNames(
    "involvedObject", "message", "firstTimestamp", "lastTimestamp", "count", "source", reporter="reportingComponent"
)
NEW_EVENT = EventNames(
    "regarding",
    "note",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedCount",
    "deprecatedSource",
    reporter="reportingController",
)


def first_seen(event: JSONMapping, names: EventNames) -> Any:
    return since(event.get(names.first) or event.get("eventTime") or "")


def last_seen(event: JSONMapping, names: EventNames) -> Any:
    series = event.get("series")
    if series is not None:
        return since(series.get("lastObservedTime") or "")
    return since(event[names.last]) if event.get(names.last) else first_seen(event, names)


def event_count(event: JSONMapping, names: EventNames) -> int:
    series = event.get("series")
    if series is not None:
        return int(series.get("count", 0))
    return int(event.get(names.times) or 1)


def event_source(event: JSONMapping, names: EventNames) -> str:
    source = event.get(names.source) or {}
    component = source.get("component") or event.get(names.reporter) or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def message(event: JSONMapping, names: EventNames) -> str:
    return golang.trim_space(event.get(names.message) or "")


# --- other groups ---


def role_reference(binding: JSONMapping) -> str:
    return reference(binding.get("roleRef") or {})


def subjects(binding: JSONMapping, kind: str) -> str:
    found = [each for each in binding.get("subjects") or () if each.get("kind") == kind]
    names = [each.get("name", "") for each in found]
    if kind == "ServiceAccount":
        names = [f"{each.get('namespace', '')}/{each.get('name', '')}" for each in found]
    return ", ".join(names)


def audiences(driver: JSONMapping) -> str:
    requests = _spec(driver).get("tokenRequests")
    return "<unset>" if requests is None else ",".join(each.get("audience", "") for each in requests)


def requested_duration(request: JSONMapping) -> str:
    seconds = _spec(request).get("expirationSeconds")
    return "<none>" if seconds is None else times.human_duration(seconds)


def signing_status(request: JSONMapping) -> str:
    kinds = {each.get("type") for each in _status(request).get("conditions") or ()}
    words = ["Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"]
    if "Failed" in kinds:
        words.append("Failed")
    if _status(request).get("certificate"):
        words.append("Issued")
    return ",".join(words)


def claim_state(claim: JSONMapping) -> str:
    is_deleted, status = "deletionTimestamp" in claim["metadata"], _status(claim)
    words = ["deleted"] if is_deleted else []
    if status.get("allocation") is None:
        return ",".join(words) or "pending"
    return ",".join([*words, "allocated", *(["reserved"] if status.get("reservedFor") else [])])


def api_service(service: JSONMapping) -> str:
    ref = _spec(service).get("service")
    return "Local" if ref is None else f"{ref.get('namespace', '')}/{ref.get('name', '')}"


def availability(service: JSONMapping) -> str:
    condition = next((each for each in _status(service).get("conditions") or () if each.get("type") == "Available"), None)
    if condition is None:
        return "Unknown"
    status, reason = condition.get("status", ""), condition.get("reason", "")
    return f"{status} ({reason})" if status != "True" and reason else str(status)
