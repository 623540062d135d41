"""Ownership: keeps metadata.managedFields in the writes of one endpoint.

The comparison itself is pure (`merge/managed_fields.py`). This module runs it: in a thread if the objects are large, and with
objects in other versions, for managers that wrote in one. A conversion webhook can't be called from within the comparison, so the
comparison stops where it needs a converted object, and is run again with it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from aggserver.conversion.converter import ConversionError, Converter
from aggserver.merge import managed_fields
from aggserver.merge.managed_fields import FieldManager
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import ApplyConfiguration, Context
from aggserver.registry.stored import StoredObject
from aggserver.workers import OBJECTS

__all__ = ["NotConverted", "Ownership"]

# Objects above this many bytes are compared in a thread, since that takes more than some milliseconds.
_LONG = 128 * 1024

T = TypeVar("T")


class NotConverted(Exception):
    """A comparison needs an object in another version, which only `Converter.convert` can make."""

    def __init__(self, obj: JSONObject, api_version: str) -> None:
        super().__init__(api_version)
        self.obj = obj
        self.api_version = api_version


class Ownership:
    """fields: of the endpoint; None if it keeps no managedFields. Its `convert` raises NotConverted (see there)."""

    def __init__(self, fields: FieldManager | None, converter: Converter) -> None:
        self._fields = fields
        self._converter = converter

    async def update(
        self, context: Context, current: StoredObject | None, old: JSONObject | None, obj: JSONObject, manager: str, now: str
    ) -> None:
        """Set managedFields of `obj` for a write other than an apply. old: what it replaces, `current` the same encoded."""
        if self._fields is None:
            return
        given = obj["metadata"].get("managedFields")

        def updated(fields: FieldManager) -> None:
            managed_fields.set_entries(obj, given)
            fields.update(old, obj, manager, now)

        await self._run(self._fields, updated, context, current)

    async def apply(
        self,
        context: Context,
        current: StoredObject | None,
        old: JSONObject | None,
        configuration: ApplyConfiguration,
        manager: str,
        now: str,
        *,
        force: bool,
        default: Callable[[JSONObject], object],
    ) -> JSONObject:
        """The object after an apply, with its managedFields. Raises what `FieldManager.apply` raises.

        old: `current`, decoded, if the result may share parts with it.
        """
        assert self._fields is not None  # the installer offers apply only for stores that have a field manager

        def applied(fields: FieldManager) -> JSONObject:
            # A fresh configuration in each run, since the result shares parts with it, and is then defaulted in place.
            config = configuration.decoded()
            live = old if old is not None or current is None else current.decoded()
            return fields.apply(live, config, manager, force=force, now=now, default=default)

        return await self._run(self._fields, applied, context, current)

    async def _run(
        self, fields: FieldManager, compare: Callable[[FieldManager], T], context: Context, current: StoredObject | None
    ) -> T:
        """Run a comparison. If it needs an object in another version, convert that, and run the comparison again."""
        size = max(context.body_bytes, current.size if current is not None else 0)
        if self._converter.at_once is not None:
            with suppress(NotConverted):
                return await _compared(context, size, compare, fields)
        known = _KnownConversions(fields.convert)
        fields = replace(fields, convert=known)
        while True:
            try:
                return await _compared(context, size, compare, fields)
            except NotConverted as needed:
                await known.convert(needed, self._converter)


async def _compared(context: Context, size: int, compare: Callable[[FieldManager], T], fields: FieldManager) -> T:
    return await OBJECTS.run(context.user.name, size, compare, fields) if size > _LONG else compare(fields)


class _KnownConversions:
    """The conversions that a comparison has needed so far.

    check: raises StatusError for a version that the definition does not have, and NotConverted for others.
    """

    def __init__(self, check: Callable[[JSONObject, str], JSONObject]) -> None:
        self._check = check
        self._known: dict[tuple[bytes, str], JSONObject | ConversionError] = {}

    def __call__(self, obj: JSONObject, api_version: str) -> JSONObject:
        """Raises NotConverted, and ConversionError for an object that the converter has refused."""
        found = self._known.get((codec.encode_json(obj), api_version))
        if found is None:
            return self._check(obj, api_version)
        if isinstance(found, ConversionError):
            raise found
        return found

    async def convert(self, needed: NotConverted, converter: Converter) -> None:
        """Convert an object, and keep the result or the converter's error for `__call__`."""
        encoded = codec.encode_json(needed.obj)
        try:
            (converted,) = await converter.convert([codec.decode_stored(encoded)], needed.api_version)
        except ConversionError as error:
            self._known[encoded, needed.api_version] = error
        else:
            self._known[encoded, needed.api_version] = converted
