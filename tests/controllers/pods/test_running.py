"""The status of Pods that are shown as running."""

from __future__ import annotations

from typing import Any

from aggserver.controllers.pods import running as running_pods

NOW, EARLIER = "2026-01-02T03:04:05Z", "2026-01-02T03:00:00Z"


def bound(**spec: Any) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": EARLIER}
    return {
        "metadata": {"name": "a", "uid": "1"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
        "status": {"phase": "Pending", "conditions": [scheduled], "qosClass": "BestEffort"},
    }


def test_a_running_pod() -> None:
    status = running_pods.running(bound(initContainers=[{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]), NOW)
    assert (status["phase"], status["qosClass"], status["startTime"]) == ("Running", "BestEffort", NOW)
    conditions = {entry["type"]: (entry["status"], entry["lastTransitionTime"]) for entry in status["conditions"]}
    assert conditions["PodScheduled"] == ("True", EARLIER)
    assert conditions["Ready"] == conditions["ContainersReady"] == conditions["Initialized"] == ("True", NOW)
    (container,) = status["containerStatuses"]
    assert (container["ready"], container["state"]) == (True, {"running": {"startedAt": NOW}})
    assert [next(iter(each["state"])) for each in status["initContainerStatuses"]] == ["terminated", "running"]


def test_readiness_gates() -> None:
    waiting = bound(readinessGates=[{"conditionType": "example.com/up"}])

    def ready(pod: dict[str, Any]) -> str:
        return next(entry["status"] for entry in running_pods.running(pod, NOW)["conditions"] if entry["type"] == "Ready")

    assert ready(waiting) == "False"
    waiting["status"]["conditions"].append({"type": "example.com/up", "status": "True"})
    assert ready(waiting) == "True"


def test_a_completed_pod() -> None:
    pod = bound()
    status = running_pods.completed({**pod, "status": running_pods.running(pod, EARLIER)}, NOW)
    assert status["phase"] == "Succeeded"
    (container,) = status["containerStatuses"]
    assert container["state"]["terminated"] == {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": EARLIER,
        "finishedAt": NOW,
    }
    ready = next(entry for entry in status["conditions"] if entry["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")
