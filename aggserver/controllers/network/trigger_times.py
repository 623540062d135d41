"""TriggerTimes: since when a Service has other endpoints, for the annotation endpoints.kubernetes.io/last-change-trigger-time.

Pure. Source: k8s.io/endpointslice util/trigger_time_tracker.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aggserver.controllers.pod_facts import Pod
from aggserver.meta.json_types import JSONObject

__all__ = ["ANNOTATION", "TriggerTimes"]

ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"


class TriggerTimes:
    """Times are RFC 3339 in UTC, and so compare as texts."""

    def __init__(self) -> None:
        # By the key of a Service: when it was created, and since when each of its Pods is, or is not, ready.
        self._known: dict[str, tuple[str, Mapping[str, str]]] = {}

    def changed(self, key: str, service: JSONObject, pods: Iterable[Pod]) -> str:
        """The earliest time of what has changed since the last call for the Service; '' if nothing has."""
        created: str = service["metadata"].get("creationTimestamp") or ""
        since = {pod.name: pod.ready_since for pod in pods if pod.ready_since}
        before = self._known.get(key)
        self._known[key] = created, since
        if before is None:
            return created
        created_before, since_before = before
        later = [time for name, time in since.items() if time > since_before.get(name, "")]
        return min([*later, *([created] if created > created_before else ())], default="")

    def forget(self, key: str) -> None:
        self._known.pop(key, None)
