"""HorizontalPodAutoscalers in version v1, which has one metric, the use of CPU; the rest of v2 is in annotations, as JSON.

The annotations are written as by Go: members in the order of its structs, and for the behavior the names of an internal type.
An annotation that can't be read is ignored.
Pure. Source: k8s.io/kubernetes pkg/apis/autoscaling/v1/conversion.go, annotations.go and helpers.go, v1.36.3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from aggserver.conversion.converter import ComputedConverter, ConversionError
from aggserver.kinds.defaults import set_defaults
from aggserver.meta import quantity
from aggserver.meta.golang import struct_to_json
from aggserver.meta.json_types import JSONMapping, JSONObject, json_copy
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.rewriting import rewrite
from aggserver.scheme.types import lookup

__all__ = ["Autoscalers", "drop_annotations", "drop_status", "keep_spec", "keep_status", "newer", "normalize"]

_OLDER, _NEWER = "autoscaling/v1", "autoscaling/v2"
_OLDER_TYPE, _NEWER_TYPE = (f"{version}.HorizontalPodAutoscaler" for version in (_OLDER, _NEWER))

_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _BEHAVIOR = f"{_PREFIX}metrics", f"{_PREFIX}behavior"
_CURRENT, _CONDITIONS = f"{_PREFIX}current-metrics", f"{_PREFIX}conditions"
_OF_SPEC, _OF_STATUS = (_METRICS, _BEHAVIOR), (_CURRENT, _CONDITIONS)
_ALL = frozenset({*_OF_SPEC, *_OF_STATUS, f"{_PREFIX}scale-down-tolerance", f"{_PREFIX}scale-up-tolerance"})

_DEFAULT_PERCENTAGE = 80

# (name in v1, path in v2, value written if it is missing; None for nothing)
_Member = tuple[str, str, Any]
_NAMED: _Member = ("metricName", "metric.name", "")
_SELECTED: _Member = ("selector", "metric.selector", None)
_ON: _Member = ("target", "describedObject", {})
_OF: _Member = ("name", "name", "")
_IN: _Member = ("container", "container", "")
_USE: _Member = ("targetAverageUtilization", "target.averageUtilization", None)
_MEAN: _Member = ("targetAverageValue", "target.averageValue", None)
_USED: _Member = ("currentAverageUtilization", "current.averageUtilization", None)
_MEASURED: _Member = ("currentAverageValue", "current.averageValue", "0")
# Kind of metric -> its members, in the order of Go's structs.
_SOURCES: Mapping[str, tuple[_Member, ...]] = {
    "object": (_ON, _NAMED, ("targetValue", "target.value", "0"), _SELECTED, ("averageValue", "target.averageValue", None)),
    "pods": (_NAMED, ("targetAverageValue", "target.averageValue", "0"), _SELECTED),
    "resource": (_OF, _USE, _MEAN),
    "containerResource": (_OF, _USE, _MEAN, _IN),
    "external": (_NAMED, ("metricSelector", "metric.selector", None), ("targetValue", "target.value", None), _MEAN),
}
_STATUSES: Mapping[str, tuple[_Member, ...]] = {
    "object": (_ON, _NAMED, ("currentValue", "current.value", "0"), _SELECTED, ("averageValue", "current.averageValue", None)),
    "pods": (_NAMED, _MEASURED, _SELECTED),
    "resource": (_OF, _USED, _MEASURED),
    "containerResource": (_OF, _USED, _MEASURED, _IN),
    "external": (
        _NAMED,
        ("metricSelector", "metric.selector", None),
        ("currentValue", "current.value", "0"),
        ("currentAverageValue", "current.averageValue", None),
    ),
}


class Autoscalers(ComputedConverter):
    def at_once(self, obj: JSONObject, api_version: str) -> JSONObject:
        if obj["apiVersion"] == api_version:
            return obj
        if api_version not in _CONVERSIONS:
            raise ConversionError(f"HorizontalPodAutoscaler is not served in {api_version}")
        return _CONVERSIONS[api_version](obj)


def normalize(obj: JSONObject) -> None:
    """Change an object of v1, in place, to what it is when it is read again: with annotations and defaults of v2.

    The annotation of the current metrics is not added, since it does not distinguish a missing amount from 0.
    """
    was_there = _CURRENT in _annotations(obj)
    stored = newer(obj)
    set_defaults(stored, _NEWER_TYPE)
    written = _older(stored)
    obj.clear()
    obj.update(written)
    if not was_there:
        _annotate(obj, frozenset({_CURRENT}), {})


def newer(obj: JSONMapping) -> JSONObject:
    """A copy of an object of v1, converted to v2."""
    return _newer(json_copy(obj))


def drop_annotations(obj: JSONObject) -> None:
    """Drop the annotations from an object of v2, where they have no meaning."""
    _annotate(obj, _ALL, {})


def drop_status(obj: JSONObject, now: str) -> None:
    """Drop the status of a new object of v1, with the annotations that belong to it."""
    _annotate(obj, frozenset(_OF_STATUS), {})
    obj.pop("status", None)


def keep_status(obj: JSONObject, old: JSONObject, now: str) -> None:
    """Keep the old annotations of v1 that belong to the status."""
    _keep(obj, old, _OF_STATUS)


def keep_spec(obj: JSONObject, old: JSONObject, now: str) -> None:
    """Keep the old annotations of v1 that belong to the spec."""
    _keep(obj, old, _OF_SPEC)


def _keep(obj: JSONObject, old: JSONObject, names: tuple[str, ...]) -> None:
    before = _annotations(old)
    _annotate(obj, frozenset(names), {name: before[name] for name in names if name in before})


def _annotations(obj: JSONObject) -> Mapping[str, Any]:
    found: Mapping[str, Any] = obj["metadata"].get("annotations") or {}
    return found


def _annotate(obj: JSONObject, without: frozenset[str], more: Mapping[str, str]) -> None:
    """Remove and add annotations. If there is nothing to do, the metadata object is not replaced."""
    before = _annotations(obj)
    if not more and not without & before.keys():
        return
    after = {name: value for name, value in before.items() if name not in without} | dict(more)
    obj["metadata"] = {name: value for name, value in obj["metadata"].items() if name != "annotations"}
    if after:
        obj["metadata"]["annotations"] = after


# --- v2 -> v1 ---


def _older(obj: JSONObject) -> JSONObject:
    rewrite(obj, lookup(_NEWER_TYPE))  # so that members are in the order of Go's structs
    spec, status = obj["spec"], obj.get("status") or {}
    metrics, current = spec.pop("metrics", None) or [], status.pop("currentMetrics", None) or []
    behavior, conditions = spec.pop("behavior", None), status.pop("conditions", None)
    of_cpu = [metric["resource"]["target"]["averageUtilization"] for metric in metrics if _is_use_of_cpu(metric, "target")]
    if of_cpu:
        spec["targetCPUUtilizationPercentage"] = of_cpu[0]
    used = [metric["resource"]["current"]["averageUtilization"] for metric in current if _is_use_of_cpu(metric, "current")]
    if used:
        status["currentCPUUtilizationPercentage"] = used[-1]
    others = [_metric_to_older(metric, _SOURCES) for metric in metrics if not _is_use_of_cpu(metric, "target")]
    more: dict[str, str] = {}
    if others:
        more[_METRICS] = struct_to_json(others)
    if current:
        more[_CURRENT] = struct_to_json([_metric_to_older(metric, _STATUSES) for metric in current])
    if behavior is not None:
        more[_BEHAVIOR] = struct_to_json({_internal(way): _rules_to_older(behavior.get(way)) for way in _WAYS})
    if conditions:
        more[_CONDITIONS] = struct_to_json(conditions)
    _annotate(obj, _ALL, more)
    obj["apiVersion"] = _OLDER
    rewrite(obj, lookup(_OLDER_TYPE))
    return obj


def _is_use_of_cpu(metric: JSONObject, member: str) -> bool:
    resource = metric.get("resource")
    if metric["type"] != "Resource" or resource is None or resource["name"] != "cpu":
        return False
    return resource[member].get("averageUtilization") is not None


def _metric_to_older(metric: JSONObject, tables: Mapping[str, tuple[_Member, ...]]) -> JSONObject:
    written: JSONObject = {"type": metric["type"]}
    for kind, table in tables.items():
        source = metric.get(kind)
        if source is None:
            continue
        written[kind] = {}
        for name, path, zero in table:
            value = _at(source, path)
            value = zero if value is None else value
            if value is not None:
                written[kind][name] = _sorted(value) if path == "metric.selector" else value
    return written


def _at(source: JSONObject, path: str) -> Any:
    value: Any = source
    for name in path.split("."):
        value = None if value is None else value.get(name)
    return value


def _sorted(selector: JSONObject) -> JSONObject:
    """The selector with sorted labels, since Go writes the keys of maps sorted."""
    labels = selector.get("matchLabels")
    return {**selector, "matchLabels": dict(sorted(labels.items()))} if labels else selector


_WAYS = ("scaleUp", "scaleDown")
_RULES = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_POLICY = ("type", "value", "periodSeconds")


def _internal(name: str) -> str:
    """The name of a member in Go's internal struct, which has no JSON tags."""
    return name[0].upper() + name[1:]


def _rules_to_older(rules: JSONObject | None) -> JSONObject | None:
    if rules is None:
        return None
    policies = [{_internal(name): policy.get(name) for name in _POLICY} for policy in rules.get("policies") or ()]
    return {_internal(name): policies or None if name == "policies" else rules.get(name) for name in _RULES}


# --- v1 -> v2 ---


def _newer(obj: JSONObject) -> JSONObject:
    rewrite(obj, lookup(_OLDER_TYPE))
    spec, status, annotations = obj["spec"], obj.setdefault("status", {}), _annotations(obj)
    target = spec.pop("targetCPUUtilizationPercentage", None)
    used = status.pop("currentCPUUtilizationPercentage", None)
    metrics = _read(annotations, _METRICS, _newer_sources) or []
    if target is None and not metrics:
        target = _DEFAULT_PERCENTAGE
    if target is not None:
        of_cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}
        metrics.append({"type": "Resource", "resource": of_cpu})
    spec["metrics"] = metrics
    current = _read(annotations, _CURRENT, _newer_statuses)
    if current is None and used is not None:
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}}]
    status["currentMetrics"] = current
    if behavior := _read(annotations, _BEHAVIOR, _newer_behavior):
        spec["behavior"] = behavior
    if conditions := _read(annotations, _CONDITIONS, _newer_conditions):
        status["conditions"] = conditions
    drop_annotations(obj)
    obj["apiVersion"] = _NEWER
    rewrite(obj, lookup(_NEWER_TYPE))
    return obj


def _read(annotations: Mapping[str, Any], name: str, convert: Callable[[Any], Any]) -> Any:
    """The content of an annotation, converted to v2; None if it is missing or invalid. convert: raises TypeError, ValueError."""
    if name not in annotations:
        return None
    try:
        return convert(json.loads(annotations[name]))
    except (TypeError, ValueError, RecursionError):
        return None


def _newer_sources(value: Any) -> list[JSONObject]:
    found = [_metric_to_newer(metric, _SOURCES) for metric in _list(value)]
    for metric in found:
        for kind, choose in _TARGETS.items():
            if kind in metric:
                target = metric[kind].setdefault("target", {})
                target["type"] = choose(target)
    return _checked(found, f"{_NEWER}.MetricSpec")


def _newer_statuses(value: Any) -> list[JSONObject]:
    return _checked([_metric_to_newer(metric, _STATUSES) for metric in _list(value)], f"{_NEWER}.MetricStatus")


def _newer_conditions(value: Any) -> list[JSONObject]:
    names = lookup(f"{_NEWER}.HorizontalPodAutoscalerCondition").members
    found = [{name: _member(each, name) for name in names} for each in _list(value)]
    return _checked(found, f"{_NEWER}.HorizontalPodAutoscalerCondition")


def _newer_behavior(value: Any) -> JSONObject:
    """The behavior in v2; {} if neither way of scaling has rules."""
    behavior = {way: _rules_to_newer(rules) for way in _WAYS if (rules := _member(value, way)) is not None}
    return _checked([behavior], f"{_NEWER}.HorizontalPodAutoscalerBehavior")[0]


def _rules_to_newer(value: Any) -> JSONObject:
    rules = {name: found for name in _RULES if (found := _member(value, name)) is not None}
    if "policies" in rules:
        rules["policies"] = [{name: _member(policy, name) for name in _POLICY} for policy in _list(rules["policies"])]
    return rules


def _metric_to_newer(value: Any, tables: Mapping[str, tuple[_Member, ...]]) -> JSONObject:
    metric: JSONObject = {"type": _member(value, "type")}
    for kind, table in tables.items():
        source = _member(value, kind)
        if source is None:
            continue
        metric[kind] = {}
        for name, path, zero in table:
            found = _member(source, name)
            found = zero if found is None else found
            if found is not None:
                outer, _, inner = path.partition(".")
                if inner:
                    metric[kind].setdefault(outer, {})[inner] = found
                else:
                    metric[kind][outer] = found
    return metric


def _on_object(target: JSONObject) -> str:
    if "averageValue" not in target:
        return "Value"
    if quantity.parse(str(target["value"])).compare(quantity.parse("0")) == 0:
        del target["value"]  # v1 always has it
    return "AverageValue"


def _of_resource(target: JSONObject) -> str:
    return "Utilization" if "averageUtilization" in target else "AverageValue"


# The type of a target, which v1 does not have.
_TARGETS: Mapping[str, Callable[[JSONObject], str]] = {
    "object": _on_object,
    "pods": lambda target: "AverageValue",
    "resource": _of_resource,
    "containerResource": _of_resource,
    "external": lambda target: "Value" if "value" in target else "AverageValue",
}


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | None):
        raise TypeError
    return value or []


def _member(value: Any, name: str) -> Any:
    """A member of an object, by its name in any case, as in Go's decoder. Raises TypeError if `value` is no object."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TypeError
    if name in value:
        return value[name]
    return next((found for other, found in value.items() if other.lower() == name.lower()), None)


def _checked(found: list[JSONObject], type_name: str) -> list[JSONObject]:
    """The list itself. Raises ValueError for members of a wrong type."""
    of = lookup(type_name)
    if any(decode_error(each, of) for each in found):
        raise ValueError
    return found


_CONVERSIONS: Mapping[str, Callable[[JSONObject], JSONObject]] = {_OLDER: _older, _NEWER: _newer}
