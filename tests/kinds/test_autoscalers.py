"""HorizontalPodAutoscalers in v1 and v2. (That the answers are kube-apiserver's: tests/integration/cases_kind_rules.py.)"""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.conversion.converter import ConversionError
from aggserver.kinds.autoscalers import Autoscalers, drop_annotations, drop_status, keep_spec, keep_status, normalize

_PREFIX = "autoscaling.alpha.kubernetes.io/"
_TARGET = {"kind": "Deployment", "name": "d"}
_PODS = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "2"}}}
_PODS_TEXT = '[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"2"}}]'


def _old(target: int | None = None, status: Any = None, **annotations: str) -> dict[str, Any]:
    named = {_PREFIX + name.replace("_", "-"): text for name, text in annotations.items()}
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", **({"annotations": named} if named else {})},
        "spec": {
            "scaleTargetRef": _TARGET,
            "minReplicas": 1,
            "maxReplicas": 3,
            **({} if target is None else {"targetCPUUtilizationPercentage": target}),
        },
        "status": {"currentReplicas": 0, "desiredReplicas": 0, **(status or {})},
    }


def _new(metrics: list[Any], behavior: Any = None, **status: Any) -> dict[str, Any]:
    spec = {"scaleTargetRef": _TARGET, "minReplicas": 1, "maxReplicas": 3, "metrics": metrics}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": spec | ({} if behavior is None else {"behavior": behavior}),
        "status": {"desiredReplicas": 0, "currentMetrics": None, **status},
    }


def _cpu(percentage: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percentage}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _resource(name: str, **target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


_UP = {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}
_UP_TEXT = (
    '{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max",'
    '"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":null}'
)
_SERVICE = {"kind": "Service", "name": "s"}
_CONDITION = {"type": "T", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
_USED = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "5m", "averageUtilization": 60}}}

# Equal in both directions.
_PAIRS: dict[str, tuple[Any, Any]] = {
    "cpu": (_new([_cpu(70)]), _old(70)),
    "cpu-after-another": (_new([_PODS, _cpu(70)]), _old(70, metrics=_PODS_TEXT)),
    "without-cpu": (_new([_PODS]), _old(metrics=_PODS_TEXT)),
    "amount-of-cpu": (
        _new([_resource("cpu", type="AverageValue", averageValue="1")]),
        _old(metrics='[{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"1"}}]'),
    ),
    "two-of-cpu-in-a-container": (
        _new(
            [
                {
                    "type": "ContainerResource",
                    "containerResource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 50},
                        "container": "c",
                    },
                }
            ]
        ),
        _old(
            metrics='[{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":50,"container":"c"}}]'
        ),
    ),
    "object-by-value": (
        _new(
            [
                {
                    "type": "Object",
                    "object": {
                        "describedObject": _SERVICE,
                        "target": {"type": "Value", "value": "1"},
                        "metric": {"name": "<m>"},
                    },
                }
            ]
        ),
        _old(
            metrics='[{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"\\u003cm\\u003e","targetValue":"1"}}]'
        ),
    ),
    "object-by-average": (
        _new(
            [
                {
                    "type": "Object",
                    "object": {
                        "describedObject": _SERVICE,
                        "target": {"type": "AverageValue", "averageValue": "1"},
                        "metric": {"name": "m"},
                    },
                }
            ]
        ),
        _old(
            metrics='[{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"m","targetValue":"0","averageValue":"1"}}]'
        ),
    ),
    "behavior": (_new([_cpu(80)], {"scaleUp": _UP}), _old(80, behavior=_UP_TEXT)),
    "conditions": (
        _new([_cpu(80)], conditions=[_CONDITION]),
        _old(80, conditions='[{"type":"T","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}]'),
    ),
    "current-metrics": (
        _new([_cpu(80)], currentMetrics=[_USED]),
        _old(
            80,
            {"currentCPUUtilizationPercentage": 60},
            current_metrics='[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":60,"currentAverageValue":"5m"}}]',
        ),
    ),
}


@pytest.mark.parametrize("name", _PAIRS)
def test_there_and_back(name: str) -> None:
    newer, older = _PAIRS[name]
    convert = Autoscalers().at_once
    written = convert(_copy(newer), "autoscaling/v1")
    assert written == older
    assert convert(written, "autoscaling/v2") == newer


_READ: dict[str, tuple[Any, list[Any]]] = {
    "nothing": (_old(), [_cpu(80)]),
    "empty": (_old(metrics="[]"), [_cpu(80)]),
    "null": (_old(metrics="null"), [_cpu(80)]),
    "not-json": (_old(70, metrics="["), [_cpu(70)]),
    "not-objects": (_old(metrics="[1]"), [_cpu(80)]),
    "wrong-type": (_old(metrics='[{"type":"Pods","pods":{"metricName":1}}]'), [_cpu(80)]),
    "not-a-quantity": (_old(metrics='[{"type":"Pods","pods":{"targetAverageValue":"x"}}]'), [_cpu(80)]),
    "too-deep": (_old(metrics="[" * 100_000), [_cpu(80)]),
    "names-in-other-case": (_old(metrics=_PODS_TEXT.replace("pods", "PODS").replace("metricN", "METRICN")), [_PODS]),
}


@pytest.mark.parametrize("name", _READ)
def test_metrics_that_are_read(name: str) -> None:
    obj, metrics = _READ[name]
    newer = Autoscalers().at_once(_copy(obj), "autoscaling/v2")
    assert (newer["spec"]["metrics"], newer["metadata"]) == (metrics, {"name": "a"})


def test_use_without_an_amount_is_one_of_cpu() -> None:
    newer = Autoscalers().at_once(_old(80, {"currentCPUUtilizationPercentage": 30}), "autoscaling/v2")
    current = {"name": "cpu", "current": {"averageUtilization": 30}}
    assert newer["status"]["currentMetrics"] == [{"type": "Resource", "resource": current}]


def test_other_versions_are_refused() -> None:
    with pytest.raises(ConversionError, match="not served in autoscaling/v3"):
        Autoscalers().at_once(_old(), "autoscaling/v3")


def test_what_is_written_is_what_is_read() -> None:
    """With the defaults of v2, without annotations that say nothing, and with no amount that nobody has measured."""
    obj = _old(None, {"currentCPUUtilizationPercentage": 30}, metrics="x", scale_up_tolerance="1", behavior='{"scaleUp":{}}')
    normalize(obj)
    assert obj["spec"]["targetCPUUtilizationPercentage"] == 80
    assert obj["metadata"]["annotations"].keys() == {f"{_PREFIX}behavior"}
    assert '"SelectPolicy":"Max"' in obj["metadata"]["annotations"][f"{_PREFIX}behavior"]
    again = _copy(obj)
    normalize(again)
    assert again == obj


def test_spec_and_status_stay_apart() -> None:
    old = _old(80, metrics=_PODS_TEXT, conditions="[]")
    obj = _old(80, conditions="[1]", current_metrics="[]")
    keep_status(obj, old, "")
    assert obj == _old(80, conditions="[]")
    keep_spec(obj, old, "")
    assert obj == old
    drop_status(obj, "")
    assert obj["metadata"] == _old(metrics=_PODS_TEXT)["metadata"]
    assert "status" not in obj
    drop_annotations(obj)
    assert obj["metadata"] == {"name": "a"}


def _copy(obj: Any) -> Any:
    return {**obj, "metadata": dict(obj["metadata"]), "spec": dict(obj["spec"]), "status": dict(obj["status"])}
