"""What becomes of an object of a built-in kind when it is decoded."""

from __future__ import annotations

import pytest

from aggserver.meta.errors import StatusError
from aggserver.registry.own_kinds import conformer


def test_unknown_fields_are_told_and_zeros_written() -> None:
    obj = {"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "x": 1}, "y": 2}
    assert conformer("autoscaling/v2.HorizontalPodAutoscaler")(obj) == ["spec.x", "y"]
    assert obj == {
        "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": {"kind": "", "name": ""}, "maxReplicas": 3},
        "status": {"desiredReplicas": 0, "currentMetrics": None},
    }


@pytest.mark.parametrize(
    ("type_name", "obj", "message"),
    [
        (
            "autoscaling/v2.HorizontalPodAutoscaler",
            {"spec": {"maxReplicas": "3"}},
            'HorizontalPodAutoscaler in version "v2" cannot be handled as a HorizontalPodAutoscaler:'
            " json: cannot unmarshal string into Go struct field HorizontalPodAutoscalerSpec.spec.maxReplicas of type int32",
        ),
        (
            "core/v1.Secret",
            {"data": {"a": "x"}},
            'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 0',
        ),
        (
            "core/v1.Service",
            {"spec": {"ports": [{"port": 1, "targetPort": True}]}},
            'Service in version "v1" cannot be handled as a Service: json: cannot unmarshal bool into Go struct field'
            " ServicePort.spec.ports.targetPort of type int32",
        ),
        (
            "core/v1.Pod",
            {"spec": {"overhead": {"cpu": "x"}}},
            'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression'
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_wrong_types_are_refused(type_name: str, obj: dict[str, object], message: str) -> None:
    with pytest.raises(StatusError) as raised:
        conformer(type_name)(obj)
    assert raised.value.status()["message"] == message
