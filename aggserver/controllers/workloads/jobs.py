"""Plans for Jobs.

Pure. Source: k8s.io/kubernetes pkg/controller/job/job_controller.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from aggserver.controllers.workloads.plan import (
    INDEX,
    Plan,
    burst,
    is_active,
    is_ready,
    merged_conditions,
    pod_from,
    terminating,
    without_zeros,
)
from aggserver.meta import times
from aggserver.meta.json_types import JSONObject

__all__ = ["job"]

_CONTROLLER = "kubernetes.io/job-controller"
_FAILURES = 6
_VARIABLE = "JOB_COMPLETION_INDEX"


def job(owner: JSONObject, pods: Sequence[JSONObject], now: float) -> Plan:
    """The plan for a Job. now: seconds since the epoch."""
    spec, status, plan, stamp = owner["spec"], owner.get("status") or {}, Plan(), times.format_time(now)
    if (spec.get("managedBy") or _CONTROLLER) != _CONTROLLER:
        return plan
    conditions = status.get("conditions") or ()
    if any(entry["type"] in ("Complete", "Failed") and entry["status"] == "True" for entry in conditions):
        return plan
    succeeded = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Succeeded"]
    failed = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Failed"]
    active = [pod for pod in pods if is_active(pod)]
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    wanted = completions if completions is not None else 1  # without completions, one success is enough
    # Pods that are gone still count, as upstream, which counts each Pod before it is removed.
    counts = {"succeeded": max(len(succeeded), status.get("succeeded", 0)), "failed": max(len(failed), status.get("failed", 0))}
    is_complete = counts["succeeded"] >= wanted
    was_suspended = any(entry["type"] == "Suspended" and entry["status"] == "True" for entry in conditions)
    # The time of a suspended Job does not count: it begins anew when the Job is resumed.
    started = None if was_suspended else status.get("startTime")
    left = None
    if spec.get("activeDeadlineSeconds") is not None:
        since = times.parse_frequent_time(started) if started else now
        left = since + spec["activeDeadlineSeconds"] - now
    found: dict[str, tuple[str, str, str]] = {}
    if spec.get("suspend"):
        plan.delete = active
        found["Suspended"] = ("True", "JobSuspended", "Job suspended")
    elif counts["failed"] > spec.get("backoffLimit", _FAILURES):
        plan.delete = active
        text = "Job has reached the specified backoff limit"
        found["FailureTarget"] = found["Failed"] = ("True", "BackoffLimitExceeded", text)
    elif left is not None and left <= 0 and started:
        plan.delete = active
        text = "Job was active longer than specified deadline"
        found["FailureTarget"] = found["Failed"] = ("True", "DeadlineExceeded", text)
    elif is_complete:
        plan.delete = active
        text = "Reached expected number of succeeded pods"
        found["SuccessCriteriaMet"] = found["Complete"] = ("True", "CompletionsReached", text)
    else:
        if was_suspended:
            found["Suspended"] = ("False", "JobResumed", "Job resumed")
        missing = min(parallelism, wanted - counts["succeeded"] if completions is not None else parallelism) - len(active)
        plan.create = _pods(owner, [*succeeded, *active], missing)
        plan.delete = active[missing:] if missing < 0 else []
        plan.again = left
    if "Failed" in found:
        counts["failed"] += len(plan.delete)  # they have failed, too
    plan.status = {
        **without_zeros(active=len(active) - len(plan.delete), **counts),
        "ready": 0 if plan.delete else sum(map(is_ready, active)),
        "uncountedTerminatedPods": {},
        "terminating": terminating(pods),
        "conditions": merged_conditions(conditions, found, stamp, with_probes=True) or None,
    }
    if not spec.get("suspend") and not started:
        plan.status["startTime"] = stamp
    elif "Suspended" in found and found["Suspended"][0] == "True":
        plan.status["startTime"] = None
    if "Complete" in found:
        plan.status["completionTime"] = stamp
        if spec.get("completionMode") == "Indexed" and wanted:
            plan.status["completedIndexes"] = f"0-{wanted - 1}" if wanted > 1 else "0"
    return plan


def _pods(owner: JSONObject, present: Sequence[JSONObject], count: int) -> list[JSONObject]:
    template, most = owner["spec"]["template"], burst(len(present))
    if owner["spec"].get("completionMode") != "Indexed":
        return [pod_from(owner, template) for _ in range(min(count, most))]
    taken = {(pod["metadata"].get("annotations") or {}).get(INDEX) for pod in present}
    free = (index for index in map(str, range(owner["spec"]["completions"])) if index not in taken)
    template = {**template, "spec": _with_index(template["spec"])}
    pods = []
    for index in islice(free, max(min(count, most), 0)):
        pods.append(pod_from(owner, template, index=index))
        pods[-1]["spec"]["hostname"] = f"{owner['metadata']['name']}-{index}"
    return pods


def _with_index(spec: JSONObject) -> JSONObject:
    """The PodSpec whose containers have the completion index, which is a label of their Pod, in a variable."""
    variable = {"name": _VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}

    def indexed(container: JSONObject) -> JSONObject:
        known = container.get("env") or ()
        return container if any(each["name"] == _VARIABLE for each in known) else {**container, "env": [*known, variable]}

    lists = {name: list(map(indexed, spec[name])) for name in ("initContainers", "containers") if spec.get(name)}
    return {**spec, **lists}
