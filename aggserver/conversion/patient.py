"""PatientConverter: conversion by rules that never keeps the event loop for long.

Most objects are converted at once, within a fraction of a millisecond. If the expressions cost more, because of the object or
of the rules, the conversion is stopped and made again in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from aggserver.conversion.converter import ComputedConverter, ConversionError, TakesLong
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject

__all__ = ["PatientConverter"]

# Threads of their own, so that slow conversions do not occupy those that other work needs.
_SLOW = ThreadPoolExecutor(2, "conversions")


class PatientConverter:
    """See `Converter`; `at_once` raises TakesLong for an object that needs `convert`."""

    changes_metadata = True

    def __init__(self, rules: ComputedConverter) -> None:
        self._rules = rules

    @property
    def at_once(self) -> Callable[[JSONObject, str], JSONObject]:
        return self._rules.quickly

    async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
        made: list[JSONObject] = []
        for index, obj in enumerate(objects):
            if index:
                await asyncio.sleep(0)
            encoded = codec.encode_json(obj)
            try:
                try:
                    made.append(self._rules.quickly(obj, api_version))
                except TakesLong:
                    made.append(await asyncio.get_running_loop().run_in_executor(_SLOW, self._slowly, encoded, api_version))
            except ConversionError as error:
                error.index = index
                raise
        return made

    def _slowly(self, encoded: bytes, api_version: str) -> JSONObject:
        return self._rules.at_once(codec.decode_stored(encoded), api_version)
