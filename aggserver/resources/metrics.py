"""Metrics: numbers that functions return, for the Kubernetes APIs that autoscalers and `kubectl top` read.

A number without a time is of now. To know nothing is an error, and never 0: an autoscaler does nothing then, where a 0 would
make it scale down. A sample that is older than its metric allows is refused for the same reason.

Source: k8s.io/metrics pkg/apis/{external_metrics,custom_metrics,metrics}, k8s.io/kubernetes
pkg/controller/podautoscaler/metrics/client.go, v0.36.3.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from aggserver.meta import errors
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import LabelSelector, SelectorError
from aggserver.resources.errors import AnswerError, Unavailable
from aggserver.resources.requests import Labels, Request
from aggserver.typed.metadata import Metadata
from aggserver.typed.quantity import QUANTITY_SCHEMA, Quantity

__all__ = [
    "CUSTOM_VERSIONS",
    "KINDS",
    "NODES_SCHEMA",
    "PODS_SCHEMA",
    "RESOURCE_METRICS",
    "CustomMetric",
    "ExternalMetric",
    "MetricRequest",
    "NodeUsage",
    "Number",
    "PodUsage",
    "Sample",
    "Usage",
    "custom_values",
    "external_values",
    "metric_not_found",
]

S_co = TypeVar("S_co", covariant=True)
S = TypeVar("S")

Number = int | float | Quantity

# Others than Kubernetes serve this group of its own.
RESOURCE_METRICS = "metrics.k8s.io"

# Of custom metrics. The first is the one of the autoscaler; scripts and older clients ask for the other one.
CUSTOM_VERSIONS = ("v1beta2", "v1beta1")

# Seconds that a sample may be old, if its metric does not say otherwise: two rounds of most collectors.
MAX_AGE = 120.0

# Resource, as custom metrics name it -> apiVersion and kind of its objects, and whether they are in namespaces.
KINDS: Mapping[str, tuple[str, str, bool]] = {
    "pods": ("v1", "Pod", True),
    "services": ("v1", "Service", True),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim", True),
    "namespaces": ("v1", "Namespace", False),
    "nodes": ("v1", "Node", False),
    "deployments.apps": ("apps/v1", "Deployment", True),
    "statefulsets.apps": ("apps/v1", "StatefulSet", True),
    "replicasets.apps": ("apps/v1", "ReplicaSet", True),
    "jobs.batch": ("batch/v1", "Job", True),
    "ingresses.networking.k8s.io": ("networking.k8s.io/v1", "Ingress", True),
}


@dataclass(frozen=True, slots=True)
class Sample:
    """A number of a certain time. time: with a zone; None for now. labels: of the series, for external metrics that have several.
    window: seconds over which the number was gathered; None for a number of one moment.
    """

    value: Number
    time: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    window: float | None = None


def _everything() -> Labels:
    return Labels(LabelSelector.parse(""))


@dataclass(frozen=True, slots=True)
class MetricRequest(Request[S_co]):
    """metric: its name. labels: selects series of the metric. `name` is that of the object that a custom metric is asked of; `*`
    for all that `objects` selects, '' for an external metric.
    """

    metric: str = ""
    labels: Labels = field(default_factory=_everything)
    objects: Labels = field(default_factory=_everything)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a container uses. cpu: cores. memory: bytes."""

    cpu: Number
    memory: Number


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """What a node uses, for `kubectl top nodes`. cpu: cores. memory: bytes. time, window: see `Sample`."""

    name: str
    cpu: Number
    memory: Number
    time: datetime | None = None
    window: float = 30.0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodUsage:
    """What the containers of a pod use, for `kubectl top pods` and autoscaling by CPU and memory.

    labels: of the pod; autoscalers select by them. time, window: see `Sample`.
    """

    name: str
    namespace: str
    containers: Mapping[str, Usage]
    labels: Mapping[str, str] = field(default_factory=dict)
    time: datetime | None = None
    window: float = 30.0


ExternalFunction = (
    Callable[[MetricRequest[S]], Number | Sample | Iterable[Sample]]
    | Callable[[MetricRequest[S]], Awaitable[Number | Sample | Iterable[Sample]]]
)
CustomFunction = (
    Callable[[MetricRequest[S]], Number | Sample | Mapping[str, Number | Sample]]
    | Callable[[MetricRequest[S]], Awaitable[Number | Sample | Mapping[str, Number | Sample]]]
)


@dataclass(frozen=True, slots=True)
class ExternalMetric:
    """max_age: seconds that a sample may be old."""

    name: str
    function: Callable[..., Any]
    max_age: float = MAX_AGE


@dataclass(frozen=True, slots=True)
class CustomMetric:
    """resource: as `pods` or `deployments.apps`. api_version, kind: of its objects."""

    resource: str
    name: str
    function: Callable[..., Any]
    api_version: str
    kind: str
    namespaced: bool
    max_age: float = MAX_AGE


def external_values(metric: ExternalMetric, result: Any, labels: Labels, now: datetime) -> JSONObject:
    """The ExternalMetricValueList for what a function has returned. Raises Unavailable, and AnswerError for what is no number.

    No series that is selected is an empty list, as custom-metrics-apiserver answers: the autoscaler takes it for an error.
    """
    samples = [_sample(result)] if _is_one(result) else [_sample(each) for each in _iterable(result)]
    # Series are selected by their labels; a single number has none, and its function has looked at the selector itself.
    chosen = samples if _is_one(result) else [each for each in samples if not each.labels or labels.matches(each.labels)]
    items = [
        {
            "metricName": metric.name,
            "metricLabels": dict(each.labels),
            **_stamps(metric.name, each, metric.max_age, now, "window"),
            "value": quantity(each.value),
        }
        for each in chosen
    ]
    return {"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {}, "items": items}


def custom_values(
    metric: CustomMetric, result: Any, request: MetricRequest[Any], now: datetime, version: str = CUSTOM_VERSIONS[0]
) -> JSONObject:
    """The MetricValueList for what a function has returned: a number for one object, or numbers by name. Raises as above,
    and 404 for an object that has none.
    """
    if isinstance(result, Mapping):
        found = {name: _sample(value) for name, value in result.items()}
    elif request.name == "*":
        raise AnswerError(f"{metric.name} of all {metric.resource} must be a dict of numbers by name")
    else:
        found = {request.name: _sample(result)}
    if request.name != "*" and request.name not in found:
        raise metric_not_found(metric.name, metric.resource, request.name, str(request.labels))
    if request.name != "*":
        found = {request.name: found[request.name]}
    selector = _selector(request.labels)
    is_old = version == "v1beta1"
    identifier = {"metricName": metric.name, "selector": selector}
    if not is_old:
        identifier = {"metric": {"name": metric.name, "selector": selector}}
    items = []
    for name, sample in found.items():
        described = {"kind": metric.kind, "name": name, "apiVersion": metric.api_version}
        if metric.namespaced:
            described["namespace"] = request.namespace
        items.append(
            {
                "describedObject": described,
                **identifier,
                **_stamps(metric.name, sample, metric.max_age, now, "window" if is_old else "windowSeconds"),
                "value": quantity(sample.value),
            }
        )
    return {"kind": "MetricValueList", "apiVersion": f"custom.metrics.k8s.io/{version}", "metadata": {}, "items": items}


def metric_not_found(metric: str, resource: str, name: str, selector: str = "") -> StatusError:
    """404, as custom-metrics-apiserver says it. Source: its pkg/provider/errors.go, v1.36."""
    of = f"{resource} {name}" + (f" with selector {selector}" if selector else "")
    return StatusError(404, "NotFound", f"the server could not find the metric {metric} for {of}")


def _selector(labels: Labels) -> JSONObject | None:
    try:
        return labels.selector.to_object() or None
    except SelectorError as error:
        raise errors.bad_request(str(error)) from None


def quantity(value: Number) -> str:
    """As Kubernetes writes it: to the thousandth, rounded up as there. Raises Unavailable for what is no finite number."""
    if isinstance(value, Quantity):
        return str(value)
    if not math.isfinite(value):
        raise Unavailable("the number is not known")
    milli = math.ceil(value * 1000 - 1e-6)
    return str(milli // 1000) if not milli % 1000 else f"{milli}m"


def _is_one(result: Any) -> bool:
    return result is None or isinstance(result, int | float | Quantity | Sample)


def _iterable(result: Any) -> Iterable[Any]:
    if isinstance(result, str | bytes | Mapping) or not isinstance(result, Iterable):
        raise AnswerError(f"a metric is a number, a Sample or several of these, not {type(result).__name__}")
    return result


def _sample(value: Any) -> Sample:
    if value is None:
        raise Unavailable("the number is not known")
    if isinstance(value, Sample):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Quantity):
        raise AnswerError(f"a metric is a number, a Sample or several of these, not {type(value).__name__}")
    return Sample(value)


def _stamps(name: str, sample: Sample, max_age: float, now: datetime, window: str) -> JSONObject:
    time = sample.time or now
    if time.tzinfo is None:
        raise AnswerError(f"the time of a sample of {name} has no zone")
    age = (now - time).total_seconds()
    if age > max_age:
        raise Unavailable(f"the newest sample of {name} is {age:.0f} s old")
    stamps: JSONObject = {"timestamp": _text(time)}
    return stamps if sample.window is None else stamps | {window: round(sample.window)}


def _text(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- metrics.k8s.io ---

_AMOUNTS: JSONObject = {"type": "object", "additionalProperties": QUANTITY_SCHEMA}
_MEASURED: JSONObject = {
    "timestamp": {"type": "string", "format": "date-time", "description": "The end of the time in which this was measured."},
    "window": {"type": "string", "description": "The length of that time."},
}
NODES_SCHEMA: JSONObject = {
    "type": "object",
    "description": "What a node uses.",
    "required": ["timestamp", "window", "usage"],
    "properties": {**_MEASURED, "usage": _AMOUNTS},
}
PODS_SCHEMA: JSONObject = {
    "type": "object",
    "description": "What the containers of a pod use.",
    "required": ["timestamp", "window", "containers"],
    "properties": {
        **_MEASURED,
        "containers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "usage"],
                "properties": {"name": {"type": "string"}, "usage": _AMOUNTS},
            },
        },
    },
}


def node_metrics(usages: Iterable[NodeUsage], now: datetime, max_age: float) -> Sequence[JSONObject]:
    """NodeMetrics without apiVersion and kind. A sample that is too old is left out: the node is then one without metrics."""
    return [
        {
            "metadata": Metadata(each.name, labels=each.labels, created=now).to_json(),
            "timestamp": _text(each.time or now),
            "window": _duration(each.window),
            "usage": _amounts(each.cpu, each.memory),
        }
        for each in usages
        if not _is_old(each.time, now, max_age)
    ]


def pod_metrics(usages: Iterable[PodUsage], now: datetime, max_age: float) -> Sequence[JSONObject]:
    """PodMetrics without apiVersion and kind; see `node_metrics`."""
    return [
        {
            "metadata": Metadata(each.name, each.namespace, labels=each.labels, created=now).to_json(),
            "timestamp": _text(each.time or now),
            "window": _duration(each.window),
            "containers": [{"name": name, "usage": _amounts(usage.cpu, usage.memory)} for name, usage in each.containers.items()],
        }
        for each in usages
        if not _is_old(each.time, now, max_age)
    ]


def _is_old(time: datetime | None, now: datetime, max_age: float) -> bool:
    return time is not None and now - time > timedelta(seconds=max_age)


def _amounts(cpu: Number, memory: Number) -> JSONObject:
    return {"cpu": quantity(cpu), "memory": quantity(memory)}


def _duration(seconds: float) -> str:
    """As Go writes it."""
    return f"{int(seconds // 60)}m{seconds % 60:g}s" if seconds >= 60 else f"{seconds:g}s"
