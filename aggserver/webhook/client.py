"""Webhooks: POST of a review to a webhook, over connections that are kept open.

Timeouts cover everything: waiting for a connection, DNS, TLS, redirects, the response's body. The number of connections to one
webhook is limited, so that a webhook that hangs does not use up those of others. The size of a response is limited, too.
Errors of the HTTP library become WebhookError here, with the text of upstream's client.
Source: k8s.io/apiserver pkg/util/webhook/client.go; k8s.io/client-go rest/request.go, v0.36.3; Go's net/http client.go, 1.26.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from urllib.parse import urljoin

import aiohttp
from yarl import URL

from aggserver.meta.golang import quote
from aggserver.tracing.record import note, now, outgoing
from aggserver.webhook import ca_bundle
from aggserver.webhook.answers import WebhookError, failure, retry_after
from aggserver.webhook.config import ClientConfig, ServiceResolver, request_url
from aggserver.webhook.identities import NOBODY, WebhookIdentity
from aggserver.webhook.proxy import proxy_for

__all__ = ["MAX_RESPONSE_BYTES", "WebhookError", "Webhooks"]

# For an answer to a review of one object. Objects have at most 3 MiB, and a patch that replaces one is sent as base64.
MAX_RESPONSE_BYTES = 8 * 2**20

# Connections to one webhook, and to all of them together. A webhook that hangs holds up to 32 of them for up to 30 s, so 32 such
# webhooks are needed to make others wait.
MAX_CONNECTIONS_PER_WEBHOOK = 32
MAX_CONNECTIONS = 1024

# Go's transport closes idle connections after 90 s. Load balancers often do so after 60 s.
IDLE_SECONDS = 50.0

# Trusted certificates are parsed once for each caBundle. As many bundles are kept as upstream keeps clients.
MAX_CONTEXTS = 200
# CA bundles above this many bytes are parsed in a thread, since that takes milliseconds.
_LONG_BUNDLE = 64 * 1024

# As Go's http.Client and client-go have them.
MAX_REDIRECTS = 10
MAX_RETRIES = 10


_NOT_READ = "unexpected error when reading response body. Please retry. Original error: "


class Webhooks:
    """The client for all webhooks of a server. Must be created on the event loop that uses it.

    environment: names the proxy for URLs. Services are dialled directly.
    """

    def __init__(
        self,
        resolver: ServiceResolver,
        user_agent: str,
        *,
        environment: Mapping[str, str] = os.environ,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._resolver = resolver
        self._environment = environment
        self._sleep = sleep
        # By caBundle, client certificate and its key.
        self._contexts: OrderedDict[tuple[bytes, bytes, bytes], ssl.SSLContext] = OrderedDict()
        tracing = aiohttp.TraceConfig()
        tracing.on_connection_reuseconn.append(_mark_reused)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=MAX_CONNECTIONS, limit_per_host=MAX_CONNECTIONS_PER_WEBHOOK, keepalive_timeout=IDLE_SECONDS
            ),
            headers={
                "Accept": "application/json, */*",
                # Reviews stay inside of a cluster, where compressing costs more than sending.
                "Accept-Encoding": "identity",
                "User-Agent": user_agent,
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),  # `call` has one for everything
            trace_configs=[tracing],
        )

    async def call(
        self,
        config: ClientConfig,
        body: bytes,
        *,
        timeout: float,  # noqa: ASYNC109 (part of the URL, and of the error's text)
        max_bytes: int = MAX_RESPONSE_BYTES,
        identity: WebhookIdentity = NOBODY,
    ) -> bytes:
        """The body of the response to a POST of `body`, which is JSON. timeout: in seconds. Raises WebhookError.

        identity: this server's credentials for the webhook. They are not sent to a server that it redirects to.
        """
        try:
            url = request_url(config, timeout)
        except ValueError as error:
            raise WebhookError(str(error)) from None
        exchange = _Exchange(url)
        exchange.traceparent, span = outgoing()
        started = now()
        try:
            async with asyncio.timeout(timeout):
                return await self._exchange(exchange, config, body, max_bytes, identity)
        except TimeoutError:
            raise exchange.too_late() from None
        finally:
            note("Webhook", started, URL(url, encoded=True).host or "", span)

    async def close(self) -> None:
        await self._session.close()

    async def _exchange(
        self, exchange: _Exchange, config: ClientConfig, body: bytes, max_bytes: int, identity: WebhookIdentity
    ) -> bytes:
        for attempt in range(MAX_RETRIES + 1):
            response = await self._follow(exchange, config, body, identity)
            async with response:
                exchange.is_reading = True
                answer = await _read(response, max_bytes)
                exchange.is_reading = False
            pause = retry_after(response.status, response.headers.get("Retry-After"))
            if pause is None or attempt == MAX_RETRIES:
                break
            await self._sleep(max(pause, 0))
            exchange.restart()
        problem = failure(response.status, response.headers.get("Content-Type", ""), answer)
        if problem is not None:
            raise problem
        return answer

    async def _follow(
        self, exchange: _Exchange, config: ClientConfig, body: bytes, identity: WebhookIdentity
    ) -> aiohttp.ClientResponse:
        """The response after redirects, which Go's client follows: with a GET, but after 307 and 308 with the same POST."""
        target = ""
        for _ in range(MAX_REDIRECTS):
            response = await self._send(exchange, config, body, NOBODY if exchange.redirected else identity)
            target = response.headers.get("Location", "")
            if response.status not in (301, 302, 303, 307, 308) or not target:
                return response
            response.release()
            exchange.redirect(target, keep_method=response.status in (307, 308))
        raise exchange.error(f"stopped after {MAX_REDIRECTS} redirects", target)

    async def _send(
        self, exchange: _Exchange, config: ClientConfig, body: bytes, identity: WebhookIdentity
    ) -> aiohttp.ClientResponse:
        context = await self._context(config.ca_bundle, identity)
        url = URL(exchange.url, encoded=True)
        headers, server_name, proxy = {}, None, None
        if config.service is not None and (url.host, url.port) == (config.service.server_name, config.service.port):
            headers["Host"], server_name = url.authority, config.service.server_name
            try:
                host, port = await self._resolver.resolve(config.service)
            except WebhookError as error:
                raise exchange.error(str(error)) from error
            url = url.with_host(host).with_port(port)
        else:
            proxy = proxy_for(url.host or "", url.port or 443, self._environment) or None
        if authorization := _authorization(identity):
            headers["Authorization"] = authorization
        if exchange.traceparent:
            headers["traceparent"] = exchange.traceparent
        posts = exchange.method == "POST"
        if posts:
            headers["Content-Type"] = "application/json"
        while True:
            exchange.is_reused = False
            try:
                return await self._session.request(
                    exchange.method,
                    url,
                    data=body if posts else None,
                    headers=headers,
                    allow_redirects=False,
                    ssl=context,
                    server_hostname=server_name,
                    proxy=proxy,
                    trace_request_ctx=exchange,
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientConnectionResetError) as error:
                # The webhook closed an idle connection just when the request was sent on it. Go's client sends it again, too.
                if not exchange.is_reused:
                    raise exchange.error(_plain(error, url, server_name)) from error
            except (aiohttp.ClientError, OSError) as error:
                raise exchange.error(_plain(error, url, server_name)) from error

    async def _context(self, bundle: bytes, identity: WebhookIdentity) -> ssl.SSLContext:
        bundle = bundle if bundle.strip() else b""
        key = bundle, identity.certificate, identity.key
        context = self._contexts.pop(key, None)
        if context is None:
            is_long = len(bundle) > _LONG_BUNDLE
            context = await asyncio.to_thread(_made, bundle, identity) if is_long else _made(bundle, identity)
        self._contexts[key] = context
        if len(self._contexts) > MAX_CONTEXTS:
            self._contexts.popitem(last=False)
        return context


def _made(bundle: bytes, identity: WebhookIdentity) -> ssl.SSLContext:
    problem = ca_bundle.problem(bundle)
    if problem:
        raise WebhookError(f"unable to load root certificates: {problem}")
    context = _trusting(bundle)
    if identity.certificate:
        _show(context, identity)
    return context


class _Exchange:
    """One call, with its present URL and method. is_reused: whether the connection was open before the request. is_reading:
    whether the response is being read.
    """

    def __init__(self, url: str) -> None:
        self._first = url
        self.traceparent = ""
        self.is_reused = self.is_reading = False
        self.restart()

    @property
    def redirected(self) -> bool:
        return self.url != self._first

    def restart(self) -> None:
        self.url, self.method = self._first, "POST"

    def redirect(self, target: str, *, keep_method: bool) -> None:
        if not keep_method:
            self.method = "GET"
        self.url = urljoin(self.url, target)
        # Upstream follows all redirects; here objects are never sent unencrypted.
        if not self.url.startswith("https://"):
            raise self.error("redirects are followed only to https")

    def error(self, reason: str, url: str = "") -> WebhookError:
        # Go names the method of the first request even after redirects.
        return WebhookError(f"Post {quote(url or self.url)}: {reason}")

    def too_late(self) -> WebhookError:
        if self.is_reading:
            canceled = "net/http: request canceled (Client.Timeout or context cancellation while reading body)"
            return WebhookError(f"{_NOT_READ}{canceled}")
        return self.error("context deadline exceeded")


async def _mark_reused(_: aiohttp.ClientSession, context: SimpleNamespace, __: aiohttp.TraceConnectionReuseconnParams) -> None:
    context.trace_request_ctx.is_reused = True


def _trusting(bundle: bytes) -> ssl.SSLContext:
    """A context that trusts these certificates, also those that are no CA's, or the system's for an empty bundle."""
    # Not ssl.create_default_context: since 3.13 it refuses certificates that Go accepts.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    if not bundle:
        context.load_default_certs()
    for certificate in ca_bundle.certificates(bundle):
        with suppress(ssl.SSLError):  # a malformed one beside others
            context.load_verify_locations(cadata=certificate)
    return context


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    pieces, size = [], 0
    try:
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > max_bytes:
                raise WebhookError(f"the response is larger than {max_bytes} bytes", code=response.status)
            pieces.append(piece)
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise WebhookError(f"{_NOT_READ}unexpected EOF") from error
    return b"".join(pieces)


def _show(context: ssl.SSLContext, identity: WebhookIdentity) -> None:
    """Add the client certificate to the context. `ssl` reads it only from a file. Raises WebhookError."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(identity.certificate + b"\n" + identity.key)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except ssl.SSLError as error:
            raise WebhookError(f"the client certificate for the webhook can't be used: {error}") from error


def _authorization(identity: WebhookIdentity) -> str:
    """The Authorization header. A token file is read for each call, since it may be replaced. Raises WebhookError."""
    if identity.token_file is None:
        return identity.authorization
    try:
        return f"Bearer {identity.token_file.read_text().strip()}"
    except (OSError, UnicodeDecodeError) as error:
        raise WebhookError(f"the token for the webhook can't be read: {error}") from error


def _plain(error: Exception, url: URL, server_name: str | None) -> str:
    """The reason of an error of the HTTP library, as Go's client words it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _certificate(error.certificate_error, server_name or url.host or "")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return _handshake(error.os_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        reason = os.strerror(number).lower() if number else str(error.os_error)
        return f"dial tcp {_address(url)}: connect: {reason}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, ConnectionResetError):
        return "read: connection reset by peer"
    return str(error) or type(error).__name__


def _certificate(error: Exception, name: str) -> str:
    code = getattr(error, "verify_code", 0)
    message = getattr(error, "verify_message", "") or str(error)
    reasons = {
        10: "certificate has expired or is not yet valid",
        9: "certificate has expired or is not yet valid",
        18: "certificate signed by unknown authority",
        19: "certificate signed by unknown authority",
        20: "certificate signed by unknown authority",
        21: "certificate signed by unknown authority",
        62: f"certificate is not valid for {name}",
        64: f"certificate is not valid for {name}",
    }
    return f"tls: failed to verify certificate: x509: {reasons.get(code, message)}"


def _handshake(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "http: server gave HTTP response to HTTPS client"
    reason = getattr(error, "reason", None) or str(error)
    return f"tls: {str(reason).lower().replace('_', ' ')}"


def _address(url: URL) -> str:
    host = url.host or ""
    return f"[{host}]:{url.port}" if ":" in host else f"{host}:{url.port}"
