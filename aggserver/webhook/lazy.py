"""LazyWebhooks: `Webhooks` of client.py, created at the first call.

Importing the HTTP library takes a third of the time of a start, and most servers call no webhook.
"""

from __future__ import annotations

import asyncio
import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from aggserver.webhook.config import ClientConfig, ServiceResolver
from aggserver.webhook.identities import NOBODY, WebhookIdentity

if TYPE_CHECKING:
    from aggserver.webhook.client import Webhooks

__all__ = ["LazyWebhooks"]


class LazyWebhooks:
    """Parameters: see `Webhooks`."""

    def __init__(self, resolver: ServiceResolver, user_agent: str) -> None:
        self._resolver = resolver
        self._user_agent = user_agent
        self._webhooks: Webhooks | None = None

    async def call(
        self,
        config: ClientConfig,
        body: bytes,
        *,
        timeout: float,  # noqa: ASYNC109 (see `Webhooks.call`)
        max_bytes: int,
        identity: WebhookIdentity = NOBODY,
    ) -> bytes:
        """See `Webhooks.call`."""
        if self._webhooks is None:
            self._make(await asyncio.to_thread(importlib.import_module, "aggserver.webhook.client"))
        assert self._webhooks is not None
        return await self._webhooks.call(config, body, timeout=timeout, max_bytes=max_bytes, identity=identity)

    def _make(self, module: ModuleType) -> None:
        if self._webhooks is None:  # another call may have been quicker
            self._webhooks = module.Webhooks(self._resolver, self._user_agent)

    async def close(self) -> None:
        if self._webhooks is not None:
            await self._webhooks.close()
