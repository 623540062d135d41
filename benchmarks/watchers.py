"""`python -m benchmarks.watchers`: memory of watches whose clients don't read, and of many watches that start at once.

Both servers have the same collection. Watches with initial events are opened, over HTTP/1.1 with a connection each and over
HTTP/2 with one for all: first such that are never read and then closed, then such that are read to the end of their initial
events, all at once. Resident memory is measured before, during (the peak) and afterwards, when it is stable. The machine should
run nothing else; it takes about two minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes

from benchmarks.client import Access, LoadError, build, call, run_load
from benchmarks.report import BASELINE, MEASURED
from benchmarks.resident import at_rest, sampled
from benchmarks.run import COLLECTION, Say, define, progress, scratch_folder, server_of
from benchmarks.servers import Server
from tests.controlplane.binaries import BinariesError
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

__all__ = ["main"]

NAMESPACE = "bench"
WATCH = f"{COLLECTION}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
END = b"k8s.io/initial-events-end"

# The largest flow-control window, so that only the socket limits the server.
WINDOW = 2**31 - 1
READ = 1 << 20
# Bytes of the socket's own buffer, which is the kernel's and not the server's.
RECEIVE_BUFFER = 64 * 1024
# Seconds after the clients are gone: aggserver looks every five for memory to give back, Go's runtime takes some time too.
GONE_SECONDS = 15.0
# Seconds without a byte after which a client that reads gives up.
SILENCE = 30.0
# Of the bytes expected: what is no event (heads, frames, sizes of chunks) is not the same for all watches.
ALL = 0.99


@dataclass(frozen=True)
class Figures:
    """Resident bytes of the server's own program. `seconds` is how long reading took, 0 for watches that are not read."""

    server: str
    what: str
    before: int
    peak: int
    after: int
    seconds: float = 0.0

    def __str__(self) -> str:
        grown, left = (self.peak - self.before) / 1e6, (self.after - self.before) / 1e6
        times = f", read in {self.seconds:.1f} s" if self.seconds else ""
        memory = f"{self.before / 1e6:6.0f} MB before, {grown:+7.1f} MB, {left:+6.1f} MB afterwards"
        return f"{self.server:15} {self.what:28} {memory}{times}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watchers", description=__doc__)
    parser.add_argument("--unread", type=int, default=200, help="watches that are not read (default 200)")
    parser.add_argument("--honest", type=int, default=20, help="watches that are read, all at once (default 20)")
    parser.add_argument("--megabytes", type=float, default=14.0, help="size of the collection (default 14)")
    parser.add_argument("--size", type=int, default=2000, help="bytes of an object (default 2000)")
    parser.add_argument("--only", choices=[BASELINE, MEASURED], help="measure only this server")
    options = parser.parse_args(arguments)
    say = progress()
    try:
        with scratch_folder() as folder:
            binary = build(folder, say)
            for name in [options.only] if options.only else [BASELINE, MEASURED]:
                with server_of(name, folder, say) as server:
                    define(server.access, [NAMESPACE])
                    count = int(options.megabytes * 1e6 / options.size)
                    run_load(
                        binary,
                        server.access,
                        {"workload": "create", "clients": 32, "count": count, "size": options.size, "namespace": NAMESPACE},
                    )
                    say(f"{name} has {count} objects")
                    for figures in _measure(server, options.unread, options.honest, say):
                        print(figures, flush=True)
    except (LoadError, ProcessError, BinariesError, ToolchainError, OSError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    return 0


def _measure(server: Server, unread: int, honest: int, say: Say) -> Iterator[Figures]:
    size = _read_one(server.access)
    call(server.access, "GET", f"{COLLECTION}?limit=1")
    say(f"{server.name}: {size / 1e6:.1f} MB of initial events")
    for protocol, open_all in (("HTTP/1.1", _connections), ("HTTP/2", _streams)):
        yield _unread(server, protocol, unread, open_all)
        yield _honest(server, protocol, honest, open_all, size)


Opened = list[ssl.SSLSocket]
OpenAll = Callable[[Access, int], Opened]


def _unread(server: Server, protocol: str, count: int, open_all: OpenAll) -> Figures:
    before = at_rest(server)
    with sampled(server) as peak:
        opened = open_all(server.access, count)
        at_rest(server)
    return Figures(server.name, f"{count} unread, {protocol}", before, peak[0], _after(server, opened))


def _honest(server: Server, protocol: str, count: int, open_all: OpenAll, size: int) -> Figures:
    before = at_rest(server)
    with sampled(server) as peak:
        began = time.monotonic()
        opened = open_all(server.access, count)
        # Each thread reads one connection.
        threads = [threading.Thread(target=_read, args=(one, int(ALL * size * count / len(opened)))) for one in opened]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
    what = f"{count} read at once, {protocol}"
    return Figures(server.name, what, before, peak[0], _after(server, opened), seconds)


def _after(server: Server, opened: Opened) -> int:
    _close(opened)
    time.sleep(GONE_SECONDS)
    return at_rest(server)


# --- clients ---


def _connect(access: Access, protocol: str) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(access.authority))
    context.load_cert_chain(access.certificate, access.key)
    context.set_alpn_protocols([protocol])
    url = urlsplit(access.server)
    plain = socket.socket(socket.AF_INET6 if ":" in (url.hostname or "") else socket.AF_INET)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    plain.connect((url.hostname, url.port))
    plain.settimeout(SILENCE)
    return context.wrap_socket(plain, server_hostname=url.hostname)


def _connections(access: Access, count: int) -> Opened:
    """So many watches, each on a connection of its own; sent, and not read."""
    opened = []
    for _ in range(count):
        connection = _connect(access, "http/1.1")
        connection.sendall(f"GET {WATCH} HTTP/1.1\r\nHost: {urlsplit(access.server).netloc}\r\n\r\n".encode())
        opened.append(connection)
    return opened


def _streams(access: Access, count: int) -> Opened:
    """So many watches on one connection."""
    connection = _connect(access, "h2")
    library = H2Connection(H2Configuration(client_side=True))
    library.initiate_connection()
    library.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
    library.increment_flow_control_window(WINDOW - 65535)
    for index in range(count):
        head = [(":method", "GET"), (":scheme", "https"), (":authority", urlsplit(access.server).netloc), (":path", WATCH)]
        library.send_headers(2 * index + 1, head, end_stream=True)
    connection.sendall(library.data_to_send())
    return [connection]


def _read(connection: ssl.SSLSocket, size: int) -> None:
    with contextlib.suppress(OSError):
        while size > 0 and (data := connection.recv(READ)):
            size -= len(data)


def _read_one(access: Access) -> int:
    """The bytes of one watch's initial events."""
    (connection,) = _connections(access, 1)
    size, tail = 0, b""
    while END not in tail:
        data = connection.recv(READ)
        if not data:
            raise LoadError("a watch ended within its initial events")
        size += len(data)
        tail = tail[-len(END) :] + data
    _close([connection])
    return size


def _close(opened: Opened) -> None:
    for connection in opened:
        connection.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
