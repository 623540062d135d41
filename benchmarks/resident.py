"""The memory of a server: at rest, and its peak meanwhile. For kube-apiserver without etcd's."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from benchmarks.run import memory, settle
from benchmarks.servers import Server

__all__ = ["at_rest", "resident", "sampled"]

# Memory is stable when it changes by less than this share within REST_SECONDS; after REST_TIMEOUT the run goes on.
REST_SHARE, REST_SECONDS, REST_TIMEOUT = 0.01, 1.0, 20.0
SAMPLE_SECONDS = 0.05


def resident(server: Server) -> int:
    """The resident bytes of the server itself, without kube-apiserver's etcd."""
    return memory(server)[server.name]


def at_rest(server: Server) -> int:
    settle([server])
    deadline = time.monotonic() + REST_TIMEOUT
    now = resident(server)
    while time.monotonic() < deadline:
        before = now
        time.sleep(REST_SECONDS)
        now = resident(server)
        if abs(now - before) < REST_SHARE * before:
            break
    return now


@contextlib.contextmanager
def sampled(server: Server) -> Iterator[list[int]]:
    """The peak of memory, as the only element of the list."""
    peak, over = [resident(server)], threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], resident(server))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()
