"""`python -m benchmarks.millions`: two million small objects, as policy reports are: start, memory, lists, creates, a watch.

Objects are sent with 300 bytes, and ten in turn share a value of the label `group`. aggserver's are written into its store while
it is stopped, as copies of one that it has made itself, because two million creates would take half an hour; kube-apiserver's
are created, and are far fewer. After a restart each row is measured once, in the order of the table, and /healthz is asked for
meanwhile, one request after the other on a connection of its own: its longest answer shows for how long nothing else could run.
`--write-docs` writes the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import ssl
import sys
import threading
import time
import urllib.error
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aggserver.storage.sqlite import SQLiteStorage
from benchmarks.client import Access, LoadError, build, call, run_load
from benchmarks.report import BASELINE, MEASURED, Section, machine, number
from benchmarks.resident import at_rest, resident
from benchmarks.run import COLLECTION, Say, conditions, define, progress, scratch_folder, server_of, settle, show
from benchmarks.servers import REPOSITORY, Server
from tests.controlplane.binaries import BinariesError
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

__all__ = ["FIRST", "Column", "Figure", "copies", "millions_document"]

PAGE = REPOSITORY / "docs" / "benchmarks.md"
SECTION = Section("figures of millions", ".millions")
NAMESPACE = "bench"
FIRST_KEY = f"/bench.aggserver.dev/crontabs/{NAMESPACE}/obj-000000"
SIZE, IN_GROUP = 300, 10
OBJECTS, BASELINE_OBJECTS = 2_000_000, 100_000
# Writes in flight while a store is filled.
FILLING = 512
GATEWAY_TIMEOUT = 504


@dataclass(frozen=True)
class Row:
    """What is measured. flags: the load client's. is_rate: whether its figure is a rate; else seconds."""

    title: str
    flags: Mapping[str, str | int]
    is_rate: bool = False


ONE_GROUP = "group=group-000777"
WATCH: dict[str, str | int] = {"workload": "watch-list", "clients": 1, "count": 1, "events": IN_GROUP + 1, "selector": ONE_GROUP}
FIRST = Row("first list, limit=500", {})
ROWS = (
    FIRST,
    Row("list, limit=500, 4 clients", {"workload": "list-500", "clients": 4, "duration": "5s"}, is_rate=True),
    Row("list of all", {"workload": "list-all", "clients": 1, "count": 1}),
    Row(f"first watch of `{ONE_GROUP}`, until it has its {IN_GROUP} objects", WATCH),
    Row("the same watch again", WATCH),
    Row("get, 32 clients", {"workload": "get", "clients": 32, "duration": "5s"}, is_rate=True),
    Row("create, 32 clients", {"workload": "create", "clients": 32, "count": 5000, "size": SIZE, "prefix": "new"}, is_rate=True),
)
READY, AFTER_LOAD, PEAK = "start until ready", "memory after the first list", "peak of memory until the end"


@dataclass(frozen=True)
class Figure:
    """value: seconds, or a rate per second. longest: the longest answer of /healthz meanwhile, in ms."""

    value: float
    longest: float


@dataclass
class Column:
    """One server with so many objects. stored: bytes of an object. memory: bytes. figures: by title."""

    server: str
    objects: int
    stored: int = 0
    start_seconds: float = 0.0
    empty_memory: int = 0
    memory: int = 0
    peak: int = 0
    figures: dict[str, Figure] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.millions", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=OBJECTS, help=f"objects of {MEASURED} (default %(default)s)")
    parser.add_argument("--baseline-objects", type=int, default=BASELINE_OBJECTS, help="objects of both, beside each other")
    parser.add_argument("--only", choices=[BASELINE, MEASURED], help="measure only this server")
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args(arguments)
    if options.write_docs and options.only:
        parser.error("the documents are for whole runs of both servers")
    say = progress()
    wanted = [(BASELINE, options.baseline_objects), (MEASURED, options.baseline_objects), (MEASURED, options.objects)]
    if options.only == MEASURED:
        wanted = wanted[2:]
    elif options.only == BASELINE:
        wanted = wanted[:1]
    columns: list[Column] = []
    try:
        for name, objects in wanted:
            with scratch_folder() as folder:
                columns.append(_measure(folder, name, objects, say))
    except (BinariesError, LoadError, ProcessError, ToolchainError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    document = millions_document(columns, f"{machine(conditions())}, HTTP/2, SQLite.")
    show(document, PAGE, SECTION, write=options.write_docs)
    return 0


def _measure(folder: Path, name: str, objects: int, say: Say) -> Column:
    binary = build(folder, say)
    column = Column(name, objects)
    with server_of(name, folder, say) as server:
        define(server.access, [NAMESPACE])
        column.empty_memory = at_rest(server)
        if name == MEASURED:
            _first(server)
        else:
            flags: dict[str, str | int] = {"workload": "create", "clients": 32, "count": objects, "namespace": NAMESPACE}
            run_load(binary, server.access, {**flags, "size": SIZE, "in-group": IN_GROUP, "prefix": "obj"})
    if name == MEASURED:
        column.stored = asyncio.run(_fill(folder / MEASURED / "data" / "aggserver.db", objects))
    say(f"{name} has {objects:,} objects")
    with server_of(name, folder, say) as server:
        column.start_seconds = server.start_seconds
        say(f"ready after {server.start_seconds:.2f} s")
        for row in ROWS:
            settle([server])
            try:
                column.figures[row.title] = _one(binary, server, row, objects)
            except LoadError as error:
                server.check()
                column.failed[row.title] = str(error)
            say(f"{row.title}: {column.figures.get(row.title) or column.failed[row.title]}")
            if row is FIRST:
                column.memory = at_rest(server)
                say(f"memory: {column.memory / 1e6:.0f} MB, {resident(server) / 1e6:.0f} MB")
        column.peak = server.usage()[server.name].peak_bytes
    return column


def _first(server: Server) -> None:
    """The object that the others are copies of."""
    obj: dict[str, Any] = {
        "apiVersion": "bench.aggserver.dev/v1",
        "kind": "CronTab",
        "metadata": {"name": FIRST_KEY.rpartition("/")[2], "labels": {"group": "group-000000"}},
        "spec": {"cronSpec": "* * * * *", "image": "", "replicas": 1},
    }
    missing = SIZE - len(json.dumps(obj, separators=(",", ":")))
    obj["spec"]["image"] = "x" * max(missing, 1)
    call(server.access, "POST", f"/apis/bench.aggserver.dev/v1/namespaces/{NAMESPACE}/crontabs", obj)


async def _fill(path: Path, objects: int) -> int:
    """Write the copies. Returns the bytes of one."""
    store = SQLiteStorage(path, synchronous="off")
    await store.start()
    try:
        first = await store.get(FIRST_KEY)
        assert first is not None
        made = copies(FIRST_KEY, first.value, objects)

        async def write() -> None:
            for key, value in made:
                await store.create(key, value)

        await asyncio.gather(*(write() for _ in range(FILLING)))
        await store.compact(await store.revision())
    finally:
        await store.close()
    return len(first.value)


def copies(key: str, value: bytes, objects: int) -> Iterator[tuple[str, bytes]]:
    """Keys and values of the objects after the first one, which has these: with names, uids and groups of their own."""
    uid: str = json.loads(value)["metadata"]["uid"]
    for count in range(1, objects):
        own = uuid.UUID(int=uuid.UUID(uid).int + count)
        copy = value.replace(uid.encode(), str(own).encode())
        copy = copy.replace(b"obj-000000", b"obj-%06d" % count).replace(b"group-000000", b"group-%06d" % (count // IN_GROUP))
        yield key.replace("obj-000000", f"obj-{count:06}"), copy


def _first_list(server: Server) -> Figure:
    """Without the load client, which makes a list before it measures."""
    began = time.monotonic()
    with _probing(server.access) as longest:
        while True:
            try:
                call(server.access, "GET", f"{COLLECTION}?limit=500")
                break
            except urllib.error.HTTPError as error:
                # After a minute the request is over, and the loading goes on. client-go asks again, too.
                if error.code != GATEWAY_TIMEOUT:
                    raise LoadError(f"{server.name}: {error}") from error
        seconds = time.monotonic() - began
    return Figure(seconds, longest[0] * 1000)


@contextlib.contextmanager
def _probing(access: Access) -> Iterator[list[float]]:
    """Ask for /healthz, one request after the other. The longest time until an answer, in seconds, is the only element."""
    longest, over = [0.0], threading.Event()
    context = ssl.create_default_context(cafile=str(access.authority))
    context.load_cert_chain(access.certificate, access.key)
    address = urllib.parse.urlsplit(access.server)
    assert address.hostname is not None
    connection = http.client.HTTPSConnection(address.hostname, address.port, context=context)
    connection.connect()

    def probe() -> None:
        while not over.is_set():
            began = time.monotonic()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            longest[0] = max(longest[0], time.monotonic() - began)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield longest
    finally:
        over.set()
        thread.join()
        connection.close()


def _one(binary: Path, server: Server, row: Row, objects: int) -> Figure:
    if row is FIRST:
        return _first_list(server)
    flags: dict[str, str | int] = {"namespace": NAMESPACE, "objects": objects, "probe": "true", **row.flags}
    result: dict[str, Any] = run_load(binary, server.access, flags)
    return Figure(result["rate_per_second"] if row.is_rate else result["seconds"], result["probe_max_ms"])


def millions_document(columns: Sequence[Column], conditions: str) -> str:
    """The text between the markers of docs/benchmarks.md. Pure."""
    heads = [f"{column.server}, {number(column.objects)}" for column in columns]
    lines = [conditions, "", f"| what | {' | '.join(heads)} |", "|---" * (len(columns) + 1) + "|"]
    lines.append(_line(READY, [f"{column.start_seconds:.3g} s" for column in columns]))
    for row in ROWS:
        lines.append(_line(row.title, [_cell(column, row) for column in columns]))
        if row is FIRST:
            lines.append(_line(AFTER_LOAD, [f"{column.memory / 1e6:,.0f} MB" for column in columns]))
    lines.append(_line(PEAK, [f"{column.peak / 1e6:,.0f} MB" for column in columns]))
    for column in columns:
        if column.stored:
            beside = (column.memory - column.empty_memory) / column.objects - column.stored
            lines += [
                "",
                f"- {column.server}, {number(column.objects)}: an object is stored in {column.stored} bytes, and takes ",
            ]
            lines[-1] += (
                f"{beside:.0f} bytes of memory beside them; {column.empty_memory / 1e6:.0f} MB are those of an empty server."
            )
        lines += [f"- {column.server}, {number(column.objects)}: {title}: {why}" for title, why in column.failed.items()]
    return "\n".join(lines)


def _line(title: str, cells: Sequence[str]) -> str:
    return f"| {title} | {' | '.join(cells)} |"


def _cell(column: Column, row: Row) -> str:
    figure = column.figures.get(row.title)
    if figure is None:
        return "n/a"
    value = f"{figure.value:,.0f}/s" if row.is_rate else f"{figure.value:.3g} s"
    return f"{value} ({figure.longest:,.0f} ms)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
