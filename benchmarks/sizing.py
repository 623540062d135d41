"""`python -m benchmarks.sizing`: memory of objects, watches, connections, definitions, and CPU time of requests.

For docs/sizing.md, from which the requests and limits of the Deployment follow. One standalone server with SQLite. Each figure is
a difference: resident memory at rest after so many of a thing, less that before, divided by their number; CPU time of all threads
of the process in the same way, which depends less on what else the machine does than the time. `--write-docs` writes the tables.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import ssl
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived

from benchmarks.client import Access, LoadError, build, call, run_load
from benchmarks.report import Section, machine, number
from benchmarks.resident import at_rest
from benchmarks.run import COLLECTION, Say, conditions, define, progress, scratch_folder, settle, show
from benchmarks.servers import REPOSITORY, Aggserver
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

__all__ = ["BUSY", "FULL", "PAGE", "Costs", "cpu_of", "memory_of", "sizing_document"]

PAGE = REPOSITORY / "docs" / "sizing.md"
SECTION = Section("figures of sizing", ".sizing")
NAMESPACE = "bench"
FIRST = f"/apis/bench.aggserver.dev/v1/namespaces/{NAMESPACE}/crontabs/obj-000000"
SIZES = (330, 3330)  # bytes as sent: the server adds some 670
OBJECTS = 20_000
CONNECTIONS, STREAMS = 20, 100
DEFINITIONS = 200
WATCHERS, EVENTS = 100, 1000
READ = 1 << 20


@dataclass(frozen=True)
class Request:
    """What the load client does `count` times, `objects` each."""

    title: str
    workload: str
    count: int
    objects: int = 1


REQUESTS = (
    Request("get", "get", 10_000),
    Request("create, 1 KB", "create", 5_000),
    Request("merge patch", "merge-patch", 5_000),
    Request("apply", "apply", 5_000),
    Request("page of a list, 500 objects of 1 KB", "list-500", 200),
    Request("page as kubectl shows it (Table, 500 rows)", "table-500", 200),
)


PROGRAM, SMALL, LARGE = (
    "the program, with nothing stored",
    "an object of 1 KB, its bytes included",
    "an object of 4 KB, its bytes included",
)
CONNECTION, WATCH = "an idle connection, HTTP/1.1", "a watch, one of 100 on its connection"
USED = "a definition of 40 fields, listed, and in /openapi/v2"
EVENT = "an event for one of 100 watches that all have it"
# What the requests of the Deployment are for: so many of each, and so many of each in a second.
FULL = {PROGRAM: 1, LARGE: 20_000, USED: 200, WATCH: 1_000, CONNECTION: 200}
BUSY = {
    "get": 300,
    "create, 1 KB": 50,
    "merge patch": 50,
    "page of a list, 500 objects of 1 KB": 10,
    EVENT: 5_000,
    "watch begins": 10,
}
WINDOW = 16 << 20  # of the last changes: storage/changes.py


@dataclass(frozen=True)
class Costs:
    """memory: title to bytes. cpu: title to seconds."""

    memory: dict[str, float]
    cpu: dict[str, float]


def memory_of(costs: Costs) -> float:
    """Bytes that FULL takes, with the window of one resource."""
    return WINDOW + sum(costs.memory[title] * count for title, count in FULL.items())


def cpu_of(costs: Costs) -> float:
    """Seconds of CPU time that BUSY takes each second."""
    return sum(costs.cpu[title] * count for title, count in BUSY.items())


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args(arguments)
    say = progress()
    try:
        with scratch_folder() as folder:
            costs = _measure(folder, say)
    except (LoadError, ProcessError, ToolchainError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    document = sizing_document(costs, f"{machine(conditions(), alone=True)}, HTTP/2, SQLite.")
    show(document, PAGE, SECTION, write=options.write_docs)
    return 0


def sizing_document(costs: Costs, head: str) -> str:
    memory = [
        f"| {title} | {_bytes(value)} | {f'{FULL[title]:,}' if title in FULL else ''} |" for title, value in costs.memory.items()
    ]
    cpu = [
        f"| {title} | {_seconds(value)} | {f'{BUSY[title]:,}' if title in BUSY else ''} |" for title, value in costs.cpu.items()
    ]
    full = f"| the window of the last changes of a resource | {_bytes(WINDOW)} | 1 |"
    sums = (
        f"| **those of the last column** | **{_bytes(memory_of(costs))}** | |",
        f"| **in a second** | **{_seconds(cpu_of(costs))}** | |",
    )
    heads = (
        ["| memory of | | requests hold |", "|---|---|---|"],
        ["| CPU time of | | requests hold, each second |", "|---|---|---|"],
    )
    return "\n".join([head, "", *heads[0], *memory, full, sums[0], "", *heads[1], *cpu, sums[1]])


def _bytes(value: float) -> str:
    return f"{number(value / 1e6)} MB" if value >= 1e6 else f"{number(value / 1e3)} KB" if value >= 1e3 else f"{value:.0f} bytes"


def _seconds(value: float) -> str:
    return f"{number(value * 1e3)} ms" if value >= 1e-3 else f"{number(value * 1e6)} µs"


def _measure(folder: Path, say: Say) -> Costs:
    binary = build(folder, say)
    costs = Costs({PROGRAM: 0.0}, {})
    _connections(folder, costs, say)
    for size in SIZES:
        with Aggserver(folder / f"aggserver-{size}") as server:
            define(server.access, [NAMESPACE])
            empty = at_rest(server)
            costs.memory[PROGRAM] = empty
            load: dict[str, str | int] = {"workload": "create", "clients": 32, "count": OBJECTS, "size": size}
            run_load(binary, server.access, load)
            grown = at_rest(server)
            say(f"{OBJECTS} objects, {size} bytes as sent: {grown - empty} bytes more")
            if size == SIZES[-1]:
                continue
            _requests(binary, server, costs, say)
            _definitions(server, costs, say)
    # After a restart and a list nothing but the objects is there.
    more = sum(request.count for request in REQUESTS if request.workload == "create") + EVENTS
    for title, size, objects in ((SMALL, SIZES[0], OBJECTS + more), (LARGE, SIZES[1], OBJECTS)):
        with Aggserver(folder / f"aggserver-{size}") as server:
            before = at_rest(server)
            run_load(binary, server.access, {"workload": "list-500", "clients": 1, "count": 1})
            costs.memory[title] = (at_rest(server) - before) / objects
            stored = len(call(server.access, "GET", FIRST))
            say(f"{title}: {costs.memory[title]:.0f} bytes, {costs.memory[title] - stored:.0f} beyond its own")
            costs.memory[f"{title.partition(',')[0]}, beyond its {stored:,} bytes"] = costs.memory[title] - stored
    return costs


def _connections(folder: Path, costs: Costs, say: Say) -> None:
    """Connections that have had one answer, and watches, many on few: on servers of their own, without memory to reuse."""
    for number_of, (title, protocol, count, streams, watches) in enumerate(
        (
            (CONNECTION, "http/1.1", CONNECTIONS * 20, 1, False),
            ("an idle connection, HTTP/2", "h2", CONNECTIONS * 20, 1, False),
            (WATCH, "h2", CONNECTIONS, STREAMS, True),
        )
    ):
        with Aggserver(folder / f"connections-{number_of}") as server:
            define(server.access, [NAMESPACE])
            call(server.access, "GET", COLLECTION)
            before, used = at_rest(server), _used(server)
            with _held(server.access, protocol, count, streams, watches=watches):
                settle([server])
                cpu = (_used(server) - used) / (count * streams)
                costs.cpu["watch begins" if watches else f"new connection (TLS 1.3) with its first request, {protocol}"] = cpu
                costs.memory[title] = (at_rest(server) - before) / (count * streams)
        say(f"{title}: {costs.memory[title]:.0f} bytes")


def _requests(binary: Path, server: Aggserver, costs: Costs, say: Say) -> None:
    for request in REQUESTS:
        used = _used(server)
        flags: dict[str, str | int] = {"workload": request.workload, "count": request.count, "objects": OBJECTS, "clients": 16}
        run_load(binary, server.access, flags | {"size": SIZES[0], "prefix": "new" if request.workload == "create" else "obj"})
        settle([server])
        costs.cpu[request.title] = (_used(server) - used) / request.count
        say(f"{request.title}: {costs.cpu[request.title] * 1e6:.0f} µs")
    used = _used(server)
    run_load(
        binary, server.access, {"workload": "watch", "count": EVENTS, "watchers": WATCHERS, "size": SIZES[0], "prefix": "seen"}
    )
    settle([server])
    told = _used(server) - used - EVENTS * costs.cpu["create, 1 KB"]
    costs.cpu[EVENT] = told / (EVENTS * WATCHERS)


def _definitions(server: Aggserver, costs: Costs, say: Say) -> None:
    before, used = at_rest(server), _used(server)
    for number_of in range(DEFINITIONS):
        names = {"plural": f"things{number_of}", "singular": f"thing{number_of}", "kind": f"Thing{number_of}"}
        schema = {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {f"field{each}": {"type": "string", "maxLength": 64} for each in range(40)},
                }
            },
        }
        spec = {
            "group": "many.aggserver.dev",
            "scope": "Namespaced",
            "names": {**names, "listKind": f"{names['kind']}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        }
        head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        metadata = {"name": f"{names['plural']}.many.aggserver.dev"}
        made = {**head, "metadata": metadata, "spec": spec}
        call(server.access, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", made)
    settle([server])
    costs.cpu["new definition of 40 fields"] = (_used(server) - used) / DEFINITIONS
    costs.memory["a definition of 40 fields, that nobody uses"] = (at_rest(server) - before) / DEFINITIONS
    for number_of in range(DEFINITIONS):
        call(server.access, "GET", f"/apis/many.aggserver.dev/v1/things{number_of}")
    call(server.access, "GET", "/openapi/v2")
    costs.memory[USED] = (at_rest(server) - before) / DEFINITIONS
    say(f"{DEFINITIONS} definitions are there")


def _used(server: Aggserver) -> float:
    return server.usage()[server.name].cpu_seconds


@contextlib.contextmanager
def _held(access: Access, protocol: str, count: int, streams: int, *, watches: bool) -> Iterator[None]:
    """So many connections, each with so many requests whose answers have begun."""
    address = urlsplit(access.server)
    context = ssl.create_default_context(cafile=str(access.authority))
    context.load_cert_chain(access.certificate, access.key)
    context.set_alpn_protocols([protocol])
    watch = f"{COLLECTION}?watch=1&resourceVersion=0&fieldSelector=metadata.name=nobody&allowWatchBookmarks=true"
    path = watch if watches else "/healthz"
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            plain = socket.create_connection((address.hostname or "", address.port or 443))
            connection = stack.enter_context(context.wrap_socket(plain, server_hostname=address.hostname))
            if protocol == "h2":
                _ask(connection, address.netloc, path, streams)
            else:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
                assert connection.recv(READ).startswith(b"HTTP/1.1 200")
        yield


def _ask(connection: ssl.SSLSocket, authority: str, path: str, streams: int) -> None:
    http2 = H2Connection(H2Configuration(client_side=True))
    http2.initiate_connection()
    head = [(":method", "GET"), (":path", path), (":scheme", "https"), (":authority", authority)]
    for number_of in range(streams):
        http2.send_headers(2 * number_of + 1, head, end_stream=True)
    connection.sendall(http2.data_to_send())
    begun: set[int] = set()
    while len(begun) < streams:
        for event in http2.receive_data(connection.recv(READ)):
            if isinstance(event, ResponseReceived):
                assert (b":status", b"200") in event.headers
                begun.add(event.stream_id or 0)
            elif isinstance(event, DataReceived):
                http2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        connection.sendall(http2.data_to_send())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
