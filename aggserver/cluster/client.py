"""ClusterClient: requests to the hosting API server over one HTTP session, with plain JSON.

Implements `cluster.Cluster`; `connect` makes one. The generated client of the Kubernetes library is not used: it costs three to
four times as much per call, and returns objects that we would have to convert to dicts. Errors of the HTTP library become
ClusterError and Unreachable here.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import orjson
from yarl import URL

from aggserver.cluster import ClusterError, Unreachable
from aggserver.cluster.configuration import (
    ClientCredentials,
    ConfigurationError,
    ConfigurationSource,
    InClusterSource,
    KubeconfigSource,
)
from aggserver.cluster.figures import ClientFigures
from aggserver.cluster.outage import Outage

__all__ = ["BareAnswer", "ClusterClient", "connect"]

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0

# Close idle connections before kube-apiserver (90 s) or a load balancer (often 60 s) closes them just as a request is sent.
IDLE_SECONDS = 50.0

# Enough for the reviews of a burst of requests, and the watches.
MAX_CONNECTIONS = 100

# kube-apiserver sends the headers of a watch at once, after at most 15 s in the queues of API priority and fairness.
HEADERS_SECONDS = 30.0
# How long after its `timeoutSeconds` a watch may end. This detects an API server that hangs behind a proxy, which still answers
# TCP's keepalive. client-go sends pings of HTTP/2 for that, which aiohttp does not have.
LATE_SECONDS = 10.0

# TCP keepalive notices a peer that vanished after 30 + 3 x 10 s. Without it a watch would wait for such a peer for ever.
KEEPALIVE_IDLE_SECONDS = 30
KEEPALIVE_INTERVAL_SECONDS = 10
KEEPALIVE_PROBES = 3

# Read of an answer that does not matter, so that its connection can be used again.
_IGNORED_BYTES = 64 * 1024


class BareAnswer(NamedTuple):
    """A response as it came. date: its header Date, '' if there is none."""

    status: int
    text: str
    date: str


async def connect(kubeconfig: str, user_agent: str, context: str = "") -> ClusterClient:
    """A client for the kubeconfig's cluster or, if '', the cluster of this pod. Sends nothing yet. Raises ConfigurationError.

    context: of the kubeconfig, '' for the current one.
    """
    source: ConfigurationSource = KubeconfigSource(kubeconfig, context) if kubeconfig else InClusterSource()
    return ClusterClient(source, await source.load(), user_agent)


class ClusterClient:
    """Must be created on the event loop that uses it. Reloads its credentials when their files change and after a 401.

    headers_seconds, late_seconds: limits of watches, see HEADERS_SECONDS and LATE_SECONDS.
    """

    def __init__(
        self,
        source: ConfigurationSource,
        credentials: ClientCredentials,
        user_agent: str,
        *,
        headers_seconds: float = HEADERS_SECONDS,
        late_seconds: float = LATE_SECONDS,
    ) -> None:
        self.outage = Outage()
        self.figures = ClientFigures()
        self._headers_seconds = headers_seconds
        self._late_seconds = late_seconds
        self._source = source
        self._credentials = credentials
        self._loading = asyncio.Lock()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=MAX_CONNECTIONS, keepalive_timeout=IDLE_SECONDS, socket_factory=_socket_with_keepalive
            ),
            headers={"Accept": "application/json", "User-Agent": user_agent},
        )

    @property
    def server(self) -> str:
        return self._credentials.server

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        timeout: float = 10.0,  # noqa: ASYNC109
        accept: str = "",
        headers: Sequence[tuple[str, str]] = (),
    ) -> dict[str, Any]:
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS)
        async with self._answer(method, path, query or {}, body, limits, accept, headers) as response:
            text = await response.read()
        try:
            answer = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ClusterError(response.status, "", f"{self._where(path)}: the answer is not JSON: {error}") from error
        if not isinstance(answer, dict):
            raise ClusterError(response.status, "", f"{self._where(path)}: the answer is not an object")
        return answer

    async def header(self, path: str, name: str) -> str:
        limits = aiohttp.ClientTimeout(total=10.0, sock_connect=CONNECT_SECONDS)
        async with self._answer("GET", path, {}, None, limits) as response:
            await response.read()
            return response.headers.get(name, "")

    async def answer(self, path: str, *, query: Mapping[str, str] | None = None, seconds: float = 10.0) -> BareAnswer:
        """GET `path`: the response whatever its status is, for those who ask what a server says. Raises Unreachable."""
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        async with self._answer("GET", path, query or {}, None, limits, any_status=True) as response:
            text = (await response.read()).decode(errors="replace")
            return BareAnswer(response.status, text, response.headers.get("Date", ""))

    async def post(self, body: bytes, seconds: float) -> None:
        """POST JSON to the very URL of the kubeconfig; what is answered does not matter. Raises ClusterError, Unreachable."""
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        async with self._answer("POST", "", {"timeout": f"{seconds:g}s"}, orjson.Fragment(body), limits) as response:
            await response.content.read(_IGNORED_BYTES)

    async def watch(
        self,
        path: str,
        query: Mapping[str, str],
        headers: Sequence[tuple[str, str]] = (),
        on_open: Callable[[], object] = lambda: None,
    ) -> AsyncGenerator[dict[str, Any], None]:
        limits = aiohttp.ClientTimeout(total=float(query["timeoutSeconds"]) + self._late_seconds, sock_connect=CONNECT_SECONDS)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._headers_seconds):
                    response = await stack.enter_async_context(self._answer("GET", path, query, None, limits, more=headers))
            except TimeoutError:
                why = f"the watch has not begun within {self._headers_seconds:g} s"
                raise Unreachable(f"{self._where(path)}: {why}", why=why) from None
            on_open()
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        yield _event(line)

    async def close(self) -> None:
        await self._session.close()

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        limits: aiohttp.ClientTimeout,
        accept: str = "",
        more: Sequence[tuple[str, str]] = (),
        *,
        any_status: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful response. Any failure until the caller has read it is raised as ClusterError or Unreachable.

        any_status: an error response is returned like a successful one.
        """
        if self._source.changed():
            await self._reload(self._credentials)
        data = None if body is None else orjson.dumps(body)
        headers = [*more]
        if data is not None:
            headers.append(("Content-Type", _content_type(method, body)))
        if accept:
            headers.append(("Accept", accept))
        started = time.perf_counter()
        response: aiohttp.ClientResponse | None = None
        try:
            used = self._credentials
            response = await self._send(used, method, path, query, data, headers, limits)
            if response.status == 401:
                response.release()
                await self._reload(used)
                response = await self._send(self._credentials, method, path, query, data, headers, limits)
            self.figures.answered(method, path, str(response.status), time.perf_counter() - started)
            async with response:
                if response.status >= 300 and not any_status:
                    raise _error(response.status, await response.read())
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if response is None:
                self.figures.answered(method, path, "<error>", time.perf_counter() - started)
            why = _plain(error, limits)
            raise Unreachable(f"{self._where(path)}: {why}", broken=_is_broken(error), why=why) from error

    async def _send(
        self,
        credentials: ClientCredentials,
        method: str,
        path: str,
        query: Mapping[str, str],
        data: bytes | None,
        headers: Sequence[tuple[str, str]],
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        authorization = [("Authorization", credentials.authorization)] if credentials.authorization else []
        return await self._session.request(
            method,
            URL(credentials.server + path, encoded=True).with_query(query),
            data=data,
            headers=[*headers, *authorization],
            timeout=limits,
            # Following a redirect would send the token to another server.
            allow_redirects=False,
            ssl=credentials.tls if credentials.tls is not None else True,
            server_hostname=credentials.server_name or None,
            proxy=credentials.proxy or None,
        )

    async def _reload(self, stale: ClientCredentials) -> None:
        """Load the credentials again, once for all requests that found them stale."""
        async with self._loading:
            if self._credentials is not stale:
                return
            try:
                self._credentials = await self._source.load()
            except ConfigurationError as error:
                # Files that are being replaced will be complete in a moment, and the present credentials may still be valid.
                logger.warning("%s: keeping the present credentials: %s", self.server, error)

    def _where(self, path: str) -> str:
        return self.server + path


def _content_type(method: str, body: Any) -> str:
    """The Content-Type of a request. For a PATCH, a list is a JSON Patch and an object a merge patch."""
    if method != "PATCH":
        return "application/json"
    return "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = orjson.loads(line)
        return {"type": event["type"], "object": event["object"]}
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ClusterError(200, "", f"a line of the watch is not a watch event: {error}") from error


def _error(status: int, text: bytes) -> ClusterError:
    try:
        answer = orjson.loads(text)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        return ClusterError(status, "", text.decode(errors="replace").strip()[:500] or "no explanation given")
    details = answer.get("details") or {}
    return ClusterError(
        status, answer.get("reason", ""), answer.get("message", ""), retry_after=int(details.get("retryAfterSeconds", 0))
    )


def _is_broken(error: Exception) -> bool:
    """Whether the connection was closed during the request. aiohttp raises its own errors for it, or the system's."""
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return True
    return isinstance(error, OSError) and error.errno in (errno.ECONNRESET, errno.EPIPE)


def _plain(error: Exception, limits: aiohttp.ClientTimeout) -> str:
    """The reason of an error in words that a user understands who does not know the HTTP library."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {CONNECT_SECONDS:g} s"
    if isinstance(error, TimeoutError):
        return f"no answer within {limits.total:g} s" if limits.total else "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        return f"its certificate is not trusted: {getattr(cause, 'verify_message', '') or cause}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the name {error.host} can't be resolved: {error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        return os.strerror(number).lower() if number else str(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed before the answer"
    return str(error) or type(error).__name__


def _socket_with_keepalive(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        # Not every system has all three options.
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
