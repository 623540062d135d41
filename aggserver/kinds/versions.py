"""Kinds that are served in two forms and stored in one: Events of the core group and of events.k8s.io.

Pure. Source: k8s.io/kubernetes pkg/apis/events/v1/conversion.go, v1.36.3.
"""

from __future__ import annotations

from aggserver.conversion.converter import ComputedConverter, ConversionError
from aggserver.meta.json_types import JSONObject

__all__ = ["CONVERTERS", "Events"]

# Member of the core group's Event -> that of events.k8s.io.
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK = {there: here for here, there in _RENAMED.items()}


class Events(ComputedConverter):
    changes_metadata = False

    def at_once(self, obj: JSONObject, api_version: str) -> JSONObject:
        if obj["apiVersion"] == api_version:
            return obj
        names = {"v1": _BACK, "events.k8s.io/v1": _RENAMED}.get(api_version)
        if names is None:
            raise ConversionError(f"Event is not served in {api_version}")
        return {names.get(name, name): value for name, value in obj.items()} | {"apiVersion": api_version}


# Group and resource of what is stored -> its converter.
CONVERTERS = {("", "events"): Events()}
