"""What a Job's podFailurePolicy says of a failed Pod, and whether its successPolicy is met.

Pure. Source: k8s.io/kubernetes pkg/controller/job/{pod_failure_policy,success_policy}.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from aggserver.controllers.workloads.completion_indexes import CompletionIndexes
from aggserver.meta.json_types import JSONMapping

__all__ = ["COUNT", "Failure", "failure_of", "success_of"]

COUNT = "Count"


class Failure(NamedTuple):
    """action: Count, Ignore, FailIndex or FailJob. message: why the Job fails, for FailJob."""

    action: str
    message: str = ""


def failure_of(policy: JSONMapping | None, pod: JSONMapping) -> Failure:
    """What the first rule that matches a failed Pod does with it. policy: None for a Job without one."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    name = f"{metadata['namespace']}/{metadata['name']}"
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        action = rule["action"]
        if rule.get("onExitCodes"):
            if (container := next(_exits(status, rule["onExitCodes"]), None)) is None:
                continue
            code = container["state"]["terminated"]["exitCode"]
            text = f"Container {container['name']} for pod {name} failed with exit code {code}"
        else:
            wanted = {(each["type"], each["status"]) for each in rule.get("onPodConditions") or ()}
            conditions = (each["type"] for each in status.get("conditions") or () if (each["type"], each["status"]) in wanted)
            if (condition := next(conditions, None)) is None:
                continue
            text = f"Pod {name} has condition {condition}"
        return Failure(action, f"{text} matching {action} rule at index {number}" if action == "FailJob" else "")
    return Failure(COUNT)


def _exits(status: JSONMapping, wanted: JSONMapping) -> Iterator[JSONMapping]:
    """The containers that have ended with an exit code that a rule means."""
    for member in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(member) or ():
            code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
            is_named = wanted.get("containerName") in (None, container["name"])
            if code and is_named and (code in (wanted.get("values") or ())) == (wanted["operator"] == "In"):
                yield container


def success_of(policy: JSONMapping | None, completions: int, succeeded: CompletionIndexes) -> str:
    """Why the Job is complete, '' if it is not. policy: None for a Job without one."""
    for number, rule in enumerate((policy or {}).get("rules") or ()) if succeeded.intervals else ():
        count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
        if text is None:
            is_met = count is not None and succeeded.total >= count
        else:
            required = CompletionIndexes.parse(text, completions)
            met = (required & succeeded).total
            is_met = bool(required.intervals) and (met == required.total or (count is not None and met >= count))
        if is_met:
            return f"Matched rules at index {number}"
    return ""
