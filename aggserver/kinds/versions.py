"""Kinds that are served in two versions and stored in one: Events of the core group and of events.k8s.io, and autoscalers.

Pure. Source: k8s.io/kubernetes pkg/apis/events/v1/conversion.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from aggserver.conversion.converter import ComputedConverter, ConversionError
from aggserver.kinds.autoscalers import Autoscalers
from aggserver.meta.json_types import JSONObject
from aggserver.scheme.rewriting import rewrite
from aggserver.scheme.types import lookup

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
# apiVersion -> (other name -> name of a member in it, its type).
_EVENTS = {"v1": (_BACK, "core/v1.Event"), "events.k8s.io/v1": (_RENAMED, "events/v1.Event")}


class Events(ComputedConverter):
    changes_metadata = False

    def at_once(self, obj: JSONObject, api_version: str) -> JSONObject:
        if obj["apiVersion"] == api_version:
            return obj
        if api_version not in _EVENTS:
            raise ConversionError(f"Event is not served in {api_version}")
        names, of = _EVENTS[api_version]
        converted = {names.get(name, name): value for name, value in obj.items()} | {"apiVersion": api_version}
        rewrite(converted, lookup(of))  # the versions do not omit the same members
        return converted


# (group, resource) as stored -> its converter.
CONVERTERS: Mapping[tuple[str, str], ComputedConverter] = {
    ("", "events"): Events(),
    ("autoscaling", "horizontalpodautoscalers"): Autoscalers(),
}
