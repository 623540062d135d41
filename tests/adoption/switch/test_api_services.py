from __future__ import annotations

import base64
from typing import Any

import pytest

from aggserver.adoption.switch.api_services import OurService, Owner, owner, to_us
from aggserver.apiextensions.api_service import Service, api_service

GROUP_VERSION = ("a.io", "v1")
TARGET = OurService(Service("agg", "aggserver", 8443), "one", b"ca")
AUTO = "kube-aggregator.kubernetes.io/automanaged"


def local(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """As kube-apiserver makes it."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": "v1.a.io",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {AUTO: "true"} if labels is None else labels,
        },
        "spec": {"group": "a.io", "version": "v1", "groupPriorityMinimum": 2100, "versionPriority": 11, **spec},
        "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Local"}]},
    }


def ours(**changes: Any) -> dict[str, Any]:
    return to_us(local(), GROUP_VERSION, TARGET) | changes


def metadata(**changes: Any) -> dict[str, Any]:
    return {"metadata": ours()["metadata"] | changes}


ELSEWHERE = {"namespace": "other", "name": "aggserver", "port": 443}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(local(), (Owner.HOST, ""), id="kube-apiserver's"),
        pytest.param(local(service=ELSEWHERE), (Owner.HOST, ""), id="edited, and about to be corrected"),
        pytest.param(ours(), (Owner.OURS, ""), id="ours"),
        pytest.param(
            ours(spec=ours()["spec"] | {"service": {"namespace": "agg", "name": "aggserver", "port": 1}, "caBundle": "b2xk"}),
            (Owner.OURS, ""),
            id="ours, with another port and an old CA",
        ),
        pytest.param(
            local({AUTO: "onstart"}), (Owner.OTHER, "of a group that is built into kube-apiserver"), id="of a built-in group"
        ),
        pytest.param(
            local({}),
            (Owner.OTHER, f"served by kube-apiserver, but somebody has removed its label {AUTO}"),
            id="without the label",
        ),
        pytest.param(local({}, service=ELSEWHERE), (Owner.OTHER, "served by the Service other/aggserver"), id="somebody's"),
        pytest.param(
            ours(spec=ours()["spec"] | {"service": ELSEWHERE}),
            (Owner.OTHER, "served by the Service other/aggserver"),
            id="ours, pointed elsewhere",
        ),
        pytest.param(
            api_service("a.io", "v1", 100, TARGET.service, b"ca"),
            (
                Owner.OTHER,
                "served by this server, but not adopted: it has no label app.kubernetes.io/managed-by=aggserver-adoption",
            ),
            id="registered for a definition of this server",
        ),
        pytest.param(
            ours(**metadata(annotations={"aggserver.io/installation": "two"})),
            (Owner.OTHER, "adopted by the installation 'two', and this one is 'one'"),
            id="another installation's",
        ),
        pytest.param(
            ours(**metadata(annotations={})),
            (Owner.OTHER, "adopted by the installation '', and this one is 'one'"),
            id="without an installation",
        ),
    ],
)
def test_owner(found: dict[str, Any], expected: tuple[Owner, str]) -> None:
    assert owner(found, TARGET) == expected


def test_to_us_keeps_the_place_in_discovery() -> None:
    found = local(insecureSkipTLSVerify=True)
    found["metadata"]["labels"] |= {"theirs": "kept"}
    found["metadata"]["annotations"] = {"theirs": "kept"}
    made = to_us(found, GROUP_VERSION, TARGET)
    assert made["metadata"] == {
        "name": "v1.a.io",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"app.kubernetes.io/managed-by": "aggserver-adoption", "theirs": "kept"},
        "annotations": {"aggserver.io/installation": "one", "theirs": "kept"},
    }
    assert made["spec"] == {
        "group": "a.io",
        "version": "v1",
        "groupPriorityMinimum": 2100,
        "versionPriority": 11,
        "service": {"namespace": "agg", "name": "aggserver", "port": 8443},
        "caBundle": base64.b64encode(b"ca").decode(),
    }
    assert to_us(made, GROUP_VERSION, TARGET) == made


def test_to_us_without_one_that_was_there() -> None:
    made = to_us(None, GROUP_VERSION, TARGET)
    assert (made["apiVersion"], made["kind"]) == ("apiregistration.k8s.io/v1", "APIService")
    assert made["metadata"] == {
        "name": "v1.a.io",
        "labels": ours()["metadata"]["labels"],
        "annotations": ours()["metadata"]["annotations"],
    }
    # As kube-apiserver gives to groups of CRDs.
    assert (made["spec"]["groupPriorityMinimum"], made["spec"]["versionPriority"]) == (1000, 100)
    assert owner(made, TARGET) == (Owner.OURS, "")
