"""The client of an etcd cluster: uses one member at a time, and the next one when that fails.

This module decides which calls are retried. A read is retried on any member until PATIENCE is over. A write is sent once, over an
established connection: if it fails after that, it may or may not have happened, and the caller gets Unavailable. When a member
does not answer in time, its watch streams are ended too, because they would stay silent, and start again on the next member.
Certificates are read again when their files change: new calls and streams get a connection with the new ones, once etcd accepts
it, and streams that are open stay on theirs.
Messages are opaque bytes here. Only this module uses gRPC; gRPC's errors become `Unavailable`.
Source: go.etcd.io/etcd/client/v3 (balancer, retry_interceptor.go, `WithRequireLeader`), k8s.io/apiserver
pkg/storage/storagebackend/factory/etcd3.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import grpc.aio

from aggserver import disk
from aggserver.storage.interface import StorageError, TooLarge, Unavailable
from aggserver.storage.losses import is_own

__all__ = ["LONG_READ", "READ", "WRITE", "Client", "GRPCStream", "OutOfRange"]

PATIENCE = 5.0  # seconds that a read is retried: a leader election takes one or two
PAUSE = 0.05  # seconds between attempts
CONNECT = 2.0  # seconds to establish a connection
READ = 3.0  # seconds to wait for a few keys before trying another member
LONG_READ = 30.0  # seconds for a page of a list; a lost connection is detected earlier by keepalive
POLL = 2.0  # seconds between looks at the files of certificates
WRITE = 10.0  # seconds; etcd itself gives up after 7

_KEEPALIVE = (10_000, 5_000)  # milliseconds between pings (etcd rejects more than one in 5 s), and to wait for the reply
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),  # a page of large objects has more than the default of 4 MiB
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", _KEEPALIVE[0]),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE[1]),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),  # members fail independently, and so do two stores in one process
]
# Requires a leader: a member that has lost the others then rejects requests and ends watches, instead of serving old data.
_METADATA = (("hasleader", "true"),)
# Failures of one member, after which another may succeed.
_MEMBERS_FAULT = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})

# Errors of etcd for requests above its --max-request-bytes (1.5 MiB), and of its gRPC server for those 512 KiB larger still.
_TOO_LARGE = (
    (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large"),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "received message larger than max"),
)

# etcd's quota is reached. It refuses all writes but deletions until somebody disarms the alarm.
_NO_SPACE = "database space exceeded"
_NO_SPACE_ADVICE = "compact and defragment it, then disarm its alarm (etcdctl alarm disarm)"

logger = logging.getLogger(__name__)


class OutOfRange(Exception):
    """etcd rejects the requested revision; the text says whether it is compacted or in the future."""


class _MemberFailed(Unavailable):
    """A member failed; another one, or the same one later, may succeed."""


class Client:
    """servers: URLs of the members, http, https, unix or unixs.

    The files are PEM: CAs, and the client's certificate and key. They are read again when they change.

    Raises Unavailable for an invalid URL or file. Must be created on the event loop that uses it.
    """

    def __init__(
        self,
        servers: Sequence[str],
        *,
        ca_file: Path | None = None,
        cert_file: Path | None = None,
        key_file: Path | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._files = (ca_file, cert_file, key_file)
        self._seen = self._signatures()
        credentials = self._credentials()
        self._members = [_Member(server, credentials) for server in servers]
        self._at = 0
        self._sleep = sleep
        self._watching = asyncio.get_running_loop().create_task(self._watch_files()) if any(self._files) else None

    def _signatures(self) -> list[disk.Signature | None]:
        return [disk.signature(file) for file in self._files if file is not None]

    def _credentials(self) -> grpc.ChannelCredentials:
        """Those in the files now. Raises Unavailable."""
        ca, cert, key = (_read(file) for file in self._files)
        _check(*self._files)
        return grpc.ssl_channel_credentials(ca, key, cert)

    async def _watch_files(self) -> None:
        while True:
            await asyncio.sleep(POLL)
            await self.renew()

    async def renew(self) -> None:
        """Use the certificates in the files if they have changed. Those in use are kept while the new ones can't be used."""
        seen = self._signatures()
        if seen != self._seen:
            self._seen = seen
            try:
                credentials = self._credentials()
            except Unavailable as error:
                logger.error("keeping the certificates for etcd in use: %s", error)
                return
            logger.info("certificates for etcd: read again")
            for member in self._members:
                member.renewed = credentials
        for member in self._members:
            await member.renew()

    @property
    def servers(self) -> str:
        return ",".join(member.url for member in self._members)

    async def read(self, method: str, request: bytes, *, seconds: float = READ, patience: float = PATIENCE) -> bytes:
        """The response to a read. Each attempt has a timeout of `seconds`; attempts are repeated for `patience` seconds.

        Raises Unavailable, OutOfRange.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        while True:
            member = self._members[self._at]
            try:
                return await member.call(method, request, seconds)
            except _MemberFailed as error:
                self._leave(member, error)
                if loop.time() >= deadline:
                    raise
            await self._sleep(PAUSE)

    async def write(self, method: str, request: bytes, seconds: float = WRITE) -> bytes:
        """The response to a call that is never retried. Raises Unavailable, OutOfRange, TooLarge."""
        member = await self._connected()
        try:
            return await member.call(method, request, seconds)
        except _MemberFailed as error:
            self._leave(member, error)
            raise

    async def stream(self, method: str) -> GRPCStream:
        """Open a bidirectional stream. Raises Unavailable."""
        member = await self._connected()
        return GRPCStream(member, method, self._leave)

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        for member in self._members:
            await member.close()

    async def _connected(self) -> _Member:
        """The current member, or the next one that accepts a connection. Raises Unavailable."""
        for _ in self._members:
            member = self._members[self._at]
            if await member.connect():
                return member
            self._leave(member, "there is no connection")
        raise Unavailable(f"there is no connection to etcd ({self.servers})")

    def _leave(self, member: _Member, why: object) -> None:
        if len(self._members) > 1 and self._members[self._at] is member:
            self._at = (self._at + 1) % len(self._members)
            logger.warning("switching to etcd member %s: %s", self._members[self._at].url, why)
            member.end_streams()


class _Member:
    def __init__(self, url: str, credentials: grpc.ChannelCredentials) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("unix", "unixs") and not parts.netloc and parts.path.strip("/"):
            target = f"unix:{parts.path}"
        elif parts.scheme in ("http", "https") and parts.netloc and not parts.path.strip("/"):
            target = parts.netloc
        else:
            forms = "https://host:2379, or unix:///path for kine's socket"
            raise Unavailable(f"{url!r} is not the URL of an etcd member: it must have the form {forms}")
        self.url = url
        self.streams: set[GRPCStream] = set()
        self._target = target
        self._is_secure = parts.scheme in ("https", "unixs")
        self.channel = self._open(credentials)
        self.renewed: grpc.ChannelCredentials | None = None  # to be used once etcd accepts them
        self._retired: set[grpc.aio.Channel] = set()  # with certificates from before, for the streams that are open
        self._closing: set[asyncio.Task[None]] = set()
        self._calls: dict[str, grpc.aio.UnaryUnaryMultiCallable] = {}

    def _open(self, credentials: grpc.ChannelCredentials) -> grpc.aio.Channel:
        if self._is_secure:
            return grpc.aio.secure_channel(self._target, credentials, _CHANNEL_OPTIONS)
        return grpc.aio.insecure_channel(self._target, _CHANNEL_OPTIONS)

    async def connect(self) -> bool:
        """Connect if necessary. Returns whether there is a connection."""
        return await _connect(self.channel)

    async def renew(self) -> None:
        """Change to a connection with the renewed certificates. While etcd refuses them, one that works is kept."""
        if self.renewed is None:
            return
        credentials = self.renewed
        channel = self._open(credentials)
        if not await _connect(channel) and self.channel.get_state() is grpc.ChannelConnectivity.READY:
            await channel.close()
            return
        if self.renewed is credentials:
            self.renewed = None
        self._retired.add(self.channel)
        self.channel = channel
        self._calls = {}
        self.close_unused()

    def close_unused(self) -> None:
        """Close the connections from before the last renewal that have no streams any more, when their calls have ended."""
        for channel in self._retired - {stream.channel for stream in self.streams}:
            self._retired.discard(channel)
            task = asyncio.get_running_loop().create_task(channel.close(LONG_READ))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for task in self._closing:
            task.cancel()
        for channel in (self.channel, *self._retired):
            await channel.close()

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        function = self._calls.get(method)
        if function is None:
            function = self._calls[method] = self.channel.unary_unary(method)
        with _translated(self.url):
            answer: bytes = await function(request, timeout=seconds, metadata=_METADATA)
        return answer

    def end_streams(self) -> None:
        for stream in list(self.streams):
            stream.cancel()


class GRPCStream:
    """A bidirectional stream. `receive` raises Unavailable when it has ended for any reason."""

    def __init__(self, member: _Member, method: str, leave: Callable[[_Member, object], None]) -> None:
        self._member = member
        self._leave = leave
        self.channel = member.channel
        with _translated(member.url):
            self._call = member.channel.stream_stream(method)(metadata=_METADATA)
        member.streams.add(self)

    async def send(self, message: bytes) -> None:
        """Send a message. Does nothing if the stream has ended; `receive` reports that."""
        with contextlib.suppress(StorageError, OutOfRange), _translated(self._member.url):
            await self._call.write(message)

    async def receive(self) -> bytes:
        try:
            with _translated(self._member.url):
                message = await self._call.read()
            if not isinstance(message, bytes):
                raise _MemberFailed(f"etcd {self._member.url}: the stream ended")
        except (StorageError, OutOfRange) as error:
            self.cancel()
            if isinstance(error, _MemberFailed):
                self._leave(self._member, error)
            if isinstance(error, Unavailable):
                raise
            # Only calls with a revision or a value get these errors. A watch that etcd ends gets a message with the reason.
            raise Unavailable(f"etcd {self._member.url}: {error}") from None
        return message

    def cancel(self) -> None:
        self._member.streams.discard(self)
        self._call.cancel()
        self._member.close_unused()


async def _connect(channel: grpc.aio.Channel) -> bool:
    """Connect if necessary. Returns whether there is a connection."""
    ready, failed = grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE
    state = channel.get_state(try_to_connect=True)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CONNECT):
            while state not in (ready, failed):
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    return bool(state is ready)


@contextlib.contextmanager
def _translated(url: str) -> Iterator[None]:
    """Raise errors of gRPC as our own."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.OUT_OF_RANGE:
            raise OutOfRange(error.details() or "") from None
        if any(error.code() is code and text in (error.details() or "") for code, text in _TOO_LARGE):
            raise TooLarge(error.details()) from None
        if _NO_SPACE in (error.details() or ""):
            raise Unavailable(f"etcd {url}: {error.details()}: {_NO_SPACE_ADVICE}") from None
        kind = _MemberFailed if error.code() in _MEMBERS_FAULT else Unavailable
        raise kind(f"etcd {url}: {error.details() or error.code().name}") from None
    except grpc.aio.BaseError as error:  # a closed channel
        raise Unavailable(f"etcd {url}: {error}") from None
    except asyncio.InvalidStateError as error:  # a call that is over
        raise _MemberFailed(f"etcd {url}: {error}") from None
    except asyncio.CancelledError as cancelled:
        # gRPC raises this also when the call or its channel was closed without a cancellation of this task.
        if is_own(cancelled):
            raise
        raise _MemberFailed(f"etcd {url}: the connection was closed") from None


def _read(file: Path | None) -> bytes | None:
    try:
        return None if file is None else file.read_bytes()
    except OSError as error:
        raise Unavailable(f"can't read {file}: {error.strerror}") from error


def _check(ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> None:
    """Check the TLS files. Raises Unavailable.

    gRPC would report invalid files only when it connects, in log lines of its own, and retry for ever.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if ca_file is not None:
            context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        raise Unavailable(f"--etcd-cafile {ca_file}: there is no certificate in PEM") from error
    try:
        if cert_file is not None:
            context.load_cert_chain(cert_file, key_file, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        why = getattr(error, "reason", None) or "there is no certificate with its private key in PEM"
        raise Unavailable(f"--etcd-certfile {cert_file}, --etcd-keyfile {key_file}: {why}") from error


def _no_password() -> str:
    # Without this, OpenSSL asks for a password on the terminal, and the server waits for it.
    raise ValueError("the private key is encrypted")
