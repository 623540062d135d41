"""`python -m benchmarks.encodings`: how much YAML and Tables delay other requests, compared with kube-apiserver.

Both servers have the same list of about 14 MB. They serve it in turns as YAML, as a Table and as metadata, first to one client
and then to many at once, and then creates with YAML bodies. Meanwhile /healthz is requested continuously, on another connection.
The figure is the longest time of a request to /healthz, and every response must succeed.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from benchmarks.client import Access, LoadError, call
from benchmarks.report import number
from benchmarks.run import COLLECTION, Say, define, memory, progress, scratch_folder
from benchmarks.servers import Aggserver, KubeApiserver, Server
from tests.controlplane.binaries import BinariesError, obtain
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

NAMESPACE = "encodings"
PLACE = f"/apis/bench.aggserver.dev/v1/namespaces/{NAMESPACE}/crontabs"

# Objects of 14 KB as JSON: 1,000 of them are the list of 14 MB.
OBJECTS = 1000
NOTES = 100
NOTE = "Every five minutes, if need be: what is due is done, what is not due waits"

# A body of 43 KB, and how many of them are created.
BODY_NOTES = 300
BODIES = 60

# Number of clients that request the whole list at once, and the timeout of a response, in seconds.
AT_ONCE = 10
PATIENCE = 120.0

# Seconds between two requests to /healthz.
PULSE = 0.005

FORMS = {
    "list as YAML": "application/yaml",
    "list as a Table": "application/json;as=Table;g=meta.k8s.io;v=v1",
    "list of metadata": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
}


@dataclass(frozen=True)
class Figure:
    """answers: their number. seconds: until the last one was complete. healthz: (median, worst) in ms. grown: bytes of memory."""

    work: str
    server: str
    answers: int
    seconds: float
    healthz: tuple[float, float]
    grown: int


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encodings", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=OBJECTS, help=f"objects of 14 KB in the list (default {OBJECTS})")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help=f"clients that ask at the same time (default {AT_ONCE})")
    options = parser.parse_args(arguments)
    try:
        print(table(_measure(options.objects, options.at_once, progress())))
    except (LoadError, ProcessError, BinariesError, ToolchainError, OSError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    return 0


def table(figures: Sequence[Figure]) -> str:
    """The figures as Markdown."""
    lines = [
        "| work | server | answers | seconds | /healthz median ms | worst ms | memory grew by |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in figures:
        median, worst = (number(value) for value in each.healthz)
        grown = f"{number(each.grown / 1e6)} MB"
        lines.append(f"| {each.work} | {each.server} | {each.answers} | {each.seconds:.2f} | {median} | {worst} | {grown} |")
    return "\n".join(lines)


def _measure(objects: int, at_once: int, say: Say) -> list[Figure]:
    figures: list[Figure] = []
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        servers: list[Server] = [KubeApiserver(obtain(os.environ, say), folder / "upstream"), Aggserver(folder / "aggserver")]
        for server in servers:
            stack.enter_context(server)
            define(server.access, [NAMESPACE])
            _fill(server.access, objects)
            say(f"{server.name} has {objects} objects")
        for work, jobs in _works(at_once).items():
            for server in servers:
                figures.append(_figure(work, server, jobs))
                say(table(figures[-1:]).splitlines()[-1])
    return figures


Job = Callable[["Connection"], None]


def _works(at_once: int) -> dict[str, list[Job]]:
    works: dict[str, list[Job]] = {"nothing": [lambda _: time.sleep(1)]}
    for name, accept in FORMS.items():
        works[name] = [_asks_for(accept)]
        works[f"{name}, {at_once} at once"] = [_asks_for(accept)] * at_once
    works[f"{BODIES} creates of 43 KB as YAML"] = [_creates]
    return works


def _asks_for(accept: str) -> Job:
    def ask(connection: Connection) -> None:
        connection.ask("GET", COLLECTION, {"Accept": accept})

    return ask


def _creates(connection: Connection) -> None:
    for index in range(BODIES):
        tree = _crontab(f"body-{time.time_ns()}-{index}", BODY_NOTES)
        # Indented JSON without quotes around keys is YAML as users write it, and can be written without a library.
        lines = [f"apiVersion: {tree['apiVersion']}", f"kind: {tree['kind']}", "metadata:", f"  name: {tree['metadata']['name']}"]
        lines += ["  annotations:", *(f"    {key}: {json.dumps(note)}" for key, note in tree["metadata"]["annotations"].items())]
        lines += ["spec:", *(f"  {key}: {json.dumps(value)}" for key, value in tree["spec"].items())]
        body = "\n".join(lines).encode()
        connection.ask("POST", f"{PLACE}?fieldValidation=Strict", {"Content-Type": "application/yaml"}, body)


def _crontab(name: str, notes: int) -> dict[str, Any]:
    annotations = {f"note-{index:03}": f"{NOTE} ({index} of {name})" for index in range(notes)}
    spec = {"cronSpec": "*/5 * * * *", "image": "registry.example.com/team/crontab:1.4.2", "replicas": 3}
    return {
        "apiVersion": "bench.aggserver.dev/v1",
        "kind": "CronTab",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }


def _fill(access: Access, objects: int) -> None:
    def create(index: int) -> None:
        call(access, "POST", PLACE, _crontab(f"crontab-{index:05}", NOTES))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, range(objects)))


def _figure(work: str, server: Server, jobs: Sequence[Job]) -> Figure:
    server.check()
    before = sum(memory(server).values())
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(Connection(server.access)) for _ in jobs]
        pulse = stack.enter_context(_pulse(server.access))
        began = time.monotonic()
        with ThreadPoolExecutor(len(jobs)) as pool:
            list(pool.map(lambda pair: pair[0](pair[1]), zip(jobs, connections, strict=True)))
        seconds = time.monotonic() - began
        answers = sum(connection.answers for connection in connections)
        taken = sorted(pulse) or [0.0]
    grown = max(0, sum(memory(server).values()) - before)
    return Figure(work, server.name, answers, seconds, (taken[len(taken) // 2], taken[-1]), grown)


class Connection:
    """One HTTP/1.1 connection, which reads responses and discards them."""

    def __init__(self, access: Access) -> None:
        context = ssl.create_default_context(cafile=str(access.authority))
        context.load_cert_chain(access.certificate, access.key)
        address = urlsplit(access.server)
        self._http = http.client.HTTPSConnection(address.hostname or "", address.port, timeout=PATIENCE, context=context)
        self.answers = 0

    def __enter__(self) -> Connection:
        self._http.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> None:
        """Send a request and read the response. Raises LoadError if it is not 2xx."""
        self._http.request(method, path, body, headers)
        answer = self._http.getresponse()
        while chunk := answer.read(1 << 20):
            last = chunk
        if answer.status >= 300:
            raise LoadError(f"{method} {path}: {answer.status}: {last[:200]!r}")
        self.answers += 1


@contextlib.contextmanager
def _pulse(access: Access) -> Iterator[list[float]]:
    """Request /healthz until the block ends; the list gets the time of each request, in ms."""
    taken: list[float] = []
    over = threading.Event()

    def ask() -> None:
        with Connection(access) as connection:
            while not over.wait(PULSE):
                began = time.perf_counter()
                connection.ask("GET", "/healthz", {})
                taken.append((time.perf_counter() - began) * 1e3)

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            yield taken
        finally:
            over.set()
            asking.result()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
