"""ClientConfig: where a webhook is, and the request that is sent there.

Pure. Source: k8s.io/apiserver pkg/util/webhook/client.go (hookClientConfig); k8s.io/client-go rest/request.go, v0.36.3.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit

__all__ = ["ClientConfig", "ServiceReference", "ServiceResolver", "request_url"]

# What Go's net/url leaves as it is in a path, besides letters, digits and `_.-~`.
_PLAIN_IN_PATHS = "/$&+,:;=@"


@dataclass(frozen=True, slots=True)
class ServiceReference:
    namespace: str
    name: str
    path: str = ""
    port: int = 443

    @property
    def server_name(self) -> str:
        """The name that the service's certificate must have."""
        return f"{self.name}.{self.namespace}.svc"


class ServiceResolver(Protocol):
    async def resolve(self, service: ServiceReference) -> tuple[str, int]:
        """The host and the port to dial. Raises WebhookError."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """A url or a service. ca_bundle: PEM, decoded; if it is empty or white space, the system's certificates are trusted."""

    url: str = ""
    service: ServiceReference | None = None
    ca_bundle: bytes = b""


def request_url(config: ClientConfig, timeout: float) -> str:
    """The URL of a call, with the time that this server waits for the answer: `https://host/convert?timeout=30s`.

    A path is cleaned as Go's path.Join does it: `/convert/` becomes `/convert`. timeout: in seconds. Raises ValueError for a URL
    that can't be parsed, and for a config without one.
    """
    if config.service is not None:
        host, path = f"{config.service.server_name}:{config.service.port}", config.service.path
        scheme = "https"
    elif config.url:
        parts = urlsplit(config.url)
        scheme, host, path = parts.scheme, parts.netloc, unquote(parts.path)
    else:
        raise ValueError("webhook configuration must have either service or URL")
    cleaned = posixpath.normpath("/" + path.lstrip("/"))
    return f"{scheme}://{host}{quote(cleaned, safe=_PLAIN_IN_PATHS)}?timeout={_duration(timeout)}"


def _duration(seconds: float) -> str:
    """A duration as Go prints it, rounded to milliseconds: `500ms`, `30s`, `1m30s`."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
