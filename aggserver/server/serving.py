"""Server: binds, accepts connections, and stops without losing a request.

`connection.py` handles each connection, `cli.py` turns SIGTERM and SIGINT into `request_stop`. hypercorn's own accept loop is not
used: it hides the client certificate from the application, does not report when a shutdown begins, and on Python 3.12.1 and newer
waits for ever for open watches (`asyncio.Server.wait_closed`, which is never called here).

A stop has kube-apiserver's order (pkg/server/genericapiserver.go, v0.36.3): readiness fails at once; for `shutdown_delay` seconds
everything is served as before, so that load balancers notice; then no more connections are accepted, watches are ended, requests
in flight get `grace` seconds, and the remaining connections are dropped.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any

from aggserver.server.connection import ASGIApp, Connection, EngineConfig, WorkerContext
from aggserver.server.requests import STALL_SECONDS, AtOnce, never
from aggserver.server.tls import TLSConfig

__all__ = ["Server", "bind", "loop_factory"]

log = logging.getLogger(__name__)

# Seconds for the TLS handshake. Upstream limits it by its header timeout.
HANDSHAKE_SECONDS = 32.0

# Seconds that a close waits for the client's close_notify; many clients never send one.
TLS_CLOSE_SECONDS = 2.0

# Seconds until TCP probes an idle peer, to find peers that are gone (a closed laptop, a dropped NAT entry). With TCP's default of
# two hours, their watches would remain open for so long.
TCP_KEEPALIVE_SECONDS = 180

# Linux closes a connection if we have had something to send for so many milliseconds, and the peer has acknowledged nothing or
# had no room. Other systems have only TCP's own timeouts.
TCP_STALL_MILLISECONDS = int(STALL_SECONDS * 1000)

BACKLOG = 1024


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The `loop_factory` for an `asyncio.Runner`: uvloop's if it is installed, otherwise None, for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A listening socket. port 0: any free port. host "::": IPv6 and IPv4. shared: whether other processes that allow it too may
    listen on the same port; the system divides connections among them. Raises OSError.
    """
    ipv6 = ":" in host
    dual = host == "::" and socket.has_dualstack_ipv6()
    listener = socket.create_server(
        (host, port), family=socket.AF_INET6 if ipv6 else socket.AF_INET, backlog=BACKLOG, reuse_port=shared, dualstack_ipv6=dual
    )
    # accepted sockets inherit these on Linux
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), TCP_KEEPALIVE_SECONDS)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TCP_STALL_MILLISECONDS)
    listener.setblocking(False)
    return listener


class Server:
    """An ASGI application on listening sockets.

    app: gets http and websocket scopes. `scope["state"]["peer_certificate"]` is the connection's PeerCertificate or None;
    `scope["state"]["knew_all_cas"]` is whether all trusted client CAs were known at the handshake.
    sockets: from `bind`; the server closes them. tls: None serves plain HTTP/1.1.
    on_stopping: called once, when the stop begins; it makes readiness fail. on_shutdown: called once, when no more connections
    are accepted; it ends the watches, and must not raise. shutdown_delay, grace: seconds, see above.
    at_once: answers what needs no task in place of `app`, on connections of HTTP/2. max_streams: that such a connection may have
    at once; 0 for MAX_STREAMS.
    """

    def __init__(
        self,
        app: ASGIApp,
        sockets: Sequence[socket.socket],
        tls: TLSConfig | None,
        *,
        on_stopping: Callable[[], None],
        on_shutdown: Callable[[], None],
        shutdown_delay: float = 0.0,
        grace: float = 60.0,
        config: EngineConfig | None = None,
        at_once: AtOnce = never,
        max_streams: int = 0,
    ) -> None:
        self._app = app
        self._at_once = at_once
        self._sockets = list(sockets)
        self._tls = tls
        self._on_stopping = on_stopping
        self._on_shutdown = on_shutdown
        self._shutdown_delay = shutdown_delay
        self._grace = grace
        self._config = config or EngineConfig()
        if max_streams:
            self._config.h2_max_concurrent_streams = max_streams
        self._context = WorkerContext(None)
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._listeners: list[asyncio.AbstractServer] = []
        self.listening = asyncio.Event()  # set when all sockets accept
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def port(self) -> int:
        """The port of the first socket."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    def request_stop(self) -> None:
        """Begin to stop, and return at once. A second call ends all waiting and drops open connections."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def start(self) -> None:
        """Begin to accept connections. `run` calls it too; a second call does nothing."""
        if self.listening.is_set():
            return
        options: dict[str, Any] = {}
        if self._tls is not None:
            options = {
                "ssl": self._tls.context,
                "ssl_handshake_timeout": HANDSHAKE_SECONDS,
                "ssl_shutdown_timeout": TLS_CLOSE_SECONDS,
            }
        for listener in self._sockets:
            loop = asyncio.get_running_loop()
            self._listeners.append(await loop.create_server(self._new_connection, sock=listener, backlog=BACKLOG, **options))
            host, port = listener.getsockname()[:2]
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            log.info("serving %s on %s", "HTTPS" if self._tls else "plain HTTP", address)
        self.listening.set()

    async def run(self) -> None:
        """Serves until `request_stop`, then stops. Returns when every connection is closed."""
        await self.start()
        await self._stop.wait()
        self._on_stopping()
        log.info("stopping: readiness fails now, connections are refused in %g s", self._shutdown_delay)
        await self._unless_hurried(self._shutdown_delay)
        await self._drain()

    async def _drain(self) -> None:
        for listener in self._listeners:
            listener.close()
        await self._context.terminated.set()
        self._on_shutdown()
        for connection in self._connections.values():
            connection.stop()
        log.info("stopped accepting connections; %d are open and have %g s to finish", len(self._connections), self._grace)
        if self._connections:
            everything = asyncio.ensure_future(asyncio.wait(tuple(self._connections)))
            await self._unless_hurried(self._grace, everything)
            everything.cancel()
        if left := list(self._connections.items()):
            log.warning("dropping %d connections that did not finish", len(left))
            for _, connection in left:
                connection.abort()
            await asyncio.wait([task for task, _ in left], timeout=TLS_CLOSE_SECONDS)

    async def _unless_hurried(self, seconds: float, *until: asyncio.Future[Any]) -> None:
        """Wait for so many seconds, for one of the futures, or for a second `request_stop`, whichever comes first."""
        hurry = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait((hurry, *until), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()

    def _new_connection(self) -> Connection:
        return Connection(self._app, self._config, self._context, self._opened, self._at_once)

    def _opened(self, connection: Connection) -> None:
        task = asyncio.get_running_loop().create_task(connection.serve())
        self._connections[task] = connection
        task.add_done_callback(self._connections.pop)
        if self._context.terminated.is_set():
            connection.stop()  # its handshake ended after the listeners were closed
