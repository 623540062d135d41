"""Versions of a stored resource by users' functions: the hub is the stored version, and each other version has an `up` to it and
a `down` from it.

The functions are plain and quick: a list converts each of its objects. What a function raises refuses that object alone; the
client is told no more of it than the function's name, but for our own errors, and the log has the traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aggserver.conversion.converter import ComputedConverter, ConversionError
from aggserver.errors import AggserverError
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.resources.calls import name_of
from aggserver.resources.partial import converted_part
from aggserver.typed.codec import Codec

__all__ = ["FunctionConverter", "OtherVersion"]

log = logging.getLogger("aggserver.resources")


@dataclass(frozen=True, slots=True)
class OtherVersion:
    """A version beside the hub. deprecated: the text of a warning, '' for none. loses: paths of fields that may be lost."""

    name: str
    schema: JSONObject
    codec: Codec[Any]
    up: Callable[[Any], Any]
    down: Callable[[Any], Any]
    deprecated: str
    has_status: bool
    loses: tuple[str, ...] = ()


class FunctionConverter(ComputedConverter):
    """hub: the apiVersion that is stored. others, schemas: by apiVersion. has_status: whether the hub has a status. A version
    whose class has none shows the status of the hub as it is, or else each write by that version would lose it.
    """

    def __init__(
        self,
        hub: str,
        codec: Codec[Any],
        others: Mapping[str, OtherVersion],
        schemas: Mapping[str, JSONMapping],
        *,
        has_status: bool,
    ) -> None:
        self._hub = hub
        self._codec = codec
        self._others = others
        self._schemas = schemas
        self._has_status = has_status

    def at_once(self, obj: JSONObject, api_version: str) -> JSONObject:
        given = obj["apiVersion"]
        if given == api_version:
            return obj
        if given != self._hub:
            obj = self._step(obj, self._others[given].up, lambda: self.up(obj))
        if api_version != self._hub:
            obj = self._step(obj, self._others[api_version].down, lambda: self.down(obj, api_version))
        return obj

    def part(self, obj: JSONObject, api_version: str) -> JSONObject:
        """Convert an object that may lack fields, and is not changed. Raises ConversionError."""
        given = obj["apiVersion"]
        if given == api_version:
            return obj
        schema = self._schemas[given]
        return converted_part(obj, schema, lambda filled: self.at_once(filled, api_version))

    def up(self, obj: JSONObject) -> JSONObject:
        """To the hub. Raises whatever the user's function raises."""
        other = self._others[obj["apiVersion"]]
        return self._made(obj, other, other.codec, other.up, self._codec, self._hub)

    def down(self, obj: JSONObject, api_version: str) -> JSONObject:
        """From the hub. Raises whatever the user's function raises."""
        other = self._others[api_version]
        return self._made(obj, other, self._codec, other.down, other.codec, api_version)

    def _step(self, obj: JSONObject, function: Callable[[Any], Any], convert: Callable[[], JSONObject]) -> JSONObject:
        name = obj["metadata"].get("name")
        try:
            return convert()
        except (StatusError, AggserverError) as error:
            raise ConversionError(f"{name_of(function)} can't convert {name}: {error}") from error
        except Exception as error:
            log.error("%s can't convert %s: %s", name_of(function), name, error, exc_info=error)
            raise ConversionError(f"{name_of(function)} can't convert {name}, see the log of the server") from error

    def _made(
        self,
        obj: JSONObject,
        other: OtherVersion,
        from_: Codec[Any],
        function: Callable[[Any], Any],
        to: Codec[Any],
        api_version: str,
    ) -> JSONObject:
        made = to.encode(function(from_.decode(obj)))
        # All metadata but labels and annotations is the same in every version, whatever a function made of it.
        metadata = dict(obj["metadata"])
        for name in ("labels", "annotations"):
            metadata.pop(name, None)
            if name in made.get("metadata", {}):
                metadata[name] = made["metadata"][name]
        if self._has_status and not other.has_status:
            made.pop("status", None)
            if "status" in obj:
                made["status"] = obj["status"]
        return {**made, "apiVersion": api_version, "kind": obj["kind"], "metadata": metadata}
