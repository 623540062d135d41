"""Response times and memory while a server works on a single request that is as much work as its size allows.

Both servers run and take turns at each row of `hostile_requests.py` and `hostile_workloads.py`. An administrator sends the
request once, while another connection requests /healthz, one request at a time, until a moment after the answer.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from benchmarks.client import Access, LoadError, call, wait_until_served
from benchmarks.hostile_requests import LOADS, Hostile, Sent, definition
from benchmarks.report import number
from benchmarks.run import Say, memory, settle
from benchmarks.servers import Server

__all__ = ["single_requests", "single_table"]

# Seconds after which a request counts as unanswered. kube-apiserver ends requests after a minute.
LONGEST = 90.0
BEFORE = 0.3  # seconds of probing before the request
BETWEEN = 0.005  # seconds between two probes
SAMPLE = 0.05  # seconds between two looks at memory

# The aims: the longest wait of /healthz in milliseconds, and growth of memory.
AIM_MS = 100.0
AIM_BYTES = 100_000_000


@dataclass
class _Probe:
    """Requests /healthz until it is stopped."""

    access: Access
    waits: list[float] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with _connected(self.access) as connection:
            while not self.stopped.is_set():
                began = time.monotonic()
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                self.waits.append(time.monotonic() - began)
                time.sleep(BETWEEN)


def single_requests(rows: Sequence[Hostile], servers: Sequence[Server], say: Say) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The figures of each row and server, and what failed."""
    found: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    for server in servers:
        call(server.access, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
        wait_until_served(server.access, LOADS)
        with contextlib.suppress(urllib.error.HTTPError):  # aggserver makes the namespace at its start
            call(server.access, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    for row in rows:
        for server in servers:
            settle(servers)
            try:
                found.append(_one(row, server))
            except (OSError, http.client.HTTPException, LoadError) as error:
                server.check()
                failed[f"{server.name}, {row.name}"] = f"{type(error).__name__}: {error}"
                say(f"{server.name}, {row.name}: {error}")
                continue
            figures = found[-1]
            say(f"{server.name}, {row.name}: {_cell(figures)}, {figures['status']} in {figures['seconds']:.2f} s")
    return found, failed


def _one(row: Hostile, server: Server) -> dict[str, Any]:
    sent = row.make()
    _prepare(server.access, sent.before)
    before = sum(memory(server).values())
    probe = _Probe(server.access)
    probing = threading.Thread(target=probe.run, daemon=True)
    sampler = _Sampler(server)
    probing.start()
    sampler.start()
    time.sleep(BEFORE)
    began = time.monotonic()
    try:
        status = _answer(server.access, sent)
        seconds = time.monotonic() - began
        time.sleep(row.seconds)
    finally:
        probe.stopped.set()
        sampler.stopped.set()
        _prepare(server.access, sent.after)
        probing.join(LONGEST)
        sampler.join(LONGEST)
    waits = sorted(probe.waits)
    return {
        "server": server.name,
        "request": row.name,
        "status": status,
        "seconds": seconds,
        "p99_ms": waits[len(waits) * 99 // 100] * 1e3,
        "max_ms": waits[-1] * 1e3,
        "grown_bytes": max(0, sampler.peak - before),
    }


class _Sampler(threading.Thread):
    """The peak of a server's memory until it is stopped."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self.peak = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.is_set():
            self.peak = max(self.peak, sum(memory(self._server).values()))
            self.stopped.wait(SAMPLE)


@contextlib.contextmanager
def _connected(access: Access) -> Iterator[http.client.HTTPSConnection]:
    context = ssl.create_default_context(cafile=str(access.authority))
    context.load_cert_chain(access.certificate, access.key)
    address = urlsplit(access.server)
    connection = http.client.HTTPSConnection(str(address.hostname), address.port, context=context, timeout=LONGEST)
    try:
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connection
    finally:
        connection.close()


def _prepare(access: Access, requests: Sequence[Sent]) -> None:
    """Send thousands of requests, maybe, by one connection."""
    with _connected(access) as connection:
        for request in requests:
            _prepare(access, request.before)
            _send(connection, request)


def _answer(access: Access, sent: Sent) -> int:
    with _connected(access) as connection:
        return _send(connection, sent)


def _send(connection: http.client.HTTPSConnection, sent: Sent) -> int:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io" if sent.method == "GET" else "application/json"
    headers = {"Accept": accept, **({"Content-Type": sent.content_type} if sent.body else {})}
    connection.request(sent.method, sent.path, sent.body or None, headers)
    answer = connection.getresponse()
    while answer.read(1 << 20):
        pass
    return answer.status


def single_table(report: Mapping[str, Any]) -> list[str]:
    """The figures as a table in Markdown. In bold is what reaches the aims."""
    servers = report["servers"]
    columns = " | ".join(f"{name}: /healthz p99 / most, memory | answer" for name in servers)
    lines = [f"| one request | {columns} |", "|---" * (1 + 2 * len(servers)) + "|"]
    by_row = {(row["request"], row["server"]): row for row in report["single"]}
    for name in dict.fromkeys(row["request"] for row in report["single"]):
        cells = []
        for server in servers:
            row = by_row.get((name, server))
            cells += [_cell(row), f"{row['status']} in {row['seconds']:.2f} s"] if row else ["n/a", "n/a"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _cell(row: Mapping[str, Any]) -> str:
    text = f"{number(row['p99_ms'])} / {number(row['max_ms'])} ms, {number(row['grown_bytes'] / 1e6)} MB"
    return f"**{text}**" if row["max_ms"] <= AIM_MS and row["grown_bytes"] <= AIM_BYTES else text
