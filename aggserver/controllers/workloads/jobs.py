"""Plans for Jobs.

Pure. Source: k8s.io/kubernetes pkg/controller/job/{job_controller,indexed_job_utils}.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from aggserver.controllers.workloads.completion_indexes import CompletionIndexes
from aggserver.controllers.workloads.job_policies import Failure, failure_of, success_of
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
# How often an index has failed before a Pod was made for it: counted, and ignored by the policy.
_COUNTED, _IGNORED = "batch.kubernetes.io/job-index-failure-count", "batch.kubernetes.io/job-index-ignored-failure-count"


class _End(NamedTuple):
    """How a Job ends. target, condition: the conditions before and after its Pods are gone."""

    target: str
    condition: str
    reason: str
    message: str


@dataclass(slots=True)
class _Pods:
    """The Pods of a Job. failures: of the failed ones, by what the policy says. done, lost: indexes, of Indexed Jobs."""

    active: list[JSONObject]
    succeeded: int
    failures: list[tuple[JSONObject, Failure]]
    done: CompletionIndexes
    lost: CompletionIndexes

    @property
    def failed(self) -> int:
        """How many failures count."""
        return sum(failure.action != "Ignore" for _, failure in self.failures)


def job(owner: JSONObject, pods: Sequence[JSONObject], now: float) -> Plan:
    """The plan for a Job. now: seconds since the epoch."""
    spec, status, plan, stamp = owner["spec"], owner.get("status") or {}, Plan(), times.format_time(now)
    if (spec.get("managedBy") or _CONTROLLER) != _CONTROLLER:
        return plan
    conditions = status.get("conditions") or ()
    if any(entry["type"] in ("Complete", "Failed") and entry["status"] == "True" for entry in conditions):
        return plan
    known, completions = _sorted(owner, pods), spec.get("completions")
    active, wanted = known.active, completions if completions is not None else 1
    # Pods that are gone still count, as upstream, which counts each Pod before it is removed.
    counts = {
        "succeeded": known.done.total if _is_indexed(spec) else max(known.succeeded, status.get("succeeded", 0)),
        "failed": max(known.failed, status.get("failed", 0)),
    }
    was_suspended = any(entry["type"] == "Suspended" and entry["status"] == "True" for entry in conditions)
    # The time of a suspended Job does not count: it begins anew when the Job is resumed.
    started = None if was_suspended else status.get("startTime")
    left = None
    if spec.get("activeDeadlineSeconds") is not None and not spec.get("suspend"):
        since = times.parse_frequent_time(started) if started else now
        left = since + spec["activeDeadlineSeconds"] - now
    found: dict[str, tuple[str, str, str]] = {}
    end = _end(spec, known, counts["failed"], is_late=left is not None and left <= 0 and bool(started))
    if end is not None:
        plan.delete = active
    elif spec.get("suspend"):
        plan.delete = active
        found["Suspended"] = ("True", "JobSuspended", "Job suspended")
    elif counts["succeeded"] >= wanted and (completions is not None or not active):
        plan.delete = active
        text = "Reached expected number of succeeded pods"
        end = _End("SuccessCriteriaMet", "Complete", "CompletionsReached", text)
    else:
        if was_suspended:
            found["Suspended"] = ("False", "JobResumed", "Job resumed")
        most = spec.get("parallelism", 1)
        if completions is not None:
            most = min(most, wanted - counts["succeeded"])
        elif counts["succeeded"]:
            most = len(active)  # the others may end, and then it is complete
        missing = most - len(active)
        if spec.get("podReplacementPolicy") == "Failed" and missing > 0:
            missing -= terminating(pods)
        plan.create = _pods(owner, known, missing)
        plan.delete = active[missing:] if missing < 0 else []
        plan.again = left
    if end is not None:
        found[end.target] = found[end.condition] = ("True", end.reason, end.message)
        if end.condition == "Failed":
            counts["failed"] += len(plan.delete)  # they have failed, too
    plan.status = {
        **without_zeros(active=len(active) - len(plan.delete), **counts),
        "ready": 0 if plan.delete else sum(map(is_ready, active)),
        "uncountedTerminatedPods": {},
        "terminating": terminating(pods),
        "conditions": merged_conditions(conditions, found, stamp) or None,
    }
    if _is_indexed(spec):
        plan.status["completedIndexes"] = str(known.done) or None
        if "backoffLimitPerIndex" in spec:
            plan.status["failedIndexes"] = str(known.lost)
    if not spec.get("suspend") and not started:
        plan.status["startTime"] = stamp
    elif "Suspended" in found and found["Suspended"][0] == "True":
        plan.status["startTime"] = None
    if end is not None and end.condition == "Complete":
        plan.status["completionTime"] = stamp
    return plan


def _is_indexed(spec: JSONObject) -> bool:
    return spec.get("completionMode") == "Indexed"


def _sorted(owner: JSONObject, pods: Sequence[JSONObject]) -> _Pods:
    spec, status = owner["spec"], owner.get("status") or {}
    by_phase: dict[str, list[JSONObject]] = {"Succeeded": [], "Failed": []}
    for pod in pods:
        by_phase.setdefault((pod.get("status") or {}).get("phase", ""), []).append(pod)
    failures = [(pod, failure_of(spec.get("podFailurePolicy"), pod)) for pod in by_phase["Failed"]]
    found = _Pods(
        [pod for pod in pods if is_active(pod)], len(by_phase["Succeeded"]), failures, CompletionIndexes(), CompletionIndexes()
    )
    if _is_indexed(spec):
        below = spec["completions"]
        found.done = CompletionIndexes.parse(status.get("completedIndexes") or "", below) | _indexes(by_phase["Succeeded"], below)
        limit = spec.get("backoffLimitPerIndex")
        if limit is not None:
            lost = [
                pod
                for pod, failure in failures
                if failure.action == "FailIndex" or (failure.action != "Ignore" and _number(pod, _COUNTED) >= limit)
            ]
            found.lost = CompletionIndexes.parse(status.get("failedIndexes") or "", below) | _indexes(lost, below)
    return found


def _end(spec: JSONObject, pods: _Pods, failed: int, *, is_late: bool) -> _End | None:
    """How the Job ends before it has all that it needs; None if it does not."""
    message = next((failure.message for _, failure in pods.failures if failure.message), "")
    if message:
        return _End("FailureTarget", "Failed", "PodFailurePolicy", message)
    if failed > spec.get("backoffLimit", _FAILURES):
        return _End("FailureTarget", "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if is_late:
        return _End("FailureTarget", "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    if not _is_indexed(spec):
        return None
    lost, most = pods.lost.total, spec.get("maxFailedIndexes")
    if most is not None and lost > most:
        text = "Job has exceeded the specified maximal number of failed indexes"
        return _End("FailureTarget", "Failed", "MaxFailedIndexesExceeded", text)
    if lost and lost + pods.done.total >= spec["completions"]:
        return _End("FailureTarget", "Failed", "FailedIndexes", "Job has failed indexes")
    if message := success_of(spec.get("successPolicy"), spec["completions"], pods.done):
        return _End("SuccessCriteriaMet", "Complete", "SuccessPolicy", message)
    return None


def _pods(owner: JSONObject, known: _Pods, count: int) -> list[JSONObject]:
    spec, most = owner["spec"], burst(len(known.active) + known.succeeded)
    if not _is_indexed(spec):
        return [pod_from(owner, spec["template"]) for _ in range(min(count, most))]
    taken = known.done | known.lost | _indexes(known.active, spec["completions"])
    template = {**spec["template"], "spec": _with_index(spec["template"]["spec"])}
    failures = _failures(known) if "backoffLimitPerIndex" in spec else None
    pods = []
    for number in islice(taken.others(spec["completions"]), max(min(count, most), 0)):
        pods.append(pod_from(owner, template, index=str(number)))
        pods[-1]["spec"]["hostname"] = f"{owner['metadata']['name']}-{number}"
        if failures is not None:
            counted, ignored = failures.get(number, (0, 0))
            annotations = pods[-1]["metadata"]["annotations"]
            annotations[_COUNTED] = str(counted)
            if ignored:
                annotations[_IGNORED] = str(ignored)
    return pods


def _failures(known: _Pods) -> Mapping[int, tuple[int, int]]:
    """How often each index has failed: counted, and ignored."""
    found: dict[int, tuple[int, int]] = {}
    for pod, failure in known.failures:
        counted, ignored = found.get(_number(pod, INDEX), (0, 0))
        is_ignored = failure.action == "Ignore"
        before = _number(pod, _COUNTED, 0) + (not is_ignored), _number(pod, _IGNORED, 0) + is_ignored
        found[_number(pod, INDEX)] = max(counted, before[0]), max(ignored, before[1])
    return found


def _number(pod: JSONObject, annotation: str, otherwise: int = -1) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else otherwise


def _indexes(pods: Sequence[JSONObject], below: int) -> CompletionIndexes:
    return CompletionIndexes.of(number for pod in pods if 0 <= (number := _number(pod, INDEX)) < below)


def _with_index(spec: JSONObject) -> JSONObject:
    """The PodSpec whose containers have the completion index, which is a label of their Pod, in a variable."""
    variable = {"name": _VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}

    def indexed(container: JSONObject) -> JSONObject:
        known = container.get("env") or ()
        return container if any(each["name"] == _VARIABLE for each in known) else {**container, "env": [*known, variable]}

    lists = {name: list(map(indexed, spec[name])) for name in ("initContainers", "containers") if spec.get(name)}
    return {**spec, **lists}
