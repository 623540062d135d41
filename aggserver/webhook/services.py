"""MappedServices: services of webhooks whose addresses were given with --resolve-service."""

from __future__ import annotations

from collections.abc import Mapping

from aggserver.webhook.answers import WebhookError
from aggserver.webhook.config import ServiceReference, ServiceResolver

__all__ = ["MappedServices"]


class MappedServices:
    """A ServiceResolver. addresses: host and port by (namespace, name). otherwise: resolves other services, if given."""

    def __init__(self, addresses: Mapping[tuple[str, str], tuple[str, int]], otherwise: ServiceResolver | None = None) -> None:
        self._addresses = addresses
        self._otherwise = otherwise

    async def resolve(self, service: ServiceReference) -> tuple[str, int]:
        address = self._addresses.get((service.namespace, service.name))
        if address is not None:
            return address
        if self._otherwise is not None:
            return await self._otherwise.resolve(service)
        named = f"{service.namespace}/{service.name}"
        raise WebhookError(f"there is no cluster with the service {named}: --resolve-service {named}=HOST:PORT says where it is")
