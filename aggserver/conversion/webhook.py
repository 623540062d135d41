"""WebhookConverter: spec.conversion.strategy Webhook.

Each call converts all objects of a batch that are in another version. All calls are measured, and slow ones logged.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/conversion/{webhook_converter,metrics}.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from aggserver.conversion.review import CALL_FAILED, ReviewError, decode_answer, encode_request, refused, review_version
from aggserver.meta.json_types import JSONObject
from aggserver.webhook.answers import WebhookError
from aggserver.webhook.config import ClientConfig

__all__ = ["Caller", "NoCaller", "WebhookCall", "WebhookConverter", "unobserved"]

log = logging.getLogger("aggserver.conversion")

TIMEOUT_SECONDS = 30.0

# A call is slow if it takes longer than this for the request and each of its objects.
SLOW_CALL_SECONDS = 0.05
SLOW_OBJECT_SECONDS = 0.008

# An answer may be larger than the request by this and by a factor: versions have other fields, but not far more.
SPARE_BYTES = 4 * 2**20
GROWTH = 2

# HTTP codes that may be caused by the objects that were sent, so that a call with other objects may succeed.
ABOUT_OBJECTS = frozenset({*range(200, 207), 400, 413, 422, 500})

# More objects, or a larger answer, are encoded and checked in a thread.
FEW_OBJECTS = 16
SHORT_BYTES = 256 * 1024

# Large answers of all webhooks are decoded one at a time: they can need 40 times their size, and decoding holds up all threads.
_DECODING = ThreadPoolExecutor(1, "conversion-answers")


class Caller(Protocol):
    """`Webhooks` in webhook/client.py."""

    async def call(self, config: ClientConfig, body: bytes, *, timeout: float, max_bytes: int) -> bytes:  # noqa: ASYNC109
        """See there."""


class NoCaller:
    """The Caller of a server that calls no webhooks: every call fails."""

    async def call(self, config: ClientConfig, body: bytes, *, timeout: float, max_bytes: int) -> bytes:  # noqa: ASYNC109
        raise WebhookError("this server does not call webhooks")


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """One call, for metrics. definition: its name. failure: upstream's name for the kind of failure, '' if it succeeded."""

    definition: str
    from_version: str
    to_version: str
    seconds: float
    failure: str


def unobserved(call: WebhookCall) -> None:
    """Observes nothing."""


class WebhookConverter:
    """name: of the definition. clock: in seconds. observe: receives each call."""

    at_once = None
    changes_metadata = True

    def __init__(
        self,
        name: str,
        config: ClientConfig,
        review_versions: Sequence[str],
        webhooks: Caller,
        *,
        new_uid: Callable[[], str],
        clock: Callable[[], float],
        observe: Callable[[WebhookCall], None],
    ) -> None:
        self._name = name
        self._config = config
        self._review_versions = tuple(review_versions)
        self._webhooks = webhooks
        self._new_uid = new_uid
        self._clock = clock
        self._observe = observe

    async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
        """See `Converter`. The webhook is not called if no object is in another version."""
        places = [index for index, obj in enumerate(objects) if obj["apiVersion"] != api_version]
        converted = list(objects)
        if not places:
            return converted
        asked = [objects[index] for index in places]
        started = self._clock()
        try:
            made = await self._ask(asked, api_version)
        except ReviewError as error:
            self._done(asked, api_version, self._clock() - started, error.failure)
            if error.index is not None:
                error.index = places[error.index]
            elif len(places) == 1 and error.answered:
                error.index = places[0]
            raise
        self._done(asked, api_version, self._clock() - started, "")
        for index, obj in zip(places, made, strict=True):
            converted[index] = obj
        return converted

    async def _ask(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
        version, uid = review_version(self._review_versions), self._new_uid()
        given = (objects, api_version, version, uid)
        body = await asyncio.to_thread(encode_request, *given) if len(objects) > FEW_OBJECTS else encode_request(*given)
        try:
            answer = await self._webhooks.call(
                self._config, body, timeout=TIMEOUT_SECONDS, max_bytes=SPARE_BYTES + GROWTH * len(body)
            )
        except WebhookError as error:
            raise refused(objects[0], CALL_FAILED, f"failed: {error}", answered=error.code in ABOUT_OBJECTS) from error
        if len(answer) <= SHORT_BYTES:
            return decode_answer(answer, *given)
        return await asyncio.get_running_loop().run_in_executor(_DECODING, decode_answer, answer, *given)

    def _done(self, objects: Sequence[JSONObject], api_version: str, seconds: float, failure: str) -> None:
        count, found = len(objects), str(objects[0]["apiVersion"])
        self._observe(WebhookCall(self._name, found.rpartition("/")[2], api_version.rpartition("/")[2], seconds, failure))
        if seconds > SLOW_CALL_SECONDS + SLOW_OBJECT_SECONDS * count:
            log.warning(
                "the conversion webhook of %s took %.0f ms for %d objects from %s to %s",
                self._name,
                seconds * 1000,
                count,
                found,
                api_version,
            )
