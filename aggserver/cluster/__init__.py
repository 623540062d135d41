"""Cluster: the client of the hosting API server. All requests to it go through this package.

It serves authentication (the ConfigMap, TokenReview), authorization (SubjectAccessReview), APIServices, Secrets and namespaces.
This module defines the interface and imports no HTTP library; `client.py` is the implementation, imported only if a cluster is
configured, and `tests/fakes/cluster.py` is a fake. Beside them: `reflector.py` (list and watch), `outage.py` (what is
logged of a server that is away), `pacing.py` (backoff, rate limit), `answers.py` (cached and shared answers).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Protocol

from aggserver.cluster.outage import Outage
from aggserver.errors import AggserverError

__all__ = ["Cluster", "ClusterError", "Unreachable", "find"]


class ClusterError(AggserverError):
    """An error response of the API server. `reason` is '' if it was not a Status; `retry_after` is in seconds, 0 if not given."""

    def __init__(self, code: int, reason: str, message: str, retry_after: int = 0) -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class Unreachable(AggserverError):
    """No response: connection refused, TLS failure, timeout. The text names the URL and the reason.

    `broken`: an open connection was closed during the request, so that a new attempt is likely to succeed. `why`: the reason
    alone.
    """

    def __init__(self, message: str, *, broken: bool = False, why: str = "") -> None:
        super().__init__(message)
        self.broken = broken
        self.why = why or message


class Cluster(Protocol):
    @property
    def server(self) -> str:
        """The API server's URL, for messages."""

    @property
    def outage(self) -> Outage:
        """Knows which watches can't reach the server now, and logs that for all of them."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        timeout: float = 10.0,  # noqa: ASYNC109 (the HTTP library applies it, and distinguishes a slow connect)
        accept: str = "",
        headers: Sequence[tuple[str, str]] = (),
    ) -> dict[str, Any]:
        """Send a request with a JSON body; returns the JSON response. `timeout` is in seconds.

        The body of a PATCH is a JSON Patch if it is a list, otherwise a merge patch. accept: the requested media type, with
        parameters such as `as=Table`; '' for plain JSON. headers: more of them, as for impersonation.
        Raises ClusterError or Unreachable.
        """

    async def header(self, path: str, name: str) -> str:
        """GET `path`: the value of one header of the response, '' if it is not there. Raises as `request` does."""

    def watch(
        self,
        path: str,
        query: Mapping[str, str],
        headers: Sequence[tuple[str, str]] = (),
        on_open: Callable[[], object] = lambda: None,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a watch, as `{"type": ..., "object": ...}`, until the server ends it. Raises as `request` does.

        headers: as of `request`. on_open: called when the server has accepted the watch. query: must have `timeoutSeconds`, after
        which the server ends the watch. If the server does not, Unreachable is raised.
        """

    async def close(self) -> None: ...


async def find(cluster: Cluster, path: str) -> dict[str, Any] | None:
    """The object at a path, None if it does not exist (404). Raises as `Cluster.request` does."""
    try:
        return await cluster.request("GET", path)
    except ClusterError as error:
        if error.code == 404:
            return None
        raise
