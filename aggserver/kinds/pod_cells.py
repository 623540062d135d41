"""The cells of a Pod in a table: its status in a word is derived from its phase, its conditions and the states of its containers.

Pure. Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go (printPod), v1.36.3.
"""

from __future__ import annotations

from typing import Any

from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.publish.table import Timed, since

__all__ = ["readiness_gates", "ready", "restarts", "row_conditions", "status"]

_ENDED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def row_conditions(pod: JSONMapping) -> list[JSONObject] | None:
    """The condition Completed of a row, by which clients may leave out ended Pods; None for others."""
    phase = _status(pod).get("phase", "")
    if phase not in _ENDED:
        return None
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


def ready(pod: JSONMapping) -> str:
    """Ready containers of all that keep running (with restartable init containers): `1/2`."""
    total = len(_spec(pod).get("containers") or ()) + len(_restarted(pod))
    begun, _ = _init_reason(pod)
    count = _ready_init_containers(pod)
    if begun:
        count += sum(1 for each in _containers(pod) if not _waits(each) and _is_running(each))
    return f"{count}/{total}"


def restarts(pod: JSONMapping) -> Any:
    """The number of restarts, and how long ago the last one was: `0`, `3 (5m ago)`."""
    begun, _ = _init_reason(pod)
    counted = _init_containers(pod)[: _failing(pod) + 1]
    if begun:
        names = _restarted(pod)
        counted = [each for each in counted if each.get("name") in names] + _containers(pod)
    number = sum(each.get("restartCount", 0) for each in counted)
    ends = [since(at) for each in counted if (at := _terminated(each.get("lastState")).get("finishedAt"))]
    last = max((at for at in ends if isinstance(at, float)), default=None)
    if not number or last is None:
        return str(number)
    return Timed(last, lambda age: f"{number} ({age} ago)")


def status(pod: JSONMapping) -> str:
    """The phase, or a more specific reason: `ContainerCreating`, `Init:0/1`, `CrashLoopBackOff`, `Terminating`."""
    given = _status(pod)
    phase = given.get("phase", "")
    begun, init_reason = _init_reason(pod)
    reason = init_reason or _gated(given) or given.get("reason") or phase
    if begun:
        reason = _running_reason(pod, reason)
    if "deletionTimestamp" in pod["metadata"]:
        if given.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in _ENDED:
            return "Terminating"
    return str(reason)


def readiness_gates(pod: JSONMapping) -> str:
    """Readiness gates whose condition is true, of all: `1/2`."""
    gates = _spec(pod).get("readinessGates") or ()
    if not gates:
        return "<none>"
    true = sum(1 for gate in gates if _condition(pod, gate.get("conditionType")).get("status") == "True")
    return f"{true}/{len(gates)}"


def _gated(given: JSONMapping) -> str:
    gated = any(_is(each, type="PodScheduled", reason="SchedulingGated") for each in given.get("conditions") or ())
    return "SchedulingGated" if gated else ""


# --- init containers ---


def _failing(pod: JSONMapping) -> int:
    """The index of the first init container for which the others have to wait; the number of init containers if there is none."""
    names = _restarted(pod)
    found = _init_containers(pod)
    for index, each in enumerate(found):
        ended = _state(each).get("terminated")
        is_done = ended is not None and not ended.get("exitCode")
        if not is_done and not (each.get("name") in names and each.get("started")):
            return index
    return len(found)


def _init_reason(pod: JSONMapping) -> tuple[bool, str]:
    """(whether the containers have started, why the init containers are not done; '' if they are)."""
    index, found = _failing(pod), _init_containers(pod)
    if index == len(found):
        return True, ""
    state = _state(found[index])
    ended, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason", "")
    if ended is not None:
        reason = _end_reason(ended)
    elif waiting and waiting != "PodInitializing":
        reason = waiting
    else:
        reason = f"{index}/{len(_spec(pod).get('initContainers') or ())}"
    return _condition(pod, "Initialized").get("status") == "True", f"Init:{reason}"


def _ready_init_containers(pod: JSONMapping) -> int:
    """The number of ready restartable init containers, up to the first one for which the others have to wait."""
    names = _restarted(pod)
    passed = _init_containers(pod)[: _failing(pod)]
    return sum(1 for each in passed if each.get("name") in names and each.get("ready") and not _has_succeeded(each))


def _has_succeeded(container: JSONMapping) -> bool:
    ended = _state(container).get("terminated")
    return ended is not None and not ended.get("exitCode")


# --- containers ---


def _running_reason(pod: JSONMapping, reason: str) -> str:
    """The reason of the first container that waits or has ended. If it is Completed, other failures or running ones count."""
    running, failure = False, ""
    for each in reversed(_containers(pod)):
        state = _state(each)
        ended, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason", "")
        if waiting:
            reason = waiting
        elif ended is not None:
            reason = _end_reason(ended)
            if ended.get("exitCode"):
                failure = reason
        elif _is_running(each):
            running = True
    if reason != "Completed":
        return reason
    if running and any(_is(each, type="Ready", status="True") for each in _status(pod).get("conditions") or ()):
        return "Running"
    return failure or ("NotReady" if running else reason)


def _end_reason(ended: JSONMapping) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _waits(container: JSONMapping) -> bool:
    """Whether the container waits, or has ended."""
    state = _state(container)
    return bool((state.get("waiting") or {}).get("reason")) or state.get("terminated") is not None


def _is_running(container: JSONMapping) -> bool:
    return bool(container.get("ready")) and _state(container).get("running") is not None


# --- members ---


def _spec(pod: JSONMapping) -> JSONMapping:
    return pod.get("spec") or {}


def _status(pod: JSONMapping) -> JSONMapping:
    return pod.get("status") or {}


def _containers(pod: JSONMapping) -> list[JSONMapping]:
    return _status(pod).get("containerStatuses") or []


def _init_containers(pod: JSONMapping) -> list[JSONMapping]:
    return _status(pod).get("initContainerStatuses") or []


def _restarted(pod: JSONMapping) -> list[str]:
    """The names of restartable init containers, which keep running beside the others."""
    return [each.get("name", "") for each in _spec(pod).get("initContainers") or () if each.get("restartPolicy") == "Always"]


def _state(container: JSONMapping) -> JSONMapping:
    return container.get("state") or {}


def _terminated(state: JSONMapping | None) -> JSONMapping:
    return (state or {}).get("terminated") or {}


def _condition(pod: JSONMapping, kind: Any) -> JSONMapping:
    return next((each for each in _status(pod).get("conditions") or () if each.get("type") == kind), {})


def _is(condition: JSONMapping, **members: str) -> bool:
    return all(condition.get(name) == value for name, value in members.items())
