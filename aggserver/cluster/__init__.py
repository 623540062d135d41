"""Cluster: the hosting API server, and the only door to it.

Used where the server runs beside a kube-apiserver: authentication (the ConfigMap, TokenReview), authorization
(SubjectAccessReview), APIServices, Secrets, namespaces. This module is the contract and imports no client; `cluster/client.py` is
the one implementation, imported only where a cluster is configured, and `tests/fakes/cluster.py` has a fake. Beside it:
`follow.py` (list and watch), `pacing.py` (backoff, rate), `answers.py` (remembered and shared answers).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol

__all__ = ["Cluster", "ClusterError", "Unreachable"]


class ClusterError(Exception):
    """The API server answered with a Status. `reason` is '' where the answer was none; `retry_after` in seconds, 0 if none."""

    def __init__(self, code: int, reason: str, message: str, retry_after: int = 0) -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class Unreachable(Exception):
    """No answer: connection refused, TLS failure, time-out. The text says which server and why.

    `broken` says that a connection was there and broke under the request, so that asking again at once may well succeed.
    """

    def __init__(self, message: str, *, broken: bool = False) -> None:
        super().__init__(message)
        self.broken = broken


class Cluster(Protocol):
    @property
    def server(self) -> str:
        """The URL, for messages."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float = 10.0,  # noqa: ASYNC109 (it is the client's, which tells a slow connect from a slow answer)
    ) -> dict[str, Any]:
        """One call, JSON in and out. `timeout` in seconds. Raises ClusterError or Unreachable."""

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a watch, as `{"type": ..., "object": ...}`; ends when the server ends it. Raises as `request` does."""

    async def close(self) -> None: ...
