"""Strategies: what a write through an endpoint changes, by single kinds."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.kinds.catalog import KINDS
from aggserver.kinds.pods import EphemeralContainersStrategy, ResizeStrategy
from aggserver.kinds.strategy import KindStatusStrategy, KindStrategy
from aggserver.kinds.subresources import ApprovalStrategy
from aggserver.registry.rest import Context

NOW = "2026-01-02T03:04:05Z"
CONTEXT = Context(UserInfo("someone", groups=("some",)))
BY_NAME = {kind.name: kind for kind in reversed(KINDS)}


def _new(name: str, **members: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {"metadata": {"name": "a", "uid": "u"}, **members}
    strategy = KindStrategy(BY_NAME[name])
    strategy.conform(obj)
    strategy.prepare_for_create(obj, CONTEXT, NOW)
    return obj


def _changed(strategy: KindStrategy, old: dict[str, Any], **members: Any) -> dict[str, Any]:
    obj = {**old, **members, "metadata": {**old["metadata"], **members.get("metadata", {})}}
    strategy.conform(obj)
    strategy.prepare_for_update(obj, old, NOW)
    return obj


def test_a_new_object_has_no_status_of_the_client() -> None:
    deployment = _new("Deployment", spec={"template": {"spec": {}}}, status={"replicas": 3})
    assert deployment["status"] == {}
    assert deployment["metadata"]["generation"] == 1
    assert _new("Node", status={"phase": "Running"})["status"]["phase"] == "Running"


def test_generation() -> None:
    strategy = KindStrategy(BY_NAME["Deployment"])
    old = _new("Deployment", spec={"template": {"spec": {}}})
    assert _changed(strategy, old, metadata={"labels": {"a": "b"}})["metadata"]["generation"] == 1
    assert _changed(strategy, old, metadata={"annotations": {"a": "b"}})["metadata"]["generation"] == 2
    assert _changed(strategy, old, spec={**old["spec"], "paused": True})["metadata"]["generation"] == 2
    assert "generation" not in _new("ConfigMap")["metadata"]


def test_status_changes_nothing_else() -> None:
    old = _new("Deployment", spec={"replicas": 1, "template": {"spec": {}}})
    spec = {**old["spec"], "replicas": 5}
    new = _changed(
        KindStatusStrategy(BY_NAME["Deployment"]), old, spec=spec, status={"replicas": 1}, metadata={"labels": {"a": "b"}}
    )
    assert (new["spec"], new["status"]) == (old["spec"], {"replicas": 1})
    assert "labels" not in new["metadata"]
    kept = _changed(KindStrategy(BY_NAME["Deployment"]), new, status={})
    assert kept["status"] == {"replicas": 1}


def test_a_signing_request_says_who_asks() -> None:
    request = _new("CertificateSigningRequest", spec={"username": "admin", "request": "", "signerName": "s"})
    assert (request["spec"]["username"], request["spec"]["groups"]) == ("someone", ["some"])
    approved = [{"type": "Approved", "status": "True"}]
    judged = _changed(
        ApprovalStrategy(BY_NAME["CertificateSigningRequest"]), request, status={"conditions": approved, "certificate": "eA=="}
    )
    assert judged["status"] == {"conditions": [{**approved[0], "lastUpdateTime": NOW, "lastTransitionTime": NOW}]}
    status = {**judged["status"], "certificate": "eA=="}
    issued = _changed(KindStatusStrategy(BY_NAME["CertificateSigningRequest"]), judged, status=status)
    assert issued["status"] == {**judged["status"], "certificate": "eA=="}


def test_parts_of_a_pod() -> None:
    kind = BY_NAME["Pod"]
    old = _new("Pod", spec={"containers": [{"name": "c", "image": "i"}]})
    debugged = {**old["spec"], "nodeName": "n", "ephemeralContainers": [{"name": "e", "image": "i"}]}
    new = _changed(EphemeralContainersStrategy(kind), old, spec=debugged, metadata={"labels": {"a": "b"}})
    assert [each["name"] for each in new["spec"]["ephemeralContainers"]] == ["e"]
    assert "nodeName" not in new["spec"]
    assert "labels" not in new["metadata"]
    assert new["metadata"]["generation"] == 2
    resources = {"requests": {"cpu": "1"}}
    container = {**old["spec"]["containers"][0], "image": "other", "resources": resources}
    resized = _changed(ResizeStrategy(kind), old, spec={**old["spec"], "containers": [container]})
    assert resized["spec"]["containers"] == [{**old["spec"]["containers"][0], "resources": resources}]


@pytest.mark.parametrize(
    ("pod", "seconds", "wanted"),
    [
        ({"spec": {}}, None, 0),
        ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}, None, 30),
        ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}, 5, 5),
        ({"spec": {"nodeName": "n"}}, -1, 1),
        ({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}, 10, 0),
    ],
)
def test_grace_period(pod: dict[str, Any], seconds: int | None, wanted: int) -> None:
    assert KindStrategy(BY_NAME["Pod"]).grace_period(pod, seconds) == wanted
    assert KindStrategy(BY_NAME["ConfigMap"]).grace_period(pod, seconds) is None
